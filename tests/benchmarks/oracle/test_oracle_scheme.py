"""The general scheme: an oracle's requests, filled templates and custom checkers."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Checker, Oracle, fill
from pytest_llmprops.core.requests import Chat, Message, Reply


def test_oracle_asks_with_its_settings() -> None:
    """A text is sent as one user turn and a conversation unchanged, with settings, sample and the request's
    limit.
    """
    chats: list[Chat] = []

    async def ask(chat: Chat) -> Reply:
        chats.append(chat)
        return Reply("yes")

    async def run() -> None:
        oracle = Oracle(ask, temperature=0.5, max_tokens=20)
        assert (await oracle("Is it?", sample=3)).text == "yes"
        await oracle([Message("system", "Be short."), Message("user", "Is it?")], max_tokens=7)
        assert oracle.asked == 2

    asyncio.run(run())
    assert chats[0] == Chat((Message("user", "Is it?"),), temperature=0.5, max_tokens=20, sample=3)
    assert [m.role for m in chats[1].messages] == ["system", "user"]
    assert chats[1].max_tokens == 7


class Sorting:
    """Accept a sorted list if the oracle sorts every shuffle of it the same way."""

    name = "sorting"

    def __init__(self, tests: int) -> None:
        self.tests = tests

    async def check(self, x: list[int], oracle: Oracle, rng: random.Random) -> Acceptance:
        answer = (await oracle(f"Sort {x}")).text
        for _ in range(self.tests):
            shuffled = rng.sample(x, len(x))
            if (await oracle(f"Sort {shuffled}")).text != answer:
                return Acceptance(False, "rejected", f"another answer on {shuffled}")
        return Acceptance(True, "accepted", "always the same", bound=Bound("no bound"))


def test_custom_checker() -> None:
    """A class with a name and a check is a checker, and its decision has a truth value."""
    checker: Checker[list[int]] = Sorting(5)

    async def sorts(chat: Chat) -> Reply:
        return Reply(str(sorted(chat.prompt)))

    async def echoes(chat: Chat) -> Reply:
        return Reply(chat.prompt)

    good = asyncio.run(checker.check([3, 1, 2, 9], Oracle(sorts), random.Random(0)))
    bad = asyncio.run(checker.check([3, 1, 2, 9], Oracle(echoes), random.Random(0)))
    assert good
    assert not bad
    assert bad.why.startswith("another answer on [")
    assert bad.bound is None


def test_templates_are_filled_once() -> None:
    """Every occurrence of a field is replaced; other braces and braces in values are unchanged."""
    assert fill('{a} and {b}, {a}; {c} {"k": 1} {', a="{b}", b="x") == '{b} and x, {b}; {c} {"k": 1} {'
    assert fill("never {a", a=1) == "never {a"
    assert fill("type {entity-type}", entity_type="city") == "type city"


@given(st.text(), st.text())
def test_any_text_fills(value: str, template: str) -> None:
    """Filling never fails, and a template without the field is unchanged."""
    assert fill(f"<{{text}}>{value.replace('{', '')}", text=value) == f"<{value}>{value.replace('{', '')}"
    assert "{text}" in template or fill(template, text=value) == template
