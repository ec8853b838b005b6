"""What a benchmark is: pure code that loads items and judges replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from typing import Protocol as TypingProtocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, Record
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Kind, Reply, Request
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import Verdict


class Ask(TypingProtocol):
    """The only way from a benchmark to a model.

    ``role`` is ``subject`` for the model under test, else the name of a helper (``reader`` ...).
    Raises :class:`~pytest_llmprops.core.errors.BackendError` when the call could not be made; a
    benchmark lets it pass. ``kinds`` are the kinds of request that the model under test serves, ``roles``
    those of the helpers that are there.
    """

    @property
    def kinds(self) -> frozenset[Kind]: ...
    @property
    def roles(self) -> frozenset[str]: ...

    async def __call__(self, request: Request, role: str = "subject") -> Reply: ...


#: puts requests of one kind to a model in this process and gives a result for each, in order
Serve = Callable[[Sequence[Request]], Sequence[Reply | BackendError]]


class DataFiles(TypingProtocol):
    """Read access to one folder of data; the strict readers raise DataError in one clear line."""

    @property
    def source(self) -> str: ...
    @property
    def builtin(self) -> DataFiles: ...
    def exists(self, path: str) -> bool: ...
    def text(self, path: str) -> str: ...
    def json(self, path: str) -> Any: ...
    def jsonl(self, path: str, required: Sequence[str] = ()) -> list[dict[str, Any]]: ...
    def csv(self, path: str, required: Sequence[str] = ()) -> list[dict[str, str]]: ...
    def tsv_literal(self, path: str, required: Sequence[str] = ()) -> list[dict[str, str]]: ...
    def tool(self, name: str) -> Callable[..., Any]: ...
    def given(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """Items, and whatever immutable context their evaluation needs (few-shot examples, rules, pools)."""

    items: tuple[Item, ...]
    context: Any = None


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Where a property does not hold.

    :param why: one phrase for a person. :param values: plain values, for the record.
    :param evidence: a JSON object with the benchmark's own keys, for a person.
    """

    why: str
    values: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(default_factory=dict)


class Searched(TypingProtocol):
    """One item's property, to be tried at many points: see :meth:`Benchmark.search`.

    ``size`` is what a test function needs to know to draw a point (the length of a vector). It remembers what it
    asked, so that a point that was tried before, or is made of what was, costs no call.
    """

    @property
    def size(self) -> int: ...

    async def holds(self, *point: int) -> bool | None:
        """Whether the property holds at ``point``; None when the calls that a search may make are spent.

        :raises BackendError: a call could not be made.
        """
        ...

    async def counterexample(self) -> Counterexample | None:
        """The smallest one so far; asks nothing."""
        ...


#: gives the verdict on the item, from memory where it is known; raises BackendError where there is none
Measured = Callable[[], Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For benchmarks without parameters."""


class Benchmark:
    """Base class of benchmarks. Subclasses set ``name`` and write ``load`` and ``evaluate``.

    A subclass does no I/O and reads no clock or environment; random choices come from
    ``protocol.rng(item.id)``.
    """

    name: ClassVar[str]
    #: the name in headings; by default ``name`` with a capital
    title: ClassVar[str] = ""
    #: one line on what a case tests, for reports
    about: ClassVar[str] = ""
    #: what a model gets right, in a sentence: "gpt-4o answers 90.0% of *oracle cases*"; by default ``name``
    noun: ClassVar[str] = ""
    #: the word before the share in that sentence
    verb: ClassVar[str] = "answers"
    #: one line on what each task tests, for reports
    task_about: ClassVar[Mapping[str, str]] = {}
    #: tasks that are controls of another: what is wrong there is no fault of the model
    controls: ClassVar[frozenset[str]] = frozenset()
    #: further tasks that do not count into the benchmark's one figure in reports: tests of another kind
    side_tasks: ClassVar[frozenset[str]] = frozenset()
    #: share that guessing gets, by task; the key ``""`` is for all others
    chance: ClassVar[Mapping[str, float]] = {}
    #: task of the printed results that are shown next to the benchmark's one figure
    printed_task: ClassVar[str] = ""
    #: name -> direction of every metric that :meth:`metrics` may give, so that a gate can be checked
    #: before anything is measured; a benchmark that says nothing here is checked afterwards
    metric_directions: ClassVar[Mapping[str, str]] = {}
    #: the request kinds by any one of which the model under test can be measured
    kinds: ClassVar[frozenset[Kind]] = frozenset({"chat"})
    protocols: ClassVar[Mapping[str, NamedSettings[Any]]] = {
        "paper": NamedSettings(NoSettings()),
        "quick": NamedSettings(NoSettings()),
    }
    #: tasks of which an item's is known from the answer only (``Verdict.task``); ``Item.task`` is then a guess
    tasks_by_answer: ClassVar[frozenset[str]] = frozenset()
    #: tasks on which a model is best at another accuracy than 1: no gate may ask for more of it
    accuracy_targets: ClassVar[Mapping[str, float]] = {}
    #: settings that shape only how cases are shown: runs that differ in them are comparable
    presentation: ClassVar[frozenset[str]] = frozenset()
    #: ``--llm-limit`` counts per cluster, not per task and language
    limit_per_cluster: ClassVar[bool] = False

    def load(self, files: DataFiles) -> Loaded | Iterable[Item]:
        """Items in file order, with their context where one is needed."""
        raise NotImplementedError(f"{type(self).__name__} must define load(files)")

    def prepared(self, part: Loaded, files: DataFiles, settings: Any) -> Loaded:
        """``part``, as :meth:`load` gave it, made ready for these settings.

        Here a benchmark reads what only some settings need, and by ``files.given`` files that they name.

        :raises DataError: for a file that is not what it should be.
        """
        return part

    def check_selected(self, items: Sequence[Item], context: Any, settings: Any) -> None:
        """Refuse items, now that pytest has selected them, that these settings do not cover.

        Called before anything is asked, with all selected items of one :class:`Loaded`.

        :raises UsageError: naming the first item, and what to do.
        """

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any]) -> Verdict:
        """Ask the model about ``item`` and judge the reply."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate(item, context, ask, protocol)")

    def kinds_of(self, task: str) -> frozenset[Kind]:
        """The request kinds by any one of which items of ``task`` can be measured."""
        return self.kinds

    def roles_of(self, task: str) -> frozenset[str]:
        """Helpers without which items of ``task`` cannot be asked; the others can. See also :meth:`helpers`."""
        return frozenset()

    def evaluate_all(
        self, items: Sequence[Item], context: Any, serve: Serve, protocol: Protocol[Any]
    ) -> Sequence[Verdict | BackendError] | None:
        """Judge many items at once on a model that is served inside this process (a segmenter).

        One result an item, in order. None, the default, has every item judged by :meth:`evaluate`.
        """
        return None

    def searches(self, item: Item, settings: Any) -> bool:
        """Whether ``item`` has a case of its own that searches for a counterexample, under these settings."""
        return False

    async def search(
        self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any], measured: Measured
    ) -> Searched | str:
        """The property of ``item`` that :meth:`evaluate` measures, for a search; or one phrase why there is none.

        A test function with the fixture ``search`` has one case an item for which :meth:`searches` is true; it
        draws the points. A search makes no verdict: it is counted apart and changes no score, metric or gate.

        :param measured: for a search that depends on the verdict.
        :raises BackendError: a call could not be made.
        """
        raise NotImplementedError(f"{type(self).__name__} must define search(...)")

    def case_names(self, items: Sequence[Item], settings: Any) -> Sequence[str] | None:
        """The pytest case that reports each item, by name; None, the default: each item is a case of its own.

        A case of several items is wrong when one of them is, and an error when items are in error and all
        others correct; the run record has every item's verdict. Under a sequential gate, which draws items,
        nobody asks: each item is a case.
        """
        return None

    def helpers(self, settings: Any) -> tuple[str, ...]:
        """Roles that must be given by ``--llm-helper`` under these settings."""
        return ()

    def metrics(self, records: Sequence[Record]) -> Iterable[Metric]:
        """Further numbers from one model's verdict records, beside accuracy."""
        return ()

    def remarks(self, records: Sequence[Record]) -> Iterable[str]:
        """What the summary must say of one model beside its numbers, a line each."""
        return ()


def loaded(benchmark: Benchmark, files: DataFiles) -> Loaded:
    """``benchmark.load`` with a bare sequence of items accepted."""
    result = benchmark.load(files)
    return result if isinstance(result, Loaded) else Loaded(tuple(result))
