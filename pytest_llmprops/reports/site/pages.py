"""The pages that ``llmprops view`` serves. Workers build them in a private folder, one report at a time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.runs.catalog import record_identity

#: the first page of a report
PAGE = "report.html"
#: reports that are kept; the one that was built longest ago is deleted first
MOST = 8


class CannotBuild(Exception):
    """A page could not be built; the text says why."""


def id_of(folder: Path) -> str:
    """Return an opaque id for a folder, used in URLs instead of its path."""
    return hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


class Pages:
    """The page of the site and the reports. Only the server's event loop uses it."""

    def __init__(self) -> None:
        # Only this user may read it.
        self._folder = Path(tempfile.mkdtemp(prefix="llmprops-view-"))
        self._index = self._folder / "site" / "index.html"
        self._one = asyncio.Lock()
        self._reports: dict[Path, object] = {}
        #: why the page of the site could not be written; empty if it could
        self.problem = ""

    @property
    def version(self) -> str:
        """What changes each time that the page of the site is written."""
        return str(self._index.stat().st_mtime_ns) if self._index.exists() else ""

    async def index(self) -> bytes:
        """Return the page of the site, when it was written first.

        :raises CannotBuild: with one line that says why.
        """
        while not self._index.exists():
            if self.problem:
                raise CannotBuild(self.problem)
            await asyncio.sleep(0.02)
        return await asyncio.to_thread(self._index.read_bytes)

    async def write_index(self, runs: Sequence[Path]) -> None:
        """Write the page of the site, first without runs if there is none."""
        self.problem = await work({"index": list(map(str, runs)), "out": str(self._index.parent)})

    async def report(self, run: Path) -> Path:
        """Return the page of the report on a run, which is built again if the record changed.

        :raises CannotBuild: with one line that says why.
        """
        out = self._folder / id_of(run)
        async with self._one:
            identity = record_identity(run)
            if self._reports.get(run) != identity:
                if problem := await work({"report": str(run), "out": str(out)}):
                    raise CannotBuild(problem)
                self._reports[run] = identity
            for old in list(self._reports)[:-MOST]:
                del self._reports[old]
                shutil.rmtree(self._folder / id_of(old), ignore_errors=True)
        return out / PAGE

    async def close(self) -> None:
        """Delete all pages."""
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


async def work(job: Mapping[str, Any]) -> str:
    """Let a worker do ``job``; return the problem in one line, empty without one."""
    process = await asyncio.create_subprocess_exec(
        # -P: no module of the current folder replaces one of Python.
        *(sys.executable, "-P", "-m", "pytest_llmprops.reports.site.worker"),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C ends this process, which then ends the worker.
        start_new_session=True,
    )
    try:
        _, errors = await process.communicate(json.dumps(job).encode())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return (lines or [f"the worker ended with status {process.returncode}"])[-1] if process.returncode else ""
