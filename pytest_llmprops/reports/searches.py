"""Searches for counterexamples as terminal lines."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.core.records import SearchCounts, SearchRecord
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.reports.kit.text import counted
from pytest_llmprops.runs.record import FILE, counterexample_text

#: maximum number of counterexamples per model, benchmark and property
SHOWN = 5


def search_lines(searched: Sequence[SearchCounts], rows: Sequence[SearchRecord]) -> list[str]:
    """Return lines with the counts of searches and some of the counterexamples.

    :param searched: ``searches`` of ``run.json``.
    :param rows: lines of ``searches.jsonl``, one per item and property.
    """
    lines = []
    has_models = len({(counts.benchmark, counts.model) for counts in searched}) > 1
    for counts in searched:
        key = counts.benchmark, counts.model, counts.property
        own = [r for r in rows if (r.benchmark, r.model, r.property) == key]
        of = f" of {counts.model}" if has_models else ""
        of += f" ({counts.property})" if counts.property else ""
        names = (("counterexamples", "counterexample"), ("examples", "example"), ("calls", "call"))
        amounts = (counted(getattr(counts, name), noun) for name, noun in names)
        line = f"search{of}: {counted(counts.searched, 'item')} searched, {', '.join(amounts)}"
        if counts.noise:
            line += f"; {counts.noise} of the counterexamples may be noise"
        if counts.spent:
            line += f"; {counts.spent} stopped when their calls were spent"
        if counts.errors:
            line += f"; {counts.errors} ended by a backend error"
        lines.append(line)
        bad = [row for row in own if row.counterexample is not None]
        bad.sort(key=lambda row: row.is_noise)
        lines += [f"  {r.id}: {counterexample_text(r)}" for r in bad[:SHOWN]]
        if len(bad) > SHOWN:
            lines.append(f"  … and {len(bad) - SHOWN} more in {FILE}")
    return [terminal_line(line) for line in lines]
