"""Several samples of a prompt in one call of the OpenAI backend: servers that return, refuse or omit them.

What the broker does with them: tests/engine/test_engine_samples.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bench.stub_server import RunningStub, running_stub
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.openai import OpenAIModel
from tests.support.backends import called, error, fatal, make, refuse, reply, sampled, texts
from tests.support.networks import clear_network


@pytest.fixture(scope="module")
def server() -> Iterator[RunningStub]:
    """One server whose choices are their own numbers."""
    with running_stub(delay=0.005, answer="sample") as running:
        yield running


@pytest.fixture
def stub(server: RunningStub, monkeypatch: pytest.MonkeyPatch) -> RunningStub:
    """The server, with new counts."""
    clear_network(monkeypatch)
    server.reset()
    return server


def model_at(stub: RunningStub, name: str) -> OpenAIModel:
    """Return a model of the server."""
    model: OpenAIModel = make(f"openai:{name}", base_url=stub.url)
    return model


def test_one_call_with_n(stub: RunningStub) -> None:
    """Eleven samples are one call with ``n`` and get one choice each; there is no note."""
    model = model_at(stub, "m")
    assert texts(sampled(model, 11)) == [str(k) for k in range(11)]
    assert (stub.stats()["requests"], model.most_samples, model.notes()) == (1, 128, [])


def test_n_off_is_the_same_model(stub: RunningStub) -> None:
    """With ``?n=off``, a call has one sample; stored replies are shared with ``n=on``."""
    assert model_at(stub, "m?n=off").most_samples == 1
    assert model_at(stub, "m?n=off").identity == model_at(stub, "m").identity
    refuse("openai:m?n=5", "n=off")


def test_usage_and_cost_of_the_call_are_shared(stub: RunningStub) -> None:
    """The shares add up to the server's count, with the prompt counted once; the cost follows them."""
    model, request = model_at(stub, "m?price_in=1000000&price_out=1000000"), Chat.user("q" * 100)
    alone = reply(called(model, request)[0])
    results = sampled(model, 11, request)
    assert (alone.usage.prompt_tokens, alone.usage.completion_tokens) == (25, 1)
    assert sum(r.usage.prompt_tokens for r in results) == 25
    assert [r.usage.completion_tokens for r in results] == [1] * 11
    assert sum(r.cost_usd for r in results) == 36


@pytest.mark.parametrize("name", ["no-n", "strict"])
def test_refusal_of_n_is_not_a_failure(stub: RunningStub, name: str) -> None:
    """Samples are single calls if a server refuses ``n``, by name or not; this is a note, not a deviation."""
    model = model_at(stub, name)
    assert sampled(model, 11) == []
    assert texts(called(model, Chat.user("q"))) == ["0"]
    assert stub.stats()["statuses"] == {"200": 1, "400": 1}
    assert (model.most_samples, model.deviations()) == (1, ())
    [note] = model.notes()
    assert "refuses" in note
    assert "separate call" in note


def test_a_refused_parameter_of_the_user_ends_the_run(stub: RunningStub) -> None:
    """If a set is refused because of ``--llm-param``, ``n`` is not involved."""
    model = model_at(stub, "strict")
    fatal(sampled(model, 3, Chat.user("q", extra=(("a_size", 9),))), "--llm-param a_size")
    assert (stub.stats()["requests"], model.most_samples) == (1, 128)


def test_bad_prompt_is_not_a_refusal_of_n(stub: RunningStub) -> None:
    """If the prompt is also refused alone, it has the error, and there is no note about ``n``."""
    model = model_at(stub, "too-long")
    assert sampled(model, 3) == []
    error(called(model, Chat.user("q"))[0], "maximum context length")
    assert (model.most_samples, model.notes()) == (128, [])


@pytest.mark.parametrize(("name", "most"), [("one-of-n", 1), ("few-of-n", 128)])
def test_server_that_returns_fewer_choices(stub: RunningStub, name: str, most: int) -> None:
    """The choices are used; after one choice for eleven samples, no later call has ``n``."""
    model = model_at(stub, name)
    assert (len(texts(sampled(model, 11))) == 1) == (most == 1)
    assert model.most_samples == most
    assert ["one sample" in note for note in model.notes()] == [True] * (most == 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("filtered-second", ["0", None, "2"]), ("filtered", [None] * 3)],
    ids=["choice", "prompt"],
)
def test_filtered_samples(stub: RunningStub, name: str, expected: Sequence[str | None]) -> None:
    """A choice that the filter withheld is that sample's refusal; Azure's 400 for the prompt is that of each."""
    model = model_at(stub, name)
    assert [(r.text, r.finish_reason) for r in sampled(model, 3)] == [
        ("", "content_filter") if text is None else (text, "stop") for text in expected
    ]
    assert (stub.stats()["requests"], model.notes()) == (1, [])


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
