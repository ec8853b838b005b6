"""The protocol of the broker's socket: one JSON object per line; answers come in any order and carry the ``id``."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

#: Maximum length of a line in bytes; a long prompt or reply is a few hundred kilobytes.
LINE_LIMIT = 256 * 1024 * 1024


#: key of an array of numbers in JSON: its bytes in base64; its data type and shape are next to it
_ARRAY = "__array__"
#: these bytes occur only for an array: a quotation mark inside a string is escaped
_HAS_ARRAY = f'"{_ARRAY}":'.encode()


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line. Escapes preserve lone surrogates; numpy arrays of numbers are preserved too."""
    return _encode(message).encode() + b"\n"


def _array_to_json(value: Any) -> dict[str, Any]:
    if not hasattr(value, "tobytes") or value.dtype.kind not in "fiu":
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    data = base64.b64encode(value.tobytes()).decode()
    return {_ARRAY: data, "type": value.dtype.str, "shape": list(value.shape)}


_encode = json.JSONEncoder(separators=(",", ":"), default=_array_to_json).encode


def _array_from_json(value: dict[str, Any]) -> Any:
    if value.keys() != {_ARRAY, "type", "shape"}:
        return value
    import numpy as np

    values = np.frombuffer(base64.b64decode(value[_ARRAY]), dtype=np.dtype(value["type"]))
    return values.reshape(value["shape"])


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message, or None at the end of the stream."""
    try:
        line = await reader.readline()
    except (ConnectionError, ValueError):
        return None
    if not line.endswith(b"\n"):
        return None
    hook = _array_from_json if _HAS_ARRAY in line else None
    message: dict[str, Any] = json.loads(line, object_hook=hook)
    return message
