"""The spelling distance of two words: normalised edit distance, and its summary over a set of items.

A model may use similar spelling as a clue without knowing how words sound (Liu & Ross, section 10.2).
Therefore each item's spelling distance is reported.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein


def spelling_distance(word: str, answer: str) -> float:
    """Return the edit distance divided by the longer length, in [0, 1]. Case is ignored."""
    return Levenshtein.normalized_distance(word.casefold(), answer.casefold())


@dataclass(frozen=True, slots=True)
class SpellingSummary:
    """Spelling distances of a set of items: count, and mean, extremes and quartiles in [0, 1]."""

    items: int
    mean: float
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float


def summarize_spelling(pairs: Iterable[Sequence[str]]) -> SpellingSummary:
    """Return the summary over (word, answer) pairs.

    :raises ValueError: if there are fewer than two pairs.
    """
    distances = [spelling_distance(word, answer) for word, answer in pairs]
    if len(distances) < 2:
        raise ValueError(f"a spelling summary needs at least 2 items, got {len(distances)}")
    lower, median, upper = statistics.quantiles(distances, n=4, method="inclusive")
    mean = statistics.fmean(distances)
    return SpellingSummary(len(distances), mean, min(distances), lower, median, upper, max(distances))


def spelling_table(summaries: Iterable[tuple[str, SpellingSummary]]) -> str:
    """Return a plain-text table of (name, summary) rows for the terminal."""
    lines = [f"{'set':<10}{'items':>6}{'mean':>7}{'min':>7}{'25%':>7}{'50%':>7}{'75%':>7}{'max':>7}"]
    for name, s in summaries:
        figures = (s.mean, s.minimum, s.lower_quartile, s.median, s.upper_quartile, s.maximum)
        lines.append(f"{name:<10}{s.items:>6}" + "".join(f"{figure:>7.2f}" for figure in figures))
    return "\n".join(lines)
