"""The pages of a site. Each has its styles, scripts and tables; only the data of items is in other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.core.numbers import counted
from pytest_llmprops.reports.kit.blocks import joined, visible
from pytest_llmprops.reports.kit.figures import SERIES, marker
from pytest_llmprops.reports.page.html import ASSETS as PAGE_ASSETS
from pytest_llmprops.reports.page.html import GLYPHS, SHAPES, environment, script_hash, style
from pytest_llmprops.reports.page.items import pack
from pytest_llmprops.reports.site.drift import WINDOW, Drift, sentence
from pytest_llmprops.reports.site.files import GENERATOR, SiteFiles
from pytest_llmprops.reports.site.leaderboard import Board
from pytest_llmprops.reports.site.measurements import Decision, Measurement, ModelIndexes, SiteRun, details
from pytest_llmprops.reports.site.trends import trends_of
from pytest_llmprops.runs.benchmark_metadata import title_of

ASSETS = Path(__file__).parent / "assets"
#: in the order of the navigation, which is not that of writing: the first page is written last
PAGES = {
    "index": "Overview",
    "leaderboard": "Leaderboard",
    "trends": "Trends",
    "items": "Items",
    "drift": "Drift",
    "gates": "Gates",
    "runs": "Runs",
}
SCRIPTS = ("page.js", "packed.js")
#: the scripts of pages that have more than tables
MORE_SCRIPTS = {"items": ("address.js", "history.js"), "gates": ("gates.js",), "trends": ("trends.js",)}
START = "start();"
#: the latest gate decisions on the first page, and the models of one of its cards
LATEST, MOST_MODELS = 5, 4


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that the pages show.

    :param runs: newest first. :param histories: where the data of each benchmark's items are.
    :param reports: path of a run's own report by the key of the run.
    """

    runs: Sequence[SiteRun]
    by_benchmark: Mapping[str, Sequence[Measurement]]
    models: ModelIndexes
    boards: Mapping[str, Sequence[Board]]
    drifts: Sequence[Drift]
    decisions: Sequence[Decision]
    histories: Mapping[str, Mapping[str, Any]]
    reports: Mapping[str, str]

    def title(self, benchmark: str) -> str:
        """Return the title of a benchmark, as the newest run has it."""
        newest = [m.facts for m in reversed(self.by_benchmark[benchmark])]
        return title_of(benchmark, *newest[:1])

    @property
    def counted_runs(self) -> list[SiteRun]:
        """The runs that count in tables."""
        return [run for run in self.runs if not run.problem]

    @property
    def left_out(self) -> list[SiteRun]:
        """The runs that do not count."""
        return [run for run in self.runs if run.problem]


def write_pages(files: SiteFiles, content: Content) -> Path:
    """Write all pages, the first one last, and return its path."""
    templates = environment(ASSETS)
    templates.filters |= {"pair": lambda text: (text, True)}
    shared = {
        "pages": PAGES,
        "generator": GENERATOR,
        "style": style() + _markup((ASSETS / "site.css").read_text(encoding="utf-8")),
        "start": _markup(START),
        "content": content,
        "colours": len(SERIES),
        "shape": lambda index: SHAPES[marker(index)],
        "glyphs": GLYPHS,
        "link": lambda run: content.reports.get(run.key, ""),
    }
    path = Path()
    for name in [*list(PAGES)[1:], "index"]:
        script = _script(name)
        values = {
            **shared,
            **_VALUES[name](content),
            "name": name,
            "script": _markup(script),
            "script_hashes": [script_hash(script), script_hash(START)],
        }
        page: str = templates.get_template(f"{name}.html.jinja").render(values)
        path = files.put(f"{name}.html", page.encode("utf-8", "replace"))
    return path


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - files of the package, and base64


def _script(name: str) -> str:
    own = ("site.js", *(part for part in MORE_SCRIPTS.get(name, ())))
    paths = [PAGE_ASSETS / part for part in SCRIPTS]
    paths += [(PAGE_ASSETS if part == "address.js" else ASSETS) / part for part in own]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def _index(content: Content) -> dict[str, Any]:
    runs = content.counted_runs
    benchmarks = [content.title(name) for name in content.by_benchmark]
    models = {m.model for members in content.by_benchmark.values() for m in members}
    cards = [
        (tables[0], tables[0].rows[:MOST_MODELS], max(0, len(tables[0].rows) - MOST_MODELS))
        for tables in content.boards.values()
    ]
    dates = sorted(run.started[:10] for run in runs if run.started)
    facts = [("Benchmarks", joined(benchmarks) or "none")]
    if dates:
        facts.append(("Measured", dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"))
    decided = [decision.gate.decision for decision in content.decisions]
    if decided:
        counts = {name: decided.count(name) for name in sorted(set(decided))}
        facts.append(("Gate decisions", ", ".join(f"{n:,} {name}" for name, n in counts.items())))
    if content.left_out:
        facts.append(("Left out of the tables", counted(len(content.left_out), "run")))
    title = f"{counted(len(runs), 'run')} of {counted(len(models), 'model')}"
    return {
        "heading": f"{title} on {counted(len(benchmarks), 'benchmark')}",
        "facts": facts,
        "cards": cards,
        "drift": sentence(content.drifts),
        "decisions": content.decisions[:LATEST],
    }


def _trends(content: Content) -> dict[str, Any]:
    runs = content.counted_runs
    numbers = {run.key: n for n, run in enumerate(runs)}
    sections = [
        section
        for members in content.by_benchmark.values()
        if (section := trends_of(members, content.models, numbers)) is not None
    ]
    data = {
        "runs": [[visible(run.run_id), content.reports.get(run.key, "")] for run in runs],
        "numbers": [[trend.numbers for trend in (s.main, *s.tasks)] for s in sections],
    }
    return {"sections": sections, "data": _markup(pack(data))}


def _items(content: Content) -> dict[str, Any]:
    numbers = {run.key: n for n, run in enumerate(content.counted_runs)}
    data = {
        "benchmarks": [
            {
                "name": visible(name),
                "title": visible(content.title(name)),
                "index": history["index"],
                "chunks": history["chunks"],
                "items": history["items"],
                "runs": [numbers[key] for key in history["runs"]],
            }
            for name, history in content.histories.items()
        ],
        "runs": [_run_of_history(run, content.reports.get(run.key, "")) for run in content.counted_runs],
    }
    return {"data": _markup(pack(data)), "has_reports": bool(content.reports)}


def _run_of_history(run: SiteRun, report: str) -> list[Any]:
    assert run.facts is not None
    rows = run.facts.summary
    several = len({row.benchmark for row in rows}) > 1 or len({row.source for row in rows}) > 1
    return [visible(run.run_id), run.started[:10], report, list(map(visible, run.facts.models)), several]


def _runs(content: Content) -> dict[str, Any]:
    rows = []
    for run in content.counted_runs:
        facts = run.facts
        assert facts is not None
        benchmarks = dict.fromkeys(row.benchmark for row in facts.summary)
        gate = "" if facts.gate is None else facts.gate.decision
        rows.append(
            {
                "run": run,
                "models": joined([visible(model) for model in facts.models]),
                "benchmarks": joined([title_of(name, facts) for name in benchmarks]),
                "items": sum(row.items for row in facts.summary),
                "cost": facts.cost_text,
                "gate": gate,
            }
        )
    return {"rows": rows, "left_out": content.left_out}


_VALUES = {
    "index": _index,
    "leaderboard": lambda content: {"boards": list(content.boards.values())},
    "trends": _trends,
    "items": _items,
    "drift": lambda content: {
        "sentence": sentence(content.drifts),
        "drifts": content.drifts,
        "window": WINDOW,
    },
    "gates": lambda content: {
        "decisions": content.decisions,
        "data": _markup(pack(details(content.decisions))),
    },
    "runs": _runs,
}
