"""Null oracles and the perfect judge on pairs: what they answer, and what the checker accepts of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.metrics import all_pairs_metrics, pair_remarks, yes_metrics
from pytest_llmprops.benchmarks.oracle.nulls import NAMES, null_oracle, null_values, overlap
from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.settings import PARAPHRASE_QUICK, ParaphraseSettings
from pytest_llmprops.core.protocols import generator
from tests.support.oracle_runs import Subject, pair, verdict_on
from tests.support.paraphrase_oracles import CAT, DOG, PAIR, Stub

DOGS, MOVED = "red dogs barked loudly last night.", "last night red dogs barked loudly."
PLACE = ("pairs", "en", "builtin")


def played(
    x: Pair, table: Any = None, seed: int = 0, settings: ParaphraseSettings = PARAPHRASE_QUICK
) -> dict[str, float]:
    """Return the values of the null oracles for a pair."""
    checker = ParaphraseChecker(settings, Stub(table))
    return asyncio.run(null_values(x, checker, generator(seed)))


@pytest.mark.parametrize("label", [True, False])
def test_constant_answers_and_the_perfect_judge(label: bool) -> None:
    """A constant yes is accepted if the pair is aligned, a constant no never, and the judge by the label."""
    x = Pair(DOG, CAT, label)
    aligned, other = played(x, {(DOG, CAT): "and"}), played(x)
    assert (aligned["null_yes"], other["null_yes"]) == (1, 0)
    assert aligned["null_no"] == other["null_no"] == 0
    assert (aligned["null_judge"], other["null_judge"]) == ((1, 0) if label else (1, 1))
    assert other["self_aligned"] == 0


def test_word_overlap_says_no_to_different_words() -> None:
    """Sentences with few common words get a no, which is accepted. A yes is refused by its own phrases."""
    assert overlap("the dog ran", "The dog, ran") == 1
    assert overlap("...", "!") == 0
    assert played(PAIR)["null_overlap"] == 1
    near = Pair("the dog slept quietly", "the dog slept well")
    assert played(near)["null_overlap"] == 0
    assert played(near, {near.sentences: "and"})["null_overlap"] == 0


def test_no_label_no_judge() -> None:
    """Without a label, there is no perfect judge."""
    assert set(played(Pair(DOG, CAT))) == {*NAMES, "self_aligned"} - {"null_judge"}


@pytest.mark.simulation
def test_a_coin_is_accepted_by_chance() -> None:
    """Without an alignment, only a no can be accepted: with probability 1/2 for no, then 1/4 for no and yes."""
    accepted = sum(played(PAIR, seed=seed)["null_coin"] for seed in range(400))
    assert 0.5 * 0.25 * 400 - 30 < accepted < 0.5 * 0.25 * 400 + 30


def test_null_oracles_read_quotes_and_line_breaks() -> None:
    """Apostrophes in a sentence do not confuse the null oracles."""
    x = Pair("it's the dog's bone", "the cat's not here", label=False)
    assert played(x)["null_judge"] == 1
    assert null_oracle(lambda first, second: True).asked == 0


def test_a_verdict_has_the_null_values_and_no_more_calls() -> None:
    """The nulls are recorded with the verdict on a pair, and the model is not called for them."""
    model = Subject(same=lambda first, second: True)
    verdict = verdict_on(pair(DOGS, MOVED, 1), model)
    assert verdict.values["null_yes"] == verdict.values["null_judge"] == verdict.values["self_aligned"] == 1
    assert verdict.values["null_no"] == 0


YES = {
    "said_yes": 1,
    "label": 1,
    "phi": 0,
    "accepted": 1,
    "potential_or": 1,
    "phi_or": 1,
    "null_yes": 1,
    "null_no": 0,
}
UNPROVED = {**YES, "accepted": 0, "potential_or": 0, "phi_or": 0, "null_yes": 0}
REFUSED = {**YES, "accepted": 0, "phi_or": 0, "label": 0}
UNREAD = {"said_yes": -1, "label": 0, "null_yes": 1, "null_no": 0}


def test_metrics_tell_the_prover_from_the_model() -> None:
    """``potential_rate`` is the prover's part of an acceptance, and ``confirmed_rate`` the model's."""
    values = [YES, YES, UNPROVED, REFUSED, UNREAD]
    rows = {(m.name, m.group): m.value for m in yes_metrics(("yes", "en", "builtin"), values)}
    assert rows["acceptance_rate", ""] == 1 / 2
    assert rows["potential_rate", ""] == 3 / 4
    assert rows["confirmed_rate", ""] == 2 / 3
    pairs = {(m.name, m.group): (m.value, m.n) for m in all_pairs_metrics(PLACE, values)}
    assert pairs["acceptance_rate", ""] == (1 / 2, 4)
    assert pairs["null_acceptance_rate", "constant yes"] == (3 / 4, 4)
    assert pairs["potential_rate", "label yes"] == (2 / 3, 3)
    assert pairs["potential_rate", "label no"] == (1.0, 2)
    assert "coin" not in {group for _, group in pairs}
    [remark] = pair_remarks(values, [])
    assert remark == (
        "pairs: 50.0% of the answers are accepted; of other oracles on the same 4 pairs: constant yes 75.0%,"
        " constant no 0.0%"
    )
