"""What the parsers share: batches by language, and the shape of an analysis.

``Reply.value`` is ``{"words": [[text, lemma, upos, head, relation], ...], "by": "stanza 1.15.0 af"}``. The words of
all sentences of a text are one list; ``head`` is the place of the head in that list, counted from 1: 0 for the root
of a sentence, -1 where it was not asked for or is unknown. What is unknown is ``""``. ``constituency`` adds ``tree``.
Where there is no model the value is ``{"words": None, "by": "", "missing": "what is missing, and how to get it"}``: the
asker decides whether another way will do.
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
from pytest_llmprops.models.local import file_sha256

#: ``words`` are tokens with their lemmas; each of the others needs more of a model
ANALYSES = ("words", "dependency", "constituency")

Value = dict[str, Any]


def word(text: str, lemma: str = "", upos: str = "", head: int = -1, relation: str = "") -> list[Any]:
    """One word of an analysis, in the order of ``Reply.value``."""
    return [text, lemma, upos, head, relation]


def missing(what: str) -> Value:
    """The value where the parser has no model: ``what`` is one phrase saying what is missing where."""
    return {"words": None, "by": "", "missing": what}


def relative_sha256(folder: Path, files: Iterable[Path]) -> str:
    """One sha256 over the contents of files and their paths inside ``folder``."""
    lines = sorted(f"{file.relative_to(folder).as_posix()} {file_sha256(file)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def one_line(error: BaseException) -> str:
    """What an exception of a library says, as one line of at most 300 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


class Parser(ABC):
    """Base of the parsers that load a model: one batch at a time, grouped by language and analysis.

    :param name: as tables call it. :param identity: all that decides the analyses.
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
        """The values of texts of one language, in order.

        :raises BackendError: for all of them; a fatal one where the model cannot be loaded.
        """

    def _free(self) -> None:
        """Drop what was loaded."""

    def parse(self, requests: Sequence[Parse]) -> Sequence[Result]:
        """One result a request, in order. A text that the parser cannot take is that request's error only."""
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
                f"{self._name}: '{analysis}' is no analysis: there are {known}", kind="request"
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
        # Nobody served a text for which there is no model: a helper that never could is not a part of a run.
        names = ["" if value["words"] is None else self._name for value in values]
        return [
            Reply(value=value, served_model=name, seconds=seconds)
            for value, name in zip(values, names, strict=True)
        ]

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the models, after what is being analysed."""
        self._closed = True
        with self._lock:
            self._free()
