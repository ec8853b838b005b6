"""The search for answers about sentences that contradict each other.

A *contradiction* is a list of answers that cannot all be right, whatever the sentences mean. The caller draws a point
(hypothesis, in ``suites/test_oracle.py``), the property builds sentences from it (``pair_properties``), and asks prompt
5 about them, with the same sample as the measurement. The search has no verdict and no bound. It keeps the shortest
contradiction.

A reply at a temperature above 0 may differ when the question is asked again. The questions of the shortest
contradiction are therefore asked again with new samples. If fewer than half of these replications give the same
answers, it may be noise: the most frequent answer to each question then counts, and the search goes on.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.json_reply import Answer, ask_answer, ask_paraphrases
from pytest_llmprops.benchmarks.oracle.linear_tests import FIRST_REPLICATED
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairCounterexample, PairEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import sentences_prompt
from pytest_llmprops.benchmarks.oracle.reduction import Reducible
from pytest_llmprops.benchmarks.oracle.replicated_search import ReplicatedSearch
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.trees import Span
from pytest_llmprops.benchmarks.oracle.trust import usable
from pytest_llmprops.core.benchmark import Counterexample
from pytest_llmprops.core.texts import unicode_words

#: choices for a part of a sentence: 0 leaves it out, all others keep it, so that most points keep most parts
PART = 8
#: maximum requests of a question: the question, and one request to repair an unreadable reply
REQUESTS = 2
#: maximum claims of a contradiction
MOST_CLAIMS = 3


class Spent(Exception):
    """The next question might exceed the limit of requests."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The model's answer about two sentences: True for equivalent."""

    first: str
    second: str
    said: bool


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Claims that cannot all be right.

    :param why: one phrase that names the sentences and the answers.
    :param edits: the names of the edits that made one of the sentences from another one.
    :param cost: what is smaller is reported.
    """

    why: str
    claims: tuple[Claim, ...]
    edits: tuple[str, ...] = ()
    cost: tuple[int, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The different sentences, in the order of the claims."""
        return tuple(dict.fromkeys(s for claim in self.claims for s in (claim.first, claim.second)))


@dataclass
class PairSearch(ReplicatedSearch[Contradiction]):
    """A property of the model's answers about two sentences and sentences made from them.

    :param first, second: the sentences of the pair.
    :param paraphrases: maximum paraphrases per sentence.
    :param most: maximum number of requests to the model, except the replications of the last contradiction. Requests
        answered from a reply store count too, so that a repeated search takes the same path.
    :ivar smallest: the contradiction with the smallest ``cost``, then the first.
    """

    first: Reducible
    second: Reducible
    oracle: Oracle
    paraphrases: int
    most: int
    #: the answers about two sentences; more than one after a replication
    _answers: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    _paraphrases: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    @abstractmethod
    def size(self) -> tuple[int, ...]:
        """The number of choices for each number of a point. The first numbers are shrunk first, so parts come first."""

    @abstractmethod
    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        """Return the contradiction at a point, or None."""

    async def holds(self, *point: int) -> bool | None:
        """Return whether there is no contradiction at ``point``; None if that takes too many requests.

        :raises BackendError: if a call could not be made.
        """
        try:
            contradiction = await self.contradiction(point)
        except Spent:
            return None
        if contradiction is None:
            return True
        found = replace(contradiction, cost=(*(contradiction.cost or _length(contradiction)), *point))
        if self.smallest is None or found.cost < self.smallest.cost:
            self.smallest = found
        return False

    async def _replicated(self, violation: Contradiction) -> Counterexample:
        """Ask the questions of a contradiction again, and count how often all answers are the same again."""
        described = self._described(violation)
        again = await asyncio.gather(*(self._again(claim) for claim in violation.claims))
        repeated = sum(
            all(answer.said is claim.said for claim, answer in zip(violation.claims, answers, strict=True))
            for answers in zip(*again, strict=True)
        )
        return replace(described, replications=self.replications, replicated=repeated)

    async def _again(self, claim: Claim) -> Sequence[Answer]:
        known = self._answers[claim.first, claim.second]
        first = FIRST_REPLICATED + len(known) - 1
        prompt = sentences_prompt(claim.first, claim.second)
        questions = (ask_answer(self.oracle, prompt, sample=first + n) for n in range(self.replications))
        answers = await asyncio.gather(*questions)
        known += answers
        return answers

    def _described(self, found: Contradiction) -> Counterexample:
        place = {sentence: number for number, sentence in enumerate(found.sentences, 1)}
        words = [(claim, "yes" if claim.said else "no") for claim in found.claims]
        shown = PairCounterexample(
            found.sentences,
            tuple((place[claim.first], place[claim.second], word) for claim, word in words),
            found.edits,
        )
        evidence = [
            PairEvidence(claim.first, claim.second, word, self._explanation(claim)).to_json()
            for claim, word in words
        ]
        return Counterexample(found.why, shown.to_json(), {"answers": evidence})

    def _explanation(self, claim: Claim) -> str:
        answers = self._answers[claim.first, claim.second]
        return next((answer.explanation for answer in answers if answer.said is claim.said), "")

    # ---- questions

    async def said(self, first: str, second: str) -> bool | None:
        """Return the model's answer, the most frequent of several; None if it cannot be read.

        :raises Spent: if it may take too many requests.
        """
        if (first, second) not in self._answers:
            self._reserve()
            self._answers[first, second] = [await ask_answer(self.oracle, sentences_prompt(first, second))]
        return _most_frequent(self._answers[first, second])

    async def are(self, *claims: Claim) -> bool:
        """Return whether the model answers as in all ``claims``. It is not asked further after another answer."""
        for claim in claims:
            if await self.said(claim.first, claim.second) is not claim.said:
                return False
        return True

    async def paraphrase(self, text: str, number: int) -> str | None:
        """Return one of the model's own paraphrases of a sentence; None if there is none with this number.

        :raises Spent: if it may take too many requests.
        """
        if text not in self._paraphrases:
            self._reserve()
            reply = await ask_paraphrases(self.oracle, text)
            self._paraphrases[text] = usable(reply, text, self.paraphrases)
        return next(iter(self._paraphrases[text][number : number + 1]), None)

    def _reserve(self) -> None:
        if self.oracle.asked + REQUESTS > self.most:
            raise Spent

    # ---- shorter sentences

    @property
    def part_choices(self) -> tuple[int, ...]:
        """The choices for the parts of both sentences."""
        return (PART,) * (len(self.first.parts) + len(self.second.parts))

    def reduced(self, choices: Sequence[int]) -> tuple[Reducible, Reducible]:
        """Return both sentences without the parts whose choice is 0."""
        count = len(self.first.parts)
        return _kept(self.first, choices[:count]), _kept(self.second, choices[count:])


def same_words(first: str, second: str) -> bool:
    """Return whether two sentences have the same words, folded and without punctuation."""
    return unicode_words(first) == unicode_words(second)


def _most_frequent(answers: Sequence[Answer]) -> bool | None:
    """Return the most frequent answer that can be read; of two as frequent, the first."""
    said = [answer.said for answer in answers if answer.said is not None]
    return max(said, key=said.count, default=None)


def _kept(sentence: Reducible, choices: Sequence[int]) -> Reducible:
    dropped: set[Span] = {part for part, choice in zip(sentence.parts, choices, strict=True) if not choice}
    return sentence.without(dropped)


def _length(contradiction: Contradiction) -> tuple[int, int]:
    """Return the words of the sentences, then their characters."""
    words = sum(len(unicode_words(sentence)) for sentence in contradiction.sentences)
    return words, sum(map(len, contradiction.sentences))
