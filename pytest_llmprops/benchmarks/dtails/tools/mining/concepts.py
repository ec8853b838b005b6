"""Concepts with variations from an aligned parallel corpus (Barua et al., section 2.1 and appendix B.1).

The pipeline is that of Chaudhary et al. (2021). A source *lexeme* is a lemma with its part of speech; its
*variations* are the target lemmas that its occurrences are aligned with. A lexeme becomes a concept when

1. at least two variations have been seen at least 50 times each,
2. the conditional entropy of the variation given the lexeme is at least 0.69 (natural logarithm; ln 2 = 0.693
   is that of two equally frequent ones),
3. at least two variations remain when those that go with another word sense are dropped.

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

from pytest_llmprops.benchmarks.dtails.text import folded
from pytest_llmprops.core.errors import UsageError

#: parts of speech of content words; 94% of the concepts that the authors published have one of them
CONTENT_TAGS = ("NOUN", "VERB", "ADJ", "ADV")
#: the universal tags (Universal Dependencies v2)
TAGS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
#: relations of the parts of one expression: Universal Dependencies, and spaCy's English labels
EXPRESSION_RELATIONS = frozenset({"compound", "prt", "flat", "fixed", "goeswith", "mwe"})

MIN_COUNT, MIN_ENTROPY = 50, 0.69
#: translations seen fewer times than this are no part of any entropy (Chaudhary et al.: alignment errors)
NOISE = 5

Lexeme = tuple[str, str]
Links = Iterable[tuple[int, int]]
Counts = Mapping[Lexeme, Mapping[str, int]]


class Word(NamedTuple):
    """A word as a parser gives it; unknown strings are empty.

    :param head: 1-based place of its head among the words of the text, 0 for a root, -1 where unknown.
    """

    text: str
    lemma: str = ""
    tag: str = ""
    head: int = -1
    relation: str = ""


@dataclass(frozen=True, slots=True)
class Counting:
    """Which links count.

    :param tags: universal tags of the source words.
    :param links: ``single`` counts words that are linked to one target word, as Chaudhary et al. do: links of a
        word to several are mostly particles and articles beside the translation. ``all`` counts every link.
    :param compounds: ``drop`` leaves out words that are part of a larger expression: noun compounds ("water
        lily"), verbs with particles ("look up"), names. Such an expression has translations of its own.
    """

    tags: Collection[str] = CONTENT_TAGS
    links: Literal["single", "all"] = "single"
    compounds: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        for tag in self.tags:
            if tag not in TAGS:
                raise UsageError(f"{tag!r} is no universal part of speech; take some of {', '.join(TAGS)}")
        if not self.tags:
            raise UsageError(f"no parts of speech; give some, such as {', '.join(CONTENT_TAGS)}")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a lexeme needs to be a concept.

    :param entropy_over: ``variations``: of the variations that are frequent enough, shares of their sum, as the
        formula of appendix B.1 has it. ``all``: of every translation seen :data:`NOISE` times, as a share of
        all of the lexeme's links (Chaudhary et al.'s published code), which lets less even lexemes pass.
    """

    min_count: int = MIN_COUNT
    min_entropy: float = MIN_ENTROPY
    entropy_over: Literal["variations", "all"] = "variations"

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise UsageError(f"the least count of a variation is {self.min_count}; it must be 1 or more")
        if not 0 <= self.min_entropy < math.inf:
            raise UsageError(f"the least entropy is {self.min_entropy}; it must be a number from 0")

    @property
    def floor(self) -> int:
        """Counts below this change nothing: such pairs need not be kept."""
        return self.min_count if self.entropy_over == "variations" else min(NOISE, self.min_count)


@dataclass(frozen=True, slots=True)
class Concept:
    """A source lexeme, and how often each target lemma was aligned with it, most frequent first."""

    lemma: str
    tag: str
    counts: Mapping[str, int]
    entropy: float

    @property
    def lexeme(self) -> Lexeme:
        return self.lemma, self.tag


def key(word: Word) -> str:
    """The folded lemma, or the folded word where the parser gives no lemma; "" for what is no word.

    A word has a letter, and no character that separates fields in a ``.words`` file.
    """
    return _key(word.lemma or word.text)


@lru_cache(maxsize=1 << 16)
def _key(text: str) -> str:
    return folded(text) if is_writable(text) else ""


def is_writable(text: str) -> bool:
    """Whether ``text`` has a letter and can stand in a ``.words`` file."""
    return not any(mark in text for mark in ";/,") and any(unicodedata.category(c)[0] == "L" for c in text)


def expression_parts(words: Sequence[Word]) -> frozenset[int]:
    """Indices of words that are part of a larger expression, dependents and heads alike.

    Where a parser gives no relations there are none.
    """
    found: set[int] = set()
    for index, word in enumerate(words):
        if word.relation.partition(":")[0] in EXPRESSION_RELATIONS:
            found.add(index)
            if 0 < word.head <= len(words):
                found.add(word.head - 1)
    return frozenset(found)


def counted_links(
    source: Sequence[Word], target: Sequence[Word], links: Links, counting: Counting
) -> list[tuple[int, int]]:
    """The links (source index, target index) that count, in order."""
    partners: dict[int, list[int]] = {}
    for i, j in links:
        if key(target[j]):
            partners.setdefault(i, []).append(j)
    if not partners:
        return []
    left_out = expression_parts(source) if counting.compounds == "drop" else frozenset()
    found = []
    for i, places in sorted(partners.items()):
        word = source[i]
        if word.tag not in counting.tags or i in left_out or not key(word):
            continue
        if counting.links == "all" or len(places) == 1:
            found += [(i, j) for j in sorted(places)]
    return found


def entropy(counts: Iterable[int], total: int | None = None) -> float:
    """``-sum p ln p`` in nats of ``p = count / total``; 0 without counts (appendix B.1).

    :param total: the sum of the counts by default; a larger one where not everything is listed.
    """
    found = [count for count in counts if count]
    whole = sum(found) if total is None else total
    return math.fsum(-n / whole * math.log(n / whole) for n in found) if found else 0.0


def find_concepts(
    counts: Counts, totals: Mapping[Lexeme, int], thresholds: Thresholds
) -> tuple[Concept, ...]:
    """Lexemes with enough variations and entropy, the most frequent first, then by name.

    :param counts: how often each lexeme was linked to each target lemma; pairs below ``thresholds.floor`` may
        be missing. :param totals: all links of each lexeme.
    """
    found = []
    for lexeme, linked in counts.items():
        frequent = {lemma: n for lemma, n in linked.items() if n >= thresholds.min_count}
        if len(frequent) < 2:
            continue
        if thresholds.entropy_over == "variations":
            value = entropy(frequent.values())
        else:
            value = entropy((n for n in linked.values() if n >= thresholds.floor), totals[lexeme])
        if value >= thresholds.min_entropy:
            found.append(Concept(*lexeme, _by_count(frequent), value))
    return tuple(sorted(found, key=lambda c: (-sum(c.counts.values()), c.lexeme)))


def without_minority_senses(
    concept: Concept, senses: Mapping[str, Mapping[str, int]]
) -> tuple[Concept | None, tuple[str, ...]]:
    """The concept with the variations of its own word sense; and the lemmas of those that were dropped.

    The concept's sense is the most frequent one over all its occurrences; a variation stays when no sense is
    more frequent among its own (appendix B.1: *plane* is ``avión`` as an aircraft, ``plano`` in geometry). A
    variation without any known sense stays, too. None where fewer than two remain. The entropy is not tested
    again: the paper drops senses last.

    :param senses: for each variation, how often the source word had each sense.
    """
    known = {lemma: found for lemma in concept.counts if (found := Counter(senses.get(lemma, {})))}
    everything = sum(known.values(), Counter[str]())
    if not everything:
        return concept, ()
    most = max(everything.values())
    sense = min(name for name, n in everything.items() if n == most)
    dropped = tuple(lemma for lemma, found in known.items() if found[sense] < max(found.values()))
    kept = {lemma: n for lemma, n in concept.counts.items() if lemma not in dropped}
    if len(kept) < 2:
        return None, dropped
    return Concept(concept.lemma, concept.tag, kept, concept.entropy), dropped


def surface_forms(
    lemmas: Mapping[str, Mapping[str, int]], words: Mapping[str, Mapping[str, int]], *, most: int
) -> dict[str, tuple[str, ...]]:
    """How each variation of a concept is written: its lemma, then its most frequent other forms.

    A form is spelled as it most often is. One that is seen with several variations belongs to the one whose lemma
    it is, else to the one that it is most often seen with: two variations never share a form.

    :param lemmas: for each folded lemma, how often the parser spelled it how.
    :param words: for each folded lemma, how often it was written how in the target sentences.
    :param most: number of forms at most, the lemma included.
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


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
