"""Calls to models, with limits on concurrency, rate and budget, and with retries.

``models/api/errors.py`` classifies the errors of servers: it sets ``transient`` and ``retry_after`` of a
:class:`~pytest_llmprops.core.errors.BackendError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply, Request, canonical_identity, key_with
from pytest_llmprops.engine.broker.reply_cache import ReplyCache
from pytest_llmprops.engine.calls.limiter import LIMITED, Limiter, Turn
from pytest_llmprops.engine.calls.queues import SampleCalls, Send, send_set
from pytest_llmprops.engine.calls.thinking import ThinkingBudget
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.base import Model, SampleModel
from pytest_llmprops.models.secrets import Secrets
from pytest_llmprops.records.run import CallCounts, OldReplies

#: file descriptors for everything except the calls: the store, the record, pipes to workers, imports, and the 64
#: connections that may rest after a call
_SPARE_FILES = 128
#: how often a call that waits for the cost of those in flight looks at it, in seconds
_BUDGET_SECONDS = 0.02
EMPTY_IN_A_ROW = 20
FAILED_IN_A_ROW = 20


#: kinds of errors with which gateways also block single prompts
BLOCKS_ONE_PROMPT = ("forbidden", "url", "response", "status 413")
#: kinds that end a run before its first reply, and cost one item after it
_SPARED_AFTER_SUCCESS = (*BLOCKS_ONE_PROMPT, "key", "model", "quota")


@dataclass(slots=True)
class Breaker:
    """Stops a run when no call seems able to succeed.

    Before the first success, every failed attempt counts, except those that only ask to slow down (see
    :class:`~pytest_llmprops.engine.calls.limiter.Limiter`). After it, only calls that failed for good count, whatever
    they failed with: a gateway may refuse one prompt as it refuses a wrong key. The threshold grows to a tenth of the
    successful calls: otherwise a few items that always fail, when they are the last ones, would stop a healthy run.
    """

    succeeded: int = 0
    failed_in_a_row: int = 0
    empty_in_a_row: int = 0
    #: an earlier run has replies of this model
    is_proven: bool = False

    @property
    def has_worked(self) -> bool:
        """True if the model has replied, so that its address, name and key are right."""
        return self.succeeded > 0 or self.is_proven

    def success(self, empty: bool) -> str | None:
        """Count a reply; return the reason to stop the run, or None."""
        self.succeeded += 1
        self.failed_in_a_row = 0
        self.empty_in_a_row = self.empty_in_a_row + 1 if empty else 0
        if self.empty_in_a_row >= EMPTY_IN_A_ROW:
            return (
                f"{EMPTY_IN_A_ROW} empty replies in a row; check the model, its chat template and --llm-param"
            )
        return None

    def failure(self, error: BackendError, *, final: bool) -> str | None:
        """Count a failed attempt; return the reason to stop the run, or None.

        :param final: the call failed for good: this counts the call, not one more attempt.
        """
        is_proven = self.succeeded > 0 if error.kind == "key" else self.has_worked
        if error.fatal and not (is_proven and error.kind in _SPARED_AFTER_SUCCESS):
            return error.message
        if final != self.has_worked:
            return None
        self.failed_in_a_row += 1
        threshold = max(FAILED_IN_A_ROW, self.succeeded // 10)
        if self.failed_in_a_row >= threshold:
            return f"{self.failed_in_a_row} calls in a row failed, the last with: {error.message}"
        return None


def affordable_concurrency(concurrency: int) -> int:
    """Return how many connections this process may open, at most ``concurrency``.

    The soft limit of file descriptors (``ulimit -n``) is raised if it is too low and the hard limit allows it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + _SPARE_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return concurrency
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return max(1, min(concurrency, soft - _SPARE_FILES))


#: seconds before the first retry; each further wait is twice as long, up to the longest
FIRST_WAIT = 0.2
LONGEST_WAIT = 60.0
#: If a server asks for a longer wait, the call is not retried: the item is an error, which another run can repeat.
LONGEST_RETRY_AFTER = 300.0


def worth_retrying(error: BackendError) -> bool:
    """Return True if a retry may succeed, and soon enough."""
    return error.transient and (error.retry_after is None or error.retry_after <= LONGEST_RETRY_AFTER)


def _seconds_before(retry: int, error: BackendError) -> float:
    """Return how long to wait before a retry, counted from 0.

    A server's Retry-After counts; otherwise, waits grow exponentially. Random parts keep failed calls from returning
    all at once.
    """
    if error.retry_after is not None:
        return error.retry_after + random.uniform(0, 0.1)
    return min(FIRST_WAIT * 2.0**retry, LONGEST_WAIT) + random.uniform(0, FIRST_WAIT / 2)


@dataclass(slots=True)
class Counters(CallCounts):
    """The broker's counters."""

    cost_usd: float = 0.0


@dataclass(slots=True)
class ActiveModel:
    """A model in use."""

    label: str
    model: Model
    send: Send
    breaker: Breaker
    thinking: ThinkingBudget
    limiter: Limiter
    #: counts replies that are paid for and not used
    discard: Callable[[Sequence[Reply]], None]
    #: number of replies by the model that the server names
    served_as: Counter[str] = field(default_factory=Counter)
    service_tiers: set[str] = field(default_factory=set)
    #: deviations of the replies so far, also of stored ones
    deviations: set[str] = field(default_factory=set)
    #: collects the samples of a prompt, if one call can ask for several
    together: SampleCalls | None = None
    #: its replies are stored; those of others are computed again in each run
    is_stored: bool = True
    #: stored replies that another model of the same name may have given
    old_replies: OldReplies = field(default_factory=OldReplies)
    #: Unix time at which the newest reply was received
    newest_reply: float | None = None
    _identity: str = ""

    def forced(self) -> tuple[str, ...]:
        """Return the deviations so far, one phrase each."""
        return (*self.model.deviations(), *self.thinking.phrases())

    def key_of(self, request: Request) -> str:
        """Return the key of a request to this model."""
        if not self._identity:
            self._identity = canonical_identity(self.model.identity)
        return key_with(self._identity, request)


class Calls:
    """Makes all calls of a session: total concurrency, rate limit, retries, budgets, and the stop.

    :param known: where replies are stored. A call over the network waits in its slot until the replies so far are
        stored, so that a run that is killed has at most as many calls without a stored reply as it has slots.
    :param secrets: what no reply and no error of a call may show.
    """

    def __init__(self, config: BrokerConfig, counters: Counters, known: ReplyCache, secrets: Secrets) -> None:
        self.stopped: str | None = None
        #: set when the run is stopped
        self.over = asyncio.Event()
        self._config, self.counters = config, counters
        self._known, self._secrets = known, secrets
        self._slots = asyncio.Semaphore(config.calls.concurrency)
        #: by the identity of the model
        self._limiters: dict[str, Limiter] = {}

    def stop(self, reason: str) -> RunStopped:
        """Stop the run: all open and later calls fail with the reason of the returned exception."""
        if self.stopped is None:
            self.stopped = " ".join(self._secrets.message(reason).split())
            self.over.set()
            for limiter in self._limiters.values():
                limiter.end(self.stopped)
            # Calls in progress still finish and are stored; no new call is sent.
        return RunStopped(self.stopped)

    def limiter_of(self, model: Model, label: str) -> Limiter:
        """Return what paces the calls to ``model``; models that differ only in their labels share it."""
        identity = canonical_identity(model.identity)
        if identity not in self._limiters:
            self._limiters[identity] = Limiter(label, self._config, self.stop)
        return self._limiters[identity]

    def waits_for(self) -> str:
        """Return what calls wait for: a rate limit, or a server that does not answer; empty if they do not wait."""
        return next(filter(None, (limiter.status() for limiter in self._limiters.values())), "")

    def notes(self) -> list[str]:
        """Return lines for the summary about the limits of the models."""
        return [note for limiter in self._limiters.values() for note in limiter.notes()]

    async def replies(self, served: ActiveModel, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the replies to one call, with retries.

        One request has one reply. Several samples of a prompt may have fewer replies than requests.

        :raises BackendError: if the last attempt fails.
        :raises RunStopped: if the run is stopped.
        """
        try:
            return await self._with_retries(served, requests)
        except BackendError as error:
            self.counters.failed += 1
            reason = served.breaker.failure(error, final=True)
            if reason:
                raise self.stop(f"{served.label}: {reason}") from None
            raise

    async def trial(
        self, served: ActiveModel, request: Request, *, is_last: bool
    ) -> tuple[Reply | None, bool]:
        """Return the reply to a call before the run, and whether the server refuses it as it may refuse one prompt.

        The reply is None if the call failed in a way that says nothing about other calls. Only a server that cannot be
        reached is tried again.

        :param is_last: there is no other prompt to try.
        :raises RunStopped: if the model refuses every call, cannot be reached, or asks to wait for too long.
        """
        spared = () if is_last else BLOCKS_ONE_PROMPT
        try:
            [reply] = await self._with_retries(served, [request], is_trial=True, spared=spared)
        except BackendError as error:
            if _is_unreachable(error, served):
                raise self.stop(f"{served.label}: {error.message}") from None
            return None, error.kind in spared
        return reply, False

    async def _with_retries(
        self,
        served: ActiveModel,
        requests: Sequence[Request],
        is_trial: bool = False,
        spared: Collection[str] = (),
    ) -> Sequence[Reply]:
        turn, retries, is_repeated = Turn(), 0, False
        while True:
            result = await self._attempt(served, requests, turn, is_trial=is_trial)
            if not isinstance(result, BackendError):
                return result
            if result.kind in spared or (is_trial and result.kind in LIMITED):
                raise result
            reason = served.breaker.failure(result, final=False)
            if reason:
                raise self.stop(f"{served.label}: {reason}")
            if _is_unreachable(result, served) if is_trial else worth_retrying(result):
                if retries == self._config.retries:
                    raise result
                await self.pause(_seconds_before(retries, result))
                retries += 1
                self.counters.retries += 1
            elif (
                retries
                or is_repeated
                or result.kind not in BLOCKS_ONE_PROMPT
                or not served.breaker.has_worked
            ):
                raise result
            else:
                # The address, the name and the key are right: a gateway blocks this prompt, or a moment was bad.
                is_repeated = True

    async def pause(self, seconds: float) -> None:
        """Sleep until the time is over or the run is stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        if self.stopped is not None:
            raise RunStopped(self.stopped)

    async def _attempt(
        self, served: ActiveModel, requests: Sequence[Request], turn: Turn, *, is_trial: bool = False
    ) -> Sequence[Reply] | BackendError:
        """Return the result of one attempt; an attempt that only meets a limit of the server is made again.

        :param turn: of the call. :param is_trial: return the error in any case.
        """
        if served.model.blocking:
            # A local model processes one batch at a time; the limits are for calls over the network.
            return await self._send(served, requests)
        limiter = served.limiter
        while True:
            if turn.was_sent:
                # It goes behind those that still wait for their first slot.
                async with self._slots:
                    pass
            await limiter.wait(turn)
            # A call holds no slot while it waits for its turn. Models share the slots.
            async with self._slots:
                if not limiter.start(turn):
                    continue
                if _too_many(served, requests):
                    limiter.dropped(turn)
                    return []
                result = await self._in_slot(served, requests, turn)
            if not isinstance(result, BackendError):
                limiter.succeeded()
                return result
            if not limiter.failed(turn, result) or is_trial:
                return result
            if result.kind in LIMITED:
                self.counters.refused += 1
            else:
                self.counters.retries += 1

    async def _in_slot(
        self, served: ActiveModel, requests: Sequence[Request], turn: Turn
    ) -> Sequence[Reply] | BackendError:
        try:
            if served.together is not None:
                # Samples that share a call are handed over in the next iteration of the loop.
                await asyncio.sleep(0)
            await self._known.settled()
            return await self._send(served, requests)
        except BaseException:
            served.limiter.dropped(turn)
            raise

    async def _send(self, served: ActiveModel, requests: Sequence[Request]) -> Sequence[Reply] | BackendError:
        if _too_many(served, requests):
            return []
        return await served.thinking.replies(requests, partial(self._send_once, served))

    async def _send_once(
        self, served: ActiveModel, requests: Sequence[Request]
    ) -> Sequence[Reply] | BackendError:
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        counters = self.counters
        await self._affordable()
        self.check_budget()
        counters.sent += 1
        counters.in_flight += 1
        start = time.monotonic()
        try:
            if len(requests) > 1:
                results = await send_set(cast("SampleModel", served.model), cast("Sequence[Chat]", requests))
            else:
                result = await served.send(requests[0])
                results = [result] if isinstance(result, Reply) else result
            # Below every backend, and before the store, the log, the record and the terminal.
            if isinstance(results, BackendError):
                if results.billed is not None:
                    served.discard([self._secrets.reply(results.billed)])
                return self._secrets.error(results)
            return [self._secrets.reply(reply) for reply in results]
        finally:
            counters.in_flight -= 1
            counters.seconds += time.monotonic() - start

    async def _affordable(self) -> None:
        """Wait while the calls in flight may cost what is left of ``--llm-max-cost``.

        The first replies tell what a reply costs, so that calls start one by one, then twice as many as were answered.
        """
        most, counters = self._config.max_cost, self.counters
        while most is not None and counters.in_flight:
            per_answer = counters.cost_usd / max(1, counters.answered)
            is_below = counters.cost_usd + (counters.in_flight + 1) * per_answer < most
            if counters.in_flight <= 2 * counters.answered and is_below:
                return
            await self.pause(_BUDGET_SECONDS)

    def check_budget(self, calls: int = 1) -> None:
        """Check that the limits allow more calls.

        :raises RunStopped: if they do not.
        """
        max_calls, max_cost = self._config.max_calls, self._config.max_cost
        if max_calls is not None and self.counters.sent - self.counters.refused + calls > max_calls:
            raise self.stop(f"--llm-max-calls {max_calls} is spent")
        if max_cost is not None and self.counters.cost_usd >= max_cost:
            about = "≈" if self.counters.estimated else ""
            spent = f"{about}{self.counters.cost_usd:.4f} USD so far"
            raise self.stop(f"--llm-max-cost {max_cost:g} is spent: {spent}")

    def check_cost(self, cost: float, waiting: float, lines: int) -> None:
        """Check that ``--llm-max-cost`` allows a wave of batches.

        :param cost: estimate for the wave, in USD. :param waiting: estimate for the open batches.
        :param lines: number of lines of the wave.
        :raises RunStopped: if it does not.
        """
        most, spent = self._config.max_cost, self.counters.cost_usd
        if most is not None and spent + waiting + cost > most:
            before = f" after {spent + waiting:.4f} USD so far" if spent + waiting else ""
            raise self.stop(
                f"--llm-max-cost {most:g}: the next {lines} requests would cost about {cost:.4f} USD in"
                f" batches{before}; raise the limit, or select fewer items (--llm-limit)"
            )


def _is_unreachable(error: BackendError, served: ActiveModel) -> bool:
    """Return True if no call reaches the server; one that has worked may close the connection of single calls."""
    kinds = ("unreachable",) if served.breaker.has_worked else ("unreachable", "connection")
    return error.kind in kinds


def _too_many(served: ActiveModel, requests: Sequence[Request]) -> bool:
    """Return True if the server accepts fewer samples per call than these, as learned while they waited."""
    return len(requests) > 1 and served.together is not None and served.together.most < len(requests)
