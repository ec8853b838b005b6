"""From two sentences to their potential alignments, by the helpers ``parse`` and ``embed``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, Array, align, token_vectors
from pytest_llmprops.benchmarks.oracle.trees import Parsed
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply

PARSE, EMBED = "parse", "embed"
#: what each helper would have given, for the reason why there is none
_GIVES = {PARSE: "tree", EMBED: "vectors"}
#: errors of a text that a helper cannot take (too long, no tokens, an exception of its own); not of the helper
_OF_THE_TEXT = frozenset({"request", "backend"})


class Aligner:
    """The alignments of pairs of sentences; each sentence is parsed and embedded once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: dict[str, asyncio.Future[tuple[Reply | str, Reply | str]]] = {}

    async def __call__(self, first: str, second: str) -> Alignments:
        """Potential alignments; none where a sentence has no tree or no vectors, and why.

        A text that a helper cannot take has none either. Paraphrases are the model's: one that is too long must not
        turn its case into an error.

        :raises BackendError: a helper could not be asked.
        """
        one, two = await asyncio.gather(self._analysed(first), self._analysed(second))
        try:
            (tree, vectors), (other, others) = _ready(first, *one), _ready(second, *two)
        except DataError as error:
            return Alignments.without_trees(str(error))
        if vectors.shape[1] != others.shape[1]:
            sizes = f"{vectors.shape[1]} and {others.shape[1]}"
            return Alignments.without_trees(f"the encoder's vectors of two sentences have {sizes} numbers")
        return align(tree, other, vectors, others)

    async def _analysed(self, text: str) -> tuple[Reply | str, Reply | str]:
        if text not in self._known:
            asked = asyncio.gather(
                self._asked(Parse(text, "en", "constituency"), PARSE),
                self._asked(Embed(text, tokens=True), EMBED),
            )
            self._known[text] = asyncio.ensure_future(asked)
        return await self._known[text]

    async def _asked(self, request: Parse | Embed, role: str) -> Reply | str:
        """A helper's reply, or why it has none to this text. :raises BackendError: it could not be asked."""
        try:
            return await self._ask(request, role=role)
        except BackendError as error:
            if error.fatal or error.transient or error.kind not in _OF_THE_TEXT:
                raise
            return f"no {_GIVES[role]} of {request.text[:60]!r}: {error.message}"


def _ready(text: str, parse: Reply | str, embedding: Reply | str) -> tuple[Parsed, Array]:
    """The tree and the vectors of its tokens. :raises DataError: the parser or the encoder gave none."""
    if isinstance(parse, str):
        raise DataError(parse)
    if isinstance(embedding, str):
        raise DataError(embedding)
    if PLANNED in (parse.key, embedding.key):
        raise DataError("a plan has no trees")
    found: Mapping[str, Any] = parse.value
    if not found.get("tree"):
        raise DataError(f"no tree of {text[:60]!r}: {found.get('missing', 'the parser gave none')}")
    parsed = Parsed.of(text, found["tree"])
    value: Mapping[str, Any] = embedding.value
    try:
        return parsed, token_vectors(parsed.spans, value["spans"], value["vectors"])
    except DataError as error:
        raise DataError(f"no vectors of {text[:60]!r}: {error}") from None
