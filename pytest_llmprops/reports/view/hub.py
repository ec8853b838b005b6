"""Brings the rows of all runs up to date while a page is open, and passes the changes on to every page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.series import Share
from pytest_llmprops.reports.view.following import Part
from pytest_llmprops.reports.view.watching import Watch
from pytest_llmprops.reports.view.working import work
from pytest_llmprops.runs.catalog import Listed

STEP_EVERY_SECONDS = 1.0
#: A server that is silent for this time sends an empty message, so that a lost connection is noticed.
ALIVE_SECONDS = 15.0
#: runs whose accuracies one worker computes
BATCH = 50


class Hub:
    """The changes of a :class:`Watch`, for any number of pages. Only the server's event loop uses it."""

    def __init__(self, watch: Watch, facts: Mapping[str, Any]) -> None:
        """Begin without reading anything.

        :param facts: what the page needs to know in addition to the rows.
        """
        self.watch, self._facts = watch, dict(facts)
        self._version = 0
        #: the version in which each run changed last, or was removed
        self._changed: dict[str, int] = {}
        self._news, self._opened = asyncio.Event(), asyncio.Event()
        self._pages = 0
        self.is_closing = False
        self._problem = ""
        self._accuracies: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Take steps until the task is cancelled: all the time while a page is open, otherwise once."""
        try:
            while True:
                await self._step()
                if not self.watch.is_current:
                    await asyncio.sleep(0.02)
                elif self._pages:
                    await asyncio.sleep(STEP_EVERY_SECONDS)
                else:
                    self._opened.clear()
                    await self._opened.wait()
        finally:
            if self._accuracies is not None:
                self._accuracies.cancel()
                await asyncio.gather(self._accuracies, return_exceptions=True)

    async def _step(self) -> None:
        was_current = self.watch.is_current
        try:
            changes, problem = await asyncio.to_thread(self.watch.step), ""
        except Exception as error:  # the page says what failed, and the next step is taken
            problem = f"The runs could not be read ({type(error).__name__}: {error})."
            changes = None
        keys = [] if changes is None else [*(row["id"] for row in changes.rows), *changes.gone]
        if keys or problem != self._problem or self.watch.is_current != was_current or not self._version:
            self._problem = problem
            self._version += 1
            self._changed |= dict.fromkeys(keys, self._version)
            self._tell()
        waiting = self.watch.without_shares() if self.watch.is_current else []
        if waiting and (self._accuracies is None or self._accuracies.done()):
            self._accuracies = asyncio.create_task(self._compute(waiting[:BATCH]))

    async def _compute(self, runs: Sequence[Listed]) -> None:
        """Let a worker compute the accuracies over several tasks, whose intervals need the verdicts."""
        left = {str(run.folder): run for run in runs}
        async with contextlib.aclosing(work({"accuracies": list(left)})) as lines:
            async for line in lines:
                if "folder" in line:
                    shares = {Part(model, name): Share(*numbers) for model, name, *numbers in line["shares"]}
                    self.watch.add_shares(left.pop(line["folder"]), shares)
        for run in left.values():
            self.watch.add_shares(run, {})

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """End the messages to all pages."""
        self.is_closing = True
        self._tell()

    async def messages(self) -> AsyncIterator[str]:
        """Yield server-sent events: first all rows, then those that change, and the ids of runs that are gone."""
        seen = -1
        self._pages += 1
        self._opened.set()
        try:
            while not self.is_closing:
                news = self._news
                if self._version > max(seen, 0):
                    message = self._message(seen)
                    seen = self._version
                    yield f"data: {message}\n\n"
                    continue
                try:
                    await asyncio.wait_for(news.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    yield ": alive\n\n"
        finally:
            self._pages -= 1

    def _message(self, seen: int) -> str:
        rows = self.watch.rows
        changed = [key for key, version in self._changed.items() if version > seen]
        message: dict[str, Any] = {
            "rows": [rows[key] for key in changed if key in rows],
            "gone": [key for key in changed if key not in rows] if seen >= 0 else [],
            "reading": not self.watch.is_current,
            "problem": one_line(self._problem, 400),
        }
        if seen < 0:
            message["facts"] = self._facts
        return json.dumps(message)

    def folders(self, ids: str) -> list[Path] | None:
        """Return the folders of the runs with these ids, joined by ``-``; None if one of them is not listed."""
        runs = [self.watch.runs.get(key) for key in ids.split("-")]
        known = [run.folder for run in runs if run is not None]
        return known if len(known) == len(runs) else None
