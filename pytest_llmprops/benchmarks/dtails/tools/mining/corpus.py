"""Parallel corpora: two text files with a sentence a line, a TSV file, or a Moses pair; each may be gzipped.

A corpus is read line by line, never as a whole.
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

from pytest_llmprops.core.encoding import utf8
from pytest_llmprops.core.errors import DataError

#: pairs with a longer side are left out: no sentences, and a parser's memory grows with the length
LONGEST = 2_000
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]+")


class Pair(NamedTuple):
    """A sentence and its translation; ``line`` counts from 1."""

    line: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """A parallel corpus that has been read once and found whole.

    :param files: two files, or one TSV file. :param sha256: of the files' bytes, uncompressed.
    :param lines: lines of each side. :param empty: pairs with an empty side. :param long: pairs with a side of
        more than :data:`LONGEST` characters. Neither are given by :meth:`pairs`.
    """

    files: tuple[Path, ...]
    sha256: str
    lines: int
    empty: int
    long: int

    @property
    def size(self) -> int:
        """Number of pairs that :meth:`pairs` gives."""
        return self.lines - self.empty - self.long

    def pairs(self) -> Iterator[Pair]:
        """Pairs in file order. :raises DataError: a file can no longer be read."""
        for pair in _pairs(self.files):
            if _is_whole(pair):
                yield pair


def open_corpus(paths: Sequence[Path], language: str) -> Corpus:
    """Read a corpus through once.

    :param paths: English and target file; or one TSV file of two columns; or the common beginning of a Moses pair
        (``corpus`` for ``corpus.en`` and ``corpus.xx``). Files that end in ``.gz`` are gzipped.
    :param language: of the target side, two letters.
    :raises DataError: a file that is missing, empty, damaged or not UTF-8; sides of different lengths; a TSV line
        without exactly two columns; no pair with two sides.
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
        raise DataError(f"{names}: no lines; give a parallel corpus, a sentence a line")
    if lines == empty + long:
        raise DataError(
            f"{names}: none of the {lines} pairs has two sides of 1 to {LONGEST:,} characters; check the files"
        )
    return Corpus(files, digest.hexdigest(), lines, empty, long)


def read_pairs(*paths: Path, language: str = "") -> Iterator[tuple[str, str]]:
    """(sentence, translation) of every pair that :meth:`Corpus.pairs` would give, without reading ahead.

    :raises DataError: as :func:`open_corpus`, but only when the place is reached.
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
            f"a corpus is two files, one TSV file or the beginning of a Moses pair, not {len(paths)} files"
        )
    (path,) = paths
    if path.is_file():
        return (path,)
    for ending in ("", ".gz"):
        pair = tuple(path.with_name(f"{path.name}.{code}{ending}") for code in ("en", language))
        if all(file.is_file() for file in pair):
            return pair
    raise DataError(
        f"{path}: no such file, and no {path.name}.en with {path.name}.{language}; give --corpus EN TARGET"
    )


def _pairs(files: Sequence[Path]) -> Iterator[Pair]:
    if len(files) == 1:
        (file,) = files
        with closing(_lines(file)) as texts:
            for number, text in enumerate(texts, 1):
                columns = text.split("\t")
                if len(columns) != 2:
                    raise DataError(
                        f"{file}: line {number} has {len(columns)} columns; write SOURCE<tab>TARGET, or give two files"
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
    """Lines without their ends. Only LF ends a line: other separators stand inside of sentences."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                # A carriage return before the line feed goes with the control characters.
                yield utf8(line.removesuffix(b"\n"), f"{path}: line {number}")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None


def _clean(text: str) -> str:
    return _CONTROL.sub(" ", text).strip()
