"""Potential alignments that must cover both sentences: the alternative to Algorithm 1 (``oracle.alignment=covering``).

Algorithm 1 needs mappings that cover one of the sentences. With the default helpers, it finds alignments for nearly as
many pairs that are not equivalent as for equivalent ones, and not even for every sentence with itself. The differences:

- Both sentences must be covered by the mappings of one direction. What only one sentence says is left over.
- A path of one node maps, too. A word is then a phrase, so that a subject of one word can be covered.
- A mapping whose phrases contradict each other is left out: they differ in their numbers, only one of them is negated,
  or one is the agent of a verb and the other the patient.
- A mapping inside another one is left out: it covers nothing more.
- A mapping with a cosine below ``MIN_SIMILARITY`` is left out.

``docs/oracle-method.md`` has the measured shares of both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping, align, in_order, path_tops
from pytest_llmprops.benchmarks.oracle.items import EMBED, PARSE, Matching, Whole
from pytest_llmprops.benchmarks.oracle.trees import Array, Node, Parsed, Span, Tree, token_vectors
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply, Request

# Subjects, objects and agents of verbs, read from a constituency tree in the style of the Penn Treebank.
#
# They say who does something to whom. Phrase mappings must not change this (``covering``), and a minimal edit
# swaps it (``edits.minimal_edits``). Clauses of other shapes (questions, relative clauses without a subject) have
# no arguments here.

Role = Literal["agent", "patient"]
_BE = frozenset({"am", "are", "be", "been", "being", "is", "was", "were", "'m", "'re", "'s"})
_CLAUSES = frozenset({"S", "SINV", "SQ"})
#: last words of noun phrases that say when, such as "next week"; they are not objects
_TIMES = frozenset(
    [
        "afternoon", "day", "earlier", "evening", "friday", "later", "monday", "month", "morning", "night",
        "saturday", "sunday", "thursday", "time", "times", "today", "tomorrow", "tuesday", "wednesday", "week",
        "year", "yesterday",
    ]
)  # fmt: skip
_NOUN_PHRASES = frozenset({"NP", "NML"})


@dataclass(frozen=True, slots=True)
class Argument:
    """A noun phrase that is an argument of a verb.

    :param span: its tokens.
    :param verb: the token of the main verb.
    """

    span: Span
    role: Role
    verb: int


def arguments(tree: Tree) -> tuple[Argument, ...]:
    """Return the subjects, objects and agents ("by …") of all clauses. The subject of a passive is a patient."""
    return tuple(argument for node in tree.nodes for argument in _of_clause(tree, node))


def role_in(found: tuple[Argument, ...], span: Span) -> Role | None:
    """Return the role of the smallest argument that contains the span, or None."""
    around = [a for a in found if a.span[0] <= span[0] and span[1] <= a.span[1]]
    return min(around, key=lambda a: a.span[1] - a.span[0]).role if around else None


def _labels(node: Node) -> frozenset[str]:
    """Return the labels of a node, which may be a unary chain."""
    return frozenset(node.label.split("+"))


def _of_clause(tree: Tree, clause: Node) -> Iterator[Argument]:
    predicates = [child for child in clause.children if "VP" in _labels(child)]
    if not _labels(clause) & _CLAUSES or not predicates:
        return
    predicate = predicates[0]
    before = [c for c in clause.children if _labels(c) & _NOUN_PHRASES and c.end <= predicate.start]
    passive = False
    inner = predicate
    while True:
        words = [child for child in inner.children if not child.children] or [inner]
        verbs = [word.start for word in words if tree.tags[word.start].startswith("VB")]
        deeper = [child for child in inner.children if "VP" in _labels(child)]
        is_be = any(tree.tokens[verb].lower() in _BE for verb in verbs)
        if not deeper:
            break
        passive = is_be and _first_tag(tree, deeper[0]) == "VBN"
        inner = deeper[0]
    if not verbs:
        return
    verb = verbs[-1]
    if before:
        last = before[-1]
        yield Argument((last.start, last.end), "patient" if passive else "agent", verb)
    for child in inner.children:
        if child.start <= verb:
            continue
        if _labels(child) & _NOUN_PHRASES and not passive:
            if tree.tokens[child.end - 1].lower() not in _TIMES:
                yield Argument((child.start, child.end), "patient", verb)
            return
        if not passive and "PRT" not in _labels(child):
            return
        if passive and "PP" in _labels(child) and tree.tokens[child.start].lower() == "by":
            yield Argument((child.start + 1, child.end), "agent", verb)
            return


def _first_tag(tree: Tree, predicate: Node) -> str:
    """Return the tag of the first verb of a verb phrase."""
    tags = (tree.tags[token] for token in range(predicate.start, predicate.end))
    return next((tag for tag in tags if tag.startswith("VB")), "")


#: minimum cosine of a mapping; chosen on the built-in pairs and MSRP's training rows
MIN_SIMILARITY = 0.5
NEGATIONS = frozenset(
    ["cannot", "n't", "n’t", "neither", "never", "no", "nobody", "none", "nor", "not", "nothing", "without"]
)
#: "one" is left out, because it is often a pronoun
NUMBER_WORDS = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
_NUMBERS = {word: str(number) for number, word in enumerate(NUMBER_WORDS, 2)}
_NOT_NUMERIC = re.compile(r"[^\d.]")


def align_covering(
    first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array, *, whole: Whole = "bar"
) -> Alignments:
    """Return the potential alignments that cover both sentences, in both directions; see :func:`align`."""
    return align(first, second, first_vectors, second_vectors, whole=whole, mapped=_mappings)


def _mappings(source: Parsed, target: Parsed, similarity: Array) -> tuple[NodeMapping, ...]:
    tree, goal = source.tree, target.tree
    roles = arguments(tree), arguments(goal)
    distinct: set[NodeMapping] = set()
    for path, mapping in path_tops(tree, goal, similarity):
        # Nothing is asked about a single preposition or punctuation mark, which need not be covered.
        if len(path) == 1 and not tree.must_be_covered(tree.nodes[path[0]].start):
            continue
        if mapping.similarity >= MIN_SIMILARITY and not contradicts(source, target, mapping, roles):
            distinct.add(mapping)
    return in_order(m for m in distinct if not any(m != other and _includes(other, m) for other in distinct))


def _includes(mapping: NodeMapping, other: NodeMapping) -> bool:
    """Return True if the phrases of ``other`` are parts of the phrases of ``mapping``."""
    pairs = (mapping.source, other.source), (mapping.target, other.target)
    return all(span[0] <= part[0] and part[1] <= span[1] for span, part in pairs)


def contradicts(
    source: Parsed,
    target: Parsed,
    mapping: NodeMapping,
    roles: tuple[tuple[Argument, ...], tuple[Argument, ...]],
) -> bool:
    """Return True if the phrases of a mapping differ in numbers, negation, or who does something to whom.

    :param roles: the arguments of the source's and the target's verbs.
    """
    if numbers(source, mapping.source) != numbers(target, mapping.target):
        return True
    if is_negated(source, mapping.source) != is_negated(target, mapping.target):
        return True
    both = role_in(roles[0], mapping.source), role_in(roles[1], mapping.target)
    return None not in both and both[0] != both[1]


def numbers(sentence: Parsed, span: Span) -> frozenset[str]:
    """Return the numbers of a phrase: digits without separators of thousands, and the words from two to twenty."""
    tokens = sentence.tree.tokens[span[0] : span[1]]
    return frozenset(number for number in map(_number, tokens) if number)


def _number(token: str) -> str:
    return _NUMBERS.get(token.lower()) or _NOT_NUMERIC.sub("", token).strip(".")


def is_negated(sentence: Parsed, span: Span) -> bool:
    """Return True if a phrase has an odd number of negations."""
    tokens = sentence.tree.tokens[span[0] : span[1]]
    return sum(token.lower() in NEGATIONS for token in tokens) % 2 == 1


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
