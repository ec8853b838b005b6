"""Reports on demand: built once per state of the records, one at a time, in a private folder."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_llmprops.reports.page import PACKAGES
from pytest_llmprops.reports.view.hub import work
from pytest_llmprops.runs.catalog import record_identity

#: reports that are kept; the one that was opened longest ago is deleted first
MOST = 8
FIX = "A report needs the extra 'report': pip install 'pytest-llmprops[report]'"


@dataclass
class Build:
    """One report: being built, built, or failed.

    :param folders: of the runs; of several, the first one is the baseline.
    :param out: the folder of its files. :param files: their paths in it, once they are written.
    :param doing: what is being done. :param problem: why it failed.
    """

    key: str
    folders: tuple[Path, ...]
    out: Path
    state: Literal["building", "built", "failed"] = "building"
    doing: str = "waiting for another report"
    problem: str = ""
    files: frozenset[str] = frozenset()
    begun: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = None

    @property
    def seconds(self) -> float:
        """The time since it was asked for."""
        return time.monotonic() - self.begun


def missing_extra() -> str:
    """Return how to install what reports need; empty if it is installed."""
    return "" if all(importlib.util.find_spec(name) for name in PACKAGES) else FIX


class Builds:
    """The reports of a server. Only its event loop uses it."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._builds: dict[str, Build] = {}
        self._one = asyncio.Semaphore(1)

    def open(self, folders: Sequence[Path]) -> Build:
        """Return the report on these runs as their records are now; begin to build it if it is not there."""
        identity = [(str(folder), record_identity(folder)) for folder in folders]
        key = hashlib.sha256(repr(identity).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        build = self._builds.pop(key, None)
        if build is None or build.state == "failed":
            if self._folder is None:
                # Only this user may read it.
                self._folder = Path(tempfile.mkdtemp(prefix="llmprops-view-"))
            build = Build(key, tuple(folders), self._folder / key)
            build.task = asyncio.create_task(self._build(build))
        self._builds[key] = build
        self._remove_oldest()
        return build

    def get(self, key: str) -> Build | None:
        """Return a report that was opened before; None if it was deleted since."""
        return self._builds.get(key)

    def _remove_oldest(self) -> None:
        for old in list(self._builds.values())[:-MOST]:
            if old.state != "building":
                del self._builds[old.key]
                shutil.rmtree(old.out, ignore_errors=True)

    async def _build(self, build: Build) -> None:
        first, others = build.folders[0], build.folders[1:]
        job = {
            "folders": [str(folder) for folder in others or (first,)],
            "baseline": str(first) if others else None,
            "out": str(build.out),
        }
        async with self._one:
            build.doing = "starting"
            async with contextlib.aclosing(work(job)) as lines:
                async for line in lines:
                    build.doing = line.get("doing", build.doing)
                    build.files = frozenset(line.get("files", ()))
                    build.problem = line.get("error", "")
        build.state = "built" if build.files else "failed"

    async def close(self) -> None:
        """End what is being built, and delete all reports."""
        tasks = [build.task for build in self._builds.values() if build.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
