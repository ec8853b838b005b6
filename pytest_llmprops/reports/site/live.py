"""The live part of the page of ``llmprops view``: runs in progress, followed while their record is written."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.numbers import cost, count, counted, duration, number, percent
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.requests import PaidReply
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.site.pages import Pages, id_of
from pytest_llmprops.reports.tables import columns_of
from pytest_llmprops.runs.benchmark_metadata import facts_of, title_of
from pytest_llmprops.runs.catalog import Listed, RunIndex
from pytest_llmprops.runs.integrity import REQUESTS, VERDICTS
from pytest_llmprops.runs.json_lines import AppendedLines
from pytest_llmprops.runs.merge import shard_steps
from pytest_llmprops.runs.recorded_command import resume_command

#: bytes of each file of a run that are read at a time
STEP_BYTES = 2_000_000
#: the time after which a step reads no further ``run.json`` or record
STEP_SECONDS = 0.4
STEP_EVERY_SECONDS = 1.0
#: A server that is silent for this time sends an empty message, so that a lost connection is noticed.
ALIVE_SECONDS = 15.0
#: Rates are those of the last seconds, if at least the second number of them was observed.
WINDOW_SECONDS, ESTIMATE_SECONDS = 30.0, 3.0
#: a run that makes no progress for this time says so
STALLED_SECONDS = 30.0
#: the longest name and the longest remark on the page
MOST, MOST_REMARK = 120, 400

#: texts by name, which the page writes as they are
Row = dict[str, Any]


class Part(NamedTuple):
    """One model on one benchmark."""

    model: str
    benchmark: str


class Follower:
    """The counts of one run. They are complete up to the last complete lines that were read.

    A verdict that is recorded again replaces the earlier one. A file that is replaced, cut or deleted is counted again
    from its beginning.
    """

    def __init__(self, folder: Path, facts: RunMetadata) -> None:
        self.folder, self.facts = folder, facts
        self._begin()

    def _begin(self) -> None:
        self._verdicts = AppendedLines(self.folder / VERDICTS)
        self._requests = AppendedLines(self.folder / REQUESTS)
        #: the verdicts by status, in total, and of each part by task
        self.statuses: Counter[str] = Counter()
        self.parts: dict[Part, dict[str, Counter[str]]] = {}
        #: the calls that the run paid for, their cost, and how many have an unknown price or estimated tokens
        self.calls, self.cost, self.unpriced, self.estimated = 0, 0.0, 0, 0
        #: lines that cannot be read, with the first problem
        self.damaged, self.problem = 0, ""
        #: part, task and status of each verdict, by the hash of its key
        self._known: dict[int, tuple[Part, str, str]] = {}
        self._history: deque[tuple[float, int, int]] = deque()
        #: everything so far was read
        self.is_current = False
        #: when lines were last seen to be added
        self.progress_at: float | None = None

    def advance(self, most: int, now: float) -> bool:
        """Read what was appended, at most about ``most`` bytes of each file; return whether there is more.

        :param now: a clock in seconds, for the rates.
        :raises OSError: if a file cannot be read.
        """
        has_more = False
        for file, add in ((self._verdicts, self._add_verdict), (self._requests, self._add_request)):
            appended = file.read(most)
            if appended.is_new:
                self._begin()
                return True
            for line in filter(bytes.strip, appended.lines):
                try:
                    add(parsed_json(line))
                except (ValueError, RecursionError) as error:
                    self.damaged += 1
                    self.problem = self.problem or str(error)
            has_more |= appended.has_more
            if appended.lines or self.progress_at is None:
                self.progress_at = now
        self.is_current |= not has_more
        # What was recorded before this run was followed says nothing about its speed.
        if self.is_current:
            self._history.append((now, self.done, self.calls))
            while len(self._history) > 2 and self._history[1][0] <= now - WINDOW_SECONDS:
                self._history.popleft()
        return has_more

    def _add_verdict(self, row: Any) -> None:
        record = from_plain(VerdictRecord, row)
        key, part = hash(record.key), Part(record.model, record.benchmark)
        if key in self._known:
            self._count(*self._known[key], -1)
        self._known[key] = (part, record.task, record.status)
        self._count(part, record.task, record.status, 1)

    def _count(self, part: Part, task: str, status: str, change: int) -> None:
        self.statuses[status] += change
        self.parts.setdefault(part, {}).setdefault(task, Counter())[status] += change

    def _add_request(self, row: Any) -> None:
        reply = from_plain(PaidReply, row)
        # A stored reply was not paid for by this run. A line without a key defines a prefix.
        if row.get("cached") is True or row.keys().isdisjoint(("key", "discarded")):
            return
        self.calls += 1
        self.estimated += reply.usage.estimated
        self.unpriced += reply.cost_usd is None
        self.cost += reply.cost_usd or 0.0

    @property
    def done(self) -> int:
        """The number of verdicts, with errors."""
        return self.statuses.total()

    @property
    def cost_text(self) -> str:
        """The cost of the calls so far: ``≈0.0123 USD`` if tokens are estimated."""
        text = cost(self.calls, None if self.unpriced else self.cost)
        return f"≈{text}" if self.estimated and not self.unpriced else text

    @property
    def rates(self) -> tuple[float, float] | None:
        """Verdicts and calls per second in the last seconds; None while too few seconds were observed."""
        if len(self._history) < 2:
            return None
        (begun, *first), (now, *last) = self._history[0], self._history[-1]
        if now - begun < ESTIMATE_SECONDS:
            return None
        verdicts, calls = (
            (after - before) / (now - begun) for before, after in zip(first, last, strict=True)
        )
        return verdicts, calls

    @property
    def seconds_left(self) -> float | None:
        """The time that the other cases take at the current rate; None if it cannot be estimated."""
        rate = self.rates[0] if self.rates else 0
        if rate <= 0 or self.facts.expected is None:
            return None
        return max(0, self.facts.expected - self.done) / rate


def row_of(run: Listed, facts: RunMetadata, follower: Follower, now: float) -> Row:
    """Return what the page shows of a run: plain texts, with the numbers already written for readers.

    :param now: the clock that the follower was advanced with.
    """
    expected, left = facts.expected, follower.seconds_left
    state = "running" if run.state == "being written" else run.state if facts.finished else "killed"
    is_running = state == "running"
    remarks = list(_remarks(facts, follower, state, now))
    steps = shard_steps(facts)
    if steps:
        remarks.append(f"to complete it: {steps}")
    return {
        "id": id_of(run.folder),
        "name": one_line(run.folder.name, MOST),
        "state": state,
        "parts": [_part(part, tasks, facts) for part, tasks in follower.parts.items()],
        "counts": _counts(follower.statuses),
        "cost": follower.cost_text,
        "gate": one_line(facts.gate.decision, 20) if facts.gate is not None else "",
        "remarks": [one_line(text, MOST_REMARK) for text in (*remarks, *facts.notes[:5])],
        "command": resume_command(run.folder) if state in ("killed", "incomplete") and not steps else "",
        "progress": {
            "done": count(follower.done),
            "expected": _expected(facts),
            "share": min(1.0, follower.done / expected) if expected else None,
            "calls": counted(follower.calls, "call"),
            "speed": f"{number(follower.rates[1])} calls a second" if is_running and follower.rates else "",
            "left": f"{duration(left)} left" if is_running and left is not None and follower.done else "",
        },
    }


def _remarks(facts: RunMetadata, follower: Follower, state: str, now: float) -> Iterator[str]:
    if facts.gate is not None:
        yield facts.gate.line
    if facts.stopped:
        yield f"stopped: {facts.stopped}"
    if not follower.is_current:
        yield "The record is being read: the counts are of its beginning."
    if follower.problem:
        lines = f"{counted(follower.damaged, 'line')} cannot be read: " if follower.damaged else ""
        yield lines + follower.problem
    done = f"{count(follower.done)} of {_expected(facts)} cases have a verdict"
    if state == "killed":
        yield f"Ended without finishing (killed?): {done}."
    elif state == "incomplete":
        yield f"incomplete: {done}"
    idle = 0.0 if follower.progress_at is None else now - follower.progress_at
    if state == "running" and idle >= STALLED_SECONDS:
        yield f"No progress for {duration(idle)}."


def _expected(facts: RunMetadata) -> str:
    return "?" if facts.expected is None else count(facts.expected)


def _counts(statuses: Mapping[str, int]) -> dict[str, str]:
    """Return the numbers by title, without zeros, except those that every run is asked about."""
    texts = {}
    for column in (c for columns in columns_of("view", ()) for c in columns):
        value = statuses.get(column.status, 0) if column.status else 0
        if value or column.status in ("correct", "wrong", "error"):
            texts[column.title] = column.text(value)
    return texts


def _part(part: Part, tasks: Mapping[str, Counter[str]], facts: RunMetadata) -> Row:
    known = facts_of(part.benchmark, facts) or BenchmarkMetadata.unknown(part.benchmark)
    headline = sum((tasks[task] for task in known.headline_tasks(tasks)), Counter())
    answered = headline.total() - sum(headline[status] for status in UNANSWERED)
    is_shown = answered and known.is_ranked(tasks)
    return {
        "model": one_line(part.model, MOST),
        "benchmark": one_line(title_of(part.benchmark, facts), MOST),
        "accuracy": percent(headline["correct"] / answered if is_shown else None),
        "counts": _counts(sum(tasks.values(), Counter())),
    }


class Watch:
    """The runs in some folders, and a row for each one in progress. It writes no file.

    Steps are taken one after the other, from any thread. A run that ends while it is followed keeps its row.

    :param places: folders whose subfolders are runs. :param clock: in seconds.
    """

    def __init__(self, places: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._index, self._clock = RunIndex(places), clock
        self._followers: dict[Path, Follower] = {}
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
        followers, rows = {}, []
        for run in listed:
            follower = self._follower(run)
            if follower is not None and run.facts is not None:
                followers[run.folder] = follower
                is_current &= self._read(follower, begun)
                rows.append(row_of(run, run.facts, follower, self._clock()))
        self.runs = {id_of(run.folder): run for run in listed}
        self._followers, self.rows, self.is_current = followers, rows, is_current

    def _follower(self, run: Listed) -> Follower | None:
        facts, known = run.facts, self._followers.get(run.folder)
        if known is not None and facts is not None:
            begun = known.facts
            if (begun.run_id, begun.started, begun.expected) == (facts.run_id, facts.started, facts.expected):
                return known
        return Follower(run.folder, facts) if facts is not None and run.state == "being written" else None

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
        #: set when all runs were read once
        self.read = asyncio.Event()
        self._open_pages = 0
        self._problem = ""
        self._building: asyncio.Task[None] | None = None
        self._built: dict[Path, object] | None = None
        self._message = ""

    async def run(self) -> None:
        """Take steps until the task is cancelled: all the time while a page is open, otherwise once."""
        try:
            while True:
                if self._open_pages or not self.watch.is_current:
                    await self._step()
                await asyncio.sleep(STEP_EVERY_SECONDS if self.watch.is_current else 0.02)
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
        ended = self.watch.ended
        if self.read.is_set() and ended != self._built and (self._building is None or self._building.done()):
            self._built = ended
            self._building = asyncio.create_task(self.pages.write_index(list(ended)))
        is_building = self._building is None or not self._building.done()
        message = {
            "rows": self.watch.rows,
            "reading": is_building or not self.watch.is_current,
            "site": self.pages.version,
            "problem": one_line(" ".join(filter(None, (self._problem, self.pages.problem))), 400),
        }
        self._message = json.dumps(message)

    async def messages(self) -> AsyncIterator[str]:
        """Yield server-sent events: what the live part shows, each time that it changes."""
        seen, sent_at = "", time.monotonic()
        self._open_pages += 1
        try:
            while True:
                if self._message != seen:
                    seen, sent_at = self._message, time.monotonic()
                    yield f"data: {seen}\n\n"
                elif time.monotonic() - sent_at > ALIVE_SECONDS:
                    sent_at = time.monotonic()
                    yield ": alive\n\n"
                await asyncio.sleep(0.1)
        finally:
            self._open_pages -= 1
