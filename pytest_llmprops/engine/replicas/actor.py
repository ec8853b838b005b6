"""The actor of a replica. This module is imported on the machines of the cluster."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pytest_llmprops.core.contracts import fault_line
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.engine.lanes import served_batch
from pytest_llmprops.models.base import BackendOptions, Model, Result
from pytest_llmprops.models.registry import find_backend, import_registrations
from pytest_llmprops.models.spec import ModelSpec

VIA = "ray"
#: the packages that compute replies or the code that calls them
_PACKAGES = (
    "pytest-llmprops",
    "torch",
    "transformers",
    "tokenizers",
    "xllamacpp",
    "stanza",
    "spacy",
)


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that affect replies; "none" for those that are not installed.

    The local part of a version is left out: builds of torch for CPUs and GPUs differ in it, and the device is part of a
    model's identity.
    """
    versions = dict.fromkeys(_PACKAGES, "none")
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name).partition("+")[0]
    return versions


@dataclass(frozen=True, slots=True)
class Introduction:
    """A replica's answer to the first call.

    :param node: the name of its machine. :param problem: why it cannot serve the model, in one line; empty if it can.
    :param identity: the identity of its model. :param versions: see :func:`package_versions`.
    """

    node: str
    problem: str = ""
    identity: Mapping[str, Any] | None = None
    versions: Mapping[str, str] | None = None


class Replica:
    """A model in a process of a Ray cluster, which calls the methods one at a time."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def introduce(
        self, spec: ModelSpec, options: BackendOptions, registrations: Sequence[str], folder: str
    ) -> Introduction:
        """Create the model, without its weights, and return what identifies it.

        :param folder: the folder that relative paths of the specification begin in, if this machine has it.
        """
        node = socket.gethostname()
        with contextlib.suppress(OSError):
            os.chdir(folder)
        try:
            import_registrations(registrations)
            self._model = find_backend(spec.backend).factory(spec, options)
        except (Exception, SystemExit) as error:
            return Introduction(node, problem=fault_line(error))
        return Introduction(node, identity=dict(self._model.identity), versions=package_versions())

    def serve(self, requests: Sequence[Request]) -> list[Result]:
        """Return one result per request, in order."""
        assert self._model is not None
        results = served_batch(self._model, requests)
        deviations = tuple(self._model.deviations())
        return [
            replace(result, via=VIA, deviations=deviations) if isinstance(result, Reply) else result
            for result in results
        ]
