"""Segmentation of a text into words: word boundaries, and scores against a gold segmentation.

Positions count characters (code points) from 0. A boundary at ``k`` is before the character at ``k``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.texts import shortened

#: characters of a difference that an error message shows
_SHOWN = 20


def boundaries(words: Sequence[str], text: str) -> frozenset[int]:
    """Return the word boundaries of ``text``: 0, every position between two words, and ``len(text)``.

    :raises BackendError: of kind ``segmentation`` if the joined words differ from ``text``. If a segmenter changes,
        drops or adds characters, its answer is neither right nor wrong.
    """
    try:
        if "".join(words) == text:
            edges = frozenset(accumulate(map(len, words), initial=0))
            if len(edges) == len(words) + 1:
                return edges
            raise BackendError("the segmenter returned an empty word", kind="segmentation")
    except TypeError:
        raise BackendError("the segmenter did not return a list of words", kind="segmentation") from None
    raise BackendError(f"the segmenter {_difference(''.join(words), text)}", kind="segmentation")


def with_whitespace(words: Sequence[str], text: str) -> list[str]:
    """Return ``words`` with the whitespace of ``text`` restored; each run of whitespace is one word.

    For segmenters that split at whitespace and drop it. If ``words`` is not ``text`` without its whitespace, it is
    returned unchanged, and :func:`boundaries` reports the difference.
    """
    pieces = text.split()
    if "".join(words) != "".join(pieces):
        return list(words)
    # Whitespace by its position in the text without whitespace.
    gaps: dict[int, str] = {}
    position = count = 0
    for piece in pieces:
        start = text.index(piece, position)
        if start > position:
            gaps[count] = text[position:start]
        position, count = start + len(piece), count + len(piece)
    if position < len(text):
        gaps[count] = text[position:]
    result: list[str] = []
    done = 0
    for word in words:
        cuts = [done, *(k for k in gaps if done < k < done + len(word)), done + len(word)]
        for start, end in pairwise(cuts):
            if start in gaps:
                result.append(gaps[start])
            result.append(word[start - done : end - done])
        done += len(word)
    if done in gaps:
        result.append(gaps[done])
    return result


def _difference(result: str, text: str) -> str:
    """Describe in a few words how ``result`` differs from ``text``."""
    start = 0
    while start < min(len(result), len(text)) and result[start] == text[start]:
        start += 1
    end = 0
    while end < min(len(result), len(text)) - start and result[-1 - end] == text[-1 - end]:
        end += 1
    lost, new = text[start : len(text) - end], result[start : len(result) - end]
    place = f"at character {start + 1}"
    if not new:
        return f"dropped {_shown(lost)} {place}"
    if not lost:
        return f"added {_shown(new)} {place}"
    return f"changed {_shown(lost)} into {_shown(new)} {place}"


def _shown(text: str) -> str:
    # repr() writes control characters as escapes.
    return repr(shortened(text, _SHOWN))


@dataclass(frozen=True, slots=True)
class SegmentationScore:
    """Counts of a predicted segmentation compared with a gold one, and the rates computed from them.

    The definitions are those of the second SIGHAN bakeoff (Emerson 2005, section 4). A gold word is recalled if the
    prediction has a word with the same start and end. A gold word is out of vocabulary (OOV) if it is not among the
    words of the training data. A rate without any word is None. ``oov`` and ``oov_correct`` are None without the
    training words.

    :param gold: number of words of the gold segmentation.
    :param predicted: number of words of the prediction.
    :param correct: number of words in both.
    """

    gold: int
    predicted: int
    correct: int
    oov: int | None = None
    oov_correct: int | None = None

    @property
    def precision(self) -> float | None:
        """Share of the predicted words that are gold words."""
        return self.correct / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Share of the gold words that were predicted."""
        return self.correct / self.gold if self.gold else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall, 2 P R / (P + R)."""
        total = self.gold + self.predicted
        return 2 * self.correct / total if total else None

    @property
    def oov_recall(self) -> float | None:
        """Share of the out-of-vocabulary gold words that were predicted."""
        return self.oov_correct / self.oov if self.oov and self.oov_correct is not None else None


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, known: Collection[str] | None = None
) -> SegmentationScore:
    """Compare a segmentation with a gold one, line by line.

    :param gold: the words of each line.
    :param predicted: the predicted words of each line of the same text.
    :param known: the words of the training data, to score the words that are not among them.
    :raises DataError: if the characters of a line differ.
    """
    for number, (right, guess) in enumerate(zip(gold, predicted, strict=False), start=1):
        if "".join(right) != "".join(guess):
            difference = _difference("".join(guess), "".join(right))
            raise DataError(
                f"line {number} of the gold file and of the prediction differ: the prediction {difference}"
            )
    if len(gold) != len(predicted):
        raise DataError(f"the gold file has {len(gold)} lines, the prediction {len(predicted)}")
    words = guesses = correct = oov = oov_correct = 0
    for right, guess in zip(gold, predicted, strict=True):
        spans = set(pairwise(accumulate(map(len, guess), initial=0)))
        hits = [span in spans for span in pairwise(accumulate(map(len, right), initial=0))]
        words, guesses, correct = words + len(right), guesses + len(guess), correct + sum(hits)
        if known is not None:
            new = [hit for word, hit in zip(right, hits, strict=True) if word not in known]
            oov, oov_correct = oov + len(new), oov_correct + sum(new)
    if known is None:
        return SegmentationScore(words, guesses, correct)
    return SegmentationScore(words, guesses, correct, oov, oov_correct)
