"""The trust strategy: a "no" is accepted when the oracle passes a test of truthfulness (Zeng et al., figure 4).

The oracle paraphrases both sentences. A test tosses a coin for the *source* a of the two sentences, takes a paraphrase
p of it, and asks whether p is equivalent to the *other* sentence, then whether to a. Passed: no, then yes. Two times
yes is *triangular evidence*: p is equivalent to both sentences that are said not to be. Any other pair of answers
contradicts the oracle's own paraphrase, and is counted apart as *inconsistent*; under the paper's rule (``paper``)
only triangular evidence rejects.

Which p: an *indifferentiable* one, that can be aligned to the other sentence, where there is any; else any.

**The bound.** Let A be the oracle's answer on (p, sentence 1) and B that on (p, sentence 2), of any joint
distribution, and let the coin be fair. When the coin shows 1, the test is passed by A = yes, B = no; when it shows 2,
by A = no, B = yes. If (A, B) does not depend on the coin, the test is passed with probability
P(A = yes, B = no) / 2 + P(A = no, B = yes) / 2 = P(A differs from B) / 2, at most 1/2. In test t this holds whatever
the answers before it were, as that test's coin is independent of them; so n tests are passed with probability at most
2^-n. An oracle that always names the same source reaches it; one that answers at random passes with 4^-n; one that
always answers the same never does. That an oracle's answers do not depend on the coin is what indifferentiability is
to ensure: p, which does, tells it nothing. The two questions are separate conversations in the same words, so that it
cannot see which is which. The coin is fair where both sentences have paraphrases to draw from. Where only one has, the
coin has no choice, naming that sentence passes every test, and there is no bound.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.json_reply import Answer, Paraphrases, ask_answer
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Bound, Oracle
from pytest_llmprops.core.words import unicode_words

Outcome = Literal["accepted", "triangular", "inconsistent", "unreadable", "untested"]
#: numbers of the outcomes in records
OUTCOME_CODES: dict[Outcome, int] = {
    "accepted": 1,
    "triangular": 2,
    "inconsistent": 3,
    "unreadable": 4,
    "untested": 5,
}
Category = Literal["AI", "ĀI", "AĪ", "ĀĪ"]
#: numbers of table 5's categories in records, in the paper's order of priority
CATEGORY_CODES: dict[Category, int] = {"AI": 1, "ĀI": 2, "AĪ": 3, "ĀĪ": 4}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paraphrase that may be drawn.

    :param source: 1 or 2, the sentence that it paraphrases.
    :param phi_or: aligned with the other sentence by at least one alignment; :param phi_and: in both directions.
    """

    text: str
    source: int
    phi_or: bool = False
    phi_and: bool = False


@dataclass(frozen=True, slots=True)
class Test:
    """One toss of the coin: the paraphrase, and the oracle's answers about the other sentence and about its own."""

    __test__ = False  # no test case of pytest's

    candidate: Candidate
    other: Answer
    own: Answer

    @property
    def outcome(self) -> Outcome:
        """See :func:`judged`."""
        return judged(self.other.said, self.own.said)


@dataclass(frozen=True, slots=True)
class Trust:
    """The tests of one "no".

    :param category: table 5's; None where indifferentiable paraphrases were not sought.
    :param fair: the coin had a choice, so that the bound holds.
    """

    category: Category | None
    tests: tuple[Test, ...]
    fair: bool

    @property
    def outcome(self) -> Outcome:
        """``accepted`` when every test was passed; else what is worst: triangular evidence before the rest."""
        if not self.tests:
            return "untested"
        found = {test.outcome for test in self.tests}
        worst: tuple[Outcome, ...] = ("triangular", "inconsistent", "unreadable")
        return next((outcome for outcome in worst if outcome in found), "accepted")

    @property
    def accepted_by_paper(self) -> bool:
        """Whether nothing is triangular evidence, which alone rejects in the paper.

        False where that is not known: without a test, or where an answer cannot be read.
        """
        return self.outcome in ("accepted", "inconsistent")

    @property
    def bound(self) -> Bound:
        """What passing is worth."""
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
        """Flat numbers, without the suffix that names the kind of alignment: see the table of ``paraphrase``."""
        outcomes = [test.outcome for test in self.tests]
        return {
            "category": float(CATEGORY_CODES[self.category]) if self.category else 0.0,
            "trust": float(OUTCOME_CODES[self.outcome]),
            "trust_paper": float(self.accepted_by_paper),
            "tests": float(len(self.tests)),
            "passed": float(outcomes.count("accepted")),
            "triangular": float(outcomes.count("triangular")),
            "inconsistent": float(outcomes.count("inconsistent")),
            "fair_coin": float(self.fair),
        }


def judged(other: bool | None, own: bool | None) -> Outcome:
    """One test by its answers: on (paraphrase, other sentence), then on (paraphrase, its own source)."""
    if other is None or own is None:
        return "unreadable"
    if other and own:
        return "triangular"
    return "inconsistent" if other or not own else "accepted"


def usable(found: Paraphrases, sentence: str, limit: int) -> tuple[str, ...]:
    """The first ``limit`` paraphrases, without those that say the sentence's own words, repeat one, or have none.

    Words are compared folded and without punctuation (``core.words``).
    """
    known = {tuple(unicode_words(sentence)), ()}
    kept: list[str] = []
    for text in found.texts[:limit]:
        words = tuple(unicode_words(text))
        if words not in known:
            known.add(words)
            kept.append(text)
    return tuple(kept)


def category_of(aligned: bool, indifferentiable: bool) -> Category:
    """Table 5's category: whether the sentences are aligned, whether there is an indifferentiable paraphrase."""
    if indifferentiable:
        return "AI" if aligned else "ĀI"
    return "AĪ" if aligned else "ĀĪ"


def drawn(candidates: Sequence[Candidate], rng: random.Random) -> Candidate:
    """A coin for the source, where both have candidates, then one of its candidates, each as likely.

    :raises ValueError: without candidates.
    """
    sides = [[c for c in candidates if c.source == source] for source in (1, 2)]
    filled = [side for side in sides if side]
    if not filled:
        raise ValueError("no paraphrase to draw from")
    # One toss in any case, so that later choices do not depend on how many sides there are.
    coin = rng.randrange(2)
    return rng.choice(filled[coin % len(filled)])


async def put_to_the_test(
    sentences: tuple[str, str],
    candidates: Sequence[Candidate],
    oracle: Oracle,
    rng: random.Random,
    tests: int,
    *,
    category: Category | None = None,
) -> Trust:
    """Draw ``tests`` paraphrases, with replacement, and ask about each, all at once.

    Test t asks sample t of its prompts, so that drawing a paraphrase again asks again.

    :raises BackendError: a call could not be made.
    """
    if not candidates:
        return Trust(category, (), fair=False)
    chosen = [drawn(candidates, rng) for _ in range(tests)]
    questions = []
    for sample, candidate in enumerate(chosen):
        own = sentences[candidate.source - 1]
        other = sentences[2 - candidate.source]
        questions += [
            ask_answer(oracle, sentences_prompt(candidate.text, s), sample=sample) for s in (other, own)
        ]
    answers = await asyncio.gather(*questions)
    done = tuple(
        Test(candidate, answers[2 * index], answers[2 * index + 1]) for index, candidate in enumerate(chosen)
    )
    return Trust(category, done, fair=len({c.source for c in candidates}) == 2)
