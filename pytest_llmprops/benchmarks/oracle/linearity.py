"""The linearity test of entity extraction (Zeng, Wang & Ibbetson, sections 3 and 5.1, appendix A.3).

R(x) is the sentence with the entities replaced whose bit in the vector x is 1. f(x) has a bit per entity, too: 0 if its
replacement is extracted from R(x), otherwise 1. A test passes if f(x XOR y) = f(x) XNOR f(y). The extraction is
*faithful* if also f(x) is the complement of x on each tested sentence: the replaced names are found, and no others.

=============  ======================================================================================================
outcome        the answer about a sentence
=============  ======================================================================================================
accepted       every test passed, and the extraction is faithful; or there are no entities, and none is labelled
unfaithful     every test passed, but some replaced name is not found
rejected       a test failed; or there are none or too few entities for a test, but some are labelled or look like names
untested       there are no entities, and neither labels nor the sentence tell if that is right
unmeasurable   too few of the entities can be replaced for a test that can fail
unparsed       no reply about the original sentence could be read as a list
refused        a content filter withheld every reply about the original sentence, or those of each failed test
=============  ======================================================================================================

The algebra (Blum, Luby & Rubinfeld 1990): a vector of {0,1}^m is an ``int`` below 2^m; bit i belongs to entity i. The
domain G1 is ({0,1}^m, XOR), the range G2 is ({0,1}^m, XNOR). f: G1 -> G2 is a homomorphism when f(x XOR y) = f(x) XNOR
f(y) for all x, y, which is f(x) = NOT(A x) for a matrix A over GF(2): XNOR's neutral element is the vector of ones.

The distance between two functions is the share of x on which they differ. (The paper's formula has "=" there by
mistake.)
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.extraction import (
    MOST_ENTITIES,
    Entity,
    Extracted,
    Names,
    Samples,
    contains_words,
    extract,
    locate,
    most_frequent,
    normalised,
    replaced,
    written_names,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Oracle, fill
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings, Rule
from pytest_llmprops.benchmarks.oracle.synonyms import Generator, Pool, Synonym, SynonymRules
from pytest_llmprops.core.numbers import counted
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import READ_BY, without_empty

#: distance beyond which Theorem 3.1 has one bound for all functions
FAR = 0.25


def complement(x: int, m: int) -> int:
    """Return ``x`` with all m bits flipped: the vector of the ideal extractor on R(x) (section 3.1)."""
    return ~x & ((1 << m) - 1)


def xnor(u: int, v: int, m: int) -> int:
    """Return u XNOR v, the operation of G2: bit i is 1 if u and v agree on it."""
    return complement(u ^ v, m)


def failing_bits(fx: int, fy: int, fxy: int, m: int) -> int:
    """Return the bits on which the test f(x XOR y) = f(x) XNOR f(y) fails; 0 if it passes."""
    return fxy ^ xnor(fx, fy, m)


def failure_bound(epsilon: float) -> float:
    """Return the lowest failure probability of a test on a function ``epsilon`` away from all homomorphisms.

    Theorem 3.1: 3e - 6e^2 up to e = 1/4, and 2/9 beyond.

    The theorem is about functions at distance exactly e. In these groups, every element is its own inverse, and
    3e - 6e^2 is also a bound for every function at distance *at least* e, up to e = 1/6. The argument:

    - A single bit of f at distance e from its nearest homomorphism fails that often on its own (Bellare, Coppersmith,
      Håstad, Kiwi & Sudan 1996). Otherwise all bits and their sums are closer than e.
    - Then their nearest homomorphisms are sums of each other, and f is closer than 2e to the combined homomorphism.
    - At such a distance, the bound of the theorem is at least its value at e.
    """
    return 3 * epsilon - 6 * epsilon**2 if epsilon <= FAR else 2 / 9


def rejection_bound(epsilon: float, n: int) -> float:
    """Return the lowest probability that one of ``n`` independent tests fails on a function at distance ``epsilon``.

    1 - (1 - 3e + 6e^2)^n for e <= 1/4 (section 3: about .936 at e = .1 and n = 10), and 1 - (7/9)^n beyond.
    """
    return 1 - (1 - failure_bound(epsilon)) ** n


def passing_combinations(
    samples_x: Mapping[int, int], samples_y: Mapping[int, int], samples_xy: Mapping[int, int], m: int
) -> int:
    """Count the combinations of one sample per sentence that pass (section 5.1: of 11^3).

    The cost is the number of *different* vectors of x times that of y, because they determine the third vector.

    :param samples_x: vector -> number of samples with f(x) equal to it; the same for y and for x XOR y.
    """
    return sum(
        times_u * times_v * samples_xy.get(xnor(u, v, m), 0)
        for u, times_u in samples_x.items()
        for v, times_v in samples_y.items()
    )


def draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """Draw ``n`` pairs (x, y) uniformly and with replacement from {0,1}^m, as the theorem requires."""
    return [(rng.getrandbits(m), rng.getrandbits(m)) for _ in range(n)]


def informative_draws(rng: random.Random, m: int, n: int) -> list[tuple[int, int]]:
    """Draw ``n`` informative pairs (x, y), uniformly and with replacement; none if m < 2, where none exists.

    A pair is informative if x and y are different and not 0: otherwise the equation of its test only says f(0) = 1...1.
    Of uniform draws, all are such tests at m = 1, 62.5% at m = 2 and 34% at m = 3.

    If f(0) = 1...1, only informative tests fail. They therefore fail at least as often as uniform tests, and
    :func:`rejection_bound` is a bound for them too.
    """
    if m < 2:
        return []
    pairs = []
    for _ in range(n):
        x, y = rng.randrange(1, 1 << m), rng.randrange(1, (1 << m) - 1)
        pairs.append((x, y + (y >= x)))
    return pairs


def draw_pairs(settings: OracleSettings, rng: random.Random, m: int) -> list[tuple[int, int]]:
    """Draw x and y of the tests of a sentence with m entities, uniformly and with replacement."""
    return (draws if settings.rule == "any" else informative_draws)(rng, m, settings.tests)


#: distances for which a bound is printed (section 3)
EPSILONS = (0.1, 0.05)
#: printed with every acceptance under ``any``
NO_POWER = "the rule any has no power against noise"


def bound_of(rule: Rule, samples: int, tests: int) -> Bound:
    """Return the bound of an acceptance with these settings (Theorem 3.1 over the tests of one sentence).

    Under ``any`` there is no bound, because a test is the best of all combinations of samples. If a reply cannot be
    read, f has no value and the test fails. The bound then applies to extractors that are far for every such value.

    The bound of informative draws needs f(0) = 1...1: the answer about the sentence has none of the replacements. The
    synonym generator refuses replacements that are an entity of the answer, or contain one.

    f is the function that the samples of this run determine, one value per vector. Another run's samples may determine
    another function.
    """
    if rule == "any":
        return Bound(f"no bound: best of {samples**3:,} combinations; {NO_POWER}")
    text = "; ".join(
        f"an extractor {epsilon:g}-far from linear would have been rejected with probability at least"
        f" {rejection_bound(epsilon, tests):.3f}"
        for epsilon in EPSILONS
    )
    return Bound(text, EPSILONS[0], rejection_bound(EPSILONS[0], tests))


#: why an entity is left out that the sentence does not contain
NOT_IN_SENTENCE = "not in the sentence"
#: entities per sentence that a plan assumes, one of them replaced by prompt 4. The paper has 3.7 on average, 76% of
#: them named (figure 6, appendix A.4)
SUPPOSED_ENTITIES = 4
#: maximum names in the reason for a wrong "no entities"
_MOST_LISTED = 3
#: the least change of the share of replies with an entity that names another entity as its cause
_CHANGE = 0.5


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence to check.

    :param labels: names of its labelled entities, possibly none; None if it is not labelled.
    """

    text: str
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Subject:
    """A sentence, the answer for it, and the replacements of the entities in the vectors.

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

    def transformed(self, x: int) -> str:
        """Return R(x)."""
        return replaced(self.sentence, self.tested, [synonym.text for synonym in self.synonyms], x)

    def vector(self, names: Names) -> int:
        """Return an answer set as f's value: bit i is 0 exactly if it contains the replacement of entity i."""
        return sum(1 << i for i, synonym in enumerate(self.synonyms) if synonym.key not in names)

    def due(self, i: int, x: int) -> str:
        """Return the normalised name of entity i in R(x)."""
        return self.synonyms[i].key if x >> i & 1 else self.synonyms[i].entity.key


@dataclass(frozen=True, slots=True)
class OneTest:
    """One test: ``passing`` of ``total`` combinations of one reply to each of R(x), R(y) and R(x XOR y).

    :param samples: the replies about the three sentences.
    """

    x: int
    y: int
    samples: tuple[Samples, Samples, Samples]
    passing: int
    total: int

    @property
    def vectors(self) -> tuple[int, int, int]:
        """The vectors x, y and x XOR y."""
        return self.x, self.y, self.x ^ self.y

    @property
    def passed(self) -> bool:
        """True if any combination passes; under ``majority`` there is only one."""
        return self.passing > 0


def values_of(samples: Samples, subject: Subject, rule: Rule) -> Counter[int]:
    """Return f(x) under a rule: every reply that can be read, or only the most frequent answer."""
    if rule == "any":
        return Counter(subject.vector(names) for names in samples.sets)
    names, times = most_frequent(samples.sets)
    return Counter([subject.vector(names)] if times else [])


def one_test(
    x: int, y: int, samples: tuple[Samples, Samples, Samples], subject: Subject, rule: Rule
) -> OneTest:
    """Return the outcome of the test f(x XOR y) = f(x) XNOR f(y). Replies that cannot be read never pass."""
    fx, fy, fxy = (values_of(one, subject, rule) for one in samples)
    passing = passing_combinations(fx, fy, fxy, subject.m)
    total = math.prod(len(one.readings) for one in samples) if rule == "any" else 1
    return OneTest(x, y, samples, passing, total)


@dataclass
class Replies:
    """The replies about the sentences R(x) of one subject.

    :param original: the replies about the sentence itself, which are those of R(0).
    """

    subject: Subject
    oracle: Oracle
    settings: OracleSettings
    original: Samples
    _tasks: dict[int, asyncio.Future[Samples]] = field(default_factory=dict)

    async def of(self, x: int) -> Samples:
        """Return the replies about R(x), which is asked about once.

        :raises BackendError: if a call could not be made.
        """
        if x == 0:
            return self.original
        if x not in self._tasks:
            self._tasks[x] = asyncio.ensure_future(self.fresh(x))
        return await self._tasks[x]

    async def fresh(self, x: int, first: int = 0, count: int = 0) -> Samples:
        """Ask about R(x), whatever is known.

        :param first: number of the first sample. :param count: number of samples; by default that of the settings.
        :raises BackendError: if a call could not be made.
        """
        return await extract(
            self.subject.transformed(x), self.oracle, count or self.settings.samples, first=first
        )


async def run_tests(pairs: Sequence[tuple[int, int]], replies: Replies) -> list[OneTest]:
    """Run all tests at once, and return them in order.

    Under ``any``, every sentence of every test is asked about afresh, as in section 5.1: 3 x tests x samples calls.
    ``majority`` needs a function, so each vector is asked about once.

    :raises BackendError: if a call could not be made.
    """
    rule, size = replies.settings.rule, replies.settings.samples
    # The first samples of R(0) are those of the sentence itself, which decided its answer.
    times = Counter({0: 1})
    questions = []
    for z in (z for x, y in pairs for z in (x, y, x ^ y)):
        questions.append(replies.fresh(z, times[z] * size) if rule == "any" else replies.of(z))
        times[z] += 1
    asked = iter(await asyncio.gather(*questions))
    return [one_test(x, y, (next(asked), next(asked), next(asked)), replies.subject, rule) for x, y in pairs]


@dataclass(frozen=True)
class Prepared:
    """A sentence that is ready for tests, or the decision if it cannot be tested.

    :param stopped: the decision if there is nothing to test; otherwise None.
    :param values, evidence: what is known before any test.
    """

    subject: Subject
    original: Samples
    stopped: Acceptance | None
    values: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(default_factory=dict)


class LinearityChecker:
    """Accepts the entities that a model extracts from a sentence if the extraction is linear in them, and faithful."""

    name = "linearity"

    def __init__(self, settings: OracleSettings, rules: SynonymRules, pool: Pool) -> None:
        self.settings, self.rules, self.pool = settings, rules, pool

    async def check(self, x: Sentence | str, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Measure one sentence.

        :param rng: seeds the pool and the tests separately, so that the tests do not depend on the entities.
        :raises BackendError: if a call could not be made.
        """
        pool_seed, test_seed = rng.getrandbits(64), rng.getrandbits(64)
        prepared = await self.prepare(x, oracle, pool_seed)
        if prepared.original.planned:
            prepared = await self._plan(prepared, oracle)
        elif prepared.stopped is not None:
            return prepared.stopped
        pairs = draw_pairs(self.settings, random.Random(test_seed), prepared.subject.m)
        replies = Replies(prepared.subject, oracle, self.settings, prepared.original)
        return self._decide(prepared, await run_tests(pairs, replies))

    async def prepare(self, x: Sentence | str, oracle: Oracle, pool_seed: int) -> Prepared:
        """Ask for the answer about the sentence, locate its entities, and choose their replacements.

        :raises BackendError: if a call could not be made.
        """
        sentence = Sentence(x) if isinstance(x, str) else x
        original = await extract(sentence.text, oracle, self.settings.samples)
        evidence: dict[str, JSON] = {"sentence": sentence.text, READ_BY: original.read_by}
        names, con_o = most_frequent(original.sets)
        if not con_o:
            refused = _is_withheld(original)
            why = "a content filter refused" if refused else original.readings[0].problem
            values = {
                "accepted": 0.0,
                "samples": float(len(original.readings)),
                "unread": float(original.unread),
            }
            stopped = Acceptance(False, "refused" if refused else "unparsed", why, evidence, None, values)
            return Prepared(Subject(sentence.text, (), ()), original, stopped, values, evidence)
        answer = locate(original.first_with(names), sentence.text)
        candidates = [entity for entity in answer if entity.spans]
        generator = Generator(sentence.text, oracle, self.rules, self.pool, pool_seed, self.settings)
        chosen = await generator.synonyms(answer)
        subject = Subject(sentence.text, answer, tuple(s for s in chosen if s.text)[:MOST_ENTITIES])
        values = answer_values(original, subject, sentence.labels)
        evidence = without_empty({**evidence, "entities": _entity_rows(answer, chosen)})
        prepared = Prepared(subject, original, None, values, evidence)
        return replace(prepared, stopped=_nothing_to_test(prepared, sentence, len(candidates), self.settings))

    async def _plan(self, prepared: Prepared, oracle: Oracle) -> Prepared:
        """Ask what a typical sentence would need, for a plan without replies: its longest words are the entities."""
        text = prepared.subject.sentence
        words = sorted(set(re.findall(r"\w+", text)), key=lambda word: (-len(word), word))[:SUPPOSED_ENTITIES]
        answer = locate([Extracted(word) for word in words], text)
        prompt = fill(self.rules.prompts["synonyms"], entity=answer[0].name if answer else "", text=text)
        await oracle.samples(prompt, range(self.settings.synonym_votes))
        synonyms = (Synonym(e, f"not {e.name}", "pool", "supposed") for e in answer if e.spans)
        return replace(prepared, subject=Subject(text, answer, tuple(synonyms)))

    def _decide(self, prepared: Prepared, tests: Sequence[OneTest]) -> Acceptance:
        subject, rule = prepared.subject, self.settings.rule
        sentences = sentences_of(tests, rule)
        values = {**prepared.values, **measured_values(tests, subject, rule)}
        values["unread"] += sum(s.unread for _, s in sentences if s is not prepared.original)
        evidence = {**prepared.evidence, "tests": _test_rows(tests)}
        failed = [test for test in tests if not test.passed]
        if values["faithful"]:
            bound = bound_of(rule, self.settings.samples, self.settings.tests)
            why = f"{len(tests)} of {len(tests)} tests passed, and every replaced name was found"
            why += f"; {NO_POWER}" if rule == "any" else ""
            return Acceptance(True, "accepted", why, evidence, bound, values)
        if failed and all(any(map(_is_withheld, test.samples)) for test in failed):
            withheld = sum(_is_withheld(s) for _, s in sentences)
            why = f"a content filter refused {withheld} of {len(sentences)} changed sentences"
            values = {**prepared.values, "accepted": 0.0, "unread": values["unread"]}
            return Acceptance(False, "refused", why, evidence, None, values)
        if not failed and not values["changed"]:
            values = {**prepared.values, "accepted": 0.0, "unmeasurable": 1.0}
            return Acceptance(False, "unmeasurable", "no drawn test replaces a name", evidence, None, values)
        breaking = culprits(tests, subject, rule, prepared.original)
        evidence |= {"culprits": [*breaking]} if breaking else {}
        described = (f'"{one["name"]}" (replaced by "{one["synonym"]}"): {one["why"]}' for one in breaking)
        names = ", ".join(described) or "some replies could not be read"
        if failed:
            why = f"{len(failed)} of {len(tests)} test{'s' if len(tests) > 1 else ''} failed; {names}"
            return Acceptance(False, "rejected", why, evidence, None, values)
        return Acceptance(False, "unfaithful", f"linear, but not faithful; {names}", evidence, None, values)


def _nothing_to_test(
    prepared: Prepared, sentence: Sentence, candidates: int, settings: OracleSettings
) -> Acceptance | None:
    values, subject = dict(prepared.values), prepared.subject
    if not subject.answer:
        outcome, why = _no_entities(sentence)
        accepted = outcome == "accepted"
        values |= {"accepted": float(accepted), "no_entities": 1.0}
        return Acceptance(accepted, outcome, why, prepared.evidence, None, values)
    needed = 2 if settings.rule == "majority" else 1
    if subject.m >= needed:
        return None
    found = f"{candidates} of {counted(len(subject.answer), 'entity', 'entities')} in the sentence"
    values |= {"accepted": 0.0}
    if sentence.labels is not None and candidates < min(needed, len(sentence.labels)):
        # Otherwise a model could avoid every test with a single entity.
        why = f"{found}, but labelled: {_listed(sentence.labels)}"
        return Acceptance(False, "rejected", why, prepared.evidence, None, values)
    why = f"{found}, {subject.m} with a replacement; a test that can fail needs {needed}"
    return Acceptance(False, "unmeasurable", why, prepared.evidence, None, {**values, "unmeasurable": 1.0})


def _no_entities(sentence: Sentence) -> tuple[str, str]:
    """Return the outcome of the answer that a sentence has no entities, and the reason."""
    if sentence.labels is not None:
        if not sentence.labels:
            return "accepted", "no entities, as labelled"
        return "rejected", f"no entities, but labelled: {_listed(sentence.labels)}"
    if names := written_names(sentence.text):
        return "rejected", f"no entities, but the sentence has {_listed(names)}"
    return "untested", "no entities, and no labels to tell if that is right"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(f'"{name}"' for name in names[:_MOST_LISTED]) + more


def _is_withheld(samples: Samples) -> bool:
    return samples.refused == len(samples.readings)


def sentences_of(tests: Iterable[OneTest], rule: Rule) -> list[tuple[int, Samples]]:
    """Return the vectors of ``tests`` with the replies about their sentences: every asking under ``any``.

    Under ``majority``, where equal vectors share their replies, each vector occurs once.
    """
    every = [pair for test in tests for pair in zip(test.vectors, test.samples, strict=True)]
    return every if rule == "any" else list(dict(every).items())


def answer_values(original: Samples, subject: Subject, labels: Sequence[str] | None) -> dict[str, float]:
    """Return the values that are known before any test; ``docs/record.md`` lists them.

    :param labels: names of the labelled entities; None if the sentence has no labels.
    """
    sizes = sorted(Counter(original.sets).values(), reverse=True)
    names, _ = most_frequent(original.sets)
    values: dict[str, float] = {
        "entities": len(subject.answer),
        "tested": subject.m,
        "named": sum(bool(entity.named) for entity in subject.tested),
        "named_by_vote": sum(synonym.is_voted for synonym in subject.synonyms),
        "con_o": sizes[0],
        "samples": len(original.readings),
        "unread": original.unread,
    }
    values |= {f"con_o_{place}": size for place, size in enumerate(sizes[1:], 2)}
    if labels is not None:
        labelled = {normalised(label) for label in labels}
        values["labelled"] = len(labelled)
        values["labelled_extracted"] = len(labelled & names)
        values["labelled_tested"] = len(labelled & {entity.key for entity in subject.tested})
    return {name: float(value) for name, value in values.items()}


def measured_values(tests: Sequence[OneTest], subject: Subject, rule: Rule) -> dict[str, float]:
    """Return the values of the tests; ``docs/record.md`` lists them."""
    sentences = sentences_of(tests, rule)
    accepted = all(test.passed for test in tests)
    changed = [(x, samples) for x, samples in sentences if x]
    faithful = [complement(x, subject.m) in values_of(s, subject, rule) for x, s in sentences]
    most = [(x, most_frequent(samples.sets)) for x, samples in changed]
    combinations = [one_test(test.x, test.y, test.samples, subject, "any") for test in tests]
    values: dict[str, float] = {
        "accepted": accepted,
        "faithful": accepted and bool(changed) and all(faithful),
        "con_rs": min((most_frequent(samples.sets)[1] for _, samples in sentences), default=0),
        "tests": len(tests),
        "tests_passed": sum(test.passed for test in tests),
        "combinations": sum(test.total for test in combinations),
        "combinations_passed": sum(test.passing for test in combinations),
        "changed": len(changed),
        "identity": sum(bool(n) and subject.vector(s) == complement(x, subject.m) for x, (s, n) in most),
    }
    return {name: float(value) for name, value in values.items()}


def _entity_rows(answer: Sequence[Entity], chosen: Sequence[Synonym]) -> list[JSON]:
    """Return each entity of the answer with its replacement, or why it has none, for the evidence."""
    by_key = {synonym.entity.key: synonym for synonym in chosen}
    rows: list[JSON] = []
    for entity in answer:
        synonym = by_key.get(entity.key)
        row = without_empty({"name": entity.name, "class": entity.kind})
        if synonym is not None and synonym.text:
            how = {"how": synonym.how, "votes": synonym.votes, "named": synonym.entity.named}
            row |= {"replacement": synonym.text, **how, "decided_by": synonym.decided_by}
        elif synonym is not None:
            row["left_out"] = "no replacement"
        elif entity.inside:
            row["left_out"] = f"inside {entity.inside!r}"
        else:
            row["left_out"] = "not tested" if entity.spans else NOT_IN_SENTENCE
        rows.append(row)
    return rows


def _test_rows(tests: Sequence[OneTest]) -> list[JSON]:
    """Return each test with its three sentences and the most frequent extraction of each, for the evidence."""
    rows: list[JSON] = []
    for test in tests:
        row: dict[str, JSON] = {"passed": test.passed, "passing": test.passing, "combinations": test.total}
        for name, samples in zip(("x", "y", "x+y"), test.samples, strict=True):
            names, times = most_frequent(samples.sets)
            asked = {"replies": times, "asked": len(samples.readings)}
            row[name] = {"sentence": samples.text, "entities": [*sorted(names)], **asked}
        rows.append(row)
    return rows


def culprits(
    tests: Sequence[OneTest], subject: Subject, rule: Rule, original: Samples
) -> list[dict[str, JSON]]:
    """Return the entities on which tests fail, those of most tests first, with their counts in words.

    If every test passes, they are the entities whose replacements are not found. Appendix A.3 sorts rejected sentences
    by such counts.
    """
    failed = [test for test in tests if not test.passed]
    times: Counter[int] = Counter()
    for test in failed:
        sets = [most_frequent(samples.sets) for samples in test.samples]
        if all(count for _, count in sets):
            fx, fy, fxy = (subject.vector(names) for names, _ in sets)
            times.update(i for i in range(subject.m) if failing_bits(fx, fy, fxy, subject.m) >> i & 1)
    sentences = [(x, samples) for x, samples in sentences_of(tests, rule) if samples.sets]
    for x, samples in sentences if not failed else ():
        wrong = subject.vector(most_frequent(samples.sets)[0]) ^ complement(x, subject.m)
        times.update(i for i in range(subject.m) if wrong >> i & 1)
    replies = [(x, names) for x, samples in [(0, original), *sentences] for names in samples.sets]
    order = sorted(times, key=lambda i: (-times[i], i))
    return [_culprit(i, replies, subject) for i in order]


def _culprit(i: int, replies: Sequence[tuple[int, Names]], subject: Subject) -> dict[str, JSON]:
    """Return entity ``i`` with its counts over all readable replies, each with the vector of its sentence."""
    found = [(x, subject.due(i, x) in names) for x, names in replies]
    parts = [
        f"found in {_share(hit for x, hit in found if not x >> i & 1)} replies",
        f"its replacement in {_share(hit for x, hit in found if x >> i & 1)}",
    ]
    other_forms: Counter[str] = Counter()
    for x, names in replies:
        if (due := subject.due(i, x)) not in names:
            other_forms.update(n for n in names if contains_words(n, due) or contains_words(due, n))
    if other_forms:
        [(form, times)] = other_forms.most_common(1)
        parts.append(f'as "{form}" in {times}')
    best = 0.0
    for j in (j for j in range(subject.m) if j != i):
        with_it, without = ([hit for x, hit in found if x >> j & 1 == bit] for bit in (1, 0))
        change = abs(sum(with_it) / len(with_it) - sum(without) / len(without)) if with_it and without else 0
        if change > best and change >= _CHANGE:
            best = change
            cause = (
                f'with "{subject.tested[j].name}" replaced, one of them in {_share(with_it)}, otherwise in'
            )
            parts[2 + bool(other_forms) :] = [f"{cause} {_share(without)}"]
    synonym = subject.synonyms[i]
    return {"name": synonym.entity.name, "synonym": synonym.text, "why": "; ".join(parts)}


def _share(hits: Iterable[bool]) -> str:
    each = list(hits)
    return f"{sum(each)} of {len(each)}"
