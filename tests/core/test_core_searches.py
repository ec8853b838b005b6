"""Edits that keep a label: the search, its replications and limits, the drawn edit, and the metrics."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import pytest

from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.core.searches import (
    FIRST_REPLICATED,
    EditedBenchmark,
    Edits,
    EditSearch,
    EditSettings,
    Variant,
    drawn,
    edit_metrics,
    edit_remarks,
    exchange_sizes,
    exchanged,
)
from pytest_llmprops.core.verdicts import Verdict, record_of

Answer = Callable[[Chat], str]


class Words(Edits):
    """The number of the first and of the second word; (2, 1) does not fit. The label is always yes."""

    size = (3, 2)

    def variant(self, point: tuple[int, ...]) -> Variant | None:
        edits = tuple(f"word {place} is {number}" for place, number in enumerate(point) if number)
        return None if point == (2, 1) else Variant(point, edits, shown={"words": list(point)})

    async def judge(self, variant: Variant, ask: Ask) -> Verdict:
        reply = (await ask(Chat.user(str(variant.content), temperature=1.0, max_tokens=3))).text
        if reply == "unreadable":
            return Verdict("unparsed", "yes", reply, "unreadable")
        return Verdict.check(reply == "yes", expected="yes", given=reply, reason=f"says {reply}")


class Yes(EditedBenchmark):
    """One task with edits, and one without."""

    name = "yes"
    edited_tasks = frozenset({"words"})
    protocols = {"paper": NamedSettings(EditSettings()), "quick": NamedSettings(EditSettings())}

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: Protocol[EditSettings]) -> Verdict:
        verdict = await Words().judge(Words().original, ask)
        return await self.with_edit(verdict, item, context, ask, protocol)

    async def edits(self, item: Item, context: Any, ask: Ask, protocol: Protocol[EditSettings]) -> Edits:
        return Words()


class Model:
    """The ``ask`` of a benchmark; it keeps the requests."""

    kinds: frozenset[Kind] = frozenset({"chat"})
    roles: frozenset[str] = frozenset()

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[Chat] = []

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        assert isinstance(request, Chat)
        self.asked.append(request)
        return Reply(self._answer(request))


def point_of(chat: Chat) -> tuple[int, ...]:
    return tuple(int(part) for part in chat.messages[-1].content.strip("()").split(","))


def no_at(*points: tuple[int, ...]) -> Answer:
    return lambda chat: "no" if point_of(chat) in points else "yes"


def item(task: str = "words", number: int = 0) -> Item:
    return Item(f"yes/{task}/{number}", task, "en")


def protocol(**settings: Any) -> Protocol[EditSettings]:
    return Protocol("quick", EditSettings(**settings), 0, (), "", {})


def search(model: Model, **settings: Any) -> EditSearch | str:
    async def measured() -> Verdict:
        raise AssertionError("the search asks about the item itself")

    found = asyncio.run(Yes().search(item(), None, model, protocol(**settings), measured, ""))
    assert isinstance(found, EditSearch | str)
    return found


def holds(found: EditSearch | str, *points: tuple[int, ...]) -> list[bool | None]:
    assert isinstance(found, EditSearch)
    return [asyncio.run(found.holds(*point)) for point in points]


EVERY = list(product(range(3), range(2)))


def test_search_keeps_the_smallest_edit() -> None:
    """The counterexample is the wrong variant with the fewest edits, and each variant is asked about once."""
    model = Model(no_at((1, 1), (0, 1)))
    found = search(model)
    assert holds(found, *EVERY, *EVERY) == [True, False, True, False, True, True] * 2
    assert len(model.asked) == 5
    assert isinstance(found, EditSearch)
    counterexample = asyncio.run(found.counterexample())
    assert counterexample is not None
    assert counterexample.why == "word 1 is 1: says no"
    assert counterexample.values == {
        "edits": ["word 1 is 1"],
        "expected": "yes",
        "given": "no",
        "words": [0, 1],
    }
    assert (counterexample.replications, counterexample.replicated) == (5, 5)
    # Each replication asks about the item and the variant, with samples of its own.
    samples = [chat.sample for chat in model.asked[5:]]
    assert len(samples) == 10
    assert min(samples) >= FIRST_REPLICATED
    assert Counter(samples) == dict.fromkeys(samples, 2)


def test_perfect_and_constant_models_have_no_counterexample() -> None:
    """The property holds for a model that always says yes, whether it knows anything or not."""
    found = search(Model(lambda chat: "yes"))
    assert holds(found, *EVERY) == [True] * 6
    assert isinstance(found, EditSearch)
    assert asyncio.run(found.counterexample()) is None


@pytest.mark.parametrize("again", ["no to the item", "yes to the variant"])
def test_counterexample_must_be_repeated(again: str) -> None:
    """It counts only if the item is right and the variant wrong in more than 60% of new askings; then it holds."""

    def answer(chat: Chat) -> str:
        is_variant, is_new = point_of(chat) == (1, 0), chat.sample >= FIRST_REPLICATED
        if not is_new:
            return "no" if is_variant else "yes"
        return "no" if again == "no to the item" else "yes"

    found = search(Model(answer))
    assert holds(found, (1, 0)) == [False]
    assert isinstance(found, EditSearch)
    counterexample = asyncio.run(found.counterexample())
    assert counterexample is not None
    assert not counterexample.is_repeated
    assert counterexample.replicated == 0
    assert holds(found, (1, 0)) == [True]


def test_reply_that_cannot_be_read_is_no_violation() -> None:
    """An unreadable reply to a variant is no counterexample; only a wrong answer is."""
    found = search(Model(lambda chat: "unreadable" if any(point_of(chat)) else "yes"))
    assert holds(found, *EVERY) == [True] * 6


@pytest.mark.parametrize(("reply", "status"), [("no", "wrong"), ("unreadable", "unparsed")])
def test_only_right_items_are_searched(reply: str, status: str) -> None:
    """There is nothing to search where the item itself is not answered correctly."""
    assert search(Model(lambda chat: reply)) == f"its answer is {status}"


def test_search_stops_at_its_limit() -> None:
    """A search sends at most shrink_calls requests, and replications on top."""
    model = Model(no_at((2, 0)))
    found = search(model, shrink_calls=3, replications=2)
    assert holds(found, (0, 1), (1, 0), (2, 0), (0, 1)) == [True, True, None, True]
    assert len(model.asked) == 3
    assert Yes().search_calls(EditSettings(shrink_calls=3, replications=2), "") == 3 + 2 * 2


def test_settings_select_what_is_searched() -> None:
    """Nothing is searched by default, and only tasks with edits with search=correct."""
    on = EditSettings(search="correct")
    assert not Yes().searches(item(), EditSettings(), "")
    assert Yes().searches(item(), on, "")
    assert not Yes().searches(item("other"), on, "")
    assert Yes.presentation == {"edits", "search", "shrink_calls", "replications"}
    for wrong in ({"shrink_calls": 0}, {"replications": -1}, {"replications": 101}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            EditSettings(**wrong)  # type: ignore[arg-type]


# ---- the measurement


def test_drawn_edit_is_uniform() -> None:
    """Each of the four variants is drawn equally often; the item itself and points that do not fit are not."""
    rng, n = random.Random(1), 4000
    variants = [drawn(Words(), rng) for _ in range(n)]
    counts = Counter(variant.content for variant in variants if variant is not None)
    assert {*counts} == {(0, 1), (1, 0), (1, 1), (2, 0)}
    # Four standard deviations of a count: a wrong rule is off by at least 10% of n.
    assert all(abs(count - n / 4) < 4 * math.sqrt(n * 3 / 16) for count in counts.values())


def test_item_without_an_edit_has_no_values() -> None:
    """Nothing is drawn where no point changes the item."""

    class Empty(Words):
        size = (1, 1)

    assert drawn(Empty(), random.Random(0)) is None
    assert Empty().is_empty


def measured(model: Model, task: str = "words", **settings: Any) -> Verdict:
    return asyncio.run(Yes().evaluate(item(task), None, model, protocol(**settings)))


def test_edits_change_no_verdict() -> None:
    """With edits, one more question is asked, and only values and evidence are added."""
    model = Model(lambda chat: "no" if any(point_of(chat)) else "yes")
    plain, edited = measured(model), measured(model, edits=True)
    assert len(model.asked) == 3
    assert (plain.status, plain.score, plain.values, plain.evidence) == ("correct", 1.0, {}, {})
    assert (edited.status, edited.score, edited.given) == ("correct", 1.0, "yes")
    assert edited.values == {"edit_right": 0.0, "edit_read": 1.0}
    shown = edited.evidence["edited"]
    assert isinstance(shown, dict)
    assert (shown["status"], shown["given"]) == ("wrong", "no")
    assert measured(model, edits=True).evidence == edited.evidence
    assert measured(model, "other", edits=True).values == {}


def record(status: Literal["correct", "wrong", "unparsed"], edited: str, number: int) -> VerdictRecord:
    """Return the record of an item whose variant has the status ``edited``; "" for none."""
    values = {}
    if edited:
        values = {"edit_right": float(edited == "correct"), "edit_read": float(edited != "unparsed")}
    verdict = Verdict(status, "yes", "", "", values=values)
    return record_of(item(number=number), "yes", "m", verdict, requests=())


def test_metrics_by_hand() -> None:
    """Violations are counted among right items with a readable variant; edit_accuracy among all with a variant."""
    pairs: list[tuple[Literal["correct", "wrong", "unparsed"], str]] = [
        ("correct", "correct"), ("correct", "correct"), ("correct", "wrong"), ("correct", "unparsed"),
        ("wrong", "correct"), ("wrong", "wrong"), ("unparsed", "wrong"), ("correct", ""),
    ]  # fmt: skip
    rows = [record(*pair, number) for number, pair in enumerate(pairs)]
    metrics = {m.name: (m.value, m.n, m.direction) for m in edit_metrics(rows)}
    assert metrics == {"edit_violation_rate": (1 / 3, 3, "lower"), "edit_accuracy": (2 / 7, 7, "higher")}
    [remark] = edit_remarks(rows)
    assert "1 of 3 correct answers become wrong" in remark
    assert "28.6% of 7 items are right with and without it" in remark
    without = [record("correct", "", 0)]
    assert not [*edit_metrics(without), *edit_remarks(without)]


def test_constant_model_has_no_violations_and_its_own_accuracy() -> None:
    """A model that always says A, on items of which half are A, has rate 0 and an edit_accuracy of one half."""
    rows = [record("correct" if n % 2 else "wrong", "correct" if n % 2 else "wrong", n) for n in range(10)]
    assert {m.name: m.value for m in edit_metrics(rows)} == {"edit_violation_rate": 0.0, "edit_accuracy": 0.5}


def test_rate_without_right_items_is_undefined() -> None:
    """Nothing can be violated where nothing is right."""
    rate = next(edit_metrics([record("wrong", "wrong", 0)]))
    assert (rate.name, rate.value, rate.n) == ("edit_violation_rate", None, 0)


def test_every_order_has_one_point() -> None:
    """The points of three things are their six orders; zeros leave them, and each number is one exchange."""
    points = [*product(*(range(size) for size in exchange_sizes(3)))]
    orders = [tuple(exchanged("abc", point)[0]) for point in points]
    assert len(points) == len({*orders}) == 6
    assert exchanged("abc", (0, 0)) == (["a", "b", "c"], [])
    assert exchanged("abc", (2, 1)) == (["c", "a", "b"], [("a", "c"), ("b", "a")])
    assert exchange_sizes(1) == exchange_sizes(0) == ()
