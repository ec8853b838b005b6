"""Concurrent evaluation: many cases are evaluated at once, before pytest reports them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request, of_repeat
from pytest_llmprops.core.verdicts import Verdict, record_of

BrokerAsk = Callable[[str, str, Request], Awaitable[Reply]]
#: why an unfinished case has no verdict when the evaluator is closed
CLOSED = "the run ended"
#: benchmark, model, id of the item, and sample
CaseKey = tuple[str, str, str, int]
_CHAT_FIELDS = ("temperature", "max_tokens", "stop")


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
    """The outcome of a case: a verdict, a backend's error, a stopped run, or an exception in the benchmark."""

    case: Case
    verdict: Verdict | None = None
    error: BackendError | None = None
    stopped: str | None = None
    fault: Exception | None = None
    calls: Sequence[Call] = ()

    @property
    def key(self) -> CaseKey:
        """The key of the case."""
        return self.case.key

    @property
    def records(self) -> list[VerdictRecord]:
        """The one line of ``verdicts.jsonl``."""
        return [self.record()]

    def record(self) -> VerdictRecord:
        """Return the case's line of ``verdicts.jsonl``."""
        failure = self.error or self.fault
        message = " ".join(str(failure).split()) if failure else ""
        return record_of(
            self.case.item,
            self.case.benchmark.name,
            self.case.model,
            self.verdict,
            requests=[c.reply.key for c in self.calls if c.reply and c.reply.key],
            error=message,
            sample=self.case.sample,
        )


def with_params(request: Request, params: Mapping[str, Any]) -> Request:
    """Return the request with its values overridden by ``--llm-param``."""
    if not params or not isinstance(request, Chat):
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

    __slots__ = ("_broker_ask", "_case", "calls")

    def __init__(self, case: Case, broker_ask: BrokerAsk) -> None:
        self._case, self._broker_ask = case, broker_ask
        self.calls: list[Call] = []

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
        if role == "subject":
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
        return reply


async def evaluate(case: Case, broker_ask: BrokerAsk) -> Outcome:
    """Measure one case and return its outcome, which includes every exception."""
    ask = Asking(case, broker_ask)
    try:
        verdict = await case.benchmark.evaluate(case.item, case.context, ask, case.protocol)
    except BackendError as error:
        return Outcome(case, error=error, calls=ask.calls)
    except RunStopped as stop:
        return Outcome(case, stopped=str(stop), calls=ask.calls)
    except Exception as fault:
        return Outcome(case, fault=fault, calls=ask.calls)
    return Outcome(case, verdict, calls=ask.calls)


class Evaluator:
    """Evaluates submitted cases in order, at most ``window`` at a time, on a running event loop.

    The window only limits memory; the broker limits the number of calls in progress.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, broker_ask: BrokerAsk, *, window: int) -> None:
        self._loop = loop
        self._ask = broker_ask
        self._window = window
        self._futures: dict[CaseKey, concurrent.futures.Future[Outcome]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: deque[Case] = deque()
        self._unfinished = 0
        #: set while all submitted cases are finished
        self.settled = threading.Event()
        self.settled.set()

    def submit(self, cases: Iterable[Case]) -> None:
        """Start the evaluation of ``cases``, except those already submitted. Thread-safe."""
        fresh = [case for case in cases if case.key not in self._futures]
        for case in fresh:
            self._futures[case.key] = concurrent.futures.Future()
        if fresh:
            self.settled.clear()
            self._loop.call_soon_threadsafe(self._start, fresh)

    def _start(self, cases: list[Case]) -> None:
        self._unfinished += len(cases)
        self._queue.extend(cases)
        self._tasks = [task for task in self._tasks if not task.done()]
        for _ in range(min(self._window - len(self._tasks), len(cases))):
            self._tasks.append(self._loop.create_task(self._work()))

    async def _work(self) -> None:
        while self._queue:
            case = self._queue.popleft()
            future = self._futures[case.key]
            try:
                future.set_result(await evaluate(case, self._ask))
            except asyncio.CancelledError:
                future.set_result(Outcome(case, stopped=CLOSED))
                raise
            finally:
                self._unfinished -= 1
                if not self._unfinished:
                    self.settled.set()

    def outcome(self, case: Case, *, timeout: float | None = None) -> Outcome:
        """Wait for the outcome of a submitted case, return it and forget it.

        :raises TimeoutError: after ``timeout`` seconds.
        """
        outcome = self._futures[case.key].result(timeout)
        # A case that is submitted again (a rerun) is evaluated again.
        del self._futures[case.key]
        return outcome

    def is_submitted(self, case: Case) -> bool:
        """Return whether the case is unfinished, or finished and not yet fetched."""
        return case.key in self._futures

    def has_verdicts(self) -> bool:
        """Return whether a finished verdict has not been fetched."""
        return any(f.done() and f.result().stopped is None for f in list(self._futures.values()))

    async def close(self) -> None:
        """Cancel all unfinished cases."""
        for case in self._queue:
            self._futures[case.key].set_result(Outcome(case, stopped=CLOSED))
        self._queue.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
