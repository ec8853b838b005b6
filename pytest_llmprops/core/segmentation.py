"""Segmentations of a text into words: the edges of words, and the score of a segmentation against a gold one.

Positions count characters (code points) from 0; an edge at ``k`` lies before the character at ``k``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.texts import shortened

#: characters of a difference that an error message shows
_SHOWN = 20


def boundaries(words: Sequence[str], text: str) -> frozenset[int]:
    """Where the words of ``text`` begin and end: 0, every boundary between two words, and ``len(text)``.

    :raises BackendError: of kind ``segmentation`` where the words are not exactly ``text``: a segmenter that
        changes, drops or adds characters gives no answer that could be right or wrong.
    """
    try:
        if "".join(words) == text:
            edges = frozenset(accumulate(map(len, words), initial=0))
            if len(edges) == len(words) + 1:
                return edges
            raise BackendError("the segmenter gave an empty word", kind="segmentation")
    except TypeError:
        raise BackendError("the segmenter gave no list of words", kind="segmentation") from None
    raise BackendError(f"the segmenter {_difference(''.join(words), text)}", kind="segmentation")


def with_whitespace(words: Sequence[str], text: str) -> list[str]:
    """``words`` with the whitespace of ``text`` put back, a run of it as one word.

    For segmenters that split at whitespace and leave it out. ``words`` is given back as it is where it is
    not ``text`` without its whitespace, for :func:`boundaries` to say what is wrong.
    """
    pieces = text.split()
    if "".join(words) != "".join(pieces):
        return list(words)
    # Where whitespace stands, in positions of the text without it.
    gaps: dict[int, str] = {}
    position = count = 0
    for piece in pieces:
        found = text.index(piece, position)
        if found > position:
            gaps[count] = text[position:found]
        position, count = found + len(piece), count + len(piece)
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


def _difference(given: str, text: str) -> str:
    """What happened to ``text`` that it became ``given``, in a few words."""
    start = 0
    while start < min(len(given), len(text)) and given[start] == text[start]:
        start += 1
    end = 0
    while end < min(len(given), len(text)) - start and given[-1 - end] == text[-1 - end]:
        end += 1
    lost, new = text[start : len(text) - end], given[start : len(given) - end]
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
    """Counts of a segmentation held against a gold one, and the rates made of them.

    The definitions are those of the second SIGHAN bakeoff (Emerson 2005, section 4): a gold word is recalled
    where the segmentation has a word of the same beginning and end; out of vocabulary (OOV) is a gold word
    that is not among the words of the training data, all others are in vocabulary (IV). A rate of nothing is
    None; ``oov`` and ``oov_correct`` are None without the training words.

    :param gold: words of the gold segmentation. :param predicted: words of the other.
    :param correct: words in both.
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
    def oov_rate(self) -> float | None:
        """Share of the gold words that are out of vocabulary."""
        return self.oov / self.gold if self.oov is not None and self.gold else None

    @property
    def oov_recall(self) -> float | None:
        """Share of the out-of-vocabulary gold words that were predicted."""
        return self.oov_correct / self.oov if self.oov and self.oov_correct is not None else None

    @property
    def iv_recall(self) -> float | None:
        """Share of the in-vocabulary gold words that were predicted."""
        if self.oov is None or self.oov_correct is None or self.gold == self.oov:
            return None
        return (self.correct - self.oov_correct) / (self.gold - self.oov)


def score(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    known: Collection[str] | None = None,
    whole_text: bool = False,
) -> SegmentationScore:
    """Hold a segmentation against a gold one, line by line.

    :param gold: the words of each line. :param predicted: likewise, of the same text.
    :param known: the words of the training data, for the recall of those that are not among them.
    :param whole_text: compare the two texts as a whole, for files whose lines end at different places.
    :raises DataError: where a line (with ``whole_text``: the text) of the two has other characters.
    """
    if whole_text:
        gold, predicted = [list(chain(*gold))], [list(chain(*predicted))]
    for number, (right, given) in enumerate(zip(gold, predicted, strict=False), start=1):
        if "".join(right) != "".join(given):
            raise DataError(_unequal(number, right, given, gold, predicted, whole_text))
    if len(gold) != len(predicted):
        raise DataError(f"the gold file has {len(gold)} lines, the prediction {len(predicted)}")
    words = found = correct = oov = oov_correct = 0
    for right, given in zip(gold, predicted, strict=True):
        edges = pairwise(accumulate(map(len, given), initial=0))
        spans = set(edges)
        hits = [span in spans for span in pairwise(accumulate(map(len, right), initial=0))]
        words, found, correct = words + len(right), found + len(given), correct + sum(hits)
        if known is not None:
            new = [hit for word, hit in zip(right, hits, strict=True) if word not in known]
            oov, oov_correct = oov + len(new), oov_correct + sum(new)
    if known is None:
        return SegmentationScore(words, found, correct)
    return SegmentationScore(words, found, correct, oov, oov_correct)


def _unequal(
    number: int,
    right: Sequence[str],
    given: Sequence[str],
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    whole_text: bool,
) -> str:
    said = f"the prediction {_difference(''.join(given), ''.join(right))}"
    if whole_text:
        return f"the texts differ: {said}"
    if "".join(chain(*gold)) == "".join(chain(*predicted)):
        said += "; the texts as a whole are equal, only their lines end at different places: --whole-text"
    return f"line {number} of the gold file and of the prediction differ: {said}"
