"""One linearity test on one sentence: f(x XOR y) = f(x) XNOR f(y) (Zeng, Wang & Ibbetson, sections 3 and 5.1).

:class:`Subject` is a sentence with the entities and synonyms that the bits of a vector refer to. :class:`Replies`
samples the extraction of R(x) several times. :func:`linear_at` is the property itself, for measurement and search.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_llmprops.benchmarks.oracle.entities import (
    MOST_ENTITIES,
    Entity,
    Transformed,
    paraphrase_prompt,
    read_paraphrase,
    replaced,
)
from pytest_llmprops.benchmarks.oracle.extraction import (
    PROMPT,
    Names,
    Samples,
    most_frequent,
    normalised,
    samples_of,
    together,
)
from pytest_llmprops.benchmarks.oracle.items import Rule
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.linearity import complement, every_test, is_informative, passing_combinations
from pytest_llmprops.core.searches import FIRST_REPLICATED

NO_SAMPLES = Samples("", ())
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

    def expected_name(self, i: int, x: int) -> str:
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
        """True if the test can fail; see :func:`~pytest_llmprops.core.linearity.is_informative`."""
        return is_informative(self.x, self.y)

    @property
    def passed(self) -> bool:
        """True if any combination passes. Under ``majority`` and ``single`` there is only one."""
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


# Runs of several linearity tests on one sentence: all at once, or until one fails.

#: the tests by the rule, and over all combinations of samples
Tested = tuple[list[OneTest], list[OneTest]]


async def run_tests(pairs: Sequence[tuple[int, int]], replies: Replies, rule: Rule) -> Tested:
    """Run all tests at once: by the rule, and over all combinations of samples (for A_rate), in order.

    Under ``any``, every sentence of every test is asked about afresh, as in section 5.1: 3 x tests x samples calls. The
    other rules need a function, so each vector is asked about once.

    :raises BackendError: if a call could not be made.
    """
    vectors = [z for x, y in pairs for z in (x, y, x ^ y)]
    if rule == "any":
        # The first samples of R(0) are those of the sentence itself, which decided its answer.
        times = Counter({0: 1})
        questions = []
        for z in vectors:
            questions.append(replies.fresh(z, times[z]))
            times[z] += 1
    else:
        questions = [replies.of(z) for z in vectors]
    asked = await asyncio.gather(*questions)

    def tests(rule: Rule) -> list[OneTest]:
        f = iter([answers_under(rule, samples, replies.subject) for samples in asked])
        return [one_test(x, y, next(f), next(f), next(f), replies.subject.m) for x, y in pairs]

    by_rule = tests(rule)
    return by_rule, list(by_rule) if rule == "any" else tests("any")


async def run_in_turn(pairs: Sequence[tuple[int, int]], replies: Replies, rule: Rule) -> Tested:
    """Run tests in order until a batch has a failing one; otherwise like :func:`run_tests`.

    The first batch has one test, and each further one has one more than all before it: most extractors that fail do so
    early, and few rounds of requests are needed. If all vectors are known in the end, f is known, and the tests that
    were not drawn need no request. The first of them that fails is added.

    :raises BackendError: if a call could not be made.
    """
    by_rule: list[OneTest] = []
    by_any: list[OneTest] = []

    async def run(batch: Sequence[tuple[int, int]]) -> None:
        more = await run_tests(batch, replies, rule)
        by_rule.extend(more[0])
        by_any.extend(more[1])

    while len(by_rule) < len(pairs) and all(test.passed for test in by_rule):
        await run(pairs[len(by_rule) : 2 * len(by_rule) + 1])
    if all(test.passed for test in by_rule) and covers_all(by_rule, replies.subject.m):
        f = replies.function(rule)
        for x, y in every_test(replies.subject.m):
            if not (await linear_at(x, y, f, replies.subject.m)).passed:
                await run([(x, y)])
                break
    return by_rule, by_any


def covers_all(tests: Iterable[OneTest], m: int) -> bool:
    """Return True if the tests have asked about every vector other than 0."""
    return len({z for test in tests for z in test.vectors} - {0}) == (1 << m) - 1


def sentences_of(tests: Iterable[OneTest], rule: Rule) -> list[tuple[int, Samples]]:
    """Return the vectors of ``tests`` with the replies about their sentences: every asking under ``any``.

    Under the other rules, where equal vectors share their replies, each vector occurs once.
    """
    every = [pair for test in tests for pair in zip(test.vectors, test.samples, strict=True)]
    return every if rule == "any" else list(dict(every).items())


# The recorded numbers of a sentence that was tested for linearity (Zeng, Wang & Ibbetson, section 5.1).
#
# Counts, unless noted otherwise:
#
# ======================  ============================================================================================
# accepted                1 or 0
# no_entities             1 if the answer is that there are no entities; no test, and in no rate of tested sentences
# unmeasurable            1 if the outcome is ``unmeasurable``
# no_informative_test     1 if no test could fail, whatever the extractor: a single entity, or an unlucky draw
# linear_not_faithful     1 if it is accepted although f is not the complement on some tested sentence, or although no
#                         tested sentence is changed
# entities                entities of the answer, #E
# tested                  those in the vectors, m
# named, named_by_vote    tested entities that are named; those about which no rule decided (appendix A.2)
# not_literal             not in the sentence as the model writes them; left out of the vectors
# contained               only inside longer entities; left out
# no_synonym              without a valid replacement; left out
# con_o                   samples of the original sentence with the answer
# con_o_2, con_o_3 ...    the sizes of the other groups of equal answers, largest first (figure 10)
# con_rs                  the lowest such number over the tested sentences
# samples                 samples per asking
# unread                  replies that were not a list, cut off or filtered, for the original and the tested sentences
# tests, tests_passed     by the decision rule; ``tests_passed`` is A_test
# epsilon, delta          of a measurement that tests until a bound is reached
# known_in_full           of such a measurement: 1 if it is accepted and every vector was asked about
# informative_tests       tests that can fail: x and y are different and not 0
# combinations            combinations of samples over all tests: tests x samples^3, including unread replies
# combinations_passed     those that pass; unread replies never do. A_rate is the quotient
# changed                 changed sentences: x other than 0 among the tests' x, y and x XOR y. Under ``any``, where each
#                         is asked about afresh, every asking counts; under the other rules, different x
# identity                those whose vector is the complement of x; identity_rate is the quotient
# sentences               changed sentences whose replies could be read
# lost, both, extra       over those: entities in neither form, entities in both forms, names that are not entities
# consistent, inconsistent, varying, dependent, undecided
#                         tested entities by how they are lost in changed sentences; see ``dependence``
# paraphrase_missed       tested x for which no paraphrase kept the entities
# labelled                labelled entities, possibly 0; missing without labels
# labelled_extracted      those in the answer
# labelled_tested         those in the vectors
# ======================  ============================================================================================
#
# ``identity``, ``lost``, ``both`` and ``extra`` are about the deciding answer: the first sample's set under
# ``single``, otherwise the most frequent set.


def answer_values(
    original: Samples, con_o: int, names: Names, subject: Subject, labels: Sequence[str] | None
) -> dict[str, float]:
    """Return the values that are known before any test.

    :param original: the replies about the original sentence, ``con_o`` of them with the answer ``names``.
    :param labels: names of the labelled entities; None if the sentence has no labels.
    """
    states = [entity.state for entity in subject.answer]
    candidates = states.count("tested")
    values: dict[str, float] = {
        "entities": len(subject.answer),
        "tested": subject.m,
        "named": sum(bool(entity.named) for entity in subject.tested),
        "named_by_vote": sum(synonym.is_voted for synonym in subject.synonyms),
        "not_literal": states.count("not_literal"),
        "contained": states.count("contained"),
        "no_synonym": candidates - subject.m if candidates <= MOST_ENTITIES else 0,
        "con_o": con_o,
        "samples": len(original.readings),
        "unread": original.unread,
    }
    sizes = sorted(Counter(original.sets).values(), reverse=True)
    values |= {f"con_o_{place}": size for place, size in enumerate(sizes[1:], 2)}
    if labels is not None:
        labelled = {normalised(label) for label in labels}
        values["labelled"] = len(labelled)
        values["labelled_extracted"] = len(labelled & names)
        values["labelled_tested"] = len(labelled & {entity.key for entity in subject.tested})
    return {name: float(value) for name, value in values.items()}


def measured_values(
    by_rule: Sequence[OneTest], by_any: Sequence[OneTest], subject: Subject, rule: Rule
) -> dict[str, float]:
    """Return the values of the tests.

    :param by_rule: the tests under ``rule``, which decides.
    :param by_any: the same tests over all combinations of samples.
    """
    sentences = sentences_of(by_rule, rule)
    accepted = all(test.passed for test in by_rule)
    # R(0) is the original sentence, whose entities are the answer. It has no replacements to count.
    changed = [(x, samples) for x, samples in sentences if x]
    read = [(x, names) for x, samples in changed if (names := deciding_set(samples, rule)) is not None]
    faithful = bool(changed) and all(_faithful(x, samples, subject, rule) for x, samples in sentences)
    informative = sum(test.is_informative for test in by_rule)
    values: dict[str, float] = {
        "accepted": accepted,
        "linear_not_faithful": accepted and not faithful,
        "con_rs": min((most_frequent(samples.sets)[1] for _, samples in sentences), default=0),
        "tests": len(by_rule),
        "tests_passed": sum(test.passed for test in by_rule),
        "informative_tests": informative,
        "no_informative_test": not informative,
        "combinations": sum(test.total for test in by_any),
        "combinations_passed": sum(test.passing for test in by_any),
        "changed": len(changed),
        "sentences": len(read),
        "identity": sum(subject.vector(names) == complement(x, subject.m) for x, names in read),
        "lost": sum(subject.lost(names) for _, names in read),
        "both": sum(subject.both(names) for _, names in read),
        "extra": sum(len(subject.others(names)) for _, names in read),
    }
    return {name: float(value) for name, value in values.items()}


def _faithful(x: int, samples: Samples, subject: Subject, rule: Rule) -> bool:
    """Return True if f(x) is the complement of x under the rule: for any sample, the majority, or the first sample."""
    ideal = complement(x, subject.m)
    if rule == "any":
        return any(subject.vector(names) == ideal for names in set(samples.sets))
    names = deciding_set(samples, rule)
    return names is not None and subject.vector(names) == ideal
