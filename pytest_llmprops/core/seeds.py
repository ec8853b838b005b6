"""Random numbers that do not depend on order, process or machine."""

from __future__ import annotations

import hashlib
import random


def generator(*key: int | str) -> random.Random:
    """Return a random generator seeded by ``key``, for example (seed, item id, test index).

    The same key gives the same numbers in every process; different keys give unrelated ones.
    """
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return random.Random(int.from_bytes(digest[:16], "big"))
