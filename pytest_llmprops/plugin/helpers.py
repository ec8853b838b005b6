"""The models of helper roles: from the command line, and the defaults of registered benchmarks."""

from __future__ import annotations

from pytest_llmprops.benchmark_registry import is_registered, registrations
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.models.registry import available_default, parse_spec
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
        self.specs: dict[str, ModelSpec] = {
            role: parse_spec(text, base_url=settings.base_url) for role, text in settings.helpers.items()
        }
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

    def _add(self, role: str, benchmark: str, spec: ModelSpec) -> str:
        name = role if self.specs.setdefault(role, spec).text == spec.text else f"{role}@{benchmark}"
        self.specs[name] = spec
        return name
