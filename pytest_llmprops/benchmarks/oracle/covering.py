"""Potential alignments that must cover both sentences: the alternative to Algorithm 1 (``oracle.alignment=covering``).

Algorithm 1 needs mappings that cover one of the sentences, and it asks about pieces such as "It" and "the". Here, both
sentences are divided in the same way until the phrases are small:

1. A constituent of each sentence is detached: an adjunct, a clause or an argument, but never the head of what it
   belongs to. That gives two pairs of phrases: the detached ones, and what remains of the two sentences. A phrase may
   have gaps, and detached phrases may stand in another order. Of all divisions, the one is used whose two pairs are
   most similar and most alike in size.
2. Each pair is divided again, unless its phrases have the same words or at most ``SMALL`` content words.

Every word is in a phrase, so what only one sentence says is asked about with its phrase. The model is not asked about
phrases with the same words. If it refuses a pair, the pair that was divided is asked about instead. The whole sentences
are no pair, so sentences that cannot be divided have no alignment.

Arguments are the subjects, objects and agents of verbs, read from a constituency tree in Penn Treebank style. Clauses
of other shapes (questions, relative clauses without a subject) have none.

Two phrases are never paired if they contradict each other: each has a number that the other does not have, they differ
only in a negation, one is the agent of a verb and the other the patient, or they are arguments of different verbs.

``data/oracle/README.md`` has the measured shares of both.

:class:`Aligner` aligns two texts in either way, with the trees and vectors of helpers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pytest_llmprops.benchmarks.oracle.alignment import (
    Alignments,
    Array,
    Node,
    NodeMapping,
    Parsed,
    Span,
    Tokens,
    Tree,
    align,
    cosines,
    in_order,
    mean_of,
    token_vectors,
)
from pytest_llmprops.benchmarks.oracle.items import EMBED, PARSE
from pytest_llmprops.benchmarks.oracle.settings import Matching
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply

#: minimum cosine of detached phrases, and of what remains
MIN_SIMILARITY, MIN_REMAINING = 0.5, 0.4
#: added to the similarity of phrases with the same words
SAME_WORDS = 0.3
#: subtracted from the similarity, times the share of content words that the longer phrase has more, and its maximum
SIZE_PENALTY, MOST_UNEVEN = 0.5, 0.6
#: phrases with at most so many content words are not divided
SMALL = 4

Role = Literal["agent", "patient"]
_BE = frozenset({"am", "are", "be", "been", "being", "is", "was", "were", "'m", "'re", "'s"})
_CLAUSES = frozenset({"S", "SINV", "SQ"})
_NOUN_PHRASES = frozenset({"NP", "NML"})
NEGATIONS = frozenset(
    ["cannot", "n't", "n’t", "neither", "never", "no", "nobody", "none", "nor", "not", "nothing", "without"]
)
#: "one" is left out, because it is often a pronoun
_NUMBER_WORDS = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
_NUMBERS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS, 2)}
_NOT_NUMERIC = re.compile(r"[^\d.]")
#: the phrases of the two sentences
Pair = tuple[frozenset[int], frozenset[int]]


def align_covering(first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array) -> Alignments:
    """Return the potential alignments that cover both sentences. Both directions have the same mappings.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    """
    sides = [(first, first_vectors), (second, second_vectors)]
    # The order of the two sentences must not change the mappings.
    is_swapped = second.text < first.text
    one, two = (_Side(*side) for side in (reversed(sides) if is_swapped else sides))
    small, around = (
        in_order(m.turned if is_swapped else m for m in mappings) for mappings in _Division(one, two).result()
    )
    return Alignments(first, second, small, small, around=around)


class _Side:
    """A sentence, the vectors of its tokens, and its constituents that can be detached."""

    def __init__(self, parsed: Parsed, vectors: Array) -> None:
        self.parsed, self.tree, self.vectors = parsed, parsed.tree, vectors
        self.content = frozenset(t for t in range(len(self.tree.tokens)) if self.tree.is_content(t))
        self.arguments = arguments(self.tree)
        self.detachable = [
            (node, frozenset(node.tokens))
            for place, node in enumerate(self.tree.nodes)
            if place and self._is_detachable(place)
        ]

    def _is_detachable(self, place: int) -> bool:
        """Return True if what contains a constituent remains a phrase without it."""
        node, above = self.tree.nodes[place], self.tree.parents[place]
        around = self.tree.nodes[above]
        if "PP" in around.label.split("+") or not (node.children or is_nominal(self.tree, node)):
            return False
        head = head_of(self.tree, above)
        if is_nominal(self.tree, around):
            return head is not None and node.start >= head.end and bool(node.children)
        return node != head

    def argument(self, node: Node) -> Argument | None:
        """Return the smallest argument of a verb that contains a constituent."""
        around = [a for a in self.arguments if a.span[0] <= node.start and node.end <= a.span[1]]
        return min(around, key=lambda one: one.span[1] - one.span[0], default=None)

    def words(self, tokens: Collection[int]) -> tuple[str, ...]:
        """Return the words of a phrase in lower case."""
        return tuple(self.tree.tokens[t].lower() for t in sorted(tokens) if self.tree.is_word(t))

    def stems(self, tokens: Collection[int]) -> tuple[str, ...]:
        """Return the content words of a phrase, without negations."""
        words = (self.tree.tokens[token].lower() for token in sorted(self.content.intersection(tokens)))
        return tuple(word for word in words if word not in NEGATIONS)

    def trimmed(self, tokens: Collection[int]) -> Tokens:
        """Return a phrase without the punctuation at its ends and at the ends of its gaps."""
        kept = {*tokens}
        for ordered, step in ((sorted(kept), -1), (sorted(kept, reverse=True), 1)):
            for token in ordered:
                if token + step not in kept and not self.tree.is_word(token):
                    kept.discard(token)
        return tuple(sorted(kept))


class _Division:
    """Divides two sentences into pairs of phrases."""

    def __init__(self, one: _Side, two: _Side) -> None:
        self.one, self.two = one, two
        self.similarity = lru_cache(maxsize=None)(self._similarity)

    def result(self) -> tuple[list[NodeMapping], list[NodeMapping]]:
        """Return the smallest phrases, and those that were divided."""
        root = frozenset(range(len(self.one.tree.tokens))), frozenset(range(len(self.two.tree.tokens)))
        parts = self._parts(root)
        if parts is None:
            # Nothing is asked about the same words, and a sentence of one word has no other phrase.
            is_allowed = self._same(root) or min(map(len, root)) == 1
            is_pair = self.similarity(root) >= MIN_SIMILARITY and not self._contradict(root)
            return ([self._mapping(root)] if is_allowed and is_pair else []), []
        small: list[NodeMapping] = []
        around: list[NodeMapping] = []
        todo = [*parts]
        while todo:
            pair = todo.pop()
            inner = None if self._is_small(pair) else self._parts(pair)
            (around if inner else small).append(self._mapping(pair))
            todo += inner or ()
        return small, around

    def _mapping(self, pair: Pair) -> NodeMapping:
        return NodeMapping(self.one.trimmed(pair[0]), self.two.trimmed(pair[1]))

    def _is_small(self, pair: Pair) -> bool:
        return self._same(pair) or max(self._sizes(pair)) <= SMALL

    def _parts(self, pair: Pair) -> tuple[Pair, Pair] | None:
        """Return the best division of a pair: what is detached, and what remains; None if there is none."""
        ranked = sorted(self._divisions(pair), key=lambda found: found[0])
        parts = ((part, rest) for _, part, rest in ranked)
        return next((both for both in parts if not any(map(self._contradict, both))), None)

    def _divisions(self, pair: Pair) -> Iterator[tuple[float, Pair, Pair]]:
        """Yield each possible division with its rank; the lowest is the best."""
        for node, tokens in self.one.detachable:
            for other, others in self.two.detachable:
                part = tokens & pair[0], others & pair[1]
                rest = pair[0] - part[0], pair[1] - part[1]
                sizes = *self._sizes(part), *self._sizes(rest)
                if not min(sizes) or self._differ(node, other):
                    continue
                scores = [self._score(part, MIN_SIMILARITY), self._score(rest, MIN_REMAINING)]
                if None not in scores:
                    yield -round(sum(filter(None, scores)), 6), part, rest

    def _score(self, pair: Pair, minimum: float) -> float | None:
        """Return how well two phrases fit; None if they do not."""
        one, two = self._sizes(pair)
        unevenness = abs(one - two) / max(one, two)
        is_same, similarity = self._same(pair), self.similarity(pair)
        # What two different single words mean depends on the phrase around them.
        if similarity < minimum or unevenness > MOST_UNEVEN or (max(one, two) < 2 and not is_same):
            return None
        return similarity + SAME_WORDS * is_same - SIZE_PENALTY * unevenness

    def _sizes(self, pair: Pair) -> tuple[int, int]:
        """Return the number of content words of each phrase."""
        return len(pair[0] & self.one.content), len(pair[1] & self.two.content)

    def _same(self, pair: Pair) -> bool:
        return self.one.words(pair[0]) == self.two.words(pair[1])

    def _similarity(self, pair: Pair) -> float:
        """Return the cosine of the phrases' mean vectors; 0 if one has none."""
        sides = zip((self.one, self.two), pair, strict=True)
        return self._cosine(*(mean_of(side.vectors[sorted(tokens)]) for side, tokens in sides))

    def _cosine(self, one: Array, two: Array) -> float:
        cosine = float(cosines(one[None, :], two[None, :])[0, 0])
        return cosine if cosine == cosine else 0.0

    def _contradict(self, pair: Pair) -> bool:
        """Return True if two phrases cannot say the same, so that nothing is asked about them."""
        words = self.one.words(pair[0]), self.two.words(pair[1])
        numbers = [frozenset(filter(None, map(number_in, phrase))) for phrase in words]
        if numbers[0] - numbers[1] and numbers[1] - numbers[0]:
            return True
        negated = [sum(word in NEGATIONS for word in phrase) % 2 for phrase in words]
        return negated[0] != negated[1] and same_stems(self.one.stems(pair[0]), self.two.stems(pair[1]))

    def _differ(self, node: Node, other: Node) -> bool:
        """Return True if constituents of the two sentences do different things in them."""
        one, two = self.one, self.two
        kinds = {category(one.tree, node), category(two.tree, other)}
        if (len(kinds) > 1 and "other" not in kinds) or kinds == {"noun", "other"}:
            return True
        argument, counterpart = one.argument(node), two.argument(other)
        if argument is None or counterpart is None:
            return False
        return argument.role != counterpart.role or not self._same_verb(argument.verb, counterpart.verb)

    def _same_verb(self, verb: int, other: int) -> bool:
        """Return True if no verb with arguments is more similar to one of two verbs than the other one is."""
        cosine = self._cosine(self.one.vectors[verb], self.two.vectors[other])
        rivals = [self._cosine(self.one.vectors[verb], self.two.vectors[a.verb]) for a in self.two.arguments]
        rivals += [
            self._cosine(self.one.vectors[a.verb], self.two.vectors[other]) for a in self.one.arguments
        ]
        return cosine >= max(rivals) - 1e-6


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
        inner = deeper[0]
        tags = tree.tags[inner.start : inner.end]
        passive = is_be and next((tag for tag in tags if tag.startswith("VB")), "") == "VBN"
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
            yield Argument((child.start, child.end), "patient", verb)
            return
        if not passive and not _labels(child) & {"PRT", "RP"}:
            return
        if passive and "PP" in _labels(child) and tree.tokens[child.start].lower() == "by":
            yield Argument((child.start + 1, child.end), "agent", verb)
            return


def head_of(tree: Tree, place: int) -> Node | None:
    """Return the part of a constituent without which it is no phrase: a verb phrase or verb, or the noun."""
    node = tree.nodes[place]
    if is_nominal(tree, node):
        first: list[Node] = []
        for child in node.children:
            if not child.children or is_nominal(tree, child):
                first.append(child)
            elif any(is_nominal(tree, other) for other in first):
                break
        return next((c for c in reversed(first) if is_nominal(tree, c)), first[-1] if first else None)
    if not _labels(node) & (_CLAUSES | {"VP"}):
        return None
    phrases = [child for child in node.children if child.label.split("+")[0] == "VP"]
    verbs = [c for c in node.children if not c.children and tree.tags[c.start].startswith("VB")]
    return next(iter([*phrases, *verbs]), None)


def is_nominal(tree: Tree, node: Node) -> bool:
    """Return True for a noun phrase, a noun or a pronoun."""
    if not node.children:
        return tree.tags[node.start].startswith(("NN", "PRP", "NOUN", "PROPN", "PRON"))
    return node.label.split("+")[0] in _NOUN_PHRASES


def category(tree: Tree, node: Node) -> Literal["clause", "noun", "of", "other"]:
    """Return what kind of phrase a constituent is; ``of`` is a prepositional phrase with "of"."""
    if is_nominal(tree, node):
        return "noun"
    if tree.tokens[node.start].lower() == "of":
        return "of"
    return "clause" if node.label.split("+")[0] in _CLAUSES | {"SBAR", "VP"} else "other"


def same_stems(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True if the words are the same, except for their endings ("rises", "rise"; "make", "made")."""
    left = list(second)
    for word in first:
        twin = next((other for other in left if _is_form_of(word, other)), None)
        if twin is None:
            return False
        left.remove(twin)
    return not left


def _is_form_of(word: str, other: str) -> bool:
    common = max(2, min(len(word), len(other)) - 3)
    return word[:common] == other[:common]


@lru_cache(maxsize=4096)
def number_in(word: str) -> str:
    """Return the digits of a number, without separators of thousands, also for "two" to "twenty"; otherwise empty."""
    return _NUMBERS.get(word) or _NOT_NUMERIC.sub("", word).strip(".")


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
