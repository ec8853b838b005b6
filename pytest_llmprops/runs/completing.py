"""How a merged run is completed: through its shards, and not with ``llmprops retry``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.texts import first_names

#: the entry of a merged run's options that names the shards to measure and to go on with
MERGED = "merged"


def merged_option(missing: Sequence[str], unfinished: Sequence[Path]) -> dict[str, JSON]:
    """Return the entry of a merged run.

    :param missing: shards without a run, as ``I/N``.
    :param unfinished: folders of the shards that are incomplete or have errors.
    """
    steps: dict[str, JSON] = {"measure": list(missing), "retry": [str(folder) for folder in unfinished]}
    return {name: values for name, values in steps.items() if values}


def is_merged(facts: RunFacts) -> bool:
    """Return whether a run was merged from shards, so that it cannot be resumed itself."""
    return isinstance(facts.options.get(MERGED), Mapping)


def shard_steps(facts: RunFacts) -> str:
    """Return what completes a merged run; empty if nothing is missing."""
    merged = facts.options.get(MERGED)
    if not isinstance(merged, Mapping) or not merged:
        return ""
    steps = []
    if missing := _texts(merged.get("measure")):
        steps.append(f"measure the missing shards with --llm-shard ({first_names(missing)})")
    if unfinished := _texts(merged.get("retry")):
        steps.append(f"complete the others with 'llmprops retry' ({first_names(unfinished)})")
    return f"{', '.join(steps)}, then merge all shards again with 'llmprops runs merge'"


def merged_problem(facts: RunFacts) -> str:
    """Return why a merged run is not resumed, and what to do instead."""
    steps = shard_steps(facts)
    return f"was merged from shards; {steps or 'they are complete and have no errors, so there is nothing to run'}"


def _texts(values: object) -> list[str]:
    return list(map(str, values)) if isinstance(values, list) else []
