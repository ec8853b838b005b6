"""Count translations in the aligned corpus, then collect the occurrences of concepts.

Memory grows with the number of different words and of rows, but not with the corpus: every pass reads the sentences
again from the work folder.
"""

from __future__ import annotations

import heapq
import importlib.util
import io
import os
import re
import warnings
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import count, repeat
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.rule_making import sentence_key
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Counting,
    Lexeme,
    Thresholds,
    Word,
    counted_links,
    key,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import Parts, Progress
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

# Word senses of English words in context: an interface, and simplified Lesk over WordNet.
#
# The paper disambiguates with EWISER, a trained model. This module uses simplified Lesk (Kilgarriff and
# Rosenzweig, 2000): it chooses the sense whose gloss, examples and synonyms, and synonyms of direct hypernyms
# and hyponyms, share most content words with the sentence. Among equals, it chooses the sense that WordNet
# lists first, the most frequent. It recognises fewer senses than a trained model and is biased towards the
# first sense.
#
# NLTK reads WordNet's dictionary files (wndb(5WN)) from Debian's wordnet-base or NLTK's own data. Nothing is
# downloaded.

#: WordNet's file and letter, by universal tag.
_PARTS = {"NOUN": ("noun", "n"), "VERB": ("verb", "v"), "ADJ": ("adj", "a"), "ADV": ("adv", "r")}
_FILES = tuple(f for name, _ in _PARTS.values() for f in (f"index.{name}", f"data.{name}", f"{name}.exc"))
_CONTEXT_TAGS = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
_ENDINGS = ("s", "es", "ed", "d", "ing", "ly")
_WORD = re.compile(r"[a-z]+")
_SHORTEST = 3


class WordNetSenses:
    """Simplified Lesk over a folder of WordNet's dictionary files. A sense has a name such as ``plane.n.01``.

    :raises DataError: A file is missing or is not WordNet's. :raises MissingExtra: NLTK is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in _FILES:
            try:
                (folder / name).open("rb").close()
            except OSError as error:
                raise DataError(
                    f"{folder / name}: {error.strerror}; use a folder of WordNet's dictionary files"
                ) from None
        self._reader, self._files = _open(folder)
        size = sum((folder / f"data.{name}").stat().st_size for name, _ in _PARTS.values())
        self.identity: Mapping[str, Any] = {"senses": "wordnet", "method": "simplified Lesk", "bytes": size}
        self._signature = lru_cache(maxsize=4096)(_signature)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def sense(self, words: Sequence[Word], index: int) -> str | None:
        """Return the sense of a noun, verb, adjective or adverb; None if no sense is known."""
        word = words[index]
        if word.tag not in _PARTS:
            return None
        name, letter = _PARTS[word.tag]
        lemma = (word.lemma or word.text).lower().replace(" ", "_")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NLTK warns about a missing synset before it fails.
                # Only synsets with the lemma itself, in WordNet's order; NLTK's ``synsets`` also has other lemmas.
                synsets = list(dict.fromkeys(each.synset() for each in self._reader.lemmas(lemma, letter)))
                if not synsets:
                    return None
                best = 0
                if len(synsets) > 1:
                    context = _context(words, index)
                    overlaps = [len(context & self._signature(synset)) for synset in synsets]
                    best = max(range(len(synsets)), key=lambda place: (overlaps[place], -place))
        except _broken() as error:
            raise DataError(
                f"{self.folder / f'data.{name}'}: {lemma!r} is not where the index says; the index and the data are of"
                " different versions, so get both again"
            ) from error
        return f"{lemma}.{letter}.{best + 1:02}"


def _open(folder: Path) -> tuple[Any, list[Any]]:
    """Return NLTK's reader for a folder, and the list of files that it opens."""
    if importlib.util.find_spec("nltk") is None:
        raise MissingExtra("--senses wordnet", package="nltk", extra="align")
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    names: list[str] = []
    files: list[Any] = []

    class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
        def open(self, file: str) -> Any:
            # Debian does not package the names of the lexicographer files. They are not used here.
            if file == "lexnames":
                return io.StringIO("".join(f"{number:02} {number} 0\n" for number in range(45)))
            names.append(file)
            files.append(super().open(file))
            return files[-1]

        def map_wn(self, version: str = "wordnet") -> None:
            """Skip the mapping to other versions, which needs a WordNet in NLTK's data."""

    if str(folder) not in nltk.data.path:
        nltk.data.path.append(str(folder))  # NLTK reads only files below these folders.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NLTK warns that other languages are missing.
            return Reader(str(folder), None), files
    except _broken():
        for file in files:
            file.close()
        raise DataError(f"{folder / names[-1]}: not a file of WordNet; get its files again") from None


def _broken() -> tuple[type[Exception], ...]:
    """Return the exceptions that NLTK raises for damaged files."""
    from nltk.corpus.reader.wordnet import WordNetError

    return (AssertionError, AttributeError, LookupError, StopIteration, ValueError, WordNetError)


def _signature(synset: Any) -> frozenset[str]:
    """Return the words of a synset's gloss, examples and lemmas, and of its direct neighbours' lemmas."""
    near = (
        *synset.hypernyms(), *synset.instance_hypernyms(), *synset.hyponyms(), *synset.instance_hyponyms(),
        *synset.similar_tos(),
    )  # fmt: skip
    texts = [synset.definition(), *synset.examples()]
    texts += [name for each in (synset, *near) for name in each.lemma_names()]
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return frozenset(variant for word in words for variant in _variants(word))


def find_wordnet() -> Path | None:
    """Return a folder of WordNet's files: from WordNet's environment variables, NLTK's data or Debian's package."""
    places = [os.environ.get("WNSEARCHDIR"), *_below(os.environ.get("WNHOME"), "dict")]
    roots = [*os.environ.get("NLTK_DATA", "").split(os.pathsep), str(Path.home() / "nltk_data")]
    places += [place for root in roots if root for place in _below(root, "corpora/wordnet")]
    places += ["/usr/share/nltk_data/corpora/wordnet", "/usr/share/wordnet"]
    return next((Path(place) for place in places if place and (Path(place) / "data.noun").is_file()), None)


def word_senses(choice: str) -> WordNetSenses | None:
    """Return the senses for ``--senses``: ``auto``, ``none``, ``wordnet`` or ``wordnet:FOLDER``.

    None for ``none``, and for ``auto`` if WordNet or NLTK is not installed.

    :raises UsageError: The choice is unknown, or WordNet is not installed.
    :raises DataError: The folder does not have WordNet's files.
    """
    if choice == "none":
        return None
    name, _, folder = choice.partition(":")
    if choice in ("auto", "wordnet"):
        wordnet = find_wordnet()
        if choice == "auto" and (wordnet is None or importlib.util.find_spec("nltk") is None):
            return None
        if wordnet is None:
            raise UsageError(
                "--senses wordnet: WordNet is not installed; get its files (Debian: wordnet-base) and use"
                " --senses wordnet:FOLDER, or use --senses none"
            )
        return WordNetSenses(wordnet)
    if name != "wordnet" or not folder:
        raise UsageError(f"--senses {choice}: use none, wordnet or wordnet:FOLDER")
    return WordNetSenses(Path(folder).expanduser())


def _below(root: str | None, path: str) -> list[str]:
    return [str(Path(root) / path)] if root else []


def _context(words: Sequence[Word], index: int) -> frozenset[str]:
    context: set[str] = set()
    for place, word in enumerate(words):
        if place != index and word.tag in _CONTEXT_TAGS:
            for text in {word.text.lower(), word.lemma.lower()}:
                context.update(_variants(text))
    own = words[index]
    return frozenset(context - set(_variants(own.text.lower())) - set(_variants(own.lemma.lower())))


def _variants(word: str) -> Iterator[str]:
    """Yield the word and its stems without a regular ending, to compare glosses without a lemmatizer."""
    if len(word) >= _SHORTEST:
        yield word
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _SHORTEST:
            yield stem


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
    for done, (pair, links) in enumerate(parts.read(), 1):
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
            sense = senses.sense(pair.source, i) if senses is not None else None
            if sense is not None:
                occurrences.senses[lemma][sense] += 1
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
