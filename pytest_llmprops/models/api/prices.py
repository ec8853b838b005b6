"""The prices of calls: from the model specification, from a file, or from a table.

The package has a dated table of common models, and an installed litellm has one of thousands, which is used first. Both
are read only when a price is needed, without importing litellm (which takes 2 s) and without the network.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.requests import Usage, is_finite
from pytest_llmprops.core.strict_json import parsed_json, strict_json

#: for mostly Latin scripts; a rough estimate, and printed as one
CHARACTERS_PER_TOKEN = 4.0
#: the table of this package; ``llmprops list --prices --out FILE`` writes a new one
SHIPPED = Path(__file__).with_name("prices.json")
#: litellm's project and licence, under which its table may be copied
LITELLM = "https://github.com/BerriAI/litellm, Copyright (c) 2023 Berri AI, MIT license"
#: the member of a table's file that has the prices
PRICES = "usd_per_million_tokens"
_LITELLM_FILES = ("model_prices_and_context_window_backup.json", "model_prices_and_context_window.json")
#: providers whose models litellm lists without the provider's name
_WITHOUT_PREFIX = ("openai/", "anthropic/", "cohere/")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token of the prompt and of the output, which includes hidden reasoning tokens.

    :param source: where the price is from, with its date or version.
    :param cached_per_token: of prompt tokens that the provider read from its cache. :param write_per_token: of those
        that it wrote into its cache. None, if it is unknown: they then have the price of other prompt tokens.
    """

    input_per_token: float
    output_per_token: float
    source: str = field(default="", compare=False)
    cached_per_token: float | None = None
    write_per_token: float | None = None

    @classmethod
    def per_million(cls, prices: Any, source: str) -> Price | None:
        """Return the price from USD per million tokens; None if these are not two to four numbers.

        :param prices: of input and output, and of input read from and written into the provider's cache, which may be
            missing or None.
        """
        if not isinstance(prices, list) or not 2 <= len(prices) <= 4:
            return None
        sent, received, *others = prices
        if not all(is_finite(n) and n >= 0 for n in (sent, received, *(n for n in others if n is not None))):
            return None
        cached, written = [None if n is None else n / 1e6 for n in (*others, None, None)][:2]
        return cls(sent / 1e6, received / 1e6, source, cached, written)

    def of(self, usage: Usage) -> float:
        """Return the price of one call in USD."""
        return usage.cost(*self._per_token)

    def of_tokens(self, prompt: float, completion: float) -> float:
        """Return the price of tokens in USD; estimates may be fractions."""
        return prompt * self.input_per_token + completion * self.output_per_token

    def scaled(self, factor: float) -> Price:
        """Return the price times ``factor``."""
        sent, received, *others = self._per_token
        cached, written = [None if price is None else price * factor for price in others]
        return Price(sent * factor, received * factor, self.source, cached, written)

    @property
    def _per_token(self) -> tuple[float, float, float | None, float | None]:
        return self.input_per_token, self.output_per_token, self.cached_per_token, self.write_per_token

    @property
    def usd_per_million(self) -> tuple[float, float, float | None, float | None]:
        """The USD per million tokens of input, output, and input read from and written into the provider's cache."""
        sent, received, *others = self._per_token
        cached, written = [None if price is None else round(price * 1e6, 6) for price in others]
        return round(sent * 1e6, 6), round(received * 1e6, 6), cached, written


#: the price of a model in this process
FREE = Price(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Table:
    """Prices by model name.

    :param source: the date of the prices, or what else tells how old they are.
    """

    source: str
    prices: Mapping[str, Price]

    def price(self, name: str) -> Price | None:
        """Return the price of a model, with or without the name of its provider."""
        return next((self.prices[n] for n in _names(name) if n in self.prices), None)


def _names(name: str) -> Iterator[str]:
    yield name
    if name.startswith("ft:"):
        # A fine-tuned model is called ft:BASE:ORGANISATION::ID.
        yield ":".join(name.split(":")[:2])
    for prefix in _WITHOUT_PREFIX:
        if name.startswith(prefix):
            yield name.removeprefix(prefix)


@cache
def read_table(file: Path) -> Table:
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
        price = Price.per_million(numbers, source)
        if price is None:
            raise UsageError(
                f"prices: {file}: '{name}' must have two to four numbers of at least 0: USD per million tokens of"
                " input, output, cached input, input written into the cache"
            )
        prices[name] = price
    return Table(source, prices)


@cache
def litellm_entries() -> Mapping[str, dict[str, Any]]:
    """Return the entries of the installed litellm's table by model name; empty without litellm or its table."""
    try:
        spec = importlib.util.find_spec("litellm")
    except (ImportError, ValueError):
        return {}
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in _LITELLM_FILES:
            try:
                table = parsed_json((Path(folder) / name).read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(table, dict):
                return {k: v for k, v in table.items() if isinstance(v, dict) and k != "sample_spec"}
    return {}


@cache
def litellm_table() -> Table:
    """Return the prices of the installed litellm; none without litellm or its table."""
    source = f"litellm {litellm_version()}".strip()
    prices = {}
    for name, entry in litellm_entries().items():
        sent, received = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
        if isinstance(sent, int | float) and isinstance(received, int | float):
            cached = entry.get("cache_read_input_token_cost"), entry.get("cache_creation_input_token_cost")
            # litellm has 0 where writing costs nothing on top of the input.
            own = [float(n) if isinstance(n, int | float) and n > 0 else None for n in cached]
            prices[name] = Price(float(sent), float(received), source, *own)
    return Table(source, prices)


def litellm_version() -> str:
    """Return the version of the installed litellm; empty if it is unknown."""
    try:
        return importlib.metadata.version("litellm")
    except importlib.metadata.PackageNotFoundError:
        return ""


def shipped_origin() -> str:
    """Return where the shipped prices are from: litellm's version, and its licence."""
    return str(strict_json(SHIPPED.read_text(encoding="utf-8"))["source"])


def clear_tables() -> None:
    """Forget the tables, so that they are read again."""
    for cached in (read_table, litellm_entries, litellm_table):
        cached.cache_clear()


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
        given = Price.per_million(numbers, "--model")
        if given is None:
            raise UsageError(
                f"model {model_name}: give price_in and price_out, both as USD per million tokens"
            )
        return given
    tables = (*((read_table(Path(file)),) if file else ()), litellm_table(), read_table(SHIPPED))
    return next((listed for table in tables if (listed := table.price(model_name)) is not None), None)


def shipped_names() -> list[str]:
    """Return the names in the table of this package."""
    return list(read_table(SHIPPED).prices)


def renewed_table(date: str) -> str:
    """Return the file of a table with the names of the shipped one and the prices of the installed litellm.

    A name without a price there keeps its price.

    :param date: the day on which the prices are taken.
    :raises UsageError: without litellm.
    """
    shipped, installed = read_table(SHIPPED), litellm_table()
    if not installed.prices:
        raise MissingExtra("prices", package="litellm", extra="litellm")
    prices = {}
    for name, old in shipped.prices.items():
        numbers = [*installed.prices.get(name, old).usd_per_million]
        while numbers[-1] is None:
            del numbers[-1]
        prices[name] = numbers
    table = {"date": date, "source": f"{installed.source} ({LITELLM})", PRICES: prices}
    # One line per model.
    text = re.sub(r"\[[^\[\]]*\]", lambda one: " ".join(one[0].split()), json.dumps(table, indent=2))
    return text.replace("[ ", "[").replace(" ]", "]") + "\n"
