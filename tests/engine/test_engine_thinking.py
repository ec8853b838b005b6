"""Models that think get tokens for their thoughts; a reply that is cut before its answer is never an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.engine.calls.thinking import ThinkingBudget
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, ask_all
from tests.support.scripted import Plain

#: a request of a benchmark that reads one letter
SHORT = Chat.user("A or B?", max_tokens=5)


class Thinker(Plain):
    """A model behind an API that thinks for a number of tokens and then answers B.

    :param form: writes (thought, answer) as one text; None to use the field.
    :param context: the highest limit that the server accepts.
    """

    blocking = False

    def __init__(self, tokens: int, form: str | None, *, context: int = 100_000) -> None:
        self._tokens, self._form, self._context = tokens, form, context
        self.limits: list[int | None] = []

    async def chat(self, requests: Sequence[Chat]) -> list[Any]:
        return [self._one(request) for request in requests]

    def _one(self, request: Chat) -> Reply | BackendError:
        limit = request.max_tokens
        self.limits.append(limit)
        if limit is not None and limit > self._context:
            return BackendError("the API refuses the request (status 400): too many tokens", kind="request")
        thought = "Okay, so the label " + "A " * self._tokens
        words = len(thought.split())
        is_cut = limit is not None and limit <= words
        if self._form is None:
            text, reasoning = ("" if is_cut else "B"), thought
        else:
            text = self._form.format(thought, "B")
            cut = " ".join(text.split(" ")[:limit])
            text, reasoning = (cut if is_cut else text), ""
        return Reply(text, reasoning=reasoning, finish_reason="length" if is_cut else "stop")


FORMS = {
    "field": None,
    "think": "<think> {} </think> {}",
    "magistral": "[THINK] {} [/THINK] {}",
    "gpt-oss": "<|channel|>analysis<|message|> {} <|end|><|start|>assistant<|channel|>final<|message|> {}",
    "no opening tag": "{} </think> {}",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_answer_after_any_thought(make_broker: MakeBroker, form: str | None) -> None:
    """The same answer is read however the model thinks, and however long."""
    for tokens in (3, 5_000):
        asked = ask_all(make_broker(Thinker(tokens, form), cache="off"), [SHORT])
        assert asked.texts == ["B"]
        assert "A A" in asked.results[0].reasoning


@pytest.mark.parametrize("form", [None, "{} </think> {}"])
def test_a_longer_thought_is_an_error(make_broker: MakeBroker, form: str | None) -> None:
    """What is still cut is neither a wrong nor an unread answer, and the line names the option."""
    model = Thinker(3_000, form)
    [error] = ask_all(make_broker(model, max_thinking=2_000), [SHORT]).results
    assert isinstance(error, BackendError)
    assert (error.kind, "llm_max_thinking" in error.message) == ("thinking", True)
    assert set(model.limits) == {5, 2_005}


def test_the_budget_is_raised_once_per_model(make_broker: MakeBroker) -> None:
    """Later calls begin with the raised limit, which is a deviation."""
    model = Thinker(5_000, "<think> {} </think> {}")
    broker = make_broker(model)
    asked = ask_all(broker, [SHORT])
    assert model.limits == [5, 4_101, 16_389]
    assert asked.results[0].deviations == ("token budget raised by 16384",)
    assert asked.broker.snapshot()["models"]["m"]["deviations"] == ["token budget raised by 16384"]


def test_a_limit_that_the_server_refuses_is_lowered(make_broker: MakeBroker) -> None:
    """A server with a short context gets the highest step that it accepts; what does not fit is an error."""
    model = Thinker(5_000, None, context=8_192)
    [error] = ask_all(make_broker(model), [SHORT]).results
    assert isinstance(error, BackendError)
    assert (error.kind, model.limits) == ("thinking", [5, 4_101, 16_389, 4_101])


def test_a_prompt_that_the_server_refuses_lowers_no_limit() -> None:
    """A request that is refused with any limit costs only its item; the next ones keep their tokens."""
    discarded, limits = list[Reply](), list[int | None]()
    budget = ThinkingBudget(32_768, probes=False, discard=discarded.extend)
    budget.extra = 4_096

    async def send(requests: Sequence[Request]) -> BackendError:
        limits.extend(request.max_tokens for request in requests if isinstance(request, Chat))
        return BackendError("the API refuses the request (status 400)", kind="request")

    assert isinstance(asyncio.run(budget.replies([SHORT], send)), BackendError)
    assert (limits, discarded, budget.extra) == ([4_101, 5], [], 4_096)


def test_models_that_do_not_think_keep_their_limit(make_broker: MakeBroker) -> None:
    """A chatty model costs one longer call per run; its cut reply stays a reply, and no deviation is noted."""

    class Chatty(Thinker):
        def _one(self, request: Chat) -> Reply | BackendError:
            self.limits.append(request.max_tokens)
            return Reply("The label of this sentence", finish_reason="length")

    model = Chatty(0, None)
    asked = ask_all(make_broker(model), [SHORT, Chat.user("A or C?", max_tokens=5)])
    assert asked.texts == ["The label of this sentence"] * 2
    assert sorted(filter(None, model.limits)) == [5, 5, 4_101]
    assert asked.results[0].deviations == ()
    # An empty reply that the model itself ended is a reply, too: unparsed, not an error.
    assert ask_all(make_broker(FakeModel([""])), [SHORT]).texts == [""]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_limits_of_the_user_are_raised_too(make_broker: MakeBroker, name: str) -> None:
    """A limit from --llm-param is ours as well."""
    sent: list[dict[str, Any]] = []

    class OwnLimit(Thinker):
        def _one(self, request: Chat) -> Reply | BackendError:
            sent.append(dict(request.extra))
            return Reply("B") if dict(request.extra)[name] > 100 else Reply("", finish_reason="length")

    chat = Chat.user("A or B?", max_tokens=5, extra=((name, 7),))
    assert ask_all(make_broker(OwnLimit(0, None)), [chat]).texts == ["B"]
    assert [row[name] for row in sent] == [7, 4_103]


def test_cut_replies_are_not_stored(make_broker: MakeBroker) -> None:
    """A later run asks again, with a higher limit."""

    model = Thinker(3_000, "<think> {} </think> {}")
    [error] = ask_all(make_broker(model, max_thinking=0), [SHORT]).results
    assert isinstance(error, BackendError)
    assert ask_all(make_broker(model), [SHORT]).texts == ["B"]
