"""The broker's language on its socket: one JSON object a line, answered in any order by ``id``."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

#: Longest line either side accepts; a long prompt or reply is a few hundred kilobytes.
LINE_LIMIT = 256 * 1024 * 1024


#: marks an array of numbers among JSON values: its bytes in base64, with their type and the array's shape
_ARRAY = "__array__"
#: no text can hold these bytes on a line: a quotation mark inside a text is escaped
_HAS_ARRAY = f'"{_ARRAY}":'.encode()


def encode(message: Mapping[str, Any]) -> bytes:
    """One line. Lone surrogates in untrusted text survive as escapes; numpy arrays of numbers arrive as such."""
    return json.dumps(message, separators=(",", ":"), default=_array_to_json).encode() + b"\n"


def _array_to_json(value: Any) -> dict[str, Any]:
    if not hasattr(value, "tobytes") or value.dtype.kind not in "fiu":
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    data = base64.b64encode(value.tobytes()).decode()
    return {_ARRAY: data, "type": value.dtype.str, "shape": list(value.shape)}


def _array_from_json(found: dict[str, Any]) -> Any:
    if found.keys() != {_ARRAY, "type", "shape"}:
        return found
    import numpy as np

    values = np.frombuffer(base64.b64decode(found[_ARRAY]), dtype=np.dtype(found["type"]))
    return values.reshape(found["shape"])


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message, or None at the end of the stream."""
    try:
        line = await reader.readline()
    except (ConnectionError, ValueError):
        return None
    if not line.endswith(b"\n"):
        return None
    hook = _array_from_json if _HAS_ARRAY in line else None
    message: dict[str, Any] = json.loads(line, object_hook=hook)
    return message
