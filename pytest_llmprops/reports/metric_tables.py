"""The metrics of a run as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_llmprops.core.metrics import DIRECTIONS
from pytest_llmprops.core.numbers import number
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.reports.tables import aligned_table, fitted


def metric_lines(facts: RunMetadata, model: str, benchmark: str, width: int) -> list[str]:
    """Return the metrics: a table for the metrics of the same tasks, languages and groups."""
    values: dict[str, dict[tuple[str, ...], str]] = {}
    rows = [r for r in facts.metrics if (r.model, r.benchmark) == (model, benchmark)]
    last = {(r.name, r.task, r.language, r.source): r for r in rows if r.name in DIRECTIONS}
    over_all = {(r.name, r.task, r.source) for r in rows if r.language == "all"}
    for row in rows:
        # Single paradigms (ERAS), single documents (oracle), and single languages if there is a row over all (DTAiLS)
        # would fill the screen. Of pass@k, only the largest k is shown. All are in run.json and in the report.
        single = row.group.startswith(("paradigm ", "document "))
        single |= row.name in DIRECTIONS and last[row.name, row.task, row.language, row.source] is not row
        covered = (row.name, row.task, row.source) in over_all and row.language != "all"
        if not single and not covered:
            places = values.setdefault(row.name, {})
            place = (row.task, row.language, row.group)
            # Two sources may have the same place.
            places[place if place not in places else (*place, row.source)] = number(row.value)
    names_of: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, places in values.items():
        names_of.setdefault(tuple(places), []).append(name)
    lines = [line for shared, names in names_of.items() for line in _table(shared, names, values, width)]
    return ["", *lines] if lines else []


def _table(
    places: Sequence[tuple[str, ...]],
    names: Sequence[str],
    values: Mapping[str, Mapping[tuple[str, ...], str]],
    width: int,
) -> list[str]:
    """Return the table of metrics with values for the same tasks, languages and groups, in the shape that fits best."""
    same = [len(set(parts)) == 1 and len(places) > 1 for parts in zip(*places, strict=False)]
    shared = "/".join(part for part, is_same in zip(places[0], same, strict=False) if is_same and part)
    labels = [
        "/".join(p for n, p in enumerate(place) if p and not (n < len(same) and same[n])) for place in places
    ]
    rows = [(name, *(values[name][place] for place in places)) for name in names]
    by_name = [(shared or "metric", *labels), *rows]
    by_place = [(shared or "metric", *names), *zip(labels, *(row[1:] for row in rows), strict=True)]
    shapes = [one for one in (by_name, by_place) if max(map(len, aligned_table(one))) <= width]
    if shapes:
        return aligned_table(min(shapes, key=len))
    if len(names) == 1:
        return fitted(width, by_place)
    half = len(names) // 2
    return [line for part in (names[:half], names[half:]) for line in _table(places, part, values, width)]
