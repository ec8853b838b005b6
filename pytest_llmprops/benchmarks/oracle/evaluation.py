"""The measurement of one item, and the search for a counterexample, by the checkers of the oracle-checker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, align
from pytest_llmprops.benchmarks.oracle.covering import align_covering
from pytest_llmprops.benchmarks.oracle.equivalence import (
    EquivalenceChecker,
    Pair,
    own_paraphrase,
    self_consistency,
)
from pytest_llmprops.benchmarks.oracle.items import (
    CONSISTENCY,
    EMBED,
    LINEARITY,
    NO,
    OWN,
    PARSE,
    RANDOM,
    YES,
)
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
from pytest_llmprops.benchmarks.oracle.nulls import PREFIX, shallow
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle, verdict_of
from pytest_llmprops.benchmarks.oracle.search import linearity_search, pair_search_of
from pytest_llmprops.benchmarks.oracle.settings import RULES, Matching, OracleSettings
from pytest_llmprops.benchmarks.oracle.synonyms import Context
from pytest_llmprops.benchmarks.oracle.trees import Array, Parsed, token_vectors
from pytest_llmprops.core.benchmark import Ask, Measured, Searched
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply
from pytest_llmprops.core.verdicts import READ_BY, Verdict

#: helper -> its output, for messages
_OUTPUTS = {PARSE: "tree", EMBED: "vectors"}
#: kinds of errors caused by a text that a helper cannot process (too long, no tokens), not by the helper
_TEXT_ERRORS = frozenset({"request", "backend"})


#: sends a request to the helper of a role: the ``ask`` of a benchmark, or any function like it
AskHelper = Callable[..., Awaitable[Reply]]
#: a sentence with its tree, and the vectors of its tokens
_Ready = tuple[Parsed, Array]


class Aligner:
    """Computes alignments of pairs. Each sentence is parsed and embedded once, and each pair is aligned once.

    :param matching: ``printed`` is Algorithm 1, ``covering`` covers both sentences.
    """

    def __init__(self, ask: AskHelper, matching: Matching = "covering") -> None:
        self._ask = ask
        self._align = align_covering if matching == "covering" else align
        self._known: dict[str, asyncio.Future[_Ready | str]] = {}
        self._aligned: dict[tuple[str, str], Alignments] = {}

    async def __call__(self, first: str, second: str) -> Alignments:
        """Return the potential alignments, or why there are none: a sentence has no tree or no vectors.

        A text that a helper cannot process has none either. Paraphrases come from the model, so a paraphrase that is
        too long must not turn the case into an error.

        :raises BackendError: if a helper could not be called.
        """
        if (first, second) not in self._aligned:
            one, two = await asyncio.gather(self._analyse(first), self._analyse(second))
            self._aligned[first, second] = self._alignments(one, two)
        return self._aligned[first, second]

    def _alignments(self, one: _Ready | str, two: _Ready | str) -> Alignments:
        if isinstance(one, str) or isinstance(two, str):
            return Alignments(None, None, missing=one if isinstance(one, str) else str(two))
        (tree, vectors), (other, others) = one, two
        if vectors.shape[1] != others.shape[1]:
            sizes = f"{vectors.shape[1]} and {others.shape[1]}"
            missing = f"the encoder's vectors of two sentences have {sizes} numbers"
            return Alignments(None, None, missing=missing)
        return self._align(tree, other, vectors, others)

    async def _analyse(self, text: str) -> _Ready | str:
        if text not in self._known:
            self._known[text] = asyncio.ensure_future(self._analysis(text))
        return await self._known[text]

    async def _analysis(self, text: str) -> _Ready | str:
        """Return a text's tree and the vectors of its tokens, or why it has none."""
        replies = await asyncio.gather(
            self._call(Parse(text, "en", "constituency"), PARSE),
            self._call(Embed(text, tokens=True), EMBED),
        )
        try:
            return _ready(text, *replies)
        except DataError as error:
            return str(error)

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


def _ready(text: str, parse: Reply | str, embedding: Reply | str) -> _Ready:
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


async def evaluate(item: Item, context: Context, ask: Ask, protocol: Protocol[OracleSettings]) -> Verdict:
    """Return the verdict on one item: whether its checker accepts the model's answer."""
    settings = protocol.settings
    oracle = _oracle(ask, settings)
    rng = protocol.rng(item.id)
    if item.task == LINEARITY:
        # Only a user's own sentences have no labels; the others may be labelled with no entity.
        labels = None if item["domain"] == "own" else tuple(name for name, _ in item["entities"])
        extractor = LinearityChecker(settings, context.rules, context.pool)
        acceptance = await extractor.check(Sentence(item["text"], labels), oracle, rng)
        return _verdict(acceptance, {"rule": float(RULES.index(settings.rule))})
    align = Aligner(ask, settings.alignment)
    checker = EquivalenceChecker(settings, align, is_random=item.task == RANDOM)
    if item.task == OWN:
        return _verdict(await own_paraphrase(item["first"], oracle, checker, rng))
    pair = Pair(item["first"], item["second"], item["label"])
    if item.task == CONSISTENCY:
        return _verdict(await self_consistency(pair, oracle, settings.askings))
    acceptance = await checker.check(pair, oracle, rng)
    if item.task == RANDOM:
        verdict = _verdict(acceptance)
        if acceptance.values["said_yes"] == 1:
            return replace(
                verdict, status="wrong", score=0.0, reason=f"unrelated sentences: {acceptance.why}"
            )
        return verdict
    values = {PREFIX + name: number for name, number in shallow(pair.first, pair.second).items()}
    verdict = _verdict(acceptance, values)
    said = acceptance.values["said_yes"]
    return verdict if said < 0 else replace(verdict, task=YES if said else NO)


async def search(
    item: Item, context: Context, ask: Ask, protocol: Protocol[OracleSettings], measured: Measured, name: str
) -> Searched | str:
    """Return the search for a counterexample, or the reason why there is none."""
    settings, verdict = protocol.settings, await measured()
    if verdict.status != "correct":
        return f"its answer is {verdict.given}"
    oracle = _oracle(ask, settings)
    if name == LINEARITY:
        if not verdict.values.get("tests"):
            return verdict.reason
        checker = LinearityChecker(settings, context.rules, context.pool)
        return await linearity_search(checker, item["text"], oracle, protocol.rng(item.id))
    said = bool(verdict.values["said_yes"])
    return await pair_search_of(name, item["first"], item["second"], said, oracle, settings)


def _oracle(ask: Ask, settings: OracleSettings) -> Oracle:
    return Oracle(ask, temperature=settings.temperature, max_tokens=settings.max_tokens, json=settings.json)


def _verdict(acceptance: Acceptance, more_values: dict[str, float] | None = None) -> Verdict:
    """Return a checker's decision as a verdict, with ``more_values``."""
    verdict = verdict_of(acceptance)
    evidence = dict(verdict.evidence)
    # How an answer was read is not the cause if something after it could not be read or tested.
    is_read = acceptance.outcome in ("untested", "unmeasurable") or evidence.get("answer") in ("yes", "no")
    if verdict.status == "unparsed" and is_read:
        evidence.pop(READ_BY, None)
    return replace(verdict, values={**acceptance.values, **(more_values or {})}, evidence=evidence)
