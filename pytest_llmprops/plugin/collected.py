"""The file in which a worker reports what it collected, before the controller gives it the first case.

pytest-xdist passes a worker's values on only when the worker ends, which it cannot do if the run is interrupted.
"""

from __future__ import annotations

import json
from pathlib import Path

from pytest_llmprops.core.worker_messages import CollectionFacts
from pytest_llmprops.data.whole_files import write_text


def _path(run_dir: Path, worker: str) -> Path:
    return run_dir / f".collected-{worker}.json"


def report_collection(run_dir: Path, worker: str, facts: CollectionFacts | None) -> None:
    """Write the facts for the controller; None if the worker refused to start.

    :raises OSError: on a full disk.
    """
    write_text(_path(run_dir, worker), "" if facts is None else json.dumps(facts.to_json()))


def has_reported(run_dir: Path, worker: str) -> bool:
    """Return whether a worker has reported and its report was not taken."""
    return _path(run_dir, worker).exists()


def take_collection(run_dir: Path, worker: str) -> CollectionFacts | None:
    """Return what a worker reported, and remove its file; None if the worker refused to start."""
    path = _path(run_dir, worker)
    try:
        text = path.read_text(encoding="utf-8")
        path.unlink()
    except FileNotFoundError:
        return None
    return CollectionFacts.from_json(json.loads(text)) if text else None


def remove_reports(run_dir: Path) -> None:
    """Remove the files of workers that the controller did not read."""
    for path in run_dir.glob(".collected-*.json"):
        path.unlink(missing_ok=True)
