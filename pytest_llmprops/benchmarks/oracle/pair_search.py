"""The search for answers about sentences that contradict each other, or what an edit of a sentence is known to say.

A *contradiction* is a list of answers that cannot all be right, whatever the sentences mean; a single answer, if the
second sentence is an edit of the first. The caller draws a point
(hypothesis, in ``suites/test_oracle.py``), the property builds sentences from it (``PAIR_PROPERTIES``), and asks prompt
5 about them, with the same sample as the measurement. The search has no verdict and no bound. It keeps the shortest
contradiction.

A reply at a temperature above 0 may differ when the question is asked again. The questions of the shortest
contradiction are therefore asked again with new samples. If at most 60% of these replications give the same answers, it
is no counterexample: the most frequent answer to each question then counts, and the search goes on.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from rapidfuzz.distance import Levenshtein

from pytest_llmprops.benchmarks.oracle.edits import KINDS, minimal_edits
from pytest_llmprops.benchmarks.oracle.items import EDIT, NO, SELF, SYMMETRY, TRANSITIVITY, YES
from pytest_llmprops.benchmarks.oracle.neutral_edits import EDITS, edited, neutral_edits
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairCounterexample, PairEvidence
from pytest_llmprops.benchmarks.oracle.reduction import Reducible
from pytest_llmprops.benchmarks.oracle.replies import Answer, ask_answer, ask_paraphrases, sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.trees import Span
from pytest_llmprops.benchmarks.oracle.trust import usable
from pytest_llmprops.core.benchmark import Counterexample
from pytest_llmprops.core.searches import FIRST_REPLICATED, ReplicatedSearch
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
        """Return True if there is no contradiction at ``point``; None if that takes too many requests.

        :raises BackendError: if a call could not be made.
        """
        try:
            contradiction = await self.contradiction(point)
        except Spent:
            return None
        if contradiction is None or not self._counts(contradiction):
            return True
        found = replace(contradiction, cost=(*(contradiction.cost or _length(contradiction)), *point))
        if self.smallest is None or found.cost < self.smallest.cost:
            self.smallest = found
        return False

    def _key(self, violation: Contradiction) -> Hashable:
        return violation.claims

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
        """Return True if the model answers as in all ``claims``. It is not asked further after another answer."""
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
    """Return True if two sentences have the same words, folded and without punctuation."""
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


# Properties of answers about pairs of sentences, for the search in ``pair_search``.
#
# =================  ==================================================================================================
# ``no``             If the model says that two sentences are not equivalent, it does not call one paraphrase of one of
#                    them equivalent to both (*triangular evidence*, as in ``trust``). The second sentence may also be a
#                    minimal edit of the first, which is known to say something else.
# ``yes``            If the model says that two sentences are equivalent, it still does after neutral edits
#                    (``benchmarks/oracle/neutral_edits.py``).
# ``symmetry``       The answer about two sentences is the same in the other order.
# ``transitivity``   If a and b, and b and c, are equivalent, then so are a and c.
# ``edit``           A sentence and its minimal edit (``edits.minimal_edits``) are not equivalent.
# ``self``           A sentence and its paraphrase are equivalent.
# =================  ==================================================================================================
#
# Except in ``yes``, parts of the sentences may be left out (``reduction``): the property needs no knowledge of what
# they mean, or holds for a shorter sentence, too. A paraphrase is a neutral edit or the model's own. If the model's
# own paraphrase is bad, the model contradicts itself all the same.


@dataclass(frozen=True, slots=True)
class _Made:
    """A sentence made from another one, how in words, and the name of the edit, if it is one."""

    text: str
    how: str
    edits: tuple[str, ...] = ()


class _Paraphrasing(PairSearch):
    """A search with paraphrases. Two numbers of a point select one.

    The first is 0 for a neutral edit, otherwise one of the model's own. The second is the edit, of those that fit one
    of the two sentences.
    """

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the neutral edits."""
        fitting = {*neutral_edits(self.first.text), *neutral_edits(self.second.text)}
        return tuple(name for name in EDITS if name in fitting)

    @property
    def edit_choices(self) -> int:
        """The number of choices for a neutral edit."""
        return max(len(self.names), 1)

    async def made(self, text: str, choice: int, edit: int, of: str) -> _Made | None:
        """Return a paraphrase of ``text``; None if there is none for these numbers.

        :param of: what ``text`` is called in the description.
        """
        if choice:
            own = await self.paraphrase(text, choice - 1)
            return None if own is None else _Made(own, f"its paraphrase of {of}")
        name = self.names[edit] if self.names else ""
        new = EDITS[name](text) if name else None
        return None if new is None else _Made(new, f"{of}, edited: {name}", (name,))


def _changed(sentence: Reducible, kind: str) -> str | None:
    """Return a minimal edit of a sentence."""
    return minimal_edits(sentence.parsed).get(kind) if sentence.parsed else None


class NoSearch(_Paraphrasing):
    """A point: parts; source of the paraphrase; second sentence or minimal edit, kind of edit; paraphrase.

    A minimal edit is one of the source, which is then the first sentence.
    """

    @property
    def size(self) -> tuple[int, ...]:
        return *self.part_choices, 2, 2, len(KINDS), 1 + self.paraphrases, self.edit_choices

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, source, is_edit, kind, choice, edit = point
        first, second = self.reduced(parts)
        own, other = (second.text, first.text) if source else (first.text, second.text)
        pair, of, second_is = (first.text, second.text), "the second" if source else "the first", ""
        if is_edit:
            changed = _changed(second if source else first, KINDS[kind])
            if changed is None:
                return None
            other, pair, of, second_is = (
                changed,
                (own, changed),
                "the first",
                f" (the first, edited: {KINDS[kind]})",
            )
        if same_words(*pair) or await self.said(*pair) is not False:
            return None
        made = await self.made(own, choice, edit, of)
        if made is None:
            return None
        claims = Claim(*pair, False), Claim(made.text, other, True), Claim(made.text, own, True)
        if not await self.are(*claims):
            return None
        why = f'no to "{pair[0]}" and "{pair[1]}"{second_is}, but yes to "{made.text}" ({made.how}) with both of them'
        return Contradiction(why, claims, (*((KINDS[kind],) if is_edit else ()), *made.edits))


class YesSearch(PairSearch):
    """A point: whether each neutral edit of the first sentence, then of the second, is made; the largest first."""

    @cached_property
    def edits(self) -> tuple[tuple[int, str], ...]:
        """The sentences (0 or 1) and the names of their edits."""
        return tuple(
            (number, name)
            for number, sentence in enumerate((self.first, self.second))
            for name in reversed([*neutral_edits(sentence.text)])
        )

    @property
    def size(self) -> tuple[int, ...]:
        return (2,) * len(self.edits)

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        made = [edit for edit, choice in zip(self.edits, point, strict=True) if choice]
        before = self.first.text, self.second.text
        first, second = (
            edited(text, [name for name in EDITS if (number, name) in made])
            for number, text in enumerate(before)
        )
        claims = Claim(*before, True), Claim(first, second, False)
        if not await self.are(*claims):
            return None
        names = tuple(name for _, name in made)
        changed = Levenshtein.distance(before[0], first) + Levenshtein.distance(before[1], second)
        why = (
            f'yes to "{before[0]}" and "{before[1]}", but no to "{first}" and "{second}" ({", ".join(names)})'
        )
        return Contradiction(why, claims, names, (len(made), changed))


class SymmetrySearch(PairSearch):
    """A point: parts of both sentences; second sentence or minimal edit of the first, kind of edit."""

    @property
    def size(self) -> tuple[int, ...]:
        return *self.part_choices, 2, len(KINDS)

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, is_edit, kind = point
        first, second = self.reduced(parts)
        other = _changed(first, KINDS[kind]) if is_edit else second.text
        if other is None or same_words(first.text, other):
            return None
        said = await self.said(first.text, other)
        if said is None:
            return None
        claims = Claim(first.text, other, said), Claim(other, first.text, not said)
        if not await self.are(*claims):
            return None
        one, two = ("yes", "no") if said else ("no", "yes")
        why = f'{one} to "{first.text}" and "{other}", but {two} to the same sentences in the other order'
        return Contradiction(why, claims, (KINDS[kind],) if is_edit else ())


class TransitivitySearch(_Paraphrasing):
    """A point: parts; which sentence is a; b and c, each the other sentence (0) or a paraphrase of the one before."""

    @property
    def size(self) -> tuple[int, ...]:
        paraphrase = 2 + self.paraphrases, self.edit_choices
        return *self.part_choices, 2, *paraphrase, *paraphrase

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, start, middle, middle_edit, end, end_edit = point
        reduced = self.reduced(parts)
        a, other = reduced[start].text, _Made(reduced[1 - start].text, "the other sentence of the pair")
        b = await self.made(a, middle - 1, middle_edit, "the first") if middle else other
        if b is None:
            return None
        c = await self.made(b.text, end - 1, end_edit, "the second") if end else other
        if c is None or len({a, b.text, c.text}) < 3 or await self.said(a, c.text) is not False:
            return None
        claims = Claim(a, b.text, True), Claim(b.text, c.text, True), Claim(a, c.text, False)
        if not await self.are(*claims):
            return None
        why = (
            f'yes to "{a}" and "{b.text}" ({b.how}), yes to the second and "{c.text}" ({c.how}), but no to the first'
            " and the third"
        )
        return Contradiction(why, claims, b.edits + c.edits)


class EditSearch(PairSearch):
    """A point: parts of both sentences; the sentence, the kind of its minimal edit."""

    @property
    def size(self) -> tuple[int, ...]:
        return *self.part_choices, 2, len(KINDS)

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, number, kind = point
        sentence = self.reduced(parts)[number]
        changed = _changed(sentence, KINDS[kind])
        if changed is None:
            return None
        claim = Claim(sentence.text, changed, True)
        if not await self.are(claim):
            return None
        why = f'yes to "{sentence.text}" and "{changed}" (edited: {KINDS[kind]})'
        return Contradiction(why, (claim,), (KINDS[kind],))


class SelfSearch(_Paraphrasing):
    """A point: parts of both sentences; the sentence; its paraphrase, a neutral edit first."""

    @property
    def size(self) -> tuple[int, ...]:
        return *self.part_choices, 2, 1 + self.paraphrases, self.edit_choices

    async def contradiction(self, point: tuple[int, ...]) -> Contradiction | None:
        *parts, number, choice, edit = point
        text = self.reduced(parts)[number].text
        made = await self.made(text, choice, edit, "the first")
        if made is None:
            return None
        claim = Claim(text, made.text, False)
        if not await self.are(claim):
            return None
        return Contradiction(f'no to "{text}" and "{made.text}" ({made.how})', (claim,), made.edits)


PAIR_PROPERTIES: Mapping[str, type[PairSearch]] = {
    NO: NoSearch,
    YES: YesSearch,
    SYMMETRY: SymmetrySearch,
    TRANSITIVITY: TransitivitySearch,
    EDIT: EditSearch,
    SELF: SelfSearch,
}
