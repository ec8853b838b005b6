"""The metrics of ERAS from the values of verdicts: tables 1 and 2; table 2 also as the authors' code computes it.

A metric is a number per pair, or none. Its value is the mean over paradigms of the mean over a paradigm's pairs.

The authors' code (``sentiment_eval.py`` in the repository winglicopy/ERAS) does not follow the text of section 4.1,
which :mod:`pytest_llmprops.benchmarks.eras.implicit` implements. It differs in three points:

- Necessity and sufficiency are shares of all pairs of all paradigms, not means over paradigms. Only the accuracy in
  GPER is a mean over paradigms.
- A tie is correct for the accuracy, but counts as an error for necessity and sufficiency.
- A hit is a pair whose stored occlusion value is at least 0. This value is the *signed* difference of the scores,
  control minus test for the true word's class, before the occlusion minus after it, each rounded to five decimals.
  So a hit is a difference that does not grow. If it changes its sign, its absolute value may grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import fsum
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.eras import explicit
from pytest_llmprops.benchmarks.eras.implicit import PairScores, Score, is_hit, is_tie, is_wrong
from pytest_llmprops.benchmarks.eras.items import EXPLICIT
from pytest_llmprops.benchmarks.eras.paradigms import facts_of, paradigm_name
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import mean_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

Values = Mapping[str, Any]
#: The values of the pairs of each paradigm.
Paradigms = Mapping[str, Sequence[Values]]
#: The number of a pair for a metric; None if the pair is not one of those that the metric is about.
Number = Callable[[Values], float | None]
#: A sum and the number of its terms, for each paradigm.
Sums = Sequence[tuple[float, int]]
#: The metrics in the order of tables; ``difference`` is control minus test, as in the paper's tables.
DIRECTIONS: Mapping[str, str] = {
    "test_accuracy": "higher",
    "control_accuracy": "higher",
    "difference": "lower",
    "both_accuracy": "higher",
    "canary_token_rate": "lower",
    "canary_swallowed_rate": "lower",
    "words_per_character": "none",
    "degenerate_rate": "lower",
    "decided_rate": "none",
    "decided_accuracy": "higher",
    "retry_rate": "lower",
    "pair_accuracy": "target:0.5",
    "necessity": "lower",
    "sufficiency": "lower",
    "gper": "lower",
    "sentiment_difference": "target:0",
    "authors_gper": "lower",
    "authors_necessity": "lower",
    "authors_sufficiency": "lower",
    "tie_rate": "none",
    "sampled_rate": "none",
}
#: The metrics of table 2 by the paper's text, in each group of paradigms.
IMPLICIT_TASK = ("pair_accuracy", "necessity", "sufficiency", "gper", "sentiment_difference")
#: Resamples of a bootstrap.
RESAMPLES = 2000
#: In a narrower bootstrap interval, resampling changed only rounding errors.
_NO_WIDTH = 1e-9
#: Decimals of the differences in the authors' occlusion values.
_DECIMALS = 5


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield tables 1 and 2 as rows: means over paradigms, computed from the records' values alone."""
    for place, members in by_place(records).items():
        values = [record.values for record in members if "test" in record.values]
        yield from _explicit(place, values) if place[0] == EXPLICIT else _implicit(place, values)


def _paradigms(values: Sequence[Values]) -> Paradigms:
    return grouped(values, paradigm_name)


def _groups(paradigms: Paradigms) -> Iterator[tuple[str, Paradigms]]:
    """Yield ``overall``, ``left``, ``right`` and the sentiment classes that occur, with their paradigms."""
    yield "overall", paradigms
    facts = {name: facts_of(members[0]) for name, members in paradigms.items()}
    for group in ("left", "right", *sorted({sentiment for _, sentiment in facts.values()})):
        chosen = {name: paradigms[name] for name, groups in facts.items() if group in groups}
        if chosen:
            yield group, chosen


def _means(paradigms: Paradigms, number: Number) -> list[list[float]]:
    """Return the numbers of each paradigm that has some."""
    columns = ([x for v in members if (x := number(v)) is not None] for members in paradigms.values())
    return [column for column in columns if column]


def _mean(
    place: Place,
    name: str,
    group: str,
    paradigms: Paradigms,
    number: Number,
    *,
    least: float = 0.0,
) -> Metric:
    """Return a mean over paradigms. The 95% interval is that of the mean of bounded numbers, one per paradigm.

    ``n`` is the number of pairs that the value is a mean of.
    """
    columns = _means(paradigms, number)
    if not columns:
        return Metric(*place, name, None, 0, group, direction=DIRECTIONS[name])
    means = [fmean(column) for column in columns]
    low, high, _ = mean_interval(means, [str(n) for n in range(len(means))], least=least)
    n = sum(map(len, columns))
    return Metric(*place, name, fmean(means), n, group, low, high, DIRECTIONS[name])


def _decided(values: Values) -> float | None:
    return values["site_cuts"] == 1 if "site_cuts" in values else None


def _right_if_decided(values: Values) -> float | None:
    return values["test"] if _decided(values) else None


def _is_degenerate(values: Values) -> float | None:
    return explicit.is_degenerate(values["words"], values["characters"]) if "words" in values else None


def _density(values: Values) -> float | None:
    return values["words"] / values["characters"] if "words" in values else None


_ACCURACIES: Mapping[str, Number] = {
    "test_accuracy": itemgetter("test"),
    "control_accuracy": itemgetter("control"),
    "difference": lambda v: v["control"] - v["test"],
    "both_accuracy": lambda v: v["test"] * v["control"],
}
_CUTTING: Mapping[str, Number] = {
    "canary_token_rate": itemgetter("canary_token"),
    "canary_swallowed_rate": itemgetter("canary_swallowed"),
    "words_per_character": _density,
    "degenerate_rate": _is_degenerate,
    "decided_rate": _decided,
    "decided_accuracy": _right_if_decided,
}


def _explicit(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield table 1's accuracies by group, and how the test sentences are cut."""
    paradigms = _paradigms(values)
    for group, members in _groups(paradigms) if values else ():
        for name, number in _ACCURACIES.items():
            least = -1.0 if name == "difference" else 0.0
            yield _mean(place, name, group, members, number, least=least)
    for name, number in _CUTTING.items():
        row = _mean(place, name, "overall", paradigms, number)
        if row.n:
            yield row
    retried = [bool(v[f"{s}_retried"]) for v in values for s in ("test", "control") if "test_retried" in v]
    if retried:
        yield rate(place, "retry_rate", retried, DIRECTIONS["retry_rate"])


def _scored(values: Values) -> Values:
    """Return a scored pair's paradigm and its number for each metric of the implicit task."""
    scores, (_, sentiment) = PairScores.of(values), facts_of(values)
    wrong, tie, hit = is_wrong(sentiment, scores), is_tie(scores), is_hit(scores)
    error, authors_hit = wrong or tie, _does_not_grow(sentiment, scores)
    facts = {name: values[name] for name in ("paradigm", "right_branching", "true_class", "canary_class")}
    return {
        **facts,
        "pair_accuracy": float(not wrong),
        "necessity": float(hit) if wrong else None,
        "sufficiency": float(wrong) if hit else None,
        "sentiment_difference": scores.control.positive - scores.test.positive,
        "tie": tie,
        "authors_necessity": float(authors_hit) if error else None,
        "authors_sufficiency": float(error) if authors_hit else None,
    }


def _does_not_grow(sentiment: str, scores: PairScores) -> bool:
    """Return True if occlusion does not let the signed difference of the authors' code grow."""

    def signed(test: Score, control: Score) -> float:
        difference = control.positive - test.positive
        return round(difference if sentiment[0] == "+" else -difference, _DECIMALS)

    before = signed(scores.test, scores.control)
    return before >= signed(scores.occluded_test, scores.occluded_control)


def _implicit(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield table 2 by the paper's text in each group, and by the authors' code over all pairs."""
    pairs = [_scored(v) for v in values]
    paradigms = _paradigms(pairs)
    for group, members in _groups(paradigms):
        for name in IMPLICIT_TASK:
            if name == "gper":
                yield _gper(place, name, group, members, _sums(members, "necessity"))
            else:
                least = -1.0 if name == "sentiment_difference" else 0.0
                yield _mean(place, name, group, members, itemgetter(name), least=least)
    necessity = _sums(paradigms, "authors_necessity", pooled=True)
    yield _gper(place, "authors_gper", "overall", paradigms, necessity)
    for name in ("authors_necessity", "authors_sufficiency"):
        sums = _sums(paradigms, name, pooled=True)
        n = sum(count for _, count in sums)
        low, high = _limits(_resampled(sums)) if n else (None, None)
        yield Metric(*place, name, _share(sums), n, "overall", low, high, DIRECTIONS[name])
    if pairs:
        yield rate(place, "tie_rate", [pair["tie"] for pair in pairs], "none")
    sampled = [bool(v["sampled"]) for v in values if "sampled" in v]
    if sampled:
        yield rate(place, "sampled_rate", sampled, "none")


def _sums(paradigms: Paradigms, name: str, *, pooled: bool = False) -> Sums:
    """Return the sum of each paradigm's numbers and their count, or their mean as one number unless ``pooled``."""
    columns = [[v[name] for v in members if v[name] is not None] for members in paradigms.values()]
    return [(fsum(c), len(c)) if pooled or not c else (fmean(c), 1) for c in columns]


def _share(sums: Sums) -> float | None:
    count = sum(count for _, count in sums)
    return fsum(total for total, _ in sums) / count if count else None


def _gper(place: Place, name: str, group: str, paradigms: Paradigms, necessity: Sums) -> Metric:
    """Return (1 - accuracy) * necessity (section 4.1): 0 without errors, None if accuracy or necessity is undefined.

    The accuracy is a mean over paradigms. The 95% interval is a percentile interval of a bootstrap of whole paradigms,
    which is too short for few paradigms.
    """
    import numpy as np

    accuracy = _sums(paradigms, "pair_accuracy")
    wrong, share = 1 - (_share(accuracy) or 0.0), _share(necessity)
    value = None if not accuracy else 0.0 if wrong == 0 else None if share is None else wrong * share
    low = high = None
    if value is not None:
        errors = 1 - _resampled(accuracy)
        low, high = _limits(np.where(errors == 0, 0.0, errors * _resampled(necessity)))
    return Metric(*place, name, value, sum(map(len, paradigms.values())), group, low, high, DIRECTIONS[name])


def _resampled(sums: Sums) -> NDArray[Any]:
    """Return the share in each resample of the paradigms; NaN where it is undefined. The resamples are repeatable."""
    import numpy as np

    totals, counts = np.array(sums, dtype=float).T
    weights = np.random.default_rng(0).multinomial(len(sums), [1 / len(sums)] * len(sums), RESAMPLES)
    with np.errstate(invalid="ignore"):
        return np.asarray((weights @ totals) / (weights @ counts))


def _limits(values: NDArray[Any]) -> tuple[float | None, float | None]:
    """Return the limits of the middle 95%; none if they are equal, because no width would claim certainty."""
    import numpy as np

    defined = values[np.isfinite(values)]
    if not len(defined):
        return None, None
    low, high = np.quantile(defined, [0.025, 0.975])
    return (float(low), float(high)) if high - low > _NO_WIDTH else (None, None)


#: With more degenerate segmentations than this, a remark says that the accuracy means nothing.
MAX_DEGENERATE = 0.05
#: With more undecided sites than this, a remark says how many there are. Segmenters leave up to 38% undecided.
MAX_UNDECIDED = 0.5


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield warnings: degenerate segmentations, undecided sites, and implicit pairs that are all ties."""
    for (task, *_), members in by_place(records).items():
        values = [r.values for r in members if "test" in r.values]
        if task == EXPLICIT:
            yield from _explicit_remarks([v for v in values if "words" in v])
        elif len(values) > 1 and all(is_tie(PairScores.of(v)) for v in values):
            yield (
                f"warning: all {len(values)} implicit pairs are ties:"
                " the sentiment scores do not depend on the sentence"
            )


def _explicit_remarks(cut: Sequence[Values]) -> Iterator[str]:
    if not cut:
        return
    paradigms = _paradigms(cut)
    words = fmean(fmean(column) for column in _means(paradigms, _density))
    degenerate = fmean(map(_is_degenerate, cut))  # type: ignore[arg-type]
    if degenerate > MAX_DEGENERATE:
        low, high = explicit.RUN_RANGE
        kinds = {
            "every character is a word": fmean(v["words"] == v["characters"] for v in cut),
            "sentences are hardly cut": fmean(
                v["words"] < explicit.SENTENCE_RANGE[0] * v["characters"] for v in cut
            ),
        }
        shown = [f"; {kind} in {share:.0%}" for kind, share in kinds.items() if share]
        yield (
            f"warning: degenerate segmentation: {words:.2f} words per character, segmenters give {low:.2f} to"
            f" {high:.2f}{''.join(shown)}; the accuracy does not show how words are segmented"
        )
    undecided = [v for v in cut if not _decided(v)]
    if len(undecided) > MAX_UNDECIDED * len(cut):
        none = sum(v["site_cuts"] == 0 for v in undecided)
        others = ": decided_accuracy is the accuracy of the others" if len(undecided) < len(cut) else ""
        yield (
            f"warning: {len(undecided) / len(cut):.0%} of {len(cut)} sites are undecided: {none} without a boundary,"
            f" {len(undecided) - none} with both{others}"
        )
