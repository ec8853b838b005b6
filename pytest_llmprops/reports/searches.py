"""Searches for counterexamples as terminal lines."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.core.records import SearchCounts, SearchRecord
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.reports.kit.text import counted
from pytest_llmprops.runs.searches import CUT_SHORT, FILE

#: maximum number of counterexamples per model and benchmark
SHOWN = 5


def search_lines(searched: Sequence[SearchCounts], rows: Sequence[SearchRecord]) -> list[str]:
    """Return lines with the counts of searches and some of the counterexamples.

    :param searched: ``searches`` of ``run.json``. :param rows: lines of ``searches.jsonl``, one per item.
    """
    lines = []
    for counts in searched:
        own = [r for r in rows if (r.benchmark, r.model) == (counts.benchmark, counts.model)]
        of = f" of {counts.model}" if len(searched) > 1 else ""
        names = (("counterexamples", "counterexample"), ("examples", "example"), ("calls", "call"))
        amounts = (counted(getattr(counts, name), noun) for name, noun in names)
        line = f"search{of}: {counted(counts.searched, 'item')} searched, {', '.join(amounts)}"
        if counts.spent:
            line += f"; {counts.spent} stopped when their calls were spent"
        if counts.errors:
            line += f"; {counts.errors} ended by a backend error"
        lines.append(line)
        bad = [row for row in own if row.counterexample is not None]
        lines += [f"  {r.id}: {r.why}{CUT_SHORT if r.spent else ''}" for r in bad[:SHOWN]]
        if len(bad) > SHOWN:
            lines.append(f"  … and {len(bad) - SHOWN} more in {FILE}")
    return [terminal_line(line) for line in lines]
