"""The search for a counterexample to linearity on one sentence, with the same property as the measurement.

The caller draws the vectors x and y (hypothesis, in ``suites/test_oracle.py``) and calls
:meth:`LinearitySearch.holds`. The search has no verdict and no bound, because its points are not drawn uniformly. It
keeps the violation with the fewest replaced entities and reports the culprits of that one.

An extractor that drops names by chance violates some test, too. The sentences of the smallest violation are therefore
asked about again with new samples. If at most 60% of these replications are violated, it is no counterexample: f then
follows from all replies about its sentences, and the search goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.dependence import Culprit, Losses, culprits, losses
from pytest_llmprops.benchmarks.oracle.linear_tests import (
    PARAPHRASE_TRIES,
    Answers,
    OneTest,
    Replies,
    answers_under,
    linear_at,
)
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Prepared, Sentence
from pytest_llmprops.benchmarks.oracle.linearity_evidence import (
    CulpritEvidence,
    LinearityCounterexample,
    LossEvidence,
    test_evidence,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.core.benchmark import Counterexample
from pytest_llmprops.core.searches import ReplicatedSearch


@dataclass
class LinearitySearch(ReplicatedSearch[OneTest]):
    """The function f on the sentence of ``prepared``. Each vector is asked about once.

    :param most: maximum number of requests, except the replications of the last violation. Requests answered from a
        reply store count too, so that a repeated search takes the same path.
    :ivar asked: number of requests so far. With paraphrases (section 3.2), the maximum number of tries is counted.
    :ivar smallest: the violated test that is first in the order of :func:`size_of`.
    """

    checker: LinearityChecker
    prepared: Prepared
    oracle: Oracle
    most: int
    asked: int = 0
    _replies: Replies = field(init=False)
    _begun: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._replies = self.checker.replies(self.prepared, self.oracle)
        if not self._replies.paraphrase:
            # R(0) is the original sentence, whose extraction is known.
            self._begun.add(0)

    @property
    def size(self) -> int:
        """m, the length of the vectors."""
        return self.prepared.subject.m

    async def holds(self, *point: int) -> bool | None:
        """Return True if f(x XOR y) = f(x) XNOR f(y) for the ``point`` (x, y); None if that takes too many requests.

        :raises BackendError: if a call could not be made.
        """
        x, y = point
        new = {x, y, x ^ y} - self._begun
        cost = len(new) * self._requests_per_vector
        if self.asked + cost > self.most:
            return None
        self.asked += cost
        self._begun |= new
        test = await linear_at(x, y, self._replies.function(self.checker.settings.rule), self.size)
        if test.passed or not self._counts(test):
            return True
        if self.smallest is None or size_of(test) < size_of(self.smallest):
            self.smallest = test
        return False

    def _key(self, violation: OneTest) -> Hashable:
        return violation.x, violation.y

    @property
    def _requests_per_vector(self) -> int:
        tries = PARAPHRASE_TRIES if self._replies.paraphrase else 0
        return self.checker.settings.samples + tries

    async def _replicated(self, violation: OneTest) -> Counterexample:
        """Ask about the sentences of a violated test again, and count how often it fails again."""
        test, rule = violation, self.checker.settings.rule
        vectors = sorted(set(test.vectors))
        self.asked += len(vectors) * self.replications * self.checker.settings.samples
        again = await asyncio.gather(*(self._replies.again(z, self.replications) for z in vectors))
        fresh = dict(zip(vectors, again, strict=True))
        failed = 0
        for number in range(self.replications):

            async def f(z: int, number: int = number) -> Answers:
                return answers_under(rule, fresh[z][number], self.prepared.subject)

            failed += not (await linear_at(test.x, test.y, f, self.size)).passed
        # The search chose these sentences by their earlier replies, so only the new ones are fair. Three sentences
        # cannot tell what the losses depend on, so the others count, too.
        new = [(z, samples) for z in vectors for samples in fresh[z]]
        others = [(z, await self._replies.of(z)) for z in sorted(self._begun - {0, *vectors})]
        lost = losses([*new, *others], self.prepared.subject) if new else None
        for z, samples in fresh.items():
            await self._replies.add(z, samples)
        described = await self._described(test, lost)
        return replace(described, replications=self.replications, replicated=failed)

    async def _described(self, test: OneTest, lost: Sequence[Losses] | None) -> Counterexample:
        subject = self.prepared.subject
        sentences = [(z, await self._replies.of(z)) for z in sorted(self._begun)]
        rule, original = self.checker.settings.rule, self.prepared.original
        breaking = culprits([test], sentences, subject, rule, original, lost)
        x, y = (self._names(z) for z in (test.x, test.y))
        replaced = (test.x | test.y).bit_count()
        why = f"{replaced} of {subject.m} entities replaced (x: {_list(x)}; y: {_list(y)}); {_culprits_text(breaking)}"
        recorded = tuple(map(CulpritEvidence.of, breaking))
        evidence = replace(
            self.prepared.evidence,
            tests=test_evidence([test]),
            losses=LossEvidence.all_of(lost or (), subject),
            culprits=recorded,
        )
        values = LinearityCounterexample(replaced, subject.m, x, y, recorded).to_json()
        return Counterexample(why, values, evidence.to_json())

    def _names(self, z: int) -> tuple[str, ...]:
        return tuple(entity.name for i, entity in enumerate(self.prepared.subject.tested) if z >> i & 1)


def size_of(test: OneTest) -> tuple[int, int, int, int]:
    """Return the sort key of tests: replaced entities, total bits of x and y, then x and y."""
    return (test.x | test.y).bit_count(), test.x.bit_count() + test.y.bit_count(), test.x, test.y


async def linearity_search(
    checker: LinearityChecker, text: str, oracle: Oracle, pool_seed: int, most: int, replications: int = 0
) -> LinearitySearch | str:
    """Return the search on the sentence ``text``, or why there is nothing to search, in one phrase.

    :param pool_seed: see :meth:`~pytest_llmprops.benchmarks.oracle.linearity.LinearityChecker.prepare`. With the seed
        of the measurement, the requests and the synonyms are the same.
    :raises BackendError: if a call could not be made.
    """
    prepared = await checker.prepare(Sentence(text), oracle, pool_seed)
    if prepared.stopped is not None:
        return prepared.stopped.why
    return LinearitySearch(checker, prepared, oracle, most, replications=replications)


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "none"


def _culprits_text(breaking: tuple[Culprit, ...]) -> str:
    if not breaking:
        return "a reply could not be read"
    names = ", ".join(culprit.described for culprit in breaking)
    return f"culprit{'s' if len(breaking) > 1 else ''}: {names}"
