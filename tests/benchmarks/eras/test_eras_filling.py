"""Filling slots: the seeded product, and the choice of a masked language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.eras.items import fill_seeded
from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, parse_builtin
from pytest_llmprops.benchmarks.eras.tools.generation import capacity, fill_by_model, shares
from pytest_llmprops.core.errors import DataError, UsageError


def paradigm(
    frame: str = "{one}买{site}的{two}。", site: str = "甲乙丙", control: str = "丁乙戊"
) -> Paradigm:
    row = {
        "id": "01", "site": site, "control_site": control, "branching": "left", "true_class": "+",
        "canary_class": "-", "frame": frame, "across_edge": [], "control_across_edge": [], "gloss": "",
    }  # fmt: skip
    return parse_builtin({"version": 1, "paradigms": [row]})[0]


WORDS = {"one": ["天", "地", "人"], "two": ["山", "水", "火", "土"]}


def test_repeated_slot_gets_two_words() -> None:
    """A slot name that occurs twice never gets the same word in both places."""
    twice = paradigm("{one}和{one}买{site}。")
    pairs = list(fill_seeded(twice, WORDS, pairs=100, seed=0))
    assert {pair.words for pair in pairs} == set(permutations(WORDS["one"], 2))


def test_equal_sentences_and_second_sites_are_left_out() -> None:
    """Words that make the same sentence count once; words that would repeat a site are skipped."""
    adjacent = paradigm("{one}{two}买{site}。")
    words = {"one": ["天", "天地"], "two": ["地人", "人"]}
    tests = [pair.test for pair in fill_seeded(adjacent, words, pairs=100, seed=0)]
    assert sorted(tests) == ["天人买甲乙丙。", "天地人买甲乙丙。", "天地地人买甲乙丙。"]
    again = {"one": ["天", "甲乙丙", "丁乙戊"], "two": ["山"]}
    assert [p.words for p in fill_seeded(paradigm(), again, pairs=100, seed=0)] == [("天", "山")]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 50), st.integers(1, 300))
def test_drawing_is_without_replacement(sizes: list[int], seed: int, pairs: int) -> None:
    """Any number of pairs from any lists are distinct and numbered from 0, up to the number that exist."""
    names = ["one", "two", "three"][: len(sizes)]
    words = {
        name: [chr(0x5000 + 10 * i + j) for j in range(n)]
        for i, (name, n) in enumerate(zip(names, sizes, strict=True))
    }
    template = paradigm("".join(f"{{{name}}}" for name in names) + "买{site}。")
    drawn = list(fill_seeded(template, words, pairs=pairs, seed=seed))
    assert capacity(template, words) == math.prod(sizes)
    assert len({pair.words for pair in drawn}) == len(drawn) == min(pairs, math.prod(sizes))
    assert [pair.number for pair in drawn] == list(range(len(drawn)))


def test_shares_are_even_if_capacities_allow() -> None:
    """A total is spread evenly; what a small paradigm cannot supply is moved to the others."""
    assert shares([10, 10, 10], 8) == [3, 3, 2]
    assert shares([1, 10, 10], 9) == [1, 4, 4]
    assert shares([50_000, 50_000], 80_000) == [40_000, 40_000]
    assert shares([50_000, 10], 40_010) == [40_000, 10]
    assert shares([2, 3, 100], 105) == [2, 3, 100]
    for total in (106, 2):
        with pytest.raises(UsageError, match="choose 3 to 105"):
            shares([2, 3, 100], total)


def scores_of(table: Mapping[str, float]) -> Callable[[str, Sequence[str]], list[float]]:
    """Return a model that gives each word the same probability in any context, and others almost none."""
    return lambda text, candidates: [math.log(table.get(word, 1e-9)) for word in candidates]


def chosen(
    words: Mapping[str, Sequence[str]], score: Any, *, seed: int = 0, **options: Any
) -> list[tuple[str, ...]]:
    """Return the words that a model chooses for a frame with these slots."""
    frame = paradigm("{one}买{site}的{two}。" if len(words) == 2 else "{one}买{site}。")
    return [pair.words for pair in fill_by_model(frame, words, score, seed=seed, **options)]


def test_model_choice_by_hand() -> None:
    """By ratio, slot 1 keeps words above 0.74 of the best and slot 2 those above 0.79."""
    seen: list[str] = []
    table = {"天": 0.02, "地": 0.016, "人": 0.0148, "山": 3e-9, "水": 2.4e-9, "火": 2.36e-9, "土": 1e-9}

    def score(text: str, candidates: Sequence[str]) -> list[float]:
        seen.append(text)
        return scores_of(table)(text, candidates)

    pairs = chosen(WORDS, score)
    # .016/.02 = .8 stays, .0148/.02 = .74 does not exceed .74; .8 stays, .787 does not exceed .79
    assert set(pairs) == {("天", "山"), ("天", "水"), ("地", "山"), ("地", "水")}
    assert set(seen) == {"[MASK]买丁乙戊的[MASK]。", "天买丁乙戊的[MASK]。", "地买丁乙戊的[MASK]。"}
    assert len(seen) == 3, "each partial filling is scored once"
    assert chosen(WORDS, score, limit=3) == pairs[:3]
    assert chosen(WORDS, score, mlm_score="absolute") == []
    # A probability of .78 passes the first slot and fails the second.
    assert chosen(WORDS, scores_of({"天": 0.78, "山": 0.78, "水": 0.8}), mlm_score="absolute") == [
        ("天", "水")
    ]
    # A word is compared with the best word of as many characters, because longer ones have less context.
    lengths = {"天": 0.02, "地": 0.01, "天地": 2e-5, "地人": 1.6e-5, "人人": 1e-5}
    assert set(chosen({"one": list(lengths)}, scores_of(lengths))) == {("天",), ("天地",), ("地人",)}


def test_all_passing_fillings_are_drawn() -> None:
    """What passes may depend on the words to the left; the order of the pairs depends on the seed."""
    passing = {"[": "天地", "天": "山", "地": "水火"}

    def by_context(text: str, candidates: Sequence[str]) -> list[float]:
        return [0.0 if word in passing[text[0]] else -1.0 for word in candidates]

    orders = {tuple(chosen(WORDS, by_context, seed=seed)) for seed in range(9)}
    assert {frozenset(order) for order in orders} == {frozenset({("天", "山"), ("地", "水"), ("地", "火")})}
    assert len(orders) > 2


def test_bad_scores_and_requests_are_errors() -> None:
    """Too few scores, non-numbers, or only zeros are an error instead of a silent choice.

    A misspelled mlm_score is refused, and so is a seventh slot, whose threshold no score can exceed.
    """
    for scores, message in (
        ([0.0], "one score"),
        ([math.nan] * 3, "one score"),
        ([-math.inf] * 3, "probability 0"),
    ):
        with pytest.raises(DataError, match=message):
            chosen(WORDS, lambda text, candidates, scores=scores: scores)
    with pytest.raises(UsageError, match="ratio or absolute"):
        chosen(WORDS, scores_of({}), mlm_score="relative")
    with pytest.raises(UsageError, match="slot 7"):
        fill_by_model(paradigm("{one}" * 7 + "买{site}。"), WORDS, scores_of({}), seed=0)
