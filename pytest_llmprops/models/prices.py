"""The prices of calls, from the model specification or from litellm's price table.

The table is a JSON file in litellm's package. It is read only when a price is needed, without importing litellm (which
takes 2 s) and without the network.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Usage

_FILES = ("model_prices_and_context_window_backup.json", "model_prices_and_context_window.json")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per input token and per output token; output includes hidden reasoning tokens."""

    input_per_token: float
    output_per_token: float

    def of(self, usage: Usage) -> float:
        """Return the price of one call in USD."""
        return usage.prompt_tokens * self.input_per_token + usage.completion_tokens * self.output_per_token


@cache
def price_table() -> Mapping[str, dict[str, Any]]:
    """Return litellm's entries by model name; empty if litellm or its table is not installed."""
    try:
        spec = importlib.util.find_spec("litellm")
    except (ImportError, ValueError):
        return {}
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in _FILES:
            try:
                table = json.loads((Path(folder) / name).read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(table, dict):
                return {k: v for k, v in table.items() if isinstance(v, dict) and k != "sample_spec"}
    return {}


def price(model_name: str, params: Mapping[str, str]) -> Price | None:
    """Return the price of ``model_name``, or None if it is unknown.

    :param params: parameters of the model specification; ``price_in`` and ``price_out``, in USD per million tokens,
        take precedence over the table.
    :raises UsageError: if one of them is not a number of at least 0, or only one of them is present.
    """
    stated = [params.get(key) for key in ("price_in", "price_out")]
    if stated != [None, None]:
        try:
            numbers = [float(value) / 1e6 for value in stated if value is not None]
        except ValueError:
            numbers = []
        if len(numbers) < 2 or not all(0 <= n < float("inf") for n in numbers):
            raise UsageError(
                f"model {model_name}: give price_in and price_out, both as USD per million tokens"
            )
        return Price(numbers[0], numbers[1])
    entry = price_table().get(model_name)
    if entry is None:
        return None
    sent, received = (entry.get("input_cost_per_token"), entry.get("output_cost_per_token"))
    if not isinstance(sent, int | float) or not isinstance(received, int | float):
        return None
    return Price(float(sent), float(received))
