"""The file in which a worker reports what it collected, before the controller gives it the first case.

pytest-xdist passes a worker's values on only when the worker ends, which it cannot do if the run is interrupted.
"""

from __future__ import annotations

from pathlib import Path

from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.records.files import from_text, text
from pytest_llmprops.records.messages import CollectionReport


def _path(run_dir: Path, worker: str) -> Path:
    return run_dir / f".collected-{worker}.json"


def report_collection(run_dir: Path, worker: str, report: CollectionReport | None) -> None:
    """Write a report for the controller; None if the worker refused to start.

    :raises OSError: on a full disk.
    """
    write_text(_path(run_dir, worker), "" if report is None else text(report))


def take_collection(run_dir: Path, worker: str) -> CollectionReport | None:
    """Return what a worker reported, and remove its file; None if the worker refused to start."""
    path = _path(run_dir, worker)
    try:
        written = path.read_text(encoding="utf-8")
        path.unlink()
    except FileNotFoundError:
        return None
    return from_text(CollectionReport, written) if written else None


def remove_reports(run_dir: Path) -> None:
    """Remove the files of workers that the controller did not read."""
    for path in run_dir.glob(".collected-*.json"):
        path.unlink(missing_ok=True)
