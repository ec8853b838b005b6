"""Parts of JSON lines, which are put together faster than a dict is made and encoded.

The text is that of ``json.JSONEncoder(ensure_ascii=False)``, character by character: request keys are hashes of it.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

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
