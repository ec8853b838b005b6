"""Algorithm 1: phrase mappings between two sentences, from their trees (Zeng et al., section 4.3).

The paper leaves some details open. This module decides them as follows:

- The vector of a node is the mean of its tokens' vectors in the sentence; similarity is the cosine. Among equally
  similar nodes, the smaller one is used, then the leftmost.
- A token and its part of speech are one leaf, and a unary chain is one node (see ``trees``).
- The root cannot be part of a path, "to avoid matching the entire sentence". For the same reason, neither can a node
  that covers everything except punctuation. As in the paper, this applies only to the source sentence, except with
  ``whole="bar"``: no phrase is mapped to the whole target either.
- A word whose node is a child of the root has no path of two nodes, so it can never be covered. A sentence with a
  pronoun as its subject therefore has no alignment in that direction, not even with itself. Tables 12 and 14 show the
  same (``But he``, ``Another`` and ``Meanwhile`` are left over).
- Punctuation counts as covered, and so does a leftover preposition (``Tree.must_be_covered``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, Mapping
from pytest_llmprops.benchmarks.oracle.choices import Whole
from pytest_llmprops.benchmarks.oracle.trees import Parsed, Tree
from pytest_llmprops.benchmarks.oracle.vectors import Array, cosines, node_vectors

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
    """Return the potential alignments of two sentences by Algorithm 1, in both directions.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :param whole: whether a phrase may be mapped to the whole other sentence, as in Algorithm 1.
    :raises ValueError: if there is not one vector per token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    return Alignments(
        first,
        second,
        mappings(first.tree, second.tree, targets(similarity, second.tree, whole)),
        mappings(second.tree, first.tree, targets(similarity.T, first.tree, whole)),
    )


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
            cosine = float(similarity[path[-1], edges[path[-1]]])
            distinct.add(Mapping((top.start, top.end), (match.start, match.end), cosine))
    return in_order(distinct)


def in_order(distinct: Iterable[Mapping]) -> tuple[Mapping, ...]:
    """Return mappings by start, the longer first."""
    return tuple(sorted(distinct, key=lambda m: (m.source[0], -m.source[1], m.target)))


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
