"""The trust strategy: a "no" is accepted if the oracle passes a test of truthfulness (Zeng et al., figure 4).

The oracle paraphrases both sentences. A test tosses a coin to choose one of the two sentences as the *source*, and
draws a paraphrase p of it. It asks whether p is equivalent to the *other* sentence, then whether p is equivalent to the
source. The test is passed by no, then yes. Two times yes is *triangular evidence*: p is equivalent to both sentences,
but the oracle said that they are not equivalent. All other answers contradict the oracle's own paraphrase and are
counted separately as *inconsistent*. Under the paper's rule (``paper``), only triangular evidence rejects.

p is *indifferentiable* if it can be aligned with the other sentence. By default (the paper's "whenever possible"), p is
drawn from the indifferentiable paraphrases of both sentences, and from all of them if there are none. With ``even``,
the coin chooses between the sentences first, and p is an indifferentiable paraphrase of the chosen one if it has any.

**The bound.** Let A be the oracle's answer on (p, sentence 1) and B its answer on (p, sentence 2), with any joint
distribution, and let the coin be fair. If the coin shows 1, A = yes and B = no pass the test. If it shows 2, A = no and
B = yes do. If (A, B) does not depend on the coin, the probability of passing is P(A = yes, B = no) / 2 +
P(A = no, B = yes) / 2 = P(A differs from B) / 2, which is at most 1/2. The coin of each test is independent of all
earlier answers, so the probability of passing n tests is at most 2^-n. An oracle that always names the same source
reaches this bound. One that answers at random passes with 4^-n, and one that always gives the same answer never passes.

Indifferentiability is meant to ensure that the answers do not depend on the coin: p depends on it, but does not reveal
it. The two questions are separate conversations with the same wording, so the oracle cannot tell them apart. The coin
is fair if both sentences have paraphrases to draw from. If only one has, the coin has no choice, an oracle that names
that sentence passes every test, and there is no bound. By default, that also happens if only one sentence has an
indifferentiable paraphrase; with ``even``, only if one of the sentences has no paraphrase at all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.replies import Answer, Paraphrases, ask_answer, sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Bound, Oracle
from pytest_llmprops.core.texts import unicode_words

Outcome = Literal["accepted", "triangular", "inconsistent", "unreadable", "untested"]
#: outcome -> its number in records
OUTCOME_CODES: dict[Outcome, int] = {
    "accepted": 1,
    "triangular": 2,
    "inconsistent": 3,
    "unreadable": 4,
    "untested": 5,
}
#: paraphrases per sentence; prompt 7 asks for as many
PARAPHRASES = 5
Category = Literal["AI", "ĀI", "AĪ", "ĀĪ"]
#: category of table 5 -> its number in records, in the paper's order of priority
CATEGORY_CODES: dict[Category, int] = {"AI": 1, "ĀI": 2, "AĪ": 3, "ĀĪ": 4}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paraphrase that may be drawn.

    :param source: 1 or 2, the sentence that it paraphrases.
    :param phi_or: whether at least one alignment with the other sentence holds.
    :param phi_and: whether alignments in both directions hold.
    """

    text: str
    source: int
    phi_or: bool = False
    phi_and: bool = False


@dataclass(frozen=True, slots=True)
class Test:
    """One toss of the coin: the paraphrase, and the oracle's answers about the other sentence and about its source."""

    __test__ = False  # pytest must not collect this class

    candidate: Candidate
    other: Answer
    own: Answer
    #: of the paraphrase's words with those of its source, then of the other sentence (:func:`overlap`)
    overlaps: tuple[float, float]

    @property
    def outcome(self) -> Outcome:
        """See :func:`outcome_of`."""
        return outcome_of(self.other.said, self.own.said)


@dataclass(frozen=True, slots=True)
class Trust:
    """The tests of one "no".

    :param category: of table 5, by the drawn paraphrases; None if indifferentiable ones were not searched for.
    :param fair: whether the coin had a choice, so that the bound holds.
    """

    category: Category | None
    tests: tuple[Test, ...]
    fair: bool

    @property
    def outcome(self) -> Outcome:
        """``accepted`` if every test was passed; otherwise the worst outcome, triangular evidence first."""
        if not self.tests:
            return "untested"
        outcomes = {test.outcome for test in self.tests}
        worst_first: tuple[Outcome, ...] = ("triangular", "inconsistent", "unreadable")
        return next((outcome for outcome in worst_first if outcome in outcomes), "accepted")

    @property
    def accepted_by_paper(self) -> bool:
        """True if no test is triangular evidence, the only reason for a rejection in the paper.

        False if that is unknown: without a test, or if an answer cannot be read.
        """
        return self.outcome in ("accepted", "inconsistent")

    @property
    def bound(self) -> Bound:
        """The meaning of passing the tests, as a bound."""
        count = len(self.tests)
        if not count:
            return Bound("no bound: no test was made")
        if not self.fair:
            only = self.tests[0].candidate.source
            return Bound(f"no bound: only sentence {only} has paraphrases to draw, so the coin had no choice")
        limit = 0.5**count
        many = "a test" if count == 1 else f"{count} tests"
        return Bound(
            f"an oracle whose answers do not depend on the coin passes {many} with probability at most {limit:.3g}",
            probability=limit,
        )

    @property
    def values(self) -> dict[str, float]:
        """Flat numbers without the suffix for the kind of alignment; see the table in ``pair_evidence``."""
        outcomes = [test.outcome for test in self.tests]
        # Word overlap passes all tests if its threshold is above all overlaps with the other sentence, and at most any
        # with the source.
        overlaps = {
            "overlap_own": min(test.overlaps[0] for test in self.tests),
            "overlap_other": max(test.overlaps[1] for test in self.tests),
        } if self.tests else {}  # fmt: skip
        return {
            **overlaps,
            "category": float(CATEGORY_CODES[self.category]) if self.category else 0.0,
            "trust": float(OUTCOME_CODES[self.outcome]),
            "trust_paper": float(self.accepted_by_paper),
            "tests": float(len(self.tests)),
            "passed": float(outcomes.count("accepted")),
            "triangular": float(outcomes.count("triangular")),
            "inconsistent": float(outcomes.count("inconsistent")),
            "other_only": float(
                sum(test.other.said is True and test.own.said is False for test in self.tests)
            ),
            "fair_coin": float(self.fair),
        }


def outcome_of(other: bool | None, own: bool | None) -> Outcome:
    """Return the outcome of a test from its answers: on (paraphrase, other sentence) and (paraphrase, source)."""
    if other is None or own is None:
        return "unreadable"
    if other and own:
        return "triangular"
    return "inconsistent" if other or not own else "accepted"


def usable(paraphrases: Paraphrases, sentence: str, distance: float = 0.0) -> tuple[str, ...]:
    """Return the first five paraphrases, without empty ones, repetitions, and those with the sentence's words.

    Words are compared folded and without punctuation (``core.texts``).

    :param distance: see ``OracleSettings``; nearer paraphrases are left out, too.
    """
    known = {tuple(unicode_words(sentence)), ()}
    kept: list[str] = []
    for text in paraphrases.texts[:PARAPHRASES]:
        words = tuple(unicode_words(text))
        if words not in known and overlap(text, sentence) <= 1 - distance:
            known.add(words)
            kept.append(text)
    return tuple(kept)


def overlap(first: str, second: str) -> float:
    """Return the Jaccard index of the words of two texts, folded; 0 if neither has a word."""
    one, two = set(unicode_words(first)), set(unicode_words(second))
    return len(one & two) / len(one | two) if one | two else 0.0


def source_revealed(drawn: Sequence[tuple[float, float]]) -> float:
    """Return how often word overlap alone, at its best threshold, names the source of a paraphrase.

    :param drawn: of each test, the overlap of the paraphrase with its source and with the other sentence.
    """
    return max(sum(other < limit <= own for own, other in drawn) / len(drawn) for limit, _ in drawn)


def category_of(aligned: bool, indifferentiable: bool) -> Category:
    """Return the category of table 5: are the sentences aligned, and is there an indifferentiable paraphrase?"""
    if indifferentiable:
        return "AI" if aligned else "ĀI"
    return "AĪ" if aligned else "ĀĪ"


def draw_candidate(candidates: Sequence[Candidate], rng: random.Random) -> Candidate:
    """Toss a coin for the source if both sentences have candidates, then draw one of its candidates uniformly.

    :raises ValueError: if there are no candidates.
    """
    sides = [[c for c in candidates if c.source == source] for source in (1, 2)]
    filled = [side for side in sides if side]
    if not filled:
        raise ValueError("no paraphrase to draw from")
    # Always toss once, so that later choices do not depend on the number of sides.
    coin = rng.randrange(2)
    return rng.choice(filled[coin % len(filled)])


def pool_of(
    candidates: Sequence[Candidate], preferred: Sequence[Candidate], *, even: bool
) -> list[Candidate]:
    """Return the paraphrases to draw from.

    :param preferred: the indifferentiable ones among ``candidates``.
    :param even: whether each sentence that has paraphrases must have some in the pool.
    """
    if not even:
        return list(preferred or candidates)
    pool: list[Candidate] = []
    for source in (1, 2):
        best = [c for c in preferred if c.source == source]
        pool += best or [c for c in candidates if c.source == source]
    return pool


async def run_trust_tests(
    sentences: tuple[str, str],
    candidates: Sequence[Candidate],
    oracle: Oracle,
    rng: random.Random,
    tests: int,
) -> Trust:
    """Draw ``tests`` paraphrases with replacement, and ask about all of them at once. The result has no category.

    Test t uses sample t of its prompts, so a paraphrase that is drawn twice is asked about twice.

    :raises BackendError: if a call could not be made.
    """
    if not candidates:
        return Trust(None, (), fair=False)
    chosen = [draw_candidate(candidates, rng) for _ in range(tests)]
    # The other sentence and the source of each paraphrase.
    pairs = [(sentences[2 - c.source], sentences[c.source - 1]) for c in chosen]
    answers = await asyncio.gather(
        *(
            ask_answer(oracle, sentences_prompt(candidate.text, sentence), sample=sample)
            for sample, (candidate, pair) in enumerate(zip(chosen, pairs, strict=True))
            for sentence in pair
        )
    )
    done = tuple(
        Test(c, to_other, to_own, (overlap(c.text, own), overlap(c.text, other)))
        for c, (other, own), to_other, to_own in zip(chosen, pairs, answers[::2], answers[1::2], strict=True)
    )
    return Trust(None, done, fair=len({c.source for c in candidates}) == 2)
