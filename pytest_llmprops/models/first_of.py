"""``first-of:PARSER,PARSER,...``: several parsers as one: each text is analysed by the first that can.

A parser that has no model of the language, or does not make the analysis, answers "missing", and the next is asked.
``by`` of a reply says which one it was. A parser that fails is an error, never passed over: the words of a run must not
depend on luck. With ``first-of:stanza,spacy:en_core_web_sm``, Stanza gives the words of the languages that it has here,
and spaCy the rest of English.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.models.base import BackendOptions, ParseModel, Result
from pytest_llmprops.models.parsing import missing
from pytest_llmprops.models.registry import FIRST_OF, Backend, Maker, always, find_backend
from pytest_llmprops.models.spec import ModelSpec


class FirstOf:
    """Asks its parts in order, each for what those before it lack.

    :param parts: parsers that block, by name.
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
        """One result a request, in order; where all parts lack it, what each of them lacks."""
        results: dict[int, Result] = {}
        lacking: dict[int, list[str]] = {index: [] for index in range(len(requests))}
        with self._lock:
            for part in self._parts:
                for index, result in self._asked(part, requests, list(lacking)).items():
                    found = result.value if isinstance(result, Reply) else None
                    if isinstance(found, dict) and found.get("words", ()) is None:
                        lacking[index].append(str(found.get("missing", "a parser has no model")))
                    else:
                        results[index] = result
                        del lacking[index]
        results |= {
            index: Reply(value=missing("; ".join(dict.fromkeys(whats)))) for index, whats in lacking.items()
        }
        return [results[index] for index in range(len(requests))]

    @staticmethod
    def _asked(part: ParseModel, requests: Sequence[Parse], indices: Sequence[int]) -> dict[int, Result]:
        """The part's results for these requests, in batches as it takes them."""
        found: dict[int, Result] = {}
        for start in range(0, len(indices), part.max_batch):
            batch = indices[start : start + part.max_batch]
            results = part.parse([requests[index] for index in batch])
            assert isinstance(results, Sequence)
            found.update(zip(batch, results, strict=True))
        return found

    def deviations(self) -> Sequence[str]:
        return [text for part in self._parts for text in part.deviations()]

    def close(self) -> None:
        """Free the parts."""
        for part in self._parts:
            part.close()


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    makers = []
    for part in spec.parts:
        backend = find_backend(part.backend)
        if "parse" not in backend.kinds(part):
            raise UsageError(f"--model {spec.text}: {part.text} is not a parser")
        makers.append(backend.check(part, options))
    return lambda: FirstOf([cast("ParseModel", make()) for make in makers])


def _ready(spec: ModelSpec) -> bool:
    return any(find_backend(part.backend).ready(part) for part in spec.parts)


BACKEND = Backend(_check, always("parse"), ready=_ready)
