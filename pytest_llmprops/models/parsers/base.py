"""The base class of parsers, the format of an analysis, and the two parsers that need no library.

``Reply.value`` is ``{"words": [[text, lemma, upos, head, relation], ...], "by": "stanza 1.15.0 af"}``. All sentences of
a text share one list of words. ``head`` is the position of the head in that list, counted from 1; it is 0 for the root
of a sentence and -1 if it was not requested or is unknown. Unknown texts are ``""``. ``constituency`` adds ``tree``.
Without a model of the language, the value is ``{"words": None, "by": "", "missing": "what is missing, and how to get
it"}``; the caller decides whether to use another method.

``words``: the words of a text in any language, by Unicode's letters, marks and digits, without a model. The text and
the lemma of a word are its folded form (case, composed letters, joiners). There are no tags.

``first-of:PARSER,PARSER,...``: several parsers as one; the first parser that can analyse a text does. A parser without
a model of the language or without the requested analysis returns "missing", and the next one gets the text. ``by`` of a
reply names the parser used. A parser's error is returned as it is and the next parser is not tried, so that the words
of a run do not depend on chance failures. Example: with ``first-of:stanza,spacy:en_core_web_sm``, Stanza analyses the
languages whose models are installed, and spaCy analyses English if Stanza's models of it are not.
"""

from __future__ import annotations

import threading
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.core.texts import TOKENIZER, unicode_words
from pytest_llmprops.models.base import CallOptions, ParseModel, Result
from pytest_llmprops.models.registry import FIRST_OF, Backend, Maker, always, find_backend
from pytest_llmprops.models.spec import ModelSpec

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
                return [BackendError(f"{self._name} fails: {fault_text(error)}", kind="backend")]
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


class WordParser(Parser):
    """A parser that only cuts texts into words; it is fast and deterministic."""

    def _analyse(self, texts: Sequence[str], language: str, analysis: str) -> list[Value]:
        if analysis != "words":
            reason = f"plain words have no {analysis}; use a parser (stanza, spacy:NAME)"
            return [missing(reason)] * len(texts)
        return [{"words": [word(w, w) for w in unicode_words(text)], "by": TOKENIZER} for text in texts]


def _check_words(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only()
    # Which characters are letters depends on the Unicode version of Python.
    identity = {"backend": "words", "tokenizer": TOKENIZER, "unicode": unicodedata.unidata_version}
    return lambda: WordParser(name="words", identity=identity)


WORDS = Backend(_check_words, always("parse"), in_worker=True)


class FirstOf:
    """A parser that tries several parsers in order.

    :param parts: blocking parsers, in order.
    """

    blocking = True

    def __init__(self, parts: Sequence[ParseModel]) -> None:
        self._parts = parts
        self.max_batch = min(part.max_batch for part in parts)
        self._lock = threading.Lock()
        self.identity: Mapping[str, Any] = {
            "backend": FIRST_OF,
            "parts": [dict(part.identity) for part in parts],
        }
        self.pinned = all(part.pinned for part in parts)

    def parse(self, requests: Sequence[Parse]) -> Sequence[Result]:
        """Return one result per request, in order. If no part can analyse a text, the result lists the reasons."""
        results: dict[int, Result] = {}
        # index of each request that no parser has analysed yet -> what each parser is missing
        reasons: dict[int, list[str]] = {index: [] for index in range(len(requests))}
        with self._lock:
            for part in self._parts:
                rest = list(reasons)
                served = part.parse([requests[index] for index in rest]) if rest else ()
                assert isinstance(served, Sequence)
                for index, result in zip(rest, served, strict=True):
                    value = result.value if isinstance(result, Reply) else None
                    if isinstance(value, dict) and value.get("words", ()) is None:
                        reasons[index].append(str(value.get("missing", "a parser has no model")))
                    else:
                        results[index] = result
                        del reasons[index]
        results |= {
            index: Reply(value=missing("; ".join(dict.fromkeys(texts)))) for index, texts in reasons.items()
        }
        return [results[index] for index in range(len(requests))]

    def deviations(self) -> Sequence[str]:
        return [text for part in self._parts for text in part.deviations()]

    def close(self) -> None:
        """Free all parts."""
        for part in self._parts:
            part.close()


def _check_first_of(spec: ModelSpec, options: CallOptions) -> Maker:
    makers = []
    for part in spec.parts:
        backend = find_backend(part.backend)
        if "parse" not in backend.kinds(part):
            raise spec.error(f"{part.text} is not a parser")
        makers.append(backend.check(part, options))
    return lambda: FirstOf([cast("ParseModel", make()) for make in makers])


def _ready(spec: ModelSpec) -> bool:
    return any(find_backend(part.backend).ready(part) for part in spec.parts)


FIRST_OF_BACKEND = Backend(
    _check_first_of, always("parse"), ready=_ready, example="first-of:stanza,spacy:en_core_web_sm"
)
