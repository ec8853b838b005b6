"""The selection of the test set of appendix A.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.tools.mining.mined_concepts import (
    Selection,
    choose_concepts,
    choose_pairs,
    is_roughly_uniform,
)
from pytest_llmprops.core.errors import UsageError


@pytest.mark.parametrize(
    ("counts", "roughly"),
    [
        ([70, 30], True),  # exactly 0.20 from one half
        ([71, 29], False),
        ([53, 27, 20], True),  # 0.53 is 0.197 from a third
        ([54, 26, 20], False),
        ([40, 50, 10], False),  # 0.10 is 0.233 from a third
        ([0, 0], False),
    ],
)
def test_roughly_uniform(counts: list[int], roughly: bool) -> None:
    """A share may differ from 1/k by at most 0.20, inclusive."""
    assert is_roughly_uniform(counts, 0.20) is roughly


def test_up_to_twenty_concepts_are_all_kept() -> None:
    """A language with 20 concepts keeps the uneven ones, and with 21 they are dropped."""
    concepts = {f"c{n:02}": [60, 50] for n in range(19)} | {"uneven": [500, 50]}
    assert choose_concepts(concepts, Selection(), language="xx") == tuple(concepts)
    more = concepts | {"other": [60, 60]}
    assert set(choose_concepts(more, Selection(), language="xx")) == set(more) - {"uneven"}


def test_twenty_concepts_are_drawn() -> None:
    """Of more than 20 even concepts 20 are drawn, depending on the seed and not on the order of the table."""
    concepts = {f"c{n:02}": [60, 50] for n in range(60)}
    backwards = dict(reversed(concepts.items()))
    drawn = choose_concepts(concepts, Selection(seed=1), language="xx")
    assert len(drawn) == 20
    assert drawn == tuple(sorted(drawn))
    assert set(drawn) == set(choose_concepts(backwards, Selection(seed=1), language="xx"))
    assert set(drawn) != set(choose_concepts(concepts, Selection(seed=2), language="xx"))
    assert set(drawn) != set(choose_concepts(concepts, Selection(seed=1), language="yy"))


def test_every_concept_can_be_drawn() -> None:
    """Each concept is drawn about equally often: with 300 seeds about 100 times."""
    concepts = {f"c{n:02}": [60, 50] for n in range(30)}
    times = dict.fromkeys(concepts, 0)
    for seed in range(300):
        for name in choose_concepts(concepts, Selection(concepts=10, seed=seed), language="xx"):
            times[name] += 1
    assert all(60 <= n <= 140 for n in times.values())


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=60),
    st.integers(2, 12),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_every_variation_has_a_pair(labels: list[str], size: int, seed: int, random: object) -> None:
    """Per concept 10 pairs are chosen, or all if fewer, with every variation, whatever the input order."""
    pairs = list(enumerate(labels))
    chosen = choose_pairs(pairs, Selection(per_concept=size, seed=seed), key=("xx", "word"))
    assert len(chosen) == len(set(chosen)) == min(max(size, len(set(labels))), len(labels))
    assert {labels[number] for number in chosen} == set(labels)
    shuffled = pairs[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert chosen == choose_pairs(shuffled, Selection(per_concept=size, seed=seed), key=("xx", "word"))


def test_concepts_are_drawn_independently() -> None:
    """The pairs drawn depend on both the seed and the concept."""
    pairs = [(number, "ab"[number % 2]) for number in range(100)]
    draws = {
        choose_pairs(pairs, Selection(seed=seed), key=("xx", name))
        for seed in (0, 1)
        for name in ("one", "two")
    }
    assert len(draws) == 4


@pytest.mark.parametrize(
    "changes", [{"concepts": 0}, {"per_concept": 1}, {"uniform": -0.1}, {"uniform": 1.5}]
)
def test_invalid_selection_settings(changes: dict[str, float]) -> None:
    """Invalid numbers for the test set are refused."""
    with pytest.raises(UsageError):
        Selection(**changes)  # type: ignore[arg-type]
