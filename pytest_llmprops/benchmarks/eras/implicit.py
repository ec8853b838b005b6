"""Implicit garden path errors: pure functions of a sentiment model's scores (ERAS, section 4.1 and table 2).

A pair has four scores: test and control sentence, and both again with one character of the site masked. A
``+/-`` or ``+/0`` pair is wrong if its test sentence scores strictly lower than its control sentence, a
``-/+`` or ``-/0`` pair if strictly higher; a tie is right. A model without garden path errors is right on
half of the pairs, so the accuracy's target is 0.5, not 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.benchmarks.eras.paradigms import facts_of, paradigm_name
from pytest_llmprops.benchmarks.eras.settings import IMPLICIT_TASK
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.statistics.intervals import mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


@dataclass(frozen=True, slots=True)
class PairScores:
    """A pair's four scores. The occlusion study needs the two occluded ones.

    :raises ValueError: for a score that is not a finite number, or a probability outside [0, 1].
    """

    test: Score
    control: Score
    occluded_test: Score | None = None
    occluded_control: Score | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            score: Score | None = getattr(self, name)
            if score is None:
                continue
            if not 0 <= score.positive <= 1 or not math.isfinite(score.log_odds or 0.0):
                raise ValueError(
                    f"{name}: a score needs a probability and finite log odds, not {tuple(score)}"
                )

    def values(self) -> dict[str, float]:
        """Return flat numbers for a verdict: ``test``, ``test_log_odds``, ``control`` …; see :meth:`of`."""
        numbers: dict[str, float] = {}
        for name in self.__slots__:
            score: Score | None = getattr(self, name)
            if score is not None:
                numbers[name] = score.positive
                if score.log_odds is not None:
                    numbers[f"{name}_log_odds"] = score.log_odds
        return numbers

    @classmethod
    def of(cls, values: Mapping[str, float]) -> PairScores:
        """Return the scores in the numbers of :meth:`values`; other keys are ignored.

        :raises KeyError: without ``test`` or ``control``.
        """

        def score(name: str) -> Score:
            return Score(values[name], values.get(f"{name}_log_odds"))

        occluded_scores = (score(n) if n in values else None for n in ("occluded_test", "occluded_control"))
        return cls(score("test"), score("control"), *occluded_scores)


class PairResult(NamedTuple):
    """A scored pair with its paradigm's ``sentiment`` (one of SENTIMENTS) and ``branching`` (left or right)."""

    paradigm: str
    sentiment: str
    branching: str
    scores: PairScores

    @classmethod
    def of(cls, values: Mapping[str, float]) -> PairResult:
        """Return a scored pair from the values of a verdict: its paradigm's, and :meth:`PairScores.values`."""
        facts = facts_of(values)
        return cls(paradigm_name(values), facts.sentiment, facts.branching, PairScores.of(values))


def occluded(sentence: str, site_start: int, branching: str, mask: str) -> str:
    """Return the sentence with the character outside the true word masked (section 4.1, figure 4).

    The first character of a ``right``-branching site is masked, and the third of a ``left``-branching one, in
    both the test and the control sentence.

    :param site_start: Index of the three-character site.
    :raises ValueError: for a site outside the sentence, or another branching.
    """
    if branching not in ("left", "right"):
        raise ValueError(f"branching must be left or right, not {branching!r}")
    if not 0 <= site_start <= len(sentence) - 3:
        raise ValueError(f"a site of three characters at {site_start} is outside {sentence!r}")
    place = site_start + (2 if branching == "left" else 0)
    return sentence[:place] + mask + sentence[place + 1 :]


def is_wrong(sentiment: str, scores: PairScores) -> bool:
    """Return True if a pair is classified incorrectly (section 4.1); a tie is right.

    :raises ValueError: for a sentiment that is not one of SENTIMENTS.
    """
    if sentiment not in SENTIMENTS:
        raise ValueError(f"a paradigm's sentiment must be one of {', '.join(SENTIMENTS)}, not {sentiment!r}")
    lower, higher = (scores.test, scores.control) if sentiment[0] == "+" else (scores.control, scores.test)
    if lower.log_odds is None or higher.log_odds is None:
        return lower.positive < higher.positive
    return lower.log_odds < higher.log_odds


def is_tie(scores: PairScores) -> bool:
    """Return True if test and control sentence have the same score."""
    if scores.test.log_odds is None or scores.control.log_odds is None:
        return scores.test.positive == scores.control.positive
    return scores.test.log_odds == scores.control.log_odds


def is_hit(scores: PairScores) -> bool | None:
    """Return True if occlusion brings the two sentences' scores closer: |control - test| strictly decreases.

    The result is None for a pair without occluded scores.
    """
    if scores.occluded_test is None or scores.occluded_control is None:
        return None
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


def difference(scores: PairScores) -> float:
    """Return control minus test probability of the positive class, on the paper's scale of -100 to 100."""
    return 100 * (scores.control.positive - scores.test.positive)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the pairs of one paradigm, or of several paradigms pooled.

    :param wrong: Misclassified pairs. :param studied_wrong: Misclassified pairs with occluded scores.
    :param hits: Pairs for which :func:`is_hit` is true. :param wrong_hits: Misclassified hits.
    :param difference: Mean of :func:`difference`.
    """

    pairs: int
    wrong: int
    studied_wrong: int
    hits: int
    wrong_hits: int
    difference: float

    @property
    def accuracy(self) -> float | None:
        """Return the share of pairs classified correctly; None without pairs."""
        return (self.pairs - self.wrong) / self.pairs if self.pairs else None

    @property
    def necessity(self) -> float | None:
        """Return the share of the wrong pairs that are hits; None without wrong pairs."""
        return self.wrong_hits / self.studied_wrong if self.studied_wrong else None

    @property
    def sufficiency(self) -> float | None:
        """Return the share of the hits that are wrong; None without hits."""
        return self.wrong_hits / self.hits if self.hits else None

    @property
    def gper(self) -> float | None:
        return gper(self.accuracy, self.necessity)


def gper(accuracy: float | None, necessity: float | None) -> float | None:
    """Return (1 - accuracy) * necessity (section 4.1): 0 without errors, None if accuracy or necessity is undefined."""
    if accuracy == 1:
        return 0.0
    return None if accuracy is None or necessity is None else (1 - accuracy) * necessity


def count(pairs: Iterable[PairResult]) -> Counts:
    """Count wrong pairs and hits among ``pairs``."""
    total = wrong = studied_wrong = hits = wrong_hits = 0
    differences = []
    for pair in pairs:
        error, hit = is_wrong(pair.sentiment, pair.scores), is_hit(pair.scores)
        total += 1
        wrong += error
        studied_wrong += error and hit is not None
        hits += hit is True
        wrong_hits += error and hit is True
        differences.append(difference(pair.scores))
    mean = math.fsum(differences) / total if total else 0.0
    return Counts(total, wrong, studied_wrong, hits, wrong_hits, mean)


def by_paradigm(pairs: Iterable[PairResult]) -> dict[str, list[PairResult]]:
    """Group pairs by paradigm, in order of first appearance."""
    groups: dict[str, list[PairResult]] = {}
    for pair in pairs:
        groups.setdefault(pair.paradigm, []).append(pair)
    return groups


def human_baseline(accuracy: float, same: float) -> tuple[float, float]:
    """Return people's (accuracy, GPER) as fractions comparable with a model's (section 4.1, "Baseline").

    On a continuous scale, half of the ``same`` pairs (test and control ranked equal) would be wrong. All
    misclassifications in the ranking count as garden path errors.

    :raises ValueError: unless 0 <= same <= 1 and same / 2 <= accuracy <= 1.
    """
    if not 0 <= same <= 1 or not same / 2 <= accuracy <= 1:
        raise ValueError(f"accuracy must be in [0, 1] and at least half of same: {accuracy}, {same}")
    return accuracy - same / 2, 1 - accuracy


#: in a narrower bootstrap interval, resampling changed only rounding errors
NO_WIDTH = 1e-9


def implicit_metrics(
    place: Place, pairs: Sequence[PairResult], *, resamples: int = 2000, seed: int = 0
) -> list[Metric]:
    """Return the quantities of table 2 as metric rows, all as fractions.

    The metrics are ``pair_accuracy`` (target 0.5), ``necessity``, ``sufficiency``, ``gper`` (lower is better) and
    ``sentiment_difference`` (control - test probability, target 0). Each has the groups ``overall``, ``left``,
    ``right`` and the four classes that have pairs. A value is the mean over the paradigms in which it is defined;
    ``gper`` is computed from the means of accuracy and necessity. Group ``pooled`` counts all pairs equally,
    without an interval. Groups ``paradigm NN`` are single paradigms. ``n`` is the number of pairs a value is
    a share of.

    The 95% intervals are those of the mean of bounded numbers, one per paradigm
    (:func:`~pytest_llmprops.statistics.intervals.mean_interval`). For ``gper``, which is a product of two means, they
    are percentiles of a bootstrap (``resamples`` resamples of whole paradigms), which are too short for few paradigms.
    """
    rows: list[Metric] = []
    groups = by_paradigm(pairs)
    counts = {name: count(members) for name, members in groups.items()}
    for group in ("overall", "left", "right", *SENTIMENTS):
        chosen = [
            counts[name]
            for name, members in groups.items()
            if group in ("overall", members[0].branching, members[0].sentiment)
        ]
        if chosen or group == "overall":
            rows += _mean_rows(place, group, chosen, resamples, seed)
    if counts:
        rows += _plain_rows(place, "pooled", count(pairs))
    for name, paradigm_counts in counts.items():
        rows += _plain_rows(place, f"paradigm {name}", paradigm_counts)
    return rows


def _numbers(counts: Counts) -> dict[str, tuple[float | None, int]]:
    """Return metric name -> (value, number of pairs it is a share of)."""
    return {
        "pair_accuracy": (counts.accuracy, counts.pairs),
        "necessity": (counts.necessity, counts.studied_wrong),
        "sufficiency": (counts.sufficiency, counts.hits),
        "gper": (counts.gper, counts.pairs),
        "sentiment_difference": (counts.difference / 100 if counts.pairs else None, counts.pairs),
    }


def _plain_rows(place: Place, group: str, counts: Counts) -> list[Metric]:
    return [
        Metric(*place, name, value, n, group, direction=IMPLICIT_TASK[name])
        for name, (value, n) in _numbers(counts).items()
    ]


def _mean_rows(place: Place, group: str, chosen: Sequence[Counts], resamples: int, seed: int) -> list[Metric]:
    columns = {name: [_numbers(counts)[name] for counts in chosen] for name in IMPLICIT_TASK}
    means = {name: _mean([value for value, _ in column]) for name, column in columns.items()}
    means["gper"] = gper(means["pair_accuracy"], means["necessity"])
    rows = []
    for name, direction in IMPLICIT_TASK.items():
        value = means[name]
        limits: tuple[float | None, float | None] = (None, None)
        defined = [number for number, _ in columns[name] if number is not None]
        if name == "gper":
            limits = _gper_limits(columns, resamples, seed)
        elif defined:
            least = -1.0 if name == "sentiment_difference" else 0.0
            limits = mean_interval(defined, [str(n) for n in range(len(defined))], least=least)[:2]
        n = sum(number for _, number in columns[name])
        rows.append(Metric(*place, name, value, n, group, *limits, direction=direction))
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


Column = Sequence[tuple[float | None, int]]


def _gper_limits(
    columns: Mapping[str, Column], resamples: int, seed: int
) -> tuple[float | None, float | None]:
    """Return the percentile interval of gper under resampling of paradigms; (None, None) if it has no width."""
    import numpy as np

    size = len(columns["pair_accuracy"])
    if not size:
        return None, None
    picks = np.random.default_rng(seed).integers(0, size, size=(resamples, size))

    def means(name: str) -> NDArray[np.float64]:
        values = np.array([np.nan if value is None else value for value, _ in columns[name]])
        samples = values[picks]
        defined = np.isfinite(samples)
        # A resample in which the quantity is undefined everywhere has the mean NaN, and is dropped below.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(defined, samples, 0.0).sum(axis=1) / defined.sum(axis=1))

    wrong = 1 - means("pair_accuracy")
    resampled = np.where(wrong == 0, 0.0, wrong * means("necessity"))
    resampled = resampled[np.isfinite(resampled)]
    if not len(resampled):
        return None, None
    low, high = np.quantile(resampled, [0.025, 0.975])
    # An interval without width would claim certainty.
    return (float(low), float(high)) if high - low > NO_WIDTH else (None, None)
