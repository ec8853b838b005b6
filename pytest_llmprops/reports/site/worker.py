"""A process that builds pages for ``llmprops view``: ``python -m pytest_llmprops.reports.site.worker``.

It reads one job as JSON from standard input; of a job that fails, the last line of standard error says why. It has its
own process, so that the page stays alive, and a low priority, so that a run on the same machine is not slowed down.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pytest_llmprops.core.errors import LLMPropsError


def main() -> None:
    """Do the job of standard input."""
    from pytest_llmprops.reports.page.build import write_report
    from pytest_llmprops.reports.site.build import write_live_index
    from pytest_llmprops.reports.site.pages import id_of

    if hasattr(os, "nice"):
        os.nice(10)
    job = json.load(sys.stdin)
    out = Path(job["out"])
    try:
        if "report" in job:
            write_report([Path(job["report"])], out, is_served=True)
        else:
            runs = map(Path, job["index"])
            write_live_index({run: f"reports/{id_of(run)}/run/report.html" for run in runs}, out)
    except LLMPropsError as error:
        sys.exit(str(error))
    except MemoryError:
        sys.exit("the memory of this machine is too small for this page")


if __name__ == "__main__":
    main()
