"""The leaderboard: models on the same items under the same settings, and the figures that the papers print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_llmprops.core.numbers import counted
from pytest_llmprops.data.published_results import PublishedResult
from pytest_llmprops.reports.kit.blocks import point_range, points, visible
from pytest_llmprops.reports.kit.generic import protocol_lines, published_headline
from pytest_llmprops.reports.kit.series import Share
from pytest_llmprops.reports.page.findings import finding_on, unranked
from pytest_llmprops.reports.site.changes import Compare
from pytest_llmprops.reports.site.measurements import Measurement, comparable, measured_of
from pytest_llmprops.reports.tables import line_of
from pytest_llmprops.runs.comparable import differences

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
    answered = [(s, m) for s, m in zip(measured.series, shown, strict=True) if m.share]
    rest = answered[1:] if shown[0].is_judged else []
    changes = {s.index: change for s, m in rest if (change := compare(shown[0], m)) is not None}
    against = {s.index: "was measured on other items" for s, _ in rest} if changes else {}
    for index, change in changes.items():
        by = f"{points(change.difference)} ({point_range(change.low, change.high)})"
        against |= {0: "highest", index: f"{by}, {change.word}"}
    if not measured.facts.is_ranked(measured.headline_tasks):
        finding = unranked(measured)
    elif len(answered) > 1:
        shares = [(s, m.share) for s, m in answered if m.share]
        finding = finding_on(measured, shares, measured.series[0], changes)
    else:
        finding = describe(shown[0])
    return Board(
        measured.facts.title,
        finding,
        tuple(protocol_lines(measured.series[0], measured.benchmark)),
        counted(_items(shown[0]), "item"),
        () if group is first else _apart(first[-1], group[-1]),
        tuple(_row(m, group, against.get(index, "")) for index, m in enumerate(shown)),
        tuple(published_headline(measured, measured.series[0])[:MOST_PRINTED]),
    )


def _apart(first: Measurement, other: Measurement) -> tuple[str, ...]:
    # "baseline RUN of DATE is older than this run's protocol of htest: seed 1 → 2"
    lines = [
        text.rpartition("this run's ")[2] for text in differences(first.facts, other.facts, [other.benchmark])
    ]
    if first.items_key != other.items_key and not lines:
        numbers = f": {counted(_items(other), 'item')} instead of {_items(first):,}"
        lines = [f"other items, controls or weights{numbers if _items(other) != _items(first) else ''}"]
    return tuple(map(visible, lines))


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
