"""The prices of calls: from the model specification, from a file, or from a table.

The package has a dated table of common models, and an installed litellm has one of thousands, which is used first. Both
are read only when a price is needed, without importing litellm (which takes 2 s) and without the network.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.requests import Price, is_finite
from pytest_llmprops.core.strict_json import parsed_json, strict_json

#: for mostly Latin scripts; a rough estimate, and printed as one
CHARACTERS_PER_TOKEN = 4.0
#: the table of this package; ``llmprops list --prices --out FILE`` writes a new one
SHIPPED = Path(__file__).with_name("prices.json")
#: litellm's project and licence, under which its table may be copied
LITELLM = "https://github.com/BerriAI/litellm, Copyright (c) 2023 Berri AI, MIT license"
#: the member of a table's file that has the prices
PRICES = "usd_per_million_tokens"
_LITELLM_FILE = "model_prices_and_context_window_backup.json"
#: of input, output, cached input, and input written into the cache
_LITELLM_KEYS = (
    *("input_cost_per_token", "output_cost_per_token"),
    *("cache_read_input_token_cost", "cache_creation_input_token_cost"),
)
#: providers whose models litellm lists without the provider's name
_WITHOUT_PREFIX = ("openai/", "anthropic/", "cohere/")


#: the price of a model in this process
FREE = Price(0.0, 0.0, "")


def read_price(numbers: Any, source: str) -> Price | None:
    """Return the price from two to four numbers, of which the last two may be None; None for anything else."""
    if not isinstance(numbers, list) or not 2 <= len(numbers) <= 4:
        return None
    sent, received, cached, written = (*numbers, None, None)[:4]
    given = (sent, received, *(n for n in (cached, written) if n is not None))
    if not all(is_finite(n) and n >= 0 for n in given):
        return None
    return Price(sent, received, source, cached, written)


def _names(name: str) -> Iterator[str]:
    yield name
    if name.startswith("ft:"):
        # A fine-tuned model is called ft:BASE:ORGANISATION::ID.
        yield ":".join(name.split(":")[:2])
    for prefix in _WITHOUT_PREFIX:
        if name.startswith(prefix):
            yield name.removeprefix(prefix)


@cache
def read_table(file: Path) -> Mapping[str, Price]:
    """Read a table's file: ``{"date": DATE, "usd_per_million_tokens": {NAME: [INPUT, OUTPUT, CACHED, WRITTEN]}}``.

    The last two, the prices of input tokens that the provider reads from or writes into its cache, may be missing.

    :raises UsageError: if it cannot be read or has another format.
    """
    try:
        data = strict_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"prices: cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"prices: {file} is not JSON: {error}") from None
    listed = data.get(PRICES) if isinstance(data, dict) else None
    if not isinstance(listed, dict):
        raise UsageError(f'prices: {file} has no {PRICES}; write {{"{PRICES}": {{"NAME": [INPUT, OUTPUT]}}}}')
    date = str(data.get("date", "")) or "no date"
    source = f"table of {date}" if file == SHIPPED else f"{file.name}, {date}"
    prices = {}
    for name, numbers in listed.items():
        price = read_price(numbers, source)
        if price is None:
            raise UsageError(
                f"prices: {file}: '{name}' must have two to four numbers of at least 0: USD per million tokens of"
                " input, output, cached input, input written into the cache"
            )
        prices[name] = price
    return prices


@cache
def litellm_entries() -> Mapping[str, dict[str, Any]]:
    """Return the entries of the installed litellm's table by model name; empty without litellm or its table."""
    with suppress(ImportError, OSError, ValueError):
        spec = importlib.util.find_spec("litellm")
        for folder in (spec and spec.submodule_search_locations) or ():
            table = parsed_json((Path(folder) / _LITELLM_FILE).read_bytes())
            return {k: v for k, v in table.items() if isinstance(v, dict) and k != "sample_spec"}
    return {}


@cache
def litellm_table() -> Mapping[str, Price]:
    """Return the prices of the installed litellm; none without litellm or its table."""
    try:
        source = f"litellm {importlib.metadata.version('litellm')}"
    except importlib.metadata.PackageNotFoundError:
        source = "litellm"
    prices = {}
    for name, entry in litellm_entries().items():
        numbers = [
            # Without the digits that a float adds.
            round(n * 1e6, 6) if isinstance(n := entry.get(key), int | float) else None
            for key in _LITELLM_KEYS
        ]
        # litellm has 0 where writing costs nothing on top of the input.
        price = read_price([*numbers[:2], *(n or None for n in numbers[2:])], source)
        if price is not None:
            prices[name] = price
    return prices


def price(model_name: str, params: Mapping[str, str], file: str | Path | None = None) -> Price | None:
    """Return the price of ``model_name``, or None if it is unknown.

    :param params: parameters of the model specification; ``price_in`` and ``price_out``, in USD per million tokens,
        take precedence over the file and the tables.
    :param file: a table of the user, which takes precedence over the others.
    :raises UsageError: if one of the parameters is not a number of at least 0, or only one of them is present; if the
        file cannot be read.
    """
    stated = [params.get(key) for key in ("price_in", "price_out")]
    if stated != [None, None]:
        try:
            numbers = [float(value) for value in stated if value is not None]
        except ValueError:
            numbers = []
        given = read_price(numbers, "--model")
        if given is None:
            raise UsageError(
                f"model {model_name}: give price_in and price_out, both as USD per million tokens"
            )
        return given
    tables = (*((read_table(Path(file)),) if file else ()), litellm_table(), read_table(SHIPPED))
    return next((table[name] for table in tables for name in _names(model_name) if name in table), None)


def renewed_table(date: str) -> str:
    """Return the file of a table with the names of the shipped one and the prices of the installed litellm.

    A name without a price there keeps its price.

    :param date: the day on which the prices are taken.
    :raises UsageError: without litellm.
    """
    installed = litellm_table()
    if not installed:
        raise MissingExtra("prices", package="litellm", extra="litellm")
    prices = {}
    for name, old in read_table(SHIPPED).items():
        new = installed.get(name, old)
        numbers = [new.input, new.output, new.cached, new.written]
        while numbers[-1] is None:
            del numbers[-1]
        prices[name] = numbers
    # One line per model.
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in prices.items())
    source = next(iter(installed.values())).source
    head = json.dumps({"date": date, "source": f"{source} ({LITELLM})"}, indent=2)
    return f'{head[:-2]},\n  "{PRICES}": {{\n{lines}\n  }}\n}}\n'
