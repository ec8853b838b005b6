"""The results of searches on pairs: answers that contradict each other, with their sentences."""

from __future__ import annotations

from pytest_llmprops.benchmarks.oracle.choices import PAIR_SEARCHES
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairCounterexample
from pytest_llmprops.benchmarks.oracle.report.searches import (
    COUNT_COLUMNS,
    Row,
    count_cells,
    counts_of,
    replications_cell,
)
from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Table
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.runs.record import CUT_SHORT

#: maximum counterexamples shown per model and property
MOST = 5
#: maximum characters of one text
_LONG = 800


def pair_search_blocks(measured: Measured) -> list[Block]:
    """Return the counts of searches by property, and the shortest counterexamples; empty without searches.

    A baseline that was promoted without its replies has only the counts.
    """
    counts: list[Row] = []
    rows: list[Row] = []
    for s in measured.series:
        by_property = {c.property: c for c in counts_of(measured, s) if c.property in PAIR_SEARCHES}
        for name in (name for name in PAIR_SEARCHES if name in by_property):
            counts.append((Cell(s.starred), Cell(name), *count_cells(by_property[name])))
            found = [
                (row, PairCounterexample.from_json(row.counterexample))
                for row in measured.searches(s)
                if row.counterexample is not None and row.property == name
            ]
            found.sort(key=lambda pair: (sum(map(len, pair[1].sentences)), pair[0].id))
            for row, counterexample in found[:MOST]:
                cut = CUT_SHORT.removeprefix("; ") if row.spent else ""
                texts = (_sentences(counterexample), _answers(counterexample, cut))
                rows.append(
                    (
                        *(Cell(text) for text in (visible(row.id), s.starred, name)),
                        replications_cell(row),
                        *(Cell(one_line(text, _LONG) or "–") for text in texts),
                    )
                )
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
            " equivalent, and so are b and c, but not a and c. A search does not show how often that happens, and has"
            " no bound. A counterexample that fewer than half of its replications repeat may be noise.",
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
