"""Concurrent evaluation: many cases are evaluated at once, before pytest reports them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import typing
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import checked_verdict, raised, returned
from pytest_llmprops.core.errors import BackendError, ContractError, LLMPropsError, RunStopped
from pytest_llmprops.core.faults import fault_line, place_of, type_name
from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.requests import (
    GENERATED,
    REQUESTS,
    Chat,
    Kind,
    Likelihood,
    Reply,
    Request,
    continued,
    is_base,
    of_repeat,
)
from pytest_llmprops.core.texts import explained, one_line
from pytest_llmprops.core.verdicts import STATUSES, Status, Verdict, VerdictRecord, record_of
from pytest_llmprops.engine.event_loop import is_cancellation
from pytest_llmprops.records.files import line

#: equal faults in a row after which a run stops
MOST_FAULTS = 20


class Faults:
    """Counts the equal faults in a row, over the cases of one process."""

    def __init__(self) -> None:
        self._last: tuple[str, str, str] | None = None
        self._count = 0

    def add(self, benchmark: str, failure: Exception | None) -> str | None:
        """Count a case; return why the run should stop, None if it should go on.

        :param failure: why the case is an error; None if it has a verdict.
        """
        # Limits and retries are for the failures of calls. A missing helper is missing for every item.
        if failure is None or (isinstance(failure, BackendError) and failure.kind != "helper"):
            self._last = None
            return None
        # The message of an exception may name the item; its place in the code does not.
        is_message = isinstance(failure, ContractError | BackendError)
        what = str(failure) if is_message else place_of(failure) or str(failure)
        key = (benchmark, type(failure).__name__, what)
        self._count = self._count + 1 if key == self._last else 1
        self._last = key
        if self._count < MOST_FAULTS:
            return None
        return (
            f"{MOST_FAULTS} items of {benchmark} in a row failed in the same way: {fault_line(failure)}; correct it and"
            " run again, the store has the replies so far"
        )


BrokerAsk = Callable[[str, str, Request], Awaitable[Reply]]
#: why an unfinished case has no verdict when the evaluator is closed
CLOSED = "the run ended"
#: benchmark, model, id of the item, and sample
CaseKey = tuple[str, str, str, int]
_CHAT_FIELDS = ("temperature", "max_tokens", "stop")
#: A benchmark gets at most this many characters of a reply, so that reading one cannot hold up a run.
LONGEST_REPLY = 1_000_000
#: Outcomes that pytest has not fetched. The next cases then wait until it has fetched half, or waits for a case.
MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Case:
    """One sample of one item, to be measured on one model.

    :param params: ``--llm-param`` values, which override every request to the model under test.
    :param helpers: role -> label of the helper model.
    :param kinds: the kinds of request that the model under test serves.
    :param sample: number of the repeat, from 0.
    """

    benchmark: Benchmark
    item: Item
    context: Any
    protocol: Protocol[Any]
    model: str
    params: Mapping[str, Any] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)
    kinds: frozenset[Kind] = frozenset()
    sample: int = 0

    @property
    def key(self) -> CaseKey:
        """The identity of the case within a session."""
        return (self.benchmark.name, self.model, self.item.id, self.sample)


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a case and its reply, for the report."""

    role: str
    request: Request
    reply: Reply | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case: a verdict, a backend's error, a stopped run, or an exception in the benchmark.

    :param calls: the calls with their requests and replies, which only Allure shows.
    :param keys: the keys of the answered requests, of an outcome without ``calls``.
    """

    case: Case
    verdict: Verdict | None = None
    error: BackendError | None = None
    stopped: str | None = None
    fault: Exception | None = None
    calls: Sequence[Call] = ()
    keys: tuple[str, ...] = ()

    @property
    def requests(self) -> tuple[str, ...]:
        """The keys of the answered requests, in the order of the calls."""
        return self.keys or tuple(c.reply.key for c in self.calls if c.reply and c.reply.key)

    @property
    def key(self) -> CaseKey:
        """The key of the case."""
        return self.case.key

    @property
    def failure(self) -> Exception | None:
        """Why the case is an error; None if it is not."""
        return self.error or self.fault

    def record(self) -> VerdictRecord:
        """Return the case's line of ``verdicts.jsonl``."""
        if self.fault is not None:
            message = fault_line(self.fault)
        else:
            message = "" if self.error is None else " ".join(self.error.message.split())
        return record_of(
            self.case.item,
            self.case.benchmark.name,
            self.case.model,
            self.verdict,
            requests=self.requests,
            error=message,
            sample=self.case.sample,
        )


def with_params(request: Request, params: Mapping[str, Any]) -> Request:
    """Return the request with its values overridden by ``--llm-param``."""
    if not params or not isinstance(request, GENERATED):
        return request
    known = {k: v for k, v in params.items() if k in _CHAT_FIELDS}
    if "stop" in known:
        known["stop"] = (known["stop"],) if isinstance(known["stop"], str) else tuple(known["stop"])
    if known.get("temperature") is not None:
        # 0 and 0.0 would have different keys in the store.
        known["temperature"] = float(known["temperature"])
    extra = dict(request.extra) | {k: v for k, v in params.items() if k not in _CHAT_FIELDS}
    return replace(request, **known, extra=tuple(sorted(extra.items())))


class Asking:
    """The ``ask`` of a benchmark for one case: sends requests to its models and records the calls."""

    __slots__ = ("_broker_ask", "_case", "calls", "is_filtered", "is_over", "longest")

    def __init__(self, case: Case, broker_ask: BrokerAsk) -> None:
        self._case, self._broker_ask = case, broker_ask
        self.calls: list[Call] = []
        #: length of the longest reply, before it was cut
        self.longest = 0
        #: a content filter withheld a reply of the model under test
        self.is_filtered = False
        #: the case is finished, so that no call belongs to it any more
        self.is_over = False

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of request that the model under test serves."""
        return self._case.kinds

    @property
    def roles(self) -> frozenset[str]:
        """The roles that have a helper."""
        return frozenset(self._case.helpers)

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        case = self._case
        self._check(request)
        if role == "subject":
            if isinstance(request, Chat) and is_base(case.kinds):
                request = continued(request)
            label, request = case.model, of_repeat(with_params(request, case.params), case.sample)
        elif role in case.helpers:
            label = case.helpers[role]
        else:
            raise BackendError(
                f"{case.benchmark.name} needs a model for the role '{role}': --llm-helper {role}=SPEC",
                kind="helper",
            )
        try:
            reply = await self._broker_ask(label, role, request)
        except BackendError as error:
            self.calls.append(Call(role, request, None, error.message))
            raise
        self.calls.append(Call(role, request, reply))
        self.is_filtered |= role == "subject" and reply.finish_reason == "content_filter"
        self.longest = max(self.longest, len(reply.text))
        if len(reply.text) > LONGEST_REPLY:
            return replace(reply, text=reply.text[:LONGEST_REPLY], finish_reason="length")
        return reply

    def _check(self, request: object) -> None:
        name = type(self._case.benchmark).__name__
        if self.is_over:
            raise ContractError(f"{name} called ask after its verdict; await every call inside evaluate")
        if not isinstance(request, REQUESTS):
            raise ContractError(
                f"{name} called ask with {type_name(request)}; pass a request such as Chat.user(text)"
            )
        if isinstance(request, Chat):
            for message in request.messages:
                if not isinstance(message.content, str):
                    raise ContractError(
                        f"{name} called ask with a message whose content is {type_name(message.content)}; use a string"
                    )
        elif not isinstance(request.text, str):
            raise ContractError(
                f"{name} called ask with a text that is {type_name(request.text)}; use a string"
            )
        if isinstance(request, Likelihood) and not all(request.options or ("",)):
            raise ContractError(f"{name} called ask with a Likelihood that has an empty option, or none")


async def evaluate(case: Case, broker_ask: BrokerAsk) -> Outcome:
    """Measure one case and return its outcome, which includes every exception but the cancellation of the task."""
    ask = Asking(case, broker_ask)
    benchmark = case.benchmark
    try:
        work = benchmark.evaluate(case.item, case.context, ask, case.protocol)
        if not hasattr(work, "__await__"):
            raise returned(
                benchmark, "evaluate", f"{type_name(work)} without async; write 'async def evaluate'"
            )
        verdict = checked_verdict(benchmark, case.item, await work)
        if ask.is_filtered and not benchmark.judges_filtered and verdict.status in ("wrong", "unparsed"):
            verdict = replace(
                verdict, status="refused", score=0.0, reason="a content filter withheld the reply"
            )
    except BackendError as error:
        return Outcome(case, error=error, calls=ask.calls)
    except RunStopped as stop:
        return Outcome(case, stopped=str(stop), calls=ask.calls)
    except BaseException as fault:
        if is_cancellation(fault):
            raise
        return Outcome(case, fault=_as_exception(benchmark, fault), calls=ask.calls)
    finally:
        ask.is_over = True
    if ask.longest > LONGEST_REPLY:
        cut = f"only the first {LONGEST_REPLY:,} of a reply's {ask.longest:,} characters were read"
        verdict = replace(verdict, reason=f"{verdict.reason}; {cut}")
    return Outcome(case, verdict, calls=ask.calls)


def _as_exception(benchmark: Benchmark, fault: BaseException) -> Exception:
    """Return a fault that pytest takes neither for the end of the process nor for a skipped test."""
    is_control = type(fault).__module__.partition(".")[0] in ("_pytest", "unittest")
    return fault if isinstance(fault, Exception) and not is_control else raised(benchmark, "evaluate", fault)


class CaseBroker(typing.Protocol):
    """What an evaluator needs of a broker."""

    def flush(self) -> None:
        """Write what the broker has logged."""

    async def stop(self, reason: str) -> None:
        """Stop the run."""


class Evaluator:
    """Evaluates submitted cases in order, at most ``window`` at a time, on a running event loop.

    The window only limits memory; the broker limits the number of calls in progress.

    :param broker: stopped if the code of a benchmark fails at every item. :param ask: sends a request to a model.
    :param keeps_calls: outcomes have the calls with their prompts and replies, not only their keys.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: CaseBroker,
        ask: BrokerAsk,
        *,
        window: int,
        keeps_calls: bool,
    ) -> None:
        self._loop, self._broker, self._ask = loop, broker, ask
        self._window, self._keeps_calls = window, keeps_calls
        self._faults = Faults()
        self._stopping: asyncio.Task[None] | None = None
        #: why the remaining cases are not evaluated; None if they are
        self._stopped: str | None = None
        #: keys of the submitted cases that are not finished
        self._open: set[CaseKey] = set()
        #: finished and not yet fetched
        self._outcomes: dict[CaseKey, Outcome] = {}
        #: finished in this iteration of the loop; the next one moves them to ``_outcomes``, with one lock for all
        self._fresh: list[Outcome] = []
        #: keys of the cases for which a thread waits
        self._awaited: set[CaseKey] = set()
        # One condition for all cases: a future for each takes 1.5 kB.
        self._changed = threading.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: deque[Case] = deque()
        #: cleared while pytest has many outcomes to fetch
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_closed = False

    def submit(self, cases: Iterable[Case]) -> None:
        """Start the evaluation of ``cases``, except those already submitted. Thread-safe."""
        fresh = []
        with self._changed:
            for case in cases:
                key = case.key
                if key not in self._open and key not in self._outcomes:
                    self._open.add(key)
                    fresh.append(case)
        if fresh:
            self._loop.call_soon_threadsafe(self._start, fresh)

    def _start(self, cases: list[Case]) -> None:
        self._queue.extend(cases)
        self._tasks = [task for task in self._tasks if not task.done()]
        for _ in range(min(self._window - len(self._tasks), len(cases))):
            self._tasks.append(self._loop.create_task(self._work()))

    async def _work(self) -> None:
        while self._queue:
            if not self._has_room.is_set():
                await self._has_room.wait()
                continue
            case = self._queue.popleft()
            try:
                self._finish(await self._evaluated(case))
            except (asyncio.CancelledError, GeneratorExit) as fault:
                if self._is_closed:
                    self._finish(Outcome(case, stopped=CLOSED))
                    raise
                # The benchmark cancelled this task, or a task of its own raised GeneratorExit: Python then closes the
                # coroutines that await it.
                exception = _as_exception(case.benchmark, fault)
                self._finish(self._counted(Outcome(case, fault=exception)))
                if isinstance(fault, asyncio.CancelledError):
                    self._tasks.append(self._loop.create_task(self._work()))
                    raise

    def _finish(self, outcome: Outcome) -> None:
        if not self._keeps_calls and outcome.calls:
            # dataclasses.replace takes four times as long.
            o = outcome
            outcome = Outcome(o.case, o.verdict, o.error, o.stopped, o.fault, keys=o.requests)
        if not self._fresh:
            self._loop.call_soon(self._publish)
        self._fresh.append(outcome)
        if self._has_room.is_set() and len(self._outcomes) + len(self._fresh) >= MOST_WAITING:
            self._publish()

    def _publish(self) -> None:
        """Hand the outcomes of this iteration of the loop to the threads that fetch them."""
        # A verdict in the record names requests that the record has, also if the run is killed.
        self._broker.flush()
        with self._changed:
            for outcome in self._fresh:
                key = outcome.key
                self._open.discard(key)
                self._outcomes[key] = outcome
            self._fresh.clear()
            arrived = [key for key in self._awaited if key in self._outcomes]
            if arrived:
                self._awaited.difference_update(arrived)
                self._changed.notify_all()
            if len(self._outcomes) >= MOST_WAITING and not self._awaited:
                self._has_room.clear()

    async def _evaluated(self, case: Case) -> Outcome:
        if self._stopped is not None:
            return Outcome(case, stopped=self._stopped)
        return self._counted(await evaluate(case, self._ask))

    def _counted(self, outcome: Outcome) -> Outcome:
        """Count the faults of benchmarks, which may stop the run."""
        if self._stopped is not None and outcome.verdict is None:
            # It began before the stop and failed in the same way.
            return Outcome(outcome.case, stopped=self._stopped)
        if self._stopped is None and outcome.stopped is None:
            self._stopped = self._faults.add(outcome.case.benchmark.name, outcome.failure)
            if self._stopped is not None:
                self._stopping = self._loop.create_task(self._stop(self._stopped))
        return outcome

    async def _stop(self, reason: str) -> None:
        # A run without its broker ends anyway.
        with contextlib.suppress(LLMPropsError):
            await self._broker.stop(reason)

    def outcome(self, case: Case, *, timeout: float | None = None) -> Outcome:
        """Wait for the outcome of a submitted case, return it and forget it.

        :raises TimeoutError: after ``timeout`` seconds.
        """
        key = case.key
        with self._changed:
            if key not in self._outcomes:
                self._await(key, timeout)
            if len(self._outcomes) == MOST_WAITING // 2:
                self._make_room()
            # A case that is submitted again (a rerun) is evaluated again.
            return self._outcomes.pop(key)

    def _make_room(self) -> None:
        if not self._has_room.is_set():
            self._loop.call_soon_threadsafe(self._has_room.set)

    def _await(self, key: CaseKey, timeout: float | None) -> None:
        if key not in self._open:
            raise KeyError(key)
        self._awaited.add(key)
        self._make_room()
        try:
            if not self._changed.wait_for(lambda: key in self._outcomes, timeout):
                raise TimeoutError
        finally:
            self._awaited.discard(key)

    def has_verdicts(self) -> bool:
        """Return True if a finished verdict has not been fetched."""
        with self._changed:
            return any(one.stopped is None for one in (*self._fresh, *self._outcomes.values()))

    async def close(self) -> None:
        """Cancel all unfinished cases."""
        self._is_closed = True
        for case in self._queue:
            self._finish(Outcome(case, stopped=CLOSED))
        self._queue.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._publish()


#: number of failures that a case's one line names
NAMED = 3
#: number of failures that a case's report lists
LISTED = 200
_NOT_CORRECT: tuple[Status, ...] = STATUSES[1:]


@dataclass(frozen=True, slots=True, eq=False)
class CaseGroup:
    """Items of one benchmark and model, with all their samples, that form the pytest case ``name``."""

    name: str
    cases: tuple[Case, ...]

    @property
    def key(self) -> CaseKey:
        """The identity of the group within a session: that of its first case."""
        return self.cases[0].key

    @property
    def is_one_item(self) -> bool:
        """True if the cases are the samples of one item."""
        return len({case.item.id for case in self.cases}) == 1

    @property
    def noun(self) -> str:
        """What the group counts: ``samples`` or ``items``."""
        return "samples" if any(case.sample for case in self.cases) else "items"

    @property
    def model(self) -> str:
        """The label of the model under test."""
        return self.cases[0].model


#: what one pytest case evaluates
Unit = Case | CaseGroup


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on several items or samples; true if the model was right on all of them.

    :param status: the first of wrong, refused, unparsed that occurs; otherwise ``correct``.
    :param counts: number of samples by status, including ``error``.
    :param reason: one line.
    :param noun: what ``counts`` counts: ``items``, or ``samples`` in a run with repeats.
    """

    status: Status
    counts: dict[str, int]
    reason: str
    noun: str = "items"

    @property
    def total(self) -> int:
        """Number of items or samples."""
        return sum(self.counts.values())

    @property
    def score(self) -> float:
        """The share of correct items or samples among those with a verdict."""
        judged = self.total - self.counts["error"]
        return self.counts["correct"] / judged if judged else 0.0

    def __bool__(self) -> bool:
        return self.status == "correct"


@dataclass(slots=True)
class GroupOutcome:
    """The outcome of a group.

    The case fails if a sample of an item is wrong, refused or unparsed; its line also counts the errors. It is an error
    if samples are errors and all others are correct. ``lines`` has the record of every sample.
    """

    group: CaseGroup
    verdict: GroupVerdict | None = None
    error: BackendError | None = None
    stopped: str | None = None
    fault: Exception | None = None
    counts: dict[str, int] = field(default_factory=dict)
    #: the items' records; ``lines`` has them as lines of ``verdicts.jsonl``
    records: list[VerdictRecord] = field(default_factory=list)
    lines: str = ""
    #: the first records that are not correct
    failures: list[VerdictRecord] = field(default_factory=list)
    #: the samples of a group of one item; empty for several items, whose calls would fill the memory
    samples: list[Outcome] = field(default_factory=list)

    @property
    def key(self) -> CaseKey:
        """The key of the group."""
        return self.group.key

    @property
    def status(self) -> RecordStatus:
        """The case's status, which may be ``error``."""
        return "error" if self.verdict is None else self.verdict.status


def group_outcome(group: CaseGroup, outcomes: Iterable[Outcome]) -> GroupOutcome:
    """Return the outcome of a group from those of its cases, without items that a stopped run did not finish."""
    result, keeps_samples = GroupOutcome(group), group.is_one_item
    counts = dict.fromkeys(("correct", *_NOT_CORRECT, "error"), 0)
    first_error: BackendError | None = None
    for outcome in outcomes:
        if outcome.stopped is not None:
            result.stopped = outcome.stopped
            continue
        record = outcome.record()
        if keeps_samples:
            result.samples.append(outcome)
        counts[record.status] += 1
        result.records.append(record)
        if record.status != "correct" and len(result.failures) < LISTED:
            result.failures.append(record)
        if outcome.fault is not None and result.fault is None:
            result.fault = outcome.fault
        if first_error is None:
            first_error = outcome.error
    result.counts = counts
    result.lines = b"".join(map(line, result.records)).decode()
    if result.stopped is not None or result.fault is not None:
        return result
    bad = [status for status in _NOT_CORRECT if counts[status]]
    if bad:
        result.verdict = GroupVerdict(bad[0], counts, _reason(result), group.noun)
    elif first_error is not None:
        result.error = BackendError(
            f"{counts['error']} of {len(result.records)} {group.noun}: {first_error.message}",
            kind=first_error.kind,
        )
    else:
        reason = f"all {len(result.records)} {group.noun} correct"
        result.verdict = GroupVerdict("correct", counts, reason, group.noun)
    return result


def _reason(result: GroupOutcome) -> str:
    counts, total, noun = result.counts, len(result.records), result.group.noun
    first, *more = [
        f"{counts[s]} {'errors' if s == 'error' else s}" for s in (*_NOT_CORRECT, "error") if counts[s]
    ]
    number, _, status = first.partition(" ")
    counted = ", ".join([f"{number} of {total} {noun} {status}", *more])
    failures = [r for r in result.failures if r.status != "error"]
    if noun == "samples" and result.group.is_one_item:
        return f"{counted}: {_answers(failures)}"
    named = failures[:NAMED]
    listed = "; ".join(
        f"{r.id} ({one_line(r.reason, 80) or f'given {one_line(r.given, 60)!r}'})" for r in named
    )
    rest = sum(counts[s] for s in _NOT_CORRECT) - len(named)
    return f"{counted}: {listed}" + (f"; and {rest} more" if rest > 0 else "")


def _answers(failures: Sequence[VerdictRecord]) -> str:
    """Return the different answers of an item's samples that are not correct, the most frequent first."""
    expected = f"expected {failures[0].expected!r}, given " if failures[0].expected else "given "
    answers = Counter(one_line(r.given, 60) for r in failures).most_common()
    listed = [f"{given!r}" + (f" ({n} times)" if n > 1 else "") for given, n in answers[:NAMED]]
    more = f" and {len(answers) - NAMED} other answers" if len(answers) > NAMED else ""
    return explained(f"{expected}{', '.join(listed)}{more}", one_line(failures[0].reason, 80))
