"""The registration of a benchmark: what the plugin, gates, reports and commands need to know about it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.field_types import Name, Number, Text

#: An object, or ``"module:name"`` of one that is imported when it is needed.
Reference = str | Callable[..., Any]


def load_reference(reference: Reference, where: str) -> Callable[..., Any]:
    """Return the object of a reference.

    :param where: how an error names the reference.
    :raises UsageError: if the text is not ``module:name``, or its module has no such object.
    """
    if not isinstance(reference, str):
        return reference
    module, colon, name = reference.partition(":")
    if not colon:
        raise UsageError(f"{where}: {reference!r} is not MODULE:NAME")
    try:
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise UsageError(f"{where}: the module {module} has no {name}") from None
    return loaded


@dataclass(frozen=True, slots=True)
class BenchmarkMetadata:
    """What gates and reports know about a benchmark, as recorded in ``run.json`` under ``benchmarks``.

    All fields except ``data`` are the attributes of :class:`Benchmark` with the same names.

    :param data: the data files that the benchmark read in this run, as named in ``run.json`` under ``data``.
    """

    title: Name
    noun: Name
    verb: Name = "answers"
    about: Text = ""
    task_about: Mapping[str, Text] = field(default_factory=dict)
    controls: tuple[Name, ...] = ()
    side_tasks: tuple[Name, ...] = ()
    chance: Mapping[str, Number] = field(default_factory=dict)
    printed_task: Name = ""
    accuracy_targets: Mapping[str, Number] = field(default_factory=dict)
    unranked: Mapping[str, Name] = field(default_factory=dict)
    weighting: Literal["item", "cluster"] = "item"
    presentation: tuple[Name, ...] = ()
    metric_directions: Mapping[str, Text] = field(default_factory=dict)
    bounded_metrics: Mapping[str, Text] = field(default_factory=dict)
    tasks_by_answer: tuple[Name, ...] = ()
    data: tuple[Name, ...] = ()

    @classmethod
    def of(cls, benchmark: type[Benchmark], *, data: Iterable[str] = ()) -> BenchmarkMetadata:
        """Return the facts of a benchmark class."""
        own: dict[str, Any] = {
            "title": title_of(benchmark),
            "noun": benchmark.noun or benchmark.name,
            "data": tuple(data),
        }
        values = {f.name: getattr(benchmark, f.name) for f in fields(cls) if f.name not in own}
        for name, value in values.items():
            if isinstance(value, Mapping):
                values[name] = dict(value)
            elif not isinstance(value, str):
                values[name] = tuple(sorted(value))
        return cls(**own, **values)

    @classmethod
    def unknown(cls, name: str) -> BenchmarkMetadata:
        """Return the facts of a benchmark of which only the name is known."""
        return cls(_title(name), name)

    def chance_of(self, task: str = "") -> float | None:
        """Return the accuracy of guessing on a task, or on all tasks; None if it is not defined."""
        return self.chance.get(task, self.chance.get(""))

    def is_ranked(self, tasks: Iterable[str]) -> bool:
        """Return True if the accuracy over ``tasks`` may rank models and head a report."""
        return not set(tasks) <= set(self.unranked)

    @property
    def tasks_apart(self) -> frozenset[str]:
        """The tasks that do not count in the headline figure: controls, side tasks and those without a ranking."""
        return frozenset((*self.controls, *self.side_tasks, *self.unranked))

    def headline_tasks(self, tasks: Iterable[str]) -> list[str]:
        """Return the tasks that count in the benchmark's headline figure; all ``tasks`` if none of them does."""
        tasks = list(dict.fromkeys(tasks))
        return [task for task in tasks if task not in self.tasks_apart] or tasks


def title_of(benchmark: type[Benchmark]) -> str:
    """Return a benchmark's name as a heading."""
    return benchmark.title or _title(benchmark.name)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Command:
    """A command of ``llmprops``. Its code is imported when it is used.

    :param help: one line for the list of commands.
    :param add: function that gets the command's :class:`argparse.ArgumentParser` and adds arguments or subcommands.
        Each command sets the default ``command``: a function from the parsed options to the exit status.
    """

    help: str
    add: Reference


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The parts of a benchmark: the object of an entry point, or of ``register_benchmark`` in a ``conftest.py``.

    Facts that gates and reports need are attributes of the benchmark's class (see :class:`BenchmarkMetadata`). Every
    reference may be a text ``"module:name"``, which is imported when it is needed.

    :param name: equal to the class's ``name``.
    :param benchmark: the :class:`Benchmark` class.
    :param section: function from ``pytest_llmprops.report_kit.Measured`` to the benchmark's ``Section`` of the report;
        default: a section with accuracies, counts, metrics and the protocol.
    :param suite: the module or package of its test functions, which ``llmprops run NAME`` runs.
    :param commands: the group of commands ``llmprops lab NAME``.
    :param default_helpers: model specifications by role, for roles without ``--llm-helper``. Those whose files are on
        this machine are used: the first one of each backend.
    :param helper_requirement: what ``pip install`` needs to install the default helpers, for the message of a run
        without them.
    :param data: function that returns the folder of the benchmark's own data. Default: the folder of the file that
        defines the class.
    :param manifest: path of the manifest of published files, in ``data``.
    :param printed_results: path of a CSV file with results printed in a paper, in ``data``.
    :param tools: functions that the judging code may not import itself; ``DataFiles.tool(name)`` returns one.
    """

    name: str
    benchmark: str | type[Benchmark]
    section: Reference = ""
    suite: str = ""
    commands: Command | None = None
    default_helpers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    helper_requirement: str = ""
    data: Reference = ""
    manifest: str = ""
    printed_results: str = ""
    tools: Mapping[str, Reference] = field(default_factory=dict)

    def load_class(self) -> type[Benchmark]:
        """Import and return the benchmark's class.

        :raises UsageError: if it is not a benchmark, or has another name.
        """
        loaded = load_reference(self.benchmark, f"benchmark {self.name}")
        if not (isinstance(loaded, type) and issubclass(loaded, Benchmark)):
            raise UsageError(f"benchmark {self.name}: {self.benchmark} is not a Benchmark class")
        if loaded.name != self.name:
            raise UsageError(
                f"benchmark {self.name}: the class {loaded.__name__} has the name '{loaded.name}'"
            )
        return loaded

    def load(self, field_name: str) -> Callable[..., Any] | None:
        """Import and return the object of a reference, such as ``section``; None if the reference is empty."""
        reference: Reference = getattr(self, field_name)
        return load_reference(reference, f"benchmark {self.name}, {field_name}") if reference else None
