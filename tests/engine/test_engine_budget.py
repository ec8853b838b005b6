"""The rate limit, the budgets of calls and money, and the cost of local models."""

from __future__ import annotations

import time

import pytest

from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import Local, MakeBroker, ask_all, failing, kinds, transient


def test_rate_limit_spaces_calls_evenly(make_broker: MakeBroker) -> None:
    """At 1200 calls per minute, no call starts before its turn: one turn each twentieth of a second."""
    times: list[float] = []

    def respond(chat: Chat) -> str:
        times.append(time.monotonic())
        return "x"

    start = time.monotonic()
    ask_all(make_broker(FakeModel(respond), rpm=1200), map(str, range(6)))
    # A busy machine makes a call late, so that the next one may follow it closely.
    assert all(moment - start >= 0.05 * turn - 0.005 for turn, moment in enumerate(times))
    assert len(times) == 6


def test_max_calls_is_kept(make_broker: MakeBroker) -> None:
    """No call exceeds the budget, and the reason names the option."""
    model = FakeModel(lambda chat: "x")
    asked = ask_all(make_broker(model, max_calls=5), map(str, range(8)))
    assert kinds(asked.results).count("reply") == len(model.requests) == 5
    assert asked.broker.stopped == "--llm-max-calls 5 is spent"


def test_sufficient_budget_does_not_stop_the_run(make_broker: MakeBroker) -> None:
    """A run may use exactly the number of allowed calls, and stored replies cost none."""
    model = FakeModel(lambda chat: "x")
    assert ask_all(make_broker(model, max_calls=5), map(str, range(5))).broker.stopped is None
    asked = ask_all(make_broker(model, max_calls=3), map(str, range(8)))
    assert asked.broker.stopped is None
    assert (asked.counters.sent, asked.counters.cache_hits) == (3, 5)


def test_retries_count_against_the_budget(make_broker: MakeBroker) -> None:
    """A retry counts as a call."""
    model = FakeModel(failing(3, transient))
    asked = ask_all(make_broker(model, max_calls=2), ["a"])
    assert kinds(asked.results) == ["stopped"]
    assert len(model.requests) == 2


def test_max_cost_is_kept(make_broker: MakeBroker) -> None:
    """Once the replies have cost the limit, no more calls are sent; a call in progress may exceed it."""
    model = FakeModel(lambda chat: Reply("x", cost_usd=0.4))
    asked = ask_all(make_broker(model, max_cost=1.0, concurrency=1), map(str, range(6)))
    assert kinds(asked.results) == ["reply"] * 3 + ["stopped"] * 3
    assert asked.broker.stopped
    assert asked.broker.stopped.startswith("--llm-max-cost 1 is spent")
    assert asked.counters.cost_usd == pytest.approx(1.2)


def test_cost_of_an_api_without_a_price_is_unknown(make_broker: MakeBroker) -> None:
    """A network call without a price is unpriced; a local model's call costs nothing."""
    remote = ask_all(make_broker(FakeModel(lambda chat: "x")), ["a", "b"])
    assert (remote.counters.unpriced, remote.counters.cost_usd) == (2, 0.0)
    local = ask_all(make_broker(Local()), ["a", "b"])
    assert (local.counters.unpriced, local.counters.cost_usd) == (0, 0.0)


def test_local_models_need_no_slot_and_no_rate(make_broker: MakeBroker) -> None:
    """A local model receives all waiting requests at once, so it can sort and batch them."""
    model = Local(max_batch=16)
    asked = ask_all(make_broker(model, concurrency=1, rpm=1), [f"{n:02}" for n in range(32)])
    assert len(asked.texts) == 32
    assert [len(batch) for batch in model.batches] == [16, 16]
