"""Several samples of a prompt in one call of the OpenAI backend: servers that return, refuse or omit them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.stub_server import RunningStub, running_stub
from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import parse_spec
from tests.support.backends import error, refuse, texts
from tests.support.networks import clear_network

Results = list[Any]
Asked = Callable[..., tuple[Results, LocalBroker]]


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    """One server whose choices are their own numbers."""
    with running_stub(delay=0.005, answer="sample") as running:
        yield running


@pytest.fixture
def asked(stub: RunningStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Send samples of one prompt to a model of the stub through a broker, and close the broker."""
    clear_network(monkeypatch)
    stub.reset()

    def ask(model: str, samples: Sequence[int] = range(11), prompt: str = "q", **settings: Any) -> Any:
        config = BrokerConfig(
            {"m": parse_spec(f"openai:{model}")}, CallOptions(stub.url), store=str(tmp_path / "store")
        )
        broker = LocalBroker(config)

        async def work() -> Results:
            asking = (broker.ask("m", "subject", Chat.user(prompt, sample=k, **settings)) for k in samples)
            try:
                return await asyncio.gather(*asking, return_exceptions=True)
            finally:
                await broker.close()

        return asyncio.run(work()), broker

    return ask


def test_one_call_with_n(asked: Asked, stub: RunningStub) -> None:
    """Eleven samples are one call with ``n`` and get one choice each; there is no note."""
    results, broker = asked("m", temperature=0.0)
    assert texts(results) == [str(k) for k in range(11)]
    assert (stub.stats()["requests"], broker.counters.sent) == (1, 1)
    assert broker.notes() == []


def test_n_off_makes_single_calls_with_the_same_identity(asked: Asked, stub: RunningStub) -> None:
    """``?n=off`` makes eleven calls with the same identity, so stored replies are shared with ``n=on``."""
    results, broker = asked("m?n=off", range(5))
    assert (texts(results), stub.stats()["requests"]) == (["0"] * 5, 5)
    again, broker = asked("m", range(11))
    assert stub.stats()["requests"] == 6
    assert (texts(again), broker.counters.cache_hits) == (["0"] * 5 + [str(k) for k in range(6)], 5)


def test_usage_and_cost_of_the_call_are_shared(asked: Asked) -> None:
    """The shares add up to the server's count, with the prompt counted once; the cost follows them."""
    [alone], _ = asked("m?price_in=1000000&price_out=1000000", [0], prompt="q" * 100)
    results, broker = asked("m?price_in=1000000&price_out=1000000", range(1, 12), prompt="q" * 100)
    assert (alone.usage.prompt_tokens, alone.usage.completion_tokens) == (25, 1)
    assert sum(r.usage.prompt_tokens for r in results) == 25
    assert [r.usage.completion_tokens for r in results] == [1] * 11
    assert sum(r.cost_usd for r in results) == broker.counters.cost_usd == 36
    assert broker.counters.prompt_tokens == 25


@pytest.mark.parametrize("model", ["no-n", "strict"])
def test_refusal_of_n_is_not_a_failure(asked: Asked, stub: RunningStub, model: str) -> None:
    """Samples are single calls if a server refuses ``n``, by name or not; this is a note, not a deviation."""
    results, broker = asked(model)
    assert texts(results) == ["0"] * 11
    assert stub.stats()["statuses"] == {"200": 11, "400": 1}
    assert (broker.counters.failed, broker.counters.retries) == (0, 0)
    [note] = broker.notes()
    assert "refuses" in note
    assert "separate call" in note
    assert broker.snapshot()["models"]["m"]["deviations"] == []
    refuse("openai:m?n=5", "n=off")


def test_a_refused_parameter_of_the_user_stops_the_run(asked: Asked, stub: RunningStub) -> None:
    """A set refused because of ``--llm-param`` stops the run after one call; ``n`` is not involved."""
    results, broker = asked("strict", range(3), extra=(("a_size", 9),))
    assert [type(r) for r in results] == [RunStopped] * 3
    assert stub.stats()["requests"] == 1
    assert "--llm-param a_size" in (broker.stopped or "")


def test_bad_prompt_is_not_a_refusal_of_n(asked: Asked) -> None:
    """If the samples are also refused one by one, each has the error, and there is no note about ``n``."""
    results, broker = asked("too-long", range(3))
    assert all(error(r, "maximum context length") for r in results)
    assert broker.notes() == []


@pytest.mark.parametrize(("model", "requests", "is_noted"), [("one-of-n", 11, True), ("few-of-n", 6, False)])
def test_server_that_returns_fewer_choices(
    asked: Asked, stub: RunningStub, model: str, requests: int, is_noted: bool
) -> None:
    """The missing samples are requested singly; after one choice for eleven samples, no later call has ``n``."""
    results, broker = asked(model)
    assert (len(texts(results)), stub.stats()["requests"]) == (11, requests)
    assert ["one sample" in note for note in broker.notes()] == [True] * is_noted


@pytest.mark.parametrize(
    ("model", "expected"),
    [("filtered-second", ["0", None, "2"]), ("filtered", [None] * 3)],
    ids=["choice", "prompt"],
)
def test_filtered_samples(
    asked: Asked, stub: RunningStub, model: str, expected: Sequence[str | None]
) -> None:
    """A choice that the filter withheld is that sample's refusal; Azure's 400 for the prompt is that of each."""
    results, broker = asked(model, range(3))
    assert [(r.text, r.finish_reason) for r in results] == [
        ("", "content_filter") if text is None else (text, "stop") for text in expected
    ]
    assert (stub.stats()["requests"], broker.notes()) == (1, [])


@pytest.mark.parametrize(
    ("status", "message", "refuses"),
    [
        (500, "Only one completion choice is allowed", True),
        (500, "Internal error at line n", False),
        (429, "too many candidates a minute", False),
    ],
)
def test_internal_errors_about_n(status: int, message: str, refuses: bool) -> None:
    """An internal error would be retried, so its message is read; a refusal is recognised without it."""
    assert errors.refuses_several(status, {"error": {"message": message}}) is refuses
