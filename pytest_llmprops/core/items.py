"""Benchmark items, and the selection of items for a limited run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from pytest_llmprops.core.errors import DataError

K = TypeVar("K")
M = TypeVar("M")
Weighting = Literal["item", "cluster"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)

CONTROL_MARK = "+"
_LINE = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*\Z")
_LINES = ("task", "language", "source", "cluster")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_.+:-]{0,119}\Z")


@dataclass(frozen=True, slots=True)
class Item:
    """One immutable benchmark item.

    :param id: short ASCII id, stable across releases: ``htest/rhyme/0017``. The id of a control is the item's id
        with a suffix: ``homophones/en/0001+word_only``.
    :param task: the part of the benchmark that the item belongs to.
    :param language: two-letter code.
    :param source: ``builtin``, ``published`` or ``generated``.
    :param cluster: items of one cluster are not independent. Default: each item is its own cluster.
    :param fields: the data that the benchmark needs to ask and to judge; ``item["name"]`` reads a field.
    """

    id: str
    task: str
    language: str
    source: str = "builtin"
    cluster: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.id) is not str or not _ID.match(self.id):
            self._check("id", _ID, "up to 120 ASCII letters, digits and / _ . + : -")
        for name in _LINES:
            text = getattr(self, name)
            # Most texts need no regular expression: there may be a quarter of a million items.
            if type(text) is not str or not text.isprintable():
                self._check(name, _LINE, "a string in one line")
        if not self.task:
            raise DataError(f"item {self.id}: the task is empty; give it a name")
        if not isinstance(self.fields, Mapping):
            raise DataError(f"item {self.id}: the fields are {type(self.fields).__name__}; use a dict")
        if not self.cluster:
            object.__setattr__(self, "cluster", self.base_id)

    def _check(self, name: str, pattern: re.Pattern[str], what: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, str) or not pattern.match(value):
            where = "item id" if name == "id" else f"item {self.id}: {name}"
            raise DataError(f"{where} {value!r}: use {what}")
        # A subclass of str, such as a member of an enumeration, cannot be sent to another process.
        object.__setattr__(self, name, str.__str__(value))

    @property
    def base_id(self) -> str:
        """The id without its control suffix."""
        return self.id.partition(CONTROL_MARK)[0]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def check_unique(items: Iterable[Item], benchmark: str) -> None:
    """Check that no two items share an id.

    :raises DataError: if two items do.
    """
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise DataError(f"{benchmark}: two items have the id '{item.id}'; ids must be unique")
        seen.add(item.id)


def grouped(members: Iterable[M], key: Callable[[M], K]) -> dict[K, list[M]]:
    """Return the members by their key, in order of first appearance."""
    groups: dict[K, list[M]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def _order(seed: int, base_id: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{base_id}".encode()).digest()


def limited(items: Sequence[Item], limit: int | None, *, seed: int, per_cluster: bool = False) -> list[Item]:
    """Return at most ``limit`` items of each task, language and source (or cluster), in file order.

    The items are shuffled by a hash of the seed and the id without its control suffix. Every model, control and
    setting gets the same items.
    """
    if limit is None:
        return list(items)
    groups = grouped(items, lambda i: (i.task, i.language, i.source, i.cluster if per_cluster else ""))
    chosen: set[str] = set()
    for members in groups.values():
        ranked = sorted(members, key=lambda item: _order(seed, item.base_id))
        chosen.update(item.id for item in ranked[:limit])
    return [item for item in items if item.id in chosen]


#: the values of ``--llm-size`` that limit the number of items
LIMITED_SIZES = ("small", "standard")


def sized(items: Sequence[Item], most: Mapping[str, int]) -> list[Item]:
    """Return at most ``most[task]`` items of each task, language and source, in file order; all items of other tasks.

    The items are spread evenly over clusters and chosen by a hash of their ids without control suffixes. Every model,
    control and version of the data gets the same items, and more items include those of a smaller number.
    """
    groups: dict[tuple[str, str, str], dict[str, list[Item]]] = {}
    for item in items:
        if item.task in most:
            clusters = groups.setdefault((item.task, item.language, item.source), {})
            clusters.setdefault(item.cluster, []).append(item)
    left_out: set[str] = set()
    for (task, *_), clusters in groups.items():
        ranked = [
            (place, _order(0, cluster), item.id)
            for cluster, members in clusters.items()
            for place, item in enumerate(sorted(members, key=lambda item: _order(0, item.base_id)))
        ]
        left_out.update(name for *_, name in sorted(ranked)[most[task] :])
    return [item for item in items if item.id not in left_out]


class Shard(NamedTuple):
    """One of ``total`` disjoint parts of the items, numbered from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def part_of(self, items: Iterable[Item], benchmark: str) -> list[Item]:
        """Return the items of this shard, in file order.

        A hash of the cluster decides, so that clusters stay whole, and the same items are in the same shard whatever
        else is selected.
        """
        return [item for item in items if self._number_of(benchmark, item.cluster) == self.number]

    def _number_of(self, benchmark: str, cluster: str) -> int:
        digest = hashlib.sha256(f"{benchmark}\0{cluster}".encode("utf-8", "replace")).digest()
        return 1 + int.from_bytes(digest[:8]) % self.total


class Placed(Protocol):
    """An object with a benchmark, task, language and source, by which gate rules and tables select it."""

    @property
    def benchmark(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def source(self) -> str: ...


class PlacedItem(Placed, Protocol):
    """A :class:`Placed` object that is about one item."""

    @property
    def id(self) -> str: ...
    @property
    def cluster(self) -> str: ...


class TaskKey(NamedTuple):
    """One benchmark, task, language and source."""

    benchmark: str
    task: str
    language: str
    source: str


def task_key_of(place: Placed) -> TaskKey:
    """Return the task of a record, a row of the summary or an item."""
    return TaskKey(place.benchmark, place.task, place.language, place.source)


class ItemPlace(NamedTuple):
    """An item without a verdict: its id, and the benchmark, task, language and source that count it."""

    benchmark: str
    task: str
    language: str
    source: str
    id: str
    cluster: str = ""
