"""Properties of a model that a search tests on one item, and edits of an item that keep its label.

A benchmark with a property of its own subclasses :class:`ReplicatedSearch`. Most properties are *metamorphic*: the item
is edited in a way that cannot change its label, so a model that answers it correctly must still do so. Such a benchmark
is an :class:`EditedBenchmark` and defines the edits of an item (:class:`Edits`). This module does the rest:

- :class:`EditSearch` looks for the smallest edit after which the answer is wrong;
- :meth:`EditedBenchmark.with_edit` measures the same property at one point per item, drawn uniformly from the seeded
  generator, and :func:`edit_metrics` and :func:`edit_remarks` count these points.

An invariance alone holds for a model that always says the same. Therefore only items that the model answers correctly
are searched and counted as violations, and ``edit_accuracy`` is the share of items that are right with and without the
edit: a model that always says the same gets its share of right answers, at most.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pytest_llmprops.core.benchmark import Ask, Benchmark, Counterexample, Measured, Searched
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, by_place
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import GENERATED, Kind, Reply, Request
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import Verdict

#: number of the first sample of a replication, above those of any measurement
FIRST_REPLICATED = 500_000
#: distance between the samples of two replications of an edited item, above the samples of one
_STRIDE = 1_000
#: points that are drawn to find one that changes the item
_DRAWS = 100
#: what a search found: a test, a list of claims, an edited item
Violation = TypeVar("Violation")
Point = tuple[int, ...]
_T = TypeVar("_T")


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


# ---- edits that keep the label


@dataclass(frozen=True, slots=True)
class EditSettings:
    """The settings of benchmarks with edits; they change no verdict.

    :param edits: also ask about one edit of each item, drawn uniformly from the seeded generator.
    :param search: the items to search for counterexamples; ``correct``: those that the model answers correctly.
    :param shrink_calls: maximum requests of one search, without replications.
    :param replications: how often the item and its smallest violating edit are asked about again, with new samples.
    """

    edits: bool = False
    search: Literal["none", "correct"] = "none"
    shrink_calls: int = 200
    replications: int = 5

    def __post_init__(self) -> None:
        if self.shrink_calls < 1:
            raise ValueError("shrink_calls must be at least 1")
        if not 0 <= self.replications <= 100:
            raise ValueError("replications must be from 0 to 100")


#: the metrics of edits, with their directions
EDIT_METRICS: Mapping[str, str] = {"edit_violation_rate": "lower", "edit_accuracy": "higher"}


@dataclass(frozen=True, slots=True)
class Variant:
    """An edited item.

    :param content: what :meth:`Edits.judge` asks about, hashable; equal contents are asked about once.
    :param edits: what was changed, in words; empty if nothing was.
    :param size: how much was changed; the smallest is reported. By default, the number of ``edits``.
    :param shown: the edited texts, for the record.
    """

    content: Any
    edits: tuple[str, ...]
    size: int | None = None
    shown: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def cost(self) -> int:
        """How much was changed."""
        return len(self.edits) if self.size is None else self.size


class Edits(ABC):
    """The edits of one item. Each keeps the item's label by construction."""

    @property
    @abstractmethod
    def size(self) -> Point:
        """The number of choices for each number of a point; the point of zeros leaves the item as it is."""

    @abstractmethod
    def variant(self, point: Point) -> Variant | None:
        """Return the item with the edits of a point; None if they do not fit together."""

    @abstractmethod
    async def judge(self, variant: Variant, ask: Ask) -> Verdict:
        """Ask the model about a variant, exactly as about the item itself, and judge the reply."""

    @property
    def original(self) -> Variant:
        """The item as it is."""
        variant = self.variant((0,) * len(self.size))
        assert variant is not None, "the point of zeros leaves the item as it is"
        return variant

    @property
    def is_empty(self) -> bool:
        return all(choices == 1 for choices in self.size)


def exchange_sizes(count: int) -> Point:
    """Return the choices of the numbers that put ``count`` things in order: every order has one point."""
    return tuple(range(count, 1, -1))


def exchanged(things: Sequence[_T], numbers: Sequence[int]) -> tuple[list[_T], list[tuple[_T, _T]]]:
    """Return ``things`` in the order of ``numbers``, and the pairs that were exchanged one after the other.

    Number n exchanges the thing at place n with the one that many places after it (Fisher and Yates), so zeros change
    nothing, and uniform numbers are a uniform order.
    """
    ordered, pairs = list(things), []
    for place, number in enumerate(numbers):
        if number:
            one, other = ordered[place], ordered[place + number]
            ordered[place], ordered[place + number] = other, one
            pairs.append((one, other))
    return ordered, pairs


class _CountedAsk:
    """Count the requests, and move the samples of those to the model under test."""

    def __init__(self, ask: Ask, first: int = 0) -> None:
        self._ask, self._first = ask, first
        self.count = 0

    @property
    def kinds(self) -> frozenset[Kind]:
        return self._ask.kinds

    @property
    def roles(self) -> frozenset[str]:
        return self._ask.roles

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        self.count += 1
        if self._first and role == "subject" and isinstance(request, GENERATED):
            request = replace(request, sample=self._first + request.sample)
        return await self._ask(request, role)


@dataclass(frozen=True, slots=True)
class WrongVariant:
    """A variant to which the answer is wrong, and its verdict."""

    variant: Variant
    verdict: Verdict
    cost: tuple[int, ...]


@dataclass
class EditSearch(ReplicatedSearch[WrongVariant]):
    """The property of an item that the model answers correctly: the answer to every variant is correct, too.

    A reply that refuses or cannot be read is no violation. A violation is repeated if, in a new asking, the model
    answers the item correctly and the variant wrongly.

    :param most: maximum number of requests, without those of replications. Requests answered from a reply store count
        too, so that a repeated search takes the same path.
    :param requests: maximum number of requests about one variant.
    :ivar smallest: the violation with the fewest edits, then the first.
    """

    edits: Edits
    ask: Ask
    most: int
    requests: int = 1
    asked: int = 0
    _verdicts: dict[Hashable, Verdict] = field(default_factory=dict)

    @property
    def size(self) -> Point:
        """The number of choices for each number of a point."""
        return self.edits.size

    async def holds(self, *point: int) -> bool | None:
        """Return True unless the answer to the variant at ``point`` is wrong; None if that takes too many requests.

        :raises BackendError: if a call could not be made.
        """
        variant = self.edits.variant(point)
        if variant is None or variant.content == self.edits.original.content:
            return True
        verdict = await self.verdict(variant)
        if verdict is None:
            return None
        violation = WrongVariant(variant, verdict, (variant.cost, *point))
        if verdict.status != "wrong" or not self._counts(violation):
            return True
        if self.smallest is None or violation.cost < self.smallest.cost:
            self.smallest = violation
        return False

    async def verdict(self, variant: Variant) -> Verdict | None:
        """Return the verdict on a variant, which is asked about once; None if it takes too many requests.

        :raises BackendError: if a call could not be made.
        """
        known = self._verdicts.get(variant.content)
        if known is None:
            if self.asked + self.requests > self.most:
                return None
            ask = _CountedAsk(self.ask)
            known = self._verdicts[variant.content] = await self.edits.judge(variant, ask)
            self.asked += ask.count
        return known

    def _key(self, violation: WrongVariant) -> Hashable:
        content: Hashable = violation.variant.content
        return content

    async def _replicated(self, violation: WrongVariant) -> Counterexample:
        repeated = await asyncio.gather(
            *(self._is_repeated(violation.variant, number) for number in range(self.replications))
        )
        variant, verdict = violation.variant, violation.verdict
        why = f"{'; '.join(variant.edits)}: {verdict.reason}"
        values = {"edits": list(variant.edits), "expected": verdict.expected, "given": verdict.given}
        return Counterexample(
            why, {**values, **variant.shown}, verdict.evidence, len(repeated), sum(repeated)
        )

    async def _is_repeated(self, variant: Variant, number: int) -> bool:
        """Ask about the item and the variant again."""
        ask = _CountedAsk(self.ask, FIRST_REPLICATED + number * _STRIDE)
        both = (self.edits.judge(one, ask) for one in (self.edits.original, variant))
        before, after = await asyncio.gather(*both)
        return before.status == "correct" and after.status == "wrong"


def drawn(edits: Edits, rng: random.Random) -> Variant | None:
    """Return the variant at a uniform point that changes the item; None if 100 points do not give one."""
    original = edits.original
    for _ in range(0 if edits.is_empty else _DRAWS):
        variant = edits.variant(tuple(rng.randrange(choices) for choices in edits.size))
        if variant is not None and variant.content != original.content:
            return variant
    return None


class EditedBenchmark(Benchmark):
    """A benchmark with one property: an edit that keeps the label of an item keeps a right answer right.

    Its settings are a subclass of :class:`EditSettings`. A subclass defines :meth:`edits`, calls :meth:`with_edit` at
    the end of ``evaluate``, and keeps the ``presentation``, ``metric_directions``, ``metrics`` and ``remarks`` of this
    class among its own.
    """

    presentation = frozenset(field.name for field in fields(EditSettings))
    metric_directions = EDIT_METRICS
    #: the tasks whose items have edits
    edited_tasks: ClassVar[frozenset[str]]

    async def edits(self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any]) -> Edits | str:
        """Return the edits of an item, or one phrase why it has none.

        :raises BackendError: if a call could not be made.
        """
        raise NotImplementedError(f"{type(self).__name__} must define edits(...)")

    def edit_requests(self, settings: Any) -> int:
        """Return the maximum number of requests to judge one variant."""
        return 1

    async def with_edit(
        self, verdict: Verdict, item: Item, context: Any, ask: Ask, protocol: Protocol[Any]
    ) -> Verdict:
        """Return the verdict on an item; with the setting ``edits``, it has the outcome of one drawn variant.

        ``edit_right`` is 1 if the answer to the variant is correct, ``edit_read`` if it is correct or wrong. Both are
        missing if the item has no variant. Status, score and all other values stay as they are.

        :raises BackendError: if a call could not be made.
        """
        if not protocol.settings.edits or item.task not in self.edited_tasks:
            return verdict
        edits = await self.edits(item, context, ask, protocol)
        variant = None if isinstance(edits, str) else drawn(edits, protocol.rng(item.id, 1))
        if variant is None or isinstance(edits, str):
            return verdict
        other = await edits.judge(variant, ask)
        values = {
            "edit_right": float(other.status == "correct"),
            "edit_read": float(other.status in ("correct", "wrong")),
        }
        edited: dict[str, JSON] = {
            "edits": list(variant.edits),
            "status": other.status,
            "given": other.given,
            **variant.shown,
        }
        return replace(
            verdict, values={**verdict.values, **values}, evidence={**verdict.evidence, "edited": edited}
        )

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        return edit_metrics(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        return edit_remarks(records)

    def searches(self, item: Item, settings: Any, name: str) -> bool:
        return settings.search != "none" and item.task in self.edited_tasks

    async def search(
        self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any], measured: Measured, name: str
    ) -> Searched | str:
        edits = await self.edits(item, context, ask, protocol)
        if isinstance(edits, str):
            return edits
        if edits.is_empty:
            return "no edit keeps its label"
        settings: EditSettings = protocol.settings
        requests = self.edit_requests(settings)
        search = EditSearch(edits, ask, settings.shrink_calls, requests, replications=settings.replications)
        # `measured` may be about other requests: several runs in several orders.
        verdict = await search.verdict(edits.original)
        if verdict is None or verdict.status != "correct":
            return "shrink_calls is too small" if verdict is None else f"its answer is {verdict.status}"
        return search

    def search_calls(self, settings: Any, name: str) -> int:
        # A replication asks about the item and the variant.
        return int(settings.shrink_calls + 2 * self.edit_requests(settings) * settings.replications)


def edit_metrics(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of edits for every task, language and source with drawn variants.

    ``edit_violation_rate``: of the items that are answered correctly and whose variant could be read, the share of
    variants that are answered wrongly. ``edit_accuracy``: of the items with a variant, the share of which both are
    answered correctly. The intervals are over clusters, like those of accuracies.
    """
    for place, members in by_place(records).items():
        asked = [r for r in members if "edit_right" in r.values]
        counted = [r for r in asked if r.status == "correct" and r.values["edit_read"]]
        if not asked:
            continue
        violated = [1 - r.values["edit_right"] for r in counted]
        both = [float(r.status == "correct") * r.values["edit_right"] for r in asked]
        for name, scores, rows in (
            ("edit_violation_rate", violated, counted),
            ("edit_accuracy", both, asked),
        ):
            if not scores:
                yield Metric(*place, name, None, 0, direction=EDIT_METRICS[name])
                continue
            limits = mean_interval(scores, [r.cluster for r in rows])
            value, direction = sum(scores) / len(scores), EDIT_METRICS[name]
            yield Metric(*place, name, value, len(scores), "", limits.low, limits.high, direction)


def edit_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield one line on all drawn variants, which says how to read the share of violations."""
    asked = [r for r in records if "edit_right" in r.values]
    counted = [r for r in asked if r.status == "correct" and r.values["edit_read"]]
    if not asked:
        return
    wrong = sum(not r.values["edit_right"] for r in counted)
    both = sum(r.status == "correct" and bool(r.values["edit_right"]) for r in asked)
    yield (
        f"edits: {wrong} of {len(counted)} correct answers become wrong after an edit that keeps the label;"
        f" {percent(both / len(asked))} of {len(asked)} items are right with and without it"
        " (a model that always says the same has no violations)"
    )
