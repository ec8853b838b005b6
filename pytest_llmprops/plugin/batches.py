"""``--llm-engine batch``: what it cannot serve, and the record that the same command continues."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.runs.reader import read_facts


def check_engine(settings: RunOptions) -> None:
    """Check that the options fit batches.

    :raises UsageError: if they do not.
    """
    is_limited = settings.gate is not None and settings.cache_age is None
    if is_limited and settings.batch_wait is not None and not settings.run:
        raise UsageError(
            "--llm-engine batch: a gate uses replies since the day before its run began, so the next command must know"
            " the run; add --llm-run DIR, or give a maximum age with -o llm_cache_age=24h"
        )
    if settings.cache in ("refresh", "off"):
        raise UsageError(
            f"--llm-engine batch: needs the reply store to continue an earlier run; leave out --llm-cache"
            f" {settings.cache}, or name a new store with --llm-store FILE"
        )


def resumed(config: pytest.Config, settings: RunOptions) -> RunOptions:
    """Return the settings, with ``--llm-resume`` if the folder of ``--llm-run`` has a run that waits for batches.

    The same command then continues the same record. Workers get the option from ``config``.
    """
    if settings.engine != "batch" or settings.run is None or settings.resume:
        return settings
    folder = Path(settings.run)
    if not (folder / "run.json").is_file():
        return settings
    try:
        is_complete = read_facts(folder).complete
    except LLMPropsError:
        return settings
    if is_complete:
        return settings
    config.option.llm_resume = True
    return dataclasses.replace(settings, resume=True)
