"""The trust strategy: a "no" is accepted if the oracle passes a test of truthfulness (Zeng et al., figure 4).

The oracle paraphrases both sentences. The test tosses a coin to choose one of the two sentences as the *source*, and
draws a paraphrase p of it. It asks whether p is equivalent to the *other* sentence, then whether p is equivalent to the
source. The test is passed by no, then yes. Two times yes is *triangular evidence*: p is equivalent to both sentences,
but the oracle said that they are not equivalent. All other answers contradict the oracle's own paraphrase and are
counted separately as *inconsistent*. As printed (section 5.2.3), only triangular evidence rejects.

p is *indifferentiable* if it can be aligned with the other sentence. As printed ("whenever possible"), p is drawn from
the indifferentiable paraphrases of both sentences, and from all of them if there are none. With an *even* source, the
coin chooses between the sentences first, and p is an indifferentiable paraphrase of the chosen one if it has any.

**The bound.** Let A be the oracle's answer on (p, sentence 1) and B its answer on (p, sentence 2), with any joint
distribution, and let the coin be fair. If the coin shows 1, A = yes and B = no pass the test. If it shows 2, A = no and
B = yes do. If (A, B) does not depend on the coin, the probability of passing is P(A = yes, B = no) / 2 +
P(A = no, B = yes) / 2 = P(A differs from B) / 2, which is at most 1/2. An oracle that always names the same source
reaches this bound. One that answers at random passes with 1/4, and one that always gives the same answer never passes.

Indifferentiability is meant to ensure that the answers do not depend on the coin; the two questions are separate
conversations with the same wording. The coin is fair if both sentences have paraphrases to draw from. If only one has,
an oracle that names that sentence always passes, and there is no bound. As printed, that also happens if only one
sentence has an indifferentiable paraphrase.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.alignment import Rho
from pytest_llmprops.benchmarks.oracle.replies import Answer, Paraphrases, ask_answer, sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Bound, Oracle
from pytest_llmprops.core.texts import unicode_words

Outcome = Literal["accepted", "triangular", "inconsistent", "unreadable", "untested"]
#: outcome -> its number in records
OUTCOME_CODES: dict[Outcome, int] = {
    "accepted": 1, "triangular": 2, "inconsistent": 3, "unreadable": 4, "untested": 5,
}  # fmt: skip
#: number in a verdict's values -> category of table 5
CATEGORIES = {1: "AI", 2: "ĀI", 3: "AĪ", 4: "ĀĪ"}
#: paraphrases per sentence; prompt 7 asks for as many
PARAPHRASES = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paraphrase that may be drawn.

    :param source: 1 or 2, the sentence that it paraphrases.
    :param rho: its alignments with the other sentence.
    """

    text: str
    source: int
    rho: Rho


@dataclass(frozen=True, slots=True)
class Test:
    """The oracle's answers about a drawn paraphrase and the other sentence, and about it and its source.

    :param overlaps: of the paraphrase's words with those of its source, then of the other sentence (:func:`overlap`).
    :param is_fair: whether both sentences had paraphrases to draw, so that the bound holds.
    """

    __test__ = False  # pytest must not collect this class

    candidate: Candidate
    other: Answer
    own: Answer
    overlaps: tuple[float, float]
    is_fair: bool

    @property
    def outcome(self) -> Outcome:
        """The outcome of the two answers."""
        other, own = self.other.said, self.own.said
        if other is None or own is None:
            return "unreadable"
        if other and own:
            return "triangular"
        return "inconsistent" if other or not own else "accepted"

    @property
    def bound(self) -> Bound:
        """The meaning of passing the test, as a bound."""
        if not self.is_fair:
            only = self.candidate.source
            return Bound(f"no bound: only sentence {only} has paraphrases to draw, so the coin had no choice")
        text = "an oracle whose answers do not depend on the coin passes a test with probability at most 0.5"
        return Bound(text, probability=0.5)


def trust_values(test: Test | None) -> dict[str, float]:
    """Return flat numbers without the suffix for the kind of alignment; see the table in ``equivalence``.

    :param test: None if there was no paraphrase to draw.
    """
    outcome = test.outcome if test else "untested"
    values = {
        "trust": float(OUTCOME_CODES[outcome]),
        "trust_paper": float(outcome in ("accepted", "inconsistent")),
        "fair_coin": float(test is not None and test.is_fair),
    }
    return values | (dict(zip(("overlap_own", "overlap_other"), test.overlaps, strict=True)) if test else {})


def usable(paraphrases: Paraphrases, sentence: str, distance: float = 0.0) -> tuple[str, ...]:
    """Return the first paraphrases, without empty ones, repetitions, and those with the sentence's words.

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


async def trust_test(
    sentences: tuple[str, str], candidates: Sequence[Candidate], oracle: Oracle, rng: random.Random
) -> Test | None:
    """Toss the coin, draw a paraphrase of its source uniformly, and ask; None without a paraphrase to draw.

    :raises BackendError: if a call could not be made.
    """
    sides = [side for source in (1, 2) if (side := [c for c in candidates if c.source == source])]
    if not sides:
        return None
    # Always toss, so that later choices do not depend on the number of sides.
    coin = rng.randrange(2)
    drawn = rng.choice(sides[coin % len(sides)])
    other, own = sentences[2 - drawn.source], sentences[drawn.source - 1]
    to_other, to_own = await asyncio.gather(
        *(ask_answer(oracle, sentences_prompt(drawn.text, sentence)) for sentence in (other, own))
    )
    overlaps = overlap(drawn.text, own), overlap(drawn.text, other)
    return Test(drawn, to_other, to_own, overlaps, is_fair=len(sides) == 2)
