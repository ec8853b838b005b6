"""The oracle-checker's cases to look at: rejected sentences, proofs, leftovers, triangular evidence.

They are those of Zeng et al.'s tables 13 (proofs), 12 (leftover words) and 15 (triangular evidence). Their texts stand
in ``requests.jsonl`` only; all of them are other people's, and shown as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_llmprops.benchmarks.oracle.report.evidence import (
    KINDS,
    LINEARITY,
    NO,
    OUTCOME_CODES,
    YES,
    PairTold,
    kinds_of,
    leftovers_of,
    pair_told,
    phi_of,
    sentence_told,
)
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Note, Table
from pytest_llmprops.reports.kit.series import Measured, Series
from pytest_llmprops.reports.kit.text import joined, one_line, visible

#: cases of each kind and model
MOST = 5
#: characters of one text
_LONG = 400
#: categories in which the paraphrase of a test is indifferentiable, by the number in the values
_INDIFFERENTIABLE = (1, 2)
Row = tuple[Cell, ...]
Record = VerdictRecord
_PAIR = (("Item", False), ("Model", False), ("Sentence 1", False), ("Sentence 2", False))


def linearity_cases(measured: Measured) -> list[Block]:
    """Kinds of the entities that break linearity, and some of the sentences."""
    kinds: list[Row] = []
    rows: list[Row] = []
    for s in measured.series:
        rejected = [r for r in measured.records(s, [LINEARITY]) if r["status"] == "wrong"]
        if rejected:
            found = Counter(kind for r in rejected for kind in kinds_of(r))
            counts = [Cell(f"{found[kind]:,}", found[kind]) for kind in KINDS]
            kinds.append((Cell(s.starred), Cell(f"{len(rejected):,}", len(rejected)), *counts))
        for record in rejected[:MOST]:
            text = _text(sentence_told(record, measured.logged(s)))
            rows.append((Cell(visible(record["id"])), Cell(s.starred), text, _text(record["reason"])))
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
            "Rejected sentences with at least one entity of the kind, by the counts of appendix A.3; an entity may be"
            " of several kinds.",
        ),
        Fold("Some rejected sentences", (Table("Rejected sentences", columns, tuple(rows)),)),
    ]


def pair_cases(measured: Measured) -> list[Block]:
    """A proof as its phrases, a failure as its leftover words, a rejected "no" as its three sentences."""
    proofs: list[Row] = []
    leftovers: list[Row] = []
    triangles: list[Row] = []
    silent = []
    for s in measured.series:
        records = measured.records(s, [YES, NO])
        if records and not measured.logged(s):
            silent.append(s.starred)
        proofs += _proofs(measured, s, records)
        leftovers += _leftovers(measured, s, records)
        triangles += _triangles(measured, s, records)
    blocks: list[Block] = []
    if proofs:
        blocks.append(
            Table(
                "Proofs (Table 13)",
                (*_PAIR, ("Phrases that the model calls equivalent", False)),
                tuple(proofs),
                "Accepted answers of yes. Phrases of the same words, where they were not asked about, are not listed.",
            )
        )
    if leftovers:
        blocks.append(
            Table(
                "Leftover words (Table 12)",
                (*_PAIR, ("Not covered by an alignment", False)),
                tuple(leftovers),
                "Rejected answers of yes.",
            )
        )
    if triangles:
        blocks.append(
            Table(
                "Triangular evidence (Table 15)",
                (*_PAIR, ("Paraphrase, said to be equivalent to both", False), ("Indifferentiable", False)),
                tuple(triangles),
                "Rejected answers of no: the model calls the two sentences not equivalent, and its own paraphrase of"
                " one of them equivalent to both.",
            )
        )
    notes: list[Block] = []
    if silent:
        text = "the record has no requests, so sentences, proofs and paraphrases cannot be shown."
        notes.append(Note(f"{joined(silent)}: {text}", "warn"))
    return [*notes, *([Fold("Some cases", tuple(blocks))] if blocks else [])]


def _proofs(measured: Measured, s: Series, records: Iterable[Record]) -> list[Row]:
    found = []
    for record in records:
        if record["task"] == YES and record["status"] == "correct":
            told = pair_told(record, measured.logged(s))
            pairs = [p for p in told.phrases if p.said]
            # What is said twice in the same words proves little.
            weight = sum(p.first.casefold() != p.second.casefold() for p in pairs)
            lines = "; ".join(f"“{p.first}” = “{p.second}”" for p in pairs)
            if pairs:
                found.append((weight, _row(s, record, told, lines)))
    found.sort(key=lambda pair: -pair[0])
    return [row for _, row in found[:MOST]]


def _leftovers(measured: Measured, s: Series, records: Iterable[Record]) -> list[Row]:
    rejected = [r for r in records if r["task"] == YES and r["status"] == "wrong" and leftovers_of(r)]
    rejected.sort(key=lambda r: (len(leftovers_of(r)), r["id"]))
    rows = []
    for record in rejected[:MOST]:
        told = pair_told(record, measured.logged(s))
        refused = [f"“{p.first}” ≠ “{p.second}”" for p in told.phrases if not p.said]
        rows.append(_row(s, record, told, "; ".join([leftovers_of(record), *refused])))
    return rows


def _triangles(measured: Measured, s: Series, records: Iterable[Record]) -> list[Row]:
    rows: list[Row] = []
    for record in records:
        values = record["values"]
        # The kind of alignment by which the run decided: the other kind may have had tests of its own.
        phi = phi_of(values)
        if (
            record["task"] != NO
            or values.get(f"trust_{phi}") != OUTCOME_CODES["triangular"]
            or len(rows) == MOST
        ):
            continue
        told = pair_told(record, measured.logged(s))
        test = next((test for test in told.tests if test.triangular and phi in test.series), None)
        if test is not None:
            sought = values.get(f"category_{phi}")
            chosen = "not sought" if not sought else "yes" if sought in _INDIFFERENTIABLE else "no"
            text = f"of sentence {test.source}: {test.paraphrase}"
            rows.append((*_row(s, record, told, text), Cell(chosen)))
    return rows


def _row(s: Series, record: Record, told: PairTold, text: str) -> Row:
    return (
        Cell(visible(record["id"])),
        Cell(s.starred),
        _text(told.first),
        _text(told.second),
        _text(text, 4 * _LONG),
    )


def _text(text: str, most: int = _LONG) -> Cell:
    return Cell(one_line(text, most) or "–")
