"""Evaluation ahead of reporting: many cases in work at once, each waited for on its own."""

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
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.core.verdicts import Verdict, record_of

BrokerAsk = Callable[[str, str, Request], Awaitable[Reply]]
#: why a case has no verdict that was in work when everything was closed
CLOSED = "the run ended"
_CHAT_FIELDS = ("temperature", "max_tokens", "stop")


@dataclass(frozen=True, slots=True)
class Case:
    """One item to be measured on one model.

    :param params: ``--llm-param`` values, laid over every request to the model under test.
    :param helpers: role -> label of the helper model that plays it.
    :param kinds: the kinds of request that the model under test serves.
    """

    benchmark: Benchmark
    item: Item
    context: Any
    protocol: Protocol[Any]
    model: str
    params: Mapping[str, Any] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)
    kinds: frozenset[Kind] = frozenset()

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells cases of one session apart."""
        return (self.benchmark.name, self.model, self.item.id)


@dataclass(frozen=True, slots=True)
class Call:
    """One call made for a case, for the report."""

    role: str
    request: Request
    reply: Reply | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: a verdict, a backend's error, a stopped run, or a fault in the benchmark."""

    case: Case
    verdict: Verdict | None = None
    error: BackendError | None = None
    stopped: str | None = None
    fault: Exception | None = None
    calls: Sequence[Call] = ()

    def record(self) -> VerdictRecord:
        """The case's line of ``verdicts.jsonl``."""
        failure = self.error or self.fault
        message = " ".join(str(failure).split()) if failure else ""
        return record_of(
            self.case.item,
            self.case.benchmark.name,
            self.case.model,
            self.verdict,
            requests=[c.reply.key for c in self.calls if c.reply and c.reply.key],
            error=message,
        )


def with_params(request: Request, params: Mapping[str, Any]) -> Request:
    """The request with ``--llm-param`` values laid over the benchmark's own."""
    if not params or not isinstance(request, Chat):
        return request
    known = {k: v for k, v in params.items() if k in _CHAT_FIELDS}
    if "stop" in known:
        known["stop"] = (known["stop"],) if isinstance(known["stop"], str) else tuple(known["stop"])
    if known.get("temperature") is not None:
        # 0 and 0.0 would be two keys in the store.
        known["temperature"] = float(known["temperature"])
    extra = dict(request.extra) | {k: v for k, v in params.items() if k not in _CHAT_FIELDS}
    return replace(request, **known, extra=tuple(sorted(extra.items())))


class Asking:
    """What a benchmark is given as ``ask``: the way from one case to its models, and what was asked."""

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
        """The roles of the helpers that are there."""
        return frozenset(self._case.helpers)

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        case = self._case
        if role == "subject":
            label, request = case.model, with_params(request, case.params)
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
    """Measure one case; whatever happens is in the outcome."""
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

    The window only bounds memory: how many calls are in flight is the broker's business.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, broker_ask: BrokerAsk, *, window: int) -> None:
        self._loop = loop
        self._ask = broker_ask
        self._window = window
        self._futures: dict[tuple[str, str, str], concurrent.futures.Future[Outcome]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: deque[Case] = deque()
        self._unfinished = 0
        #: set while no submitted case is unfinished
        self.settled = threading.Event()
        self.settled.set()

    def submit(self, cases: Iterable[Case]) -> None:
        """Begin with ``cases``; those already submitted are left alone. Any thread may call this."""
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
        """Wait for the case's outcome and forget it. ``case`` must have been submitted.

        :raises TimeoutError: after ``timeout`` seconds.
        """
        outcome = self._futures[case.key].result(timeout)
        # Kept as None-like marker: a case asked for twice (a rerun) is evaluated again.
        del self._futures[case.key]
        return outcome

    def is_submitted(self, case: Case) -> bool:
        """Whether the case is in work, or done and not yet fetched."""
        return case.key in self._futures

    def has_verdicts(self) -> bool:
        """Whether a verdict stands ready that nobody has fetched."""
        return any(f.done() and f.result().stopped is None for f in list(self._futures.values()))

    async def close(self) -> None:
        """Cancel what is in work."""
        for case in self._queue:
            self._futures[case.key].set_result(Outcome(case, stopped=CLOSED))
        self._queue.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
