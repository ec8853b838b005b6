"""Writing a team's site. Only what changed since the last build is computed and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports.page.build import check_packages, run_pages
from pytest_llmprops.reports.page.items import pack
from pytest_llmprops.reports.site.contributions import DAMAGED, Contributions, name_of, packed, unpacked
from pytest_llmprops.reports.site.drift import Comparisons, drift_of
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.histories import chunks_of, matrix_of
from pytest_llmprops.reports.site.leaderboard import Board, boards_of
from pytest_llmprops.reports.site.measurements import (
    Measurement,
    ModelIndexes,
    SiteRun,
    decisions_of,
    measurements_of,
)
from pytest_llmprops.runs.catalog import run_folders

COMPARISONS, HISTORIES = "data/comparisons", "data/histories"
#: the runs whose own report is in the site: those that the leaderboard shows, every readable run, or none
Reports = Literal["latest", "all", "none"]
NO_RUNS = "no run record in {places}; give folders with run records, such as reports/runs"


def write_site(places: Sequence[Path], out: Path, reports: Reports = "latest") -> Path:
    """Write the site on all runs in ``places`` into ``out`` and return its first page, ``index.html``.

    Equal records give equal bytes, with or without an earlier build in ``out``. Files are replaced atomically, one by
    one: data before the pages that name them, ``index.html`` last; then files that no page names are deleted.

    :param places: folders with run records at any depth. :param reports: which runs' own report is included.
    :raises MissingExtra: without jinja2, matplotlib or pandas.
    :raises UsageError: if a place is not a folder or none has a run; if ``out`` has files but no earlier site, or
        cannot be written.
    """
    check_packages("llmprops site")
    from pytest_llmprops.reports.site.pages import Content, write_pages

    within = out.resolve()
    folders = [folder for folder in run_folders(places) if not folder.is_relative_to(within)]
    if not folders:
        raise UsageError(NO_RUNS.format(places=", ".join(map(str, places))))
    files = SiteFiles(out)
    contributions = Contributions(files)
    runs = contributions.runs(folders)
    by_benchmark = measurements_of(runs)
    models = ModelIndexes.of(m.model for members in by_benchmark.values() for m in members)
    comparisons = Comparisons(_known(files, COMPARISONS), contributions.run)
    boards = {
        name: boards_of(members, comparisons, contributions.run) for name, members in by_benchmark.items()
    }
    drifts = drift_of(by_benchmark, comparisons)
    files.put(COMPARISONS, packed(comparisons.to_json()))
    with_report = _reports(files, runs, _wanted(reports, runs, boards))
    histories = _histories(files, by_benchmark, contributions)
    content = Content(runs, by_benchmark, models, boards, drifts, decisions_of(runs), histories, with_report)
    index = write_pages(files, content)
    files.delete_others()
    return index


def _known(files: SiteFiles, path: str) -> Mapping[str, Any]:
    """Return what an earlier build kept; empty without one."""
    try:
        content = files.read(path)
        known: Mapping[str, Any] = {} if content is None else unpacked(content)
        return known
    except ValueError:
        return {}


def _wanted(
    reports: Reports, runs: Sequence[SiteRun], boards: Mapping[str, Sequence[Board]]
) -> list[SiteRun]:
    """Return the runs whose own report is included, in the order of ``runs``."""
    shown = {row.measurement.run.key for tables in boards.values() for board in tables for row in board.rows}
    included: dict[Reports, Callable[[SiteRun], bool]] = {
        "latest": lambda run: run.key in shown,
        "all": lambda run: run.facts is not None,
        "none": lambda run: False,
    }
    return [run for run in runs if included[reports](run)]


def _reports(files: SiteFiles, runs: Sequence[SiteRun], wanted: Sequence[SiteRun]) -> dict[str, str]:
    """Write the wanted reports and return key of the run -> path of its report, or why there is none after ``!``."""
    written: dict[str, str] = {}
    for run in wanted:
        path = f"{run.page_folder}/report.html"
        # The name of the folder depends on the record, and report.html is written last.
        if not files.has(path) or run.problem:
            try:
                pages = run_pages(run.folder)
            except DAMAGED:
                continue
            for name, content in pages.items():
                files.put(f"{run.page_folder}/{name}", content)
        files.keep(run.page_folder)
        written[run.key] = path
    return written


def _histories(
    files: SiteFiles, by_benchmark: Mapping[str, Sequence[Measurement]], contributions: Contributions
) -> dict[str, dict[str, Any]]:
    """Write the data of the items, unless their runs are those of the last build, and return where they are."""
    known, histories = _known(files, HISTORIES), {}
    for name, members in by_benchmark.items():
        key = name_of(json.dumps([f"{m.run.key}/{m.model}" for m in members]).encode())
        history = known.get(name, {})
        if history.get("key") == key and all(files.has(_path(data)) for data in _names(history)):
            for data in _names(history):
                files.keep(_path(data))
        else:
            history = {"key": key, **_history(files, members, contributions)}
        histories[name] = history
    files.put(HISTORIES, packed(histories))
    return histories


def _names(history: Mapping[str, Any]) -> list[str]:
    return [history["index"], *history["chunks"]]


def _history(
    files: SiteFiles, measurements: Sequence[Measurement], contributions: Contributions
) -> dict[str, Any]:
    """Write the data of one benchmark's items and return where they are."""
    matrix = matrix_of(measurements, contributions.verdicts)
    index, chunks = chunks_of(matrix)
    return {
        "index": _data(files, pack(index)),
        "chunks": [_data(files, chunk) for chunk in chunks],
        "items": len(matrix.items),
        "runs": [m.run.key for m in matrix.columns],
    }


def _data(files: SiteFiles, text: str) -> str:
    """Write packed data as a script, because a page on disk cannot fetch files; return its name."""
    name = name_of(text.encode())
    # Letters, digits, + / and = only.
    files.put(_path(name), f'received("{name}","{text}");\n'.encode())
    return name


def _path(name: str) -> str:
    return f"data/items-{name}.js"
