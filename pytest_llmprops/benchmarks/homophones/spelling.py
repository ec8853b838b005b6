"""How unlike two words are spelt: normalised edit distance and a summary of it over a set of items.

Section 10.2 of the paper (Liu & Ross) names spelling as a clue that a model may use without any idea of
sound; the distance is therefore reported for every item.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein


def spelling_distance(word: str, answer: str) -> float:
    """Edit distance over the longer length, in [0, 1]: 0 the same letters, 1 none kept. Case is ignored."""
    return Levenshtein.normalized_distance(word.casefold(), answer.casefold())


@dataclass(frozen=True, slots=True)
class SpellingSummary:
    """Spelling distances of a set of items: their number, mean, extremes and quartiles (all in [0, 1])."""

    items: int
    mean: float
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float


def summarize_spelling(pairs: Iterable[Sequence[str]]) -> SpellingSummary:
    """Summary of the spelling distance over (word, answer) pairs; ``ValueError`` with fewer than two."""
    distances = [spelling_distance(word, answer) for word, answer in pairs]
    if len(distances) < 2:
        raise ValueError(f"a spelling summary needs at least 2 items, got {len(distances)}")
    lower, median, upper = statistics.quantiles(distances, n=4, method="inclusive")
    mean = statistics.fmean(distances)
    return SpellingSummary(len(distances), mean, min(distances), lower, median, upper, max(distances))


def spelling_table(summaries: Iterable[tuple[str, SpellingSummary]]) -> str:
    """A plain-text table of (name, summary) rows, for the terminal."""
    lines = [f"{'set':<10}{'items':>6}{'mean':>7}{'min':>7}{'25%':>7}{'50%':>7}{'75%':>7}{'max':>7}"]
    for name, s in summaries:
        figures = (s.mean, s.minimum, s.lower_quartile, s.median, s.upper_quartile, s.maximum)
        lines.append(f"{name:<10}{s.items:>6}" + "".join(f"{figure:>7.2f}" for figure in figures))
    return "\n".join(lines)
