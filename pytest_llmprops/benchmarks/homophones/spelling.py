"""The spelling distance of two words: the normalised edit distance.

A model may use similar spelling as a clue without knowing how words sound (Liu & Ross, section 10.2).
Therefore each item's spelling distance is reported.
"""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein


def spelling_distance(word: str, answer: str) -> float:
    """Return the edit distance divided by the longer length, in [0, 1]. Case is ignored."""
    return Levenshtein.normalized_distance(word.casefold(), answer.casefold())
