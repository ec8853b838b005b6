"""Batches of workers, and the estimated cost of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark, NoSettings
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.requests import Chat, Price, Segment
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluation.evaluator import Case
from pytest_llmprops.engine.evaluation.planning import Planned, batch_of, cost, plan


def test_batches_are_contiguous_and_nearly_equal() -> None:
    """Batches are in order, and their sizes differ by at most one."""
    assert [batch_of(position, 11, 4) for position in range(11)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert [batch_of(position, 2, 4) for position in range(2)] == [0, 2]


class Asking(Benchmark):
    """Sends one request, a second if the first reply is empty, and then one to a helper."""

    name = "asking"

    async def evaluate(self, item: Item, context: Any, ask: Any, protocol: Protocol[Any]) -> Verdict:
        first = Chat.user(item.id.rjust(400), max_tokens=5)
        reply = await ask(first)
        if not reply.text:
            reply = await ask(first.then(reply.text, "again?"))
        await ask(Segment(item.id), role="segmenter")
        return Verdict("unparsed")


class Once(Asking):
    """Sends three samples of one request, and fails on the reply."""

    name = "once"

    async def evaluate(self, item: Item, context: Any, ask: Any, protocol: Protocol[Any]) -> Verdict:
        replies = await asyncio.gather(*(ask(Chat.user("y" * 40, sample=k)) for k in range(3)))
        raise ValueError(replies[0].text)


def case(benchmark: Benchmark, model: str, number: int = 0) -> Case:
    """Return one case with a helper."""
    protocol = Protocol("quick", NoSettings())
    item = Item(f"b/{number}", "t", "en")
    return Case(benchmark, item, None, protocol, model, helpers={"segmenter": "helper:segmenter"})


def test_a_plan_counts_what_would_be_asked() -> None:
    """A plan has items, calls, characters and tokens per benchmark and model; equal requests to one are one call.

    Each sample is a call; an API that returns all samples at once needs one per prompt.
    """
    asked: list[str] = []
    cases = [*(case(Asking(), "m", n) for n in range(3)), case(Asking(), "n")]
    cases += [*(case(Once(), "m", n) for n in range(5)), case(Once(), "n")]
    rows = plan(cases, lambda label, request: asked.append(label))
    assert [(r.benchmark, r.model, r.items, r.calls, r.prompts) for r in rows] == [
        ("asking", "m", 3, 9, 9),
        ("asking", "n", 1, 3, 3),
        ("once", "m", 5, 3, 1),
        ("once", "n", 1, 3, 1),
    ]
    assert plan([]) == []
    assert asked[9:12] == ["n", "n", "helper:segmenter"]
    assert rows[0].completion_tokens == 3 * 2 * 5
    assert rows[0].prompt_characters == 3 * (400 + len("x" * 400 + "\n\nagain?"))
    assert rows[2].prompt_tokens == 30


def test_cost_follows_the_models_prices() -> None:
    """Prompt and completion tokens are multiplied by their prices; an unknown price gives None, not 0."""
    row = Planned("b", "m", prompt_characters=4000, completion_tokens=50)
    assert cost(row, {"m": Price(1e3, 1e4, "")}) == pytest.approx(1.5)
    assert cost(row, {"m": Price(0.0, 0.0, "")}) == 0.0
    assert cost(row, {"other": Price(1.0, 1.0, "")}) is None
