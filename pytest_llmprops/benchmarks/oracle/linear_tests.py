"""One linearity test on one sentence: f(x XOR y) = f(x) XNOR f(y) (Zeng, Wang & Ibbetson, sections 3 and 5.1).

:class:`Subject` is the sentence with its entities and synonyms, which make the vectors mean something.
:class:`Replies` asks for the extraction of R(x), several samples each. :func:`linear_at` is the property itself:
measurement and search use it alike.
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

#: when a test passes: some combination of samples does (the paper's), the most frequent sets do, the first samples do
Rule = Literal["any", "majority", "single"]
#: askings for a paraphrase that keeps the entities, before the sentence is taken as it is
PARAPHRASE_TRIES = 3


@dataclass(frozen=True)
class Subject:
    """A sentence, the answer on it, and the synonyms of those of its entities that are in the vectors.

    :param answer: all entities of the answer. :param synonyms: one for each bit of the vectors, in their order.
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
        """R(x), before any paraphrase."""
        return replaced(self.sentence, self.tested, [synonym.text for synonym in self.synonyms], x)

    def vector(self, names: Names) -> int:
        """An answer set as an element of G2: u_i = 0 exactly when the synonym e'_i is in it."""
        return sum(1 << i for i, synonym in enumerate(self.synonyms) if synonym.key not in names)

    def due(self, i: int, x: int) -> str:
        """The name of entity i that stands in R(x), normalised."""
        return self.synonyms[i].key if x >> i & 1 else self.synonyms[i].entity.key

    def lost(self, names: Names) -> int:
        """How many entities are in an answer set in neither form."""
        return sum(not ({s.key, s.entity.key} & names) for s in self.synonyms)

    def both(self, names: Names) -> int:
        """How many entities are in it in both forms, though only one stands in the sentence."""
        return sum({s.key, s.entity.key} <= names for s in self.synonyms)

    def others(self, names: Names) -> Names:
        """Names that are neither an entity of the answer nor a synonym."""
        return names - {s.key for s in self.synonyms} - {entity.key for entity in self.answer}


@dataclass(frozen=True, slots=True)
class Answers:
    """f(x) as it counts: how often each vector came, out of ``asked`` replies; the unread ones gave none."""

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
        """Some combination passes; under ``majority`` and ``single`` there is one in all."""
        return self.passing > 0


Function = Callable[[int], Awaitable[Answers]]


async def linear_at(x: int, y: int, f: Function, m: int) -> OneTest:
    """The property: f(x XOR y) = f(x) XNOR f(y), for the answers of ``f`` taken as they count.

    Replies that could not be read are in ``total`` and never pass.

    :raises BackendError: a call could not be made.
    """
    fx, fy, fxy = await asyncio.gather(f(x), f(y), f(x ^ y))
    passing, _ = passing_combinations(fx.counts, fy.counts, fxy.counts, m)
    return OneTest(x, y, passing, fx.asked * fy.asked * fxy.asked)


async def extracted(text: str, oracle: Oracle, samples: int) -> Samples:
    """The extraction of one sentence, asked ``samples`` times at once.

    :raises BackendError: a call could not be made.
    """
    prompt = fill(PROMPT, text=text)
    return samples_of(text, await asyncio.gather(*(oracle(prompt, sample=k) for k in range(samples))))


@dataclass
class Replies:
    """The extractions of the transformed sentences of one subject, each vector's asked once.

    :param known: extractions made before, by sentence: the original's stands for R(0).
    :param paraphrase: the prompt by which R(x) is paraphrased first; "" to leave it as it is.

    ``missed`` holds the vectors whose sentence was taken as it is, as no paraphrase kept the entities.
    """

    subject: Subject
    oracle: Oracle
    samples: int
    paraphrase: str = ""
    known: dict[str, Samples] = field(default_factory=dict)
    missed: set[int] = field(default_factory=set)
    _tasks: dict[int, asyncio.Future[Samples]] = field(default_factory=dict)

    async def of(self, x: int) -> Samples:
        """The replies about R(x). :raises BackendError: a call could not be made."""
        if x not in self._tasks:
            self._tasks[x] = asyncio.ensure_future(self._of(x))
        return await self._tasks[x]

    def function(self, rule: Rule) -> Function:
        """f under a decision rule, as :func:`linear_at` takes it."""

        async def f(x: int) -> Answers:
            return answers(await self.of(x), self.subject, rule)

        return f

    async def _of(self, x: int) -> Samples:
        transformed = self.subject.transformed(x)
        text = transformed.text
        if self.paraphrase:
            found = await self._paraphrased(transformed)
            if found is None:
                self.missed.add(x)
            text = found or text
        if text in self.known:
            return self.known[text]
        return await extracted(text, self.oracle, self.samples)

    async def _paraphrased(self, transformed: Transformed) -> str | None:
        prompt = paraphrase_prompt(self.paraphrase, transformed)
        for sample in range(PARAPHRASE_TRIES):
            reply = await self.oracle(prompt, sample=sample)
            if reply.finish_reason == "stop" and (found := read_paraphrase(reply.text, transformed)):
                return found
        return None


def answers(samples: Samples, subject: Subject, rule: Rule) -> Answers:
    """What counts as f(x) under a rule: every sample, the most frequent set, or the first sample."""
    if rule == "any":
        counts: Counter[int] = Counter()
        for names, times in Counter(samples.sets).items():
            counts[subject.vector(names)] += times
        return Answers(counts, len(samples.readings))
    names_or_none = deciding(samples, rule)
    return Answers({} if names_or_none is None else {subject.vector(names_or_none): 1}, 1)


def deciding(samples: Samples, rule: Rule) -> Names | None:
    """The one answer set that stands for a sentence; None where no reply, or not the first one, could be read."""
    if rule == "single":
        return samples.readings[0].names if samples.readings else None
    names, times = most_frequent(samples.sets)
    return names if times else None


async def run_tests(
    pairs: Sequence[tuple[int, int]], replies: Replies, rule: Rule
) -> tuple[list[OneTest], list[OneTest]]:
    """All tests at once: by the rule, and over all combinations of samples (for A_rate), in order.

    :raises BackendError: a call could not be made.
    """
    ruled, every = replies.function(rule), replies.function("any")
    m = replies.subject.m
    results = await asyncio.gather(
        *(linear_at(x, y, ruled, m) for x, y in pairs), *(linear_at(x, y, every, m) for x, y in pairs)
    )
    return results[: len(pairs)], results[len(pairs) :]
