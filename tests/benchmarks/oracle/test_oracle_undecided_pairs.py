"""Pairs of sentences without a decision: unreadable or withheld replies, and answers that cannot be tested."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle.checker_benchmark import verdict_of
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.settings import PARAPHRASE_QUICK, ParaphraseSettings
from pytest_llmprops.benchmarks.oracle.trust import Candidate, pool_of
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.requests import Chat, Reply
from tests.support.paraphrase_oracles import (
    CAT,
    DOG,
    OF_CAT,
    OF_DOG,
    PAIR,
    PARAPHRASES,
    FakeOracle,
    Stub,
    perfect,
)

PROVABLE = {(DOG, CAT): "and"}


def check(
    ask: Any, table: dict[tuple[str, str], str] | None = None, seed: int = 0, **more: Any
) -> Acceptance:
    """Return the decision on the pair."""
    checker = ParaphraseChecker(ParaphraseSettings(**more), Stub(table))
    return asyncio.run(checker.check(PAIR, Oracle(ask), generator(seed)))


def fake(**answers: Any) -> Any:
    """Return the replies of a fake oracle, with its own paraphrases."""
    oracle = FakeOracle(paraphrases=lambda s: list(PARAPHRASES[s]), **answers)
    return oracle.oracle


async def forward(oracle: Oracle, chat: Chat) -> Reply:
    """Send a chat to another oracle."""
    return await oracle(chat.messages, sample=chat.sample)


@pytest.mark.parametrize(
    ("phrase", "outcome"),
    [
        ({"the dog": "hm"}, "unreadable"),
        ({"the dog": "hm", "slept quietly": "hm"}, "unreadable"),
        ({"the dog": "hm", "slept quietly": False}, "rejected"),
        ({"the dog": False, "slept quietly": False}, "rejected"),
    ],
)
def test_yes_that_depends_on_an_unreadable_reply(phrase: dict[str, Any], outcome: str) -> None:
    """A "yes" is undecided if an unreadable reply about phrases could prove it, and rejected otherwise."""
    oracle = fake(sentences=lambda *_: True, phrases=lambda first, _: phrase.get(first, True))
    acceptance = check(lambda chat: forward(oracle, chat), {(DOG, CAT): "or"})
    assert (acceptance.outcome, acceptance.accepted) == (outcome, False)
    assert acceptance.values["undecided_or"] == (outcome == "unreadable")
    assert verdict_of(acceptance).status == ("unparsed" if outcome == "unreadable" else "wrong")
    if outcome == "unreadable":
        assert "answers about phrases cannot be read" in acceptance.why


def test_no_with_an_unreadable_test() -> None:
    """A "no" whose test cannot be read is undecided, not rejected."""
    oracle = fake(sentences=lambda first, second: False if (first, second) == (DOG, CAT) else "hm")
    acceptance = check(lambda chat: forward(oracle, chat))
    assert acceptance.outcome == "unreadable"
    assert "an answer of the test cannot be read" in acceptance.why
    assert verdict_of(acceptance).status == "unparsed"


def test_no_without_paraphrases_gives_the_reason() -> None:
    """If no paraphrases can be read, the "no" is untested, and the reason is not that they repeat the sentence."""
    oracle = FakeOracle(lambda *_: False, paraphrases=lambda _: "Sure!").oracle
    acceptance = check(lambda chat: forward(oracle, chat))
    assert acceptance.outcome == "untested"
    assert "not JSON" in acceptance.why
    assert verdict_of(acceptance).status == "unparsed"


@pytest.mark.parametrize("stage", ["phrases", "test", "paraphrases"])
def test_withheld_replies_are_refused(stage: str) -> None:
    """If a content filter withholds the replies that would decide, the answer is refused, not unparsed or wrong."""
    oracle = fake(sentences=lambda first, _: stage == "phrases" or first != DOG)

    async def ask(chat: Chat) -> Reply:
        system, human = chat.messages[0].content, chat.messages[1].content
        kind = (
            "paraphrases" if "paraphrases generator" in system else "phrases" if "texts" in system else "test"
        )
        if kind == stage and f"1. '{DOG}'" not in human:
            return Reply("", finish_reason="content_filter")
        return await forward(oracle, chat)

    acceptance = check(
        ask, PROVABLE if stage == "phrases" else None, indifferentiable="potential", reference=False
    )
    assert acceptance.outcome == "refused"
    assert verdict_of(acceptance).status == "refused"


@pytest.mark.simulation
def test_malformed_replies_never_make_a_perfect_judge_wrong() -> None:
    """With 30% malformed JSON, a perfect judge loses decisions, but none of its answers is wrong."""
    statuses: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for equivalent in statuses:
        for seed in range(150):
            rng = random.Random(seed)
            oracle = fake(sentences=lambda a, b, same=equivalent: same or perfect(a, b))

            async def ask(chat: Chat, rng: random.Random = rng, oracle: Oracle = oracle) -> Reply:
                reply = await forward(oracle, chat)
                return Reply('{"answer": yes', reply.finish_reason) if rng.random() < 0.3 else reply

            acceptance = check(ask, PROVABLE if equivalent else None, seed)
            statuses[equivalent][verdict_of(acceptance).status] += 1
    for counts in statuses.values():
        assert set(counts) == {"correct", "unparsed"}
        assert counts["unparsed"] > 20


# ---- the source of a test


@pytest.mark.simulation
def test_even_source_is_drawn_from_both_sentences() -> None:
    """If only one sentence has an indifferentiable paraphrase, the coin is still fair, and the bound holds."""
    assert PARAPHRASE_QUICK.source == "even"
    table = {(OF_DOG[1], CAT): "and"}
    drawn: Counter[str] = Counter()
    for seed in range(300):
        oracle = FakeOracle(perfect, paraphrases=lambda s: list(PARAPHRASES[s]))
        acceptance = check(lambda chat, o=oracle: forward(o.oracle, chat), table, seed, source="even")
        assert acceptance.accepted
        assert acceptance.values["fair_coin_or"] == 1
        assert acceptance.bound is not None
        assert acceptance.bound.probability == 0.5
        paraphrase = oracle.asked("sentences")[1][0]
        drawn[paraphrase] += 1
        # I of table 5: the paraphrase that is asked about is indifferentiable.
        assert acceptance.values["category_or"] == (2 if paraphrase == OF_DOG[1] else 4)
    assert set(drawn) == {OF_DOG[1], *OF_CAT}
    assert binomtest(drawn[OF_DOG[1]], 300, 0.5).pvalue > 0.001


@pytest.mark.simulation
def test_one_sided_oracle_passes_half_of_the_even_tests() -> None:
    """An oracle that always names the same source passes without a fair coin, and half the tests with it."""
    table = {(OF_DOG[1], CAT): "and"}
    passed = {"even": 0, "indifferentiable": 0}
    for source in passed:
        for seed in range(200):
            oracle = fake(sentences=lambda first, second: first != DOG and second == DOG)
            acceptance = check(lambda chat, o=oracle: forward(o, chat), table, seed, source=source)
            passed[source] += acceptance.accepted
    assert passed["indifferentiable"] == 200
    assert binomtest(passed["even"], 200, 0.5).pvalue > 0.001


def test_pool_of_a_sentence_without_paraphrases() -> None:
    """A sentence without any paraphrase cannot be a source; the pool then has the other's only."""
    one = [Candidate("a", 1, phi_or=True), Candidate("b", 1)]
    two = Candidate("c", 2)
    assert pool_of(one, one[:1], even=True) == one[:1]
    assert pool_of([*one, two], one[:1], even=True) == [one[0], two]
    assert pool_of([*one, two], one[:1], even=False) == one[:1]
    assert pool_of([*one, two], [], even=False) == pool_of([*one, two], [], even=True) == [*one, two]
    assert pool_of([], [], even=True) == []
