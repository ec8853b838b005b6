"""The pages that ``llmprops view`` serves. Workers build them in a private folder, one report at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.reports.site.rows import id_of
from pytest_llmprops.runs.catalog import record_identity

#: the first page of a report
PAGE = "report.html"
#: reports that are kept; the one that was built longest ago is deleted first
MOST = 8
#: the longest line that a worker writes, in bytes: the files of a report
_LONGEST = 16_000_000


class CannotBuild(Exception):
    """A page could not be built; the text says why."""


class Pages:
    """The page of the site and the reports. Only the server's event loop uses it."""

    def __init__(self) -> None:
        # Only this user may read it.
        self._folder = Path(tempfile.mkdtemp(prefix="llmprops-view-"))
        self._one = asyncio.Lock()
        self._reports: dict[Path, tuple[object, dict[str, Path]]] = {}
        self._first = asyncio.Event()

    async def index(self) -> Path:
        """Return the file of the site's page, when it was written first."""
        await self._first.wait()
        return self._folder / "site" / "index.html"

    async def write_index(self, runs: Sequence[Path], written: Callable[[], None]) -> str:
        """Write the site's page, first without runs if there is none; return the problem, empty without one.

        :param written: called when the page was written.
        """
        job = {"index": [str(run) for run in runs], "out": str(self._folder / "site")}
        async with contextlib.aclosing(work(job)) as lines:
            async for line in lines:
                if "error" in line:
                    return str(line["error"])
                self._first.set()
                written()
        return ""

    async def report(self, run: Path, *, is_new: bool) -> dict[str, Path]:
        """Return the files of the report on a run by their paths in it.

        :param is_new: the report is built again if the record changed.
        :raises CannotBuild: with one line that says why.
        """
        async with self._one:
            known, identity = self._reports.get(run), record_identity(run)
            if known is not None and (not is_new or known[0] == identity):
                return known[1]
            out, names, problem = self._folder / id_of(run), [], "the worker ended"
            async with contextlib.aclosing(work({"report": str(run), "out": str(out)})) as lines:
                async for line in lines:
                    names, problem = line.get("files", []), line.get("error", "")
            if not names:
                raise CannotBuild(problem)
            files = {name: out / name for name in names}
            self._reports = {**self._reports, run: (identity, files)}
            for old in list(self._reports)[:-MOST]:
                del self._reports[old]
                shutil.rmtree(self._folder / id_of(old), ignore_errors=True)
            return files

    async def close(self) -> None:
        """Delete all pages."""
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


async def work(job: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the lines that a worker writes about ``job``. The worker ends if the iteration does.

    A worker that fails yields a last line with ``error``.
    """
    process = await asyncio.create_subprocess_exec(
        # -P: no module of the current folder replaces one of Python.
        sys.executable,
        "-P",
        "-m",
        "pytest_llmprops.reports.site.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_LONGEST,
        # Ctrl-C ends this process, which then ends the worker.
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        async for line in process.stdout:
            yield json.loads(line)
        if await process.wait():
            said = (await errors).decode("utf-8", "replace").strip().splitlines()
            yield {"error": said[-1] if said else f"the worker ended with status {process.returncode}"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # The pipes are closed when both have ended; the loop may end after this.
        await asyncio.gather(errors, process.wait(), return_exceptions=True)
