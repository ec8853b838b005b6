"""``--llm-engine ray``: what needs it, and what it cannot serve."""

from __future__ import annotations

import importlib.util

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.options import RunOptions


def check_replicas(settings: RunOptions, cases: Cases) -> None:
    """Check that the models fit the engine.

    :raises UsageError: if a model states replicas without the engine, or cannot have any; if Ray is not installed.
    """
    specs = cases.model_specs()
    for label in cases.replicas:
        if not settings.has_ray:
            raise UsageError(
                f"--model {specs[label].text}: ?replicas=, ?gpus= and ?cpus= need --llm-engine ray; add it, or leave"
                " them out"
            )
        if find_backend(specs[label].backend).in_worker:
            raise UsageError(
                f"--model {specs[label].text}: runs in the processes of pytest (-n N), so it has no replicas; leave"
                " out ?replicas=, ?gpus= and ?cpus="
            )
    for label in (*cases.models, *cases.replicas):
        if find_backend(specs[label].backend).remote:
            raise UsageError(
                f"--llm-engine ray: {specs[label].text} is called over a network; Ray runs replicas of models that"
                " compute themselves (hf:, llamacpp:); for several servers of one model, use --llm-base-url URL,URL"
            )
    # Ray Client needs grpc, which Ray alone does not install.
    packages = ("ray", "grpc") if settings.engine.startswith("ray:") else ("ray",)
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"--llm-engine {settings.engine}", package=package, extra="ray")
