"""Samples of one prompt are sent as one call but remain separate requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Usage, request_key
from pytest_llmprops.engine.broker.remote import RemoteBroker
from pytest_llmprops.engine.calls import queues
from pytest_llmprops.engine.calls.limiter import Limiter, Turn
from tests.support.engine_models import Asked, MakeBroker, ask_all, final, kinds, served, transient
from tests.support.scripted import Plain

Answer = Callable[[Chat, int], Sequence[Reply] | BackendError]


def numbered(request: Chat, count: int) -> list[Reply]:
    """Return numbered replies, as many as requested, each with a share of the call's usage and cost."""
    return [Reply(f"{request.prompt} {k}", usage=Usage(2, 3, 0), cost_usd=0.25) for k in range(count)]


class Several(Plain):
    """A network model that takes up to ``most_samples`` at once; ``calls`` lists (prompt, samples) of each."""

    blocking = False
    identity: Mapping[str, Any] = {"backend": "several"}

    def __init__(self, answer: Answer = numbered, *, most: int = 128, delay: float = 0.01) -> None:
        self.most_samples = most
        self.calls: list[tuple[str, int]] = []
        self.peak = self._now = 0
        self._answer, self._delay = answer, delay

    async def samples(self, request: Chat, count: int) -> Sequence[Reply] | BackendError:
        """Answer one call for several samples."""
        self.calls.append((request.prompt, count))
        self._now += 1
        self.peak = max(self.peak, self._now)
        await asyncio.sleep(self._delay)
        self._now -= 1
        return self._answer(request, count)

    async def chat(self, requests: Sequence[Chat]) -> list[Reply | BackendError]:
        """Answer one call per request."""
        reply_lists = [await self.samples(request, 1) for request in requests]
        return [one if isinstance(one, BackendError) else one[0] for one in reply_lists]

    def notes(self) -> Sequence[str]:
        """Return the notes of the model."""
        return () if self.most_samples > 1 else ("one at a time",)


def eleven(prompt: str = "q", **settings: Any) -> list[Chat]:
    """Return eleven samples of a prompt."""
    return [Chat.user(prompt, sample=k, **settings) for k in range(11)]


def counted(asked: Asked) -> tuple[int, int, int]:
    """Return (requests, calls, replies)."""
    return asked.counters.requests, asked.counters.sent, asked.counters.answered


def test_simultaneous_samples_are_one_call(make_broker: MakeBroker, tmp_path: Path) -> None:
    """Eleven samples are one call; each has its own reply, key, line and stored reply, and totals are sums."""
    model = Several()
    first = ask_all(make_broker(model, run_dir=str(tmp_path)), eleven())
    assert model.calls == [("q", 11)]
    assert sorted(first.texts) == sorted(f"q {k}" for k in range(11))
    assert counted(first) == (11, 1, 11)
    counters = first.counters
    assert (counters.prompt_tokens, counters.completion_tokens, counters.cost_usd) == (22, 33, 2.75)
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    keys = [request_key(model.identity, request) for request in eleven()]
    assert [reply.key for reply in first.results] == keys
    assert {line["key"]: line["reply"]["text"] for line in lines if "key" in line} == dict(
        zip(keys, first.texts, strict=True)
    )
    again = ask_all(make_broker(model), eleven())
    assert (again.texts, counted(again), again.counters.cache_hits) == (first.texts, (11, 0, 0), 11)


def test_only_missing_samples_are_requested(make_broker: MakeBroker) -> None:
    """If three of eleven are stored, the call requests eight, and the three are unchanged."""
    model = Several()
    stored = ask_all(make_broker(model), [eleven()[k] for k in (0, 4, 9)]).texts
    asked = ask_all(make_broker(model), eleven())
    assert [count for _, count in model.calls] == [3, 8]
    assert [asked.texts[k] for k in (0, 4, 9)] == stored


def test_samples_a_moment_apart_are_one_call(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set waits a few turns of the event loop for further samples, but no longer."""
    monkeypatch.setattr(queues, "TOGETHER_SECONDS", 0.2)
    model = Several()

    async def work() -> list[Reply]:
        broker = make_broker(model)

        async def late(request: Chat) -> Reply:
            for _ in range(request.sample):
                await asyncio.sleep(0)
            await asyncio.sleep(0.5 if request.sample == 10 else 0)
            return await broker.ask("m", "subject", request)

        try:
            return await asyncio.gather(*map(late, eleven()))
        finally:
            await broker.close()

    asyncio.run(work())
    assert model.calls == [("q", 10), ("q", 1)]


def test_different_requests_are_separate_calls(make_broker: MakeBroker) -> None:
    """Another prompt, temperature, limit or parameter makes another call; repeated samples are joined."""
    other: list[Any] = [
        {"temperature": 0.5},
        {"max_tokens": 9},
        {"stop": (".",)},
        {"extra": (("top_p", [1]),)},
    ]
    requests = [*eleven(), *eleven(), *eleven("p"), *(r for settings in other for r in eleven(**settings))]
    requests += [replace(request, response_format="json_object") for request in eleven()]
    model = Several()
    asked = ask_all(make_broker(model), requests)
    assert model.calls == [("q", 11), ("p", 11), *[("q", 11)] * 5]
    assert asked.counters.joined == 11
    # With a fixed seed, samples are single calls, because the choices of one call would differ.
    model = Several()
    ask_all(make_broker(model), eleven(extra=(("seed", 1),)))
    assert model.calls == [("q", 1)] * 11


def test_a_set_takes_one_slot_and_one_tick(make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four sets uses one slot (two at a time) and one tick of the rate limit, not eleven."""
    requests = [r for prompt in "abcd" for r in eleven(prompt)]
    model = Several()
    asked = ask_all(make_broker(model, concurrency=2, cache="off"), requests)
    assert (model.peak, asked.counters.sent, asked.counters.in_flight) == (2, 4, 0)
    wait, ticks = Limiter.wait, 0

    async def ticking(limiter: Limiter, turn: Turn) -> None:
        nonlocal ticks
        ticks += 1
        await wait(limiter, turn)

    monkeypatch.setattr(Limiter, "wait", ticking)
    ask_all(make_broker(Several(), rpm=1200, cache="off"), requests)
    assert ticks == 4


def test_missing_choices_are_requested_singly(make_broker: MakeBroker) -> None:
    """If the server returns four of eleven, seven calls fetch the others, and every sample has a reply.

    Samples beyond the maximum of one call are sent in further calls.
    """
    limited = Several(most=4)
    assert len(set(ask_all(make_broker(limited, cache="off"), eleven()).texts)) == 4
    assert sorted(count for _, count in limited.calls) == [3, 4, 4]
    model = Several(lambda request, count: numbered(request, min(count, 4)))
    asked = ask_all(make_broker(model), eleven())
    assert model.calls == [("q", 11), *[("q", 1)] * 7]
    assert counted(asked) == (11, 8, 11)
    assert asked.texts[:4] == ["q 0", "q 1", "q 2", "q 3"]


@pytest.mark.parametrize("concurrency", [1, 64])
def test_waiting_sets_are_not_sent_when_n_is_refused(make_broker: MakeBroker, concurrency: int) -> None:
    """No set waiting for a slot or the rate limit is sent after a refusal; each sample is sent once, with a note."""

    def refuse(request: Chat, count: int) -> list[Reply]:
        if count > 1:
            model.most_samples = 1
        return numbered(request, 1) if count == 1 else []

    model = Several(refuse, delay=0.001)
    broker = make_broker(model, concurrency=concurrency, rpm=3000, cache="off")
    asked = ask_all(broker, [Chat.user(prompt, sample=k) for prompt in "abc" for k in range(3)])
    assert [count for _, count in model.calls] == [3, *[1] * 9]
    assert (counted(asked), asked.counters.failed) == ((9, 10, 9), 0)
    assert asked.broker.notes() == ["m: one at a time"]


def test_set_is_retried_as_one_call(make_broker: MakeBroker) -> None:
    """Two transient failures are two retries of the whole set."""
    failures = [transient(), transient()]
    model = Several(lambda request, count: failures.pop() if failures else numbered(request, count))
    asked = ask_all(make_broker(model), eleven())
    assert model.calls == [("q", 11)] * 3
    assert (asked.counters.retries, asked.counters.failed, len(asked.texts)) == (2, 0, 11)


def test_a_failed_set_is_one_failure_of_all(make_broker: MakeBroker) -> None:
    """Each sample of a failed set has the error, but the set counts as one failed call."""
    model = Several(lambda request, count: final() if request.prompt != "c" else numbered(request, count))
    asked = ask_all(make_broker(model), [r for prompt in "abc" for r in eleven(prompt)])
    assert kinds(asked.results) == ["error"] * 22 + ["reply"] * 11
    assert (asked.counters.failed, asked.broker.stopped) == (2, None)


def test_what_a_model_raises_is_an_error_of_the_samples(make_broker: MakeBroker) -> None:
    """Whatever a call for several samples raises is the error of that set, and nobody waits for ever."""

    def answer(request: Chat, count: int) -> Sequence[Reply]:
        raise KeyError("choices") if request.prompt == "q" else asyncio.CancelledError

    asked = ask_all(make_broker(Several(answer)), [*eleven(), *eleven("p")])
    assert [str(result) for result in asked.results] == ["KeyError: 'choices'"] * 11 + ["CancelledError"] * 11
    assert asked.broker.stopped is None


def test_closing_drops_open_sets(make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing the broker ends both a set in flight and one that still gathers samples."""

    model = Several(delay=30)

    async def work() -> list[Any]:
        others = asyncio.all_tasks()
        broker = make_broker(model)
        asking = [asyncio.ensure_future(broker.ask("m", "subject", r)) for r in eleven()]
        while not model.calls:  # noqa: ASYNC110 - the model is a plain list of calls
            await asyncio.sleep(0.01)
        monkeypatch.setattr(queues, "TOGETHER_SECONDS", 30)
        asking += [asyncio.ensure_future(broker.ask("m", "subject", r)) for r in eleven("late")]
        await asyncio.sleep(0.05)
        await broker.close()
        assert asyncio.all_tasks() - set(asking) == others
        await asyncio.sleep(0.02)
        return await asyncio.gather(*asking, return_exceptions=True)

    results = asyncio.run(asyncio.wait_for(work(), 60))
    assert {type(result) for result in results} == {asyncio.CancelledError}
    assert model.calls == [("q", 11)]


def test_closing_starts_no_call(make_broker: MakeBroker) -> None:
    """A reply that arrives while the broker closes frees its slot for no other call, which would be paid for."""
    model = Several()

    async def work() -> None:
        arrives = asyncio.Event()

        async def samples(request: Chat, count: int) -> Sequence[Reply]:
            model.calls.append((request.prompt, count))
            await arrives.wait()
            return numbered(request, count)

        model.samples = samples  # type: ignore[method-assign]
        broker = make_broker(model, concurrency=1)
        asking = [asyncio.ensure_future(broker.ask("m", "subject", Chat.user(text))) for text in "abc"]
        await asyncio.sleep(0.1)
        closing = asyncio.ensure_future(broker.close())
        arrives.set()
        await closing
        await asyncio.gather(*asking, return_exceptions=True)

    asyncio.run(work())
    assert len(model.calls) == 1


def test_samples_of_a_worker_are_written_together(make_broker: MakeBroker, path: str) -> None:
    """A worker that a busy machine interrupts has sent all samples of a prompt, or none."""
    model = Several()

    async def work(client: RemoteBroker, _: RemoteBroker) -> int:
        await client.ask("m", "subject", Chat.user("first"))
        assert client.writer is not None
        with mock.patch.object(client.writer, "write", wraps=client.writer.write) as write:
            await asyncio.gather(*(client.ask("m", "subject", r) for r in eleven("q")))
        lines: int = write.call_args_list[0].args[0].count(b"\n")
        return lines

    assert served(path, make_broker(model), work) == 11
    assert model.calls == [("first", 1), ("q", 11)]
