"""The cases of a session by benchmark: items, models under test, and helpers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmark_registry import (
    benchmark_names,
    find_benchmark,
    is_registered,
    registration_of,
    registrations,
)
from pytest_llmprops.core.benchmark import Benchmark, Loaded
from pytest_llmprops.core.contracts import (
    checked,
    checked_case_names,
    checked_class,
    prepared,
    raised,
)
from pytest_llmprops.core.errors import ContractError, DataError, LLMPropsError, UsageError
from pytest_llmprops.core.faults import fault_line, own_traceback
from pytest_llmprops.core.items import Item, check_unique, limited, sized
from pytest_llmprops.core.protocols import Protocol, resolve
from pytest_llmprops.core.registration import BenchmarkMetadata, Registration
from pytest_llmprops.core.requests import Kind, is_base
from pytest_llmprops.core.texts import did_you_mean
from pytest_llmprops.data.files import DataFolder, data_folder, read_manifest
from pytest_llmprops.engine.evaluation.evaluator import Case, CaseGroup
from pytest_llmprops.models.registry import available_default, find_backend, parse_spec
from pytest_llmprops.models.spec import ModelSpec, Replicas, split_replicas
from pytest_llmprops.plugin.cases.markers import Unreadable
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.records.run import NOT_MEASURED

#: prefix of the label of a helper's model
HELPER = "helper:"


class Helpers:
    """The helper models of a session, by role and benchmark: those of the command line, and default ones.

    :param ahead: find the default helpers of all registered benchmarks now. A broker process gets its models before
        collection. Without one, a run looks only for the helpers of the benchmarks that it collects: finding one
        imports its backend.
    """

    def __init__(self, settings: RunOptions, *, ahead: bool) -> None:
        #: name -> model; the name is the role, or ``ROLE@BENCHMARK`` if two benchmarks have different defaults
        self.specs: dict[str, ModelSpec] = {}
        #: label -> what the command line says about its replicas
        self.replicas: dict[str, Replicas] = {}
        for role, text in settings.helpers.items():
            self.specs[role], replicas = split_replicas(parse_spec(text, base_url=settings.base_url))
            if replicas is not None:
                self.replicas[HELPER + role] = replicas
        self._named = frozenset(self.specs)
        #: benchmark -> role -> name in ``specs``
        self._defaults: dict[str, dict[str, str]] = {}
        self._available: dict[tuple[str, ...], ModelSpec | None] = {}
        if ahead:
            self._find_all()

    @property
    def defaults(self) -> frozenset[str]:
        """The names of the helpers that are not on the command line."""
        return frozenset(self.specs) - self._named

    def labels(self, benchmark: type[Benchmark]) -> dict[str, str]:
        """Return role -> label of the helpers of a benchmark.

        A class that is not registered has no defaults; it gets those of the registered benchmarks.
        """
        if is_registered(benchmark):
            names = {role: role for role in self._named} | self._defaults_of(registration_of(benchmark))
        else:
            self._find_all()
            names = {name: name for name in self.specs if "@" not in name}
        return {role: HELPER + name for role, name in names.items()}

    def _find_all(self) -> None:
        for registration in registrations():
            self._defaults_of(registration)

    def _defaults_of(self, registration: Registration) -> dict[str, str]:
        """Return role -> name of the default helpers of a benchmark that this machine has."""
        own = self._defaults.get(registration.name)
        if own is None:
            own = self._defaults[registration.name] = {}
            for role, texts in registration.default_helpers.items():
                if role in self._named:
                    continue
                if texts not in self._available:
                    self._available[texts] = available_default(texts)
                spec = self._available[texts]
                if spec is not None:
                    own[role] = self._add(role, registration.name, spec)
        return own

    def check_roles(self, selected: Mapping[str, frozenset[str] | None]) -> None:
        """Check that a benchmark has each role of the command line.

        An ini file may name helpers for registered benchmarks that this session does not select.

        :param selected: benchmark -> its roles, from :func:`roles_of`. If a benchmark names none, any may be its role.
        :raises UsageError: with the roles of the selected benchmarks.
        """
        roles = {name: own for name, own in selected.items() if own is not None}
        if not selected or len(roles) < len(selected):
            return
        unknown = self._named.difference(*roles.values())
        for role in sorted(unknown and unknown.difference(*map(_registered_roles, benchmark_names()))):
            known = [f"{name}: {', '.join(sorted(own)) or 'none'}" for name, own in sorted(roles.items())]
            raise UsageError(
                f"--llm-helper {role}={self.specs[role].text}: unknown helper role '{role}'; the roles are"
                f" {'; '.join(known)}"
            )

    def _add(self, role: str, benchmark: str, spec: ModelSpec) -> str:
        name = role if self.specs.setdefault(role, spec).text == spec.text else f"{role}@{benchmark}"
        self.specs[name] = spec
        return name


def roles_of(benchmark: Benchmark, tasks: Iterable[str], settings: Iterable[object]) -> frozenset[str] | None:
    """Return the helper roles of a benchmark; None if it does not name them.

    :param tasks: the tasks of its items.
    :param settings: its settings, of each protocol or of this run.
    """
    required = [*map(benchmark.roles_of, tasks), *map(benchmark.helpers, settings)]
    derived = frozenset(registration_of(type(benchmark)).default_helpers).union(*required)
    return (derived or None) if benchmark.roles is None else derived | benchmark.roles


def _registered_roles(name: str) -> frozenset[str]:
    try:
        benchmark = find_benchmark(name)
        settings = [named.settings for named in benchmark.protocols.values()]
        return roles_of(benchmark, benchmark.task_about, settings) or frozenset()
    except Exception:
        # It is not selected, so its mistakes do not concern this session.
        return frozenset()


@dataclass(slots=True)
class Selection:
    """The cases of one benchmark in a session."""

    benchmark: Benchmark
    protocol: Protocol[Any]
    cases: dict[str, Case | CaseGroup] = field(default_factory=dict)
    #: model label -> number of items that the model does not serve
    not_served: dict[str, int] = field(default_factory=dict)
    #: items that the models serve, of all sizes and without pytest's selection; once per model
    available: list[Item] = field(default_factory=list)
    #: (benchmark, task, language, source) of the items that at least one model does not serve
    places_not_served: set[tuple[str, str, str, str]] = field(default_factory=set)
    #: its helper roles; None if it does not name them
    roles: frozenset[str] | None = None

    @property
    def kinds_not_served(self) -> list[str]:
        """The kinds of request that would serve the items that are not served."""
        tasks = {task for _, task, _, _ in self.places_not_served}
        settings = self.protocol.settings
        return sorted({kind for task in tasks for kind in self.benchmark.kinds_of(task, settings)})


class Cases:
    """Loads each benchmark once and creates its cases.

    :param helpers_ahead: find the default helpers of all benchmarks before collection.
    """

    def __init__(self, settings: RunOptions, *, helpers_ahead: bool) -> None:
        self.settings = settings
        self.models: dict[str, ModelSpec]
        #: label -> what the command line says about the replicas of a model, also of a helper
        self.replicas: dict[str, Replicas]
        self.models, self.replicas = _labelled(settings)
        self.helpers = Helpers(settings, ahead=helpers_ahead)
        self.replicas |= self.helpers.replicas
        self.selections: dict[str, Selection] = {}
        self.unreadable: dict[str, Unreadable] = {}
        #: benchmark -> why it has no items in ``--llm-data``, although the folder has those of others
        self.without_files: dict[str, str] = {}
        #: name -> class of every benchmark that was selected
        self._classes: dict[str, type[Benchmark]] = {}
        #: benchmark -> the folders that it reads
        self.folders: dict[str, list[DataFolder]] = {}
        #: warnings about data files, for the summary
        self.notes: list[str] = []
        #: the limit applies later, to what pytest selects
        self.limits_late = False
        if settings.source != "builtin" and (settings.data is None or not settings.data.is_dir()):
            missing = "" if settings.data is None else f"{settings.data}: no such file or folder; "
            raise UsageError(
                f"llm_source = {settings.source}: {missing}give the folder of the data with --llm-data DIR or"
                " LLMPROPS_DATA; 'llmprops data pull --dest DIR' downloads it"
            )
        for name in settings.sets:
            if name in benchmark_names():
                self.protocol_of(find_benchmark(name))

    def protocol_of(self, benchmark: Benchmark) -> Protocol[Any]:
        """Return a benchmark's protocol, with the values of ``--llm-set``.

        :raises UsageError: if a value of ``--llm-set`` does not fit the benchmark.
        """
        overrides, seed = self.settings.sets.get(benchmark.name, {}), self.settings.seed
        return resolve(benchmark.name, benchmark.protocols, self.settings.protocol, overrides, seed)

    def select(self, name_or_class: str | type[Benchmark]) -> Selection | Unreadable:
        """Return the cases of a benchmark, by their names ``<model label>-<item id>``, in file order.

        :raises UsageError: if the benchmark is unknown, or its class is not usable.
        """
        if not isinstance(name_or_class, str):
            _check_name(checked_class(name_or_class))
        name = name_or_class if isinstance(name_or_class, str) else name_or_class.name
        if name not in self._classes:
            benchmark = find_benchmark(name) if isinstance(name_or_class, str) else _created(name_or_class)
            self._classes[name] = checked_class(type(benchmark))
            try:
                self.selections[name] = self._selection(benchmark)
            except (DataError, ContractError, UsageError) as error:
                self._set_unreadable(benchmark, error)
            except (LLMPropsError, KeyboardInterrupt):
                raise
            except BaseException as fault:
                # In a method that is called before the first call, such as kinds_of.
                if own_traceback(fault) is None:
                    raise
                self._set_unreadable(benchmark, raised(benchmark, "a method", fault))
        known = self._classes[name]
        if not isinstance(name_or_class, str) and not _is_same(known, name_or_class):
            raise UsageError(
                f"two benchmarks have the name '{name}': {_class_place(known)} and {_class_place(name_or_class)};"
                " give one of them another name"
            )
        return self.unreadable.get(name) or self.selections[name]

    def _set_unreadable(self, benchmark: Benchmark, error: LLMPropsError) -> None:
        name, is_usage = benchmark.name, isinstance(error, UsageError)
        self.unreadable[name] = Unreadable(name, tuple(benchmark.task_about), str(error), is_usage)
        if not is_usage:
            self.notes.append(f"{name}{NOT_MEASURED}{error}")

    def _selection(self, benchmark: Benchmark) -> Selection:
        settings = self.settings
        protocol = self.protocol_of(benchmark)
        for role in checked(benchmark, "helpers", benchmark.helpers(protocol.settings)):
            if role not in settings.helpers:
                raise UsageError(
                    f"{benchmark.name} needs a helper for the role '{role}'; give one with --llm-helper {role}=SPEC"
                )
        selection = Selection(benchmark, protocol)
        parts = self._parts(benchmark, protocol)
        check_unique((item for part in parts for item in part.items), benchmark.name)
        if settings.helpers:
            tasks = {item.task for part in parts for item in part.items}
            selection.roles = roles_of(benchmark, tasks, [protocol.settings])
        helpers = self.helpers.labels(type(benchmark))
        for label, spec in self.models.items():
            kinds = find_backend(spec.backend).kinds(spec)
            cases = [
                Case(benchmark, item, part.context, protocol, label, settings.params, helpers, kinds, sample)
                for part in parts
                for item in self._served(selection, label, kinds, part)
                for sample in range(self._repeats(selection, label, item.task, kinds))
            ]
            selection.cases |= self._named(selection, label, cases)
        return selection

    def _repeats(self, selection: Selection, label: str, task: str, kinds: frozenset[Kind]) -> int:
        """Return the number of samples of an item of this task; 1 if the model always gives the same reply."""
        benchmark = selection.benchmark
        asked = _answered(kinds, benchmark) & benchmark.kinds_of(task, selection.protocol.settings)
        if asked & {"chat", "completion"}:
            return self.settings.repeats
        if self.settings.repeats > 1:
            self._note(
                f"{label} always gives the same reply: one sample of each {benchmark.name} item is measured"
            )
        return 1

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _served(self, selection: Selection, label: str, kinds: frozenset[Kind], part: Loaded) -> list[Item]:
        """Return the items of the size that the model serves, within the limit unless it comes later; count the others.

        Nothing selects the items that are not served: those within the limit are counted.
        """
        benchmark, settings = selection.benchmark, self.settings
        every = sized(part.items, benchmark.sizes.get(settings.size, {}))
        items = every if self.limits_late else within_limit(every, benchmark, settings)
        tasks = dict.fromkeys(item.task for item in items)
        refused, answered = set(), _answered(kinds, benchmark)
        for task in tasks:
            own = benchmark.kinds_of(task, selection.protocol.settings)
            if answered.isdisjoint(checked(benchmark, "kinds_of", own)):
                refused.add(task)
            checked(benchmark, "roles_of", benchmark.roles_of(task))
        if refused and is_base(kinds):
            instructions = ", ".join(task for task in tasks if task in refused)
            self._note(
                f"{benchmark.name}: {label} is a base model, which cannot answer items of {instructions}"
            )
        roles = {role for task in tasks for role in benchmark.roles_of(task)}
        roles -= self.helpers.labels(type(benchmark)).keys()
        if roles:
            needing = [task for task in tasks if not roles.isdisjoint(benchmark.roles_of(task))]
            refused |= set(needing)
            how = " ".join(f"--llm-helper {role}=SPEC" for role in sorted(roles))
            requirement = registration_of(type(benchmark)).helper_requirement
            if requirement:
                how = f"pip install '{requirement}', or {how}"
            self._note(f"{benchmark.name}: items of {', '.join(needing)} are not served; they need {how}")
        selection.available += [item for item in part.items if item.task not in refused]
        if not refused:
            return items
        within = within_limit(every, benchmark, settings) if self.limits_late else items
        others = [item for item in within if item.task in refused]
        selection.not_served[label] = selection.not_served.get(label, 0) + len(others)
        selection.places_not_served |= {(benchmark.name, i.task, i.language, i.source) for i in others}
        return [item for item in items if item.task not in refused]

    def _named(self, selection: Selection, label: str, cases: Sequence[Case]) -> dict[str, Case | CaseGroup]:
        """Return ``cases`` by name, as single cases or as the groups that the benchmark defines."""
        names = selection.benchmark.case_names([c.item for c in cases], selection.protocol.settings)
        names = checked_case_names(selection.benchmark, names, len(cases))
        if names is None:
            names = [case.item.id for case in cases]
        groups: dict[str, list[Case]] = {}
        for name, case in zip(names, cases, strict=True):
            groups.setdefault(name, []).append(case)
        return {
            f"{label}-{name}": members[0]
            if len(members) == 1 and members[0].item.id == name
            else CaseGroup(name, tuple(members))
            for name, members in groups.items()
        }

    def _parts(self, benchmark: Benchmark, protocol: Protocol[Any]) -> list[Loaded]:
        """Load the benchmark's items from its own data, from ``--llm-data DIR`` or from both, by ``llm_source``."""
        registration, folders = registration_of(type(benchmark)), []
        source, data = self.settings.source, self.settings.data
        if source in ("builtin", "all"):
            folders.append(DataFolder(data_folder(registration), "builtin", registration.tools))
        if source in ("published", "all") and data is not None:
            kind = DataFolder(data, "published").source_for(registration.name)
            folders.append(DataFolder(data, kind, registration.tools))
        parts: list[Loaded] = []
        for folder in folders:
            try:
                part = prepared(benchmark, folder, protocol.settings)
            except DataError as error:
                if not _is_of_others(folder, benchmark.name):
                    raise
                self.without_files[benchmark.name] = str(error)
                self.notes.append(f"{benchmark.name}: skipped, {folder.root} has no files of it")
                continue
            if folder.source == "published" and registration.manifest:
                manifest = read_manifest(data_folder(registration) / registration.manifest)
                self.notes += [note for note in folder.verify(manifest) if note not in self.notes]
            if not part.items:
                raise DataError(f"{folder.root}: no items of {benchmark.name}")
            if folder.source == "published" and not folder.read:
                self.notes.append(
                    f"{benchmark.name} reads no data files, so --llm-data does not change its items"
                )
                if parts:
                    continue
            parts.append(part)
        self.folders[benchmark.name] = folders
        return parts

    def check_selected(self, cases: Iterable[Case]) -> dict[str, Unreadable]:
        """Return the benchmarks whose check of the selected cases failed.

        :raises UsageError: if a benchmark's settings do not cover these cases.
        """
        failed: dict[str, Unreadable] = {}
        parts: dict[tuple[str, int], tuple[Case, dict[str, Item]]] = {}
        for case in cases:
            first, items = parts.setdefault((case.benchmark.name, id(case.context)), (case, {}))
            items.setdefault(case.item.id, case.item)
        for first, items in parts.values():
            benchmark = first.benchmark
            try:
                benchmark.check_selected(list(items.values()), first.context, first.protocol.settings)
            except (UsageError, KeyboardInterrupt):
                raise
            except BaseException as fault:
                error = (
                    fault if isinstance(fault, LLMPropsError) else raised(benchmark, "check_selected", fault)
                )
                if benchmark.name not in failed:
                    self._set_unreadable(benchmark, error)
                    failed[benchmark.name] = self.unreadable[benchmark.name]
        return failed

    def check_all_used(self) -> None:
        """Check that the options for benchmarks have an effect.

        :raises UsageError: if ``--llm-set`` names an unknown benchmark, ``--llm-helper`` a role that no benchmark has,
            or the folder of ``--llm-data`` has no files of any selected benchmark.
        """
        known = {*benchmark_names(), *self.selections}
        for name in (name for name in self.settings.sets if name not in known):
            raise UsageError(
                f"--llm-set {name}.…: unknown benchmark '{name}'; known are {', '.join(sorted(known))}"
                + did_you_mean(name, known)
            )
        if self.settings.helpers:
            self.helpers.check_roles({name: s.roles for name, s in self.selections.items()})
        if self.without_files and not any(selection.cases for selection in self.selections.values()):
            raise UsageError(next(iter(self.without_files.values())))

    def data_hashes(self, *benchmarks: str) -> dict[str, str]:
        """Return file -> sha256 of the data files that these benchmarks have read; by default, that all have read."""
        return {
            _file(name, benchmark): digest
            for benchmark in benchmarks or self.folders
            for folder in self.folders[benchmark]
            for name, digest in folder.hashes().items()
        }

    def benchmark_facts(self) -> dict[str, BenchmarkMetadata]:
        """Return what gates and reports need to know about each selected benchmark."""
        return {
            name: BenchmarkMetadata.of(type(selection.benchmark), data=self.data_hashes(name))
            for name, selection in self.selections.items()
        }

    def model_specs(self) -> Mapping[str, ModelSpec]:
        """Return the specifications of all models by label, helpers under ``helper:ROLE``."""
        return self.models | {HELPER + name: spec for name, spec in self.helpers.specs.items()}

    def chosen_specs(self) -> dict[str, ModelSpec]:
        """Return :meth:`model_specs` without the default helpers, which most runs do not call."""
        defaults = {HELPER + name for name in self.helpers.defaults}
        return {label: spec for label, spec in self.model_specs().items() if label not in defaults}


def within_limit(items: Sequence[Item], benchmark: Benchmark, settings: RunOptions) -> list[Item]:
    """Return the items that ``--llm-limit`` and ``--llm-shard`` leave, in their order."""
    left = limited(items, settings.limit, seed=settings.seed, per_cluster=benchmark.limit_per_cluster)
    # Last, so that the shards of a limited run are parts of it.
    return left if settings.shard is None else settings.shard.part_of(left, benchmark.name)


def _is_of_others(folder: DataFolder, benchmark: str) -> bool:
    """Return True if a folder of the user's data has files of registered benchmarks, but none of this one."""
    if folder.source == "builtin" or folder.read or (folder.root / benchmark).exists():
        return False
    return any((folder.root / name).is_dir() for name in benchmark_names())


def _created(cls: type[Benchmark]) -> Benchmark:
    try:
        return cls()
    except Exception as fault:
        raise UsageError(f"benchmark {cls.__name__} cannot be created: {fault_line(fault)}") from None


def _check_name(cls: type[Benchmark]) -> None:
    """Raise UsageError if another benchmark is installed under this name, whose settings and report would be used."""
    name = cls.name
    if name in benchmark_names() and not is_registered(cls):
        registered = type(find_benchmark(name))
        if not _is_same(registered, cls):
            raise UsageError(
                f"benchmark {name}: {_class_place(cls)} has the name of an installed benchmark; give it another name,"
                " or replace the installed one with register_benchmark in a conftest.py"
            )


def _is_same(one: type[Benchmark], other: type[Benchmark]) -> bool:
    """Return True if two classes are one, possibly imported twice under different names of its module."""
    # A function may make many classes in the same line.
    in_function = "<locals>" in one.__qualname__
    same_source = (one.__qualname__, _source(one)) == (other.__qualname__, _source(other))
    return one is other or (same_source and not in_function)


def _source(cls: type[Benchmark]) -> tuple[str, int]:
    """Return the file and the line of a class; its module if the source cannot be read."""
    try:
        return inspect.getfile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return cls.__module__, 0


def _class_place(cls: type[Benchmark]) -> str:
    file, line = _source(cls)
    return f"{cls.__qualname__} ({Path(file).name}, line {line})"


def _answered(kinds: frozenset[Kind], benchmark: Benchmark) -> frozenset[Kind]:
    """Return the kinds of request of a benchmark that a model answers.

    A base model continues chats of one message, unless the benchmark has requests of its own for base models.
    """
    if not is_base(kinds) or "completion" not in kinds or is_base(benchmark.kinds - {"chat"}):
        return kinds
    return kinds | {"chat"}


def _file(name: str, benchmark: str) -> str:
    """Return a data file's name in the record, which starts with the benchmark: others may have the same file name."""
    source, _, path = name.partition(":")
    return name if source == "given" or path.startswith(f"{benchmark}/") else f"{source}:{benchmark}/{path}"


def _labelled(settings: RunOptions) -> tuple[dict[str, ModelSpec], dict[str, Replicas]]:
    models: dict[str, ModelSpec] = {}
    replicas: dict[str, Replicas] = {}
    for text in settings.models:
        spec, own = split_replicas(parse_spec(text, base_url=settings.base_url))
        label, number = spec.label, 2
        while label in models:
            label, number = f"{spec.label}.{number}", number + 1
        models[label] = spec
        if own is not None:
            replicas[label] = own
    return models, replicas
