"""The analysed and aligned corpus, in parts that ``llmprops dtails extract`` keeps between runs.

The files are in the work folder. Their names have a fingerprint of all inputs, and each file is written atomically. An
interrupted run therefore resumes after the last complete part, and a run with another parser or aligner writes its own
files.

- ``analysis-<fingerprint>-00000.jsonl.gz``: one line per pair: its line in the corpus, both texts, the source words
  with lemma, universal tag, head and relation, the target words with lemma.
- ``links-<fingerprint>-00000.txt.gz``: one line per pair: ``0-0 1-2``, source and target word from 0.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import Aligner, Links, WordPair
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import Corpus, Pair
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.whole_files import replacing

#: Pairs per part: the unit that is analysed at once and that an interruption can lose.
PART = 1_000
_FORMAT = 1
_LEVEL = 3  # gzip level: most of the compression in little time

#: Called with (step, pairs done, all pairs).
Progress = Callable[[str, int, int], None]


class Parser(Protocol):
    """Splits sentences into words and analyses them."""

    #: Everything that affects the result, as JSON values.
    identity: Mapping[str, Any]

    def parse(self, texts: Sequence[str]) -> Sequence[Sequence[Word]]:
        """Return the words of each text; no words if the text could not be analysed.

        :raises UsageError: The parser cannot run; one line.
        """
        ...


class Analysis(NamedTuple):
    """What the parsers' output has.

    :param empty: Number of pairs with a side without words. :param relations: Source words have dependency relations.
    :param lemmas: Target words have lemmas.
    """

    empty: int
    relations: bool
    lemmas: bool


class Analysed(NamedTuple):
    """A pair with its words."""

    pair: Pair
    source: list[Word]
    target: list[Word]


def no_progress(what: str, done: int, total: int) -> None:
    """Show no progress."""


class Parts:
    """The analysed corpus in ``folder``.

    :raises OSError: The folder cannot be created.
    """

    def __init__(self, folder: Path, corpus: Corpus, source: Parser, target: Parser) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._corpus = folder, corpus
        self._source, self._target = source, target
        self._mark = _fingerprint(corpus.sha256, corpus.size, source.identity, target.identity)
        self._links_files: list[Path] = []

    def analyse(self, progress: Progress = no_progress) -> Analysis:
        """Analyse all parts that are not analysed yet.

        :raises UsageError: A parser cannot run, or returns no words at all.
        """
        empty = done = 0
        relations = lemmas = False
        pairs = self._corpus.pairs()
        number = 0
        while part := list(islice(pairs, PART)):
            path = self._analysis(number)
            if not path.is_file():
                sides = (
                    self._source.parse([pair.source for pair in part]),
                    self._target.parse([pair.target for pair in part]),
                )
                lines = (
                    json.dumps([*pair, source, [word[:2] for word in target]], ensure_ascii=False)
                    for pair, source, target in zip(part, *sides, strict=True)
                )
                _write(path, lines)
            for analysed in self._part(number):
                empty += not (analysed.source and analysed.target)
                relations = relations or any(word.relation for word in analysed.source)
                lemmas = lemmas or any(word.lemma for word in analysed.target)
            number += 1
            done += len(part)
            progress("words", done, self._corpus.size)
        if empty == done:
            raise UsageError(
                "the parsers find no words in any of the pairs; check the corpus and its language"
            )
        return Analysis(empty, relations, lemmas)

    def align(self, aligner: Aligner, progress: Progress = no_progress) -> None:
        """Align all parts that are not aligned yet. :raises UsageError: The aligner cannot run."""
        mark = _fingerprint(self._mark, aligner.identity)
        numbers = range(-(-self._corpus.size // PART))
        groups = [[number] for number in numbers] if aligner.independent else [list(numbers)]
        self._links_files = [self._folder / f"links-{mark}-{group[0]:05}.txt.gz" for group in groups]
        done = 0
        for group, path in zip(groups, self._links_files, strict=True):
            if path.is_file():
                done += len(group) * PART
                continue

            def lines(group: Sequence[int] = tuple(group), before: int = done) -> Iterator[str]:
                aligned = aligner.align(self._words(group, aligner))
                for count, links in enumerate(aligned, before + 1):
                    if count % 200 == 0:
                        progress("alignment", min(count, self._corpus.size), self._corpus.size)
                    yield " ".join(f"{i}-{j}" for i, j in sorted(links))

            _write(path, lines())
            done += len(group) * PART
        progress("alignment", self._corpus.size, self._corpus.size)

    def read(self) -> Iterator[tuple[Analysed, Links]]:
        """Yield every pair with its links, in order. :raises DataError: A file is damaged."""
        links = (text for path in self._links_files for text in _read(path))
        for number in range(-(-self._corpus.size // PART)):
            for analysed in self._part(number):
                text = next(links, None)
                if text is None:
                    raise DataError(f"{self._links_files[-1]}: too short; delete it and run again")
                points = (link.partition("-") for link in text.split())
                yield analysed, frozenset((int(i), int(j)) for i, _, j in points)

    def _words(self, numbers: Iterable[int], aligner: Aligner) -> Iterator[WordPair]:
        written = aligner.words == "written"

        def side(words: Sequence[Word]) -> list[str]:
            # Aligners separate words by whitespace, but a parser's word may contain a space.
            texts = (word.text if written else (word.lemma or word.text).casefold() for word in words)
            return ["_".join(text.split()) or "_" for text in texts]

        for number in numbers:
            for analysed in self._part(number):
                yield side(analysed.source), side(analysed.target)

    def _part(self, number: int) -> Iterator[Analysed]:
        path = self._analysis(number)
        for text in _read(path):
            try:
                line, first, second, source, target = json.loads(text)
                yield Analysed(
                    Pair(line, first, second),
                    [Word(*word) for word in source],
                    [Word(*word) for word in target],
                )
            except (ValueError, TypeError):
                raise DataError(f"{path}: damaged; delete it and run again") from None

    def _analysis(self, number: int) -> Path:
        return self._folder / f"analysis-{self._mark}-{number:05}.jsonl.gz"


def _fingerprint(*facts: Any) -> str:
    text = json.dumps([_FORMAT, *facts], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write a file atomically."""
    # Without a name and time in the gzip header, so that equal parts are equal files.
    with (
        replacing(path) as draft,
        draft.open("wb") as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file,
    ):
        for line in lines:
            file.write(f"{line}\n".encode("utf-8", "surrogatepass"))


def _read(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rb") as file:
            for line in file:
                yield line.decode("utf-8", "surrogatepass").removesuffix("\n")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged ({error}); delete it and run again") from None
