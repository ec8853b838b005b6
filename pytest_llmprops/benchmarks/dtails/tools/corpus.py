"""Parallel corpora: two text files with one sentence per line, and their words with alignment.

The analysed corpus is kept in parts, so that an interrupted run resumes after the last complete part. Their names have
a fingerprint of everything that affects them; with another parser or aligner, other files are written. A part
``00000-<fingerprint>.jsonl.gz`` has one line per pair: :class:`Analysed` as JSON.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pytest_llmprops.benchmarks.dtails.tools.alignment import Encoder, Links, align, model_of
from pytest_llmprops.benchmarks.dtails.tools.concepts import Word
from pytest_llmprops.core.errors import BackendError, DataError, UsageError
from pytest_llmprops.core.requests import Parse
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.models.base import Result, Results, serve

#: Maximum characters of a side. Longer texts are not sentences, and a parser's memory grows with the length.
LONGEST = 2_000
#: Pairs per part: the unit that is analysed at once and that an interruption can lose.
PART = 1_000
_FORMAT = 2
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]+")
#: Called with the number of pairs done and of all pairs.
Progress = Callable[[int, int], None]


class Pair(NamedTuple):
    """A sentence and its translation; ``line`` counts from 1."""

    line: int
    source: str
    target: str


def read_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """Yield the pairs with two sides of 1 to :data:`LONGEST` characters. Files that end in ``.gz`` are gzipped.

    :raises DataError: A file is missing, damaged or not UTF-8, or the sides have different lengths.
    """
    with closing(_lines(source)) as sources, closing(_lines(target)) as targets:
        for number, (first, second) in enumerate(zip_longest(sources, targets), 1):
            if first is None or second is None:
                short, long = (source, target) if first is None else (target, source)
                raise DataError(
                    f"{short} has {number - 1:,} lines, and {long} has more; both sides need the same number of lines"
                )
            pair = Pair(number, *(_CONTROL.sub(" ", text).strip() for text in (first, second)))
            if pair.source and pair.target and max(len(pair.source), len(pair.target)) <= LONGEST:
                yield pair


def _lines(path: Path) -> Any:
    """Yield lines. Only LF ends a line, because sentences contain other separators."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                yield utf8(line, f"{path}: line {number}")
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the file") from None


class Parser(Protocol):
    """Splits sentences into words and analyses them. ``identity`` is everything that affects the result."""

    identity: Mapping[str, Any]

    def parse(self, texts: Sequence[str]) -> Sequence[Sequence[Word]]: ...


class ModelParser:
    """A model of kind ``parse`` as a parser of one language. Texts for which it fails count in ``failed``.

    :param option: The command-line option, for messages. :param analysis: ``dependency`` or ``words``.
    :raises UsageError: The model does not exist, or it is not a parser.
    """

    def __init__(self, option: str, spec: str, language: str, analysis: str) -> None:
        self.model = model_of(option, spec)
        if not hasattr(self.model, "parse"):
            self.model.close()
            raise UsageError(f"{option} {spec}: not a parser; use stanza or spacy:MODEL")
        self._where, self._language, self._analysis = f"{option} {spec}", language, analysis
        self.identity: Mapping[str, Any] = {**self.model.identity, "language": language, "analysis": analysis}
        self.failed = 0

    def parse(self, texts: Sequence[str]) -> list[list[Word]]:
        """Return the words of each text; no words if the model fails for it.

        :raises UsageError: The model cannot be used, or does not support the language or the analysis.
        """
        parsed: list[list[Word]] = []
        for start in range(0, len(texts), max(1, self.model.max_batch)):
            batch = texts[start : start + max(1, self.model.max_batch)]
            results: Results = serve(self.model, [Parse(t, self._language, self._analysis) for t in batch])
            replies = asyncio.run(_wait(results)) if isinstance(results, Awaitable) else results
            for reply in replies:
                if not isinstance(reply, BackendError):
                    if reply.value["words"] is None:
                        raise UsageError(
                            f"{self._where}: {reply.value['missing']}; use stanza or spacy:MODEL"
                        )
                    parsed.append([Word(*word) for word in reply.value["words"]])
                elif reply.fatal:
                    raise UsageError(f"{self._where}: {reply}")
                else:
                    self.failed += 1
                    parsed.append([])
        return parsed


async def _wait(results: Awaitable[Sequence[Result]]) -> Sequence[Result]:
    return await results


class Analysed(NamedTuple):
    """A pair with its words and the links between them."""

    pair: Pair
    source: list[Word]
    target: list[Word]
    links: Links


class Parts:
    """The words and links of a corpus, in ``folder``.

    :param files: The source and the target file. :ivar size: Number of their pairs.
    :ivar facts: Everything that affects the words and links, as JSON values.
    :raises DataError: See :func:`read_pairs`; or no pair has two sides.
    :raises OSError: The folder cannot be created.
    """

    def __init__(
        self, folder: Path, files: tuple[Path, Path], source: Parser, target: Parser, encoder: Encoder
    ) -> None:
        self._folder, self._files = folder, files
        self._source, self._target, self._encoder = source, target, encoder
        self.size = sum(1 for _ in read_pairs(*files))
        if not self.size:
            what = f"no pair has two sides of 1 to {LONGEST:,} characters"
            raise DataError(f"{files[0]} and {files[1]}: {what}; use files with one sentence per line")
        folder.mkdir(parents=True, exist_ok=True)
        corpus = {}
        for file in files:
            with file.open("rb") as raw:
                corpus[file.name] = hashlib.file_digest(raw, "sha256").hexdigest()
        identities = {
            "source_parser": source.identity,
            "target_parser": target.identity,
            "aligner": encoder.identity,
        }
        self.facts = {"format": _FORMAT, "corpus": corpus, "pairs": self.size, **identities}
        text = json.dumps(self.facts, sort_keys=True, default=str)
        self._mark = hashlib.sha256(text.encode()).hexdigest()[:12]

    def analyse(self, progress: Progress) -> None:
        """Write all parts that are not there yet. :raises UsageError: A parser or the encoder cannot run."""
        pairs = read_pairs(*self._files)
        for start in range(0, self.size, PART):
            part = list(islice(pairs, PART))
            if not self._path(start).is_file():
                source = self._source.parse([pair.source for pair in part])
                target = self._target.parse([pair.target for pair in part])
                links = align(
                    self._encoder, *([[w.text for w in words] for words in side] for side in (source, target))
                )
                analysed = zip(part, source, target, links, strict=True)
                with replacing(self._path(start)) as draft, _gzip(draft, "wt") as file:
                    file.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in analysed)
            progress(start + len(part), self.size)

    def read(self) -> Iterator[Analysed]:
        """Yield every pair, in order. :raises DataError: A part is damaged."""
        for start in range(0, self.size, PART):
            path = self._path(start)
            try:
                with _gzip(path, "rt") as file:
                    for text in file:
                        pair, source, target, links = json.loads(text)
                        sides = [[Word(*word) for word in side] for side in (source, target)]
                        yield Analysed(Pair(*pair), sides[0], sides[1], [(i, j) for i, j in links])
            except (OSError, EOFError, zlib.error, ValueError, TypeError) as error:
                raise DataError(f"{path}: damaged ({error}); delete it and run again") from None

    def _path(self, start: int) -> Path:
        return self._folder / f"{start // PART:05}-{self._mark}.jsonl.gz"


def _gzip(path: Path, mode: str) -> Any:
    return gzip.open(path, mode, encoding="utf-8", errors="surrogatepass", compresslevel=3)
