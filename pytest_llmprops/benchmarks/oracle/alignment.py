"""Alignments of two sentences: phrase mappings, and what they cover (Zeng et al., section 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.items import Whole
from pytest_llmprops.benchmarks.oracle.trees import Array, Parsed, Tokens, Tree, cosines, node_vectors


@dataclass(frozen=True, slots=True)
class NodeMapping:
    """A phrase mapping in one direction, from tokens of the source to tokens of the target, in order.

    :param similarity: the cosine of the two phrases' vectors.
    """

    source: Tokens
    target: Tokens
    similarity: float = field(default=1.0, compare=False)


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """The texts of a mapping. The first sentence's phrase is first, whatever the direction."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Rho:
    """Which of the four alignments of section 4.3 hold.

    :param forward: mappings from the first sentence to the second cover the first.
    :param forward_star: mappings from the first sentence to the second cover the second.
    :param backward: mappings from the second sentence to the first cover the second.
    :param backward_star: mappings from the second sentence to the first cover the first.
    :param both: a direction aligns the sentences only if it covers both of them. Otherwise, one is enough.
    """

    forward: bool = False
    forward_star: bool = False
    backward: bool = False
    backward_star: bool = False
    both: bool = False

    @property
    def aligns_forward(self) -> bool:
        """True if the mappings from the first sentence to the second align them."""
        return self._enough(self.forward, self.forward_star)

    @property
    def aligns_backward(self) -> bool:
        """True if the mappings from the second sentence to the first align them."""
        return self._enough(self.backward, self.backward_star)

    def _enough(self, own: bool, star: bool) -> bool:
        return own and star if self.both else own or star

    @property
    def phi_or(self) -> bool:
        """True if at least one direction aligns the sentences."""
        return self.aligns_forward or self.aligns_backward

    @property
    def phi_and(self) -> bool:
        """True if each direction aligns the sentences."""
        return self.aligns_forward and self.aligns_backward


@dataclass(frozen=True, slots=True)
class Alignments:
    """The mappings between two sentences in both directions. They are potential until an oracle confirms them.

    :param forward: mappings from the first sentence to the second.
    :param backward: mappings from the second sentence to the first.
    :param missing: why there are no trees, in one phrase. Nothing is aligned then.
    :param both: the mappings of one direction must cover both sentences (see ``Rho``).
    :param around: mappings from the first sentence to the second of larger phrases. They can replace those inside them.
    """

    first: Parsed | None
    second: Parsed | None
    forward: tuple[NodeMapping, ...] = ()
    backward: tuple[NodeMapping, ...] = ()
    missing: str = ""
    both: bool = False
    around: tuple[NodeMapping, ...] = ()

    @classmethod
    def without_trees(cls, missing: str) -> Alignments:
        """Return empty alignments for sentences without trees or vectors; ``missing`` says which, and why."""
        return cls(None, None, missing=missing)

    @property
    def rho(self) -> Rho:
        """The alignments that these mappings result in."""
        if self.first is None or self.second is None:
            return Rho()
        return Rho(
            _complete(_required(self.first), [m.source for m in self.forward]),
            _complete(_required(self.second), [m.target for m in self.forward]),
            _complete(_required(self.second), [m.source for m in self.backward]),
            _complete(_required(self.first), [m.target for m in self.backward]),
            self.both,
        )

    @property
    def strength(self) -> float:
        """The smallest cosine of the mappings that align the sentences, of the better direction; 0 if none does."""
        rho = self.rho
        directions = ((rho.aligns_forward, self.forward), (rho.aligns_backward, self.backward))
        return max(
            (min(m.similarity for m in found) for aligned, found in directions if aligned), default=0.0
        )

    def pair_of(self, mapping: NodeMapping, *, backward: bool) -> PhrasePair:
        """Return the texts of one of the mappings.

        :raises ValueError: if there are no trees.
        """
        if self.first is None or self.second is None:
            raise ValueError("no phrase without trees: " + self.missing)
        phrases = (mapping.target, mapping.source) if backward else (mapping.source, mapping.target)
        return PhrasePair(self.first.text_of(phrases[0]), self.second.text_of(phrases[1]))

    def pairs(self, *, aligned_only: bool = False) -> tuple[PhrasePair, ...]:
        """Return the distinct phrase pairs in order, forward first.

        :param aligned_only: only pairs of directions that align the sentences.
        """
        rho = self.rho
        pairs: dict[PhrasePair, None] = {}
        if not aligned_only or rho.aligns_forward:
            pairs |= {self.pair_of(m, backward=False): None for m in self.forward}
        if not aligned_only or rho.aligns_backward:
            pairs |= {self.pair_of(m, backward=True): None for m in self.backward}
        return tuple(pairs)

    def without(self, refused: Iterable[PhrasePair]) -> Alignments:
        """Return the alignments without the refused phrase pairs."""
        removed = frozenset(refused)
        return replace(
            self,
            forward=tuple(m for m in self.forward if self.pair_of(m, backward=False) not in removed),
            backward=tuple(m for m in self.backward if self.pair_of(m, backward=True) not in removed),
        )

    def widened(self, refused: Iterable[PhrasePair]) -> Alignments:
        """Return the alignments with the next larger phrases instead of the refused ones, where there are any."""
        removed = frozenset(refused)
        larger = [
            min(around, key=lambda m: len(m.source) + len(m.target))
            for mapping in self.forward
            if self.pair_of(mapping, backward=False) in removed
            if (around := [m for m in self.around if m != mapping and includes(m, mapping)])
        ]
        new = [m for m in larger if not any(m != other and includes(other, m) for other in larger)]
        kept = [m for m in self.forward if not any(includes(other, m) for other in new)]
        forward = in_order({*kept, *new})
        return replace(self, forward=forward, backward=turned(forward)) if new else self

    @property
    def leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words of each sentence that are not aligned with the other, as in tables 12 and 14.

        Each sentence's own mappings count. If a direction must cover both sentences, those count of
        the direction that leaves out less.
        """
        if self.first is None or self.second is None:
            return (), ()
        ways = (
            ([m.source for m in self.forward], [m.target for m in self.forward]),
            ([m.target for m in self.backward], [m.source for m in self.backward]),
        )
        if not self.both:
            ways = ((ways[0][0], ways[1][1]),) * 2
        words = [(_left_over(self.first, first), _left_over(self.second, second)) for first, second in ways]
        return min(words, key=lambda left: sum(len(run.split()) for sentence in left for run in sentence))


def _required(sentence: Parsed) -> list[bool]:
    """Return, for each token, whether the mappings must cover it."""
    return [sentence.tree.must_be_covered(token) for token in range(len(sentence.tree.tokens))]


def _left_over(sentence: Parsed, phrases: Iterable[Tokens]) -> tuple[str, ...]:
    return sentence.uncovered(covered(len(sentence.tree.tokens), phrases), _required(sentence))


def includes(mapping: NodeMapping, other: NodeMapping) -> bool:
    """Return True if the phrases of ``other`` are parts of the phrases of ``mapping``."""
    return {*other.source} <= {*mapping.source} and {*other.target} <= {*mapping.target}


def turned(mappings: Iterable[NodeMapping]) -> tuple[NodeMapping, ...]:
    """Return the mappings in the other direction."""
    return in_order(replace(m, source=m.target, target=m.source) for m in mappings)


def covered(count: int, phrases: Iterable[Tokens]) -> list[bool]:
    """Return, for each of ``count`` tokens, whether one of the phrases contains it."""
    inside = {token for phrase in phrases for token in phrase}
    return [token in inside for token in range(count)]


def _complete(required: Sequence[bool], phrases: Sequence[Tokens]) -> bool:
    """Return ``align()``: whether there are mappings, and they contain every token that must be covered."""
    inside = covered(len(required), phrases)
    return bool(phrases) and not any(
        must and not is_inside for must, is_inside in zip(required, inside, strict=True)
    )


# Algorithm 1: phrase mappings between two sentences, from their trees (Zeng et al., section 4.3).
#
# The paper leaves some details open. This module decides them as follows:
#
# - The vector of a node is the mean of its tokens' vectors in the sentence; similarity is the cosine. Among equally
#   similar nodes, the smaller one is used, then the leftmost.
# - A token and its part of speech are one leaf, and a unary chain is one node (see ``trees``).
# - The root cannot be part of a path, "to avoid matching the entire sentence". For the same reason, neither can a node
#   that covers everything except punctuation. As in the paper, this applies only to the source sentence, except with
#   ``whole="bar"``: no phrase is mapped to the whole target either.
# - A word whose node is a child of the root has no path of two nodes, so it can never be covered. A sentence with a
#   pronoun as its subject therefore has no alignment in that direction, not even with itself. Tables 12 and 14 show the
#   same (``But he``, ``Another`` and ``Meanwhile`` are left over).
# - Punctuation counts as covered, and so does a leftover preposition (``Tree.must_be_covered``).

#: cosines closer than this are ties, because means of equal token vectors may differ by rounding
TIE = 1e-6


def align(
    first: Parsed,
    second: Parsed,
    first_vectors: Array,
    second_vectors: Array,
    *,
    whole: Whole = "allow",
) -> Alignments:
    """Return the potential alignments of two sentences in both directions, by Algorithm 1.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :param whole: whether a phrase may be mapped to the whole other sentence, as in Algorithm 1.
    :raises ValueError: if there is not one vector per token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    forward, backward = targets(similarity, second.tree, whole), targets(similarity.T, first.tree, whole)
    return Alignments(first, second, mappings(first, second, forward), mappings(second, first, backward))


def targets(similarity: Array, target: Tree, whole: Whole) -> Array:
    """Return the similarities to the nodes that may be matched; those to the whole target are NaN if it is barred.

    The only word of a sentence is not barred, because the sentence has no other node.

    :param similarity: shape (source nodes, target nodes).
    """
    import numpy as np

    if whole == "allow":
        return similarity
    barred = [bool(node.children) and target.is_whole(place) for place, node in enumerate(target.nodes)]
    return np.where(np.array(barred), np.nan, similarity)


def mappings(source: Parsed, target: Parsed, similarity: Array) -> tuple[NodeMapping, ...]:
    """Return the distinct phrase mappings at the tops of all matching paths, by start, the longer first.

    :param similarity: shape (source nodes, target nodes); NaN is never the most similar.
    """
    edges = most_similar(similarity, target.tree)
    distinct = set()
    for leaf in source.tree.leaves:
        path = matching_path(source.tree, target.tree, edges, leaf)
        if len(path) >= 2:
            top, match = source.tree.nodes[path[-1]], target.tree.nodes[edges[path[-1]]]
            cosine = float(similarity[path[-1], edges[path[-1]]])
            distinct.add(NodeMapping(top.tokens, match.tokens, cosine))
    return in_order(distinct)


def in_order(distinct: Iterable[NodeMapping]) -> tuple[NodeMapping, ...]:
    """Return mappings by start, the longer first."""
    return tuple(sorted(distinct, key=lambda m: (m.source[0], -len(m.source), m.target)))


def most_similar(similarity: Array, target: Tree) -> list[int]:
    """Return the matching graph: for each source node, the index of the most similar target node, or -1.

    Ties (within ``TIE``) go to the node with fewer tokens, then to the leftmost, then to the deeper one.

    :raises ValueError: if the matrix does not have one column per target node.
    """
    import numpy as np

    if similarity.ndim != 2 or similarity.shape[1] != len(target.nodes):
        raise ValueError(
            f"similarities of shape {similarity.shape} for {len(target.nodes)} nodes of the target"
        )
    nodes = target.nodes
    preferred = sorted(range(len(nodes)), key=lambda place: (nodes[place].size, nodes[place].start, -place))
    known = np.where(np.isnan(similarity), -np.inf, similarity)[:, preferred]
    best = known.max(axis=1, keepdims=True)
    # argmax returns the first True, which is the preferred column.
    chosen = (known >= best - TIE).argmax(axis=1)
    return [
        preferred[column] if np.isfinite(highest) else -1
        for column, highest in zip(chosen, best[:, 0], strict=True)
    ]


def matching_path(source: Tree, target: Tree, edges: Sequence[int], leaf: int) -> tuple[int, ...]:
    """Return ``matchingpath(U, V, x)``: the indices of the nodes from the leaf upwards, including the leaf.

    The path continues to the parent of a node if the parent's edge leads to the parent of the node's match, and the
    parent does not cover the whole sentence. The node must have a sibling, which it has in a tree without unary chains.
    A path of one node maps nothing. A leaf without an edge has an empty path.
    """
    path = [leaf]
    if edges[leaf] < 0:
        return ()
    while True:
        place = path[-1]
        parent, match = source.parents[place], target.parents[edges[place]]
        if parent < 0 or match < 0 or edges[parent] != match or source.is_whole(parent):
            break
        path.append(parent)
    return tuple(path)
