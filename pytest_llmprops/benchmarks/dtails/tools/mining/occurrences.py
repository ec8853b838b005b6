"""Going through the aligned corpus: counting translations, then looking at the concepts' occurrences.

Memory grows with the number of different words and of the rows found, never with the corpus: sentences are read
again from the work folder in every pass.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from pytest_llmprops.benchmarks.dtails.rule_sentences import sentence_key
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Counting,
    Lexeme,
    Thresholds,
    counted_links,
    key,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus_parts import Parts, Progress
from pytest_llmprops.benchmarks.dtails.tools.mining.word_senses import Senses
from pytest_llmprops.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Counted:
    """``counts`` of lexemes and target lemmas that may matter, ``totals`` of lexemes, and all ``links``."""

    counts: dict[Lexeme, dict[str, int]]
    totals: dict[Lexeme, int]
    links: int


def count_links(
    parts: Parts, counting: Counting, thresholds: Thresholds, progress: Progress, size: int
) -> Counted:
    """Count the links of lexemes and target lemmas.

    Two passes: only lexemes with enough links for two variations and lemmas with enough for one are counted in
    pairs, which leaves out most pairs of a large corpus and changes nothing.

    :raises UsageError: the aligner has linked nothing, or no link counts.
    """
    sources: Counter[Lexeme] = Counter()
    targets: Counter[str] = Counter()
    links = 0
    for done, (pair, found) in enumerate(parts.read(), 1):
        links += len(found)
        for i, j in counted_links(pair.source, pair.target, found, counting):
            sources[key(pair.source[i]), pair.source[i].tag] += 1
            targets[key(pair.target[j])] += 1
        _tell(progress, "counting words", done, size)
    if not links:
        raise UsageError(
            f"the aligner links no words in any of the {size:,} pairs; check that the sides translate each other,"
            " or take another --aligner"
        )
    if not sources:
        raise UsageError(
            f"none of the {links:,} links is of a {', '.join(counting.tags)}; check the tags of --source-parser, or"
            " give other --pos"
        )
    least = thresholds.floor
    kept = {lexeme for lexeme, n in sources.items() if n >= 2 * least}
    lemmas = {lemma for lemma, n in targets.items() if n >= least}
    counts: dict[Lexeme, Counter[str]] = {}
    for done, (pair, found) in enumerate(parts.read(), 1):
        for i, j in counted_links(pair.source, pair.target, found, counting):
            lexeme, lemma = (key(pair.source[i]), pair.source[i].tag), key(pair.target[j])
            if lexeme in kept and lemma in lemmas:
                counts.setdefault(lexeme, Counter())[lemma] += 1
        _tell(progress, "counting pairs", done, size)
    # In alphabetical order, so that nothing depends on where in the corpus a word first stands.
    ordered = {lexeme: dict(counts[lexeme]) for lexeme in sorted(counts)}
    return Counted(ordered, dict(sources), links)


class FoundRows:
    """Rows of one concept, in corpus order: compact, as there may be millions.

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
        """Add a row."""
        self.lines.append(line)
        self.labels.append(label)
        self.forms.append(form)
        self.keys.append(sentence)


@dataclass(slots=True)
class Occurrences:
    """What was seen of one concept.

    :param senses: variation -> sense -> number. :param lemmas: variation -> how the parser spelled it -> number.
    :param words: variation -> how it was written -> number. :param both: pairs with two of its variations, which
        are no rows: nothing says which of them is asked for.
    """

    concept: Concept
    rows: FoundRows = field(default_factory=FoundRows)
    senses: dict[str, Counter[str]] = field(default_factory=dict)
    lemmas: dict[str, Counter[str]] = field(default_factory=dict)
    words: dict[str, Counter[str]] = field(default_factory=dict)
    spellings: dict[str, int] = field(default_factory=dict)
    both: int = 0

    def __post_init__(self) -> None:
        for table in (self.senses, self.lemmas, self.words):
            table.update({lemma: Counter() for lemma in self.concept.counts})

    @property
    def names(self) -> list[str]:
        """The spellings, by the numbers in ``rows.forms``."""
        return list(self.spellings)


def collect(
    parts: Parts,
    concepts: Sequence[Concept],
    counting: Counting,
    senses: Senses | None,
    progress: Progress,
    size: int,
) -> dict[Lexeme, Occurrences]:
    """Look at every occurrence of the concepts: word sense, spelling, and the row that it makes."""
    found = {concept.lexeme: Occurrences(concept) for concept in concepts}
    labels: Mapping[Lexeme, dict[str, int]] = {
        concept.lexeme: {lemma: place for place, lemma in enumerate(concept.counts)} for concept in concepts
    }
    for done, (pair, links) in enumerate(parts.read(), 1):
        seen: dict[Lexeme, dict[str, str]] = {}
        for i, j in counted_links(pair.source, pair.target, links, counting):
            lexeme = (key(pair.source[i]), pair.source[i].tag)
            lemma = key(pair.target[j])
            if lexeme not in found or lemma not in labels[lexeme]:
                continue
            word = pair.target[j]
            here = found[lexeme]
            here.words[lemma][word.text] += 1
            here.lemmas[lemma][word.lemma or word.text] += 1
            sense = senses.sense(pair.source, i) if senses is not None else None
            if sense is not None:
                here.senses[lemma][sense] += 1
            seen.setdefault(lexeme, {}).setdefault(lemma, word.text)
        for lexeme, variations in seen.items():
            here = found[lexeme]
            if len(variations) > 1:
                here.both += 1
                continue
            ((lemma, text),) = variations.items()
            form = here.spellings.setdefault(text, len(here.spellings))
            here.rows.add(pair.pair.line, labels[lexeme][lemma], form, _hash(pair.pair.source))
        _tell(progress, "looking at concepts", done, size)
    return found


def in_corpus_order(rows: Sequence[FoundRows]) -> Iterator[tuple[int, int, int]]:
    """(line, number of the concept, number of the row) of all concepts' rows, by line."""
    yield from heapq.merge(*(_places(number, row) for number, row in enumerate(rows)))


def _places(number: int, row: FoundRows) -> Iterator[tuple[int, int, int]]:
    for place, line in enumerate(row.lines):
        yield line, number, place


def _hash(sentence: str) -> int:
    # Python's own hash differs from process to process.
    return int.from_bytes(
        blake2b(sentence_key(sentence).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )


def _tell(progress: Progress, what: str, done: int, size: int) -> None:
    if done % 1_000 == 0 or done == size:
        progress(what, done, size)
