"""Writing a team's site. Only what changed since the last build is computed and written."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.reports import check_packages
from pytest_llmprops.reports.page.build import refuse_foreign, run_page, write_file
from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.measurements import SiteRun
from pytest_llmprops.runs.catalog import run_folders

#: the runs whose own report is in the site: those that the leaderboard shows, every readable run, or none
Reports = Literal["latest", "all", "none"]
NO_RUNS = "no run record in {places}; give folders with run records, such as reports/runs"
#: the first file of a site, which shows that the folder is one
KEPT = "data/known"


def write_site(places: Sequence[Path], out: Path, reports: Reports = "latest") -> Path:
    """Write the site on all runs in ``places`` into ``out`` and return its page, ``index.html``.

    Equal records give equal bytes, with or without an earlier build in ``out``. Files are replaced atomically, one by
    one: reports before the page that names them, ``index.html`` last; then files that it does not name are deleted.

    :param places: folders with run records at any depth. :param reports: which runs' own report is included.
    :raises MissingExtra: without jinja2 or matplotlib.
    :raises UsageError: if a place is not a folder or none has a run; if ``out`` has files but no earlier site, or
        cannot be written.
    """
    check_packages("llmprops site")
    from pytest_llmprops.reports.site.index import Index

    within = out.resolve()
    folders = [folder for folder in run_folders(places) if not folder.is_relative_to(within)]
    if not folders:
        raise UsageError(NO_RUNS.format(places=", ".join(map(str, places))))
    refuse_foreign(out, (out / KEPT).is_file, "site")
    contributions = Contributions(out / KEPT)
    index = Index.of(contributions.runs(folders), contributions)
    contributions.save()
    wanted = {"all": {run.key for run in index.runs if run.facts}, "latest": index.shown, "none": set()}
    links = _write_reports(out, contributions, [run for run in index.runs if run.key in wanted[reports]])
    page = out / "index.html"
    write_file(page, index.html(links))
    _delete_others(out, {(out / link).parent for link in links.values()})
    return page


def write_live_index(links: Mapping[Path, str], out: Path) -> None:
    """Write the page of ``llmprops view`` with its live part.

    Without an earlier one in ``out``, it is first written without runs, because these may take long.

    :param links: the address of the report on each run, by the folder of the run.
    """
    from pytest_llmprops.reports.site.index import Index

    page, contributions = out / "index.html", Contributions(out / KEPT)
    if not page.exists():
        write_file(page, Index.of((), contributions, "Reading the runs").html({}, is_live=True))
    index = Index.of(contributions.runs(list(links)), contributions)
    contributions.save()
    addresses = {run.key: links[run.folder] for run in index.runs if run.facts}
    write_file(page, index.html(addresses, is_live=True))


def _write_reports(out: Path, contributions: Contributions, runs: Sequence[SiteRun]) -> dict[str, str]:
    """Write the reports of these runs; return their paths by the keys of the runs. Damaged runs have none."""
    written: dict[str, str] = {}
    for run in runs:
        # The name of the folder depends on the record.
        path = f"{run.page_folder}/report.html"
        if not (out / path).is_file() or run.problem:
            try:
                write_file(out / path, run_page(contributions.run(run)))
            except DataError:
                continue
        written[run.key] = path
    return written


def _delete_others(out: Path, reports: Collection[Path]) -> None:
    """Delete the reports of earlier builds that the page does not name, and the drafts that a killed build left."""
    for folder in out.glob("runs/*"):
        if folder not in reports:
            shutil.rmtree(folder, ignore_errors=True)
    for draft in (*out.glob(".index.html.*.part"), *out.glob("data/.*.part"), *out.glob("runs/**/.*.part")):
        draft.unlink(missing_ok=True)
