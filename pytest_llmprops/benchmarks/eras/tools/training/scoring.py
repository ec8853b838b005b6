"""Scores of a segmenter on segmented lines, with the scorer of the SIGHAN bakeoffs (``core/segmentation.py``)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words
from pytest_llmprops.benchmarks.eras.tools.training.labels import fitting
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Segment
from pytest_llmprops.core.segmentation import SegmentationScore, score
from pytest_llmprops.models.hf_segment import HfSegmentModel

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class ScoredLines:
    """The score of some lines.

    :param f1_low: lower limit of the 95% interval of F1, from a bootstrap over lines. :param f1_high: the upper limit.
    """

    score: SegmentationScore
    f1_low: float
    f1_high: float


def segmented(model: HfSegmentModel, texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text. Texts that are too long for the model are divided after punctuation.

    :raises BackendError: if the model fails on a text.
    """
    model.prepare()
    pieces = [list(fitting(text, model.characters, window=model.longest)) for text in texts]
    flat = [piece for line in pieces for piece in line]
    replies: list[list[str]] = []
    for start in range(0, len(flat), model.max_batch):
        for reply in model.segment([Segment(text) for text in flat[start : start + model.max_batch]]):
            if isinstance(reply, BackendError):
                raise reply
            replies.append(reply.value)
    following = iter(replies)
    return [[word for _ in line for word in next(following)] for line in pieces]


def score_lines(
    model: HfSegmentModel, gold: Sequence[Words], *, known: Collection[str], resamples: int = _RESAMPLES
) -> ScoredLines:
    """Return the score of a model on segmented lines.

    :param known: the words of the training data; the recall of all other words is the recall of unknown words.
    :param resamples: samples of the bootstrap.
    """
    predicted = segmented(model, ["".join(words) for words in gold])
    total = score(gold, predicted, known=known)
    counts = np.array(
        [
            (s.correct, s.gold + s.predicted)
            for s in (score([g], [p]) for g, p in zip(gold, predicted, strict=True))
        ]
    )
    draws = np.random.default_rng(0).integers(0, len(counts), (resamples, len(counts)))
    sums = np.stack([counts[draw].sum(0) for draw in draws])
    low, high = np.quantile(2 * sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return ScoredLines(total, float(low), float(high))
