"""The results of searches: counterexamples with the fewest replaced entities, and their culprits."""

from __future__ import annotations

from collections import Counter

from pytest_llmprops.benchmarks.oracle.culprits import KINDS
from pytest_llmprops.benchmarks.oracle.linearity_evidence import LinearityCounterexample
from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Table
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.runs.searches import CUT_SHORT

#: maximum counterexamples shown per model
MOST = 10
#: maximum characters of one text
_LONG = 400
_COUNTS = {
    "searched": "Searched",
    "counterexamples": "Counterexamples",
    "examples": "Examples tried",
    "calls": "Calls",
    "spent": "Cut short",
    "errors": "Errors",
}
Row = tuple[Cell, ...]


def search_blocks(measured: Measured) -> list[Block]:
    """Return the counts of searches, by kind of culprit, and the smallest counterexamples; empty without searches.

    A baseline that was promoted without its replies has only the counts.
    """
    counts: list[Row] = []
    rows: list[Row] = []
    for s in measured.series:
        searches = s.run.facts.searches
        totals = next((c for c in searches if (c.model, c.benchmark) == (s.model, measured.benchmark)), None)
        if totals is None:
            continue
        counterexamples = [
            (row, LinearityCounterexample.from_json(row.counterexample))
            for row in measured.searches(s)
            if row.counterexample is not None
        ]
        kinds = Counter(
            kind for _, one in counterexamples for kind in {k for c in one.culprits for k in c.kinds}
        )
        numbers = [getattr(totals, name) for name in _COUNTS] + [kinds[kind] for kind in KINDS]
        counts.append((Cell(s.starred), *(Cell(f"{n:,}", n) for n in numbers)))
        counterexamples.sort(key=lambda pair: (pair[1].replaced, pair[0].id))
        for row, counterexample in counterexamples[:MOST]:
            cut = CUT_SHORT.removeprefix("; ") if row.spent else ""
            rows.append((Cell(visible(row.id)), Cell(s.starred), *_cells(counterexample, cut)))
    if not counts:
        return []
    columns = (("Model", False), *((_COUNTS[name], True) for name in _COUNTS))
    blocks: list[Block] = [
        Table(
            "Searches for counterexamples",
            (*columns, *((kind.capitalize(), True) for kind in KINDS)),
            tuple(counts),
            "In addition to the random tests of the measurement, hypothesis searches for the fewest replaced entities"
            " that break linearity. A search does not show how often that happens, and has no bound. The last columns"
            " count counterexamples with a culprit of that kind.",
        )
    ]
    if rows:
        heads = ("Item", "Model", "Replaced", "x", "y", "Culprits")
        table = Table(
            "Counterexamples", tuple((head, False) for head in heads), tuple(rows), "The smallest are first."
        )
        blocks.append(Fold("Some counterexamples", (table,)))
    return blocks


def _cells(counterexample: LinearityCounterexample, cut: str) -> list[Cell]:
    culprits = [
        f"“{c.name}” (replaced by “{c.synonym}”): {', '.join(c.kinds)}; {c.why}"
        for c in counterexample.culprits
    ] or ["a reply could not be read"]
    x, y = (", ".join(f"“{name}”" for name in names) for names in (counterexample.x, counterexample.y))
    texts = (x, y, ". ".join(filter(None, (*culprits, cut))))
    size = Cell(f"{counterexample.replaced} of {counterexample.entities}", counterexample.replaced)
    return [size, *(Cell(one_line(text, _LONG) or "–") for text in texts)]
