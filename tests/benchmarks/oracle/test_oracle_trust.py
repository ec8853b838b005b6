"""The trust strategy on oracles of known behaviour, and its bound."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle.replies import Paraphrases
from pytest_llmprops.benchmarks.oracle.trust import (
    Candidate,
    Trust,
    draw_candidate,
    outcome_of,
    pool_of,
    run_trust_tests,
    usable,
)
from pytest_llmprops.core.protocols import generator
from tests.support.paraphrase_oracles import FakeOracle

SENTENCES = ("The dog slept.", "The cat ran.")
#: five paraphrases of each sentence, which name their sentence
CANDIDATES = [Candidate(f"{source}-{number}", source) for source in (1, 2) for number in range(5)]
TRIALS = 5_000
Judge = Callable[[str, str], bool]


def _perfect(first: str, second: str) -> bool:
    """Return an oracle that knows which sentence each paraphrase comes from."""
    return SENTENCES[int(first[0]) - 1] == second


def _coin(seed: int) -> Judge:
    rng = generator("fair coin", seed)
    return lambda first, second: rng.random() < 0.5


def _always(source: int) -> Judge:
    """Return an oracle that names the same source for every paraphrase."""
    return lambda first, second: second == SENTENCES[source - 1]


def _trust(judge: Judge, tests: int = 1, seed: int = 0, candidates: list[Candidate] = CANDIDATES) -> Trust:
    oracle = FakeOracle(sentences=judge).oracle
    return asyncio.run(run_trust_tests(SENTENCES, candidates, oracle, generator(seed), tests))


def _passed(judge: Judge, tests: int, trials: int = TRIALS) -> list[int]:
    """Return the number of cases in which the judge passes the first test, the first two, and so on to all."""

    async def run() -> list[int]:
        fake, rng, passed = FakeOracle(sentences=judge), generator("trials", tests), [0] * tests
        for _ in range(trials):
            trust = await run_trust_tests(SENTENCES, CANDIDATES, fake.oracle, rng, tests)
            for count in range(tests):
                passed[count] += Trust(None, trust.tests[: count + 1], trust.fair).outcome == "accepted"
            fake.log.clear()
            fake.chats.clear()
        return passed

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("other", "own", "outcome"),
    [
        (False, True, "accepted"), (True, True, "triangular"), (False, False, "inconsistent"),
        (True, False, "inconsistent"), (None, True, "unreadable"), (False, None, "unreadable"),
        (None, None, "unreadable"),
    ],
)  # fmt: skip
def test_one_test(other: bool | None, own: bool | None, outcome: str) -> None:
    """A "no" then a "yes" passes, two "yes" are triangular evidence, others are inconsistent or unreadable."""
    assert outcome_of(other, own) == outcome


def test_questions() -> None:
    """The paraphrase is compared with the other sentence, then with its own, and test t uses sample t."""
    fake = FakeOracle(sentences=_perfect)
    trust = asyncio.run(run_trust_tests(SENTENCES, CANDIDATES, fake.oracle, generator(1), 20))
    assert len(fake.log) == 40
    asked = fake.asked("sentences")
    for test, other, own in zip(trust.tests, asked[::2], asked[1::2], strict=True):
        source = test.candidate.source
        assert other == (test.candidate.text, SENTENCES[2 - source])
        assert own == (test.candidate.text, SENTENCES[source - 1])
    assert [chat.sample for chat in fake.chats] == [n // 2 for n in range(40)]


@pytest.mark.parametrize(
    ("said", "outcome", "by_paper"),
    [(True, "triangular", False), (False, "inconsistent", True), ("hm", "unreadable", False)],
)
def test_constant_answers(said: Any, outcome: str, by_paper: bool) -> None:
    """No constant answer passes; the paper's rule accepts a constant "no", which denies its own paraphrases."""
    trust = _trust(lambda first, second: said, tests=3)
    assert (trust.outcome, trust.accepted_by_paper) == (outcome, by_paper)
    counts = {name: trust.values[name] for name in ("passed", "triangular", "inconsistent")}
    assert counts == {"passed": 0, "triangular": 0, "inconsistent": 0} | (
        {} if said == "hm" else {outcome: 3}
    )


def test_a_perfect_judge_passes() -> None:
    """An oracle that knows the source passes every test, for any coin."""
    for seed in range(20):
        trust = _trust(_perfect, tests=10, seed=seed)
        assert trust.outcome == "accepted"
        assert trust.accepted_by_paper
        assert trust.values["passed"] == 10


def test_fair_coin_passes_with_frequency_4_to_the_minus_n() -> None:
    """Random answers pass n tests with frequency 4^-n (two-sided binomial test over 5,000 trials)."""
    for count, passed in enumerate(_passed(_coin(2), 2), 1):
        assert binomtest(passed, TRIALS, 0.25**count).pvalue > 0.001


@pytest.mark.parametrize("source", [1, 2])
def test_a_one_sided_guesser_reaches_the_bound(source: int) -> None:
    """An oracle that always names one source passes n tests with frequency 2^-n, which is the bound."""
    trials = 2_000
    for count, passed in enumerate(_passed(_always(source), 3, trials), 1):
        assert binomtest(passed, trials, _trust(_perfect, count).bound.probability).pvalue > 0.001


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(any))
def test_no_answers_that_ignore_the_coin_pass_more_than_half(weights: list[int]) -> None:
    """For any joint distribution of (answer on s1, answer on s2), the pass probability is at most one half."""
    passed = 0
    for answers, weight in zip(itertools.product((False, True), repeat=2), weights, strict=True):
        for source in (1, 2):
            passed += weight * (outcome_of(answers[2 - source], answers[source - 1]) == "accepted")
    assert passed <= sum(weights)  # of 2 * sum(weights)


@pytest.mark.parametrize(("tests", "many", "limit"), [(1, "a test", "0.5"), (4, "4 tests", "0.0625")])
def test_wording_of_the_bound(tests: int, many: str, limit: str) -> None:
    """The printed bound is 2^-n for the run's n, for an oracle whose answers do not depend on the coin."""
    bound = _trust(_perfect, tests).bound
    assert bound.text == (
        f"an oracle whose answers do not depend on the coin passes {many} with probability at most {limit}"
    )
    assert bound.probability == 2**-tests


def test_no_bound_without_a_choice() -> None:
    """If only one sentence has paraphrases, naming it always passes, so no bound is printed."""
    second = [c for c in CANDIDATES if c.source == 2]
    trust = _trust(_always(2), tests=10, candidates=second)
    assert trust.outcome == "accepted"
    assert not trust.fair
    assert trust.values["fair_coin"] == 0
    assert trust.bound.probability is None
    assert "only sentence 2" in trust.bound.text


def test_no_paraphrase() -> None:
    """Without a paraphrase nothing is asked, accepted under either rule, or given a bound."""
    fake = FakeOracle()
    trust = asyncio.run(run_trust_tests(SENTENCES, [], fake.oracle, generator(0), 3))
    assert fake.log == []
    assert (trust.outcome, trust.accepted_by_paper) == ("untested", False)
    assert trust.bound.probability is None
    assert trust.values["trust"] == 5
    with pytest.raises(ValueError, match="no paraphrase"):
        draw_candidate([], generator(0))


def test_the_worst_test_decides() -> None:
    """The worst test decides: triangular evidence, then inconsistency, then an unreadable answer."""
    said = {SENTENCES[0]: True, SENTENCES[1]: True}
    trust = _trust(lambda first, second: said[second] if first.endswith("0") else _perfect(first, second), 50)
    assert {test.outcome for test in trust.tests} == {"accepted", "triangular"}
    assert trust.outcome == "triangular"
    assert 0 < trust.values["triangular"] < 50
    tests = {
        outcome: _trust(lambda first, second, said=said: said).tests  # type: ignore[misc]
        for outcome, said in (("triangular", True), ("inconsistent", False), ("unreadable", "hm"))
    }
    assert Trust(None, tests["inconsistent"] + tests["triangular"], True).outcome == "triangular"
    assert Trust(None, tests["unreadable"] + tests["inconsistent"], True).outcome == "inconsistent"


def test_coin_is_fair_for_any_number_of_candidates() -> None:
    """Each source is drawn equally often, even with five candidates against one, and so is each candidate."""
    candidates = [c for c in CANDIDATES if c.source == 1 or c.text == "2-3"]
    rng = generator("draws")
    counts = Counter(draw_candidate(candidates, rng).text for _ in range(TRIALS))
    assert binomtest(counts["2-3"], TRIALS, 0.5).pvalue > 0.001
    for number in range(5):
        assert binomtest(counts[f"1-{number}"], TRIALS, 0.1).pvalue > 0.001


def test_usable_paraphrases() -> None:
    """Paraphrases that repeat the sentence or each other, have no words, or exceed five are not usable."""
    texts = ("the dog slept!", "A dog slept.", "“A dog slept”", "...", "Sleep came.", "Too late.")
    assert usable(Paraphrases(texts), "The dog slept.") == ("A dog slept.", "Sleep came.")
    assert usable(Paraphrases(("The dog slept.",)), "The dog slept.") == ()


def test_pool_of_a_sentence_without_paraphrases() -> None:
    """A sentence without any paraphrase cannot be a source; the pool then has the other's only."""
    one = [Candidate("a", 1, phi_or=True), Candidate("b", 1)]
    two = Candidate("c", 2)
    assert pool_of(one, one[:1], even=True) == one[:1]
    assert pool_of([*one, two], one[:1], even=True) == [one[0], two]
    assert pool_of([*one, two], one[:1], even=False) == one[:1]
    assert pool_of([*one, two], [], even=False) == pool_of([*one, two], [], even=True) == [*one, two]
    assert pool_of([], [], even=True) == []
