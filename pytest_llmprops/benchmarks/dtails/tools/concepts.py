"""Concepts with variations from an aligned parallel corpus (Barua et al., section 2.1 and appendix B.1).

The pipeline is by Chaudhary et al. (2021). A source *lexeme* is a lemma with its part of speech. Its *variations* are
the target lemmas that it is aligned with. A lexeme is a concept if

1. at least two variations occur at least 50 times each,
2. the entropy of the variation given the lexeme is at least 0.69 (natural logarithm; ln 2 = 0.693),
3. at least two variations remain after those of other word senses are dropped.

As Chaudhary et al. do, only words linked to one target word count (several links mostly include particles and articles
next to the translation), and no words that are part of a larger expression, which has its own translations.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pytest_llmprops.core.texts import folded

#: Parts of speech of content words; 94% of the authors' published concepts have one of them.
CONTENT_TAGS = ("NOUN", "VERB", "ADJ", "ADV")
#: Relations between the parts of one expression, in Universal Dependencies and spaCy's English labels.
_EXPRESSIONS = frozenset({"compound", "prt", "flat", "fixed", "goeswith", "mwe"})
Lexeme = tuple[str, str]


class Word(NamedTuple):
    """A word from a parser; unknown strings are empty.

    :param head: Number of its head among the words of the text, from 1; 0 for a root, -1 if unknown.
    """

    text: str
    lemma: str = ""
    tag: str = ""
    head: int = -1
    relation: str = ""


@dataclass(frozen=True, slots=True)
class Concept:
    """A source lexeme and the counts of its variations, most frequent first. The entropy is in nats."""

    lemma: str
    tag: str
    counts: Mapping[str, int]
    entropy: float

    @property
    def lexeme(self) -> Lexeme:
        return self.lemma, self.tag


def key(word: Word) -> str:
    """Return the folded lemma, or the folded word if it has no lemma; "" if it is not a word."""
    return _key(word.lemma or word.text)


@lru_cache(maxsize=1 << 16)
def _key(text: str) -> str:
    return folded(text) if is_writable(text) else ""


def is_writable(text: str) -> bool:
    """Return True if ``text`` has a letter and no character that separates fields in a ``.words`` file."""
    return not any(mark in text for mark in ";/,") and any(unicodedata.category(c)[0] == "L" for c in text)


def expression_parts(words: Sequence[Word]) -> frozenset[int]:
    """Return the indexes of words in compounds, verbs with particles and names, both dependents and heads."""
    indexes: set[int] = set()
    for index, word in enumerate(words):
        if word.relation.partition(":")[0] in _EXPRESSIONS:
            indexes.add(index)
            if 0 < word.head <= len(words):
                indexes.add(word.head - 1)
    return frozenset(indexes)


def counted_links(
    source: Sequence[Word], target: Sequence[Word], links: Iterable[tuple[int, int]], tags: Collection[str]
) -> list[tuple[Lexeme, int, int]]:
    """Return the links that count, as (lexeme, source index, target index), in order."""
    partners: dict[int, list[int]] = {}
    for i, j in links:
        if key(target[j]):
            partners.setdefault(i, []).append(j)
    left_out = expression_parts(source) if partners else frozenset()
    counted = []
    for i, places in sorted(partners.items()):
        lemma, tag = key(source[i]), source[i].tag
        if lemma and tag in tags and i not in left_out and len(places) == 1:
            counted.append(((lemma, tag), i, places[0]))
    return counted


def entropy(counts: Iterable[int]) -> float:
    """Return ``-sum p ln p`` in nats with ``p = count / sum``; 0 without counts (appendix B.1)."""
    positive = [count for count in counts if count]
    whole = sum(positive)
    return math.fsum(-n / whole * math.log(n / whole) for n in positive)


def find_concepts(
    counts: Mapping[Lexeme, Mapping[str, int]], min_count: int = 50, min_entropy: float = 0.69
) -> tuple[Concept, ...]:
    """Return the lexemes with enough variations and entropy, the most frequent first, then by name.

    :param counts: Number of links of each lexeme to each target lemma.
    """
    concepts = []
    for lexeme, linked in counts.items():
        frequent = {lemma: n for lemma, n in linked.items() if n >= min_count}
        value = entropy(frequent.values())
        if len(frequent) > 1 and value >= min_entropy:
            by_count = sorted(frequent.items(), key=lambda pair: (-pair[1], pair[0]))
            concepts.append(Concept(*lexeme, dict(by_count), value))
    return tuple(sorted(concepts, key=lambda c: (-sum(c.counts.values()), c.lexeme)))


def of_main_sense(senses: Mapping[str, Counter[int]]) -> list[str]:
    """Return the variations of the main word sense, which is the most frequent one over all occurrences.

    A variation is kept if no sense is more frequent among its own occurrences (appendix B.1: *plane* is ``avión`` as an
    aircraft, ``plano`` in geometry), or if none of its senses is known.

    :param senses: For each variation, the number of occurrences of each sense of the source word.
    """
    everything = sum(senses.values(), Counter[int]())
    main = min(everything, key=lambda sense: (-everything[sense], sense), default=0)
    return [lemma for lemma, own in senses.items() if own[main] == max(own.values(), default=0)]


def surface_forms(
    variations: Mapping[str, tuple[Counter[str], Counter[str]]], most: int
) -> dict[str, tuple[str, ...]]:
    """Return the written forms of each variation of a concept: its lemma, then its most frequent other forms.

    A form has its most frequent spelling. A form that occurs with several variations is the form of none of them,
    unless it is a lemma.

    :param variations: For each folded lemma, the counts of the parser's spellings, and of its forms in the sentences.
    :param most: Maximum number of forms, including the lemma.
    """
    counts: dict[str, dict[str, Counter[str]]] = {}
    owners = Counter[str]()
    for lemma, (spellings, words) in variations.items():
        counts[lemma] = {}
        for text, n in words.items():
            if is_writable(text):
                counts[lemma].setdefault(folded(text), Counter())[text] += n
        owners.update(list(counts[lemma]))
        counts[lemma].setdefault(lemma, spellings)
    written = {}
    for lemma, forms in counts.items():
        own = [form for form in forms if form not in counts and owners[form] == 1]
        own.sort(key=lambda form: (-forms[form].total(), form))
        written[lemma] = tuple(_spelling(forms[form]) for form in [lemma, *own][:most])
    return written


def _spelling(spellings: Mapping[str, int]) -> str:
    return min(spellings, key=lambda text: (-spellings[text], text))
