"""Concepts with variations from an aligned parallel corpus (Barua et al., section 2.1 and appendix B.1).

The pipeline is by Chaudhary et al. (2021). A source *lexeme* is a lemma with its part of speech. Its *variations* are
the target lemmas that it is aligned with. A lexeme is a concept if

1. at least two variations occur at least 50 times each,
2. the conditional entropy of the variation given the lexeme is at least 0.69 (natural logarithm; two equally frequent
   variations have ln 2 = 0.693),
3. at least two variations remain after those of other word senses are dropped.

Lemmas are compared folded (:func:`~pytest_llmprops.benchmarks.dtails.text.folded`).
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import folded

#: Parts of speech of content words; 94% of the authors' published concepts have one of them.
CONTENT_TAGS = ("NOUN", "VERB", "ADJ", "ADV")
#: The universal tags (Universal Dependencies v2).
TAGS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
#: Relations between the parts of one expression, in Universal Dependencies and spaCy's English labels.
EXPRESSION_RELATIONS = frozenset({"compound", "prt", "flat", "fixed", "goeswith", "mwe"})

#: Rarer translations do not count in the entropy, because they are alignment errors (Chaudhary et al.).
NOISE = 5

Lexeme = tuple[str, str]
Links = Iterable[tuple[int, int]]
Counts = Mapping[Lexeme, Mapping[str, int]]


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
class Counting:
    """Which links count.

    :param tags: Universal tags of the source words.
    :param links: ``single`` counts only words that are linked to one target word, as Chaudhary et al. do: several links
        mostly include particles and articles next to the translation. ``all`` counts every link.
    :param compounds: ``drop`` leaves out words that are part of a larger expression, which has its own translations:
        noun compounds ("water lily"), verbs with particles ("look up"), names.
    """

    tags: Collection[str] = CONTENT_TAGS
    links: Literal["single", "all"] = "single"
    compounds: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        for tag in self.tags:
            if tag not in TAGS:
                raise UsageError(f"{tag!r} is not a universal part of speech; choose from {', '.join(TAGS)}")
        if not self.tags:
            raise UsageError(f"no parts of speech; use some, such as {', '.join(CONTENT_TAGS)}")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The conditions for a lexeme to be a concept.

    :param entropy_over: ``variations`` computes the entropy over the variations that are frequent enough, as shares of
        their sum (formula of appendix B.1). ``all`` computes it over every translation that occurs :data:`NOISE` times,
        as shares of all links of the lexeme (Chaudhary et al.'s published code); more lexemes pass.
    """

    min_count: int = 50
    min_entropy: float = 0.69
    entropy_over: Literal["variations", "all"] = "variations"

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise UsageError(f"the minimum count of a variation is {self.min_count}; it must be at least 1")
        if not 0 <= self.min_entropy < math.inf:
            raise UsageError(f"the minimum entropy is {self.min_entropy}; it must be a number of at least 0")

    @property
    def floor(self) -> int:
        """The minimum count that can affect the result."""
        return self.min_count if self.entropy_over == "variations" else min(NOISE, self.min_count)


@dataclass(frozen=True, slots=True)
class Concept:
    """A source lexeme and the counts of its aligned target lemmas, most frequent first."""

    lemma: str
    tag: str
    counts: Mapping[str, int]
    entropy: float

    @property
    def lexeme(self) -> Lexeme:
        return self.lemma, self.tag


def key(word: Word) -> str:
    """Return the folded lemma, or the folded word if it has no lemma; "" if it is not a word.

    A word has a letter, and no character that separates fields in a ``.words`` file.
    """
    return _key(word.lemma or word.text)


@lru_cache(maxsize=1 << 16)
def _key(text: str) -> str:
    return folded(text) if is_writable(text) else ""


def is_writable(text: str) -> bool:
    """Return True if ``text`` has a letter and can be written to a ``.words`` file."""
    return not any(mark in text for mark in ";/,") and any(unicodedata.category(c)[0] == "L" for c in text)


def expression_parts(words: Sequence[Word]) -> frozenset[int]:
    """Return the indexes of words that are part of a larger expression, both dependents and heads.

    Empty if the parser gives no relations.
    """
    indexes: set[int] = set()
    for index, word in enumerate(words):
        if word.relation.partition(":")[0] in EXPRESSION_RELATIONS:
            indexes.add(index)
            if 0 < word.head <= len(words):
                indexes.add(word.head - 1)
    return frozenset(indexes)


def counted_links(
    source: Sequence[Word], target: Sequence[Word], links: Links, counting: Counting
) -> list[tuple[int, int]]:
    """Return the links (source index, target index) that count, in order."""
    partners: dict[int, list[int]] = {}
    for i, j in links:
        if key(target[j]):
            partners.setdefault(i, []).append(j)
    if not partners:
        return []
    left_out = expression_parts(source) if counting.compounds == "drop" else frozenset()
    counted = []
    for i, places in sorted(partners.items()):
        word = source[i]
        if word.tag not in counting.tags or i in left_out or not key(word):
            continue
        if counting.links == "all" or len(places) == 1:
            counted += [(i, j) for j in sorted(places)]
    return counted


def entropy(counts: Iterable[int], total: int | None = None) -> float:
    """Return ``-sum p ln p`` in nats with ``p = count / total``; 0 without counts (appendix B.1).

    :param total: By default, the sum of the counts; larger if ``counts`` does not have all of them.
    """
    positive = [count for count in counts if count]
    whole = sum(positive) if total is None else total
    return math.fsum(-n / whole * math.log(n / whole) for n in positive) if positive else 0.0


def find_concepts(
    counts: Counts, totals: Mapping[Lexeme, int], thresholds: Thresholds
) -> tuple[Concept, ...]:
    """Return the lexemes with enough variations and entropy, the most frequent first, then by name.

    :param counts: Number of links of each lexeme to each target lemma; pairs below ``thresholds.floor`` may be missing.
    :param totals: Number of all links of each lexeme.
    """
    concepts = []
    for lexeme, linked in counts.items():
        frequent = {lemma: n for lemma, n in linked.items() if n >= thresholds.min_count}
        if len(frequent) < 2:
            continue
        if thresholds.entropy_over == "variations":
            value = entropy(frequent.values())
        else:
            value = entropy((n for n in linked.values() if n >= thresholds.floor), totals[lexeme])
        if value >= thresholds.min_entropy:
            by_count = sorted(frequent.items(), key=lambda pair: (-pair[1], pair[0]))
            concepts.append(Concept(*lexeme, dict(by_count), value))
    return tuple(sorted(concepts, key=lambda c: (-sum(c.counts.values()), c.lexeme)))


def without_minority_senses(
    concept: Concept, senses: Mapping[str, Mapping[str, int]]
) -> tuple[Concept | None, tuple[str, ...]]:
    """Return the concept with the variations of its main word sense, and the lemmas of the dropped variations.

    The main sense is the most frequent one over all occurrences. A variation is kept if no sense is more frequent among
    its own occurrences (appendix B.1: *plane* is ``avión`` as an aircraft, ``plano`` in geometry), or if none of its
    senses is known. The concept is None if fewer than two variations remain. The entropy is not tested again, because
    the paper drops senses last.

    :param senses: For each variation, the number of occurrences of each sense of the source word.
    """
    known = {lemma: counts for lemma in concept.counts if (counts := Counter(senses.get(lemma, {})))}
    everything = sum(known.values(), Counter[str]())
    if not everything:
        return concept, ()
    most = max(everything.values())
    sense = min(name for name, n in everything.items() if n == most)
    dropped = tuple(lemma for lemma, counts in known.items() if counts[sense] < max(counts.values()))
    kept = {lemma: n for lemma, n in concept.counts.items() if lemma not in dropped}
    if len(kept) < 2:
        return None, dropped
    return Concept(concept.lemma, concept.tag, kept, concept.entropy), dropped


def surface_forms(
    lemmas: Mapping[str, Mapping[str, int]], words: Mapping[str, Mapping[str, int]], *, most: int
) -> dict[str, tuple[str, ...]]:
    """Return the written forms of each variation of a concept: its lemma, then its most frequent other forms.

    A form has its most frequent spelling. Two variations never share a form: a form of several variations belongs to
    the variation with this lemma, or to the one that it occurs with most often.

    :param lemmas: For each folded lemma, the counts of the parser's spellings.
    :param words: For each folded lemma, the counts of its written forms in the target sentences.
    :param most: Maximum number of forms, including the lemma.
    """
    counts: dict[str, dict[str, Counter[str]]] = {lemma: {} for lemma in lemmas}
    for lemma, seen in words.items():
        for text, n in seen.items():
            if is_writable(text):
                counts[lemma].setdefault(folded(text), Counter())[text] += n
    owners: dict[str, str] = {}
    for lemma in sorted(counts):
        for form, spellings in counts[lemma].items():
            owner = owners.get(form)
            if form in counts:
                owners[form] = form
            elif owner is None or spellings.total() > counts[owner][form].total():
                owners[form] = lemma
    written = {}
    for lemma, forms in counts.items():
        own = _spelling(forms.get(lemma) or lemmas[lemma])
        others = [form for form in forms if form != lemma and owners[form] == lemma]
        others.sort(key=lambda form: (-forms[form].total(), form))
        written[lemma] = (own, *(_spelling(forms[form]) for form in others[: max(most, 1) - 1]))
    return written


def _spelling(spellings: Mapping[str, int]) -> str:
    return min(spellings, key=lambda text: (-spellings[text], text))
