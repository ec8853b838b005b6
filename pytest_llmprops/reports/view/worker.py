"""A process that builds a report, or computes accuracies: ``python -m pytest_llmprops.reports.view.worker``.

It reads one job as JSON from standard input and writes lines of JSON to standard output. It has its own process, so
that the page stays alive, and a low priority, so that a run on the same machine is not slowed down.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import LLMPropsError


def main() -> None:
    """Do the job of standard input."""
    if hasattr(os, "nice"):
        os.nice(10)
    job = json.load(sys.stdin)
    if "out" in job:
        _report(job)
    else:
        for folder in job["accuracies"]:
            _say({"folder": folder, "shares": _accuracies(Path(folder))})


def _say(line: Mapping[str, Any]) -> None:
    # ASCII only, so that no encoding of the standard output fails.
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _report(job: Mapping[str, Any]) -> None:
    from pytest_llmprops.reports.page.build import write_report

    baseline = None if job["baseline"] is None else Path(job["baseline"])
    out = Path(job["out"])
    try:
        files = write_report(
            [Path(folder) for folder in job["folders"]],
            out,
            baseline,
            is_served=True,
            progress=lambda text: _say({"doing": text}),
        )
    except LLMPropsError as error:
        _say({"error": str(error)})
        return
    except MemoryError:
        _say({"error": "the memory of this machine is too small for this report"})
        return
    paths = [path for file in files for path in (file.rglob("*") if file.is_dir() else (file,))]
    _say({"files": [path.relative_to(out).as_posix() for path in paths if path.is_file()]})


def _accuracies(folder: Path) -> list[list[Any]]:
    """Return ``[model, benchmark, value, low, high, n]`` of each model of a run, as its report has them."""
    from pytest_llmprops.reports.kit.series import Measured, series_of
    from pytest_llmprops.runs.reader import read_run

    try:
        series = series_of([read_run(folder)])
    except Exception:  # a damaged record, of which the page says more; the others follow
        return []
    shares = []
    for one in series:
        for benchmark in one.benchmarks:
            measured = Measured(benchmark, (one,))
            share = measured.headline(one)
            if share is not None:
                shares.append([one.model, benchmark, share.value, share.low, share.high, share.n])
    return shares


if __name__ == "__main__":
    main()
