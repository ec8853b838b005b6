"""Command-line options, their ini keys, and their values: from the command line, the ini file or the default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import Shard
from pytest_llmprops.plugin.option_table import OPTIONS, Option
from pytest_llmprops.plugin.option_values import Confirm, redacted

GROUP = "llmprops: measure a language model"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The resolved options of a session."""

    models: tuple[str, ...]
    helpers: Mapping[str, str]
    base_url: str | None
    concurrency: int
    engine: str
    batch_wait: float | None
    rpm: float | None
    timeout: float
    retries: int
    params: Mapping[str, Any]
    limit: int | None
    size: str
    shard: Shard | None
    repeats: int
    seed: int
    source: str
    data: Path | None
    protocol: str
    sets: Mapping[str, Mapping[str, str]]
    cache: Any
    cache_age: float | None
    # Its URL may have a password.
    store: str | None = field(repr=False)
    run: str | None
    resume: bool
    attach: str
    allure_identity: str
    gate: Path | None
    baseline: str | None
    failures: str
    max_calls: int | None
    max_cost: float | None
    confirm: Confirm
    yes: bool
    prices: Path | None
    plan: bool

    @property
    def has_ray(self) -> bool:
        """Whether a Ray cluster serves local models."""
        return self.engine.startswith("ray")


def plain_option(value: Any) -> Any:
    """Return the value of an option as ``run.json`` has it: without the passwords of URLs."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain_option(part) for name, part in value.items()}
    return list(map(plain_option, value)) if isinstance(value, tuple) else value


def add_options(parser: pytest.Parser) -> None:
    """Add every option and its ini key, which is the name with underscores."""
    group = parser.getgroup("llmprops", GROUP)
    for option in OPTIONS:
        names = [f"--{option.name}"]
        if option.name == "llm-model":
            names.insert(0, "--model")
        details: dict[str, str] = {} if option.flag else {"metavar": option.metavar}
        action, kind = "store", "string"
        if option.flag:
            action, kind = "store_true", "bool"
        elif option.repeatable:
            action, kind = "append", "linelist"
        group.addoption(*names, dest=option.dest, action=action, default=None, help=option.help, **details)
        parser.addini(option.dest, option.help, type=kind, default=None)  # type: ignore[arg-type]


def resolve_options(config: pytest.Config) -> RunOptions:
    """Return the values of all options.

    :raises pytest.UsageError: with the option, its value and the accepted values.
    """
    values = {option.dest.removeprefix("llm_"): _value(config, option) for option in OPTIONS}
    values["models"] = values.pop("model")
    values["helpers"] = values.pop("helper")
    values["params"] = values.pop("param")
    values["sets"] = values.pop("set")
    if values["data"] is not None and not (config.getoption("llm_source") or config.getini("llm_source")):
        raise pytest.UsageError(
            f"--llm-data {values['data']}: the items are the built-in ones without --llm-source; add"
            " --llm-source published to measure those of the folder, or --llm-source all to measure both"
        )
    if values["shard"] is not None and values["gate"] is not None:
        raise pytest.UsageError(
            f"--llm-shard {values['shard']}: a gate does not judge one shard; leave out --llm-gate, merge the"
            " shards with 'llmprops runs merge', and judge the merged run with 'llmprops gate'"
        )
    if values["allure_identity"] == "item" and len(values["models"]) > 1:
        raise pytest.UsageError(
            "--llm-allure-identity item: Allure would take the models' cases for retries of one case; give one --model"
        )
    if values["data"] is None and os.environ.get("LLMPROPS_DATA"):
        values["data"] = Path(os.environ["LLMPROPS_DATA"])
    if values["data"] is not None:
        # Workers start in the controller's folder, but a test may change the directory.
        values["data"] = (config.invocation_params.dir / values["data"]).absolute()
    if values["prices"] is None and os.environ.get("LLMPROPS_PRICES"):
        values["prices"] = Path(os.environ["LLMPROPS_PRICES"])
    for name in ("gate", "prices"):
        if values[name] is not None:
            values[name] = (config.invocation_params.dir / values[name]).absolute()
    return RunOptions(**values)


def _value(config: pytest.Config, option: Option) -> Any:
    value = config.getoption(option.dest)
    origin = f"--{option.name}"
    if value is None:
        value = config.getini(option.dest)
        origin = f"ini key {option.dest}"
    if value is None or value == [] or (value == "" and not option.flag):
        return option.default
    if option.choices and value not in option.choices:
        raise pytest.UsageError(f"{origin} {value}: must be one of {', '.join(option.choices)}")
    try:
        return option.parse(value)
    except (UsageError, ValueError) as error:
        text = redacted(" ".join(value) if isinstance(value, list) else value)
        reason = (
            str(error) if "literal" not in str(error) and "convert" not in str(error) else "must be a number"
        )
        raise pytest.UsageError(f"{origin} {text}: {reason}") from None
