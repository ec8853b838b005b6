"""Candidates for new ERAS paradigms: overlapping word pairs with different sentiment labels (section 2.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_llmprops.benchmarks.eras.paradigms import Branching

#: a word is + from this score on, and - below its negative
STRONG = 0.4
#: "non-sentiment" marks that a word labelled 0 needs
NON_SENTIMENT = 2


@dataclass(frozen=True, slots=True)
class LexiconWord:
    """A word of a sentiment lexicon in ANTUSD's format.

    :param score: from -1 (negative) to 1 (positive). :param positive: annotators who chose positive; likewise
        ``neutral`` and ``negative``. :param non_sentiment: annotators who called it a non-sentiment word.
    :param not_word: annotators who called it no word.
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

    :param rarer: dictionary frequency of the rarer of its two words, :param commoner: of the other.
    """

    site: str
    branching: Branching
    true_word: str
    canary_word: str
    sentiment: str
    rarer: int
    commoner: int


def label(entry: LexiconWord) -> str | None:
    """``+``, ``-``, ``0``, or None for a word without a clear label (section 2.3, "Sentiment Labeling").

    ``0`` needs score 0, more neutral votes than positive and negative ones together, and two "non-sentiment"
    marks; the marks are no votes.
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
    """All sites x1x2x3 whose two words are in the dictionary and have different labels; best first.

    A pair gives one candidate a branching whose true word is + or -. A garden path needs two familiar words,
    so candidates are ranked by the frequency of the rarer one, then of the commoner one, then by the site.

    :param frequencies: dictionary word -> frequency; 0 and less is no word. :param known: sites to leave out.
    """
    labels: dict[str, str] = {}
    for entry in lexicon:
        found = label(entry)
        if len(entry.word) == 2 and found is not None and frequencies.get(entry.word, 0) > 0:
            labels[entry.word] = found
    by_first: dict[str, list[str]] = defaultdict(list)
    for word in labels:
        by_first[word[0]].append(word)
    left_out = set(known)
    candidates = []
    for first in labels:
        for second in by_first[first[1]]:
            site = first + second[1]
            if labels[first] == labels[second] or site in left_out:
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
