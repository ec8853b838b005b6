"""Word senses of English words in context: an interface, and a simple way of WordNet's.

The paper disambiguates with EWISER, a trained model. Here WordNet's own texts decide (simplified Lesk: Kilgarriff and
Rosenzweig, 2000): of a lemma's senses the one whose gloss, examples and synonyms, with those words of its direct
hypernyms and hyponyms, share most content words with the sentence; where senses share equally many, the one that
WordNet lists first, its most frequent. That finds fewer senses than a trained model, and errs towards the first.

WordNet is read from its dictionary files (wndb(5WN)), as Debian's wordnet-base and NLTK's data have them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
from pytest_llmprops.core.errors import DataError, UsageError

#: universal tag -> WordNet's file and letter
_PARTS = {"NOUN": ("noun", "n"), "VERB": ("verb", "v"), "ADJ": ("adj", "a"), "ADV": ("adv", "r")}
_FILES = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
_CONTEXT_TAGS = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
#: WordNet's marks of hypernyms and hyponyms, those of instances included, and of similar adjectives
_NEAR = frozenset({"@", "@i", "~", "~i", "&"})
_ENDINGS = ("s", "es", "ed", "d", "ing", "ly")
_WORD = re.compile(r"[a-z]+")
_SHORTEST = 3


class Senses(Protocol):
    """Tells the sense of a word in its sentence."""

    #: what decides its answers, as JSON values
    identity: Mapping[str, Any]

    def sense(self, words: Sequence[Word], index: int) -> str | None:
        """A name of the sense that ``words[index]`` has there; None where no sense of it is known."""
        ...


class _Synset(NamedTuple):
    words: tuple[str, ...]
    near: tuple[tuple[str, int], ...]
    gloss: str


class WordNetSenses:
    """Simplified Lesk over a folder of WordNet's dictionary files. A sense is named ``plane.n.01``.

    :raises DataError: a file is missing or is not WordNet's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = {letter: _read_index(folder / f"index.{name}") for name, letter in _PARTS.values()}
        self._data: dict[str, BinaryIO] = {}
        for name, _ in _PARTS.values():
            try:
                self._data[name] = (folder / f"data.{name}").open("rb")
            except OSError as error:
                self.close()
                raise DataError(
                    f"{folder / f'data.{name}'}: {error.strerror}; give a WordNet folder"
                ) from None
        size = sum((folder / f"data.{name}").stat().st_size for name, _ in _PARTS.values())
        self.identity: Mapping[str, Any] = {"senses": "wordnet", "method": "simplified Lesk", "bytes": size}
        self._signature = lru_cache(maxsize=4096)(self._read_signature)

    def close(self) -> None:
        """Close the files."""
        for file in self._data.values():
            file.close()

    def sense(self, words: Sequence[Word], index: int) -> str | None:
        """See :class:`Senses`. Only nouns, verbs, adjectives and adverbs have senses."""
        word = words[index]
        if word.tag not in _PARTS:
            return None
        letter = _PARTS[word.tag][1]
        lemma = (word.lemma or word.text).lower().replace(" ", "_")
        offsets = self._index[letter].get(lemma, [])
        if not offsets:
            return None
        best = 0
        if len(offsets) > 1:
            context = _context(words, index)
            overlaps = [len(context & self._signature(letter, offset)) for offset in offsets]
            best = max(range(len(offsets)), key=lambda place: (overlaps[place], -place))
        return f"{lemma}.{letter}.{best + 1:02}"

    def _read_signature(self, letter: str, offset: int) -> frozenset[str]:
        own = self._synset(letter, offset)
        texts = [*own.words, own.gloss]
        for near_letter, near_offset in own.near:
            texts += self._synset(near_letter, near_offset).words
        words = {word for text in texts for word in _WORD.findall(text.lower())}
        return frozenset(variant for word in words for variant in _variants(word))

    def _synset(self, letter: str, offset: int) -> _Synset:
        name = _FILES[letter]
        file = self._data[name]
        file.seek(offset)
        line = file.readline().decode("ascii", "replace")
        try:
            return _parse(line, offset)
        except (ValueError, StopIteration):
            raise DataError(
                f"{self.folder / f'data.{name}'}: no synset at byte {offset}; its index is of another version"
            ) from None


def find_wordnet() -> Path | None:
    """A folder of WordNet's files on this machine: where WordNet's own variables point, else NLTK's data, else where
    Debian has them."""
    places = [os.environ.get("WNSEARCHDIR"), *_below(os.environ.get("WNHOME"), "dict")]
    roots = [*os.environ.get("NLTK_DATA", "").split(os.pathsep), str(Path.home() / "nltk_data")]
    places += [place for root in roots if root for place in _below(root, "corpora/wordnet")]
    places += ["/usr/share/nltk_data/corpora/wordnet", "/usr/share/wordnet"]
    return next((Path(place) for place in places if place and (Path(place) / "data.noun").is_file()), None)


def word_senses(choice: str) -> WordNetSenses | None:
    """The senses that ``--senses`` names: ``auto``, ``none``, ``wordnet`` or ``wordnet:FOLDER``.

    None for ``none``, and for ``auto`` where WordNet is not installed.

    :raises UsageError: another choice, or WordNet is not installed. :raises DataError: the folder is not WordNet's.
    """
    if choice == "none":
        return None
    name, _, folder = choice.partition(":")
    if choice in ("auto", "wordnet"):
        found = find_wordnet()
        if found is None:
            if choice == "auto":
                return None
            raise UsageError(
                "--senses wordnet: WordNet is not installed; get its files (Debian: wordnet-base) and give"
                " --senses wordnet:FOLDER, or --senses none"
            )
        return WordNetSenses(found)
    if name != "wordnet" or not folder:
        raise UsageError(f"--senses {choice}: give none, wordnet or wordnet:FOLDER")
    return WordNetSenses(Path(folder).expanduser())


def _below(root: str | None, path: str) -> list[str]:
    return [str(Path(root) / path)] if root else []


def _read_index(path: Path) -> dict[str, list[int]]:
    """Lemma -> byte offsets of its synsets, the most frequent first."""
    found: dict[str, list[int]] = {}
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(" "):
                    continue  # the licence
                fields = line.split()
                count = int(fields[2])
                found[fields[0]] = [int(offset) for offset in fields[-count:]]
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a folder of WordNet's dictionary files") from None
    except (ValueError, IndexError):
        raise DataError(f"{path}: not an index of WordNet; get its files again") from None
    return found


def _parse(line: str, offset: int) -> _Synset:
    data, _, gloss = line.partition(" | ")
    fields = iter(data.split())
    if int(next(fields, "")) != offset:
        raise ValueError
    _, _, count = next(fields), next(fields), int(next(fields), 16)
    words = []
    for _ in range(count):
        words.append(next(fields))
        next(fields)
    near = []
    for _ in range(int(next(fields))):
        mark, place, letter, _ = next(fields), int(next(fields)), next(fields), next(fields)
        if mark in _NEAR:
            near.append((letter, place))
    return _Synset(tuple(words), tuple(near), gloss)


def _context(words: Sequence[Word], index: int) -> frozenset[str]:
    found: set[str] = set()
    for place, word in enumerate(words):
        if place != index and word.tag in _CONTEXT_TAGS:
            for text in {word.text.lower(), word.lemma.lower()}:
                found.update(_variants(text))
    own = words[index]
    return frozenset(found - set(_variants(own.text.lower())) - set(_variants(own.lemma.lower())))


def _variants(word: str) -> Iterator[str]:
    """The word, and what is left without a regular ending: glosses are compared without a lemmatizer."""
    if len(word) >= _SHORTEST:
        yield word
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _SHORTEST:
            yield stem
