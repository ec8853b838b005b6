"""From two sentences to their potential alignments, by the helpers ``parse`` and ``embed``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, align, token_vectors
from pytest_llmprops.benchmarks.oracle.trees import Parsed
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply

PARSE, EMBED = "parse", "embed"


class Aligner:
    """The alignments of pairs of sentences; each sentence is parsed and embedded once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: dict[str, asyncio.Future[tuple[Reply, Reply]]] = {}
        #: what made the trees and the vectors, for the evidence
        self.by = ""

    async def __call__(self, first: str, second: str) -> Alignments:
        """Potential alignments; none where a sentence has no tree or no vectors, and why.

        :raises BackendError: a helper could not be asked.
        """
        one, two = await asyncio.gather(self._analysed(first), self._analysed(second))
        try:
            trees, vectors = zip(_ready(first, *one), _ready(second, *two), strict=True)
        except DataError as error:
            return Alignments.without_trees(str(error))
        self.by = str(one[0].value["by"])
        return align(trees[0], trees[1], vectors[0], vectors[1])

    async def _analysed(self, text: str) -> tuple[Reply, Reply]:
        if text not in self._known:
            asked = asyncio.gather(
                self._ask(Parse(text, "en", "constituency"), role=PARSE),
                self._ask(Embed(text, tokens=True), role=EMBED),
            )
            self._known[text] = asyncio.ensure_future(asked)
        return await self._known[text]


def _ready(text: str, parse: Reply, embedding: Reply) -> tuple[Parsed, Any]:
    """The tree and the vectors of its tokens. :raises DataError: the parser or the encoder gave none."""
    if PLANNED in (parse.key, embedding.key):
        raise DataError("a plan has no trees")
    found: Mapping[str, Any] = parse.value
    if not found.get("tree"):
        raise DataError(f"no tree of {text[:60]!r}: {found.get('missing', 'the parser gave none')}")
    parsed = Parsed.of(text, found["tree"])
    value: Mapping[str, Any] = embedding.value
    spans = [(int(start), int(end)) for start, end in value["spans"]]
    vectors = np.asarray(value["vectors"], dtype=np.float32)
    return parsed, token_vectors(parsed.spans, spans, vectors)
