"""The cost that a run prints, records and limits is that of every reply that its servers bill."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from fixtures.apis import KEY, THOUGHT, Answer, Bill, Call, completion, serving
from pytest_llmprops.runs.replies import read_requests
from tests.support.commands import until
from tests.support.runs import Finished, Runner

#: USD per million tokens of input, output, cached input, and input written into the cache
PRICES = (100.0, 1000.0, 10.0, 125.0)
#: a sum has about 2 tokens, and its reply one
ENV = {"OPENAI_API_KEY": KEY}


@dataclass
class Server:
    """A server and its bill."""

    url: str
    bill: Bill

    @property
    def usd(self) -> float:
        """What it bills in all."""
        return self.bill.usd(*PRICES)

    def model(self, name: str = "m") -> tuple[str, ...]:
        """Return the options that measure a model that it serves."""
        return "--model", f"openai:{name}?base_url={self.url}/v1"


@contextmanager
def billing(respond: Callable[[Call], Answer]) -> Iterator[Server]:
    """Serve an API that bills."""
    bill = Bill()
    with serving(respond, bill) as url:
        yield Server(url, bill)


def thinks(call: Call) -> Answer:
    """Answer after a thought of ``THOUGHT`` tokens, which the limit may cut."""
    return completion(call, thinks=True)


@pytest.fixture
def project(run: Runner) -> Runner:
    """Return a project with 12 sums and the prices of ``m``."""
    run.sums()
    run.write("prices.json", json.dumps({"usd_per_million_tokens": {"m": PRICES}}))
    run.write("pytest.ini", "[pytest]\nllm_prices = prices.json\n")
    return run


def cost(done: Finished) -> str:
    """Return the tokens and the cost in the summary of a run."""
    [line] = [line for line in done.output.splitlines() if line.startswith("calls: ")]
    return re.split(r"(?:retry|retries), ", line)[1].partition(" (prices: ")[0]


def usd(done: Finished) -> float:
    """Return the cost in the summary, which must be one that is known."""
    match = re.search(r"tokens(?: \([\d,]+ cached\))?, ([\d.]+) USD$", cost(done))
    assert match, cost(done)
    return float(match[1])


def test_replies_cut_while_thinking_count(project: Runner, workers: str) -> None:
    """They are billed and not used, like answers that their provider failed to finish.

    The printed cost, the record and the log of requests have them, and those of a helper, which has its own price.
    """
    asked = "reply = await ask(Chat.user("
    judged = 'await ask(Chat.user(f"Judge {item[\'n\']}", max_tokens=8), role="reader")'
    project.change("test_sums.py", asked, f"{judged}\n        {asked}")

    def respond(call: Call) -> Answer:
        fails = call.prompt == "5 + 1 =" and call.attempt == 1
        return completion(call, finish="error") if fails else thinks(call)

    with billing(respond) as server, billing(thinks) as helper:
        reader = ("--llm-helper", f"reader=openai:h?base_url={helper.url}/v1&price_in=50&price_out=2000")
        done = project(*server.model(), *reader, "--llm-yes", "-n", workers, env=ENV)
    judging, calls = helper.bill.usd(50, 2000, 50, 50), server.bill.calls + helper.bill.calls
    assert judging > server.usd > 0
    assert server.bill.calls > len(done.verdicts) == 12
    assert usd(done) == pytest.approx(server.usd + judging, rel=0.01)
    assert done.run["calls"]["cost_usd"] == pytest.approx(server.usd + judging)
    assert done.run["calls"]["completion_tokens"] == server.bill.output + helper.bill.output
    lines = [json.loads(line) for line in (done.folder / "requests.jsonl").read_text().splitlines()]
    assert sum(line["cost_usd"] for line in lines) == pytest.approx(server.usd + judging)
    assert {line["model"] for line in lines} == {"m", "helper:reader"}
    assert sum("discarded" in line for line in lines) == calls - 24
    assert len(read_requests(done.folder)) == 24


def test_a_burst_of_calls_stays_below_a_cost_limit(project: Runner) -> None:
    """Before the first replies tell what one costs, and near the limit, few calls are in flight."""
    project.sums(200)

    def late(call: Call) -> Answer:
        """Think only after the first call, so that the plan does not know it."""
        time.sleep(0.05)
        return completion(call, thinks=call.prompt != "0 + 1 =")

    with billing(late) as server:
        done = project(*server.model(), "--llm-max-cost", "2", "-n", "2", env=ENV)
    assert "--llm-max-cost 2 is spent" in done.output, done.output
    # A reply costs 0.2 USD, and 64 at once would cost 13 USD.
    assert 2 <= server.usd < 3
    assert usd(done) == pytest.approx(server.usd, rel=0.01)


def without_usage(call: Call) -> Answer:
    """Answer as a server that reports no tokens."""
    status, headers, body = completion(call)
    return status, headers, {name: value for name, value in body.items() if name != "usage"}


def test_cost_is_unknown_without_usage(project: Runner) -> None:
    """A server that reports no tokens has no known cost: the estimate is marked, and a limit works on it.

    An estimate of tokens that cost nothing is no estimate of the cost.
    """
    with billing(without_usage) as server:
        done = project(*server.model(), env=ENV)
        model = f"openai:m?base_url={server.url}/v1&price_in=0&price_out=0"
        free = project("--model", model, "--llm-cache", "off", env=ENV)
        project.sums(60)
        project.change("test_sums.py", "max_tokens=8", "max_tokens=None")
        limits = ("--llm-max-cost", "0.06", "--llm-yes", "--llm-concurrency", "1")
        limited = project(*server.model(), *limits, env=ENV)
    assert "tokens, 0.00 USD" in cost(free)
    calls = done.run["calls"]
    assert 24 <= calls["prompt_tokens"] <= 36
    estimate = calls["prompt_tokens"] * PRICES[0] / 1e6 + calls["completion_tokens"] * PRICES[1] / 1e6
    assert calls["estimated_usd"] == pytest.approx(estimate)
    assert (calls["cost_usd"], calls["estimated"]) == (None, 12)
    assert re.match(
        r"≈2\d\+12 tokens, cost unknown, ≈0\.01\d\d USD \(12 replies without usage\)", cost(done)
    ), cost(done)
    assert "--llm-max-cost 0.06 is spent: ≈0.06" in limited.output, limited.output
    assert 30 < len(limited.requests) < 60


def test_cached_tokens_and_service_tiers_have_their_price(project: Runner) -> None:
    """Cached tokens cost a tenth here; summary and record have their number. Without a price, the full one is a bound.

    A tier has prices of its own, so that the cost is a bound: flex costs less, and priority more.
    """
    usage = {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 900}}
    tier: dict[str, str] = {}

    def respond(call: Call) -> Answer:
        status, headers, body = completion(call, usage=usage)
        return status, headers, body | tier

    with billing(respond) as server:
        done = project(*server.model(), env=ENV)
        billed = server.usd
        unpriced = f"openai:m?base_url={server.url}/v1&price_in=100&price_out=1000"
        bound = project("--model", unpriced, "--llm-cache", "off", env=ENV)
        for name, limit in (("flex", "at most"), ("priority", "at least")):
            tier["service_tier"] = name
            other = project(*server.model(), "--llm-cache", "off", env=ENV)
            assert re.search(rf"{limit} 0\.\d+ USD \(service tier {name}\)", other.output), other.output
            assert other.run["models"]["m"]["service_tiers"] == [name]
    bill = r"tokens \(10,800 cached\), at most 1\.21 USD \(no price of cached tokens\)"
    assert re.search(bill, bound.output)
    assert usd(done) == pytest.approx(billed, rel=0.01)
    assert "(10,800 cached)" in cost(done)
    assert done.run["calls"]["cached_tokens"] == 10_800
    assert done.run["models"]["m"]["price"] == {
        "input": 100.0, "output": 1000.0, "source": "prices.json, no date", "cached": 10.0, "written": 125.0,
    }  # fmt: skip
    assert done.requests[0]["usage"]["cached_tokens"] == 900


def test_a_killed_run_keeps_its_cost(project: Runner) -> None:
    """A run that was killed twice has the cost of all three sessions, but for calls in flight."""
    project.sums(150)
    kept = []

    def slow(call: Call) -> Answer:
        time.sleep(0.005)
        return thinks(call)

    with billing(slow) as server:
        options = (*server.model(), "--llm-concurrency", "1", "--llm-yes", "-n", "2")
        started = project.start(*options, env=ENV)
        folder = started.folder
        resume = (*options, "--llm-resume", "--llm-run", str(folder))
        for calls in (60, 120):
            until(lambda calls=calls: server.bill.calls >= calls)  # type: ignore[misc]
            started.check()
            started.send(signal.SIGKILL, to_all=True)
            started.end()
            kept.append(server.bill.calls)
            if calls == 60:
                started = project.start(*resume, env=ENV)
        done = project(*resume, env=ENV)
    record = Finished(done.code, done.output, folder)
    assert record.run["complete"], done.output
    assert kept[0] < kept[1] < server.bill.calls
    assert usd(done) == pytest.approx(server.usd, rel=0.03)
    assert record.run["calls"]["cost_usd"] == pytest.approx(server.usd, rel=0.03)
    assert record.run["calls"]["counted_bytes"] == 0


def test_a_run_killed_during_its_first_call_is_run_again(project: Runner) -> None:
    """The cost of a first call that was cut is not on disk before the run has a record, so the same command runs."""
    is_held, is_over = threading.Event(), threading.Event()

    def holds(call: Call) -> Answer:
        if call.number == 2:
            is_held.set()
            is_over.wait(30)
        return thinks(call)

    folder = project.folder / "record"
    with billing(holds) as server:
        command = (*server.model(), "--llm-run", str(folder))
        started = project.start(*command, env=ENV)
        assert is_held.wait(30)
        started.send(signal.SIGKILL)
        started.end()
        is_over.set()
        assert (folder / "requests.jsonl").read_bytes() == b""
        done = project(*command, env=ENV)
    assert (usd(done) > 0, "12 items" in done.output) == (True, True), done.output


def test_a_plan_has_the_thoughts_of_the_first_call(project: Runner) -> None:
    """The first call knows how long the model thinks; plan, limits and confirmation include it for all calls."""
    without = 12 * (2 * PRICES[0] + 8 * PRICES[1]) / 1e6
    thoughts = 12 * THOUGHT * PRICES[1] / 1e6
    with billing(thinks) as server:
        done = project(*server.model(), "-n", "2", env=ENV)
        plans = [line for line in done.output.splitlines() if line.startswith("llmprops: plan:")]
        stated = [float(re.findall(r"about ([\d.]+) USD", plan)[0]) for plan in plans]
        assert stated == [pytest.approx(without, abs=0.01), pytest.approx(without + thoughts, abs=0.02)]
        assert plans[1].endswith(f"with the thoughts of m (about {THOUGHT} tokens before each reply)")
        off = ("--llm-cache", "off")
        calls = server.bill.calls
        refused = project(*server.model(), *off, "--llm-max-cost", "1", env=ENV)
        assert "refused to start: the plan costs about 2.49" in refused.output, refused.output
        asked = project(*server.model(), *off, "-o", "llm_confirm=1 USD", env=ENV)
        assert (asked.code, "about 2.5" in asked.output) == (4, True), asked.output
        assert not refused.folder.exists()
        # One call, which was cut first.
        assert server.bill.calls <= calls + 4
