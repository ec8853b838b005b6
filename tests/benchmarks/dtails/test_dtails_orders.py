"""Orders of variations are balanced, so an order-invariant model is rarely named order-dependent."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
from pytest_llmprops.benchmarks.dtails.items import LANGUAGES, SELECT, Slot, languages, slots
from pytest_llmprops.benchmarks.dtails.positions import Positions, order_dependent
from pytest_llmprops.benchmarks.dtails.prompts import shown_order
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.dtails_cases import measured, prompt_of, shown

Chooser = Callable[[Item, random.Random], int]


def select_items(files: DataFolder, language: str) -> list[Item]:
    if language not in languages(files):
        pytest.skip(f"needs the file of {language}")
    return [item for item in Dtails().load(files).items if (item.task, item.language) == (SELECT, language)]


def label_of(item: Item) -> int:
    index: int = item["variations"].index(item["label"])
    return index


def perfect(item: Item, rng: random.Random) -> int:
    """Choose the right variation."""
    return label_of(item)


def first_listed(item: Item, rng: random.Random) -> int:
    """Choose the variation that the file lists first."""
    return 0


def mostly_right(item: Item, rng: random.Random) -> int:
    """Choose the right variation four times in five, and otherwise any."""
    return label_of(item) if rng.random() < 0.8 else rng.randrange(len(item["variations"]))


def most_frequent(items: Sequence[Item]) -> Chooser:
    """Choose the most frequent variation of the concept."""
    counts = Counter((item.cluster, item["label"]) for item in items)
    return lambda item, rng: max(
        range(len(item["variations"])), key=lambda index: counts[item.cluster, item["variations"][index]]
    )


def is_named(items: Sequence[Item], chooser: Chooser, seed: int, runs: int) -> bool:
    """Return True if a model that always chooses the same variation of an item is named order-dependent."""
    rng = random.Random(seed)
    by_id = slots(items)
    counts: dict[int, Counter[int]] = {}
    for item in items:
        size, choice = len(item["variations"]), chooser(item, rng)
        for run in range(runs):
            order = shown_order(size, seed, item.base_id, run, by_id[item.base_id])
            counts.setdefault(size, Counter())[order.index(choice)] += 1
    tallies = {
        size: Positions(tuple(count[place] for place in range(size))) for size, count in counts.items()
    }
    return bool(order_dependent(tallies))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("runs", [1, 3])
def test_false_alarms_on_published_languages(published: Path, language: str, runs: int) -> None:
    """Over 100 seeds, a perfect model is never named, and others in 5% within three standard deviations (11)."""
    items = select_items(DataFolder(published, "published"), language)
    alarms = {
        name: sum(is_named(items, chooser, seed, runs) for seed in range(100))
        for name, chooser in {
            "perfect": perfect,
            "first listed": first_listed,
            "most frequent": most_frequent(items),
            "mostly right": mostly_right,
        }.items()
    }
    print(f"{language}, {runs} run(s): alarms in 100 seeds: {alarms}")
    assert alarms["perfect"] == 0
    assert max(alarms.values()) <= 11


@pytest.mark.simulation
def test_false_alarms_on_builtin_items() -> None:
    """A perfect model is not named on any built-in language and 20 seeds."""
    files = DataFolder(builtin_data(), "builtin")
    for language in LANGUAGES:
        items = select_items(files, language)
        assert not any(is_named(items, perfect, seed, 3) for seed in range(20)), language


def test_a_run_on_part_of_the_items() -> None:
    """A random half of the items is named in at most 5% of 100 seeds, although blocks are torn."""
    half = [
        Item(f"dtails/hi/x/{n:03d}", SELECT, "hi", "builtin", f"dtails/hi/x{n // 10}", fields)
        for n in range(200)
        for fields in [{"variations": (("a",), ("b",)), "label": (("a",), ("b",))[n % 3 == 0]}]
    ]
    named = 0
    for seed in range(100):
        kept = random.Random(seed).sample(half, 100)
        named += is_named(kept, perfect, seed, 1)
    assert named <= 5


def test_no_item_keeps_one_order() -> None:
    """Three runs of two variations never have one order, and three runs of three show each variation everywhere."""
    for slot in (None, Slot("af/2", 5, 1)):
        for number in range(200):
            orders = [shown_order(2, 0, f"item {number}", run, slot) for run in range(3)]
            assert len(set(orders)) == 2
            three = [shown_order(3, 0, f"item {number}", run) for run in range(3)]
            assert all({order[place] for order in three} == {0, 1, 2} for place in range(3))


def test_each_block_has_each_position_once() -> None:
    """In each run, each block of three items has its right variation at each position once, for any labels."""
    for run in range(4):
        for block in range(20):
            places = [
                shown_order(3, 1, f"item {block} {n}", run, Slot("af/3", 3 * block + n, n)).index(n)
                for n in range(3)
            ]
            assert sorted(places) == [0, 1, 2]
    starts = [shown_order(2, seed, "x", 0, Slot("af/2", 0, 0)).index(0) for seed in range(400)]
    assert 150 < sum(starts) < 250, "the seed decides"


def test_the_benchmark_uses_the_balanced_orders() -> None:
    """The prompts of an item show the variations in the orders of its slot, for every item of the file."""
    part = loaded(Dtails(), DataFolder(builtin_data(), "builtin"))
    items = [item for item in part.items if item.id.startswith("dtails/af/") and item.task == SELECT]
    by_id = slots(item for item in part.items if item.task == SELECT)
    for item in items[:12]:
        _, requests = measured(item, lambda r: "```x```", case_context=part.context, runs=3, seed=7)
        names = ["/".join(forms) for forms in item["variations"]]
        for run, request in enumerate(requests):
            order = shown_order(len(names), 7, item.id, run, by_id[item.id])
            assert shown(prompt_of(request)) == [names[index] for index in order]
