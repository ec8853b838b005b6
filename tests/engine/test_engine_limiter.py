"""Servers with limits, and servers that go away, in virtual time: what a run waits, repeats and loses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bench.stub_server import EvenlySpaced, Refusal, TokenBucket, Window
from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.calls.limiter import MOST_REFUSALS, PATIENCE, Limiter, Turn
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models import registry
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import config_of, transient
from tests.support.virtual_time import run_in_virtual_time

#: seconds of one call
LATENCY = 0.2
#: returns the refusal of a call at a time, with a number of tokens; None if it is served
Refuse = Callable[[float, int], Refusal | None]


@dataclass
class Result:
    """What a run of ``items`` calls did."""

    replies: list[Any]
    seconds: float
    refused: int
    in_flight_at_first: int
    broker: LocalBroker
    sent: dict[str, int]

    @property
    def texts(self) -> list[str]:
        assert all(isinstance(reply, Reply) for reply in self.replies), self.replies
        return [reply.text for reply in self.replies]


def run(
    respond: Callable[[Chat], Awaitable[Any]], items: int, *, trial: bool = True, **settings: Any
) -> Result:
    """Ask a model for ``items`` replies at once, after one call before the run."""
    in_flight = first = refused = 0
    sent: dict[str, int] = {}

    async def counted(chat: Chat) -> Any:
        nonlocal in_flight, first, refused
        in_flight += 1
        sent[chat.prompt] = sent.get(chat.prompt, 0) + 1
        try:
            result = await respond(chat)
        finally:
            if isinstance(result, BackendError) and result.kind.startswith("status"):
                refused += 1
                first = first or in_flight
            in_flight -= 1
        return result

    async def work() -> Result:
        registry.register_model("own", lambda spec, options: FakeModel(counted))
        models = {"m": registry.parse_spec("own")}
        broker = LocalBroker(config_of(models, cache="off", **settings))
        chats = [Chat.user(str(number)) for number in range(items)]
        loop = asyncio.get_running_loop()
        started = loop.time()
        if trial:
            await broker.trial("m", chats[:1])
        asked = (broker.ask("m", "subject", chat) for chat in chats)
        replies = await asyncio.gather(*asked, return_exceptions=True)
        seconds = loop.time() - started
        await broker.close()
        return Result(replies, seconds, refused, first, broker, sent)

    return run_in_virtual_time(work())


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the models of these tests."""
    monkeypatch.setattr(registry, "registered", {})


def serve(refuse: Refuse, seed: int, costs: list[int]) -> Callable[[Chat], Awaitable[Any]]:
    """Return a model behind a limit; the network takes some milliseconds, a reply some tenths of a second."""
    noise = random.Random(seed)

    async def respond(chat: Chat) -> Any:
        await asyncio.sleep(0.003 + 0.003 * noise.random())
        refusal = refuse(asyncio.get_running_loop().time(), costs[int(chat.prompt)])
        if refusal is not None:
            return transient(f"status {refusal.status}", retry_after=refusal.seconds)
        await asyncio.sleep(LATENCY * noise.lognormvariate(0, 0.3))
        return chat.prompt

    return respond


@pytest.mark.parametrize(
    ("limit", "share"),
    [
        pytest.param(lambda: TokenBucket(30_000, 30_000), 1.15, id="30k tokens a minute"),
        pytest.param(lambda: TokenBucket(500_000, 40_000), 1.15, id="500k tokens a minute"),
        pytest.param(lambda: TokenBucket(30_000, 30_000, says=False), 1.6, id="no hint"),
        pytest.param(lambda: Window(30, 20), 1.15, id="30 calls in 20 s"),
        pytest.param(lambda: EvenlySpaced(20, 503), 1.6, id="nginx"),
    ],
)
def test_a_limit_is_found_and_kept(limit: Callable[[], Any], share: float) -> None:
    """All calls have a reply, in little more than the time that the limit allows, with few refused calls."""
    items = 680
    for seed, concurrency in ((0, 64), (1, 64), (2, 8)):
        costs = random.Random(seed).choices(range(150, 260), k=items)
        server = limit()
        result = run(serve(server.refusal, seed, costs), items, concurrency=concurrency)
        assert result.texts == [str(number) for number in range(items)]
        # As fast as the limit allows, or as so many calls at once.
        possible = max(server.least_seconds(items, sum(costs)), items * LATENCY * 1.05 / concurrency)
        assert result.seconds <= share * possible + 1
        assert result.refused <= result.in_flight_at_first + 0.05 * items
        assert result.broker.counters.failed == 0


def test_the_summary_names_the_limit() -> None:
    """The summary says how many calls were refused and what is served, as a number for llm_rpm."""
    costs = [200] * 680
    result = run(serve(TokenBucket(30_000, 30_000).refusal, 1, costs), 680)
    [note] = [note for note in result.broker.notes() if "rate limit" in note]
    assert note.startswith(f"m: the rate limit refused {result.refused} calls; about ")
    found = int(note.split("llm_rpm = ")[1].rstrip(")"))
    assert 130 <= found <= 165
    assert result.broker.counters.refused == result.refused
    assert result.broker.counters.retries == 0


@pytest.mark.parametrize("status", [529, 498])
def test_a_provider_without_capacity_is_waited_for(status: int) -> None:
    """529 for the first thirty calls (Anthropic), or 498 for each third one (Groq), cost no verdict."""
    calls = 0

    def refuse(now: float, cost: int) -> Refusal | None:
        nonlocal calls
        calls += 1
        return Refusal(status) if (calls <= 30 if status == 529 else calls % 3 == 0) else None

    result = run(serve(refuse, 0, [1] * 100), 100)
    assert result.texts == [str(number) for number in range(100)]
    assert result.broker.counters.retries == 0
    assert result.seconds < 300


def test_a_model_that_only_refuses_stops_the_run() -> None:
    """Without any reply for five minutes, the run stops with the server's words. A limit per day is not waited for."""
    result = run(serve(lambda now, cost: Refusal(429), 0, [1] * 200), 200)
    assert {type(reply) for reply in result.replies} == {RunStopped}
    assert result.broker.stopped == "m: no reply for 5.0 minutes: transient status 429"
    assert PATIENCE <= result.seconds <= PATIENCE + 10
    # A tenth of what each call alone would send.
    assert result.refused < 150
    result = run(serve(lambda now, cost: Refusal(429, 7200.0), 0, [1] * 20), 20, trial=False)
    assert result.broker.stopped == "m: the server asks to wait 2.0 hours: transient status 429"
    assert result.seconds < 1


def test_a_call_that_is_refused_while_others_are_answered_fails() -> None:
    """One prompt that a server always refuses is an error of its item."""

    async def respond(chat: Chat) -> Any:
        await asyncio.sleep(LATENCY)
        return transient("status 429", retry_after=0.1) if chat.prompt == "7" else chat.prompt

    result = run(respond, 400, concurrency=4)
    assert isinstance(result.replies[7], BackendError)
    assert MOST_REFUSALS <= result.sent["7"] <= MOST_REFUSALS + 4
    assert sum(isinstance(reply, Reply) for reply in result.replies) == 399


@pytest.mark.parametrize(("outage", "concurrency"), [(5.0, 64), (60.0, 1), (60.0, 64)])
def test_a_server_that_refuses_connections_for_a_while_is_waited_for(outage: float, concurrency: int) -> None:
    """A restart of the server costs no verdict and no retry of a call."""

    async def respond(chat: Chat) -> Any:
        now = asyncio.get_running_loop().time()
        if 1.0 <= now < 1.0 + outage:
            return transient("unreachable")
        await asyncio.sleep(LATENCY)
        lost = now < 1.0 <= asyncio.get_running_loop().time()
        return transient("unreachable") if lost else chat.prompt

    result = run(respond, 300, concurrency=concurrency)
    assert result.texts == [str(number) for number in range(300)]
    alone = 300 * LATENCY / concurrency
    assert result.seconds < alone + outage + 12
    assert "m: the server did not answer for" in " ".join(result.broker.notes())
    # No limit refused the calls that are sent again.
    assert result.broker.counters.refused == 0
    # Those in flight, and one at a time meanwhile.
    assert sum(result.sent.values()) - 300 <= concurrency + 20


def test_a_server_that_falls_silent_ends_the_run() -> None:
    """After twice the timeout the run stops; at most the calls in flight are repeated."""
    timeout, concurrency = 3.0, 64

    async def respond(chat: Chat) -> Any:
        now = asyncio.get_running_loop().time()
        if now >= 1.0:
            await asyncio.sleep(timeout)
            return transient("timeout")
        await asyncio.sleep(LATENCY)
        return chat.prompt

    result = run(respond, 640, concurrency=concurrency, timeout=timeout)
    assert result.broker.stopped
    assert result.broker.stopped.startswith("m has not answered for 3 s (--llm-timeout): transient timeout")
    assert result.seconds <= 1.0 + 2 * timeout + 0.5
    assert sum(result.sent.values()) - len(result.sent) <= concurrency


def test_one_prompt_that_never_ends_is_an_error_of_its_item() -> None:
    """A server that answers all others is not away, also with one call at a time and at the end of the run."""

    async def respond(chat: Chat) -> Any:
        await asyncio.sleep(3.0 if chat.prompt in ("5", "39") else LATENCY)
        return transient("timeout") if chat.prompt in ("5", "39") else chat.prompt

    for concurrency in (1, 8):
        result = run(respond, 40, concurrency=concurrency, timeout=3.0)
        wrong = [number for number, reply in enumerate(result.replies) if isinstance(reply, Exception)]
        assert wrong == [5, 39]
        assert result.broker.stopped is None
        assert result.sent["5"] <= 6


def test_a_late_refusal_does_not_hold_the_call_that_tries_a_server() -> None:
    """A server that restarts, and refuses a call that was in flight, is not taken for one that stays away."""

    async def work() -> None:
        limiter = Limiter("m", config_of({}, concurrency=2, timeout=5.0, proven=("m",)), RunStopped)
        late, lost, probe = Turn(), Turn(), Turn()
        for turn in (late, lost):
            await limiter.wait(turn)
            assert limiter.start(turn)
        assert limiter.failed(lost, transient("unreachable"))
        await limiter.wait(probe)
        limiter.failed(late, transient("status 429"))
        assert limiter.start(probe)
        limiter.succeeded()
        assert "waiting for m, which" not in limiter.status()

    run_in_virtual_time(work())


@pytest.mark.parametrize(
    ("kind", "concurrency"),
    [("connection", 1), ("status 502", 8), ("status 429", 8), ("timeout", 1), ("timeout", 8)],
)
def test_prompts_that_a_server_never_answers_are_errors_of_their_items(kind: str, concurrency: int) -> None:
    """Some prompts are never answered, also when no others are left: they end as errors."""
    each = 12 if kind == "timeout" else 4

    async def respond(chat: Chat) -> Any:
        await asyncio.sleep(LATENCY)
        if int(chat.prompt) % each != 1:
            return chat.prompt
        await asyncio.sleep(3.0 * (kind == "timeout"))
        return transient(kind)

    result = run(respond, 72, concurrency=concurrency, timeout=3.0, retries=1)
    assert result.broker.stopped is None
    assert [isinstance(reply, Reply) for reply in result.replies] == [
        number % each != 1 for number in range(72)
    ]
    assert max(result.sent.values()) <= (MOST_REFUSALS + 2 if kind == "status 429" else 4)
    # A server that refuses a fourth of the prompts for good costs some minutes at most.
    assert result.seconds < 500


def test_one_of_several_servers_with_a_limit_does_not_stop_the_run() -> None:
    """A balancer whose servers refuse a twentieth of the calls, at any rate, does not slow the run ever more."""
    noise = random.Random(1)
    refuse: Refuse = lambda now, cost: Refusal(429, 0.2) if noise.random() < 0.05 else None  # noqa: E731
    result = run(serve(refuse, 1, [1] * 1000), 1000)
    assert result.texts == [str(number) for number in range(1000)]
    assert result.seconds < 40


def test_calls_are_evenly_spaced_by_the_users_own_limit() -> None:
    """With llm_rpm, no call starts before its turn, and none is refused by a server with that limit."""
    result = run(serve(EvenlySpaced(20, 429).refusal, 1, [1] * 100), 100, rpm=1080)
    assert result.refused == 0
    assert result.seconds == pytest.approx(99 / 18, abs=1)


def test_a_stop_ends_the_wait_for_a_limit() -> None:
    """Calls that wait for a limit end as soon as the run is stopped."""

    async def respond(chat: Chat) -> Any:
        await asyncio.sleep(LATENCY)
        return transient("status 429", retry_after=60.0)

    async def work() -> float:
        registry.register_model("own", lambda spec, options: FakeModel(respond))
        broker = LocalBroker(BrokerConfig({"m": registry.parse_spec("own")}, cache="off"))
        tasks = [asyncio.create_task(broker.ask("m", "subject", Chat.user(str(k)))) for k in range(3)]
        await asyncio.sleep(1.0)
        await broker.stop("enough")
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(result) for result in results] == ["enough"] * 3
        await broker.close()
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(work()) < 1.5
