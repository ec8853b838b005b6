"""Algorithm 1: phrase mappings between two sentences by their trees (Zeng et al., section 4.3).

What the paper leaves open, and what is done here:

- Node vectors: the mean of the node's token vectors in the sentence; similarity is their cosine. Among equally
  similar nodes the smaller is taken, then the leftmost.
- Leaves are tokens under their part of speech, unary chains are one node (``trees``).
- The root cannot be part of a path, "to avoid matching the entire sentence"; nor can, for the same reason, a node
  that lacks only the sentence's punctuation. This holds for the source sentence only, as in the paper.
- A word whose node hangs from the root has no path of two nodes, so it can never be covered: a sentence with a
  pronoun as its subject has no alignment in that direction, not even to itself. Tables 12 and 14 show this too
  (``But he``, ``Another`` and ``Meanwhile`` are left over).
- Punctuation counts as covered, and so does a preposition wherever it is left over (``Tree.must_be_covered``).
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

#: cosines nearer than this are ties: equal token vectors may differ in the last bits of their means
TIE = 1e-6


@dataclass(frozen=True, slots=True)
class Mapping:
    """One phrase mapping of one direction: tokens of the source onto tokens of the target."""

    source: Span
    target: Span


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """The texts of a mapping, the first sentence's phrase first whatever the direction."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Rho:
    """Which of the four alignments of section 4.3 hold.

    :param forward: first to second, the first covered. :param forward_star: the same, the second covered.
    :param backward: second to first, the second covered. :param backward_star: the same, the first covered.
    """

    forward: bool = False
    forward_star: bool = False
    backward: bool = False
    backward_star: bool = False

    @property
    def phi_or(self) -> bool:
        """Any of the four."""
        return self.forward or self.forward_star or self.backward or self.backward_star

    @property
    def phi_and(self) -> bool:
        """At least one in each direction."""
        return (self.forward or self.forward_star) and (self.backward or self.backward_star)


@dataclass(frozen=True, slots=True)
class Alignments:
    """The mappings between two sentences, both ways: potential ones until an oracle has confirmed them.

    :param forward: mappings from the first to the second sentence. :param backward: from the second to the first.
    :param missing: why there are no trees, in one phrase; then nothing is aligned.
    """

    first: Parsed | None
    second: Parsed | None
    forward: tuple[Mapping, ...] = ()
    backward: tuple[Mapping, ...] = ()
    missing: str = ""

    @classmethod
    def without_trees(cls, missing: str) -> Alignments:
        """Of sentences that the parser or the encoder fails on; ``missing`` says which, and why."""
        return cls(None, None, missing=missing)

    @property
    def rho(self) -> Rho:
        """The alignments that these mappings make."""
        if self.first is None or self.second is None:
            return Rho()
        return Rho(
            _complete(self.first.tree, [m.source for m in self.forward]),
            _complete(self.second.tree, [m.target for m in self.forward]),
            _complete(self.second.tree, [m.source for m in self.backward]),
            _complete(self.first.tree, [m.target for m in self.backward]),
        )

    def pair_of(self, mapping: Mapping, *, backward: bool) -> PhrasePair:
        """The texts of one of the mappings. :raises ValueError: without trees."""
        if self.first is None or self.second is None:
            raise ValueError("no phrase without trees: " + self.missing)
        spans = (mapping.target, mapping.source) if backward else (mapping.source, mapping.target)
        return PhrasePair(self.first.phrase(spans[0]), self.second.phrase(spans[1]))

    def pairs(self, *, aligned_only: bool = False) -> tuple[PhrasePair, ...]:
        """Distinct phrase pairs, in order, forward first.

        :param aligned_only: only of directions that cover a sentence.
        """
        rho = self.rho
        found: dict[PhrasePair, None] = {}
        if not aligned_only or rho.forward or rho.forward_star:
            found |= {self.pair_of(m, backward=False): None for m in self.forward}
        if not aligned_only or rho.backward or rho.backward_star:
            found |= {self.pair_of(m, backward=True): None for m in self.backward}
        return tuple(found)

    def without(self, refused: Iterable[PhrasePair]) -> Alignments:
        """The alignments that are left when these phrase pairs are no mappings."""
        gone = frozenset(refused)
        return replace(
            self,
            forward=tuple(m for m in self.forward if self.pair_of(m, backward=False) not in gone),
            backward=tuple(m for m in self.backward if self.pair_of(m, backward=True) not in gone),
        )

    @property
    def leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words of each sentence that could not be aligned to the other, as tables 12 and 14 show them."""
        if self.first is None or self.second is None:
            return (), ()
        return (
            self.first.uncovered(covered(len(self.first.tree.tokens), [m.source for m in self.forward])),
            self.second.uncovered(covered(len(self.second.tree.tokens), [m.source for m in self.backward])),
        )


def covered(count: int, spans: Iterable[Span]) -> list[bool]:
    """Of each of ``count`` tokens, whether one of the spans holds it."""
    found = [False] * count
    for start, end in spans:
        found[start:end] = [True] * (end - start)
    return found


def _complete(tree: Tree, spans: Sequence[Span]) -> bool:
    """``align()``: a mapping is there, and every token that must be is in one."""
    inside = covered(len(tree.tokens), spans)
    return bool(spans) and all(
        inside[token] or not tree.must_be_covered(token) for token in range(len(tree.tokens))
    )


def align(first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array) -> Alignments:
    """Potential alignments of two sentences, in both directions.

    :param first_vectors: of the first sentence's tokens, (tokens, size); ``second_vectors`` likewise.
    :raises ValueError: when there is not one vector a token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    return Alignments(
        first,
        second,
        mappings(first.tree, second.tree, similarity),
        mappings(second.tree, first.tree, similarity.T),
    )


def token_vectors(spans: Sequence[Span], pieces: Sequence[Sequence[int]], vectors: npt.ArrayLike) -> Array:
    """The vectors of words from those of an encoder's pieces: the mean over the pieces that overlap a word.

    :param spans: characters of each word. :param pieces: characters of each piece.
    :param vectors: of the pieces, (pieces, size). Returns (words, size), float64; a word without a piece (unknown to
        the encoder) is all zeros, and nothing is similar to it.
    :raises DataError: when there is no piece, or not one vector of numbers a piece, all of the same size.
    """
    try:
        values, places = np.asarray(vectors, dtype=np.float64), np.asarray(pieces, dtype=np.int64)
    except (TypeError, ValueError):
        raise DataError(
            "the encoder's places or vectors are no numbers, or not all of the same size"
        ) from None
    if not len(pieces):
        raise DataError("the encoder gave no tokens")
    if places.shape != (len(pieces), 2) or values.ndim != 2 or len(values) != len(pieces) or not values.size:
        raise DataError(
            f"the encoder gave places of shape {places.shape} and vectors of shape {values.shape}: it must give"
            " [start, end) and one vector for each token"
        )
    starts, ends = places.T
    found = np.zeros((len(spans), values.shape[1]))
    for word, (start, end) in enumerate(spans):
        inside = (starts < end) & (ends > start)
        if inside.any():
            found[word] = values[inside].mean(axis=0)
    return found


def node_vectors(tree: Tree, vectors: Array) -> Array:
    """Of each node (``tree.nodes``' order) the mean of its tokens' vectors: (tokens, size) -> (nodes, size).

    Tokens that are all zeros have no vector and are left out of the mean.

    :raises ValueError: when there is not one vector a token.
    """
    values = np.asarray(vectors, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(tree.tokens):
        raise ValueError(
            f"token vectors of shape {values.shape} for {len(tree.tokens)} tokens: give one a token"
        )
    found = np.zeros((len(tree.nodes), values.shape[1]))
    for place, node in enumerate(tree.nodes):
        inside = values[node.start : node.end]
        inside = inside[inside.any(axis=1)]
        if len(inside):
            found[place] = inside.mean(axis=0)
    return found


def cosines(first: Array, second: Array) -> Array:
    """Cosines of every row with every row, (n, size) and (m, size) -> (n, m); NaN where a row is all zeros."""
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)[None, :]
    # Not by BLAS, whose threads wait for one another longer than so small a product takes.
    products = np.einsum("ik,jk->ij", first, second)
    found: Array = np.divide(products, lengths, out=np.full(products.shape, np.nan), where=lengths > 0)
    return found


def mappings(source: Tree, target: Tree, similarity: Array) -> tuple[Mapping, ...]:
    """Distinct phrase mappings at the tops of all matching paths, by where they start, the longer first.

    :param similarity: of the nodes, (source nodes, target nodes); NaN is never the most similar.
    """
    edges = most_similar(similarity, target)
    found: set[Mapping] = set()
    for leaf in source.leaves:
        path = matching_path(source, target, edges, leaf)
        if len(path) >= 2:
            top, match = source.nodes[path[-1]], target.nodes[edges[path[-1]]]
            found.add(Mapping((top.start, top.end), (match.start, match.end)))
    return tuple(sorted(found, key=lambda m: (m.source[0], -m.source[1], m.target)))


def most_similar(similarity: Array, target: Tree) -> list[int]:
    """The matching graph: of each source node, the place of the target node most similar to it; -1 for none.

    Ties (within ``TIE``) go to the node with fewer tokens, then to the leftmost, then to the deeper.

    :raises ValueError: when the matrix has not one column a target node.
    """
    if similarity.ndim != 2 or similarity.shape[1] != len(target.nodes):
        raise ValueError(
            f"similarities of shape {similarity.shape} for {len(target.nodes)} nodes of the target"
        )
    nodes = target.nodes
    preferred = sorted(range(len(nodes)), key=lambda place: (nodes[place].size, nodes[place].start, -place))
    known = np.where(np.isnan(similarity), -np.inf, similarity)[:, preferred]
    best = known.max(axis=1, keepdims=True)
    # argmax gives the first true one, hence the preferred.
    chosen = (known >= best - TIE).argmax(axis=1)
    return [
        preferred[column] if np.isfinite(highest) else -1
        for column, highest in zip(chosen, best[:, 0], strict=True)
    ]


def matching_path(source: Tree, target: Tree, edges: Sequence[int], leaf: int) -> tuple[int, ...]:
    """``matchingpath(U, V, x)``: places of the nodes from the leaf upwards, the leaf included.

    The parent of a node on the path is included when its edge leads to the parent of where the node's edge leads,
    the node has a sibling, and the parent does not hold the whole sentence. A path of one node maps nothing; a leaf
    without an edge has none.
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
