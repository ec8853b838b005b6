"""Algorithm 1: phrase mappings between two sentences, from their trees (Zeng et al., section 4.3).

The paper leaves some details open. This module decides them as follows:

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_llmprops.benchmarks.oracle.trees import Parsed, Span, Tree
from pytest_llmprops.core.errors import DataError

Array = npt.NDArray[np.floating[Any]]

#: cosines closer than this are ties, because means of equal token vectors may differ by rounding
TIE = 1e-6


@dataclass(frozen=True, slots=True)
class Mapping:
    """A phrase mapping in one direction, from tokens of the source to tokens of the target."""

    source: Span
    target: Span


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
    """

    forward: bool = False
    forward_star: bool = False
    backward: bool = False
    backward_star: bool = False

    @property
    def phi_or(self) -> bool:
        """Whether any of the four alignments holds."""
        return self.forward or self.forward_star or self.backward or self.backward_star

    @property
    def phi_and(self) -> bool:
        """Whether at least one alignment holds in each direction."""
        return (self.forward or self.forward_star) and (self.backward or self.backward_star)


@dataclass(frozen=True, slots=True)
class Alignments:
    """The mappings between two sentences in both directions. They are potential until an oracle confirms them.

    :param forward: mappings from the first sentence to the second.
    :param backward: mappings from the second sentence to the first.
    :param missing: why there are no trees, in one phrase. Nothing is aligned then.
    """

    first: Parsed | None
    second: Parsed | None
    forward: tuple[Mapping, ...] = ()
    backward: tuple[Mapping, ...] = ()
    missing: str = ""

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
            _complete(self.first.tree, [m.source for m in self.forward]),
            _complete(self.second.tree, [m.target for m in self.forward]),
            _complete(self.second.tree, [m.source for m in self.backward]),
            _complete(self.first.tree, [m.target for m in self.backward]),
        )

    def pair_of(self, mapping: Mapping, *, backward: bool) -> PhrasePair:
        """Return the texts of one of the mappings.

        :raises ValueError: if there are no trees.
        """
        if self.first is None or self.second is None:
            raise ValueError("no phrase without trees: " + self.missing)
        spans = (mapping.target, mapping.source) if backward else (mapping.source, mapping.target)
        return PhrasePair(self.first.phrase(spans[0]), self.second.phrase(spans[1]))

    def pairs(self, *, aligned_only: bool = False) -> tuple[PhrasePair, ...]:
        """Return the distinct phrase pairs in order, forward first.

        :param aligned_only: only pairs of directions that cover a sentence.
        """
        rho = self.rho
        pairs: dict[PhrasePair, None] = {}
        if not aligned_only or rho.forward or rho.forward_star:
            pairs |= {self.pair_of(m, backward=False): None for m in self.forward}
        if not aligned_only or rho.backward or rho.backward_star:
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

    @property
    def leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words of each sentence that are not aligned with the other, as in tables 12 and 14."""
        if self.first is None or self.second is None:
            return (), ()
        return (
            self.first.uncovered(covered(len(self.first.tree.tokens), [m.source for m in self.forward])),
            self.second.uncovered(covered(len(self.second.tree.tokens), [m.source for m in self.backward])),
        )


def covered(count: int, spans: Iterable[Span]) -> list[bool]:
    """Return whether one of the spans contains the token, for each of ``count`` tokens."""
    flags = [False] * count
    for start, end in spans:
        flags[start:end] = [True] * (end - start)
    return flags


def _complete(tree: Tree, spans: Sequence[Span]) -> bool:
    """Return ``align()``: whether there are mappings, and they contain every token that must be covered."""
    inside = covered(len(tree.tokens), spans)
    return bool(spans) and all(
        inside[token] or not tree.must_be_covered(token) for token in range(len(tree.tokens))
    )


def align(first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array) -> Alignments:
    """Return the potential alignments of two sentences, in both directions.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :raises ValueError: if there is not one vector per token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    return Alignments(
        first,
        second,
        mappings(first.tree, second.tree, similarity),
        mappings(second.tree, first.tree, similarity.T),
    )


def token_vectors(spans: Sequence[Span], pieces: Sequence[Sequence[int]], vectors: npt.ArrayLike) -> Array:
    """Return the vectors of words: the mean of the vectors of the encoder's pieces that overlap a word.

    :param spans: [start, end) of each word, in characters.
    :param pieces: [start, end) of each piece, in characters.
    :param vectors: of the pieces, shape (pieces, size).
    :return: shape (words, size), float64. A word without a piece (unknown to the encoder) is all zeros, and nothing is
        similar to it.
    :raises DataError: if there are no pieces, or not one vector per piece, or the vectors differ in size.
    """
    try:
        values, piece_spans = np.asarray(vectors, dtype=np.float64), np.asarray(pieces, dtype=np.int64)
    except (TypeError, ValueError):
        raise DataError(
            "the encoder's spans or vectors are not numbers, or not all of the same size"
        ) from None
    if not len(pieces):
        raise DataError("the encoder returned no tokens")
    if (
        piece_spans.shape != (len(pieces), 2)
        or values.ndim != 2
        or len(values) != len(pieces)
        or not values.size
    ):
        raise DataError(
            f"the encoder returned spans of shape {piece_spans.shape} and vectors of shape {values.shape}: it must"
            " return [start, end) and one vector for each token"
        )
    starts, ends = piece_spans.T
    means = np.zeros((len(spans), values.shape[1]))
    for word, (start, end) in enumerate(spans):
        inside = (starts < end) & (ends > start)
        if inside.any():
            means[word] = values[inside].mean(axis=0)
    return means


def node_vectors(tree: Tree, vectors: Array) -> Array:
    """Return the mean vector of each node's tokens, in the order of ``tree.nodes``: (tokens, size) -> (nodes, size).

    Tokens that are all zeros have no vector and are left out of the mean.

    :raises ValueError: if there is not one vector per token.
    """
    values = np.asarray(vectors, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(tree.tokens):
        raise ValueError(
            f"token vectors of shape {values.shape} for {len(tree.tokens)} tokens: there must be one per token"
        )
    means = np.zeros((len(tree.nodes), values.shape[1]))
    for place, node in enumerate(tree.nodes):
        inside = values[node.start : node.end]
        inside = inside[inside.any(axis=1)]
        if len(inside):
            means[place] = inside.mean(axis=0)
    return means


def cosines(first: Array, second: Array) -> Array:
    """Return the cosines of all pairs of rows: (n, size) and (m, size) -> (n, m); NaN if a row is all zeros."""
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)[None, :]
    # einsum does not use BLAS, whose threads would wait for each other longer than this small product takes.
    products = np.einsum("ik,jk->ij", first, second)
    result: Array = np.divide(products, lengths, out=np.full(products.shape, np.nan), where=lengths > 0)
    return result


def mappings(source: Tree, target: Tree, similarity: Array) -> tuple[Mapping, ...]:
    """Return the distinct phrase mappings at the tops of all matching paths, by start, the longer first.

    :param similarity: shape (source nodes, target nodes); NaN is never the most similar.
    """
    edges = most_similar(similarity, target)
    distinct: set[Mapping] = set()
    for leaf in source.leaves:
        path = matching_path(source, target, edges, leaf)
        if len(path) >= 2:
            top, match = source.nodes[path[-1]], target.nodes[edges[path[-1]]]
            distinct.add(Mapping((top.start, top.end), (match.start, match.end)))
    return tuple(sorted(distinct, key=lambda m: (m.source[0], -m.source[1], m.target)))


def most_similar(similarity: Array, target: Tree) -> list[int]:
    """Return the matching graph: for each source node, the index of the most similar target node, or -1.

    Ties (within ``TIE``) go to the node with fewer tokens, then to the leftmost, then to the deeper one.

    :raises ValueError: if the matrix does not have one column per target node.
    """
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

    The path continues to the parent of a node if the parent's edge leads to the parent of the node's match, the node
    has a sibling, and the parent does not cover the whole sentence. A path of one node maps nothing. A leaf without an
    edge has an empty path.
    """
    path = [leaf]
    if edges[leaf] < 0:
        return ()
    while True:
        place = path[-1]
        parent, match = source.parents[place], target.parents[edges[place]]
        if parent < 0 or match < 0 or edges[parent] != match:
            break
        if not source.siblings(place) or source.is_whole(parent):
            break
        path.append(parent)
    return tuple(path)
