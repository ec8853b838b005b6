"""``llmprops generate``: new items, for benchmarks with a generator."""

from __future__ import annotations

from pytest_llmprops.benchmark_registry import registrations
from pytest_llmprops.cli.kit import Groups, add_group, add_registered


def add(groups: Groups) -> None:
    """Add ``generate NAME`` for each benchmark whose registration has ``generate``."""
    commands = add_group(
        groups, "generate", "generate new items; use them with --llm-source published --llm-data DIR"
    )
    for registration in registrations():
        if registration.generate is not None:
            add_registered(commands, registration.name, registration.generate)
