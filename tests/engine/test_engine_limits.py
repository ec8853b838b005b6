"""When a run must stop, which errors are retried, the rate limit, and the budgets of calls and money."""

from __future__ import annotations

import resource

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.calls.calls import (
    Breaker,
    worth_retrying,
)
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import Local, MakeBroker, ask_all, failing, final, kinds, transient


def after(successes: int) -> Breaker:
    """Return a breaker that has seen the given number of full replies."""
    breaker = Breaker()
    for _ in range(successes):
        assert breaker.success(empty=False) is None
    return breaker


def given_up(breaker: Breaker, error: BackendError) -> str | None:
    """Report one item that fails at its only attempt."""
    return breaker.failure(error, final=False) or breaker.failure(error, final=True)


@pytest.mark.parametrize("successes", [0, 500])
def test_a_fatal_error_stops_at_once(successes: int) -> None:
    """An invalid key stops the run with its own message; after a reply, a gateway blocks only this prompt.

    A resumed run whose only open prompt is blocked goes on, too: an earlier run has replies of the model.
    """
    key = BackendError("wrong key", kind="key", fatal=True)
    replica = BackendError("no replica is left", kind="replica", fatal=True)
    for is_final in (True, False):
        assert after(successes).failure(key, final=is_final) == (None if successes else "wrong key")
        assert after(successes).failure(replica, final=is_final) == "no replica is left"
    proven = Breaker(is_proven=True)
    assert proven.failure(BackendError("no API here", kind="url", fatal=True), final=True) is None
    assert proven.failure(key, final=True) == "wrong key"


def test_a_tail_of_failing_items_does_not_stop_a_healthy_run() -> None:
    """After 978 replies, 22 items that always fail are only errors; 97 in a row stop the run."""
    breaker = after(978)
    reasons = [given_up(breaker, transient()) for _ in range(97)]
    assert reasons[:22] == [None] * 22
    assert reasons[:-1] == [None] * 96
    assert reasons[-1] is not None


def test_success_resets_the_count() -> None:
    """A reply resets the count of failures in a row, and one with text that of empty replies."""
    breaker = Breaker()
    for _ in range(10):
        assert [given_up(breaker, final()) for _ in range(19)] == [None] * 19
        assert breaker.success(empty=False) is None
        assert [breaker.success(empty=True) for _ in range(19)] == [None] * 19
        assert breaker.success(empty=False) is None


def test_transient_errors_are_retried() -> None:
    """Transient errors are retried unless the server requests too long a wait."""
    errors = (transient(), transient(retry_after=300.0), transient(retry_after=300.1), final())
    assert [worth_retrying(error) for error in errors] == [True, True, False, False]


@pytest.mark.parametrize(
    ("soft", "hard", "least", "most"),
    [(160, 160, 1, 40), (64, 100_000, 64, 64), (8, 8, 1, 1), (-1, -1, 64, 64)],
    ids=["low", "can be raised", "hopeless", "unlimited"],
)
def test_connections_fit_the_open_files(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, least: int, most: int
) -> None:
    """Concurrency is lowered only if the process cannot have more files; the soft limit is raised first."""
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append(pair))
    broker = make_broker(FakeModel(["x"]), concurrency=64)
    concurrency = broker.config.calls.concurrency
    assert least <= concurrency <= most
    assert limits[-1][1] == hard
    said = [note for note in broker.notes() if note.startswith(f"concurrency is {concurrency} instead of 64")]
    assert len(said) == (concurrency < 64)


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
