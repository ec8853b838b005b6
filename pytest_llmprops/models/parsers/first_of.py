"""``first-of:PARSER,PARSER,...``: several parsers as one; the first parser that can analyse a text does.

A parser without a model of the language or without the requested analysis returns "missing", and the next one gets the
text. ``by`` of a reply names the parser used. A parser's error is returned as it is and the next parser is not tried,
so that the words of a run do not depend on chance failures. Example: with ``first-of:stanza,spacy:en_core_web_sm``,
Stanza analyses the languages whose models are installed, and spaCy analyses English if Stanza's models of it are not.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.models.base import CallOptions, ParseModel, Result
from pytest_llmprops.models.parsers.base import missing
from pytest_llmprops.models.registry import FIRST_OF, Backend, Maker, always, find_backend
from pytest_llmprops.models.spec import ModelSpec


class FirstOf:
    """A parser that tries several parsers in order.

    :param parts: blocking parsers, in order.
    """

    max_batch = 256
    blocking = True

    def __init__(self, parts: Sequence[ParseModel]) -> None:
        self._parts = parts
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
                for index, result in self._parse_with(part, requests, list(reasons)).items():
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

    @staticmethod
    def _parse_with(part: ParseModel, requests: Sequence[Parse], indices: Sequence[int]) -> dict[int, Result]:
        """Return the part's results for the requests at ``indices``, in batches of its maximum size."""
        results: dict[int, Result] = {}
        for start in range(0, len(indices), part.max_batch):
            batch = indices[start : start + part.max_batch]
            batch_results = part.parse([requests[index] for index in batch])
            assert isinstance(batch_results, Sequence)
            results.update(zip(batch, batch_results, strict=True))
        return results

    def deviations(self) -> Sequence[str]:
        return [text for part in self._parts for text in part.deviations()]

    def close(self) -> None:
        """Free all parts."""
        for part in self._parts:
            part.close()


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    makers = []
    for part in spec.parts:
        backend = find_backend(part.backend)
        if "parse" not in backend.kinds(part):
            raise UsageError(f"--model {spec.text}: {part.text} is not a parser")
        makers.append(backend.check(part, options))
    return lambda: FirstOf([cast("ParseModel", make()) for make in makers])


def _ready(spec: ModelSpec) -> bool:
    return any(find_backend(part.backend).ready(part) for part in spec.parts)


BACKEND = Backend(_check, always("parse"), ready=_ready, example="first-of:stanza,spacy:en_core_web_sm")
