"""Strict JSON: one document, and problems in plain words."""

from __future__ import annotations

import pytest

from pytest_llmprops.core.strict_json import strict_json


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting property name enclosed in double quotes at line 1, column 2"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5_000, "an integer has too many digits"),
        ("NaN", "NaN is not JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
    ],
    ids=["cut off", "deep", "digits", "NaN", "twice"],
)
def test_problems_are_in_plain_words(text: str, problem: str) -> None:
    """Every document that cannot be read is one short phrase, without the names of Python's exceptions."""
    with pytest.raises(ValueError, match=f"^{problem}$"):
        strict_json(text)
