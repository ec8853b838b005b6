"""Strict JSON: one document, no repeated key, no NaN."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn, TypeAlias

from pytest_llmprops.core.faults import shown
from pytest_llmprops.core.field_types import DEEPEST
from pytest_llmprops.core.texts import shortened

#: what JSON can hold, in plain Python: lists for arrays, dicts for objects
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
_SHOWN = 60
_TOO_DEEP = f" has more than {DEEPEST} lists and dicts in each other"


def strict_json(text: str) -> Any:
    """Return the value of one JSON document.

    :raises ValueError: with one line, for anything else, a repeated key, or NaN.
    """
    return parsed_json(text, object_pairs_hook=_no_repeats, parse_constant=no_constant)


def parsed_json(text: str | bytes, **hooks: Any) -> Any:
    """Return the value of one JSON document as Python reads it: with NaN, and the last of repeated keys.

    :param hooks: of :func:`json.loads`, which may read it otherwise.
    :raises ValueError: with one line, for anything else.
    """
    try:
        return json.loads(text, **hooks)
    except (ValueError, RecursionError) as error:
        raise ValueError(problem_of(error)) from None


def problem_of(error: ValueError | RecursionError) -> str:
    """Return in one phrase why a JSON or TOML document could not be parsed, without Python's own terms."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}"
    return "an integer has too many digits" if "integer string conversion" in str(error) else str(error)


def is_unicode(text: str) -> bool:
    """Return True if the text has no lone surrogates, which JSON can express but UTF-8 files cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _no_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {short(next(key for key, n in counts.items() if n > 1))} occurs twice")
    return result


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, as ``parse_constant`` of a decoder."""
    raise ValueError(f"{name} is not JSON")


def short(text: str) -> str:
    """Return ``text`` for a message: one short line, with unprintable characters escaped."""
    return repr(shortened(text, _SHOWN))


def json_problem(value: object) -> str:
    """Return why a dict cannot be recorded, as it follows the dict's name in a sentence; empty if it can."""
    if not isinstance(value, Mapping):
        return f" is {shown(value)}; use a dict"
    return _not_json(dict(value), DEEPEST)


def _not_json(value: object, levels: int) -> str:
    # Tuples of types are faster than unions, in each member of each verdict's evidence.
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and isfinite(value)):
        return ""
    if not isinstance(value, (dict, list, tuple)):
        return f" is {shown(value)}; use dicts, lists, strings, finite numbers, booleans and None"
    if not levels:
        return _TOO_DEEP
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        if not (key is None or isinstance(key, (str, int, float))):
            return f" has the key {shown(key)}; use strings as keys"
        if problem := _not_json(member, levels - 1):
            return problem if problem is _TOO_DEEP else f"[{shown(key)}]{problem}"
    return ""
