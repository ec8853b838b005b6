"""Example cases: rejected sentences, proofs, leftover words and triangular evidence.

They correspond to tables 13 (proofs), 12 (leftover words) and 15 (triangular evidence) of Zeng et al. The texts come
from models and data, so they are untrusted and shown as plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_llmprops.benchmarks.oracle.dependence import KINDS
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairEvidence
from pytest_llmprops.benchmarks.oracle.report.figures import loss_map
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Table, counted
from pytest_llmprops.reports.kit.series import Measured, Series

#: maximum cases per kind and model
MOST = 5
#: maximum characters of one text
_LONG = 400
#: categories of table 5 in which the paraphrase of a test is indifferentiable
_INDIFFERENTIABLE = ("AI", "ĀI")
Row = tuple[Cell, ...]
_PAIR = (("Item", False), ("Model", False), ("Sentence 1", False), ("Sentence 2", False))


#: answers -> title, further columns and note of their table
_PAIR_TABLES = {
    YES: (
        "Proofs (Table 13)",
        ("Phrases that the model calls equivalent",),
        "Accepted answers of yes. Phrases with the same words are not listed if the model was not asked about them.",
    ),
    "leftover": ("Leftover words (Table 12)", ("Not covered by an alignment",), "Rejected answers of yes."),
    NO: (
        "Triangular evidence (Table 15)",
        ("Paraphrase, said to be equivalent to both", "Indifferentiable"),
        (
            "Rejected answers of no: the model calls the two sentences not equivalent, and its own paraphrase of one of"
            " them equivalent to both."
        ),
    ),
}


def linearity_cases(measured: Measured) -> list[Block]:
    """Return the kinds of entities that break linearity, and some rejected sentences."""
    kinds: list[Row] = []
    rows: list[Row] = []
    maps: list[Figure] = []
    for s in measured.series:
        rejected = [
            (record, SentenceEvidence.from_json(record.evidence))
            for record in measured.first_samples(s, [LINEARITY])
            if record.status == "wrong"
        ]
        known = [evidence for record, evidence in rejected if record.evidence]
        if rejected:
            counts_by_kind = Counter(
                kind for one in known for kind in {k for c in one.culprits for k in c.kinds}
            )
            counts = [
                Cell(f"{counts_by_kind[kind]:,}", counts_by_kind[kind]) if known else Cell("–")
                for kind in KINDS
            ]
            kinds.append((Cell(s.starred), Cell(f"{len(rejected):,}", len(rejected)), *counts))
        for record, evidence in rejected[:MOST]:
            texts = (_text(evidence.sentence), _text(record.reason))
            rows.append((Cell(visible(record.id)), Cell(s.starred), *texts))
            if len(evidence.losses) > 1:
                maps.append(_map(s, record, evidence, len(maps)))
    if not rows:
        return []
    kinds_columns = (
        ("Model", False),
        ("Rejected sentences", True),
        *((kind.capitalize(), True) for kind in KINDS),
    )
    columns = (("Item", False), ("Model", False), ("Sentence", False), ("Why", False))
    return [
        Table(
            "Why sentences are rejected",
            kinds_columns,
            tuple(kinds),
            "Rejected sentences with at least one entity of the kind (appendix A.3). An entity may be of several"
            " kinds.",
        ),
        Fold("Some rejected sentences", (Table("Rejected sentences", columns, tuple(rows)), *maps)),
    ]


def _map(s: Series, record: VerdictRecord, evidence: SentenceEvidence, number: int) -> Figure:
    """Return the map of a rejected sentence."""
    name = visible(record.id)
    return Figure(
        f"oracle-losses-{number}",
        f"Noise or dependence: {s.starred}, {name}",
        f"How often each entity of {name} is lost, by which other entity is replaced.",
        lambda: loss_map(evidence.losses),
        "A row is an entity that is lost, a column one that is replaced. Numbers are changes of the loss in percentage"
        " points, at the same state of the entity itself; empty: no such sentences. A frame: this entity explains the"
        " losses alone.",
    )


def pair_cases(measured: Measured) -> list[Block]:
    """Return proofs with their phrases, failed proofs with leftover words, and rejected "no" with the paraphrase."""
    notes: list[Block] = []
    tables: dict[str, list[Row]] = {YES: [], "leftover": [], NO: []}
    for s in measured.series:
        records = [r for r in measured.first_samples(s, [YES, NO]) if r.status in ("correct", "wrong")]
        missing = sum(not record.evidence for record in records)
        if missing:
            notes.append(
                Note(
                    f"{s.starred}: the record lacks the evidence of {counted(missing, 'pair')} (records of schema 1"
                    " have none), so their sentences, proofs and paraphrases cannot be shown.",
                    "warn",
                )
            )
        pairs = [(r, PairEvidence.from_json(r.evidence)) for r in records]
        tables[YES] += _proofs(s, [pair for pair in pairs if pair[0].task == YES])
        tables["leftover"] += _leftovers(s, [pair for pair in pairs if pair[0].task == YES])
        tables[NO] += _triangles(s, [pair for pair in pairs if pair[0].task == NO])
    blocks = [
        Table(title, (*_PAIR, *((head, False) for head in heads)), tuple(tables[key]), note)
        for key, (title, heads, note) in _PAIR_TABLES.items()
        if tables[key]
    ]
    return [*notes, *([Fold("Some cases", tuple(blocks))] if blocks else [])]


Pairs = Sequence[tuple[VerdictRecord, PairEvidence]]


def _proofs(s: Series, pairs: Pairs) -> list[Row]:
    rows = []
    for record, evidence in pairs:
        confirmed = evidence.proof.confirmed if evidence.proof is not None else ()
        if record.status == "correct" and confirmed:
            # Phrases with the same words prove little, so proofs with more different phrases come first.
            weight = sum(p.first.casefold() != p.second.casefold() for p in confirmed)
            lines = "; ".join(f"“{p.first}” = “{p.second}”" for p in confirmed)
            rows.append((weight, _row(s, record, evidence, lines)))
    rows.sort(key=lambda pair: -pair[0])
    return [row for _, row in rows[:MOST]]


def _leftovers(s: Series, pairs: Pairs) -> list[Row]:
    rows = []
    for record, evidence in pairs:
        proof = evidence.proof
        if record.status == "wrong" and proof is not None and not proof.missing:
            refused = (f"“{p.first}” ≠ “{p.second}”" for p in proof.refused)
            text = "; ".join((proof.uncovered, *refused))
            rows.append(((len(proof.uncovered), record.id), _row(s, record, evidence, text)))
    rows.sort(key=lambda pair: pair[0])
    return [row for _, row in rows[:MOST]]


def _triangles(s: Series, pairs: Pairs) -> list[Row]:
    rows: list[Row] = []
    for record, evidence in pairs:
        test = next((test for test in evidence.tests if test.outcome == "triangular"), None)
        if evidence.trust == "triangular" and test is not None:
            seen = "yes" if evidence.category in _INDIFFERENTIABLE else "no"
            text = f"of sentence {test.source}: {test.paraphrase}"
            rows.append(
                (*_row(s, record, evidence, text), Cell(seen if evidence.category else "not searched for"))
            )
    return rows[:MOST]


def _row(s: Series, record: VerdictRecord, evidence: PairEvidence, text: str) -> Row:
    return (
        Cell(visible(record.id)),
        Cell(s.starred),
        _text(evidence.first),
        _text(evidence.second),
        _text(text, 4 * _LONG),
    )


def _text(text: str, most: int = _LONG) -> Cell:
    return Cell(one_line(text, most) or "–")
