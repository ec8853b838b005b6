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

Two phrases are never paired if they contradict each other: each has a number that the other does not have, they differ
only in a negation, one is the agent of a verb and the other the patient, they are arguments of different verbs, or one
is an argument of a verb and the other a prepositional phrase.

``data/oracle/README.md`` has the measured shares of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping, in_order, turned
from pytest_llmprops.benchmarks.oracle.items import Whole
from pytest_llmprops.benchmarks.oracle.phrases import (
    NEGATIONS,
    Argument,
    arguments,
    category,
    head_of,
    inside,
    is_nominal,
    is_oblique,
    number_in,
    same_stems,
)
from pytest_llmprops.benchmarks.oracle.trees import Array, Node, Parsed, Tokens, cosines

#: minimum cosine of detached phrases, and of what remains
MIN_SIMILARITY, MIN_REMAINING = 0.5, 0.4
#: added to the similarity of phrases with the same words
SAME_WORDS = 0.3
#: subtracted from the similarity, times the share of content words that the longer phrase has more, and its maximum
SIZE_PENALTY, MOST_UNEVEN = 0.5, 0.6
#: phrases with at most so many content words are not divided
SMALL = 4

#: the phrases of the two sentences
Pair = tuple[frozenset[int], frozenset[int]]


def align_covering(
    first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array, *, whole: Whole = "bar"
) -> Alignments:
    """Return the potential alignments that cover both sentences. Both directions have the same mappings.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :param whole: whether the two whole sentences are a phrase pair if they cannot be divided.
    :raises ValueError: if there is not one vector per token.
    """
    for sentence, vectors in ((first, first_vectors), (second, second_vectors)):
        if len(vectors) != len(sentence.tree.tokens):
            raise ValueError(f"{len(vectors)} vectors for {len(sentence.tree.tokens)} tokens: one per token")
    sides = [(first, first_vectors), (second, second_vectors)]
    # The order of the two sentences must not change the mappings.
    is_swapped = second.text < first.text
    one, two = (_Side(*side) for side in (reversed(sides) if is_swapped else sides))
    small, around = _Division(one, two, whole).result()
    if is_swapped:
        small, around = turned(small), turned(around)
    return Alignments(first, second, small, turned(small), both=True, around=around)


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
        around = [one for one in self.arguments if inside((node.start, node.end), one.span)]
        return min(around, key=lambda one: one.span[1] - one.span[0], default=None)

    def words(self, tokens: Collection[int]) -> tuple[str, ...]:
        """Return the words of a phrase in lower case."""
        return tuple(self.tree.tokens[t].lower() for t in sorted(tokens) if self.tree.is_word(t))

    def stems(self, tokens: Collection[int]) -> tuple[str, ...]:
        """Return the content words of a phrase, without negations."""
        words = (self.tree.tokens[token].lower() for token in sorted(self.content.intersection(tokens)))
        return tuple(word for word in words if word not in NEGATIONS)

    def mean(self, tokens: Collection[int]) -> Array:
        """Return the mean vector of a phrase's tokens, without those that have none."""
        known: Array = self.vectors[sorted(tokens)]
        known = known[known.any(axis=1)]
        mean: Array = known.mean(axis=0) if len(known) else self.vectors[0] * 0
        return mean

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

    def __init__(self, one: _Side, two: _Side, whole: Whole) -> None:
        self.one, self.two, self.whole = one, two, whole
        self.similarity = lru_cache(maxsize=None)(self._similarity)

    def result(self) -> tuple[tuple[NodeMapping, ...], tuple[NodeMapping, ...]]:
        """Return the smallest phrases, and those that were divided."""
        root = frozenset(range(len(self.one.tree.tokens))), frozenset(range(len(self.two.tree.tokens)))
        parts = self._parts(root)
        if parts is None:
            # Nothing is asked about the same words, and a sentence of one word has no other phrase.
            is_allowed = self.whole == "allow" or self._same(root) or min(map(len, root)) == 1
            is_pair = self.similarity(root) >= MIN_SIMILARITY and not self._contradict(root)
            return ((self._mapping(root),) if is_allowed and is_pair else ()), ()
        small: list[Pair] = []
        around: list[Pair] = []
        todo = [*parts]
        while todo:
            pair = todo.pop()
            if inner := None if self._is_small(pair) else self._parts(pair):
                around.append(pair)
                todo += inner
            else:
                small.append(pair)
        return in_order(map(self._mapping, small)), in_order(map(self._mapping, around))

    def _mapping(self, pair: Pair) -> NodeMapping:
        return NodeMapping(self.one.trimmed(pair[0]), self.two.trimmed(pair[1]), self.similarity(pair))

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
        return self._cosine(self.one.mean(pair[0]), self.two.mean(pair[1]))

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
            is_argument = [
                a is not None and a.span == (n.start, n.end)
                for a, n in ((argument, node), (counterpart, other))
            ]
            return (is_argument[0] and is_oblique(two.tree, other)) or (
                is_argument[1] and is_oblique(one.tree, node)
            )
        return argument.role != counterpart.role or not self._same_verb(argument.verb, counterpart.verb)

    def _same_verb(self, verb: int, other: int) -> bool:
        """Return True if no verb with arguments is more similar to one of two verbs than the other one is."""
        cosine = self._cosine(self.one.vectors[verb], self.two.vectors[other])
        rivals = [self._cosine(self.one.vectors[verb], self.two.vectors[a.verb]) for a in self.two.arguments]
        rivals += [
            self._cosine(self.one.vectors[a.verb], self.two.vectors[other]) for a in self.one.arguments
        ]
        return cosine >= max(rivals) - 1e-6
