"""What calls cost: from the model specification, or from litellm's price table where it is installed.

The table is a JSON file inside litellm's package. It is read without importing litellm (2 s) and
without the network, and only when a price is asked for.
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
    """USD per token sent and per token received, hidden reasoning tokens included in the latter."""

    input_per_token: float
    output_per_token: float

    def of(self, usage: Usage) -> float:
        """USD for one call."""
        return usage.prompt_tokens * self.input_per_token + usage.completion_tokens * self.output_per_token


@cache
def price_table() -> Mapping[str, dict[str, Any]]:
    """litellm's entries by model name; empty when litellm is not installed or its table has moved."""
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
    """The price of ``model_name``, or None when nobody says.

    :param params: parameters of the model specification; ``price_in`` and ``price_out`` are USD per
        million tokens and come before the table.
    :raises UsageError: when one of them is not a number at or above 0, or stands without the other.
    """
    given = [params.get(key) for key in ("price_in", "price_out")]
    if given != [None, None]:
        try:
            numbers = [float(value) / 1e6 for value in given if value is not None]
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
