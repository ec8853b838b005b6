"""Word senses of English words in context: the WordNet gloss that is nearest to the word, by an encoder.

The paper disambiguates with EWISER, a trained model; docs/dtails-extract.md has the measured accuracies. NLTK reads
WordNet's dictionary files (wndb(5WN)) from Debian's wordnet-base or its own data. Nothing is downloaded.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.tools.alignment import Encoder, joined, overlapping
from pytest_llmprops.benchmarks.dtails.tools.concepts import Word
from pytest_llmprops.core.errors import DataError, MissingExtra

#: WordNet's letter, by universal tag.
_PARTS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
#: Words on each side of a word that the encoder reads, and the longest text of a gloss in characters.
_AROUND, _LONGEST = 30, 1500
#: Weight of the logarithm of a sense's rank. Without it, fewer senses are right than by always taking the first. It was
#: chosen on half of the words of Raganato et al. (2017).
_RARER = 0.05
#: The words of a sentence, and the index of one of them.
Place = tuple[Sequence[Word], int]


class GlossSenses:
    """The sense whose gloss is nearest to the word in its sentence.

    The vector of a word is the mean of its tokens' vectors in a window of the sentence. The vector of a sense is the
    mean over the text of its lemma, synonyms, gloss and examples. Their cosine is reduced by :data:`_RARER` times the
    logarithm of the sense's rank in WordNet, because later senses are rarer.

    :param folder: WordNet's dictionary files. :raises DataError: They are damaged.
    :raises MissingExtra: NLTK is not installed.
    """

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        self._folder, self._encoder = folder, encoder
        self._files: list[Any] = []
        self._reader = self._open()
        self._glosses: dict[tuple[str, Any], Any] = {}
        self.identity = {"bytes": (folder / "data.noun").stat().st_size, "encoder": encoder.identity}

    def close(self) -> None:
        for file in self._files:
            file.close()

    def synsets(self, word: Word) -> list[Any]:
        """Return the synsets with the word's lemma, in WordNet's order; NLTK's ``synsets`` also has other lemmas."""
        if word.tag not in _PARTS:
            return []
        lemmas = self._reader.lemmas(_lemma(word), _PARTS[word.tag])
        return list(dict.fromkeys(each.synset() for each in lemmas))

    def numbers(self, places: Sequence[Place]) -> list[int | None]:
        """Return the number of the best sense at each place, from 0; None without a sense."""
        import numpy as np

        synsets = [self.synsets(words[index]) for words, index in places]
        best: list[int | None] = [0 if own else None for own in synsets]
        several = [n for n, own in enumerate(synsets) if len(own) > 1]
        lemmas = {n: _lemma(places[n][0][places[n][1]]) for n in several}
        texts = {(lemmas[n], each): _gloss(lemmas[n], each) for n in several for each in synsets[n]}
        new = [name for name in texts if name not in self._glosses]
        for name, tokens in zip(new, self._encoder.tokens([texts[name] for name in new]), strict=True):
            self._glosses[name] = None if tokens is None else _unit(tokens[1].mean(axis=0))
        windows = []
        for n in several:
            words, index = places[n]
            start = max(0, index - _AROUND)
            text, spans = joined([word.text for word in words[start : index + _AROUND + 1]])
            windows.append((text, spans[index - start]))
        contexts = self._encoder.tokens([text for text, _ in windows])
        for n, (_, span), tokens in zip(several, windows, contexts, strict=True):
            glosses = [self._glosses[lemmas[n], each] for each in synsets[n]]
            own = [] if tokens is None else overlapping(tokens[0], span)
            if tokens is not None and own and all(gloss is not None for gloss in glosses):
                near = np.array(glosses) @ _unit(tokens[1][own].mean(axis=0))
                best[n] = int(np.argmax(near - _RARER * np.log(np.arange(1, len(glosses) + 1))))
        return best

    def _open(self) -> Any:
        try:
            import nltk
            from nltk.corpus.reader.wordnet import WordNetCorpusReader
        except ImportError:
            raise MissingExtra("--senses", package="nltk", extra="research") from None
        files = self._files

        class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
            def open(self, file: str) -> Any:
                # Debian does not package the names of the lexicographer files. They are not used here.
                if file == "lexnames":
                    return io.StringIO("".join(f"{number:02} {number} 0\n" for number in range(45)))
                files.append(super().open(file))
                return files[-1]

            def map_wn(self, version: str = "wordnet") -> None:
                """Skip the mapping to other versions, which needs a WordNet in NLTK's data."""

        if str(self._folder) not in nltk.data.path:
            nltk.data.path.append(str(self._folder))  # NLTK reads only files below these folders.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NLTK warns that other languages are missing.
                return Reader(str(self._folder), None)
        except (AssertionError, AttributeError, LookupError, OSError, StopIteration, ValueError):
            self.close()
            raise DataError(f"{self._folder}: not WordNet's files, or damaged; get them again") from None


def find_wordnet() -> Path | None:
    """Return a folder of WordNet's files: ``WNSEARCHDIR``, NLTK's data or Debian's; None without NLTK or files."""
    try:
        from nltk.data import path as roots
    except ImportError:
        return None
    places = [
        os.environ.get("WNSEARCHDIR", ""),
        *(f"{root}/corpora/wordnet" for root in roots),
        "/usr/share/wordnet",
    ]
    return next((Path(place) for place in places if place and (Path(place) / "data.noun").is_file()), None)


def _lemma(word: Word) -> str:
    return (word.lemma or word.text).lower().replace(" ", "_")


def _gloss(lemma: str, synset: Any) -> str:
    names = dict.fromkeys([lemma, *map(str.lower, synset.lemma_names())])
    text = "; ".join([synset.definition(), *synset.examples()])
    return f"{', '.join(names).replace('_', ' ')}: {text}"[:_LONGEST]


def _unit(vector: Any) -> Any:
    length = float((vector @ vector) ** 0.5)
    return vector / length if length else vector
