"""Vectors of the words and nodes of a sentence, and their cosines, for the alignments of ``alignment``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_llmprops.benchmarks.oracle.trees import Span, Tree
from pytest_llmprops.core.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[np.floating[Any]]"


def token_vectors(spans: Sequence[Span], pieces: Sequence[Sequence[int]], vectors: npt.ArrayLike) -> Array:
    """Return the vectors of words: the mean of the vectors of the encoder's pieces that overlap a word.

    :param spans: [start, end) of each word, in characters.
    :param pieces: [start, end) of each piece, in characters.
    :param vectors: of the pieces, shape (pieces, size).
    :return: shape (words, size), float64. A word without a piece (unknown to the encoder) is all zeros, and nothing is
        similar to it.
    :raises DataError: if there are no pieces, or not one vector per piece, or the vectors differ in size.
    """
    import numpy as np

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
    import numpy as np

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
    import numpy as np

    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)[None, :]
    # einsum does not use BLAS, whose threads would wait for each other longer than this small product takes.
    products = np.einsum("ik,jk->ij", first, second)
    result: Array = np.divide(products, lengths, out=np.full(products.shape, np.nan), where=lengths > 0)
    return result
