"""Word senses of English words in context, from WordNet: by simplified Lesk, or by an encoder.

The paper disambiguates with EWISER, a trained model. Simplified Lesk (Kilgarriff and Rosenzweig, 2000)
chooses the sense whose gloss, examples and synonyms, and synonyms of direct hypernyms and hyponyms, share
most content words with the sentence. Among equals, it chooses the sense that WordNet lists first, the most
frequent. The encoder compares the word in its sentence with each gloss; docs/dtails-extract.md has the
measured accuracies.

NLTK reads WordNet's dictionary files (wndb(5WN)) from Debian's wordnet-base or NLTK's own data. Nothing is
downloaded.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.embedding import Span, TokenVectors, joined
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
from pytest_llmprops.core.errors import BackendError, DataError, MissingExtra, UsageError

#: WordNet's file and letter, by universal tag.
_PARTS = {"NOUN": ("noun", "n"), "VERB": ("verb", "v"), "ADJ": ("adj", "a"), "ADV": ("adv", "r")}
_FILES = tuple(f for name, _ in _PARTS.values() for f in (f"index.{name}", f"data.{name}", f"{name}.exc"))
_CONTEXT_TAGS = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
_ENDINGS = ("s", "es", "ed", "d", "ing", "ly")
_WORD = re.compile(r"[a-z]+")
_SHORTEST = 3
#: Words on each side of a word that an encoder reads, and the longest text of a gloss in characters.
_AROUND, _LONGEST = 30, 1500
#: Weight of the logarithm of a sense's rank. Without it, fewer senses are right than by always taking the first.
_RARER = 0.05
#: The words of a sentence, and the index of one of them.
Place = tuple[Sequence[Word], int]


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

    def senses(self, places: Sequence[Place]) -> list[str | None]:
        """Return the sense at each place; None if it has no noun, verb, adjective or adverb with a known sense.

        :raises DataError: The data does not fit the index.
        """
        names: list[str | None] = []
        for (words, index), best in zip(places, self._best(places), strict=True):
            lemma, tag = _lemma(words[index]), words[index].tag
            names.append(None if best is None else f"{lemma}.{_PARTS[tag][1]}.{best + 1:02}")
        return names

    def _best(self, places: Sequence[Place]) -> list[int | None]:
        """Return the number of the best sense at each place, from 0; None without a sense."""
        best: list[int | None] = []
        for words, index in places:
            with self._reading(words[index]):
                synsets = self._synsets(words[index])
                number = 0 if synsets else None
                if len(synsets) > 1:
                    context = _context(words, index)
                    overlaps = [len(context & self._signature(synset)) for synset in synsets]
                    number = max(range(len(synsets)), key=lambda place: (overlaps[place], -place))
            best.append(number)
        return best

    def keys(self, word: Word) -> list[set[str]]:
        """Return WordNet's sense keys of the lemma in each synset, in order: several if only their case differs."""
        keys: dict[Any, set[str]] = {}
        with self._reading(word):
            for synset in self._synsets(word):
                keys[synset] = {each.key() for each in synset.lemmas() if each.name().lower() == _lemma(word)}
        return list(keys.values())

    def _synsets(self, word: Word) -> list[Any]:
        """Return the synsets with the word's lemma, in WordNet's order; NLTK's ``synsets`` also has other lemmas."""
        if word.tag not in _PARTS:
            return []
        lemmas = self._reader.lemmas(_lemma(word), _PARTS[word.tag][1])
        return list(dict.fromkeys(each.synset() for each in lemmas))

    @contextmanager
    def _reading(self, word: Word) -> Iterator[None]:
        """Turn NLTK's exceptions for damaged files into a DataError."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NLTK warns about a missing synset before it fails.
                yield
        except _broken() as error:
            file = self.folder / f"data.{_PARTS[word.tag][0]}"
            raise DataError(
                f"{file}: {_lemma(word)!r} is not where the index says; the index and the data are of different"
                " versions, so get both again"
            ) from error


class GlossSenses(WordNetSenses):
    """The sense whose gloss is nearest to the word in its sentence, by the vectors of an encoder.

    The vector of a word is the mean of its tokens' vectors in a window of the sentence. The vector of a sense is the
    mean over the text of its lemma, synonyms, gloss and examples. Their cosine is reduced by :data:`_RARER` times the
    logarithm of the sense's rank in WordNet, because later senses are rarer. The weight was chosen on half of the
    words of Raganato et al. (2017).

    :param vectors: Of tokens; see ``HfEmbedModel.token_vectors``. :param identity: The encoder's identity.
    """

    def __init__(self, folder: Path, vectors: TokenVectors, identity: Mapping[str, Any]) -> None:
        super().__init__(folder)
        self._vectors = vectors
        self._glosses: dict[tuple[str, Any], Any] = {}
        self.identity = {**self.identity, "method": "nearest gloss", "encoder": dict(identity)}

    def _best(self, places: Sequence[Place]) -> list[int | None]:
        import numpy as np

        synsets: list[list[Any]] = []
        missing: dict[tuple[str, Any], str] = {}
        for words, index in places:
            word = words[index]
            with self._reading(word):
                synsets.append(self._synsets(word))
                for synset in synsets[-1] if len(synsets[-1]) > 1 else ():
                    if (_lemma(word), synset) not in self._glosses:
                        missing[_lemma(word), synset] = _gloss(_lemma(word), synset)
        for name, found in zip(missing, self._embedded(list(missing.values())), strict=True):
            self._glosses[name] = None if found is None else _unit(found[1].mean(axis=0))
        several = [n for n, own in enumerate(synsets) if len(own) > 1]
        windows = [_window(*places[n]) for n in several]
        contexts = self._embedded([text for text, _ in windows])
        best: list[int | None] = [0 if own else None for own in synsets]
        for n, (_, (start, end)), found in zip(several, windows, contexts, strict=True):
            words, index = places[n]
            glosses = [self._glosses[_lemma(words[index]), synset] for synset in synsets[n]]
            if found is None or any(gloss is None for gloss in glosses):
                continue
            spans, vectors = found
            own = [token for token, (first, last) in enumerate(spans) if first < end and last > start]
            if own:
                near = np.array(glosses) @ _unit(vectors[own].mean(axis=0))
                best[n] = int(np.argmax(near - _RARER * np.log(np.arange(1, len(glosses) + 1))))
        return best

    def _embedded(self, texts: Sequence[str]) -> list[Any]:
        """Return (spans, vectors) of each text; None for a text that the encoder does not accept.

        :raises UsageError: The encoder cannot be used at all.
        """
        try:
            return list(self._vectors(texts)) if texts else []
        except BackendError as error:
            if error.fatal:
                raise UsageError(f"--senses: {error}") from None
            if len(texts) == 1:
                return [None]
        middle = len(texts) // 2
        return self._embedded(texts[:middle]) + self._embedded(texts[middle:])


def _lemma(word: Word) -> str:
    return (word.lemma or word.text).lower().replace(" ", "_")


def _gloss(lemma: str, synset: Any) -> str:
    names = dict.fromkeys([lemma, *map(str.lower, synset.lemma_names())])
    text = "; ".join([synset.definition(), *synset.examples()])
    return f"{', '.join(names).replace('_', ' ')}: {text}"[:_LONGEST]


def _window(words: Sequence[Word], index: int) -> tuple[str, Span]:
    """Return the text around a word, and the word's span in it."""
    start = max(0, index - _AROUND)
    text, spans = joined([word.text for word in words[start : index + _AROUND + 1]])
    return text, spans[index - start]


def _unit(vector: Any) -> Any:
    length = float((vector @ vector) ** 0.5)
    return vector / length if length else vector


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


def word_senses(
    choice: str, encoder: tuple[TokenVectors, Mapping[str, Any]] | None = None
) -> WordNetSenses | None:
    """Return the senses for ``--senses``: ``auto``, ``none``, ``wordnet``, ``wordnet:FOLDER`` or ``gloss``.

    None for ``none``, and for ``auto`` if WordNet or NLTK is not installed.

    :param encoder: For ``gloss``: token vectors, and the identity of the model.
    :raises UsageError: The choice is unknown, or WordNet is not installed.
    :raises DataError: The folder does not have WordNet's files.
    """
    if choice == "none":
        return None
    name, _, folder = choice.partition(":")
    if choice in ("auto", "wordnet") or name == "gloss":
        wordnet = find_wordnet()
        if choice == "auto" and (wordnet is None or importlib.util.find_spec("nltk") is None):
            return None
        if wordnet is None:
            raise UsageError(
                f"--senses {choice}: WordNet is not installed; get its files (Debian: apt-get install wordnet-base),"
                " and name their folder in WNSEARCHDIR if they are elsewhere, or use --senses none"
            )
        return WordNetSenses(wordnet) if encoder is None else GlossSenses(wordnet, *encoder)
    if name != "wordnet" or not folder:
        raise UsageError(f"--senses {choice}: use none, wordnet, wordnet:FOLDER, gloss or gloss:MODEL")
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
