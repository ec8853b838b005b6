"""Compute the potential alignments of two sentences with the helpers ``parse`` and ``embed``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from pytest_llmprops.benchmarks.oracle.algorithm1 import align
from pytest_llmprops.benchmarks.oracle.alignment import Alignments
from pytest_llmprops.benchmarks.oracle.choices import EMBED, PARSE, Matching, Whole
from pytest_llmprops.benchmarks.oracle.covering import align_covering
from pytest_llmprops.benchmarks.oracle.trees import Parsed
from pytest_llmprops.benchmarks.oracle.vectors import Array, token_vectors
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply, Request

#: helper -> its output, for messages
_OUTPUTS = {PARSE: "tree", EMBED: "vectors"}
#: kinds of errors caused by a text that a helper cannot process (too long, no tokens), not by the helper
_TEXT_ERRORS = frozenset({"request", "backend"})


class AskHelper(Protocol):
    """Sends a request to the helper of a role: the ``ask`` of a benchmark, or any function like it."""

    async def __call__(self, request: Request, role: str = ...) -> Reply: ...


class Aligner:
    """Computes the alignments of pairs of sentences. Each sentence is parsed and embedded once.

    :param matching: ``printed`` is Algorithm 1, ``covering`` requires that one direction covers both sentences.
    :param whole: whether a phrase may be mapped to the whole other sentence.
    """

    def __init__(self, ask: AskHelper, matching: Matching = "covering", whole: Whole = "bar") -> None:
        self._ask = ask
        self._align = align_covering if matching == "covering" else align
        self._whole: Whole = whole
        self._known: dict[str, asyncio.Future[tuple[Reply | str, Reply | str]]] = {}

    async def __call__(self, first: str, second: str) -> Alignments:
        """Return the potential alignments, or why there are none: a sentence has no tree or no vectors.

        A text that a helper cannot process has none either. Paraphrases come from the model, so a paraphrase that is
        too long must not turn the case into an error.

        :raises BackendError: if a helper could not be called.
        """
        one, two = await asyncio.gather(self._analyse(first), self._analyse(second))
        try:
            (tree, vectors), (other, others) = _ready(first, *one), _ready(second, *two)
        except DataError as error:
            return Alignments.without_trees(str(error))
        if vectors.shape[1] != others.shape[1]:
            sizes = f"{vectors.shape[1]} and {others.shape[1]}"
            return Alignments.without_trees(f"the encoder's vectors of two sentences have {sizes} numbers")
        return self._align(tree, other, vectors, others, whole=self._whole)

    async def parsed(self, text: str) -> Parsed | None:
        """Return a sentence with its tree; None if the parser returns none.

        :raises BackendError: if the parser could not be called.
        """
        reply = await self._call(Parse(text, "en", "constituency"), PARSE)
        brackets = None if isinstance(reply, str) or reply.key == PLANNED else reply.value.get("tree")
        try:
            return Parsed.of(text, brackets) if brackets else None
        except DataError:
            return None

    async def _analyse(self, text: str) -> tuple[Reply | str, Reply | str]:
        if text not in self._known:
            replies = asyncio.gather(
                self._call(Parse(text, "en", "constituency"), PARSE),
                self._call(Embed(text, tokens=True), EMBED),
            )
            self._known[text] = asyncio.ensure_future(replies)
        return await self._known[text]

    async def _call(self, request: Parse | Embed, role: str) -> Reply | str:
        """Return a helper's reply, or why it has none for this text.

        :raises BackendError: if the helper could not be called.
        """
        try:
            return await self._ask(request, role=role)
        except BackendError as error:
            if error.fatal or error.transient or error.kind not in _TEXT_ERRORS:
                raise
            return f"no {_OUTPUTS[role]} for {request.text[:60]!r}: {error.message}"


def _ready(text: str, parse: Reply | str, embedding: Reply | str) -> tuple[Parsed, Array]:
    """Return the tree and the vectors of its tokens.

    :raises DataError: if the parser or the encoder returned none.
    """
    if isinstance(parse, str):
        raise DataError(parse)
    if isinstance(embedding, str):
        raise DataError(embedding)
    if PLANNED in (parse.key, embedding.key):
        raise DataError("a plan has no trees")
    parse_value: Mapping[str, Any] = parse.value
    if not parse_value.get("tree"):
        raise DataError(
            f"no tree for {text[:60]!r}: {parse_value.get('missing', 'the parser returned none')}"
        )
    parsed = Parsed.of(text, parse_value["tree"])
    value: Mapping[str, Any] = embedding.value
    try:
        return parsed, token_vectors(parsed.spans, value["spans"], value["vectors"])
    except DataError as error:
        raise DataError(f"no vectors for {text[:60]!r}: {error}") from None
