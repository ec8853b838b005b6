"""``--llm-baseline``: a run measures the items of its baseline, unless its own options select others."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_llmprops.core.texts import one_line
from pytest_llmprops.plugin.options import (
    FROM_BASELINE,
    OPTIONS,
    Option,
    RunOptions,
    is_given,
    plain_option,
    project_folder,
    selected_tests,
)
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.catalog import find_run
from pytest_llmprops.runs.merge import SAME_OPTIONS
from pytest_llmprops.runs.reader import read_facts

#: the options that select items
_SELECTING = ("size", "limit", "seed", "source")
#: the options that another run may have although its items and settings are the same
_FREE = ("base_url", "repeats")


def select_as_baseline(config: pytest.Config) -> None:
    """Set the options that select items to those of the baseline, where the user gives none.

    pytest-xdist gives workers the command line, not the options, so that each worker does the same.

    :raises UsageError: if there is no such run. :raises DataError: if its record cannot be read.
    """
    by_name = {option.dest.removeprefix("llm_"): option for option in OPTIONS}
    if not all(is_given(config, by_name[name]) for name in ("gate", "baseline")):
        return
    baseline = config.getoption("llm_baseline") or config.getini("llm_baseline")
    recorded = read_facts(find_run(baseline, project_folder(config))).options
    for name in _SELECTING:
        option, value = by_name[name], recorded.get(name)
        if is_given(config, option) or value == option.default or not _is_value(option, value):
            continue
        setattr(config.option, option.dest, str(value))
        # The record has them in its command, so that the run can be resumed without the baseline.
        config.stash.setdefault(FROM_BASELINE, []).append(option.word(value))


def _is_value(option: Option, value: object) -> bool:
    """Return True if a record has a value that the option may have."""
    if type(value) not in (int, str) or (option.choices and value not in option.choices):
        return False
    try:
        option.parse(str(value))
    except ValueError:
        return False
    return True


def shared_selection(baseline: RunMetadata, settings: RunOptions) -> str:
    """Return the options that select the items of a run as those of its baseline; empty if all are the defaults."""
    defaults = {option.dest.removeprefix("llm_"): option.default for option in OPTIONS}
    shared = [
        argument
        for name in _SELECTING
        if (value := getattr(settings, name)) != defaults[name] and baseline.options.get(name) == value
        for _, argument in _arguments(SAME_OPTIONS[name], value)
    ]
    return one_line(" ".join(shared), 200)


def remedy(baseline: RunMetadata, settings: RunOptions, option: Any) -> str:
    """Return which options measure a baseline's items as it did.

    :param option: pytest's options.
    """
    chosen, absent = [], []
    for name, argument, before, now in _options(baseline, settings, option):
        if name in _FREE:
            continue
        theirs, ours = dict(_arguments(argument, before)), dict(_arguments(argument, now))
        chosen += [text for key, text in theirs.items() if ours.get(key) != text]
        absent += [text for key, text in ours.items() if key not in theirs]
    steps = [f"{verb} {' '.join(texts)}" for verb, texts in (("set", chosen), ("leave out", absent)) if texts]
    if steps:
        return one_line(f"{' and '.join(steps)}, as for the baseline", 400)
    return "measure the baseline again, with the items and settings of this run"


def _options(
    baseline: RunMetadata, settings: RunOptions, option: Any
) -> Iterator[tuple[str, str, object, object]]:
    """Yield name, argument, value of the baseline and of this run, for the options that the record has."""
    for name, argument in {**SAME_OPTIONS, "helpers": "--llm-helper"}.items():
        if name in baseline.options:
            yield name, argument, baseline.options[name], plain_option(getattr(settings, name))
    before = baseline.options.get("selected")
    for name, now in selected_tests(option).items():
        if isinstance(before, Mapping) and name in before and name != "tests":
            yield name, name, before[name], now


def _arguments(argument: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield an option with each of its values, with a key that is the same for other values; nothing without one."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(part, Mapping):
                yield from _arguments(argument, {f"{name}.{key}": text for key, text in part.items()})
            else:
                text = part if isinstance(part, str) else json.dumps(part)
                yield f"{argument} {name}", f"{argument} {shlex.quote(f'{name}={text}')}"
    elif isinstance(value, list):
        for part in value:
            yield f"{argument} {part}", f"{argument} {shlex.quote(str(part))}"
    elif value not in (None, ""):
        text = shlex.quote(str(value))
        yield argument, f"{argument}={text}" if argument.startswith("-o ") else f"{argument} {text}"
