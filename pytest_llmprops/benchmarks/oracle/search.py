"""The search for a counterexample of linearity on one sentence: the same property as the measurement's.

Whoever draws the vectors x and y (hypothesis, in ``suites/test_oracle.py``) asks :meth:`LinearitySearch.holds`. The
search makes no verdict and claims no bound: its points are not drawn uniformly. It keeps the violation with the fewest
replaced entities, and names the culprits of that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.culprits import Culprit, culprits
from pytest_llmprops.benchmarks.oracle.linear_tests import PARAPHRASE_TRIES, OneTest, Replies, linear_at
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Prepared, Sentence
from pytest_llmprops.benchmarks.oracle.linearity_evidence import (
    CulpritEvidence,
    LinearityCounterexample,
    test_evidence,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.core.benchmark import Counterexample


@dataclass
class LinearitySearch:
    """f on the sentence of ``prepared``, each vector's sentence asked once.

    :param most: requests that may be made. Those that a reply store answers count, too: so a search that is repeated
        goes the same way.

    ``asked`` counts the requests, with a paraphrase (R as in section 3.2) its most tries a sentence; ``smallest`` is
    the violated test that replaces the fewest entities, of those the first in the order of :func:`size_of`.
    """

    checker: LinearityChecker
    prepared: Prepared
    oracle: Oracle
    most: int
    asked: int = 0
    smallest: OneTest | None = None
    _replies: Replies = field(init=False)
    _begun: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._replies = self.checker.replies(self.prepared, self.oracle)
        if not self._replies.paraphrase:
            # R(0) is the sentence itself, whose extraction is known.
            self._begun.add(0)

    @property
    def size(self) -> int:
        """m, the length of the vectors."""
        return self.prepared.subject.m

    async def holds(self, *point: int) -> bool | None:
        """Whether f(x XOR y) = f(x) XNOR f(y) for the ``point`` (x, y); None where that takes too many requests.

        :raises BackendError: a call could not be made.
        """
        x, y = point
        new = {x, y, x ^ y} - self._begun
        cost = len(new) * self._each
        if self.asked + cost > self.most:
            return None
        self.asked += cost
        self._begun |= new
        test = await linear_at(x, y, self._replies.function(self.checker.settings.rule), self.size)
        if not test.passed and (self.smallest is None or size_of(test) < size_of(self.smallest)):
            self.smallest = test
        return test.passed

    @property
    def _each(self) -> int:
        tries = PARAPHRASE_TRIES if self._replies.paraphrase else 0
        return self.checker.settings.samples + tries

    async def counterexample(self) -> Counterexample | None:
        """The smallest violation with its culprits; asks nothing."""
        test, subject = self.smallest, self.prepared.subject
        if test is None:
            return None
        samples = {z: await self._replies.of(z) for z in sorted(self._begun)}
        found = culprits([test], samples, subject, self.checker.settings.rule, self.prepared.original)
        x, y = (self._names(z) for z in (test.x, test.y))
        replaced = (test.x | test.y).bit_count()
        why = f"{replaced} of {subject.m} entities replaced (x: {_list(x)}; y: {_list(y)}); {_blame(found)}"
        blamed = tuple(map(CulpritEvidence.of, found))
        shown = replace(
            self.prepared.evidence, tests=test_evidence([test], samples, subject), culprits=blamed
        )
        values = LinearityCounterexample(replaced, subject.m, x, y, blamed).to_json()
        return Counterexample(why, values, shown.to_json())

    def _names(self, z: int) -> tuple[str, ...]:
        return tuple(entity.name for i, entity in enumerate(self.prepared.subject.tested) if z >> i & 1)


def size_of(test: OneTest) -> tuple[int, int, int, int]:
    """By what tests are ordered: replaced entities, bits of x and y together, then x and y themselves."""
    return (test.x | test.y).bit_count(), test.x.bit_count() + test.y.bit_count(), test.x, test.y


async def linearity_search(
    checker: LinearityChecker, text: str, oracle: Oracle, pool_seed: int, most: int
) -> LinearitySearch | str:
    """The search on the sentence ``text``, or one phrase why there is nothing to search.

    :param pool_seed: as for :meth:`~pytest_llmprops.benchmarks.oracle.linearity.LinearityChecker.prepare`: with the
        measurement's, its replies are asked again, and its synonyms come out.
    :raises BackendError: a call could not be made.
    """
    prepared = await checker.prepare(Sentence(text), oracle, pool_seed)
    if prepared.stopped is not None:
        return prepared.stopped.why
    return LinearitySearch(checker, prepared, oracle, most)


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "none"


def _blame(found: tuple[Culprit, ...]) -> str:
    if not found:
        return "a reply could not be read"
    named = ", ".join(f'"{culprit.name}" ({", ".join(culprit.kinds)})' for culprit in found)
    return f"culprit{'s' if len(found) > 1 else ''}: {named}"
