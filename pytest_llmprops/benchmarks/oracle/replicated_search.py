"""A search that asks about its smallest violation again before it reports it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pytest_llmprops.core.benchmark import Counterexample

#: what the property found: a test, a list of claims
Violation = TypeVar("Violation")


@dataclass(kw_only=True)
class ReplicatedSearch(ABC, Generic[Violation]):
    """A search whose smallest violation is asked about again, with new samples.

    A subclass sets ``smallest``. A violation that may be noise is forgotten, so that the search can go on.

    :param replications: how often a violation is asked about again.
    :ivar smallest: the smallest violation so far.
    """

    replications: int = 0
    smallest: Violation | None = None
    _confirmed: tuple[Violation, Counterexample] | None = None
    _noise: list[Counterexample] = field(default_factory=list)

    async def counterexample(self) -> Counterexample | None:
        """Return the smallest violation and its replications.

        If there is none but noise, it is the noise that repeats most often.

        :raises BackendError: if a call could not be made.
        """
        violation = self.smallest
        if violation is None:
            return max(self._noise, key=lambda noise: noise.replicated, default=None)
        if self._confirmed is None or self._confirmed[0] is not violation:
            counterexample = await self._replicated(violation)
            if counterexample.is_noise:
                self.smallest = None
                self._noise.append(counterexample)
                return counterexample
            self._confirmed = violation, counterexample
        return self._confirmed[1]

    @abstractmethod
    async def _replicated(self, violation: Violation) -> Counterexample:
        """Ask about a violation again, and count how often it occurs again."""
