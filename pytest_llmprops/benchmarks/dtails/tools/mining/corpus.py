"""Parallel corpora: two text files with one sentence per line, a TSV file, or a Moses pair; each may be gzipped.

A corpus is read line by line.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.texts import utf8

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
