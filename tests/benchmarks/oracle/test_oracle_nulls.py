"""Null oracles and the perfect judge on pairs: what they answer, and what the checker accepts of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.items import random_pairs
from pytest_llmprops.benchmarks.oracle.metrics import all_pairs_metrics, pair_remarks, yes_metrics
from pytest_llmprops.benchmarks.oracle.nulls import (
    NAMES,
    null_oracle,
    null_values,
    overlap,
    own_paraphrase,
    random_checker,
    self_consistency,
)
from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance
from pytest_llmprops.benchmarks.oracle.settings import PARAPHRASE_QUICK, ParaphraseSettings
from pytest_llmprops.core.protocols import generator
from tests.support.oracle_runs import Subject, pair, verdict_on
from tests.support.paraphrase_oracles import CAT, DOG, OF_DOG, PAIR, PARAPHRASES, FakeOracle, Stub, perfect

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
    one, two = DOG.split(), CAT.split()
    phrases = tuple((" ".join(one[n : n + 2]), " ".join(two[n : n + 2]), True) for n in (0, 2))
    x = Pair(DOG, CAT, label, phrases)
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
    assert verdict.values["null_yes"] == verdict.values["self_aligned"] == 1
    # Nobody labelled the phrases of this pair.
    assert "null_judge" not in verdict.values
    assert verdict.values["null_no"] == 0


YES = {
    "said_yes": 1, "label": 1, "phi": 0, "accepted": 1, "potential_or": 1, "phi_or": 1, "null_yes": 1, "null_no": 0,
}  # fmt: skip
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


@pytest.mark.parametrize(
    ("accepted", "pairs", "warns"), [(8, 20, True), (10, 20, True), (11, 20, False), (8, 19, False)]
)
def test_a_model_no_better_than_a_blind_oracle_gets_a_warning(accepted: int, pairs: int, warns: bool) -> None:
    """The warning names the best oracle that ignores the question; word overlap does not count."""
    one = {"said_yes": 1.0, "null_no": 0.0, "null_overlap": 1.0}
    values = [one | {"accepted": float(n < accepted), "null_yes": float(n < 10)} for n in range(pairs)]
    said = [text for text in pair_remarks(values, []) if text.startswith("warning: ")]
    assert len(said) == warns
    assert all("(constant yes) gets 50.0%" in text for text in said)


# ---- sanity checks

PAPER = ParaphraseSettings()


def saying(*answers: bool | str) -> FakeOracle:
    """Return an oracle that gives these answers in turn."""
    said = iter(answers)
    return FakeOracle(lambda *_: next(said), paraphrases=lambda _: OF_DOG)


def own(fake: FakeOracle, table: Any = None) -> Acceptance:
    """Return the decision on the oracle's own paraphrase."""
    return asyncio.run(own_paraphrase(DOG, fake.oracle, ParaphraseChecker(PAPER, Stub(table))))


def test_self_consistency() -> None:
    """In the first sanity check five repeated answers, each its own sample, must agree and be readable."""
    fake = saying(*[False] * 5)
    acceptance = asyncio.run(self_consistency(PAIR, fake.oracle))
    assert (acceptance.accepted, acceptance.outcome) == (True, "consistent")
    assert acceptance.why == "0 yes, 5 no in 5 askings"
    assert [chat.sample for chat in fake.chats] == [0, 1, 2, 3, 4]
    acceptance = asyncio.run(self_consistency(PAIR, saying(True, True, False, True, True).oracle))
    assert not acceptance
    assert (acceptance.outcome, acceptance.values["answers_yes"]) == ("inconsistent", 4)
    assert not asyncio.run(self_consistency(PAIR, saying(*["?"] * 10).oracle)).accepted


def test_own_paraphrases() -> None:
    """The second sanity check asks about the first distinct paraphrase five times and proves it (table 4)."""
    fake = FakeOracle(perfect, paraphrases=lambda _: [DOG, *OF_DOG])
    acceptance = own(fake, {(DOG, OF_DOG[0]): "or"})
    assert acceptance.accepted
    assert acceptance.evidence["paraphrase"] == OF_DOG[0]
    assert acceptance.evidence["answers"] == ["yes"] * 5
    assert fake.asked("sentences") == [(DOG, OF_DOG[0])] * 5
    assert {"said_yes": 1, "phi_or": 1, "phi_and": 0}.items() <= acceptance.values.items()
    nothing = own(FakeOracle(perfect, paraphrases=lambda _: [DOG]))
    assert (nothing.outcome, nothing.accepted) == ("untested", False)


@pytest.mark.parametrize(
    ("answers", "outcome", "consistent"),
    [
        ([False] * 5, "denied", 1),
        ([True] * 5, "consistent", 1),
        ([True] * 4 + [False], "inconsistent", 0),
        ([False] * 4 + [True], "inconsistent", 0),
        ([False, "eh", "eh", False, False, False], "unreadable", 0),
        ([False, "eh", "eh", False, True, False], "inconsistent", 0),
        (["eh"] * 10, "unreadable", 0),
    ],
)
def test_a_denied_paraphrase_is_not_accepted(
    answers: list[bool | str], outcome: str, consistent: int
) -> None:
    """Only five "yes" answers are accepted: five "no" answers are consistent, but deny the own paraphrase."""
    acceptance = own(saying(*answers))
    assert (acceptance.outcome, acceptance.accepted) == (outcome, outcome == "consistent")
    assert acceptance.values["consistent"] == consistent
    assert ("denies its own paraphrase" in acceptance.why) == (outcome == "denied")


def test_random_pairs() -> None:
    """The third sanity check aligns and tests different sentences, labelled not equivalent."""
    pairs = random_pairs([*PARAPHRASES, *PARAPHRASES], generator(0), 20)
    assert len(pairs) == 20
    assert set(pairs) == {(DOG, CAT), (CAT, DOG)}
    oracle = FakeOracle(perfect, paraphrases=lambda s: list(PARAPHRASES[s])).oracle
    checker = random_checker(PAPER, Stub())
    acceptance = asyncio.run(checker.check(Pair(*pairs[0], label=False), oracle, generator(0)))
    assert acceptance.accepted
    assert {"phi_or": 0, "asked_phrases": 0, "category_or": 0}.items() <= acceptance.values.items()
    with pytest.raises(ValueError, match="two different sentences"):
        random_pairs([DOG, DOG], generator(0), 1)
