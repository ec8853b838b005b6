"""Concurrent evaluation: order, limits, attribution of errors, and several items as one pytest case."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark, NoSettings
from pytest_llmprops.core.errors import BackendError, ContractError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.requests import Chat, Reply, Request, Segment
from pytest_llmprops.core.verdicts import Status, Verdict
from pytest_llmprops.engine.evaluation.evaluator import (
    LISTED,
    Case,
    CaseGroup,
    Evaluator,
    GroupOutcome,
    Outcome,
    group_outcome,
    with_params,
)
from pytest_llmprops.engine.event_loop import LoopThread
from pytest_llmprops.records.files import plain

Answer = Callable[[str, str, Request], Awaitable[Reply]]


class Capitals(Benchmark):
    """Checks whether the reply is the item's id in capitals; some items are special."""

    name = "capitals"

    async def evaluate(self, item: Item, context: Any, ask: Any, protocol: Protocol[Any]) -> Verdict:
        reply = await ask(Chat.user(item.id, temperature=0.7))
        if item.id == "read":
            reply = await ask(Chat.user(reply.text), role="reader")
        return Verdict.check(reply.text == item.id.upper(), expected=item.id.upper(), given=reply.text)


def case(identifier: str, **more: Any) -> Case:
    """Return the case of one item."""
    protocol = Protocol("quick", NoSettings())
    return Case(Capitals(), Item(identifier, "t", "en"), None, protocol, "m", **more)


async def capitals(label: str, role: str, request: Request) -> Reply:
    """Return a model that always answers correctly."""
    assert isinstance(request, Chat)
    return Reply(request.prompt.upper(), key=f"key of {request.prompt}")


class Broker:
    """What an evaluator needs of a broker; keeps the reasons to stop."""

    def __init__(self) -> None:
        self.stops: list[str] = []

    def flush(self) -> None:
        """Do nothing."""

    async def stop(self, reason: str) -> None:
        """Keep the reason."""
        self.stops.append(reason)


def evaluator_of(
    loop: LoopThread, answer: Answer, *cases: Case, window: int = 1, keeps_calls: bool = True
) -> Evaluator:
    """Return an evaluator with submitted cases."""
    evaluator = Evaluator(loop.loop, Broker(), answer, window=window, keeps_calls=keeps_calls)
    evaluator.submit(cases)
    return evaluator


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    """Yield a running event loop."""
    thread = LoopThread()
    yield thread
    thread.close()


def outcomes(loop: LoopThread, answer: Answer, *cases: Case, window: int = 8) -> list[Outcome]:
    """Return the outcomes of ``cases``, fetched in order."""
    evaluator = evaluator_of(loop, answer, *cases, window=window)
    results = [evaluator.outcome(c, timeout=60) for c in cases]
    loop.call(evaluator.close(), 60)
    return results


def test_every_case_gets_its_own_outcome(loop: LoopThread) -> None:
    """A verdict belongs to the case requested, with its calls."""
    results = outcomes(loop, capitals, *(case(f"i{n}") for n in range(30)))
    assert [o.verdict.given for o in results if o.verdict] == [f"I{n}" for n in range(30)]
    assert [o.record().requests for o in results] == [(f"key of i{n}",) for n in range(30)]
    assert [(o.record().id, o.record().status) for o in results[:2]] == [("i0", "correct"), ("i1", "correct")]
    # Without Allure, a waiting outcome has only the keys of its calls, for the record.
    evaluator = evaluator_of(loop, capitals, case("a"), keeps_calls=False)
    outcome = evaluator.outcome(case("a"), timeout=60)
    loop.call(evaluator.close(), 60)
    assert (outcome.calls, outcome.record().requests) == ((), ("key of a",))


def test_the_window_holds_over_all_submissions(loop: LoopThread) -> None:
    """Cases submitted while others are active share the same window."""
    now = peak = 0

    async def gauge(label: str, role: str, request: Request) -> Reply:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await asyncio.sleep(0.003)
        now -= 1
        return Reply("x")

    first, second = ([case(f"{batch}/{n}") for n in range(10)] for batch in range(2))
    evaluator = evaluator_of(loop, gauge, *first, window=4)
    evaluator.submit(second)
    assert all(evaluator.outcome(c, timeout=60).verdict is not None for c in (*first, *second))
    loop.call(evaluator.close(), 60)
    assert peak == 4


@pytest.mark.parametrize("is_reversed", [False, True])
def test_unfetched_outcomes_are_bounded(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch, is_reversed: bool
) -> None:
    """Evaluation pauses while pytest has many outcomes to fetch, but not if pytest waits for a later case."""
    monkeypatch.setattr("pytest_llmprops.engine.evaluation.evaluator.MOST_WAITING", 10)
    answered = 0

    async def counting(label: str, role: str, request: Request) -> Reply:
        nonlocal answered
        answered += 1
        return Reply("x")

    cases = [case(f"i{n}") for n in range(100)]
    evaluator = evaluator_of(loop, counting, *cases, window=4)
    time.sleep(0.2)
    assert answered <= 10 + 4
    for fetched, one in enumerate(reversed(cases) if is_reversed else cases, 1):
        assert evaluator.outcome(one, timeout=60).case is one
        assert is_reversed or answered <= fetched + 10 + 4
    assert answered == 100
    loop.call(evaluator.close(), 60)


def test_failed_call_is_an_error_and_not_a_wrong_answer(loop: LoopThread) -> None:
    """A backend's error is the case's error and appears among its calls."""

    async def failing(label: str, role: str, request: Request) -> Reply:
        raise BackendError("status\n500")

    [outcome] = outcomes(loop, failing, case("a"))
    assert outcome.error is not None
    assert outcome.verdict is None
    assert outcome.fault is None
    assert (outcome.record().status, outcome.record().reason) == ("error", "status 500")
    assert [(c.reply, c.error) for c in outcome.calls] == [(None, "status\n500")]


def test_a_reply_above_the_limit_is_cut_and_the_record_says_so(loop: LoopThread) -> None:
    """A benchmark reads the first million characters of a reply, as cut off; the reason says so."""
    read: list[Reply] = []

    class Reads(Capitals):
        async def evaluate(self, item: Item, context: Any, ask: Any, protocol: Protocol[Any]) -> Verdict:
            read.append(await ask(Chat.user(item.id)))
            return Verdict.check(False, expected="a", given="b", reason="names b")

    async def huge(label: str, role: str, request: Request) -> Reply:
        return Reply("x" * 1_234_567)

    (outcome,) = outcomes(loop, huge, replace(case("long"), benchmark=Reads()))
    assert (len(read[0].text), read[0].finish_reason) == (1_000_000, "length")
    assert (
        "names b; only the first 1,000,000 of a reply's 1,234,567 characters were read"
        in outcome.record().reason
    )


def test_a_stopped_run_leaves_cases_open(loop: LoopThread) -> None:
    """A case interrupted by a stop has neither verdict nor error, and no pending verdict."""

    async def stopping(label: str, role: str, request: Request) -> Reply:
        raise RunStopped("over")

    evaluator = evaluator_of(loop, stopping, case("a"), case("b"))
    outcome = evaluator.outcome(case("a"), timeout=60)
    assert (outcome.stopped, outcome.verdict, outcome.error) == ("over", None, None)
    assert evaluator.has_verdicts() is False
    loop.call(evaluator.close(), 60)


def test_an_outcome_is_fetched_once_and_then_measured_again(loop: LoopThread) -> None:
    """A case submitted twice is measured once; after its outcome is fetched, a rerun measures it again."""
    asked: list[str] = []

    async def counting(label: str, role: str, request: Request) -> Reply:
        asked.append(label)
        return Reply("x")

    evaluator = evaluator_of(loop, counting, case("a"))
    evaluator.submit([case("a")])
    evaluator.outcome(case("a"), timeout=60)
    assert len(asked) == 1
    evaluator.submit([case("a")])
    evaluator.outcome(case("a"), timeout=60)
    assert len(asked) == 2
    loop.call(evaluator.close(), 60)


def test_waiting_has_a_timeout(loop: LoopThread) -> None:
    """An outcome that is late raises TimeoutError, and can still be waited for."""
    go_on = threading.Event()

    async def slow(label: str, role: str, request: Request) -> Reply:
        await asyncio.to_thread(go_on.wait, 60)
        return Reply("A")

    evaluator = evaluator_of(loop, slow, case("a"))
    with pytest.raises(TimeoutError):
        evaluator.outcome(case("a"), timeout=0.02)
    assert evaluator.has_verdicts() is False
    go_on.set()
    assert evaluator.outcome(case("a"), timeout=60).verdict
    loop.call(evaluator.close(), 60)


def test_closing_leaves_no_one_waiting(loop: LoopThread) -> None:
    """If evaluation ends early, active and queued cases are left open, and no caller waits for ever."""

    async def never(label: str, role: str, request: Request) -> Reply:
        await asyncio.sleep(60)
        return Reply("x")

    evaluator = evaluator_of(loop, never, case("a"), case("b"))
    loop.call(asyncio.sleep(0.01))
    loop.call(evaluator.close(), 60)
    assert evaluator.outcome(case("a"), timeout=60).stopped
    assert evaluator.outcome(case("b"), timeout=60).stopped


def test_helpers_do_not_get_the_parameters_of_the_subject(loop: LoopThread) -> None:
    """--llm-param overrides requests to the model under test, not those to helpers."""
    seen: list[tuple[str, str, float | None]] = []

    async def noting(label: str, role: str, request: Request) -> Reply:
        assert isinstance(request, Chat)
        seen.append((label, role, request.temperature))
        return Reply("x")

    outcomes(loop, noting, case("read", params={"temperature": 0.0}, helpers={"reader": "helper:reader"}))
    assert seen == [("m", "subject", 0.0), ("helper:reader", "reader", None)]


def test_params_override_those_of_a_chat() -> None:
    """Known parameters replace the benchmark's, others go to the server in a fixed order; a segmentation has none."""
    asked = Chat.user("q", temperature=0.7, max_tokens=5, extra=(("top_p", 0.5),))
    changed = with_params(asked, {"temperature": 0.0, "seed": 1, "top_p": 0.9, "stop": "END"})
    assert isinstance(changed, Chat)
    assert (changed.temperature, changed.max_tokens, changed.stop) == (0.0, 5, ("END",))
    assert changed.extra == (("seed", 1), ("top_p", 0.9))
    assert changed.messages == asked.messages
    assert with_params(asked, {}) is asked
    assert with_params(Segment("q"), {"temperature": 0.0}) == Segment("q")


class Odd(Benchmark):
    """Does at each item what the context says."""

    name = "odd"

    async def evaluate(self, item: Item, context: Any, ask: Any, protocol: Protocol[Any]) -> Verdict:
        verdict: Verdict = await context(item, ask)
        return verdict


def odd(identifier: str, what: Callable[[Item, Any], Awaitable[Any]]) -> Case:
    """Return a case whose evaluation is ``what``."""
    return Case(Odd(), Item(identifier, "t", "en"), what, Protocol("quick", NoSettings()), "m")


class Own(BaseException):
    """An exception that is not an Exception."""


@pytest.mark.parametrize(
    "exception", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), Own(1)]
)
def test_no_exception_keeps_the_others_waiting(loop: LoopThread, exception: BaseException) -> None:
    """Whatever evaluate raises, itself or in a task of its own, is the fault of its case; so is a cancelled task."""

    async def raising(item: Item, ask: Any) -> Verdict:
        raise exception

    async def in_task(item: Item, ask: Any) -> Verdict:
        await asyncio.gather(asyncio.create_task(raising(item, ask)))
        raise AssertionError("not reached")

    async def cancelling(item: Item, ask: Any) -> Verdict:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        raise AssertionError("not reached")

    faults = (odd("a", raising), odd("b", in_task), odd("d", cancelling))
    *results, last = outcomes(loop, capitals, *faults, case("c"), window=1)
    assert last.verdict is not None
    for outcome in results:
        assert outcome.verdict is None
        assert isinstance(outcome.fault, ContractError)
    for outcome in results[:2]:
        assert f"evaluate of Odd raised {type(exception).__name__}" in str(outcome.fault)


def test_equal_faults_in_a_row_stop_the_evaluation(loop: LoopThread) -> None:
    """After 20 exceptions in a row at one place, the other cases are not evaluated."""

    async def failing(item: Item, ask: Any) -> Verdict:
        if item.id == "i10":
            return Verdict("correct")
        raise KeyError(f"{item.id}\n")

    cases = [odd(f"i{n}", failing) for n in range(60)]
    broker = Broker()
    evaluator = Evaluator(loop.loop, broker, capitals, window=1, keeps_calls=True)
    evaluator.submit(cases)
    results = [evaluator.outcome(c, timeout=60) for c in cases]
    loop.call(evaluator.close(), 60)
    assert [o.fault is not None for o in results] == [True] * 10 + [False] + [True] * 20 + [False] * 29
    assert all(o.stopped for o in results[31:])
    [reason] = broker.stops
    assert (
        "20 items of odd in a row failed in the same way: KeyError: 'i30\\n' (test_engine_evaluator.py, line"
        in reason
    )
    record = results[0].record()
    assert (record.status, record.score, results[0].error) == ("error", None, None)
    assert "\n" not in record.reason


def test_different_faults_do_not_stop_the_evaluation(loop: LoopThread) -> None:
    """Faults at two places in turn are errors of their items only."""

    async def failing(item: Item, ask: Any) -> Verdict:
        if int(item.id[1:]) % 2:
            raise KeyError(item.id)
        raise KeyError(item.id)

    results = outcomes(loop, capitals, *(odd(f"i{n}", failing) for n in range(60)), window=1)
    assert all(o.fault is not None for o in results)


def test_a_missing_helper_stops_the_evaluation(loop: LoopThread) -> None:
    """A helper that every item asks for in vain stops the run after 20 items."""

    async def asking(item: Item, ask: Any) -> Verdict:
        await ask(Chat.user("q"), role="reader")
        raise AssertionError("not reached")

    results = outcomes(loop, capitals, *(odd(f"i{n}", asking) for n in range(30)), window=1)
    assert [o.error is not None for o in results] == [True] * 20 + [False] * 10
    assert "odd" in str(results[0].error)
    assert "--llm-helper reader=SPEC" in str(results[-1].stopped)


def test_a_call_after_the_verdict_is_refused(loop: LoopThread) -> None:
    """A task that goes on after its case has a verdict cannot send requests, which no record would have."""
    later: list[asyncio.Task[Any]] = []

    async def leaving(item: Item, ask: Any) -> Verdict:
        async def late() -> None:
            await asyncio.sleep(0.01)
            await ask(Chat.user("q"))

        later.append(asyncio.create_task(late()))
        return Verdict("correct")

    [outcome] = outcomes(loop, capitals, odd("a", leaving))
    assert outcome.verdict

    async def fault() -> BaseException | None:
        await asyncio.wait(later)
        return later[0].exception()

    assert "Odd called ask after its verdict" in str(loop.call(fault(), 5))


def outcome_of(*results: Status | Exception | str, given: str = "") -> GroupOutcome:
    """Return a group with one item per status, error or fault; other texts are reasons to stop."""
    outcomes = []
    for number, what in enumerate(results):
        case = Case(Capitals(), Item(f"some/{number}", "t", "zh"), None, Protocol("quick", NoSettings()), "m")
        more: dict[str, Any]
        if isinstance(what, BackendError):
            more = {"error": what}
        elif isinstance(what, Exception):
            more = {"fault": what}
        elif what in ("correct", "wrong", "refused", "unparsed"):
            score = float(what == "correct")
            more = {"verdict": Verdict(what, "x", given, f"reason {number}", score)}  # type: ignore[arg-type]
        else:
            more = {"stopped": what}
        outcomes.append(Outcome(case, **more))
    return group_outcome(CaseGroup("g", tuple(o.case for o in outcomes)), outcomes)


def test_a_group_without_failures() -> None:
    """A group passes if every item is correct; errors make it an error with the first message; a fault comes first."""
    outcome = outcome_of("correct", "correct")
    assert outcome.verdict
    assert (outcome.status, outcome.verdict.score, outcome.failures) == ("correct", 1.0, [])
    outcome = outcome_of("correct", BackendError("lost"), BackendError("again"))
    assert outcome.error is not None
    assert (outcome.verdict, outcome.status, outcome.error.message) == (None, "error", "2 of 3 items: lost")
    fault = KeyError("x")
    outcome = outcome_of("wrong", fault)
    assert (outcome.fault, outcome.verdict) == (fault, None)


def test_failures_are_counted_and_the_first_named() -> None:
    """The worst status represents the group; the line counts each kind and names three failures."""
    outcome = outcome_of("refused", "wrong", "correct", "unparsed", "wrong", BackendError("lost"))
    assert outcome.verdict is not None
    assert not outcome.verdict
    assert outcome.status == "wrong"
    assert outcome.verdict.reason == (
        "2 of 6 items wrong, 1 refused, 1 unparsed, 1 errors:"
        " some/0 (reason 0); some/1 (reason 1); some/3 (reason 3); and 1 more"
    )
    assert outcome.verdict.score == 1 / 5
    many = outcome_of(*["wrong"] * (LISTED + 5))
    assert (len(many.failures), many.counts["wrong"]) == (LISTED, LISTED + 5)


def test_stopped_group_keeps_its_judged_items() -> None:
    """In a group interrupted by a stop, judged items are recorded and there is no verdict."""
    outcome = outcome_of("correct", "out of money", "wrong")
    assert (outcome.stopped, outcome.verdict) == ("out of money", None)
    assert [json.loads(line)["id"] for line in outcome.lines.split("\n") if line] == ["some/0", "some/2"]
    # Each item is one line for any separators in its texts, and lone surrogates are preserved.
    outcome = outcome_of("wrong", "correct", given="a\u2028b\n\x85c")
    assert [json.loads(line) for line in outcome.lines.rstrip("\n").split("\n")] == [
        plain(record) for record in outcome.records
    ]
    assert outcome_of("wrong", given="\ud800").lines.encode()
