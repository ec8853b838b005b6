"""The broker's language on its socket: one JSON object a line, answered in any order by ``id``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

#: Longest line either side accepts; a long prompt or reply is a few hundred kilobytes.
LINE_LIMIT = 256 * 1024 * 1024


def encode(message: Mapping[str, Any]) -> bytes:
    """One line. Lone surrogates in untrusted text survive as escapes."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message, or None at the end of the stream."""
    try:
        line = await reader.readline()
    except (ConnectionError, ValueError):
        return None
    if not line.endswith(b"\n"):
        return None
    message: dict[str, Any] = json.loads(line)
    return message
