"""Searches for counterexamples to an accepted answer: to linearity, to a "no", and to symmetry.

The caller draws the points (hypothesis, in ``suites/test_oracle.py``). A search has no verdict and no bound, because
its points are not drawn uniformly. A rejected answer is not searched: its measurement is the counterexample.

A reply at a temperature above 0 may differ when the question is asked again. The questions of the smallest violation
are therefore asked up to five times again with new samples, until they can no longer repeat in more than three of five.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from pytest_llmprops.benchmarks.oracle.extraction import Samples
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, SYMMETRY
from pytest_llmprops.benchmarks.oracle.linearity import (
    LinearityChecker,
    Prepared,
    Replies,
    Sentence,
    Subject,
    complement,
    draw_pairs,
    failing_bits,
)
from pytest_llmprops.benchmarks.oracle.replies import ask_answer, ask_paraphrases, sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.benchmarks.oracle.trust import usable
from pytest_llmprops.core.benchmark import Counterexample

#: number of the first sample of a replication, above those of any measurement
FIRST_REPLICATED = 500_000
#: how often a violation is asked about again
REPLICATIONS = 5
#: of these, how many may not repeat it
_MOST_FAILED = 1
#: samples of each sentence in a replication
_AGAIN = 3
#: the share of a measurement's calls that a search may take
_SHARE = 4
#: requests of a search on a pair
PAIR_CALLS = {NO: 2, SYMMETRY: 1}
#: One in so many pairs is searched for triangular evidence. A no takes at least five calls, so the searches of all such
#: answers take at most 6 of 25.
_EVERY = 5


def pair_search(item_id: str) -> str:
    """Return the property that is searched on a pair: one of the two, so that searches take few calls."""
    return NO if crc32(item_id.encode()) % _EVERY == 0 else SYMMETRY


def sentence_calls(settings: OracleSettings, changed: int) -> int:
    """Return the maximum requests of a search on a sentence with ``changed`` measured changed sentences."""
    return settings.samples * (1 + changed) // _SHARE


def most_calls(settings: OracleSettings, name: str) -> int:
    """Return the maximum requests of any search for a property, without the replications of a violation."""
    return sentence_calls(settings, 3 * settings.tests) if name == LINEARITY else PAIR_CALLS[name]


async def repeated(asked_again: Callable[[int], Awaitable[bool]]) -> tuple[int, int]:
    """Ask again until it is decided whether a violation repeats; return how often it was asked, and was repeated.

    :param asked_again: number of the replication -> whether the violation occurs again.
    """
    done = found = 0
    while done < REPLICATIONS and done - found <= _MOST_FAILED:
        found += await asked_again(done)
        done += 1
    return done, found


@dataclass
class LinearitySearch:
    """The function f on a sentence whose extraction was accepted.

    On the measured vectors, f is known: it is the complement of the vector. Any other vector is asked about once, and
    where that is not its complement, twice more; f(x) then has the majority of each bit.

    :param most: maximum number of requests; only a vector that is looked at again may exceed it, by two.
    """

    prepared: Prepared
    replies: Replies
    known: dict[int, int | None]
    most: int
    asked: int = 0
    violations: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def subject(self) -> Subject:
        """The sentence with its entities."""
        return self.prepared.subject

    @property
    def size(self) -> int:
        """The length of the vectors."""
        return self.subject.m

    async def holds(self, *point: int) -> bool | None:
        """Return True if f(x XOR y) = f(x) XNOR f(y) for the ``point`` (x, y); None if that takes too many requests.

        A reply that cannot be read is not a violation.

        :raises BackendError: if a call could not be made.
        """
        x, y = point
        new = {x, y, x ^ y} - self.known.keys()
        if self.asked + len(new) > self.most:
            return None
        self.asked += len(new)
        self.known |= zip(new, await asyncio.gather(*map(self._value, new)), strict=True)
        bits = self._failing([self.known[z] for z in (x, y, x ^ y)])
        if bits:
            self.violations[x, y] = bits
        return not bits

    async def _value(self, z: int) -> int | None:
        first = await self.replies.fresh(z, 0, 1)
        value = _majority(first, self.subject)
        if value == complement(z, self.size):
            return value
        self.asked += 2
        more = await self.replies.fresh(z, 1, 2)
        both = Samples(first.text, first.readings + more.readings, first.refused + more.refused)
        return _majority(both, self.subject)

    def _failing(self, values: Sequence[int | None]) -> int:
        fx, fy, fxy = values
        return 0 if fx is None or fy is None or fxy is None else failing_bits(fx, fy, fxy, self.size)

    async def counterexample(self) -> Counterexample | None:
        """Return the violation with the fewest replaced entities, and how often it repeats.

        :raises BackendError: if a call could not be made.
        """
        if not self.violations:
            return None
        (x, y), bits = min(self.violations.items(), key=lambda violation: _size_of(*violation[0]))
        done, found = await repeated(lambda number: self._repeats(x, y, bits, number))
        names = [entity.name for entity in self.subject.tested]
        x_names, y_names, lost = ([n for i, n in enumerate(names) if z >> i & 1] for z in (x, y, bits))
        replaced = (x | y).bit_count()
        why = (
            f"{replaced} of {self.size} entities replaced (x: {_list(x_names)}; y: {_list(y_names)});"
            f" the extraction of {_list(lost)} depends on the others"
        )
        values = {"x": x_names, "y": y_names, "replaced": replaced, "entities": self.size, "culprits": lost}
        return Counterexample(why, values, dict(self.prepared.evidence), done, found)

    async def _repeats(self, x: int, y: int, bits: int, number: int) -> bool:
        """Return True if the test fails again on one of the same bits, by the majority of new samples."""
        first = FIRST_REPLICATED + number * _AGAIN
        fresh = await asyncio.gather(*(self.replies.fresh(z, first, _AGAIN) for z in (x, y, x ^ y)))
        return bool(self._failing([_majority(samples, self.subject) for samples in fresh]) & bits)


def _size_of(x: int, y: int) -> tuple[int, int, int, int]:
    """Return the sort key of violations: replaced entities, total bits of x and y, then x and y."""
    return (x | y).bit_count(), x.bit_count() + y.bit_count(), x, y


def _majority(samples: Samples, subject: Subject) -> int | None:
    """Return the value of f with the majority of each bit; None if no reply could be read."""
    vectors = [subject.vector(names) for names in samples.sets]
    if not vectors:
        return None
    return sum(1 << i for i in range(subject.m) if 2 * sum(v >> i & 1 for v in vectors) > len(vectors))


async def linearity_search(
    checker: LinearityChecker, text: str, oracle: Oracle, rng: random.Random
) -> LinearitySearch | str:
    """Return the search on the sentence ``text``, or why there is nothing to search, in one phrase.

    :param rng: the generator of the measurement: with it, its requests and replacements are the same, and come from the
        reply store.
    :raises BackendError: if a call could not be made.
    """
    pool_seed, test_seed = rng.getrandbits(64), rng.getrandbits(64)
    prepared = await checker.prepare(Sentence(text), oracle, pool_seed)
    if prepared.stopped is not None:
        return prepared.stopped.why
    m, settings = prepared.subject.m, checker.settings
    pairs = draw_pairs(settings, random.Random(test_seed), m)
    known: dict[int, int | None] = {z: complement(z, m) for x, y in pairs for z in (0, x, y, x ^ y)}
    replies = Replies(prepared.subject, oracle, settings, prepared.original)
    return LinearitySearch(prepared, replies, known, sentence_calls(settings, len(known) - 1))


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "none"


@dataclass(frozen=True, slots=True)
class Claim:
    """The model's answer about two sentences: True for equivalent."""

    first: str
    second: str
    said: bool

    @property
    def word(self) -> str:
        """The answer in words."""
        return "yes" if self.said else "no"


@dataclass
class PairSearch:
    """A property of the model's answers about a pair.

    :param measured: the accepted answer about the pair.
    :param points: answers to further questions. Those of a point cannot all be right together with the measured one.
    :param why: says what the claims of a point contradict, in one phrase.
    :ivar found: the claims of the first point that is violated.
    """

    measured: Claim
    points: Sequence[tuple[Claim, ...]]
    why: Callable[[Claim, tuple[Claim, ...]], str]
    oracle: Oracle
    most: int
    asked: int = 0
    found: tuple[Claim, ...] = ()
    _known: dict[int, bool] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int]:
        """The number of points."""
        return (len(self.points),)

    async def holds(self, *point: int) -> bool | None:
        """Return True if the answers at a point can all be right; None if that takes too many requests.

        :raises BackendError: if a call could not be made.
        """
        [place] = point
        claims = self.points[place]
        if place not in self._known:
            if self.asked + len(claims) > self.most:
                return None
            self.asked += len(claims)
            self._known[place] = not await self._are_made(claims, 0)
            if not self._known[place]:
                self.found = self.found or claims
        return self._known[place]

    async def _are_made(self, claims: Sequence[Claim], sample: int) -> bool:
        """Ask about the sentences of claims, and return True if the answers are the claims."""
        answers = await asyncio.gather(
            *(ask_answer(self.oracle, sentences_prompt(c.first, c.second), sample=sample) for c in claims)
        )
        return all(answer.said is claim.said for answer, claim in zip(answers, claims, strict=True))

    async def counterexample(self) -> Counterexample | None:
        """Return the contradiction, and how often it repeats.

        :raises BackendError: if a call could not be made.
        """
        if not self.found:
            return None
        claims = (self.measured, *self.found)
        done, found = await repeated(lambda number: self._are_made(claims, FIRST_REPLICATED + number))
        sentences = list(dict.fromkeys(s for claim in claims for s in (claim.first, claim.second)))
        place = {sentence: number for number, sentence in enumerate(sentences, 1)}
        answers = [[place[claim.first], place[claim.second], claim.word] for claim in claims]
        values = {"sentences": sentences, "answers": answers}
        return Counterexample(self.why(self.measured, self.found), values, {}, done, found)


def _why_triangular(measured: Claim, found: tuple[Claim, ...]) -> str:
    return (
        f'no to "{measured.first}" and "{measured.second}", but yes to "{found[0].first}" with both of them'
    )


def _why_asymmetric(measured: Claim, found: tuple[Claim, ...]) -> str:
    texts = f'"{measured.first}" and "{measured.second}"'
    return f"{measured.word} to {texts}, but {found[0].word} to the same sentences in the other order"


async def pair_search_of(
    name: str, first: str, second: str, said: bool, oracle: Oracle, settings: OracleSettings
) -> PairSearch | str:
    """Return the search for a property of a pair, or why there is nothing to search, in one phrase.

    A "no" is contradicted by a paraphrase that the model calls equivalent to both sentences (*triangular evidence*).
    Symmetry is contradicted by another answer in the other order.

    :param said: the accepted answer. The paraphrases of a no are those of its measurement.
    :raises BackendError: if a call could not be made.
    """
    measured = Claim(first, second, said)
    if name == SYMMETRY:
        return PairSearch(
            measured, [(Claim(second, first, not said),)], _why_asymmetric, oracle, PAIR_CALLS[SYMMETRY]
        )
    if said:
        return "its answer is yes"
    replies = await asyncio.gather(*(ask_paraphrases(oracle, text) for text in (first, second)))
    points = [
        (Claim(text, other, True), Claim(text, own, True))
        for reply, own, other in zip(replies, (first, second), (second, first), strict=True)
        for text in usable(reply, own, settings.distance)
    ]
    if not points:
        return "no paraphrase can be used"
    return PairSearch(measured, points, _why_triangular, oracle, PAIR_CALLS[NO])
