"""Brings the rows of running runs up to date while a page is open, and passes the changes on to every page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.site.following import Follower
from pytest_llmprops.reports.site.pages import Pages
from pytest_llmprops.reports.site.rows import Row, id_of, row_of
from pytest_llmprops.runs.catalog import Listed, RunIndex, broken

#: bytes of each file of a run that one step reads
STEP_BYTES = 2_000_000
#: the time after which a step reads no further ``run.json`` or record
STEP_SECONDS = 0.4
STEP_EVERY_SECONDS = 1.0
#: A server that is silent for this time sends an empty message, so that a lost connection is noticed.
ALIVE_SECONDS = 15.0


class Watch:
    """The runs in some folders, and a row for each one that goes on. It writes no file.

    Steps are taken one after the other, from any thread. A run that ends while it is followed keeps its row.

    :param places: folders whose subfolders are runs. :param clock: in seconds.
    """

    def __init__(self, places: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._index, self._clock = RunIndex(places), clock
        self._followers: dict[Path, tuple[str, Follower]] = {}
        #: in the order of the runs, which begins with the last written one
        self.rows: list[Row] = []
        #: by id
        self.runs: dict[str, Listed] = {}
        #: everything was read at least once
        self.is_current = False

    def step(self) -> None:
        """Read what changed."""
        begun = self._clock()
        listed, is_current = self._index.refresh(STEP_SECONDS)
        rows, runs = [], {}
        for run in listed:
            key = id_of(run.folder)
            runs[key] = run
            try:
                follower = self._follower(run)
                if follower is None or run.facts is None:
                    continue
                if not self._read(follower, begun):
                    is_current = False
                rows.append(row_of(run, run.facts, follower, self._clock()))
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                # A field has a type that no version writes. The other runs are shown.
                runs[key] = broken(run.folder, error)
        for folder in self._followers.keys() - {run.folder for run in listed}:
            del self._followers[folder]
        self.rows, self.runs, self.is_current = rows, runs, is_current

    def _follower(self, run: Listed) -> Follower | None:
        if run.facts is None:
            return None
        began = f"{run.facts.run_id} {run.facts.started} {run.facts.expected}"
        known = self._followers.get(run.folder)
        if known is not None and known[0] == began:
            return known[1]
        if run.state != "being written":
            self._followers.pop(run.folder, None)
            return None
        follower = Follower(run.folder, run.facts)
        self._followers[run.folder] = (began, follower)
        return follower

    def _read(self, follower: Follower, begun: float) -> bool:
        """Read on in a record; return whether all of it was read."""
        try:
            while self._clock() - begun < STEP_SECONDS:
                if not follower.advance(STEP_BYTES, self._clock()):
                    return True
        except OSError as error:
            follower.problem = follower.problem or str(error.strerror)
            return True
        return False

    @property
    def ended(self) -> dict[Path, object]:
        """The runs that are not being written, with an object that changes with their ``run.json``."""
        return {
            run.folder: run.problem or run.facts for run in self.runs.values() if run.state != "being written"
        }


class Hub:
    """The state of a :class:`Watch` for any number of pages. Only the server's event loop uses it."""

    def __init__(self, watch: Watch, pages: Pages) -> None:
        self.watch, self.pages = watch, pages
        self._news, self._opened = asyncio.Event(), asyncio.Event()
        #: set when all runs were read once
        self.read = asyncio.Event()
        self._open_pages = 0
        self.is_closing = False
        self._problem = self._site_problem = ""
        self._building: asyncio.Task[None] | None = None
        self._built: dict[Path, object] | None = None
        #: how often the page was written, and whether it has all runs
        self._site, self._is_complete = 0, False

    async def run(self) -> None:
        """Take steps until the task is cancelled: all the time while a page is open, otherwise once."""
        try:
            while True:
                await self._step()
                if not self.watch.is_current:
                    await asyncio.sleep(0.02)
                elif self._open_pages:
                    await asyncio.sleep(STEP_EVERY_SECONDS)
                else:
                    self._opened.clear()
                    await self._opened.wait()
        finally:
            if self._building is not None:
                self._building.cancel()
                await asyncio.gather(self._building, return_exceptions=True)

    async def _step(self) -> None:
        try:
            await asyncio.to_thread(self.watch.step)
            self._problem = ""
        except Exception as error:  # the page says what failed, and the next step is taken
            self._problem = f"The runs could not be read ({type(error).__name__}: {error})."
        if self.watch.is_current:
            self.read.set()
        self._tell()
        ended = self.watch.ended
        if self.read.is_set() and ended != self._built and (self._building is None or self._building.done()):
            self._built = ended
            self._building = asyncio.create_task(self._build(list(ended)))

    async def _build(self, runs: list[Path]) -> None:
        self._site_problem = await self.pages.write_index(runs, self._site_written)
        self._is_complete = True
        self._tell()

    def _site_written(self) -> None:
        self._site += 1
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """End the messages to all pages."""
        self.is_closing = True
        self._tell()

    async def messages(self) -> AsyncIterator[str]:
        """Yield server-sent events: what the live part shows, each time that it changes."""
        seen = ""
        self._open_pages += 1
        self._opened.set()
        try:
            while not self.is_closing:
                news = self._news
                if (message := self._message()) != seen:
                    seen = message
                    yield f"data: {message}\n\n"
                    continue
                try:
                    await asyncio.wait_for(news.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    yield ": alive\n\n"
        finally:
            self._open_pages -= 1

    def _message(self) -> str:
        problems = filter(None, (self._problem, self._site_problem))
        message = {
            "rows": self.watch.rows,
            "reading": not (self.watch.is_current and self._is_complete),
            "site": self._site,
            "problem": one_line(" ".join(problems), 400),
        }
        return json.dumps(message)
