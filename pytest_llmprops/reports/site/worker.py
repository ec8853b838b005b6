"""A process that builds pages for ``llmprops view``: ``python -m pytest_llmprops.reports.site.worker``.

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
    try:
        if "report" in job:
            _report(Path(job["report"]), Path(job["out"]))
        else:
            _index(list(map(Path, job["index"])), Path(job["out"]))
    except LLMPropsError as error:
        _say({"error": str(error)})
    except MemoryError:
        _say({"error": "the memory of this machine is too small for this page"})


def _say(line: Mapping[str, Any]) -> None:
    # ASCII only, so that no encoding of the standard output fails.
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _report(run: Path, out: Path) -> None:
    from pytest_llmprops.reports.page.build import write_report

    files = write_report([run], out, is_served=True)
    paths = [path for file in files for path in (file.rglob("*") if file.is_dir() else (file,))]
    _say({"files": [path.relative_to(out).as_posix() for path in paths if path.is_file()]})


def _index(runs: list[Path], out: Path) -> None:
    from pytest_llmprops.reports.site.build import write_live_index
    from pytest_llmprops.reports.site.rows import id_of

    links = {run: f"reports/{id_of(run)}/run/report.html" for run in runs}
    for page in write_live_index(links, out):
        _say({"page": str(page)})


if __name__ == "__main__":
    main()
