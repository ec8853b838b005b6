"""A checker as a benchmark.

The checker decides once per item, and its decision is the verdict: accepted is ``correct``. A checker therefore has
cases, records, gates and reports like any benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Checker, Oracle
from pytest_llmprops.core.benchmark import Ask, Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.verdicts import Status, Verdict

#: the status of outcomes with nothing to accept or reject; any other outcome that is not accepted is ``wrong``
UNDECIDED: Mapping[str, Status] = {
    "refused": "refused",
    "unparsed": "unparsed",
    "unreadable": "unparsed",
    "unmeasurable": "untested",
    "untested": "untested",
}


class CheckerBenchmark(Benchmark):
    """Base class of benchmarks that are checkers. Subclasses set ``name`` and define ``load`` and ``checker``.

    If the protocol has settings named ``temperature`` and ``max_tokens``, they apply to every question.

    This checker knows no river's length, but the answers must form an order:

    ```python
    import asyncio

    import pytest

    from pytest_llmprops import Acceptance, Bound, CheckerBenchmark, Item


    class Order:
        name = "order"

        async def check(self, x, oracle, rng):
            names = rng.sample(x["names"], len(x["names"]))
            triples = list(zip(names[::3], names[1::3], names[2::3]))
            pairs = [pair for a, b, c in triples for pair in ((a, b), (b, c), (c, a))]
            replies = await asyncio.gather(*(oracle(f"Name the longer river: {a} or {b}?") for a, b in pairs))
            chosen = [[name for name in pair if name in r.text] for pair, r in zip(pairs, replies)]
            if any(len(found) != 1 for found in chosen):
                return Acceptance(False, "unreadable", "a reply names none of the two, or both")
            # a over b, b over c, c over a: three questions, three different answers
            cycles = [t for n, t in enumerate(triples) if len({f[0] for f in chosen[3 * n : 3 * n + 3]}) == 3]
            why = f"{len(cycles)} of {len(triples)} triples are cycles"
            bound = Bound("a fair coin has no cycle in a triple with probability 3/4", probability=0.75 ** len(triples))
            return Acceptance(not cycles, "rejected" if cycles else "accepted", why, {"cycles": f"{cycles}"}, bound)


    class Rivers(CheckerBenchmark):
        name = "rivers"

        def load(self, files):
            names = ("Nile", "Rhine", "Ebro", "Volga", "Indus", "Congo", "Thames", "Amur", "Tagus")
            return [Item("rivers/0001", "length", "en", fields={"names": names})]

        def checker(self, item, context, ask, settings):
            return Order()


    @pytest.mark.llmprops(benchmark=Rivers)
    def test_rivers(verdict):
        assert verdict
    ```
    """

    judges_filtered = True
    #: The status of outcomes that are not accepted and not ``wrong``.
    undecided: ClassVar[Mapping[str, Status]] = UNDECIDED

    def checker(self, item: Item, context: Any, ask: Ask, settings: Any) -> Checker[Any]:
        """Return the checker of ``item``.

        :param ask: sends requests to helper models, by role.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define checker(item, context, ask, settings): what has a name and an"
            " async check(x, oracle, rng)"
        )

    def subject(self, item: Item) -> Any:
        """Return the argument ``x`` of the checker. Default: the item."""
        return item

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any]) -> Verdict:
        """Run the checker on the item, with the random generator of the item."""
        settings = protocol.settings
        oracle = Oracle(
            ask,
            temperature=getattr(settings, "temperature", None),
            max_tokens=getattr(settings, "max_tokens", None),
        )
        checker = self.checker(item, context, ask, settings)
        acceptance = await checker.check(self.subject(item), oracle, protocol.rng(item.id))
        return verdict_of(acceptance, undecided=self.undecided)


def verdict_of(acceptance: Acceptance, *, undecided: Mapping[str, Status] = UNDECIDED) -> Verdict:
    """Return a checker's decision as a verdict. A rejected answer is ``wrong``; its opposite is never accepted.

    :param undecided: outcome -> status.
    """
    status: Status = "correct" if acceptance.accepted else undecided.get(acceptance.outcome, "wrong")
    evidence = dict(acceptance.evidence)
    if acceptance.bound is not None:
        evidence["bound"] = acceptance.bound.text
    return Verdict(
        status,
        "accepted",
        acceptance.outcome,
        acceptance.why,
        float(acceptance.accepted),
        dict(acceptance.values),
        evidence,
    )
