"""The models of helper roles: those that the command line names, and the defaults of registered benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.benchmark_registry import is_registered, registrations
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.models.registry import find_backend, parse_spec, together
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.plugin.options import RunOptions

#: before a helper's name in the label of its model
HELPER = "helper:"


class Helpers:
    """Which model serves which role for which benchmark.

    A broker must know all models before anything is collected, so the defaults of every registered benchmark are here.
    """

    def __init__(self, settings: RunOptions) -> None:
        #: name -> model; the name is the role, or ``ROLE@BENCHMARK`` for a default that differs from another's
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
                    available[texts] = _available(texts)
                spec = available[texts]
                if spec is not None:
                    own[role] = self._add(role, registration.name, spec)

    @property
    def defaults(self) -> frozenset[str]:
        """The names of helpers that the command line does not name."""
        return frozenset(self.specs) - self._named

    def labels(self, benchmark: type[Benchmark]) -> dict[str, str]:
        """Return role -> label of the helpers that a benchmark can ask.

        A class that nobody registered has no defaults of its own and gets those of the others.
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


def _available(texts: Sequence[str]) -> ModelSpec | None:
    """The specification of the default models that are on this machine; None if none is."""
    available: dict[str, ModelSpec] = {}
    for spec in map(parse_spec, texts):
        # Of one backend the first model: another would only make this run unlike those of other machines.
        if spec.backend not in available and find_backend(spec.backend).ready(spec):
            available[spec.backend] = spec
    return together(list(available.values())) if available else None
