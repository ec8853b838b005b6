"""The test of a "no" on oracles of known behaviour, and its bound."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle.alignment import Rho
from pytest_llmprops.benchmarks.oracle.replies import Answer, Paraphrases
from pytest_llmprops.benchmarks.oracle.trust import Candidate, Test, pool_of, trust_test, trust_values, usable
from pytest_llmprops.core.protocols import generator
from tests.support.paraphrase_oracles import FakeOracle

SENTENCES = ("The dog slept.", "The cat ran.")
#: five paraphrases of each sentence, which name their sentence
CANDIDATES = [Candidate(f"{source}-{number}", source, Rho()) for source in (1, 2) for number in range(5)]
TRIALS = 1_000
Judge = Callable[[str, str], Any]


def _perfect(first: str, second: str) -> bool:
    """Return an oracle that knows which sentence each paraphrase comes from."""
    return SENTENCES[int(first[0]) - 1] == second


def _drawn(judge: Judge, candidates: list[Candidate], rng: random.Random, count: int = TRIALS) -> list[Test]:
    """Return tests of one oracle, each with a draw of its own."""
    oracle = FakeOracle(sentences=judge).oracle

    async def drawn() -> list[Test | None]:
        return [await trust_test(SENTENCES, candidates, oracle, rng) for _ in range(count)]

    return [test for test in asyncio.run(drawn()) if test is not None]


def test_outcomes() -> None:
    """A "no" then a "yes" passes, two "yes" are triangular evidence, others are inconsistent or unreadable."""
    outcomes = {
        (False, True): "accepted", (True, True): "triangular", (False, False): "inconsistent",
        (True, False): "inconsistent", (None, True): "unreadable", (False, None): "unreadable",
    }  # fmt: skip
    for (other, own), outcome in outcomes.items():
        test = Test(CANDIDATES[0], Answer(other), Answer(own), (1.0, 0.5), is_fair=True)
        assert test.outcome == outcome


def test_questions() -> None:
    """The paraphrase is compared with the other sentence, then with its own, and a perfect judge passes."""
    sources = set()
    for seed in range(10):
        fake = FakeOracle(sentences=_perfect)
        test = asyncio.run(trust_test(SENTENCES, CANDIDATES, fake.oracle, generator(seed)))
        assert test is not None
        text, source = test.candidate.text, test.candidate.source
        assert fake.asked("sentences") == [(text, SENTENCES[2 - source]), (text, SENTENCES[source - 1])]
        assert (test.outcome, trust_values(test)["trust_paper"]) == ("accepted", 1)
        assert (test.bound.probability, test.bound.text) == (
            0.5, "an oracle whose answers do not depend on the coin passes a test with probability at most 0.5"
        )  # fmt: skip
        sources.add(source)
    assert sources == {1, 2}


@pytest.mark.parametrize(
    ("name", "share"), [("coin", 0.25), (SENTENCES[0], 0.5), (SENTENCES[1], 0.5)], ids=["coin", "one", "two"]
)
def test_who_guesses_passes_as_often_as_the_bound_says(name: str, share: float) -> None:
    """Random answers pass with frequency 1/4; always naming one source passes with 1/2, which is the bound."""
    rng = generator("guess", name)
    judge = lambda _, second: rng.random() < 0.5 if name == "coin" else second == name  # noqa: E731
    passed = sum(test.outcome == "accepted" for test in _drawn(judge, CANDIDATES, rng))
    assert binomtest(passed, TRIALS, share).pvalue > 0.001


def test_no_bound_without_a_choice() -> None:
    """If only one sentence has paraphrases, naming it passes."""
    second = [c for c in CANDIDATES if c.source == 2]
    [test] = _drawn(lambda first, sentence: sentence == SENTENCES[1], second, generator(0), 1)
    assert (test.outcome, test.bound.probability, trust_values(test)["fair_coin"]) == ("accepted", None, 0)
    assert "only sentence 2" in test.bound.text


def test_coin_is_fair_for_any_number_of_candidates() -> None:
    """Each source is drawn equally often, even with five candidates against one, and so is each candidate."""
    candidates = [c for c in CANDIDATES if c.source == 1 or c.text == "2-3"]
    counts = Counter(test.candidate.text for test in _drawn(_perfect, candidates, generator("draws")))
    for text, share in {"2-3": 0.5, **dict.fromkeys((f"1-{number}" for number in range(5)), 0.1)}.items():
        assert binomtest(counts[text], TRIALS, share).pvalue > 0.001


def test_usable_paraphrases() -> None:
    """Paraphrases that repeat the sentence or each other, are too near, have no words or exceed five are left out."""
    texts = ("the dog slept!", "A dog slept.", "“A dog slept”", "...", "Sleep came.", "Too late.")
    assert usable(Paraphrases(texts), "The dog slept.") == ("A dog slept.", "Sleep came.")
    assert usable(Paraphrases(texts), "The dog slept.", 0.6) == ("Sleep came.",)


def test_pool_of_a_sentence_without_paraphrases() -> None:
    """A sentence without any paraphrase cannot be a source; the pool then has the other's only."""
    one = [Candidate("a", 1, Rho(forward=True)), Candidate("b", 1, Rho())]
    two = Candidate("c", 2, Rho())
    assert pool_of(one, one[:1], even=True) == one[:1]
    assert pool_of([*one, two], one[:1], even=True) == [one[0], two]
    assert pool_of([*one, two], one[:1], even=False) == one[:1]
    assert pool_of([*one, two], [], even=False) == pool_of([*one, two], [], even=True) == [*one, two]
