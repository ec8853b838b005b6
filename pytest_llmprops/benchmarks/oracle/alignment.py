"""Alignments of two sentences: phrase mappings, and what they cover (Zeng et al., section 4.3), by Algorithm 1.

The paper leaves some details of Algorithm 1 open. This module decides them as follows:

- The vector of a node is the mean of its tokens' vectors in the sentence; similarity is the cosine. Among equally
  similar nodes, the smaller one is used, then the leftmost.
- A token and its part of speech are one leaf, and a unary chain is one node (see ``trees``).
- The root cannot be part of a path, "to avoid matching the entire sentence". For the same reason, neither can a node
  that covers everything except punctuation. As in the paper, this applies only to the source sentence.
- A word whose node is a child of the root has no path of two nodes, so it can never be covered. A sentence with a
  pronoun as its subject therefore has no alignment in that direction, not even with itself. Tables 12 and 14 show the
  same (``But he``, ``Another`` and ``Meanwhile`` are left over).
- Punctuation counts as covered, and so does a leftover preposition (``Tree.must_be_covered``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_llmprops.benchmarks.oracle.settings import Phi
from pytest_llmprops.benchmarks.oracle.trees import Array, Parsed, Tokens, Tree, cosines, node_vectors

#: cosines closer than this are ties, because means of equal token vectors may differ by rounding
TIE = 1e-6


@dataclass(frozen=True, slots=True)
class NodeMapping:
    """A phrase of the first sentence and one of the second, as tokens in order. Either may have been mapped."""

    first: Tokens
    second: Tokens

    def includes(self, other: NodeMapping) -> bool:
        """Return True if the phrases of ``other`` are parts of these phrases."""
        return {*other.first} <= {*self.first} and {*other.second} <= {*self.second}

    @property
    def turned(self) -> NodeMapping:
        """The same mapping with the sentences in the other order."""
        return NodeMapping(self.second, self.first)


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """The texts of a mapping."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Rho:
    """Which directions align the sentences: their mappings cover one of the two (section 4.3)."""

    forward: bool = False
    backward: bool = False

    @property
    def phi_or(self) -> bool:
        """True if at least one direction aligns the sentences."""
        return self.forward or self.backward

    @property
    def phi_and(self) -> bool:
        """True if each direction aligns the sentences."""
        return self.forward and self.backward

    def holds(self, phi: Phi) -> bool:
        """Return True if the alignments of this kind hold."""
        return self.phi_or if phi == "or" else self.phi_and


@dataclass(frozen=True, slots=True)
class Alignments:
    """The mappings between two sentences. They are potential until an oracle confirms them.

    :param forward: from the first sentence to the second.
    :param backward: from the second sentence to the first.
    :param missing: why there are no trees, in one phrase. Nothing is aligned then.
    :param around: mappings of larger phrases. They can replace those inside them, in both directions.
    """

    first: Parsed | None
    second: Parsed | None
    forward: tuple[NodeMapping, ...] = ()
    backward: tuple[NodeMapping, ...] = ()
    missing: str = ""
    around: tuple[NodeMapping, ...] = ()

    @property
    def rho(self) -> Rho:
        """The directions that align the sentences."""
        return Rho(self._covers_one(self.forward), self._covers_one(self.backward))

    def _covers_one(self, mappings: Collection[NodeMapping]) -> bool:
        """Return True if the mappings contain every token of a sentence that must be covered."""
        return bool(mappings) and not all(self._left_over(mappings, mappings))

    def _left_over(
        self, of_first: Iterable[NodeMapping], of_second: Iterable[NodeMapping]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.first is None or self.second is None:
            return (), ()
        return self.first.left_over(m.first for m in of_first), self.second.left_over(
            m.second for m in of_second
        )

    @property
    def leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words of each sentence that its own mappings do not align with the other one, as in tables 12 and 14."""
        return self._left_over(self.forward, self.backward)

    def pair_of(self, mapping: NodeMapping) -> PhrasePair:
        """Return the texts of one of the mappings.

        :raises ValueError: if there are no trees.
        """
        if self.first is None or self.second is None:
            raise ValueError("no phrase without trees: " + self.missing)
        return PhrasePair(self.first.text_of(mapping.first), self.second.text_of(mapping.second))

    @property
    def pairs(self) -> tuple[PhrasePair, ...]:
        """The distinct phrase pairs of the directions that align the sentences, in order, forward first."""
        rho = self.rho
        mappings = (*(self.forward if rho.forward else ()), *(self.backward if rho.backward else ()))
        return tuple(dict.fromkeys(map(self.pair_of, mappings)))

    def without(self, refused: Collection[PhrasePair]) -> Alignments:
        """Return the alignments without the refused phrase pairs."""
        forward, backward = (
            tuple(m for m in mappings if self.pair_of(m) not in refused)
            for mappings in (self.forward, self.backward)
        )
        return replace(self, forward=forward, backward=backward)

    def widened(self, refused: Collection[PhrasePair]) -> Alignments:
        """Return the alignments with the next larger phrases instead of the refused ones, where there are any."""
        larger = [
            min(around, key=lambda m: len(m.first) + len(m.second))
            for mapping in self.forward
            if self.pair_of(mapping) in refused
            if (around := [m for m in self.around if m != mapping and m.includes(mapping)])
        ]
        new = [m for m in larger if not any(m != other and other.includes(m) for other in larger)]
        if not new:
            return self
        kept = [m for m in self.forward if not any(other.includes(m) for other in new)]
        both = in_order({*kept, *new})
        return replace(self, forward=both, backward=both)


def in_order(mappings: Iterable[NodeMapping]) -> tuple[NodeMapping, ...]:
    """Return mappings by start, the longer first."""
    return tuple(sorted(mappings, key=lambda m: (m.first[0], -len(m.first), m.second)))


def align(first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array) -> Alignments:
    """Return the potential alignments of two sentences in both directions, by Algorithm 1.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :raises ValueError: if there is not one vector per token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    forward = _mappings(first.tree, second.tree, similarity)
    backward = (m.turned for m in _mappings(second.tree, first.tree, similarity.T))
    return Alignments(first, second, in_order(forward), in_order(backward))


def _mappings(source: Tree, target: Tree, similarity: Array) -> set[NodeMapping]:
    """Return the phrase mappings at the tops of all matching paths.

    :param similarity: shape (source nodes, target nodes); NaN is never the most similar.
    """
    edges = most_similar(similarity, target)
    paths = (matching_path(source, target, edges, leaf) for leaf in source.leaves)
    tops = {path[-1] for path in paths if len(path) >= 2}
    return {NodeMapping(source.nodes[top].tokens, target.nodes[edges[top]].tokens) for top in tops}


def most_similar(similarity: Array, target: Tree) -> list[int]:
    """Return the matching graph: for each source node, the index of the most similar target node, or -1.

    Ties (within ``TIE``) go to the node with fewer tokens, then to the leftmost, then to the deeper one.

    :param similarity: shape (source nodes, target nodes).
    """
    import numpy as np

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
