"""The results of searches on sentences: counterexamples with the fewest replaced entities, and their culprits."""

from __future__ import annotations

from collections import Counter

from pytest_llmprops.benchmarks.oracle.dependence import KINDS
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, PAIR_SEARCHES
from pytest_llmprops.benchmarks.oracle.linearity_evidence import LinearityCounterexample
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairCounterexample
from pytest_llmprops.core.records import SearchRecord
from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Table
from pytest_llmprops.reports.kit.generic import COUNT_COLUMNS, count_cells, replications_cell, search_counts
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.runs.record import CUT_SHORT

#: maximum counterexamples shown per model
MOST = 10
#: maximum characters of one text
_LONG = 400
#: older records have no property
_LINEARITY = ("", LINEARITY)
Row = tuple[Cell, ...]


def search_blocks(measured: Measured) -> list[Block]:
    """Return the counts of searches, by kind of culprit, and the smallest counterexamples; empty without searches.

    A baseline that was promoted without its replies has only the counts.
    """
    counts: list[Row] = []
    rows: list[Row] = []
    for s in measured.series:
        totals = next((c for c in search_counts(measured, s) if c.property in _LINEARITY), None)
        if totals is None:
            continue
        counterexamples = [
            (row, LinearityCounterexample.from_json(row.counterexample))
            for row in measured.searches(s)
            if row.counterexample is not None and row.property in _LINEARITY
        ]
        kinds = Counter(
            kind for _, one in counterexamples for kind in {k for c in one.culprits for k in c.kinds}
        )
        by_kind = (Cell(f"{kinds[kind]:,}", kinds[kind]) for kind in KINDS)
        counts.append((Cell(s.starred), *count_cells(totals), *by_kind))
        counterexamples.sort(key=lambda pair: (pair[1].replaced, pair[0].id))
        for row, counterexample in counterexamples[:MOST]:
            size, *texts = _cells(counterexample, _cut(row))
            rows.append((Cell(visible(row.id)), Cell(s.starred), size, replications_cell(row), *texts))
    if not counts:
        return []
    columns = (("Model", False), *COUNT_COLUMNS)
    blocks: list[Block] = [
        Table(
            "Searches for counterexamples to linearity",
            (*columns, *((kind.capitalize(), True) for kind in KINDS)),
            tuple(counts),
            "In addition to the random tests of the measurement, hypothesis searches for the fewest replaced entities"
            " that break linearity. A search does not show how often that happens, and has no bound. A counterexample"
            " is repeated by more than 60% of its replications; what is not repeated is counted apart. The last columns"
            " count counterexamples with a culprit of that kind.",
        )
    ]
    if rows:
        heads = ("Item", "Model", "Replaced", "Repeats", "x", "y", "Culprits")
        table = Table(
            "Counterexamples to linearity",
            tuple((head, False) for head in heads),
            tuple(rows),
            "The smallest are first.",
        )
        blocks.append(Fold("Some counterexamples to linearity", (table,)))
    return blocks


def _cut(row: SearchRecord) -> str:
    return CUT_SHORT.removeprefix("; ") if row.spent else ""


def _cells(counterexample: LinearityCounterexample, cut: str) -> list[Cell]:
    culprits = [
        f"“{c.name}” (replaced by “{c.synonym}”): {', '.join(c.kinds)}; {'; '.join(filter(None, (c.why, c.cause)))}"
        for c in counterexample.culprits
    ] or ["a reply could not be read"]
    x, y = (", ".join(f"“{name}”" for name in names) for names in (counterexample.x, counterexample.y))
    texts = (x, y, ". ".join(filter(None, (*culprits, cut))))
    size = Cell(f"{counterexample.replaced} of {counterexample.entities}", counterexample.replaced)
    return [size, *(Cell(one_line(text, _LONG) or "–") for text in texts)]


#: maximum counterexamples shown per model and property
MOST_PAIRS = 5
#: maximum characters of one text
_LONG_PAIR = 800


def pair_search_blocks(measured: Measured) -> list[Block]:
    """Return the counts of searches by property, and the shortest counterexamples; empty without searches.

    A baseline that was promoted without its replies has only the counts.
    """
    counts: list[Row] = []
    rows: list[Row] = []
    for s in measured.series:
        by_property = {c.property: c for c in search_counts(measured, s) if c.property in PAIR_SEARCHES}
        for name in (name for name in PAIR_SEARCHES if name in by_property):
            counts.append((Cell(s.starred), Cell(name), *count_cells(by_property[name])))
            found = [
                (row, PairCounterexample.from_json(row.counterexample))
                for row in measured.searches(s)
                if row.counterexample is not None and row.property == name
            ]
            found.sort(key=lambda pair: (sum(map(len, pair[1].sentences)), pair[0].id))
            for row, counterexample in found[:MOST_PAIRS]:
                place = (Cell(text) for text in (visible(row.id), s.starred, name))
                texts = (_sentences(counterexample), _answers(counterexample, _cut(row)))
                cells = (Cell(one_line(text, _LONG_PAIR) or "–") for text in texts)
                rows.append((*place, replications_cell(row), *cells))
    if not counts:
        return []
    blocks: list[Block] = [
        Table(
            "Searches for contradicting answers about pairs",
            (("Model", False), ("Property", False), *COUNT_COLUMNS),
            tuple(counts),
            "Hypothesis searches for the shortest sentences on which the model's own answers contradict each other. no:"
            " a paraphrase is equivalent to two sentences that are not equivalent. yes: an edit that does not change"
            " what is said makes a yes a no. symmetry: the answer depends on the order. transitivity: a and b are"
            " equivalent, and so are b and c, but not a and c. edit: a sentence is equivalent to itself with another"
            " number, swapped roles or a negation. self: a sentence is not equivalent to itself after a neutral edit,"
            " or to the model's own paraphrase. A search does not show how often that happens, and has"
            " no bound. A counterexample is repeated by more than 60% of its replications; what is not repeated is"
            " counted apart.",
        )
    ]
    if rows:
        heads = ("Item", "Model", "Property", "Repeats", "Sentences", "Answers")
        columns = tuple((head, False) for head in heads)
        table = Table("Contradicting answers", columns, tuple(rows), "The shortest are first.")
        blocks.append(Fold("Some contradicting answers", (table,)))
    return blocks


def _sentences(counterexample: PairCounterexample) -> str:
    return " ".join(f"{number}: “{text}”" for number, text in enumerate(counterexample.sentences, 1))


def _answers(counterexample: PairCounterexample, cut: str) -> str:
    answers = ", ".join(f"{one} and {two}: {word}" for one, two, word in counterexample.answers)
    edits = f"edited: {', '.join(counterexample.edits)}" if counterexample.edits else ""
    return "; ".join(filter(None, (answers, edits, cut)))
