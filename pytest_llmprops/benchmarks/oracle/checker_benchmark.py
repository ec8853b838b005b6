"""A checker as a benchmark: whoever has a :class:`~.scheme.Checker` of their own measures models with it.

Each item is put to the checker once; what it decides is the item's verdict: accepted is ``correct``. So a checker
has all that a benchmark has: cases, records, gates, reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Checker, Oracle
from pytest_llmprops.core.benchmark import Ask, Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.verdicts import Status, Verdict

#: outcomes under which there was nothing to accept or to reject; any other that is not accepted is ``wrong``
UNDECIDED: Mapping[str, Status] = {
    "refused": "refused",
    "unparsed": "unparsed",
    "unreadable": "unparsed",
    "unmeasurable": "unparsed",
    "untested": "unparsed",
}


class CheckerBenchmark(Benchmark):
    """Base class of benchmarks that are checkers. Subclasses set ``name`` and write ``load`` and ``checker``.

    Settings called ``temperature`` and ``max_tokens``, where the protocol has them, are those of every question.
    """

    #: outcome -> status, of what is not accepted
    undecided: ClassVar[Mapping[str, Status]] = UNDECIDED

    def checker(self, item: Item, context: Any, ask: Ask, settings: Any) -> Checker[Any]:
        """The checker of ``item``. :param ask: the way to helper models, by their roles."""
        raise NotImplementedError(
            f"{type(self).__name__} must define checker(item, context, ask, settings): what has a name and an"
            " async check(x, oracle, rng)"
        )

    def subject(self, item: Item) -> Any:
        """What the checker is given as ``x``; the item itself where this is not defined."""
        return item

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any]) -> Verdict:
        """Put the item to its checker, which draws from the generator of (seed, item)."""
        settings = protocol.settings
        oracle = Oracle(
            ask,
            temperature=getattr(settings, "temperature", None),
            max_tokens=getattr(settings, "max_tokens", None),
        )
        checker = self.checker(item, context, ask, settings)
        found = await checker.check(self.subject(item), oracle, protocol.rng(item.id))
        return verdict_of(found, undecided=self.undecided)


def verdict_of(found: Acceptance, *, undecided: Mapping[str, Status] = UNDECIDED) -> Verdict:
    """A checker's decision as a verdict. What is rejected is ``wrong``, and never the opposite answer accepted.

    :param undecided: outcome -> status.
    """
    status: Status = "correct" if found.accepted else undecided.get(found.outcome, "wrong")
    evidence = dict(found.evidence)
    if found.bound is not None:
        evidence["bound"] = found.bound.text
    return Verdict(
        status, "accepted", found.outcome, found.why, float(found.accepted), dict(found.values), evidence
    )
