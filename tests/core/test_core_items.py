"""Items and their selection by --llm-limit."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import Item, check_unique, limited, sized


def items(task: str, count: int, *, suffix: str = "", language: str = "en", cluster: str = "") -> list[Item]:
    return [
        Item(f"b/{language}/{number:04}{suffix}", task, language, cluster=cluster) for number in range(count)
    ]


def test_ids_are_short_ascii() -> None:
    """Letters, digits and / _ . + : - after a letter or digit, up to 120; another id is refused by name."""
    for identifier in ("a", "htest/rhyme/0017", "h/en/3+word_only", "A_b.c:d-e+f", "x" * 120):
        assert Item(identifier, "t", "en").id == identifier
    for identifier in ("", "/a", "+a", "a b", "a\n", "\u4e2d", "a[0]", "a::b?", "x" * 121):
        with pytest.raises(DataError, match=f"^[^\n]*{re.escape(repr(identifier))}[^\n]*$"):
            Item(identifier, "t", "en")


def test_an_item_is_its_own_cluster_by_default() -> None:
    """Without a cluster, an item forms a cluster with only its controls; a repeated id is refused."""
    item, control = Item("b/1", "t", "en"), Item("b/1+word_only", "u", "en")
    assert (item.cluster, control.cluster, item.base_id, control.base_id) == ("b/1",) * 4
    assert Item("b/1", "t", "en", cluster="c").cluster == "c"
    check_unique([item, control], "bench")
    with pytest.raises(DataError, match="bench: two items have the id 'b/1'"):
        check_unique([item, Item("b/2", "t", "en"), Item("b/1", "u", "zh")], "bench")


@given(st.integers(0, 60), st.integers(0, 5))
def test_limit_counts_per_task_and_language_in_file_order(limit: int, seed: int) -> None:
    """Each task and language gives the first ``limit`` items in file order, or all if it has fewer."""
    every = items("a", 40) + items("a", 10, language="zh") + items("b", 25, suffix="+c")
    chosen = [item.id for item in limited(every, limit, seed=seed)]
    for group, size in ((every[:40], 40), (every[40:50], 10), (every[50:], 25)):
        assert len({item.id for item in group} & set(chosen)) == min(limit, size)
    assert chosen == sorted(chosen, key=[item.id for item in every].index)
    assert limited(every, None, seed=seed) == every


@given(st.integers(1, 30), st.integers(0, 1000))
def test_controls_are_chosen_with_their_items(limit: int, seed: int) -> None:
    """A control set is a separate task and selects the same items as its main task for every seed."""
    every = items("asked", 30) + items("word_only", 30, suffix="+word_only")
    chosen = limited(every, limit, seed=seed)
    by_task = {t: [i.base_id for i in chosen if i.task == t] for t in ("asked", "word_only")}
    assert by_task["asked"] == by_task["word_only"]


@given(st.permutations(range(20)), st.integers(1, 20))
def test_selection_does_not_depend_on_order_or_other_groups(order: list[int], limit: int) -> None:
    """Shuffling the file or adding other groups does not change the selection."""
    every = items("a", 20)
    alone = limited(every, limit, seed=3)
    shuffled = limited([every[i] for i in order], limit, seed=3)
    assert {i.id for i in shuffled} == {i.id for i in alone}
    company = items("z", 9, language="zh") + every + items("b", 5, suffix="+b")
    assert [i for i in limited(company, limit, seed=3) if i.task == "a"] == alone


def test_smaller_limits_are_subsets_and_seeds_change_the_choice() -> None:
    """A larger limit only adds items, so that stored replies are reused; the choice is not the start of the file."""
    every = items("a", 50)
    for limit in range(1, 50):
        smaller, larger = limited(every, limit, seed=1), limited(every, limit + 1, seed=1)
        assert {i.id for i in smaller} < {i.id for i in larger}
    choices = {tuple(i.id for i in limited(every, 5, seed=seed)) for seed in range(20)}
    assert len(choices) > 15
    assert tuple(i.id for i in every[:5]) not in choices


def test_limit_per_cluster() -> None:
    """With a limit per cluster, every cluster contributes its share within each task."""
    every = [
        Item(f"b/{task}/{n}", task, "zh", cluster=f"c{n % 4}")
        for task in ("explicit", "implicit")
        for n in range(24)
    ]
    chosen = limited(every, 2, seed=0, per_cluster=True)
    assert set(Counter((i.task, i.cluster) for i in chosen).values()) == {2}
    assert {(i.task, i.cluster) for i in chosen} == {(i.task, i.cluster) for i in every}
    assert len(limited(every, 2, seed=0)) == 2 * 2


def test_sizes_are_spread_over_clusters_and_nested() -> None:
    """A size has the same items in any order of the data; a smaller one is a part of it; clusters take turns.

    An item and its controls are chosen together.
    """
    every = [Item(f"b/x/{n:03d}", "x", "en", cluster=f"c{n % 5}") for n in range(40)]
    every += [Item(f"{item.id}+c", "y", "en", cluster=item.cluster) for item in every]
    small, more = (sized(every, {"x": most}) for most in (10, 23))
    assert Counter(item.cluster for item in small if item.task == "x") == {f"c{n}": 2 for n in range(5)}
    assert {item.id for item in small} < {item.id for item in more}
    assert sum(item.task == "y" for item in small) == 40
    assert {item.id for item in sized(every[::-1], {"x": 10})} == {item.id for item in small}
    assert sized(every, {}) == sized(every, {"x": 100}) == every
    assert len({item.base_id for item in sized(every, {"x": 7, "y": 7})}) == 7
