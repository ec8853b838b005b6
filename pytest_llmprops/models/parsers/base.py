"""The base class of parsers, and the format of an analysis.

``Reply.value`` is ``{"words": [[text, lemma, upos, head, relation], ...], "by": "stanza 1.15.0 af"}``. All sentences of
a text share one list of words. ``head`` is the position of the head in that list, counted from 1; it is 0 for the root
of a sentence and -1 if it was not requested or is unknown. Unknown texts are ``""``. ``constituency`` adds ``tree``.
Without a model of the language, the value is ``{"words": None, "by": "", "missing": "what is missing, and how to get
it"}``; the caller decides whether to use another method.
"""

from __future__ import annotations

import hashlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.spec import file_sha256

#: ``words`` are tokens with their lemmas; the other analyses need more components of a model
ANALYSES = ("words", "dependency", "constituency")

Value = dict[str, Any]


def word(text: str, lemma: str = "", upos: str = "", head: int = -1, relation: str = "") -> list[Any]:
    """Return one word of an analysis, in the order of ``Reply.value``."""
    return [text, lemma, upos, head, relation]


def missing(reason: str) -> Value:
    """Return the value for a text that the parser has no model for.

    :param reason: one phrase that says what is missing and where.
    """
    return {"words": None, "by": "", "missing": reason}


def relative_sha256(folder: Path, files: Iterable[Path]) -> str:
    """Return one sha256 over the contents of files and their paths relative to ``folder``."""
    lines = sorted(f"{file.relative_to(folder).as_posix()} {file_sha256(file)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def one_line(error: BaseException) -> str:
    """Return an exception's type and message as one line of at most 300 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


class Parser(ABC):
    """Base class of parsers. Each batch is grouped by language and analysis; batches run one at a time.

    :param name: the parser's name in tables.
    :param identity: everything that determines the analyses.
    """

    pinned = True
    max_batch = 256
    blocking = True

    def __init__(self, *, name: str, identity: Mapping[str, Any]) -> None:
        self.identity = identity
        self._name = name
        self._lock = threading.Lock()
        self._closed = False

    @abstractmethod
    def _analyse(self, texts: Sequence[str], language: str, analysis: str) -> list[Value]:
        """Return the values of texts of one language, in order."""

    def _free(self) -> None:
        """Drop the loaded models."""

    def parse(self, requests: Sequence[Parse]) -> Sequence[Result]:
        """Return one result per request, in order. A text that the parser fails on does not affect the others."""
        groups: dict[tuple[str, str], list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault((request.language, request.analysis), []).append(index)
        results: dict[int, Result] = {}
        with self._lock:
            for (language, analysis), indices in sorted(groups.items()):
                texts = [requests[index].text for index in indices]
                results.update(zip(indices, self._group(texts, language, analysis), strict=True))
        return [results[index] for index in range(len(requests))]

    def _group(self, texts: Sequence[str], language: str, analysis: str) -> list[Result]:
        if analysis not in ANALYSES:
            known = ", ".join(ANALYSES)
            error = BackendError(
                f"{self._name}: unknown analysis '{analysis}'; choose from {known}", kind="request"
            )
            return [error] * len(texts)
        start = time.perf_counter()
        try:
            if self._closed:
                raise BackendError(f"{self._name} is closed", kind="closed", fatal=True)
            values = self._analyse(texts, language, analysis)
        except BackendError as error:
            return [error] * len(texts)
        except Exception as error:
            if len(texts) == 1:
                return [BackendError(f"{self._name} fails: {one_line(error)}", kind="backend")]
            return [self._group([text], language, analysis)[0] for text in texts]
        seconds = (time.perf_counter() - start) / len(texts)
        # A text without a model was not served by this parser, so the run must not list the parser for it.
        names = ["" if value["words"] is None else self._name for value in values]
        return [
            Reply(value=value, served_model=name, seconds=seconds)
            for value, name in zip(values, names, strict=True)
        ]

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the models after the current batch."""
        self._closed = True
        with self._lock:
            self._free()
