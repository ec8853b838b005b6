"""The helper models of the oracle-checker outside of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from pytest_llmprops.benchmarks.oracle.registration import REGISTRATION
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.models.base import BackendOptions, Model, Result, serve
from pytest_llmprops.models.registry import available_default, find_backend, parse_spec
from pytest_llmprops.models.spec import ModelSpec


class Helpers:
    """Models by role, as the ``ask`` of a benchmark. Each text is processed once.

    :param specs: role -> specification, or None for the default helper of a run on this machine.
    :raises UsageError: if a model does not exist, or a role has no default on this machine.
    """

    def __init__(self, specs: Mapping[str, str | None]) -> None:
        self._models: dict[str, Model] = {}
        self._known: dict[Request, Result] = {}
        for role, text in specs.items():
            spec = parse_spec(text) if text else _default(role)
            self._models[role] = find_backend(spec.backend).factory(spec, BackendOptions())

    async def __call__(self, request: Request, role: str = "") -> Reply:
        """Return the reply of a role's model.

        :raises BackendError: if the model cannot process the text, or cannot be called.
        """
        if request not in self._known:
            results = serve(self._models[role], [request])
            [self._known[request]] = await results if isinstance(results, Awaitable) else results
        result = self._known[request]
        if isinstance(result, BackendError):
            raise result
        return result

    def close(self) -> None:
        """Close the models."""
        for model in self._models.values():
            model.close()


def _default(role: str) -> ModelSpec:
    texts = REGISTRATION.default_helpers[role]
    spec = available_default(texts)
    if spec is None:
        raise UsageError(
            f"no helper for --{role} on this machine: install one of {', '.join(texts)}, or name another"
        )
    return spec
