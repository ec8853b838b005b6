"""The metrics of ERAS from the values of verdicts: tables 1 and 2; table 2 also as the authors' code computes it.

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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import itemgetter
from typing import Any

from pytest_llmprops.benchmarks.eras import explicit, implicit
from pytest_llmprops.benchmarks.eras.implicit import (
    NO_WIDTH,
    PairResult,
    Score,
    by_paradigm,
    gper,
    is_tie,
    is_wrong,
)
from pytest_llmprops.benchmarks.eras.items import EXPLICIT
from pytest_llmprops.benchmarks.eras.paradigms import ParadigmFacts, facts_of, paradigm_name
from pytest_llmprops.benchmarks.eras.settings import AUTHORS, CUTTING, EXPLICIT_TASK
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.statistics.intervals import mean_interval


@dataclass(frozen=True, slots=True)
class ParadigmScore:
    """The shares of one paradigm's sentences that are segmented correctly at the site, in [0, 1].

    :param pairs: Number of pairs. :param both: Share of pairs with both sentences correct.
    """

    paradigm: str
    pairs: int
    test: float
    control: float
    both: float


def paradigm_scores(outcomes: Iterable[tuple[str, bool, bool]]) -> tuple[ParadigmScore, ...]:
    """Return the accuracies of each paradigm (section 3.1), sorted by paradigm.

    :param outcomes: (paradigm, test sentence right, control sentence right) for each pair.
    """
    counts: dict[str, list[int]] = {}
    for paradigm, test, control in outcomes:
        # One counter per combination: neither right, control only, test only, both.
        counts.setdefault(paradigm, [0, 0, 0, 0])[2 * test + control] += 1
    scores = []
    for paradigm, (neither, only_control, only_test, both) in sorted(counts.items()):
        n = neither + only_control + only_test + both
        scores.append(ParadigmScore(paradigm, n, (only_test + both) / n, (only_control + both) / n, both / n))
    return tuple(scores)


def accuracy_rows(
    place: Place, scores: Sequence[ParadigmScore], facts: Mapping[str, ParadigmFacts]
) -> list[Metric]:
    """Return test, control and pair accuracy and the difference as means over paradigms (Table 1).

    Groups: ``overall``, ``left``, ``right`` and the sentiment classes that occur. ``n`` counts pairs.

    The 95% intervals are those of the mean of bounded numbers, one per paradigm
    (:func:`~pytest_llmprops.statistics.intervals.mean_interval`).

    :param place: Task, language and source of the rows.
    """
    rows: list[Metric] = []
    for group in ("overall", "left", "right", *sorted({facts[s.paradigm].sentiment for s in scores})):
        members = [s for s in scores if group in ("overall", *astuple(facts[s.paradigm]))]
        if members:
            rows += _group_rows(place, group, members)
    return rows


def _group_rows(place: Place, group: str, members: Sequence[ParadigmScore]) -> list[Metric]:
    names = [s.paradigm for s in members]
    n = sum(s.pairs for s in members)
    columns = {
        "test_accuracy": [s.test for s in members],
        "control_accuracy": [s.control for s in members],
        "difference": [s.control - s.test for s in members],
        "both_accuracy": [s.both for s in members],
    }
    rows = []
    for name, direction in EXPLICIT_TASK.items():
        values = columns[name]
        low, high, _ = mean_interval(values, names, least=-1.0 if name == "difference" else 0.0)
        rows.append(Metric(*place, name, sum(values) / len(values), n, group, low, high, direction))
    return rows


#: Decimals of the differences in the authors' occlusion values.
_DECIMALS = 5


@dataclass(frozen=True, slots=True)
class AuthorsCounts:
    """Counts of the pairs of one paradigm.

    :param correct: Pairs that are right; a tie is right.
    :param errors: Pairs with occluded scores that are wrong or a tie.
    :param hits: Pairs with a stored occlusion value of at least 0. :param error_hits: Pairs that are both.
    """

    pairs: int
    correct: int
    errors: int
    hits: int
    error_hits: int


@dataclass(frozen=True, slots=True)
class AuthorsValues:
    """The quantities of table 2, as fractions; None if there is nothing to divide by."""

    accuracy: float | None
    necessity: float | None
    sufficiency: float | None
    gper: float | None


def authors_counts(pairs: Iterable[PairResult]) -> AuthorsCounts:
    """Count the pairs of one paradigm."""
    total = correct = errors = hits = error_hits = 0
    for pair in pairs:
        wrong, hit = is_wrong(pair.sentiment, pair.scores), _is_hit(pair)
        error = hit is not None and (wrong or is_tie(pair.scores))
        total += 1
        correct += not wrong
        errors += error
        hits += hit is True
        error_hits += error and hit is True
    return AuthorsCounts(total, correct, errors, hits, error_hits)


def _is_hit(pair: PairResult) -> bool | None:
    """Return True if occlusion does not let the signed difference grow; None without occluded scores."""
    scores = pair.scores
    if scores.occluded_test is None or scores.occluded_control is None:
        return None
    before = _difference(pair.sentiment, scores.test, scores.control)
    return before >= _difference(pair.sentiment, scores.occluded_test, scores.occluded_control)


def _difference(sentiment: str, test: Score, control: Score) -> float:
    """Return control minus test probability of the true word's class, rounded as in the authors' values."""
    difference = control.positive - test.positive
    return round(difference if sentiment[0] == "+" else -difference, _DECIMALS)


def authors_values(paradigms: Sequence[AuthorsCounts]) -> AuthorsValues:
    """Return table 2's quantities: the accuracy averaged over ``paradigms``, the shares over all their pairs."""
    sums = [sum(column) for column in zip(*map(astuple, paradigms), strict=True)] or [0] * 5
    _, _, errors, hits, error_hits = sums
    accuracy = sum(p.correct / p.pairs for p in paradigms) / len(paradigms) if paradigms else None
    necessity = error_hits / errors if errors else None
    return AuthorsValues(accuracy, necessity, error_hits / hits if hits else None, gper(accuracy, necessity))


def authors_metrics(
    place: Place, pairs: Sequence[PairResult], *, resamples: int = 2000, seed: int = 0
) -> list[Metric]:
    """Return ``authors_gper``, ``authors_necessity`` and ``authors_sufficiency``, each with the group ``overall``.

    ``n`` is the number of pairs a value is a share of. The 95% intervals are percentiles of a bootstrap of whole
    paradigms, which are too short for few paradigms.
    """
    counts = [authors_counts(members) for members in by_paradigm(pairs).values()]
    values = authors_values(counts)
    limits = _intervals(counts, resamples, seed)
    shown = {
        "authors_gper": (values.gper, sum(c.pairs for c in counts)),
        "authors_necessity": (values.necessity, sum(c.errors for c in counts)),
        "authors_sufficiency": (values.sufficiency, sum(c.hits for c in counts)),
    }
    rows = []
    for name, (value, n) in shown.items():
        low, high = limits.get(name, (None, None))
        rows.append(Metric(*place, name, value, n, "overall", low, high, AUTHORS[name]))
    return rows


def _intervals(counts: Sequence[AuthorsCounts], resamples: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return the limits of each metric that differs between resamples of the paradigms."""
    import numpy as np

    size = len(counts)
    if size < 2:
        return {}
    weights = np.random.default_rng(seed).multinomial(size, [1 / size] * size, size=resamples)
    errors, hits, error_hits = (
        weights @ np.array([getattr(c, name) for c in counts]) for name in ("errors", "hits", "error_hits")
    )
    wrong = 1 - weights @ np.array([c.correct / c.pairs for c in counts]) / size
    with np.errstate(invalid="ignore"):
        necessity, sufficiency = error_hits / errors, error_hits / hits
    resampled = {
        "authors_gper": np.where(wrong == 0, 0.0, wrong * necessity),
        "authors_necessity": necessity,
        "authors_sufficiency": sufficiency,
    }
    limits = {}
    for name, values in resampled.items():
        defined = values[np.isfinite(values)]
        if len(defined) and np.ptp(defined) > NO_WIDTH:
            low, high = np.quantile(defined, [0.025, 0.975])
            limits[name] = (float(low), float(high))
    return limits


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield tables 1 and 2 as rows: means over paradigms, computed from the records' values alone."""
    for place, members in by_place(records).items():
        yield from (
            _explicit_rows(place, members) if place[0] == EXPLICIT else _implicit_rows(place, members)
        )


#: With more degenerate segmentations than this, a remark says that the accuracy means nothing.
MAX_DEGENERATE = 0.05
#: With more undecided sites than this, a remark says how many there are. Segmenters leave up to 38% undecided.
MAX_UNDECIDED = 0.5
#: With fewer paradigms than this, the mean number of words is that of a few frames.
MIN_PARADIGMS = 20


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield warnings: degenerate segmentations, undecided sites, and implicit pairs that are all ties."""
    for (task, *_), members in by_place(records).items():
        values = [r.values for r in members]
        if task == EXPLICIT:
            yield from _explicit_remarks(values)
        else:
            pairs = [PairResult.of(v) for v in values if "test" in v]
            if len(pairs) > 1 and all(is_tie(pair.scores) for pair in pairs):
                yield (
                    f"warning: all {len(pairs)} implicit pairs are ties:"
                    " the sentiment scores do not depend on the sentence"
                )


def _explicit_remarks(values: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cut = [v for v in values if "words" in v]
    if not cut:
        return
    groups = _by_paradigm(cut)
    words = _mean_over_paradigms(groups, lambda v: v["words"] / v["characters"])
    degenerate = sum(_is_degenerate(v) for v in cut) / len(cut)
    low, high = explicit.RUN_RANGE
    is_unusual = len(groups) >= MIN_PARADIGMS and not low <= words <= high
    if degenerate > MAX_DEGENERATE or is_unusual:
        kinds = {
            "every character is a word": [v["words"] == v["characters"] for v in cut],
            "sentences are hardly cut": [
                v["words"] < explicit.SENTENCE_RANGE[0] * v["characters"] for v in cut
            ],
        }
        shown = [f"; {kind} in {sum(hits) / len(cut):.0%}" for kind, hits in kinds.items() if any(hits)]
        yield (
            f"warning: degenerate segmentation: {words:.2f} words per character, segmenters give {low:.2f} to"
            f" {high:.2f}{''.join(shown)}; the accuracy does not show how words are segmented"
        )
    undecided = [v for v in cut if v["site_cuts"] != 1]
    if len(undecided) > MAX_UNDECIDED * len(cut):
        none = sum(v["site_cuts"] == 0 for v in undecided)
        others = ": decided_accuracy is the accuracy of the others" if len(undecided) < len(cut) else ""
        yield (
            f"warning: {len(undecided) / len(cut):.0%} of {len(cut)} sites are undecided: {none} without a boundary,"
            f" {len(undecided) - none} with both{others}"
        )


def _is_degenerate(values: Mapping[str, Any]) -> bool:
    return explicit.is_degenerate(values["words"], values["characters"])


def _by_paradigm(values: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for v in values:
        groups.setdefault(paradigm_name(v), []).append(v)
    return list(groups.values())


def _mean_over_paradigms(
    groups: Sequence[Sequence[Mapping[str, Any]]], number: Callable[[Mapping[str, Any]], float]
) -> float:
    return sum(sum(map(number, group)) / len(group) for group in groups) / len(groups)


def _explicit_rows(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    values: list[Mapping[str, Any]] = [r.values for r in members if "test" in r.values]
    if not values:
        return
    facts = {paradigm_name(v): facts_of(v) for v in values}
    scores = paradigm_scores((paradigm_name(v), bool(v["test"]), bool(v["control"])) for v in values)
    yield from accuracy_rows(place, scores, facts)
    for name in ("canary_token", "canary_swallowed"):
        mean = _mean_over_paradigms(_by_paradigm(values), itemgetter(name))
        yield Metric(*place, f"{name}_rate", mean, len(values), "overall", direction="lower")
    yield from _cutting_rows(place, [v for v in values if "words" in v])
    retried = [
        bool(v[f"{name}_retried"]) for v in values for name in ("test", "control") if "test_retried" in v
    ]
    if retried:
        yield rate(place, "retry_rate", retried, "lower")


def _cutting_rows(place: Place, values: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield how the test sentences are cut; ``boundary_recall`` is a share of all boundaries, the others are means."""
    decided = [v for v in values if v["site_cuts"] == 1]
    columns: dict[str, tuple[Sequence[Mapping[str, Any]], Callable[[Mapping[str, Any]], float]]] = {
        "words_per_character": (values, lambda v: v["words"] / v["characters"]),
        "degenerate_rate": (values, _is_degenerate),
        "site_cut_rate": (values, lambda v: v["site_cuts"] > 0),
        "decided_rate": (values, lambda v: v["site_cuts"] == 1),
        "decided_accuracy": (decided, itemgetter("test")),
    }
    for name, (members, number) in columns.items():
        if members:
            mean = _mean_over_paradigms(_by_paradigm(members), number)
            yield Metric(*place, name, mean, len(members), "overall", direction=CUTTING[name])
    gold = sum(int(v["gold"]) for v in values)
    if gold:
        recall = sum(v["gold_cut"] for v in values) / gold
        yield Metric(*place, "boundary_recall", recall, gold, "overall", direction=CUTTING["boundary_recall"])


def _implicit_rows(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    values: list[Mapping[str, Any]] = [r.values for r in members if "test" in r.values]
    pairs = [PairResult.of(v) for v in values]
    yield from implicit.implicit_metrics(place, pairs)
    yield from authors_metrics(place, pairs)
    if pairs:
        yield rate(place, "tie_rate", [is_tie(pair.scores) for pair in pairs], "none")
    sampled = [bool(v["sampled"]) for v in values if "sampled" in v]
    if sampled:
        yield rate(place, "sampled_rate", sampled, "none")
