"""The base class of benchmarks: pure code that loads items and judges replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from typing import Protocol as TypingProtocol

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Item, Weighting
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Kind, Reply, Request
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord


class Ask(TypingProtocol):
    """The only function through which a benchmark sends requests to models."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of request that the model under test serves."""
        ...

    @property
    def roles(self) -> frozenset[str]:
        """The roles that have a helper."""
        ...

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        """Send a request and return the reply.

        :param role: ``subject`` for the model under test, otherwise the role of a helper (``reader`` ...).
        :raises BackendError: if the call fails. A benchmark does not catch it, and the item becomes an error.
        """
        ...


class DataFiles(TypingProtocol):
    """Read access to one data folder.

    Paths are relative to the folder. Every reader raises :class:`DataError` with the file, the line and the fix.
    Every file that is read is recorded with its sha256.
    """

    @property
    def source(self) -> str:
        """The source of the items: ``builtin``, ``published`` or ``generated``."""
        ...

    @property
    def builtin(self) -> DataFiles:
        """The built-in data, for files that a published folder does not have."""
        ...

    def exists(self, path: str) -> bool:
        """Return True if the folder has this file."""
        ...

    def text(self, path: str) -> str:
        """Return the text of a UTF-8 file."""
        ...

    def json(self, path: str) -> Any:
        """Return the content of a JSON file."""
        ...

    def jsonl(self, path: str, required: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the objects of a file with one JSON object per line.

        :param required: keys that every object must have.
        """
        ...

    def csv(self, path: str, required: Sequence[str] = ()) -> list[dict[str, str]]:
        """Return the rows of a comma-separated file with a header.

        :param required: columns that the header must have.
        """
        ...

    def tsv_literal(self, path: str, required: Sequence[str] = ()) -> list[dict[str, str]]:
        """Return the rows of a tab-separated file with a header; quotes are ordinary characters.

        :param required: columns that the header must have.
        """
        ...

    def tool(self, name: str) -> Callable[..., Any]:
        """Return a function from ``tools`` of the benchmark's registration."""
        ...

    def given(self, path: str) -> str:
        """Return the text of a file that the user's settings name; the path may be outside the folder."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """Items, and the context needed to evaluate them.

    :param items: the items, in file order.
    :param context: an immutable object, such as few-shot examples or rules; passed to ``evaluate``.
    """

    items: tuple[Item, ...]
    context: Any = None


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A point at which a property does not hold.

    :param why: one phrase that says what went wrong.
    :param values: plain values for the record.
    :param evidence: a JSON object with the benchmark's own keys.
    :param replications: how often the same point was asked about again, with new samples.
    :param replicated: in how many of them the property did not hold again.
    """

    why: str
    values: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    replications: int = 0
    replicated: int = 0

    @property
    def is_repeated(self) -> bool:
        """True if more than 60% of the replications repeat it, or if there are none. Only then it counts."""
        return not self.replications or 5 * self.replicated > 3 * self.replications


class Searched(TypingProtocol):
    """The property of one item, as :meth:`Benchmark.search` returns it.

    It should remember its results, because a search repeats points. This search finds the shortest word whose letters a
    model miscounts:

    ```python
    import pytest

    from pytest_llmprops import Benchmark, Chat, Counterexample, Item, Verdict


    class Counting:
        size = 60  # the longest word that is tried

        def __init__(self, ask):
            self.ask, self.wrong = ask, {}

        async def holds(self, n):
            reply = await self.ask(Chat.user(f"How many letters has {'a' * n}? Answer with the number only."))
            if reply.text.strip() != str(n):
                self.wrong[n] = reply.text
            return n not in self.wrong

        async def counterexample(self):
            n = min(self.wrong, default=0)
            return Counterexample(f"miscounts {n} letters", {"letters": n}, {"reply": self.wrong[n]}) if n else None


    class Letters(Benchmark):
        name = "letters"

        def load(self, files):
            return [Item("letters/a", "count", "en")]

        async def evaluate(self, item, context, ask, protocol):
            counted = await Counting(ask).holds(7)
            return Verdict.check(counted, expected="7", given="7" if counted else "another number")

        def searches(self, item, settings, name):
            return True

        async def search(self, item, context, ask, protocol, measured, name):
            return Counting(ask)


    @pytest.mark.llmprops(benchmark=Letters)
    def test_letters(verdict):
        assert verdict


    @pytest.mark.llmprops(benchmark=Letters)
    def test_letters_search(search):
        from hypothesis import given, strategies

        @given(strategies.integers(1, search.size))
        def counted(n):
            assert search.holds(n)

        search.run(counted)
    ```
    """

    @property
    def size(self) -> int | tuple[int, ...]:
        """What a test function needs to draw a point, such as the length of a vector, or the choices per number."""
        ...

    async def holds(self, *point: int) -> bool | None:
        """Return True if the property holds at ``point``; None if no more calls are allowed.

        :raises BackendError: if a call fails.
        """
        ...

    async def counterexample(self) -> Counterexample | None:
        """Return the smallest counterexample so far; None if there are none.

        It may ask about its point again, to say how often it repeats. If it is not repeated, the property should count
        these replies too: the search goes on, and ends if nothing else is found.

        :raises BackendError: if a call fails.
        """
        ...


#: returns the verdict on the item, without a call if it is known; raises BackendError if the item is an error
Measured = Callable[[], Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class NoSettings:
    """Settings of a benchmark that has no parameters."""


class Benchmark:
    """Base class of benchmarks. Subclasses set ``name`` and define ``load`` and ``evaluate``.

    A subclass does no I/O and reads no clock or environment. It takes random choices from
    ``protocol.rng(item.id)``.
    """

    #: The name of the benchmark in options, records and gates.
    name: ClassVar[str]
    #: The name in headings. Default: ``name`` with a capital.
    title: ClassVar[str] = ""
    #: One line for reports: what a case tests.
    about: ClassVar[str] = ""
    #: The noun for what a model gets right, in a sentence: "gpt-4o answers 90.0% of *oracle cases*". Default: ``name``.
    noun: ClassVar[str] = ""
    #: The verb in that sentence.
    verb: ClassVar[str] = "answers"
    #: One line per task for reports: what the task tests.
    task_about: ClassVar[Mapping[str, str]] = {}
    #: Tasks that are controls of another task. A wrong answer to a control is not a fault of the model.
    controls: ClassVar[frozenset[str]] = frozenset()
    #: Other tasks that do not count in the benchmark's headline figure.
    side_tasks: ClassVar[frozenset[str]] = frozenset()
    #: The accuracy of guessing, by task; the key ``""`` is for all other tasks.
    chance: ClassVar[Mapping[str, float]] = {}
    #: The task of the printed results that are shown next to the headline figure.
    printed_task: ClassVar[str] = ""
    #: The direction of every metric that :meth:`metrics` may return, by name. With it, a gate is checked before the
    #: first call; otherwise after the last.
    metric_directions: ClassVar[Mapping[str, str]] = {}
    #: Metrics that leave replies out, each with the metric of the share that is left: a model could raise the first by
    #: lowering the second. A gate that limits the first must limit the second, too.
    bounded_metrics: ClassVar[Mapping[str, str]] = {}
    #: Whether a verdict is one decision that is right or wrong. Then a run with repeats has the metrics ``pass@k`` and
    #: ``majority``, except for the tasks of ``accuracy_targets``.
    one_decision: ClassVar[bool] = True
    #: Whether ``evaluate`` itself judges replies that a content filter withheld (``Reply.finish_reason`` is
    #: ``content_filter``), for benchmarks with several calls per item. Otherwise, an item with one is ``refused``.
    judges_filtered: ClassVar[bool] = False
    #: The kinds of request; the model under test must serve at least one of them. A base model also continues chats of
    #: one message of the user, unless the kinds include ``completion`` or ``likelihood``.
    kinds: ClassVar[frozenset[Kind]] = frozenset({"chat"})
    #: The settings of the protocols ``paper`` and ``quick``.
    protocols: ClassVar[Mapping[str, NamedSettings[Any]]] = {
        "paper": NamedSettings(NoSettings()),
        "quick": NamedSettings(NoSettings()),
    }
    #: Tasks that depend on the answer. ``Verdict.task`` is the task; ``Item.task`` is only a guess.
    tasks_by_answer: ClassVar[frozenset[str]] = frozenset()
    #: The best accuracy of tasks whose best accuracy is not 1. Gates accept no ``min_accuracy`` for them.
    accuracy_targets: ClassVar[Mapping[str, float]] = {}
    #: Tasks whose share of correct verdicts says nothing by itself. It ranks no models and heads no report; the first
    #: of :meth:`remarks` that begins with the given word does. Gates judge these tasks by a named metric only.
    unranked: ClassVar[Mapping[str, str]] = {}
    #: What counts once in accuracies, comparisons and gates: each ``item``, or each ``cluster``, as in papers that
    #: average over groups of items. A cluster then has the mean score of its items.
    weighting: ClassVar[Weighting] = "item"
    #: Settings that change no verdict, such as how cases are shown. Runs that differ in them are comparable.
    presentation: ClassVar[frozenset[str]] = frozenset()
    #: Whether ``--llm-limit`` counts per cluster instead of per task and language.
    limit_per_cluster: ClassVar[bool] = False
    #: The maximum items per task and language for ``--llm-size small`` and ``standard``, by size and task; other tasks
    #: have all their items.
    sizes: ClassVar[Mapping[str, Mapping[str, int]]] = {}
    #: The helper roles that it may ask. ``--llm-helper`` may name no others. None: those of :meth:`helpers`,
    #: :meth:`roles_of` and the registration's default helpers; any role if these name none.
    roles: ClassVar[frozenset[str] | None] = None
    #: The names of the properties that can be searched, if there are several. The marker of a test function names one:
    #: ``llmprops("oracle", search="symmetry")``. Empty: there is one, without a name.
    properties: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *arguments: object) -> None:
        if arguments:
            # pytest.mark.llmprops(MyClass) marks the class and then calls it with the test function.
            name = type(self).__name__
            raise UsageError(
                f"{name} is created without arguments; mark the test function with llmprops(benchmark={name})"
            )

    def load(self, files: DataFiles) -> Loaded | Iterable[Item]:
        """Return the items in file order, with a context if one is needed."""
        raise NotImplementedError(f"{type(self).__name__} must define load(files)")

    def prepared(self, part: Loaded, files: DataFiles, settings: Any) -> Loaded:
        """Return ``part``, a result of :meth:`load`, prepared for these settings.

        Read here the files that only some settings need. ``files.given`` reads a file that a setting names.

        :raises DataError: if a file is invalid.
        """
        return part

    def check_selected(self, items: Sequence[Item], context: Any, settings: Any) -> None:
        """Raise an error for selected items that these settings do not cover.

        Called before the first call, with all selected items of one :class:`Loaded`.

        :raises UsageError: with the first such item and the fix.
        """

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any]) -> Verdict:
        """Ask the model about ``item`` and judge the reply."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate(item, context, ask, protocol)")

    def kinds_of(self, task: str, settings: Any) -> frozenset[Kind]:
        """Return the kinds of request of a task with these settings; the model under test must serve at least one."""
        return self.kinds

    def roles_of(self, task: str) -> frozenset[str]:
        """Return the helper roles that items of a task require; without them, these items are skipped.

        See also :meth:`helpers`.
        """
        return frozenset()

    def searches(self, item: Item, settings: Any, name: str) -> bool:
        """Return True if a case searches for a counterexample of this item, with these settings.

        :param name: the property, one of :attr:`properties`; empty if there is only one.
        """
        return False

    async def search(
        self, item: Item, context: Any, ask: Ask, protocol: Protocol[Any], measured: Measured, name: str
    ) -> Searched | str:
        """Return a property of an item, or one phrase why it is not searched.

        A test function with the fixture ``search`` has one case per item for which :meth:`searches` is true. The
        function draws the points. A search writes no verdict and changes no score, metric or gate.

        :param measured: async function that returns the item's verdict, for a search that depends on it.
        :param name: the property, as in :meth:`searches`.
        :raises BackendError: if a call fails.
        """
        raise NotImplementedError(f"{type(self).__name__} must define search(...)")

    def search_calls(self, settings: Any, name: str) -> int | None:
        """Return the maximum number of requests of one search, which ``--llm-plan`` prints; None if it is unknown.

        :param name: the property, as in :meth:`searches`.
        """
        return None

    def caption(self, item: Item) -> str:
        """Return what a person recognises the item by, such as its sentence, for titles of cases. Default: nothing."""
        return ""

    def case_names(self, items: Sequence[Item], settings: Any) -> Sequence[str] | None:
        """Return the name of the pytest case that reports each item. None, the default, means one case per item.

        A case of several items fails if one of them is wrong. It is an error if some items are errors and all others
        are correct. The run record has the verdict of every item.
        """
        return None

    def helpers(self, settings: Any) -> tuple[str, ...]:
        """Return the roles for which ``--llm-helper`` is required with these settings."""
        return ()

    def plan_remarks(self, items: Sequence[Item], settings: Any) -> Iterable[str]:
        """Return remarks on the planned calls of these items, one line each, for ``--llm-plan``."""
        return ()

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Return metrics other than accuracy, from the verdict records of one model, one record per item.

        In a run with repeats, this is called once per repeat, and the values are averaged.
        """
        return ()

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Return remarks on one model for the summary, one line each, from the first sample of each item.

        A remark that begins with ``warning: `` is shown in the headline: the numbers may not mean what they seem to.
        """
        return ()
