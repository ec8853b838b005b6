"""Parallel corpora: two text files with one sentence per line, a TSV file, or a Moses pair; each may be gzipped.

A corpus is read line by line.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import Aligner, Links, WordPair
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.data.whole_files import replacing

#: Maximum characters of a side. Longer texts are not sentences, and a parser's memory grows with the length.
LONGEST = 2_000
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]+")


class Pair(NamedTuple):
    """A sentence and its translation; ``line`` counts from 1."""

    line: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """A parallel corpus that has been read once and is valid.

    :param files: Two files, or one TSV file. :param sha256: Hash of the cleaned pairs.
    :param lines: Lines of each side. :param empty: Pairs with an empty side. :param long: Pairs with a side of more
        than :data:`LONGEST` characters. :meth:`pairs` leaves out empty and long pairs.
    """

    files: tuple[Path, ...]
    sha256: str
    lines: int
    empty: int
    long: int

    @property
    def size(self) -> int:
        """The number of pairs that :meth:`pairs` yields."""
        return self.lines - self.empty - self.long

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs in file order. :raises DataError: A file can no longer be read."""
        for pair in _pairs(self.files):
            if _is_whole(pair):
                yield pair


def open_corpus(paths: Sequence[Path], language: str) -> Corpus:
    """Read and check a whole corpus.

    :param paths: English and target file; or one TSV file with two columns; or the prefix of a Moses pair (``corpus``
        for ``corpus.en`` and ``corpus.xx``). Files that end in ``.gz`` are gzipped.
    :param language: Two-letter code of the target language.
    :raises DataError: A file is missing, empty, damaged or not UTF-8; the sides have different lengths; a TSV line does
        not have two columns; no pair has two sides.
    """
    files = _located(paths, language)
    digest = hashlib.sha256()
    lines = empty = long = 0
    for pair in _pairs(files):
        lines += 1
        empty += not (pair.source and pair.target)
        long += bool(pair.source and pair.target) and not _is_whole(pair)
        digest.update(f"{pair.source}\t{pair.target}\n".encode("utf-8", "surrogatepass"))
    names = " and ".join(map(str, files))
    if not lines:
        raise DataError(f"{names}: no lines; use a parallel corpus with one sentence per line")
    if lines == empty + long:
        raise DataError(
            f"{names}: none of the {lines} pairs has two sides of 1 to {LONGEST:,} characters; check the files"
        )
    return Corpus(files, digest.hexdigest(), lines, empty, long)


def read_pairs(*paths: Path, language: str = "") -> Iterator[tuple[str, str]]:
    """Yield (sentence, translation) of the pairs in :meth:`Corpus.pairs`, without reading the whole corpus first.

    :raises DataError: See :func:`open_corpus`; raised when the invalid line is reached.
    """
    for pair in _pairs(_located(paths, language)):
        if _is_whole(pair):
            yield pair.source, pair.target


def _is_whole(pair: Pair) -> bool:
    return bool(pair.source and pair.target) and max(len(pair.source), len(pair.target)) <= LONGEST


def _located(paths: Sequence[Path], language: str) -> tuple[Path, ...]:
    if len(paths) == 2:
        return tuple(paths)
    if len(paths) != 1:
        raise DataError(
            f"a corpus is two files, one TSV file or the prefix of a Moses pair, not {len(paths)} files"
        )
    (path,) = paths
    if path.is_file():
        return (path,)
    for ending in ("", ".gz"):
        pair = tuple(path.with_name(f"{path.name}.{code}{ending}") for code in ("en", language))
        if all(file.is_file() for file in pair):
            return pair
    raise DataError(
        f"{path}: no such file, and no {path.name}.en with {path.name}.{language}; use --corpus EN TARGET"
    )


def _pairs(files: Sequence[Path]) -> Iterator[Pair]:
    if len(files) == 1:
        (file,) = files
        with closing(_lines(file)) as texts:
            for number, text in enumerate(texts, 1):
                columns = text.split("\t")
                if len(columns) != 2:
                    raise DataError(
                        f"{file}: line {number} has {len(columns)} columns; write SOURCE<tab>TARGET, or use two files"
                    )
                yield Pair(number, *map(_clean, columns))
        return
    first, second = files
    with closing(_lines(first)) as sources, closing(_lines(second)) as targets:
        for number, (source, target) in enumerate(zip_longest(sources, targets), 1):
            if source is None or target is None:
                short, long = (first, second) if source is None else (second, first)
                more = sum(1 for _ in (targets if source is None else sources))
                raise DataError(
                    f"{short} has {number - 1:,} lines, {long} {number + more:,};"
                    " both sides of a corpus need the same number of lines"
                )
            yield Pair(number, _clean(source), _clean(target))


def _lines(path: Path) -> Generator[str, None, None]:
    """Yield lines without their ends. Only LF ends a line, because sentences contain other separators."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                # ``_clean`` removes a carriage return before the line feed.
                yield utf8(line.removesuffix(b"\n"), f"{path}: line {number}")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None


def _clean(text: str) -> str:
    return _CONTROL.sub(" ", text).strip()


# The analysed and aligned corpus, in parts that ``llmprops dtails extract`` keeps between runs.
#
# The files are in the work folder. Their names have a fingerprint of all inputs, and each file is written
# atomically. An interrupted run therefore resumes after the last complete part, and a run with another parser
# or aligner writes its own files.
#
# - ``analysis-<fingerprint>-00000.jsonl.gz``: one line per pair: its line in the corpus, both texts, the source words
#   with lemma, universal tag, head and relation, the target words with lemma.
# - ``links-<fingerprint>-00000.txt.gz``: one line per pair: ``0-0 1-2``, source and target word from 0.

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
