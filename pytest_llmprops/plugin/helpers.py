"""The models of helper roles: from the command line, and the defaults of registered benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_llmprops.benchmark_registry import (
    benchmark_names,
    find_benchmark,
    is_registered,
    registration_of,
    registrations,
)
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.registry import available_default, parse_spec
from pytest_llmprops.models.replicas import Replicas, split_replicas
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.plugin.options import RunOptions

#: prefix of the label of a helper's model
HELPER = "helper:"


class Helpers:
    """The helper models of a session, by role and benchmark.

    The broker needs all models before collection, so this includes the defaults of every registered benchmark.
    """

    def __init__(self, settings: RunOptions) -> None:
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
        available: dict[tuple[str, ...], ModelSpec | None] = {}
        for registration in registrations():
            own = self._defaults[registration.name] = {}
            for role, texts in registration.default_helpers.items():
                if role in self._named:
                    continue
                if texts not in available:
                    available[texts] = available_default(texts)
                spec = available[texts]
                if spec is not None:
                    own[role] = self._add(role, registration.name, spec)

    @property
    def defaults(self) -> frozenset[str]:
        """The names of the helpers that are not on the command line."""
        return frozenset(self.specs) - self._named

    def labels(self, benchmark: type[Benchmark]) -> dict[str, str]:
        """Return role -> label of the helpers of a benchmark.

        A class that is not registered has no defaults; it gets those of the registered benchmarks.
        """
        if is_registered(benchmark):
            names = {role: role for role in self._named} | self._defaults[benchmark.name]
        else:
            names = {name: name for name in self.specs if "@" not in name}
        return {role: HELPER + name for role, name in names.items()}

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
