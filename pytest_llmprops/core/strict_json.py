"""Strict JSON: one document, no repeated key, no NaN. Also names what is wrong, and checks and shortens texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NoReturn, TypeAlias

from pytest_llmprops.core.texts import shortened

# Parts of JSON lines, which are put together faster than a dict is made and encoded.
#
# The text is that of ``json.JSONEncoder(ensure_ascii=False)``, character by character: request keys are
# hashes of it.

#: returns the JSON of a string; raises TypeError for everything else
string = encode_basestring
encoded = json.JSONEncoder(ensure_ascii=False).encode


def number(value: Any) -> str:
    """Return the JSON of a number or None."""
    if value is None:
        return "null"
    # Infinity minus itself is not a number, which differs from itself; Python and JSON write both differently.
    if type(value) is int or (type(value) is float and value - value == 0.0):
        return repr(value)
    return encoded(value)


#: what JSON can hold, in plain Python: lists for arrays, dicts for objects
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
_SHOWN = 60


def strict_json(text: str) -> Any:
    """Return the value of one JSON document.

    :raises ValueError: with one line, for anything else, a repeated key, or NaN.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(problem_of(error)) from None


def parsed_json(text: str | bytes) -> Any:
    """Return the value of one JSON document as Python reads it: with NaN, and the last of repeated keys.

    :raises ValueError: with one line, for anything else.
    """
    try:
        return json.loads(text)
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
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {short(next(key for key in keys if keys.count(key) > 1))} occurs twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def short(text: str) -> str:
    """Return ``text`` for a message: one short line, with unprintable characters escaped."""
    return repr(shortened(text, _SHOWN))


def check_type(table: str, name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Check the type of a value in a table of a file.

    :raises ValueError: with one phrase that names the value.
    """
    if not isinstance(value, kind):
        raise ValueError(f"'{table}' has a '{name}' of the wrong type ({type(value).__name__})")
