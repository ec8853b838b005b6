"""JSON as it was asked for: one document, no key twice, no NaN; and texts that a file and a message can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from pytest_llmprops.core.texts import shortened

#: what JSON can hold, in plain Python: lists for arrays, dicts for objects
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
_SHOWN = 60


def strict_json(text: str) -> Any:
    """One JSON document. :raises ValueError: in one line, for anything else, a key that stands twice, NaN."""
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_unicode(text: str) -> bool:
    """No lone surrogate, which JSON can spell and no UTF-8 file can hold."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _no_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {short(next(key for key in keys if keys.count(key) > 1))} stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def short(text: str) -> str:
    """For messages: one line, not long, everything unprintable as an escape."""
    return repr(shortened(text, _SHOWN))
