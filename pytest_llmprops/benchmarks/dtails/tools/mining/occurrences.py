"""Count translations in the aligned corpus, then collect the occurrences of concepts.

Memory grows with the number of different words and of rows, but not with the corpus: every pass reads the sentences
again from the work folder.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, repeat

from pytest_llmprops.benchmarks.dtails.rule_making import sentence_key
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Counting,
    Lexeme,
    Thresholds,
    counted_links,
    key,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import Parts, Progress
from pytest_llmprops.benchmarks.dtails.tools.mining.senses import Place, WordNetSenses
from pytest_llmprops.core.errors import UsageError

#: Number of occurrences whose senses are decided together.
_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class Counted:
    """Number of links: ``counts`` by lexeme and target lemma, ``totals`` by lexeme, and ``links`` in all.

    ``counts`` has only pairs that are frequent enough to matter.
    """

    counts: dict[Lexeme, dict[str, int]]
    totals: dict[Lexeme, int]
    links: int


def count_links(
    parts: Parts, counting: Counting, thresholds: Thresholds, progress: Progress, size: int
) -> Counted:
    """Count the links of lexemes and target lemmas.

    The first pass counts words. The second pass counts pairs, but only of lexemes with enough links for two variations
    and lemmas with enough links for one. This leaves out most pairs of a large corpus without changing the result.

    :raises UsageError: The aligner has no links, or no link counts.
    """
    sources: Counter[Lexeme] = Counter()
    targets: Counter[str] = Counter()
    links = 0
    for done, (pair, pair_links) in enumerate(parts.read(), 1):
        links += len(pair_links)
        for i, j in counted_links(pair.source, pair.target, pair_links, counting):
            sources[key(pair.source[i]), pair.source[i].tag] += 1
            targets[key(pair.target[j])] += 1
        _report(progress, "counting words", done, size)
    if not links:
        raise UsageError(
            f"the aligner links no words in any of the {size:,} pairs; check that the sides are translations of each"
            " other, or use another --aligner"
        )
    if not sources:
        raise UsageError(
            f"none of the {links:,} links has a source word with the tag {', '.join(counting.tags)}; check the tags of"
            " --source-parser, or use other --pos"
        )
    least = thresholds.floor
    kept = {lexeme for lexeme, n in sources.items() if n >= 2 * least}
    lemmas = {lemma for lemma, n in targets.items() if n >= least}
    counts: dict[Lexeme, Counter[str]] = {}
    for done, (pair, pair_links) in enumerate(parts.read(), 1):
        for i, j in counted_links(pair.source, pair.target, pair_links, counting):
            lexeme, lemma = (key(pair.source[i]), pair.source[i].tag), key(pair.target[j])
            if lexeme in kept and lemma in lemmas:
                counts.setdefault(lexeme, Counter())[lemma] += 1
        _report(progress, "counting pairs", done, size)
    # Sorted, so that the result does not depend on the order of the corpus.
    ordered = {lexeme: dict(counts[lexeme]) for lexeme in sorted(counts)}
    return Counted(ordered, dict(sources), links)


class CorpusRows:
    """Rows of one concept in corpus order, stored compactly, because there may be millions.

    ``lines`` of the corpus, ``labels`` (index of the variation), ``forms`` (number of the written form), ``keys`` (hash
    of the sentence without case, spacing and punctuation).
    """

    __slots__ = ("forms", "keys", "labels", "lines")

    def __init__(self) -> None:
        self.lines, self.keys = array("q"), array("Q")
        self.labels, self.forms = array("l"), array("l")

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, line: int, label: int, form: int, sentence: int) -> None:
        self.lines.append(line)
        self.labels.append(label)
        self.forms.append(form)
        self.keys.append(sentence)


@dataclass(slots=True)
class Occurrences:
    """The occurrences of one concept in the corpus.

    :param senses: Counts by sense, by variation. :param lemmas: Counts by the parser's spelling, by variation.
    :param words: Counts by written form, by variation. :param spellings: Their numbers in ``rows.forms``.
    :param both: Number of pairs with two of the variations. They are not rows, because it is unknown which variation is
        right.
    """

    concept: Concept
    rows: CorpusRows = field(default_factory=CorpusRows)
    senses: dict[str, Counter[str]] = field(default_factory=dict)
    lemmas: dict[str, Counter[str]] = field(default_factory=dict)
    words: dict[str, Counter[str]] = field(default_factory=dict)
    spellings: dict[str, int] = field(default_factory=dict)
    both: int = 0

    def __post_init__(self) -> None:
        for table in (self.senses, self.lemmas, self.words):
            table.update({lemma: Counter() for lemma in self.concept.counts})


def collect(
    parts: Parts,
    concepts: Sequence[Concept],
    counting: Counting,
    senses: WordNetSenses | None,
    progress: Progress,
    size: int,
) -> dict[Lexeme, Occurrences]:
    """Collect the word senses, spellings and rows of all occurrences of the concepts."""
    by_lexeme = {concept.lexeme: Occurrences(concept) for concept in concepts}
    labels: Mapping[Lexeme, dict[str, int]] = {
        concept.lexeme: {lemma: place for place, lemma in enumerate(concept.counts)} for concept in concepts
    }
    places: list[tuple[Place, Counter[str]]] = []

    def count_senses() -> None:
        if senses is not None:
            for name, (_, counts) in zip(senses.senses([place for place, _ in places]), places, strict=True):
                if name is not None:
                    counts[name] += 1
        places.clear()

    for done, (pair, links) in enumerate(parts.read(), 1):
        if len(places) >= _TOGETHER:
            count_senses()
        seen: dict[Lexeme, dict[str, str]] = {}
        for i, j in counted_links(pair.source, pair.target, links, counting):
            lexeme = (key(pair.source[i]), pair.source[i].tag)
            lemma = key(pair.target[j])
            if lexeme not in by_lexeme or lemma not in labels[lexeme]:
                continue
            word = pair.target[j]
            occurrences = by_lexeme[lexeme]
            occurrences.words[lemma][word.text] += 1
            occurrences.lemmas[lemma][word.lemma or word.text] += 1
            places.append(((pair.source, i), occurrences.senses[lemma]))
            seen.setdefault(lexeme, {}).setdefault(lemma, word.text)
        for lexeme, variations in seen.items():
            occurrences = by_lexeme[lexeme]
            if len(variations) > 1:
                occurrences.both += 1
                continue
            ((lemma, text),) = variations.items()
            form = occurrences.spellings.setdefault(text, len(occurrences.spellings))
            occurrences.rows.add(pair.pair.line, labels[lexeme][lemma], form, _hash(pair.pair.source))
        _report(progress, "collecting concepts", done, size)
    count_senses()
    return by_lexeme


def in_corpus_order(rows: Sequence[CorpusRows]) -> Iterable[tuple[int, int, int]]:
    """Return (line, index of the concept, index of the row) of all concepts' rows, by line."""
    return heapq.merge(*(zip(row.lines, repeat(number), count()) for number, row in enumerate(rows)))


def _hash(sentence: str) -> int:
    # Python's built-in hash of a text differs between processes.
    return int.from_bytes(
        blake2b(sentence_key(sentence).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )


def _report(progress: Progress, what: str, done: int, size: int) -> None:
    if done % 1_000 == 0 or done == size:
        progress(what, done, size)
