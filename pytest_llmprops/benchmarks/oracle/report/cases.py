"""Example cases: rejected sentences by cause, disagreements with the labels, and what decided on answers about pairs.

They correspond to figures 8 and 9 and tables 6 to 15 of Zeng et al. The texts come from models and data, so they are
untrusted and shown as plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.dependence import KINDS, Kind
from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES
from pytest_llmprops.benchmarks.oracle.linearity_evidence import CulpritEvidence, SentenceEvidence
from pytest_llmprops.benchmarks.oracle.metric_names import OWN
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairEvidence, ProofEvidence, TrustTestEvidence
from pytest_llmprops.benchmarks.oracle.report.figures import loss_map
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.texts import one_line, unicode_words, visible
from pytest_llmprops.core.verdicts import object_in, objects_in, text_in, texts_in
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Table, counted
from pytest_llmprops.reports.kit.series import Measured, Series

#: maximum cases per kind and model
MOST = 5
#: maximum characters of one text
_LONG = 400
#: categories of table 5 in which the paraphrase of a test is indifferentiable
_INDIFFERENTIABLE = ("AI", "ĀI")
Row = tuple[Cell, ...]
_PAIR = ("Sentence 1", "Sentence 2")
_DISAGREEMENT = ("Words of one sentence only", "The model's explanation", "Checker")


#: key -> title, further columns and note of a table of pairs
_PAIR_TABLES = {
    "table 9": (
        "Yes, labelled no: one sentence adds words (Table 9)",
        _DISAGREEMENT,
        "One sentence has more than twice as many words of its own as the other one.",
    ),
    "table 10": (
        "No, labelled yes (Table 10)",
        _DISAGREEMENT,
        "In the paper's examples, both sentences have words of their own.",
    ),
    "table 11": (
        "Yes, labelled no: both sentences differ (Table 11)",
        _DISAGREEMENT,
        "Neither sentence has more than twice as many words of its own as the other one.",
    ),
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


#: kind of culprit -> title and note of its table. ``dependence`` has the counts by which culprits get their kinds.
_KIND_TABLES: dict[Kind, tuple[str, str]] = {
    "multi-form": (
        "Forms of an entity (figure 8, Table 8)",
        "The model gives a longer or shorter form in place of the entity or its replacement.",
    ),
    "weak": (
        "Weak entities (figure 9)",
        "The entity or its replacement is in some of the replies about a sentence, but not in nearly all.",
    ),
    "synonym fault": (
        "Synonyms that cause a failure (Table 6)",
        "The entity is extracted from every sentence that has it, its replacement is not.",
    ),
    "assumed knowledge": (
        "Assumed knowledge (Table 7)",
        (
            "The entity is extracted or not, depending on other entities of the sentence. The paper's example is an"
            " entity that is not in the sentence. Such entities are not replaced here, so they reject no sentence."
        ),
    ),
}


def linearity_cases(measured: Measured) -> list[Block]:
    """Return the kinds of entities that break linearity, and some rejected sentences of each kind."""
    counts: list[Row] = []
    rows: dict[str, list[Row]] = {kind: [] for kind in _KIND_TABLES}
    others: list[Row] = []
    maps: list[Figure] = []
    for s in measured.series:
        rejected = [
            (record, SentenceEvidence.from_json(record.evidence))
            for record in measured.first_samples(s, [LINEARITY])
            if record.status == "wrong"
        ]
        known = [evidence for record, evidence in rejected if record.evidence]
        if rejected:
            by_kind = Counter(kind for one in known for kind in {k for c in one.culprits for k in c.kinds})
            cells = [Cell(f"{by_kind[kind]:,}", by_kind[kind]) if known else Cell("–") for kind in KINDS]
            counts.append((Cell(s.starred), Cell(f"{len(rejected):,}", len(rejected)), *cells))
        for kind in _KIND_TABLES:
            # Each sentence is shown once, with the first of its entities of the kind.
            found = [
                (record, evidence, culprit)
                for record, evidence in rejected
                for culprit in [c for c in evidence.culprits if kind in c.kinds][:1]
            ]
            rows[kind] += [_culprit_row(s, *one, kind) for one in found[:MOST]]
        unsorted = [
            (record, evidence)
            for record, evidence in rejected
            if not any(_KIND_TABLES.keys() & set(c.kinds) for c in evidence.culprits)
        ]
        others += [
            (*_case(s, record), _text(evidence.sentence), _text(record.reason))
            for record, evidence in unsorted[:MOST]
        ]
        with_losses = [one for one in rejected if len(one[1].losses) > 1]
        maps += [_map(s, *one, number) for number, one in enumerate(with_losses[:MOST], start=len(maps))]
    if not counts:
        return []
    tables = [
        _examples(title, _culprit_heads(kind), rows[kind], note)
        for kind, (title, note) in _KIND_TABLES.items()
    ]
    tables.append(
        _examples(
            "Other rejected sentences",
            ("Sentence", "Why"),
            others,
            "No entity of the sentence is of one of the kinds above, or the record has no evidence.",
        )
    )
    heads = (("Model", False), ("Rejected sentences", True), *((kind.capitalize(), True) for kind in KINDS))
    return [
        Table(
            "Why sentences are rejected",
            heads,
            tuple(counts),
            "Rejected sentences with at least one entity of the kind (appendix A.3). The kinds follow from counts of"
            " replies, and an entity may be of several kinds. The paper sorted its examples by hand.",
        ),
        Fold("Some rejected sentences", (*(table for table in tables if table.rows), *maps)),
    ]


def _case(s: Series, record: VerdictRecord) -> Row:
    return Cell(visible(record.id)), Cell(s.starred)


def _examples(title: str, heads: Sequence[str], rows: Sequence[Row], note: str) -> Table:
    """Return a table of examples, which begins with item and model."""
    columns = tuple((head, False) for head in ("Item", "Model", *heads))
    return Table(title, columns, tuple(rows), note)


def _culprit_heads(kind: Kind) -> tuple[str, ...]:
    two = ("Sentences and entities",) if kind == "assumed knowledge" else ("Sentence",)
    return (*two, "Entity", "Replacement", "Why")


def _culprit_row(
    s: Series, record: VerdictRecord, evidence: SentenceEvidence, culprit: CulpritEvidence, kind: Kind
) -> Row:
    text = _two_extractions(evidence, culprit) if kind == "assumed knowledge" else evidence.sentence
    texts = (text, culprit.name, culprit.synonym, culprit.why)
    return (*_case(s, record), *(_text(one, 2 * _LONG) for one in texts))


def _two_extractions(evidence: SentenceEvidence, culprit: CulpritEvidence) -> str:
    """Return a sentence from which the entity is extracted, and one with the entity from which it is not (table 7)."""
    key = normalised(culprit.name)
    parts = [object_in(test, name) for test in evidence.tests for name in ("x", "y", "x+y")]
    both: dict[bool, str] = {}
    for part in parts:
        sentence, names = text_in(part, "sentence"), texts_in(part, "entities")
        if contains_words(normalised(sentence), key):
            both.setdefault(key in map(normalised, names), f"{sentence} → [{', '.join(names)}]")
    return " / ".join(both[is_extracted] for is_extracted in (True, False) if is_extracted in both)


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
    """Return disagreements with the labels, proofs, failed proofs with leftover words, and rejected "no"."""
    notes: list[Block] = []
    disagreements: list[Row] = []
    tables: dict[str, list[Row]] = {key: [] for key in _PAIR_TABLES}
    for s in measured.series:
        records = measured.first_samples(s, [YES, NO])
        decided = [r for r in records if r.status in ("correct", "wrong")]
        missing = sum(not record.evidence for record in decided)
        if missing:
            notes.append(
                Note(
                    f"{s.starred}: the record lacks the evidence of {counted(missing, 'pair')} (records of schema 1"
                    " have none), so their sentences, proofs and paraphrases cannot be shown.",
                    "warn",
                )
            )
        pairs = [(r, PairEvidence.from_json(r.evidence)) for r in decided]
        tables[YES] += _proofs(s, [pair for pair in pairs if pair[0].task == YES])
        tables["leftover"] += _leftovers(s, [pair for pair in pairs if pair[0].task == YES])
        tables[NO] += _triangles(s, [pair for pair in pairs if pair[0].task == NO])
        kinds = _disagreements(s, [r for r in records if r.evidence])
        for key, rows in kinds.items():
            tables[key] += [row for row, _ in rows[:MOST]]
        if any(kinds.values()):
            disagreements.append((Cell(s.starred), *_counts_of(kinds)))
    blocks = [
        _examples(title, (*_PAIR, *heads), tables[key], note)
        for key, (title, heads, note) in _PAIR_TABLES.items()
        if tables[key]
    ]
    if disagreements:
        blocks.insert(0, _disagreement_table(disagreements))
    return [*notes, *([Fold("Some cases", tuple(blocks))] if blocks else [])]


# Answers that differ from the label. The paper sorts seven examples by hand, by where the "major differences in
# wording" are (appendix B.2). This project counts words instead, and its rule puts each of the seven where the paper
# has it.


def own_words(first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the words that each of two texts has more often than the other, folded, in their order."""
    one, two = unicode_words(first), unicode_words(second)
    return _more_often(one, two), _more_often(two, one)


def _more_often(words: Sequence[str], others: Sequence[str]) -> list[str]:
    left, kept = Counter(others), []
    for word in words:
        if left[word]:
            left[word] -= 1
        else:
            kept.append(word)
    return kept


def adds_words(first: str, second: str) -> bool:
    """Return True if one text has more than twice as many words of its own as the other one."""
    few, many = sorted(map(len, own_words(first, second)))
    return 2 * few < many


def _disagreements(s: Series, records: Sequence[VerdictRecord]) -> dict[str, list[tuple[Row, bool]]]:
    """Return the rows of tables 9 to 11, each with whether one sentence adds words, by table."""
    rows: dict[str, list[tuple[Row, bool]]] = {"table 9": [], "table 10": [], "table 11": []}
    for record in records:
        said, label = (record.values.get(name, -1) for name in ("said_yes", "label"))
        if said < 0 or label < 0 or said == label:
            continue
        evidence = PairEvidence.from_json(record.evidence)
        adds = adds_words(evidence.first, evidence.second)
        key = "table 10" if label else "table 9" if adds else "table 11"
        parts = enumerate(own_words(evidence.first, evidence.second), start=1)
        words = ", ".join(f"s{number}: {{ {' '.join(own)} }}" for number, own in parts if own)
        further = (_text(words), _text(evidence.explanation), Cell(visible(record.given)))
        rows[key].append(
            ((*_case(s, record), *map(_text, (evidence.first, evidence.second)), *further), adds)
        )
    return rows


def _counts_of(kinds: Mapping[str, Sequence[tuple[Row, bool]]]) -> Row:
    yes = [len(kinds[key]) for key in ("table 9", "table 11")]
    no = [sum(adds is one_sided for _, adds in kinds["table 10"]) for one_sided in (True, False)]
    return tuple(Cell(f"{count:,}", count) for count in (*yes, *no))


def _disagreement_table(rows: Sequence[Row]) -> Table:
    names = [
        f"{answer}: {kind}"
        for answer in ("Yes, labelled no", "No, labelled yes")
        for kind in ("one sentence adds words", "both differ")
    ]
    return Table(
        "Answers that differ from the label (Tables 9 to 11)",
        (("Model", False), *((name, True) for name in names)),
        tuple(rows),
        "Numbers of pairs. One sentence adds words if it has more than twice as many words of its own as the other one."
        " The paper sorts its seven examples by hand; this rule sorts them alike.",
    )


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


# Own paraphrases that the model calls not equivalent, with the attempt to prove the opposite (table 14, B.3.3).

_TRUST = {
    "accepted": "accepted",
    "triangular": "rejected: triangular evidence",
    "inconsistent": "rejected: contradicts its paraphrase",
    "unreadable": "an answer cannot be read",
    "untested": "no paraphrase to test it with",
}


def denied_paraphrases(measured: Measured) -> list[Table]:
    """Return the table of denied own paraphrases; none if there are none, or if the record has no evidence."""
    rows: list[Row] = []
    for s in measured.series:
        denied = [r for r in measured.first_samples(s, [OWN]) if r.values.get("said_yes") == 0 and r.evidence]
        rows += [_denied(s, record) for record in denied[:MOST]]
    if not rows:
        return []
    heads = (
        "Sentence",
        "The model's paraphrase",
        "Proof that they are equivalent",
        "Answer of no",
        "Explanation",
    )
    note = (
        "The model's first answer is that its own paraphrase is not equivalent to the sentence. The proof is for"
        " reference: it could only accept a yes. The answer of no is tested like that on any pair, but never with the"
        " same paraphrase."
    )
    return [_examples("Own paraphrases that the model denies (Table 14)", heads, rows, note)]


def _denied(s: Series, record: VerdictRecord) -> Row:
    evidence, values = record.evidence, record.values
    proved = [name for phi, name in (("or", "φ_or"), ("and", "φ_and")) if values.get(f"phi_{phi}")]
    proof = ProofEvidence.from_json(object_in(evidence, "proof"))
    result = f"proved: {', '.join(proved)}" if proved else f"not proved: {proof.missing or proof.uncovered}"
    answer = _TRUST.get(text_in(evidence, "trust"), "not tested")
    for test in map(TrustTestEvidence.from_json, objects_in(evidence, "tests")):
        answer += f"; “{test.paraphrase}”: {test.other} to the other sentence, {test.own} to its own"
    texts = [text_in(evidence, key) for key in ("sentence", "paraphrase", "explanation")]
    return (*_case(s, record), *map(_text, (*texts[:2], result, answer, texts[2])))


def _row(s: Series, record: VerdictRecord, evidence: PairEvidence, text: str) -> Row:
    return (
        *_case(s, record),
        _text(evidence.first),
        _text(evidence.second),
        _text(text, 4 * _LONG),
    )


def _text(text: str, most: int = _LONG) -> Cell:
    return Cell(one_line(text, most) or "–")
