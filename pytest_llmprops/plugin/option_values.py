"""The values of command-line options and ini keys: functions that read them from text, or raise ValueError."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_llmprops.core.items import Shard

ENGINES = ("local", "batch", "ray")
_encode = json.JSONEncoder(allow_nan=False).encode


def text(value: str) -> str:
    """Return a text that is not empty."""
    if not value:
        raise ValueError("must not be empty")
    return value


def positive(value: str) -> int:
    """Return a whole number of at least 1."""
    number = int(value)
    if number < 1:
        raise ValueError("must be a whole number of at least 1")
    return number


def count(value: str) -> int:
    """Return a whole number of at least 0."""
    number = int(value)
    if number < 0:
        raise ValueError("must be a whole number of at least 0")
    return number


def amount(value: str) -> float:
    """Return a number above 0."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError("must be a number above 0")
    return number


def seconds(value: str) -> float:
    """Return a number of at least 0."""
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError("must be a number of at least 0")
    return number


def age(value: str) -> float:
    """Return the seconds of a time such as ``24h``, ``30m`` or ``7d``; a number alone is in hours."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (value[:-1], units[value[-1]]) if value[-1:] in units else (value, 3600)
    if not 0 <= float(number) < float("inf"):
        raise ValueError("must be a time such as 24h, 30m or 7d")
    return float(number) * unit


def url(value: str) -> str:
    """Return an address, or several separated by commas, as it is written."""
    if not all(one.strip().startswith(("http://", "https://")) for one in value.split(",")):
        raise ValueError("must begin with http:// or https://")
    return value


def engine(value: str) -> str:
    """Return an engine as it is written."""
    if value not in ENGINES and not re.fullmatch(r"ray://[^/?#\s]+:\d+", value):
        raise ValueError(f"must be one of {', '.join(ENGINES)}, ray://HOST:PORT")
    return value


def pairs(values: Sequence[str]) -> dict[str, str]:
    """Return the pairs of texts ``NAME=VALUE``."""
    texts = {}
    for value in values:
        name, _, text = value.partition("=")
        if not (name.strip() and text):
            raise ValueError(f"'{value}' must be NAME=VALUE")
        texts[name.strip()] = text
    return texts


#: the parameters that a protocol also sets, with the types of their values; servers check the others
_PARAMS: dict[str, tuple[tuple[type, ...], str]] = {
    "temperature": ((int, float), "a number"),
    "max_tokens": ((int,), "a whole number"),
    "stop": ((str, list), "a text or a list of texts"),
}


def params(values: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``--llm-param``: JSON, or text."""

    def value_of(text: str) -> Any:
        try:
            value = json.loads(text)
        except ValueError:
            return text
        try:
            _encode(value)
        except ValueError:
            # NaN, or a number too large for a float, also inside a list or an object.
            raise ValueError(f"'{text}' must be a finite number") from None
        return value

    found = {name: value_of(text) for name, text in pairs(values).items()}
    for name, (kinds, what) in _PARAMS.items():
        value = found.get(name)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise ValueError(f"{name} must be {what}")
    return found


class Confirm(NamedTuple):
    """The cost and the number of calls above which a run needs a confirmation; None: not limited."""

    usd: float | None = None
    calls: int | None = None

    def __str__(self) -> str:
        parts = [] if self.usd is None else [f"{self.usd:g} USD"]
        return ", ".join(parts if self.calls is None else [*parts, f"{self.calls} calls"])


_LIMIT = re.compile(r"(\d+(?:\.\d+)?) *(USD|calls)", re.IGNORECASE)


def confirm(value: str) -> Confirm:
    """Return the limits of ``5 USD, 20000 calls``; none for ``off``."""
    if value.strip().lower() == "off":
        return Confirm()
    limits: dict[str, float] = {}
    for part in value.split(","):
        match = _LIMIT.fullmatch(part.strip())
        if match is None or match[2].lower() in limits:
            raise ValueError("write a cost, a number of calls or both, such as 5 USD, 20000 calls, or off")
        limits[match[2].lower()] = float(match[1])
    calls = limits.get("calls")
    return Confirm(limits.get("usd"), None if calls is None else int(calls))


def sets(values: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of texts ``BENCHMARK.FIELD=VALUE``, by benchmark."""
    settings: dict[str, dict[str, str]] = {}
    for name, text in pairs(values).items():
        benchmark, _, field = name.partition(".")
        if not (benchmark and field):
            raise ValueError(f"'{name}={text}' must be BENCHMARK.FIELD=VALUE")
        settings.setdefault(benchmark, {})[field] = text
    return settings


def shard(value: str) -> Shard:
    """Return the shard ``I/N``."""
    number, _, total = value.partition("/")
    if not (number.isascii() and number.isdigit() and total.isascii() and total.isdigit()):
        raise ValueError("must be I/N, such as 3/16")
    found = Shard(int(number), int(total))
    if not 1 <= found.number <= found.total:
        raise ValueError("I must be from 1 to N")
    return found


def store(value: str) -> Any:
    """Return the file or the URL of a store."""
    # Without --model, nothing of the engine is imported.
    from pytest_llmprops.engine.store.location import store_location

    return store_location(value)


def redacted(value: str) -> str:
    """Return a text without the password of a URL."""
    from pytest_llmprops.engine.store.location import without_password
    from pytest_llmprops.models.addresses import without_user

    return without_user(without_password(value))


def models(values: Sequence[str]) -> tuple[str, ...]:
    """Return the specifications of the models."""
    if any(not value.strip() for value in values):
        raise ValueError("must name a model, for example --model smollm2")
    if len(set(values)) < len(values):
        raise ValueError("names a model twice")
    return tuple(values)
