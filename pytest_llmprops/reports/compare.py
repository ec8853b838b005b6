"""The output of ``llmprops compare``: terminal lines, Markdown, JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pytest_llmprops.core.items import TaskKey, grouped
from pytest_llmprops.core.numbers import (
    count,
    counted,
    interval,
    p_value,
    percent,
    point_range,
    points,
)
from pytest_llmprops.core.texts import one_line, terminal_line
from pytest_llmprops.reports.tables import (
    aligned_table,
    fitted,
    markdown_fold,
    markdown_table,
    plain,
    without,
)
from pytest_llmprops.runs.compare import Column, Comparison, Contrast, Flip, Row, Side

Table = list[tuple[str, ...]]
#: columns that may say the same in all rows
PLACE = ("benchmark", "lang", "source")
NO_REPLY = "(no reply recorded)"
#: the longest line of a reply in Markdown
MOST = 100_000
LEGEND = (
    "difference: points of accuracy, candidate (after the arrow) minus baseline, on the pairs, with its 95% interval",
    "finding: worse or better where p is at most 0.05, corrected for all parts of the two runs and both directions",
)


def terminal_lines(comparison: Comparison, width: int, *, limit: int = 20, full: bool = False) -> list[str]:
    """Return the comparison for a terminal of ``width`` columns.

    :param limit: maximum number of flipped items in each direction. :param full: show whole replies, not one line.
    """
    lines = [line[2:] for line in aligned_table([_column(c) for c in comparison.columns])]
    lines += [f"note: {note}" for note in comparison.notes]
    for benchmark, task_keys in grouped(comparison.task_keys, lambda key: key.benchmark).items():
        lines += ["", benchmark]
        columns = comparison.columns
        lines += fitted(width, _accuracies(columns, task_keys), _accuracies(columns, task_keys, names=False))
    for contrast in comparison.contrasts:
        lines += ["", "", _title(contrast)]
        if contrast.differences:
            lines += _paragraph(f"not measured in the same way: {'; '.join(contrast.differences)}", width)
        if not contrast.changes or not any(c.pairs for c in contrast.changes):
            lines.append("  no item has an answer in both")
            continue
        changes = _changes(contrast)
        lines += fitted(width, changes, without(changes, PLACE)[0], changes)
        for text in _legend(contrast):
            lines += _paragraph(text, width)
        for heading, flips in _flips(contrast):
            lines += ["", f"  {heading}{_first(flips, limit)}"]
            for flip in flips[:limit]:
                lines += _flip(flip, contrast, width, full)
    return [terminal_line(line) for line in lines]


def markdown(comparison: Comparison, *, limit: int = 20, full: bool = False) -> str:
    """Return the comparison as Markdown; replies are shown as plain text."""
    parts = ["# Comparison", ""]
    parts += [f"- {escaped(' · '.join(_column(c)))}" for c in comparison.columns]
    parts += [f"- note: {escaped(note)}" for note in comparison.notes]
    for benchmark, task_keys in grouped(comparison.task_keys, lambda key: key.benchmark).items():
        parts += ["", f"## {escaped(benchmark)}", "", *_table(_accuracies(comparison.columns, task_keys))]
    for contrast in comparison.contrasts:
        parts += ["", f"## {escaped(_title(contrast))}", ""]
        if contrast.differences:
            parts += [f"**Not measured in the same way:** {escaped('; '.join(contrast.differences))}", ""]
        if not contrast.changes or not any(c.pairs for c in contrast.changes):
            parts.append("No item has an answer in both.")
            continue
        parts += [*_table(_changes(contrast)), ""]
        parts += [f"*{escaped(text)}*  " for text in _legend(contrast)]
        for heading, flips in _flips(contrast):
            parts += ["", f"### {escaped(heading)}{_first(flips, limit)}", ""]
            if flips:
                rows: Table = [("item", "expected", contrast.baseline.letter, contrast.candidate.letter)]
                for f in flips[:limit]:
                    replies = (f"{_status(side)}: {_text(side, full)}" for side in (f.baseline, f.candidate))
                    rows.append((f.key.id, f.expected, *replies))
                parts += _table(rows)
    return "\n".join(parts) + "\n"


def changes_markdown(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of Markdown tables of two runs: what is worse or better, then, collapsed, all other tasks."""
    for contrast in comparison.contrasts:
        rows = [row for row in contrast.changes if row.result]
        changed = [row for row in rows if row.result and row.result.is_clear]
        yield f"### {escaped(_title(contrast))}: {len(changed)} of {counted(len(rows), 'part')} changed"
        yield ""
        if changed:
            yield from (*_table(_before_and_after(contrast, changed)), "")
        rest = [row for row in rows if row not in changed]
        if rest:
            title = f"{counted(len(rest), 'part')} without a clear change"
            yield from markdown_fold(title, _table(_before_and_after(contrast, rest)))


def _before_and_after(contrast: Contrast, rows: Iterable[Row]) -> Table:
    """Return a row per part with both accuracies and the change, the worst change first."""
    columns = (contrast.baseline, contrast.candidate)
    head = ("benchmark", "task", "lang", "source", *(c.run.facts.marked(c.model) for c in columns), "change")
    changes = [(row, row.result) for row in rows if row.result]
    table = [head]
    for row, change in sorted(changes, key=lambda pair: pair[1].difference):
        accuracies = [_accuracy(c, row.task_key, of=False) if row.task_key else "" for c in columns]
        by = f"{points(change.difference)} ({point_range(change.low, change.high)}), {change.word}"
        table.append((*_place(row), *accuracies, by))
    return without(table, PLACE)[0]


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON values, with every flipped item and all replies in full."""
    return {
        "columns": [
            {"letter": c.letter, "model": c.model, "run_id": c.run.run_id, "folder": str(c.run.folder)}
            for c in comparison.columns
        ],
        "notes": list(comparison.notes),
        "table": [
            {
                **task_key._asdict(),
                "columns": {
                    c.letter: None if (row := c.row(task_key)) is None else asdict(row)
                    for c in comparison.columns
                },
            }
            for task_key in comparison.task_keys
        ],
        "contrasts": [
            {
                "baseline": contrast.baseline.letter,
                "candidate": contrast.candidate.letter,
                "differences": list(contrast.differences),
                "changes": [
                    {
                        **asdict(row),
                        "member": row.member._asdict(),
                        "task_key": row.task_key and row.task_key._asdict(),
                    }
                    for row in contrast.changes
                ],
                "lost": [{**asdict(flip), "key": flip.key._asdict()} for flip in contrast.lost],
                "gained": [{**asdict(flip), "key": flip.key._asdict()} for flip in contrast.gained],
            }
            for contrast in comparison.contrasts
        ],
    }


def _column(column: Column) -> tuple[str, ...]:
    return column.letter, column.run.facts.marked(column.model), column.run.run_id, column.run.state


def _accuracies(columns: Sequence[Column], task_keys: Sequence[TaskKey], *, names: bool = True) -> Table:
    """Return one row per task; the number of answered items has its own column if all runs agree."""
    answered = [{r.answered for c in columns if (r := c.row(task_key))} for task_key in task_keys]
    same_counts = all(len(numbers) == 1 for numbers in answered)
    head = ("task", "lang", "source", *(("items",) if same_counts else ()))
    table = [(*head, *(f"{c.letter} {c.run.facts.marked(c.model)}" if names else c.letter for c in columns))]
    for task_key, numbers in zip(task_keys, answered, strict=True):
        items = (str(max(numbers)),) if same_counts else ()
        table.append((*task_key[1:], *items, *(_accuracy(c, task_key, of=not same_counts) for c in columns)))
    return table


def _accuracy(column: Column, task_key: TaskKey, *, of: bool) -> str:
    row = column.row(task_key)
    if row is None:
        return "-"
    errors = f", {counted(row.errors, 'error')}" if row.errors else ""
    if row.estimate is None:
        return f"no answer{errors}"
    value, low, high = row.estimate
    items = f" of {count(row.answered)}" if of else ""
    return f"{percent(value)}{items} ({interval(low, high)}){errors}"


def _title(contrast: Contrast) -> str:
    one, other = contrast.baseline, contrast.candidate
    return f"{one.letter} → {other.letter}: {one.model} → {other.model}"


def _changes(contrast: Contrast) -> Table:
    one, other = contrast.baseline.letter, contrast.candidate.letter
    head = (
        "benchmark", "task", "lang", "source", "pairs", f"only {one}", f"only {other}", "errors", "lost",
        "gained", "difference", "95% interval", "p", "finding",
    )  # fmt: skip
    rows = [_change(change) for change in contrast.changes]
    return without([head, *rows], (f"only {one}", f"only {other}", "errors"), values=("0",))[0]


def _change(row: Row) -> tuple[str, ...]:
    change = row.result
    counts = (row.pairs, row.only_baseline, row.only_candidate, row.errors, row.lost, row.gained)
    start = (*_place(row), *map(str, counts))
    if change is None:
        return (*start, "-", "-", "-", "no pairs")
    p = "-" if change.word == "not judged" else p_value(change.p)
    return (*start, points(change.difference), point_range(change.low, change.high), p, change.word)


def _place(row: Row) -> tuple[str, str, str, str]:
    """Return benchmark, task, language and source of a row; of a cluster, its name as the task."""
    if row.task_key is not None:
        return row.task_key
    benchmark, kind, name = row.member
    if kind in ("all", "benchmark"):
        return (benchmark or "all", "", "", "")
    return (benchmark, "", name, "") if kind == "language" else (benchmark, name, "", "")


def _legend(contrast: Contrast) -> list[str]:
    results = [row.result for row in contrast.changes if row.result]
    methods = {result.test: result.interval for result in results}
    used = "; ".join(f"p by {test}, interval by {interval}" for test, interval in methods.items())
    legend = [*LEGEND]
    if any(result.word == "not judged" for result in results):
        legend.append("not judged: controls, side tasks, and tasks whose accuracy ranks no models")
    if any(row.member.kind == "all" for row in contrast.changes):
        legend.append("all: the tasks of the headline figures, without controls")
    return [*legend, used]


def _flips(contrast: Contrast) -> list[tuple[str, tuple[Flip, ...]]]:
    one, other = contrast.baseline.letter, contrast.candidate.letter
    return [
        (f"lost, right in {one} and not in {other}: {len(contrast.lost)}", contrast.lost),
        (f"gained, right in {other} and not in {one}: {len(contrast.gained)}", contrast.gained),
    ]


def _first(flips: Sequence[Flip], limit: int) -> str:
    return f", the first {limit} (--limit shows more)" if len(flips) > limit else ""


def _flip(flip: Flip, contrast: Contrast, width: int, full: bool) -> list[str]:
    sides = ((contrast.baseline.letter, flip.baseline), (contrast.candidate.letter, flip.candidate))
    expected = f": expected {one_line(flip.expected, 90)}" if flip.expected else ""
    if not any(side.reply.strip() for _, side in sides):
        states = " → ".join(_status(side) for _, side in sides)
        return [f"    {flip.key.id}{expected}; {states} {NO_REPLY}"]
    lines = [f"    {flip.key.id}{expected}"]
    for letter, side in sides:
        start = f"      {letter} {_status(side)}: "
        if full and side.reply.strip():
            lines += [start.rstrip(), *(f"        {line}" for line in side.reply.splitlines())]
        else:
            lines.append(start + _text(side, False, max(20, min(width, 200) - len(start))))
    return lines


def _status(side: Side) -> str:
    share = "" if side.score in (0, 1) else f" {100 * side.score:.0f}%"
    return side.status + share


def _text(side: Side, full: bool, most: int = 90) -> str:
    if not side.reply.strip():
        return NO_REPLY
    return side.reply if full else one_line(side.reply, most)


def _paragraph(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 40), initial_indent="  ", subsequent_indent="    ")


def _table(table: Table) -> list[str]:
    return markdown_table([list(map(escaped, row)) for row in table])


def escaped(text: str) -> str:
    """Return ``text`` as :func:`plain`, with ``<br>`` for line ends."""
    return "<br>".join(plain(line, MOST) for line in text.strip().splitlines())
