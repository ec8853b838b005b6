"""Implicit garden path errors: pure functions of a sentiment model's scores (ERAS, section 4.1 and table 2).

A pair has four scores: test and control sentence, and both again with one character of the site masked. A
``+/-`` or ``+/0`` pair is wrong if its test sentence scores strictly lower than its control sentence, a
``-/+`` or ``-/0`` pair if strictly higher; a tie is right. A model without garden path errors is right on
half of the pairs, so the accuracy's target is 0.5, not 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply

#: True class / canary class, in the order of table 2's columns.
SENTIMENTS = ("+/-", "+/0", "-/0", "-/+")
#: Stands for the masked character in a request; an ``hf:`` model replaces it with its own mask token.
MODEL_MASK = "[MASK]"
#: The masked character in a chat model's prompt: the sign for a missing character in Chinese print.
CHAT_MASK = "□"


class Score(NamedTuple):
    """A sentence's sentiment: probability of the positive class, and its natural log odds if known.

    Scores are compared by their log odds, because probabilities round to equal values near 0 and 1.
    """

    positive: float
    log_odds: float | None = None

    @classmethod
    def of(cls, reply: Reply) -> Score:
        """Return the score in a sentiment classifier's reply.

        :raises BackendError: for a reply without a probability and finite log odds.
        """
        try:
            score = cls(float(reply.value["positive"]), float(reply.value["log_odds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BackendError(f"the model returned no sentiment score: {error}", kind="model") from None
        if not 0 <= score.positive <= 1 or not math.isfinite(score.log_odds or 0.0):
            raise BackendError(f"the model returned no sentiment score, but {tuple(score)}", kind="model")
        return score


@dataclass(frozen=True, slots=True)
class PairScores:
    """A pair's four scores: both sentences, and both with a character masked."""

    test: Score
    control: Score
    occluded_test: Score
    occluded_control: Score

    def values(self) -> dict[str, float]:
        """Return flat numbers for a verdict: ``test``, ``test_log_odds``, ``control`` …; see :meth:`of`."""
        numbers: dict[str, float] = {}
        for name in self.__slots__:
            score: Score = getattr(self, name)
            numbers[name] = score.positive
            if score.log_odds is not None:
                numbers[f"{name}_log_odds"] = score.log_odds
        return numbers

    @classmethod
    def of(cls, values: Mapping[str, float]) -> PairScores:
        """Return the scores in the numbers of :meth:`values`; other keys are ignored."""
        return cls(*(Score(values[name], values.get(f"{name}_log_odds")) for name in cls.__slots__))


def occluded(sentence: str, site_start: int, branching: str, mask: str) -> str:
    """Return the sentence with the character outside the true word masked (section 4.1, figure 4).

    The first character of a ``right``-branching site is masked, and the third of a ``left``-branching one, in
    both the test and the control sentence.

    :param site_start: Index of the three-character site.
    """
    place = site_start + (2 if branching == "left" else 0)
    return sentence[:place] + mask + sentence[place + 1 :]


def is_wrong(sentiment: str, scores: PairScores) -> bool:
    """Return True if a pair is classified incorrectly (section 4.1); a tie is right."""
    lower, higher = (scores.test, scores.control) if sentiment[0] == "+" else (scores.control, scores.test)
    if lower.log_odds is None or higher.log_odds is None:
        return lower.positive < higher.positive
    return lower.log_odds < higher.log_odds


def is_tie(scores: PairScores) -> bool:
    """Return True if test and control sentence have the same score."""
    if scores.test.log_odds is None or scores.control.log_odds is None:
        return scores.test.positive == scores.control.positive
    return scores.test.log_odds == scores.control.log_odds


def is_hit(scores: PairScores) -> bool:
    """Return True if occlusion brings the two sentences' scores closer: |control - test| strictly decreases."""
    after = _distance(scores.occluded_control, scores.occluded_test)
    return after < _distance(scores.control, scores.test)


def _distance(a: Score, b: Score) -> float:
    """Return the log of the distance between two probabilities; exact near 0 and 1 if log odds are known."""
    if a.log_odds is None or b.log_odds is None:
        gap = abs(a.positive - b.positive)
        return math.log(gap) if gap else -math.inf
    half = abs(a.log_odds - b.log_odds) / 2
    if half == 0:
        return -math.inf
    # p - q = sinh((x - y) / 2) / (2 cosh(x / 2) cosh(y / 2)) for the log odds x and y.
    return _log_sinh(half) - math.log(2) - _log_cosh(a.log_odds / 2) - _log_cosh(b.log_odds / 2)


def _log_sinh(x: float) -> float:
    return math.log(math.sinh(x)) if x < 1 else x + math.log1p(-math.exp(-2 * x)) - math.log(2)


def _log_cosh(x: float) -> float:
    return abs(x) + math.log1p(math.exp(-2 * abs(x))) - math.log(2)
