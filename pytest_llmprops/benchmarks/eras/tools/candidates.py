"""Find candidates for new ERAS paradigms: overlapping word pairs with different sentiment labels (section 2.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_llmprops.benchmarks.eras.paradigms import Branching

#: A word is + from this score upwards, and - below the negative of this score.
STRONG = 0.4
#: Minimum number of "non-sentiment" marks of a word with label 0.
NON_SENTIMENT = 2


@dataclass(frozen=True, slots=True)
class LexiconWord:
    """A word of a sentiment lexicon in ANTUSD's format.

    :param score: From -1 (negative) to 1 (positive). :param positive: Number of annotators who chose positive;
        likewise ``neutral`` and ``negative``. :param non_sentiment: Annotators who marked it "non-sentiment".
    :param not_word: Annotators who marked it "not a word".
    """

    word: str
    score: float
    positive: int
    neutral: int
    negative: int
    non_sentiment: int
    not_word: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible test site: one reading of two overlapping words.

    :param rarer: Dictionary frequency of the rarer word. :param commoner: Frequency of the other word.
    """

    site: str
    branching: Branching
    true_word: str
    canary_word: str
    sentiment: str
    rarer: int
    commoner: int


def label(entry: LexiconWord) -> str | None:
    """Return ``+``, ``-``, ``0``, or None for a word without a clear label (section 2.3, "Sentiment Labeling").

    ``0`` requires score 0, more neutral votes than positive and negative votes together, and two
    "non-sentiment" marks, which do not count as votes.
    """
    if entry.score >= STRONG and entry.positive > entry.negative:
        return "+"
    if entry.score < -STRONG and entry.negative > entry.positive:
        return "-"
    neutral = entry.neutral > entry.positive + entry.negative
    if entry.score == 0 and neutral and entry.non_sentiment >= NON_SENTIMENT:
        return "0"
    return None


def mine(
    frequencies: Mapping[str, int], lexicon: Iterable[LexiconWord], *, known: Iterable[str] = ()
) -> list[Candidate]:
    """Return all sites x1x2x3 whose two words are in the dictionary and have different labels; best first.

    A pair of words gives one candidate per branching in which the true word is + or -. A garden path needs two
    familiar words, so candidates are sorted by the frequency of the rarer word, then of the other word, then
    by the site.

    :param frequencies: Dictionary word -> frequency; 0 or less means that it is not a word.
    :param known: Sites to exclude.
    """
    labels: dict[str, str] = {}
    for entry in lexicon:
        sentiment = label(entry)
        if len(entry.word) == 2 and sentiment is not None and frequencies.get(entry.word, 0) > 0:
            labels[entry.word] = sentiment
    by_first: dict[str, list[str]] = defaultdict(list)
    for word in labels:
        by_first[word[0]].append(word)
    excluded = set(known)
    candidates = []
    for first in labels:
        for second in by_first[first[1]]:
            site = first + second[1]
            if labels[first] == labels[second] or site in excluded:
                continue
            rarer, commoner = sorted((frequencies[first], frequencies[second]))
            readings: tuple[tuple[Branching, str, str], ...] = (
                ("left", first, second),
                ("right", second, first),
            )
            candidates += [
                Candidate(site, branching, true, canary, f"{labels[true]}/{labels[canary]}", rarer, commoner)
                for branching, true, canary in readings
                if labels[true] != "0"
            ]
    return sorted(candidates, key=lambda c: (-c.rarer, -c.commoner, c.site, c.branching))
