"""Brings the rows of all runs up to date while a page is open, and passes the changes on to every page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.core.numbers import MISSING
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.series import Share
from pytest_llmprops.reports.view.following import Follower, Part
from pytest_llmprops.reports.view.rows import Row, row_of
from pytest_llmprops.runs.catalog import Listed, RunIndex, broken

# The state of all runs that the page shows, brought up to date step by step.

#: bytes of each file of a run that one step reads
STEP_BYTES = 2_000_000
#: The time after which a step reads no further ``run.json`` or record. The page is shown before all runs were read.
STEP_SECONDS = 0.4

_NO_SHARES: Mapping[Part, Share] = {}


class Changes(NamedTuple):
    """What one step changed: the rows that are new or different, and the ids of those that are gone."""

    rows: list[Row]
    gone: list[str]


class Watch:
    """The rows of all runs. Only :meth:`step` reads files; it writes none.

    Steps are taken one after the other, from any thread.

    :param places: folders whose subfolders are runs. :param clock: in seconds.
    """

    def __init__(self, places: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._index, self._clock = RunIndex(places), clock
        self._followers: dict[Path, tuple[str, Follower]] = {}
        self._shares: dict[Path, tuple[object, Mapping[Part, Share]]] = {}
        self._finished: dict[Path, tuple[RunMetadata, Mapping[Part, Share], Row]] = {}
        #: by id
        self.rows: dict[str, Row] = {}
        self.runs: dict[str, Listed] = {}
        #: everything was read at least once
        self.is_current = False

    def step(self) -> Changes:
        """Read what changed; return the rows that are different from those of the last step."""
        begun = self._clock()
        listed, is_current = self._index.refresh(STEP_SECONDS)
        rows, runs = {}, {}
        for run in listed:
            try:
                follower = self._follower(run)
                if follower is not None and not self._read(run, follower, begun):
                    is_current = False
                row = self._row(run, follower)
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                # A field has a type that no version writes. The other runs are shown.
                unreadable = broken(run.folder, error)
                row = row_of(unreadable, None, _NO_SHARES, begun)
            rows[row["id"]], runs[row["id"]] = row, run
        listed_folders = {run.folder for run in listed}
        for folder in self._followers.keys() - listed_folders:
            del self._followers[folder]
        changed = [row for key, row in rows.items() if (old := self.rows.get(key)) is not row and old != row]
        self._finished = {folder: self._finished[folder] for folder in listed_folders & self._finished.keys()}
        gone = [key for key in self.rows if key not in rows]
        self.rows, self.runs, self.is_current = rows, runs, is_current
        return Changes(changed, gone)

    def _row(self, run: Listed, follower: Follower | None) -> Row:
        shares = self._shares_of(run)
        if follower is not None or run.facts is None:
            return row_of(run, follower, shares, self._clock())
        made = self._finished.get(run.folder)
        if made is None or made[0] is not run.facts or made[1] is not shares:
            made = self._finished[run.folder] = (run.facts, shares, row_of(run, None, shares, self._clock()))
        return made[2]

    def _follower(self, run: Listed) -> Follower | None:
        if run.facts is None:
            return None
        began = f"{run.facts.run_id} {run.facts.started} {run.facts.expected}"
        known = self._followers.get(run.folder)
        if known is not None and known[0] == began:
            return known[1]
        if run.facts.finished is not None:
            self._followers.pop(run.folder, None)
            return None
        follower = Follower(run.folder, run.facts)
        self._followers[run.folder] = (began, follower)
        return follower

    def _read(self, run: Listed, follower: Follower, begun: float) -> bool:
        """Read on in a record; return whether all of it was read."""
        try:
            while self._clock() - begun < STEP_SECONDS:
                if not follower.advance(STEP_BYTES, self._clock()):
                    return True
        except OSError as error:
            follower.problem = follower.problem or str(error.strerror)
            return True
        return False

    def _shares_of(self, run: Listed) -> Mapping[Part, Share]:
        known = self._shares.get(run.folder)
        # The facts of a run are another object after its run.json was read again.
        return known[1] if known is not None and known[0] is run.facts else _NO_SHARES

    def add_shares(self, run: Listed, shares: Mapping[Part, Share]) -> None:
        """Keep the accuracies of a run over several tasks, until its ``run.json`` changes."""
        self._shares[run.folder] = (run.facts, shares)

    def without_shares(self) -> list[Listed]:
        """Return the finished runs with an accuracy over several tasks that is not known yet, the newest first."""
        return [
            run
            for key, run in self.runs.items()
            if run.facts is not None
            and run.facts.finished is not None
            and any(not part["interval"] and part["accuracy"] != MISSING for part in self.rows[key]["parts"])
            and not (run.folder in self._shares and self._shares[run.folder][0] is run.facts)
        ]


#: the longest line that a worker writes, in bytes: the files of a report, or the accuracies of one run
_LONGEST = 16_000_000


async def work(job: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the lines that a worker writes about ``job``. The worker ends if the iteration does.

    A worker that fails yields a last line with ``error``.
    """
    process = await asyncio.create_subprocess_exec(
        # -P: no module of the current folder replaces one of Python.
        sys.executable,
        "-P",
        "-m",
        "pytest_llmprops.reports.view.worker",
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
