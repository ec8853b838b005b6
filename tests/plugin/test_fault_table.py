"""A reduced form of ``python -m bench.faults``: every fault of a server in one process, and one row of other kinds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench import faults
from bench.server_faults import good_answer, server_faults
from pytest_llmprops import Ask
from pytest_llmprops.core.benchmark import Benchmark, NoSettings
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.calls import limiter
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.evaluation.evaluator import Case, Outcome, evaluate
from pytest_llmprops.models.registry import parse_spec
from tests.support.engine_models import config_of
from tests.support.networks import clear_network
from tests.support.virtual_time import run_in_fast_time

#: without those that wait, for a timeout or for a time that a busy machine does not keep
FAULTS = [
    fault
    for fault in server_faults()
    if not {0.001, 0.002, 0.01, 3600.0} & set(fault.steps(good_answer("1")))
]
MODELS = 20
#: a good answer, one that is broken once, one that is always broken, and a good answer
PROMPTS = 4
#: the most attempts of a call that has one retry: one more if the server seemed to be away
ATTEMPTS = 3
#: without limits, for which a whole run waits; two samples have some of each kind
QUICK = [fault for fault in FAULTS if not fault.name.startswith(("status 429", "status 503", "status 529"))]
ROWS = [
    faults.server_row(QUICK[12::18], 0),
    faults.server_row(QUICK[5::18], 2),
    faults.kill_row("broker", 2, 0),
    faults.view_row(0),
    faults.disk_row("store", 128, 0),
    faults.clock_row(-86_400, 0),
]


class Sums(Benchmark):
    """Asks for the number after ``n``, as the suite of the table does; a user may annotate a benchmark in this way."""

    name = "sums"

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: Protocol) -> Verdict:
        reply = await ask(Chat.user(f"{item['n']} + 1 =", temperature=0.0, max_tokens=8))
        expected, given = str(item["n"] + 1), reply.text.strip()
        if not given:
            return Verdict("unparsed", expected, "", "the reply is empty")
        return Verdict.check(given == expected, expected=expected, given=reply.text)


async def measure(config: BrokerConfig, start: int) -> list[Outcome]:
    """Return the outcomes of a run, in which each model has a share of the faults.

    :param start: the first of the numbers that one call of each model asks for before all others.
    """
    broker, benchmark, protocol = LocalBroker(config), Sums(), Protocol("quick", NoSettings())

    async def outcome(n: int, model: int) -> Outcome:
        item = Item(f"sums/{n:04d}", "add", "en", fields={"n": n})
        return await evaluate(Case(benchmark, item, None, protocol, f"m{model}"), broker.ask)

    try:
        await asyncio.gather(*(outcome(start + model, model) for model in range(MODELS)))
        prompts = range(PROMPTS * len(FAULTS))
        return await asyncio.gather(*(outcome(n, n // PROMPTS % MODELS) for n in prompts))
    finally:
        await broker.close()


def test_every_fault_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict is that of an undisturbed run, or an error in one line that is not stored and ends no other call.

    A second run asks for the errors again, and for nothing else; what was broken once is right then.
    """
    clear_network(monkeypatch)
    # The limiter has tests of its own: twelve refusals of a call would take minutes of the loop.
    monkeypatch.setattr(limiter, "MOST_REFUSALS", 1)
    # A busy machine may stand still for 15 seconds, which are five minutes of the loop.
    monkeypatch.setattr(limiter, "PATIENCE", 6000.0)
    plan = {PROMPTS * n + place: (fault, place == 1) for n, fault in enumerate(FAULTS) for place in (1, 2)}
    right = faults.answers(PROMPTS * len(FAULTS))
    with faults.serving(plan, 0.0) as server:
        config = config_of(
            {f"m{n}": parse_spec(f"openai:stub-{n}") for n in range(MODELS)},
            base_url=server.url,
            timeout=500.0,
            retries=1,
            store=str(tmp_path / "store.sqlite"),
        )
        first = run_in_fast_time(measure(config, 10_000))
        asked = server.attempts.copy()
        second = run_in_fast_time(measure(config, 20_000))
    for n, (outcome, later) in enumerate(zip(first, second, strict=True)):
        fault, is_once = plan.get(n, (None, False))
        what = (n, fault and fault.name, is_once, outcome.stopped, later.stopped)
        again = server.attempts[n] - asked[n]
        assert max(asked[n], again) <= ATTEMPTS, what
        assert (again > 0) == (outcome.error is not None), what
        for one, may_fail in ((outcome, fault), (later, fault and not is_once)):
            if one.error is not None:
                assert may_fail, what
                assert one.error.message.isprintable(), what
            else:
                row = one.record()
                is_allowed = fault is not None and row.status in fault.allowed
                assert is_allowed or (row.status, row.given) == right[row.id], what


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_row_holds(row: faults.Row, tmp_path: Path) -> None:
    """The verdicts are those of an undisturbed run, and nothing is repeated, paid for twice or left behind."""
    trial = faults.run_row(row, tmp_path / "row", faults.Settings(limit=60), seed=1)
    if trial.skipped:
        pytest.skip(trial.skipped)
    assert not trial.problems
