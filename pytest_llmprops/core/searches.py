"""A search whose smallest counterexample is asked about again, with new samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pytest_llmprops.core.benchmark import Counterexample

#: number of the first sample of a replication, above those of any measurement
FIRST_REPLICATED = 500_000
#: what a search found: a failed test, or a list of claims
Violation = TypeVar("Violation")


@dataclass(kw_only=True)
class ReplicatedSearch(ABC, Generic[Violation]):
    """A search whose smallest violation is asked about again, with new samples.

    A subclass sets ``smallest``. A violation that is not repeated is forgotten, so that the search can go on.

    :param replications: how often a violation is asked about again.
    :ivar smallest: the smallest violation so far.
    """

    replications: int = 0
    smallest: Violation | None = None
    _confirmed: tuple[Violation, Counterexample] | None = None
    #: what was not repeated, by what was asked; a second try would only have more chances
    _not_repeated: dict[Hashable, Counterexample] = field(default_factory=dict)

    async def counterexample(self) -> Counterexample | None:
        """Return the smallest violation and its replications.

        If there are only violations that were not repeated, it is the one that repeats most often.

        :raises BackendError: if a call could not be made.
        """
        violation = self.smallest
        if violation is None:
            return max(self._not_repeated.values(), key=lambda other: other.replicated, default=None)
        if self._confirmed is None or self._confirmed[0] is not violation:
            counterexample = await self._replicated(violation)
            if not counterexample.is_repeated:
                self.smallest = None
                self._not_repeated[self._key(violation)] = counterexample
                return counterexample
            self._confirmed = violation, counterexample
        return self._confirmed[1]

    def _counts(self, violation: Violation) -> bool:
        """Return True unless the violation was asked about again and not repeated."""
        return self._key(violation) not in self._not_repeated

    @abstractmethod
    def _key(self, violation: Violation) -> Hashable:
        """Return what is asked about a violation."""

    @abstractmethod
    async def _replicated(self, violation: Violation) -> Counterexample:
        """Ask about a violation again, and count how often it occurs again."""
