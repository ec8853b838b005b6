"""The broker: all calls to models go through it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_llmprops.core.errors import BackendError, RunStopped, StoreError
from pytest_llmprops.core.faults import fault_line, not_closed
from pytest_llmprops.core.reasoning import answer_of, is_cut
from pytest_llmprops.core.requests import GENERATED, Chat, Reply, Request
from pytest_llmprops.engine.broker.reply_cache import ReplyCache
from pytest_llmprops.engine.broker.request_log import RequestLog
from pytest_llmprops.engine.calls.calls import (
    ActiveModel,
    Breaker,
    Calls,
    Counters,
    affordable_concurrency,
)
from pytest_llmprops.engine.calls.queues import SampleCalls, queue_of
from pytest_llmprops.engine.calls.thinking import ThinkingBudget
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.event_loop import is_cancellation
from pytest_llmprops.models.base import Model, SampleModel
from pytest_llmprops.models.registry import find_backend, import_registrations
from pytest_llmprops.models.secrets import Secrets

if TYPE_CHECKING:  # imported only with --llm-engine batch or ray
    from pytest_llmprops.engine.batch.batches import Batches
    from pytest_llmprops.engine.replicas.fleets import Fleets


#: maximum number of computed replies in memory; the token vectors of a sentence take about 50 kB
COMPUTED = 1_000


class LocalBroker:
    """Owns the reply store and the models; :class:`~pytest_llmprops.engine.calls.calls.Calls` makes the calls.

    All methods except the constructor run in one event loop.
    """

    def __init__(self, config: BrokerConfig) -> None:
        import_registrations(config.registrations)
        wanted = config.calls.concurrency
        affordable_calls = affordable_concurrency(wanted)
        self._limit_note = ""
        if affordable_calls < wanted:
            self._limit_note = (
                f"concurrency is {affordable_calls} instead of {wanted}, because the process may open"
                " few files; raise the limit with ulimit -n"
            )
            calls = dataclasses.replace(config.calls, concurrency=affordable_calls)
            config = dataclasses.replace(config, calls=calls)
        self.config = config
        self.counters = Counters()
        addresses = (config.calls.base_url, *(spec.params.get("base_url") for spec in config.models.values()))
        self._secrets = Secrets.of_run(config.calls.headers, filter(None, addresses))
        self._started, self._started_monotonic = time.time(), time.monotonic()
        self._known = ReplyCache(config, self._stop_without_store)
        self._log = RequestLog(Path(config.run_dir)) if config.run_dir else None

        self._calls = Calls(config, self.counters, self._known, self._secrets)
        #: serves requests with batches, with ``--llm-engine batch``
        self._batches: Batches | None = None
        if config.engine == "batch" and config.cache != "only":
            from pytest_llmprops.engine.batch.batches import Batches

            self._batches = Batches(config, self._calls, self._known, self._keep)
        #: the models that a Ray cluster serves, with ``--llm-engine ray``
        self._fleets: Fleets | None = None
        if config.replicas and config.cache != "only":
            from pytest_llmprops.engine.replicas.fleets import Fleets

            self._fleets = Fleets(config)
        self._served: dict[str, ActiveModel] = {}
        #: the work in progress by key, for all who ask for its reply
        self._in_work: dict[str, asyncio.Task[Reply]] = {}
        #: the latest replies that each run computes again, the last used at the end
        self._computed: OrderedDict[str, Reply] = OrderedDict()
        #: replies to the calls before the run, for the requests of the run
        self._trials: dict[str, Reply] = {}
        self._is_closed = False

    def _now(self) -> float:
        """Return the Unix time of a clock that nobody sets during the run, so that a new reply never looks old."""
        return self._started + time.monotonic() - self._started_monotonic

    async def _serve(self, label: str) -> ActiveModel:
        fleets = self._fleets if self._fleets is not None and label in self._fleets else None
        if fleets is not None and label not in self._served:
            await fleets.connect()
        served = self._served.get(label)
        if served is None:
            spec = self.config.models[label]
            options = self.config.calls
            if fleets is not None:
                options = dataclasses.replace(options, device=fleets.device(label))
            model = find_backend(spec.backend).factory(spec, options)
            send = queue_of(model) if fleets is None else fleets.start(label, model)
            breaker = Breaker(is_proven=label in self.config.proven)
            discard = partial(self._discard, label)
            thinking = ThinkingBudget(self.config.max_thinking, probes=not model.blocking, discard=discard)
            limiter = self._calls.limiter_of(model, label)
            served = self._served[label] = ActiveModel(
                label, model, send, breaker, thinking, limiter, discard
            )
            if hasattr(model, "most_samples"):
                served.together = SampleCalls(
                    cast("SampleModel", model), partial(self._calls.replies, served)
                )
            served.is_stored = getattr(model, "stored", True)
        return served

    async def ask(self, label: str, role: str, request: Request) -> Reply:
        """Return the reply of the model ``label`` to ``request``, from the store or by a call.

        :raises BackendError: if the call fails.
        :raises RunStopped: if the run is stopped.
        """
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        try:
            served = await self._serve(label)
        except BaseException as fault:
            if is_cancellation(fault):
                raise
            raise self._calls.stop(fault_line(fault)) from None
        key = served.key_of(request)
        if not served.is_stored:
            computed = await self._compute(served, key, request)
            self._note(role, served, request, computed, kept=False)
            return computed
        self.counters.requests += 1
        trial = self._trials.pop(key, None)
        reply = trial
        if reply is None and key not in self._in_work:
            reply = await self._find(served.model, key, request)
        if reply is None:
            reply = await self._joined(served, key, request)
        elif trial is not None:
            # Its call is counted already.
            pass
        elif self._known.store is None:
            self.counters.joined += 1
        else:
            self.counters.cache_hits += 1
            served.breaker.is_proven = True
            self.counters.oldest_seconds = max(self.counters.oldest_seconds, self._now() - reply.stored)
            if not served.model.pinned and reply.stored < self._started:
                served.old_replies.add(self._started - reply.stored)
        if role == "subject" and _is_sampled(request, reply):
            self.counters.sampled += 1
            self.counters.sampled_earlier += reply.cached and reply.stored < self._started
        self._note(role, served, request, reply, kept=True)
        return reply

    def _note(self, role: str, served: ActiveModel, request: Request, reply: Reply, *, kept: bool) -> None:
        """Record which model served a request, and log the request; with ``kept``, also its reply."""
        if reply.served_model:
            served.served_as[reply.served_model] += 1
        if kept:
            served.newest_reply = max(served.newest_reply or 0.0, reply.stored)
        # A stored reply has the same deviations as the call that produced it.
        served.deviations.update(reply.deviations)
        if self._log:
            # In the next iteration of the loop, with all replies of this one.
            asyncio.get_running_loop().call_soon(self.flush)
            # A stored reply is paid for already.
            cost = None if reply.cached else _paid(served, reply)
            try:
                self._log.add(role, request, reply, kept=kept, model=served.label, cost=cost)
            except OSError as error:
                raise self._stop_without_log(error) from None

    def flush(self) -> None:
        """Write the requests that were answered so far to ``requests.jsonl``; a full disk stops the run."""
        if self._log:
            try:
                self._log.flush()
            except OSError as error:
                self._stop_without_log(error)

    def _stop_without_store(self, error: Exception) -> RunStopped:
        return self._calls.stop(
            f"{error}; the replies so far are kept; llmprops run --resume RUN resumes the run"
        )

    def _stop_without_log(self, error: OSError) -> RunStopped:
        return self._calls.stop(f"requests.jsonl cannot be written: {error.strerror}")

    async def _compute(self, served: ActiveModel, key: str, request: Request) -> Reply:
        """Return the reply of a model whose replies are not stored. It is not a call: no budget counts it."""
        if key in self._computed:
            self._computed.move_to_end(key)
            return self._computed[key]

        async def computation() -> Reply:
            result = await served.send(request)
            if isinstance(result, BackendError):
                raise result
            return result

        try:
            reply = await self._shared(key, computation)
        except BackendError as error:
            self._secrets.error(error)
            # A request that the model cannot process (a text that is too long) is not a failure of the model.
            about_text = error.kind == "request" and not error.fatal
            # There is only one attempt. The breaker counts attempts before the first success and final failures after
            # it; ``final`` is chosen so that the attempt is counted in both phases.
            final = served.breaker.succeeded > 0
            reason = "" if about_text else served.breaker.failure(error, final=final)
            if reason:
                raise self._calls.stop(f"{served.label}: {reason}") from None
            raise
        served.breaker.success(empty=False)
        reply = self._computed[key] = dataclasses.replace(reply, key=key, deviations=served.forced())
        if len(self._computed) > COMPUTED:
            self._computed.popitem(last=False)
        return reply

    async def _find(self, model: Model, key: str, request: Request) -> Reply | None:
        try:
            reply = await self._known.find(model, key)
        except StoreError as error:
            raise self._stop_without_store(error) from None
        if self._is_closed:
            raise asyncio.CancelledError
        if reply is None or not isinstance(request, Chat):
            return reply
        # Other versions may have stored a reply whole; one that was cut before its answer is asked for again.
        answer, parts = answer_of(reply)
        return None if is_cut(reply, parts) else answer

    async def _joined(self, served: ActiveModel, key: str, request: Request) -> Reply:
        """Return the reply to one call that all equal requests in progress share."""
        if self.config.cache == "only":
            raise self._calls.stop(
                f"--llm-cache only: no stored reply of {served.label} to {_excerpt(request)}"
            )
        self.counters.joined += key in self._in_work
        return await self._shared(key, partial(self._call, served, key, request))

    async def _shared(self, key: str, work: Callable[[], Coroutine[Any, Any, Reply]]) -> Reply:
        """Return the reply of the work in progress for a key, which begins if there is none.

        It goes on if those who wait for it are cancelled.
        """
        task = self._in_work.get(key)
        if task is None:
            task = self._in_work[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda _: self._in_work.pop(key))
        return await asyncio.shield(task)

    async def _call(self, served: ActiveModel, key: str, request: Request) -> Reply:
        if self._batches is not None and isinstance(request, Chat) and hasattr(served.model, "batches"):
            try:
                return await self._batches.reply(served, key, request)
            except BackendError as error:
                raise self._secrets.error(error) from None
        together = served.together
        if together is not None and isinstance(request, Chat) and together.takes(request):
            reply = await together.send(request)
        else:
            [reply] = await self._calls.replies(served, [request])
        return await self._keep(served, key, reply)

    async def _keep(self, served: ActiveModel, key: str, reply: Reply) -> Reply:
        """Store and count a new reply, and return it with its key."""
        if reply.via == "batch":
            # No call has cleaned it.
            reply = self._secrets.reply(reply)
        # The deviations of a batch are from the time at which it was written.
        deviations = reply.deviations if reply.via else served.forced()
        stored = reply.stored or self._now()
        reply = dataclasses.replace(reply, key=key, stored=stored, deviations=deviations)
        self.counters.answered += 1
        self._pay(served, reply)
        reason = served.breaker.success(empty=_is_empty(reply))
        if reason:
            self._calls.stop(f"{served.label}: {reason}")
        await self._known.keep(served.label, reply)
        return reply

    def _discard(self, label: str, replies: Sequence[Reply]) -> None:
        """Count and record replies that are paid for and not used."""
        served = self._served[label]
        for reply in replies:
            self._pay(served, reply)
            if self._log:
                try:
                    self._log.add_discarded(reply, label, _paid(served, reply))
                except OSError as error:
                    self._stop_without_log(error)

    def _pay(self, served: ActiveModel, reply: Reply) -> None:
        """Count the tokens and the cost of a reply that a call returned."""
        counters, cost = self.counters, _paid(served, reply)
        counters.prompt_tokens += reply.usage.prompt_tokens
        counters.completion_tokens += reply.usage.completion_tokens
        counters.cached_tokens += reply.usage.cached_tokens
        counters.estimated += reply.usage.estimated
        if reply.service_tier:
            served.service_tiers.add(reply.service_tier)
        if cost is None:
            counters.unpriced += 1
        else:
            counters.cost_usd += cost

    async def trial(self, label: str, requests: Sequence[Request]) -> int:
        """Make a call before the run, which the run's own request then does not repeat.

        Return the tokens of the model's thoughts in it.

        :param requests: prompts, of which the next one is sent if the server refuses one: a gateway may block it.
        :raises RunStopped: if the model refuses every call, or cannot be reached.
        """
        served = await self._serve(label)
        for position, request in enumerate(requests, start=1):
            key = served.key_of(request)
            found = await self._find(served.model, key, request)
            if found is not None:
                # From another run, in the meantime.
                return found.thinking_tokens
            is_last = position == len(requests)
            reply, is_blocked = await self._calls.trial(served, request, is_last=is_last)
            if reply is not None:
                self._trials[key] = await self._keep(served, key, reply)
                return reply.thinking_tokens
            if not is_blocked:
                break
        return 0

    @property
    def stopped(self) -> str | None:
        """Why the run is stopped; None while it is not."""
        return self._calls.stopped

    async def stop(self, reason: str) -> None:
        """Stop the run: all open and later requests fail."""
        self._calls.stop(reason)

    async def are_known(self, asked: Sequence[tuple[str, Request]]) -> list[bool]:
        """Return which (model label, request) pairs need no call: a stored reply or a computed one answers them.

        The counters do not change.

        :raises StoreError: if the store cannot be used.
        """
        served = [await self._serve(label) for label, _ in asked]
        keys = [one.key_of(request) for one, (_, request) in zip(served, asked, strict=True)]
        known = await self._known.known([(one.model, key) for one, key in zip(served, keys, strict=True)])
        return [not one.is_stored or key in known for one, key in zip(served, keys, strict=True)]

    def notes(self) -> list[str]:
        """Return notes for the summary: problems of the store, and what servers do not accept."""
        notes = [*self._known.notes(), *self._calls.notes()]
        if self._limit_note:
            notes.insert(0, self._limit_note)
        if self._fleets is not None:
            notes += self._fleets.notes()
        for label, served in self._served.items():
            notes += (f"{label}: {note}" for note in getattr(served.model, "notes", list)())
        return list(dict.fromkeys(map(self._secrets.message, notes)))

    async def report(self) -> dict[str, Any]:
        """Return :meth:`snapshot`."""
        return self.snapshot()

    def snapshot(self) -> dict[str, Any]:
        """Return counters and facts about the models, as plain values."""
        return {
            "counters": dataclasses.asdict(self.counters),
            "stopped": self.stopped,
            "waits_for": self._calls.waits_for(),
            "notes": self.notes(),
            "models": {label: _facts(served) for label, served in self._served.items()},
            "batches": None if self._batches is None else dataclasses.asdict(self._batches.progress()),
        }

    async def close(self) -> list[str]:
        """Cancel open calls, free the models, and close the store and the log.

        Return one line per model that could not be closed.
        """
        self._is_closed = True
        if self._batches is not None:
            await self._batches.close()
        tasks = list(self._in_work.values())
        for task in tasks:
            task.cancel()
        together = [
            served.together.close() for served in self._served.values() if served.together is not None
        ]
        # All at once: while one waited for the other, a reply would free its slot for a new call.
        await asyncio.gather(*tasks, *together, return_exceptions=True)
        if self._fleets is not None:
            await self._fleets.close()
        await self._known.close()
        if self._log:
            self._log.close()
        # Close the models last: the record is complete, whatever they raise.
        problems = []
        for label, served in self._served.items():
            try:
                await _close_model(served.model)
            except BaseException as fault:
                problems.append(not_closed(label, fault))
        return problems


async def _close_model(model: Model) -> None:
    # aiohttp closes its connections only in a coroutine.
    closing = getattr(model, "aclose", None)
    if closing is None:
        model.close()
    else:
        await closing()


def _facts(served: ActiveModel) -> Mapping[str, Any]:
    return {
        "identity": dict(served.model.identity),
        "pinned": served.model.pinned,
        "served_as": sorted(served.served_as),
        "served_counts": dict(sorted(served.served_as.items())),
        "service_tiers": sorted(served.service_tiers),
        "deviations": sorted({*served.deviations, *served.forced()}),
        "old_replies": dataclasses.asdict(served.old_replies),
        "newest_reply": served.newest_reply,
        "has_worked": served.breaker.has_worked,
    }


def _paid(served: ActiveModel, reply: Reply) -> float | None:
    """Return what a call's reply costs in USD; None if its price is unknown. A model in this process costs nothing."""
    return 0.0 if reply.cost_usd is None and served.model.blocking else reply.cost_usd


def _is_empty(reply: Reply) -> bool:
    # A reply that a content filter withholds is a refusal; the model may answer the next prompt.
    return not reply.text and reply.value is None and reply.finish_reason != "content_filter"


def _is_sampled(request: Request, reply: Reply) -> bool:
    """Return True if the same request may get another reply: the temperature is above 0, or the model's default."""
    return isinstance(request, GENERATED) and (
        request.temperature != 0 or "temperature left out" in reply.deviations
    )


def _excerpt(request: Request) -> str:
    text = request.messages[-1].content if hasattr(request, "messages") else request.text
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 120 else f"{flat[:50]} … {flat[-60:]}")
