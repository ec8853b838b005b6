"""The leaderboard: models on the same items under the same settings, and the figures that the papers print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.core.numbers import counted
from pytest_llmprops.data.published_results import PublishedResult, ranked
from pytest_llmprops.reports.columns import line_of
from pytest_llmprops.reports.kit.blocks import point_range, points, visible
from pytest_llmprops.reports.kit.generic import protocol_lines
from pytest_llmprops.reports.kit.series import Measured, Share
from pytest_llmprops.reports.page.findings import compared, targeted, unranked, without_readable
from pytest_llmprops.reports.site.changes import Compare
from pytest_llmprops.reports.site.measurements import Measurement, comparable, measured_of
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.statistics.judgement import Change

#: printed figures of one table, the best first
MOST_PRINTED = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One model: its latest complete run.

    :param against: the change from the highest accuracy, as the two runs are judged; empty if it was not compared.
    :param runs: number of its runs with these settings.
    """

    measurement: Measurement
    label: str
    share: Share | None
    against: str
    items: str
    cost: str
    runs: int
    rest: str


@dataclass(frozen=True, slots=True)
class Board:
    """One table: measurements of one benchmark that may be compared.

    :param finding: the sentence of a report on these runs. :param settings: protocol and what it gives up.
    :param apart: how the settings differ from those of the benchmark's first table. :param items: number of items.
    :param printed: model, value and table of the paper.
    """

    benchmark: str
    title: str
    finding: str
    settings: tuple[str, ...]
    items: str
    apart: tuple[str, ...]
    rows: tuple[Row, ...]
    printed: tuple[PublishedResult, ...]


def boards_of(
    measurements: Sequence[Measurement], compare: Compare, describe: Callable[[Measurement], str]
) -> list[Board]:
    """Return the tables of one benchmark: first those of runs of all items, of them that with the most models.

    :param describe: returns the sentence of a report on one measurement.
    """
    groups = comparable(measurements, deviations=False)
    groups.sort(
        key=lambda g: (_is_whole(g[-1]), len({m.model for m in g}), _items(g[-1]), g[-1].order), reverse=True
    )
    return [_board(group, groups[0], compare, describe) for group in groups]


def _is_whole(m: Measurement) -> bool:
    """Return True if the run measured all items of the benchmark; records of earlier versions do not say."""
    counts = m.facts.selection.get(m.benchmark)
    return counts is None or counts["items"] >= counts["of"]


def _items(m: Measurement) -> int:
    return sum(row.items for row in m.headline_rows)


def shown_of(group: Sequence[Measurement]) -> list[Measurement]:
    """Return the latest measurement of each model, the best accuracy first."""
    latest = {m.model: m for m in group}
    return sorted(latest.values(), key=lambda m: (-m.share.value if m.share else 1.0, m.model))


def _board(
    group: Sequence[Measurement],
    first: Sequence[Measurement],
    compare: Compare,
    describe: Callable[[Measurement], str],
) -> Board:
    shown = shown_of(group)
    measured = measured_of(shown)
    tasks, facts = measured.headline_tasks, measured.facts
    answered = [m for m in shown[1:] if m.share] if shown[0].is_judged else []
    changes = {m.model: change for m in answered if (change := compare(shown[0], m)) is not None}
    against = {m.model: "was measured on other items" for m in answered} if changes else {}
    for model, change in changes.items():
        by = f"{points(change.difference)} ({point_range(change.low, change.high)})"
        against[model] = f"{by}, {change.word}"
    if changes:
        against[shown[0].model] = "highest"
    rows = [_row(m, group, against.get(m.model, "")) for m in shown]
    lines = protocol_lines(measured.series[0], measured.benchmark)
    items = _items(shown[0])
    printed = _printed(measured, shown[0])
    apart = () if group is first else _apart(first[-1], group[-1])
    return Board(
        measured.benchmark, facts.title, _sentence(measured, shown, changes, tasks, describe), tuple(lines),
        counted(items, "item"), apart, tuple(rows), tuple(printed[:MOST_PRINTED]),
    )  # fmt: skip


def _printed(measured: Measured, m: Measurement) -> list[PublishedResult]:
    """Return the printed accuracies that correspond to the headline figure, one per model, best first."""
    places = {(row.task, row.language) for row in m.headline_rows}
    languages = {code for _, code in places}
    task = measured.facts.printed_task or (next(iter(places))[0] if len(places) == 1 else "")
    if not task or len(languages) != 1:
        return []
    return ranked(measured.benchmark, task, languages.pop(), measured.series[0].protocol(measured.benchmark))


def _apart(first: Measurement, other: Measurement) -> tuple[str, ...]:
    lines = []
    for text in differences(first.facts, other.facts, [other.benchmark]):
        # "baseline RUN of DATE is older than this run's protocol of htest: seed 1 → 2"
        _, _, changed = text.partition("this run's ")
        lines.append(changed or text)
    if first.items_key != other.items_key and not lines:
        numbers = _items(other), _items(first)
        more = (
            "" if numbers[0] == numbers[1] else f": {counted(numbers[0], 'item')} instead of {numbers[1]:,}"
        )
        lines.append(f"other items, controls or weights{more}")
    return tuple(visible(line) for line in lines)


def _row(m: Measurement, group: Sequence[Measurement], against: str) -> Row:
    rows = m.headline_rows
    repeats = max((row.samples // row.items for row in rows if row.has_repeats), default=1)
    answered = f"{m.share.n:,}" if m.share else "0"
    spent = "imported" if m.model_facts.imported else m.facts.cost_text
    return Row(
        m, m.starred, m.share, against,
        f"{answered} × {repeats} samples" if repeats > 1 else answered, spent,
        sum(other.model == m.model for other in group),
        line_of(rows),
    )  # fmt: skip


def _sentence(
    measured: Measured,
    shown: Sequence[Measurement],
    changes: Mapping[str, Change],
    tasks: list[str],
    describe: Callable[[Measurement], str],
) -> str:
    """Return how the others do compared with the highest accuracy, as a report on these runs says it."""
    if not measured.facts.is_ranked(tasks):
        return unranked(measured)
    shares = [(s, m.share) for s, m in zip(measured.series, shown, strict=True) if m.share]
    facts = measured.facts
    if len(shares) > 1 and all(task in facts.accuracy_targets for task in tasks):
        text = targeted(facts.noun, shares, facts.accuracy_targets[tasks[0]])
    elif changes:
        first, *others = measured.series
        by_label = {s.starred: changes[s.model] for s in others if s.model in changes}
        text = compared(facts.noun, first.starred, by_label)
    else:
        return describe(shown[0])
    return text + without_readable(measured, shares, tasks)
