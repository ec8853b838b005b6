"""The page of a site: what changed, the leaderboard, accuracy over time, decisions, and all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.core.numbers import counted
from pytest_llmprops.reports.kit.blocks import Figure, file_name, joined, visible, with_interval
from pytest_llmprops.reports.kit.figures import draw_svg, inline, marker
from pytest_llmprops.reports.page.html import ASSETS as PAGE_ASSETS
from pytest_llmprops.reports.page.html import markup, rendered, text_of
from pytest_llmprops.reports.site.changes import headline, steps_of
from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.leaderboard import Board, boards_of
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun, comparable, measurements_of
from pytest_llmprops.runs.benchmark_metadata import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

ASSETS = Path(__file__).parent / "assets"
#: the last line of the page's script
START = "start();"
START_LIVE = "start(); follow();"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What the page shows of one benchmark; the first table has the most models."""

    title: str
    boards: Sequence[Board]
    figure: Figure | None


@dataclass(frozen=True, slots=True)
class Index:
    """The page, before it is written.

    :param runs: newest first.
    """

    runs: Sequence[SiteRun]
    values: Mapping[str, Any]

    @classmethod
    def of(cls, runs: Sequence[SiteRun], contributions: Contributions, heading: str = "") -> Index:
        """Judge and sort what the page shows.

        :param heading: replaces the finding.
        """
        counting = [run for run in runs if not run.problem]
        by_benchmark = measurements_of(counting)
        models = sorted({m.model for members in by_benchmark.values() for m in members})
        numbers = {model: number for number, model in enumerate(models)}
        steps = steps_of(by_benchmark, contributions.result)
        benchmarks = []
        for name, members in by_benchmark.items():
            boards = boards_of(members, contributions.result, contributions.finding)
            title = title_of(name, members[-1].facts)
            benchmarks.append(Benchmark(title, boards, figure_of(members, numbers)))
        values = {
            "heading": heading or headline(steps, counting),
            "steps": len(steps),
            "changes": [step for step in steps if step.result.is_clear],
            "benchmarks": benchmarks,
            "numbers": numbers,
            "decisions": [_decision(run) for run in runs if run.facts and run.facts.gate],
            "rows": list(map(_row, counting)),
            "left_out": [run for run in runs if run.problem],
            "summary": f"{counted(len(counting), 'run')} of {counted(len(models), 'model')}",
        }
        return cls(runs, values)

    @property
    def shown(self) -> set[str]:
        """The keys of the runs that the leaderboard shows."""
        boards = [board for one in self.values["benchmarks"] for board in one.boards]
        return {row.measurement.run.key for board in boards for row in board.rows}

    def html(self, links: Mapping[str, str], *, is_live: bool = False) -> bytes:
        """Return the page.

        :param links: the path of a run's own report by the key of the run.
        :param is_live: ``llmprops view`` serves the page, which shows the runs that go on.
        """
        names = ("site", "live") if is_live else ("site",)
        return rendered(
            "index.html.jinja",
            ASSETS,
            **self.values,
            draw=lambda figure: markup(inline(draw_svg(figure.draw), figure.name)),
            site_style=text_of(*(ASSETS / f"{name}.css" for name in names)),
            script=text_of(PAGE_ASSETS / "page.js", *(ASSETS / f"{name}.js" for name in names)),
            start=markup(START_LIVE if is_live else START),
            is_live=is_live,
            link=lambda run: links.get(run.key, ""),
        )


def figure_of(measurements: Sequence[Measurement], numbers: Mapping[str, int]) -> Figure | None:
    """Return the plot of accuracy by date of one benchmark, with a line per model; None without a date and an accuracy.

    :param numbers: the number of each model, which determines its colour and shape.
    """
    dated = [m for m in measurements if m.share and m.days is not None]
    if not dated:
        return None
    shown = {model: number for model, number in numbers.items() if model in {m.model for m in dated}}
    title = f"{dated[-1].benchmark_facts.title}, accuracy by date"
    counts = f"{counted(len(dated), 'run')} of {counted(len(shown), 'model')}"
    return Figure(
        f"{file_name(dated[0].benchmark)}-by-date",
        title,
        f"{title}: {counts} from {dated[0].date} to {dated[-1].date}; the table of runs has the numbers.",
        partial(by_date, dated, shown),
    )


def by_date(measurements: Sequence[Measurement], numbers: Mapping[str, int]) -> Plot:
    """Return a plot of measurements with a date and an accuracy; lines connect runs that may be compared."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    from pytest_llmprops.reports.kit import figures

    labels = {number: visible(model) for model, number in numbers.items()}
    height = figures.legend_height(labels)
    figure = figures.new_figure(figures.WIDTH, 2.9 + height)
    axes = figure.add_axes(figures.margins(figure, left=0.5, right=0.15, top=0.12 + height, bottom=0.35))
    chance = measurements[-1].benchmark_facts.chance_of()
    if chance is not None:
        axes.axhline(chance, color=figures.MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    for group in comparable(measurements, deviations=False):
        for model in dict.fromkeys(m.model for m in group):
            points = [(m.days, m.share) for m in group if m.model == model and m.days is not None and m.share]
            days, shares = [day for day, _ in points], [share for _, share in points]
            shade, shape = figures.colour(numbers[model]), marker(numbers[model])
            axes.vlines(days, [s.low for s in shares], [s.high for s in shares], color=shade, alpha=0.5)
            axes.plot(days, [s.value for s in shares], color=shade, marker=shape, linewidth=1.0)
    figures.share_axis(axes, "y")
    locator = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    figures.legend(figure, labels, False, chance is not None)
    return figure


def _decision(run: SiteRun) -> dict[str, Any]:
    """Return what the page shows of the decision on a run, as its record has it: the reason is without the decision."""
    assert run.facts is not None
    assert run.facts.gate is not None
    gate = run.facts.gate
    why = gate.line.partition(": ")[2]
    return {"run": run, "candidate": joined(list(run.facts.models)), "gate": gate, "why": why}


def _row(run: SiteRun) -> dict[str, Any]:
    """Return what the table of runs shows of one run that counts."""
    facts = run.facts
    assert facts is not None
    results = []
    for model, benchmark in dict.fromkeys((row.model, row.benchmark) for row in facts.summary):
        share = run.shares.get((model, benchmark))
        text = "" if share is None else with_interval(share.value, share.low, share.high)
        results.append((facts.marked(visible(model)), title_of(benchmark, facts), text))
    return {
        "run": run,
        "results": results,
        "items": sum(row.items for row in facts.summary),
        "cost": facts.cost_text,
        "gate": "" if facts.gate is None else facts.gate.decision,
        "copies": joined([visible(name) for name in run.copies]),
    }
