"""One linearity test on one sentence: f(x XOR y) = f(x) XNOR f(y) (Zeng, Wang & Ibbetson, sections 3 and 5.1).

:class:`Subject` is a sentence with the entities and synonyms that the bits of a vector refer to. :class:`Replies`
samples the extraction of R(x) several times. :func:`linear_at` is the property itself, for measurement and search.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_llmprops.benchmarks.oracle.choices import Rule
from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import (
    PROMPT,
    Names,
    Samples,
    most_frequent,
    samples_of,
    together,
)
from pytest_llmprops.benchmarks.oracle.replacement import (
    Transformed,
    paraphrase_prompt,
    read_paraphrase,
    replaced,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.linearity import is_informative, passing_combinations

NO_SAMPLES = Samples("", ())
#: requests for a paraphrase that keeps the entities, before the sentence is used without a paraphrase
PARAPHRASE_TRIES = 3
#: number of the first sample of a replication, above those of any measurement
FIRST_REPLICATED = 500_000


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
    """The values of f(x) under a rule: vector -> number of replies, out of ``asked``. Unread replies have no vector.

    :param samples: the replies about R(x) behind them.
    """

    counts: Mapping[int, int]
    asked: int
    samples: Samples = NO_SAMPLES


@dataclass(frozen=True, slots=True)
class OneTest:
    """The outcome of one test: ``passing`` of ``total`` combinations of one reply to each of the three sentences.

    :param samples: the replies about R(x), R(y) and R(x XOR y).
    """

    x: int
    y: int
    passing: int
    total: int
    samples: tuple[Samples, Samples, Samples] = (NO_SAMPLES, NO_SAMPLES, NO_SAMPLES)

    @property
    def vectors(self) -> tuple[int, int, int]:
        """The vectors x, y and x XOR y."""
        return self.x, self.y, self.x ^ self.y

    @property
    def is_informative(self) -> bool:
        """Whether the test can fail; see :func:`~pytest_llmprops.core.linearity.is_informative`."""
        return is_informative(self.x, self.y)

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
    return one_test(x, y, *await asyncio.gather(f(x), f(y), f(x ^ y)), m)


def one_test(x: int, y: int, fx: Answers, fy: Answers, fxy: Answers, m: int) -> OneTest:
    """Return the outcome of a test from the values of f."""
    passing, _ = passing_combinations(fx.counts, fy.counts, fxy.counts, m)
    total = fx.asked * fy.asked * fxy.asked
    return OneTest(x, y, passing, total, (fx.samples, fy.samples, fxy.samples))


async def extract(text: str, oracle: Oracle, samples: int, *, first: int = 0) -> Samples:
    """Extract the entities of one sentence, ``samples`` times at once.

    :param first: number of the first sample. Other numbers are new replies to the same question.
    :raises BackendError: if a call could not be made.
    """
    numbers = range(first, first + samples)
    return samples_of(text, await oracle.samples(fill(PROMPT, text=text), numbers))


@dataclass
class Replies:
    """The extractions of the transformed sentences of one subject.

    ``of`` asks about each vector once, so that f is a function. ``fresh`` asks again each time.

    :param known: sentence -> earlier extractions; ``of`` uses those of the original for R(0).
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
    _texts: dict[int, asyncio.Future[str]] = field(default_factory=dict)
    _replications: Counter[int] = field(default_factory=Counter)

    async def of(self, x: int) -> Samples:
        """Return the replies about R(x).

        :raises BackendError: if a call could not be made.
        """
        if x not in self._tasks:
            self._tasks[x] = asyncio.ensure_future(self._extract(x))
        return await self._tasks[x]

    async def fresh(self, x: int, time: int) -> Samples:
        """Ask about R(x) whatever is known.

        :param time: number of earlier extractions of the same sentence, whose samples are not used again.
        :raises BackendError: if a call could not be made.
        """
        return await extract(await self._text(x), self.oracle, self.samples, first=time * self.samples)

    async def again(self, x: int, times: int) -> list[Samples]:
        """Ask about R(x) ``times`` times, with samples that nothing else uses.

        :raises BackendError: if a call could not be made.
        """
        text, before = await self._text(x), self._replications[x]
        self._replications[x] += times
        numbers = range(before, before + times)
        firsts = (FIRST_REPLICATED + number * self.samples for number in numbers)
        questions = (extract(text, self.oracle, self.samples, first=first) for first in firsts)
        return list(await asyncio.gather(*questions))

    async def add(self, x: int, samples: Sequence[Samples]) -> None:
        """Let f(x) follow from ``samples`` too: :meth:`of` has them from now on, the most frequent set first."""
        pooled = together([await self.of(x), *samples])
        self._tasks[x] = asyncio.ensure_future(_known(pooled))

    def function(self, rule: Rule) -> Function:
        """Return f under a decision rule, for :func:`linear_at`."""

        async def f(x: int) -> Answers:
            return answers_under(rule, await self.of(x), self.subject)

        return f

    async def _extract(self, x: int) -> Samples:
        text = await self._text(x)
        if text in self.known:
            return self.known[text]
        return await extract(text, self.oracle, self.samples)

    async def _text(self, x: int) -> str:
        """Return R(x), which is paraphrased at most once."""
        if x not in self._texts:
            self._texts[x] = asyncio.ensure_future(self._transformed(x))
        return await self._texts[x]

    async def _transformed(self, x: int) -> str:
        transformed = self.subject.transformed(x)
        text = transformed.text
        if self.paraphrase:
            paraphrase = await self._paraphrase(transformed)
            if paraphrase is None:
                self.missed.add(x)
            text = paraphrase or text
        return text

    async def _paraphrase(self, transformed: Transformed) -> str | None:
        prompt = paraphrase_prompt(self.paraphrase, transformed)
        for sample in range(PARAPHRASE_TRIES):
            reply = await self.oracle(prompt, sample=sample)
            if reply.finish_reason == "stop" and (text := read_paraphrase(reply.text, transformed)):
                return text
        return None


async def _known(samples: Samples) -> Samples:
    return samples


def answers_under(rule: Rule, samples: Samples, subject: Subject) -> Answers:
    """Return the values of f(x) under a rule: every sample, the most frequent set, or the first sample."""
    if rule == "any":
        counts: Counter[int] = Counter()
        for names, times in Counter(samples.sets).items():
            counts[subject.vector(names)] += times
        return Answers(counts, len(samples.readings), samples)
    deciding = deciding_set(samples, rule)
    return Answers({} if deciding is None else {subject.vector(deciding): 1}, 1, samples)


def deciding_set(samples: Samples, rule: Rule) -> Names | None:
    """Return the answer set that represents a sentence.

    It is the first sample's under ``single``, otherwise the most frequent one; None if that could not be read.
    """
    if rule == "single":
        return samples.readings[0].names if samples.readings else None
    names, times = most_frequent(samples.sets)
    return names if times else None
