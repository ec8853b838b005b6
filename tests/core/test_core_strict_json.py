"""One strict JSON document."""

from __future__ import annotations

import pytest

from bench.readers import GROWTH, growth
from pytest_llmprops.core.strict_json import strict_json


def _keys(length: int) -> str:
    """Return an object of this length whose last two keys are the same, and all others different."""
    keys = [f'"{place:07}":0' for place in range(length // 12)]
    return "{" + ",".join([*keys, keys[-1]]) + "}"


def test_repeated_keys_are_named() -> None:
    """The first key that occurs twice is named."""
    with pytest.raises(ValueError, match=r"^the key 'b' occurs twice$"):
        strict_json('{"a": 1, "b": 2, "c": 3, "b": 4, "c": 5}')


def test_repeated_keys_are_found_in_linear_time() -> None:
    """A repeated key among thousands is found in one pass."""

    def read(text: str) -> None:
        with pytest.raises(ValueError, match="occurs twice"):
            strict_json(text)

    assert growth(read, _keys) < GROWTH
