"""Word alignment with the vectors of a multilingual encoder, pair by pair, without training.

- ``awesome`` (Dou and Neubig, EACL 2021): dot products of token vectors, with a softmax over each row and over each
  column. Tokens are linked if both are above a threshold (0.001). The authors use layer 8 of multilingual BERT.
- ``simalign`` (Jalili Sabet et al., Findings of EMNLP 2020, "Argmax"): tokens are linked if each is the other's
  nearest by cosine similarity.
- ``itermax`` (same paper): Argmax, then a second round in which similarities between two linked tokens are 0, and those
  with one linked token are weighted by 0.9.

Two words are linked if any of their tokens are linked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import Links, WordPair
from pytest_llmprops.core.errors import BackendError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Vectors = NDArray[np.float32]

Span = tuple[int, int]
METHODS = ("awesome", "simalign", "itermax")
THRESHOLD = 0.001
_WEIGHT, _ROUNDS = 0.9, 2
_BATCH = 64

#: For each text, its tokens' spans in characters and their vectors of shape (tokens, size).
TokenVectors = Callable[[Sequence[str]], Sequence[tuple[Sequence[Span], "Vectors"]]]


class EmbeddingAligner:
    """Aligns words with the vectors from ``token_vectors``.

    A pair that the model does not accept, such as one that is too long, gets no links and counts in ``failed``.

    :param token_vectors: Raises :class:`BackendError` if a text cannot be embedded.
    :param identity: The model's identity.
    """

    words: Literal["written", "lemmas"] = "written"
    independent = True

    def __init__(
        self,
        token_vectors: TokenVectors,
        *,
        identity: Mapping[str, Any],
        method: str = "awesome",
        threshold: float = THRESHOLD,
    ) -> None:
        if method not in METHODS:
            raise UsageError(f"--align-method {method}: choose from {', '.join(METHODS)}")
        if not 0 <= threshold < 1:
            raise UsageError(
                f"--align-threshold {threshold}: not a probability; use a number from 0 to below 1"
            )
        self._vectors, self._method, self._threshold = token_vectors, method, threshold
        self.identity: Mapping[str, Any] = {"aligner": method, "model": dict(identity)}
        if method == "awesome":
            self.identity = {**self.identity, "threshold": threshold}
        self.failed = 0

    def align(self, pairs: Iterable[WordPair]) -> Iterator[Links]:
        """Yield the links of each pair; see ``Aligner``.

        :raises UsageError: The model cannot be used at all.
        """
        rest = iter(pairs)
        while batch := list(islice(rest, _BATCH)):
            yield from self._batch(batch)

    def _batch(self, pairs: Sequence[WordPair]) -> list[Links]:
        full = [index for index, (source, target) in enumerate(pairs) if source and target]
        texts = [joined(side) for index in full for side in pairs[index]]
        links: list[Links] = [frozenset()] * len(pairs)
        if not texts:
            return links
        try:
            vectors = self._vectors([text for text, _ in texts])
        except BackendError as error:
            if error.fatal:
                raise UsageError(f"--aligner: {error}") from None
            if len(pairs) == 1:
                self.failed += 1
                return links
            # One text caused the error: halve the batch until only its pair fails.
            middle = len(pairs) // 2
            return self._batch(pairs[:middle]) + self._batch(pairs[middle:])
        for place, index in enumerate(full):
            (source_spans, source), (target_spans, target) = vectors[2 * place : 2 * place + 2]
            tokens = self._token_links(source, target)
            words = [
                _words_of(spans, texts[2 * place + side][1])
                for side, spans in enumerate((source_spans, target_spans))
            ]
            links[index] = frozenset((i, j) for a, b in tokens for i in words[0][a] for j in words[1][b])
        return links

    def _token_links(self, source: Vectors, target: Vectors) -> list[tuple[int, int]]:
        if self._method == "awesome":
            return awesome_links(source.astype("float64") @ target.astype("float64").T, self._threshold)
        similarity = cosine(source, target)
        return argmax_links(similarity) if self._method == "simalign" else itermax_links(similarity)


def cosine(source: Vectors, target: Vectors) -> Matrix:
    """Return the cosines of all (source, target) pairs of vectors, scaled to [0, 1] as in SimAlign."""
    import numpy as np

    def unit(vectors: Vectors) -> Matrix:
        wide = vectors.astype("float64")
        length: Matrix = np.linalg.norm(wide, axis=1, keepdims=True)
        return np.asarray(wide / np.where(length > 0, length, 1.0))

    return np.asarray((unit(source) @ unit(target).T + 1.0) / 2.0)


def awesome_links(products: Matrix, threshold: float = THRESHOLD) -> list[tuple[int, int]]:
    """Return the token links whose softmax over targets and over sources are both above ``threshold``.

    :param products: Dot products of shape (source tokens, target tokens).
    """
    import numpy as np

    def softmax(axis: int) -> Matrix:
        raised = np.exp(products - products.max(axis=axis, keepdims=True))
        return np.asarray(raised / raised.sum(axis=axis, keepdims=True))

    return _places(np.asarray((softmax(1) > threshold) & (softmax(0) > threshold)))


def argmax_links(similarity: Matrix) -> list[tuple[int, int]]:
    """Return the links of tokens that are each other's most similar; the first among equals."""
    return _places(_mutual(similarity))


def itermax_links(
    similarity: Matrix, *, weight: float = _WEIGHT, rounds: int = _ROUNDS
) -> list[tuple[int, int]]:
    """Return the links by Argmax in ``rounds`` rounds (the paper's algorithm 1); similarities must not be negative."""
    import numpy as np

    linked = _mutual(similarity)
    for _ in range(rounds - 1):
        rows, columns = np.asarray(linked.any(axis=1)), np.asarray(linked.any(axis=0))
        if rows.all() or columns.all():
            break
        either, both = rows[:, None] | columns[None, :], rows[:, None] & columns[None, :]
        weights = np.where(both, 0.0, np.where(either, weight, 1.0))
        more = _mutual(np.asarray(similarity * weights)) & ~both
        if not (more & ~linked).any():
            break
        linked |= more
    return _places(linked)


def _mutual(similarity: Matrix) -> NDArray[np.bool_]:
    import numpy as np

    mask = np.zeros(similarity.shape, dtype=bool)
    best_target, best_source = similarity.argmax(axis=1), similarity.argmax(axis=0)
    rows = np.arange(len(best_target))
    mask[rows, best_target] = best_source[best_target] == rows
    return mask


def _places(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in zip(*mask.nonzero(), strict=True)]


def joined(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the words joined by spaces, and each word's span."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans


def _words_of(tokens: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """Return, for each token, the indexes of the words that it overlaps; none for a token of spaces only."""
    return [
        [index for index, (first, last) in enumerate(words) if first < end and last > start]
        for start, end in tokens
    ]
