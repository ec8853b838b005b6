"""Word senses of English words in context: an interface, and a simple way of WordNet's.

The paper disambiguates with EWISER, a trained model. Here WordNet's own texts decide (simplified Lesk: Kilgarriff and
Rosenzweig, 2000): of a lemma's senses the one whose gloss, examples and synonyms, with those words of its direct
hypernyms and hyponyms, share most content words with the sentence; where senses share equally many, the one that
WordNet lists first, its most frequent. That finds fewer senses than a trained model, and errs towards the first.

NLTK reads WordNet's dictionary files (wndb(5WN)), as Debian's wordnet-base and NLTK's own data have them. Nothing is
downloaded.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

#: universal tag -> WordNet's file and letter
_PARTS = {"NOUN": ("noun", "n"), "VERB": ("verb", "v"), "ADJ": ("adj", "a"), "ADV": ("adv", "r")}
_FILES = tuple(f for name, _ in _PARTS.values() for f in (f"index.{name}", f"data.{name}", f"{name}.exc"))
_CONTEXT_TAGS = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
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


class WordNetSenses:
    """Simplified Lesk over a folder of WordNet's dictionary files. A sense is named ``plane.n.01``.

    :raises DataError: a file is missing or is not WordNet's. :raises MissingExtra: NLTK is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in _FILES:
            try:
                (folder / name).open("rb").close()
            except OSError as error:
                raise DataError(
                    f"{folder / name}: {error.strerror}; give a folder of WordNet's dictionary files"
                ) from None
        self._reader, self._files = _open(folder)
        size = sum((folder / f"data.{name}").stat().st_size for name, _ in _PARTS.values())
        self.identity: Mapping[str, Any] = {"senses": "wordnet", "method": "simplified Lesk", "bytes": size}
        self._signature = lru_cache(maxsize=4096)(_signature)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def sense(self, words: Sequence[Word], index: int) -> str | None:
        """See :class:`Senses`. Only nouns, verbs, adjectives and adverbs have senses."""
        word = words[index]
        if word.tag not in _PARTS:
            return None
        name, letter = _PARTS[word.tag]
        lemma = (word.lemma or word.text).lower().replace(" ", "_")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NLTK warns of a missing synset, and then fails
                # Only synsets with the lemma itself, in WordNet's order: NLTK also reduces it to other lemmas.
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
                f"{self.folder / f'data.{name}'}: cannot be read where the index says that {lemma!r} is;"
                " the two are of different versions"
            ) from error
        return f"{lemma}.{letter}.{best + 1:02}"


def _open(folder: Path) -> tuple[Any, list[Any]]:
    """NLTK's reader of a folder, and the files that it opens."""
    if importlib.util.find_spec("nltk") is None:
        raise MissingExtra("--senses wordnet", package="nltk", extra="align")
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    names: list[str] = []
    files: list[Any] = []

    class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
        def open(self, file: str) -> Any:
            # Names of the lexicographers' files, which Debian leaves out and nothing here uses.
            if file == "lexnames":
                return io.StringIO("".join(f"{number:02} {number} 0\n" for number in range(45)))
            names.append(file)
            files.append(super().open(file))
            return files[-1]

        def map_wn(self, version: str = "wordnet") -> None:
            """Leave out the map to other versions, which needs a WordNet in NLTK's data."""

    if str(folder) not in nltk.data.path:
        nltk.data.path.append(str(folder))  # NLTK refuses to read elsewhere
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has no other languages
            return Reader(str(folder), None), files
    except _broken():
        for file in files:
            file.close()
        raise DataError(f"{folder / names[-1]}: not a file of WordNet; get its files again") from None


def _broken() -> tuple[type[Exception], ...]:
    """What NLTK raises for files that are not WordNet's."""
    from nltk.corpus.reader.wordnet import WordNetError

    return (AssertionError, AttributeError, LookupError, StopIteration, ValueError, WordNetError)


def _signature(synset: Any) -> frozenset[str]:
    """The words of a synset's gloss, examples and lemmas, and of its direct neighbours' lemmas."""
    near = (
        *synset.hypernyms(), *synset.instance_hypernyms(), *synset.hyponyms(), *synset.instance_hyponyms(),
        *synset.similar_tos(),
    )  # fmt: skip
    texts = [synset.definition(), *synset.examples()]
    texts += [name for each in (synset, *near) for name in each.lemma_names()]
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return frozenset(variant for word in words for variant in _variants(word))


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

    None for ``none``, and for ``auto`` where WordNet or NLTK is not installed.

    :raises UsageError: another choice, or WordNet is not installed. :raises DataError: the folder is not WordNet's.
    """
    if choice == "none":
        return None
    name, _, folder = choice.partition(":")
    if choice in ("auto", "wordnet"):
        found = find_wordnet()
        if choice == "auto" and (found is None or importlib.util.find_spec("nltk") is None):
            return None
        if found is None:
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
