"""One linearity test on one sentence: f(x XOR y) = f(x) XNOR f(y) (Zeng, Wang & Ibbetson, sections 3 and 5.1).

:class:`Subject` is a sentence with the entities and synonyms that the bits of a vector refer to. :class:`Replies`
samples the extraction of R(x) several times. :func:`linear_at` is the property itself, for measurement and search.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import PROMPT, Names, Samples, most_frequent, samples_of
from pytest_llmprops.benchmarks.oracle.replacement import (
    Transformed,
    paraphrase_prompt,
    read_paraphrase,
    replaced,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.linearity import passing_combinations

#: a test passes if any combination of samples does (the paper's rule), the most frequent sets do, or the first samples
Rule = Literal["any", "majority", "single"]
#: requests for a paraphrase that keeps the entities, before the sentence is used without a paraphrase
PARAPHRASE_TRIES = 3


@dataclass(frozen=True)
class Subject:
    """A sentence, the answer for it, and the synonyms of the entities in the vectors.

    :param answer: all entities of the answer.
    :param synonyms: one per bit of the vectors, in order.
    """

    sentence: str
    answer: tuple[Entity, ...]
    synonyms: tuple[Synonym, ...]

    @property
    def m(self) -> int:
        """Length of the vectors."""
        return len(self.synonyms)

    @property
    def tested(self) -> tuple[Entity, ...]:
        """The entities in the vectors."""
        return tuple(synonym.entity for synonym in self.synonyms)

    def transformed(self, x: int) -> Transformed:
        """Return R(x), before any paraphrase."""
        return replaced(self.sentence, self.tested, [synonym.text for synonym in self.synonyms], x)

    def vector(self, names: Names) -> int:
        """Return an answer set as an element of G2: u_i = 0 exactly if it contains the synonym e'_i."""
        return sum(1 << i for i, synonym in enumerate(self.synonyms) if synonym.key not in names)

    def due(self, i: int, x: int) -> str:
        """Return the normalised name of entity i in R(x)."""
        return self.synonyms[i].key if x >> i & 1 else self.synonyms[i].entity.key

    def lost(self, names: Names) -> int:
        """Count the entities that an answer set contains in neither form."""
        return sum(not ({s.key, s.entity.key} & names) for s in self.synonyms)

    def both(self, names: Names) -> int:
        """Count the entities that an answer set contains in both forms, although the sentence has only one."""
        return sum({s.key, s.entity.key} <= names for s in self.synonyms)

    def others(self, names: Names) -> Names:
        """Return the names that are neither an entity of the answer nor a synonym."""
        return names - {s.key for s in self.synonyms} - {entity.key for entity in self.answer}


@dataclass(frozen=True, slots=True)
class Answers:
    """The values of f(x) under a rule: vector -> number of replies, out of ``asked``. Unread replies have no vector."""

    counts: Mapping[int, int]
    asked: int


@dataclass(frozen=True, slots=True)
class OneTest:
    """The outcome of one test: ``passing`` of ``total`` combinations of one reply to each of the three sentences."""

    x: int
    y: int
    passing: int
    total: int

    @property
    def passed(self) -> bool:
        """Whether any combination passes. Under ``majority`` and ``single`` there is only one."""
        return self.passing > 0


Function = Callable[[int], Awaitable[Answers]]


async def linear_at(x: int, y: int, f: Function, m: int) -> OneTest:
    """Test the property f(x XOR y) = f(x) XNOR f(y).

    Replies that could not be read are in ``total`` and never pass.

    :raises BackendError: if a call could not be made.
    """
    fx, fy, fxy = await asyncio.gather(f(x), f(y), f(x ^ y))
    passing, _ = passing_combinations(fx.counts, fy.counts, fxy.counts, m)
    return OneTest(x, y, passing, fx.asked * fy.asked * fxy.asked)


async def extract(text: str, oracle: Oracle, samples: int) -> Samples:
    """Extract the entities of one sentence, ``samples`` times at once.

    :raises BackendError: if a call could not be made.
    """
    prompt = fill(PROMPT, text=text)
    return samples_of(text, await asyncio.gather(*(oracle(prompt, sample=k) for k in range(samples))))


@dataclass
class Replies:
    """The extractions of the transformed sentences of one subject. Each vector is asked about once.

    :param known: sentence -> earlier extractions; those of the original are used for R(0).
    :param paraphrase: the prompt that paraphrases R(x) first; "" for no paraphrase.
    :ivar missed: vectors whose sentence is used without a paraphrase, because no paraphrase kept the entities.
    """

    subject: Subject
    oracle: Oracle
    samples: int
    paraphrase: str = ""
    known: dict[str, Samples] = field(default_factory=dict)
    missed: set[int] = field(default_factory=set)
    _tasks: dict[int, asyncio.Future[Samples]] = field(default_factory=dict)

    async def of(self, x: int) -> Samples:
        """Return the replies about R(x).

        :raises BackendError: if a call could not be made.
        """
        if x not in self._tasks:
            self._tasks[x] = asyncio.ensure_future(self._extract(x))
        return await self._tasks[x]

    def function(self, rule: Rule) -> Function:
        """Return f under a decision rule, for :func:`linear_at`."""

        async def f(x: int) -> Answers:
            return answers_under(rule, await self.of(x), self.subject)

        return f

    async def _extract(self, x: int) -> Samples:
        transformed = self.subject.transformed(x)
        text = transformed.text
        if self.paraphrase:
            paraphrase = await self._paraphrase(transformed)
            if paraphrase is None:
                self.missed.add(x)
            text = paraphrase or text
        if text in self.known:
            return self.known[text]
        return await extract(text, self.oracle, self.samples)

    async def _paraphrase(self, transformed: Transformed) -> str | None:
        prompt = paraphrase_prompt(self.paraphrase, transformed)
        for sample in range(PARAPHRASE_TRIES):
            reply = await self.oracle(prompt, sample=sample)
            if reply.finish_reason == "stop" and (text := read_paraphrase(reply.text, transformed)):
                return text
        return None


def answers_under(rule: Rule, samples: Samples, subject: Subject) -> Answers:
    """Return the values of f(x) under a rule: every sample, the most frequent set, or the first sample."""
    if rule == "any":
        counts: Counter[int] = Counter()
        for names, times in Counter(samples.sets).items():
            counts[subject.vector(names)] += times
        return Answers(counts, len(samples.readings))
    deciding = deciding_set(samples, rule)
    return Answers({} if deciding is None else {subject.vector(deciding): 1}, 1)


def deciding_set(samples: Samples, rule: Rule) -> Names | None:
    """Return the answer set that represents a sentence.

    It is the first sample's under ``single``, otherwise the most frequent one; None if that could not be read.
    """
    if rule == "single":
        return samples.readings[0].names if samples.readings else None
    names, times = most_frequent(samples.sets)
    return names if times else None


async def run_tests(
    pairs: Sequence[tuple[int, int]], replies: Replies, rule: Rule
) -> tuple[list[OneTest], list[OneTest]]:
    """Run all tests at once: by the rule, and over all combinations of samples (for A_rate), in order.

    :raises BackendError: if a call could not be made.
    """
    by_rule, by_any = replies.function(rule), replies.function("any")
    m = replies.subject.m
    results = await asyncio.gather(
        *(linear_at(x, y, by_rule, m) for x, y in pairs), *(linear_at(x, y, by_any, m) for x, y in pairs)
    )
    return results[: len(pairs)], results[len(pairs) :]
