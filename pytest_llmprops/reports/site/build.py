"""Writing a team's site. Only what changed since the last build is computed and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports.page.build import check_packages, run_pages
from pytest_llmprops.reports.site.contributions import DAMAGED, Contributions
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.measurements import SiteRun
from pytest_llmprops.runs.catalog import run_folders

#: the runs whose own report is in the site: those that the leaderboard shows, every readable run, or none
Reports = Literal["latest", "all", "none"]
NO_RUNS = "no run record in {places}; give folders with run records, such as reports/runs"


def write_site(places: Sequence[Path], out: Path, reports: Reports = "latest") -> Path:
    """Write the site on all runs in ``places`` into ``out`` and return its page, ``index.html``.

    Equal records give equal bytes, with or without an earlier build in ``out``. Files are replaced atomically, one by
    one: reports before the page that names them, ``index.html`` last; then files that it does not name are deleted.

    :param places: folders with run records at any depth. :param reports: which runs' own report is included.
    :raises MissingExtra: without jinja2, matplotlib or pandas.
    :raises UsageError: if a place is not a folder or none has a run; if ``out`` has files but no earlier site, or
        cannot be written.
    """
    check_packages("llmprops site")
    from pytest_llmprops.reports.site.index import Index

    within = out.resolve()
    folders = [folder for folder in run_folders(places) if not folder.is_relative_to(within)]
    if not folders:
        raise UsageError(NO_RUNS.format(places=", ".join(map(str, places))))
    files = SiteFiles(out)
    contributions = Contributions(files)
    index = Index.of(contributions.runs(folders), contributions)
    contributions.save()
    wanted = {"all": {run.key for run in index.runs if run.facts}, "latest": index.shown, "none": set()}
    links = _write_reports(files, contributions, [run for run in index.runs if run.key in wanted[reports]])
    page = files.put("index.html", index.html(links))
    files.delete_others()
    return page


def write_live_index(links: Mapping[Path, str], out: Path) -> None:
    """Write the page of ``llmprops view`` with its live part.

    Without an earlier one in ``out``, it is first written without runs, because these may take long.

    :param links: the address of the report on each run, by the folder of the run.
    """
    from pytest_llmprops.reports.site.index import Index

    files = SiteFiles(out)
    contributions = Contributions(files)
    if not files.has("index.html"):
        files.put("index.html", Index.of((), contributions, "Reading the runs").html({}, is_live=True))
    index = Index.of(contributions.runs(list(links)), contributions)
    contributions.save()
    addresses = {run.key: links[run.folder] for run in index.runs if run.facts}
    files.put("index.html", index.html(addresses, is_live=True))


def _write_reports(files: SiteFiles, contributions: Contributions, runs: Sequence[SiteRun]) -> dict[str, str]:
    """Write the reports of these runs; return their paths by the keys of the runs. Damaged runs have none."""
    written: dict[str, str] = {}
    for run in runs:
        path = f"{run.page_folder}/report.html"
        # The name of the folder depends on the record, and report.html is written last.
        if not files.has(path) or run.problem:
            try:
                pages = run_pages(contributions.run(run))
            except DAMAGED:
                continue
            for name, content in pages.items():
                files.put(f"{run.page_folder}/{name}", content)
        files.keep(run.page_folder)
        written[run.key] = path
    return written
