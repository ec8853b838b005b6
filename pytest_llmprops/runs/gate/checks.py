"""The checks of a gate's rule on all of its items, one per requirement."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.numbers import counted, number, p_value, percent, point_range, points, with_interval
from pytest_llmprops.records.gate import Check, CheckVerdict
from pytest_llmprops.runs.gate.file import Rule, wrong_side
from pytest_llmprops.runs.pairs import Member
from pytest_llmprops.statistics.intervals import mean_interval
from pytest_llmprops.statistics.judgement import LEVEL, Change

if TYPE_CHECKING:
    from pytest_llmprops.statistics.paired import Pairs

#: how messages name an interval at the level of all rules
INTERVAL = f"{1 - LEVEL:.0%} interval"


class Answer(NamedTuple):
    """One answered item: its cluster, and the shares of its samples that are correct, refused and unparsed."""

    cluster: str
    correct: float
    refused: float
    unparsed: float


def ranked(low: float, high: float, *, at_least: float) -> CheckVerdict:
    """Return ``met`` if an interval is at or above a limit, ``failed`` if below it, otherwise ``inconclusive``."""
    if low >= at_least:
        return "met"
    return "failed" if high < at_least else "inconclusive"


def accuracy(
    rule: Rule,
    scores: Sequence[float],
    clusters: Sequence[str],
    noun: str = "item",
    *,
    spare: int | None = None,
) -> Check:
    """Check ``min_accuracy`` on all answered items, by the interval that summaries show.

    :param noun: what a score is of: ``cluster`` if each is the mean of a cluster's items.
    :param spare: number of items of the benchmark that were not measured; None if it is unknown.
    """
    assert rule.min_accuracy is not None
    required = f"accuracy of at least {percent(rule.min_accuracy)} (lower limit of the {INTERVAL})"
    total = math.fsum(scores)
    value, interval = total / len(scores), mean_interval(scores, clusters)
    measured = f"{with_interval(value, interval.low, interval.high)}, "
    measured += f"{total:.6g} of {len(scores)}" if noun == "item" else f"mean of {len(scores)} {noun}s"
    verdict = ranked(interval.low, interval.high, at_least=rule.min_accuracy)
    reason = ""
    if verdict == "inconclusive":
        enough = _enough(scores, clusters, rule.min_accuracy, noun, spare, least=0)
        reason = f"the interval contains the limit; {enough}"
    return Check("min_accuracy", required, measured, verdict, reason, value, interval.low, interval.high)


def _enough(
    scores: Sequence[float],
    clusters: Sequence[str],
    limit: float,
    noun: str,
    spare: int | None,
    *,
    least: int,
) -> str:
    """Return how many items (and clusters) would decide on which side of a limit their mean is, if it stays as it is.

    :param least: the smallest possible score; the largest is 1.
    """
    from pytest_llmprops.statistics.bounded_mean import ClusterSample, times_to_settle

    n, count = len(scores), len(set(clusters))
    times = times_to_settle(ClusterSample.of(scores, clusters), limit, least=least)
    if times is None:
        return f"no practical number of {noun}s would decide"
    if spare is not None and n * times > n + spare:
        return f"the {counted(n + spare, noun)} of the benchmark are too few to decide"
    more = max(count + 1, math.ceil(times * count))
    size = f"{more} {noun}s" if count == n else f"{more} clusters ({math.ceil(more * n / count)} {noun}s)"
    return f"{size} would decide"


def share(rule: Rule, status: Literal["refused", "unparsed"], answers: Collection[Answer]) -> Check:
    """Check ``max_refused`` or ``max_unparsed``: a plain share of the answered items."""
    limit = rule.max_refused if status == "refused" else rule.max_unparsed
    assert limit is not None
    amount = math.fsum(getattr(a, status) for a in answers)
    value = amount / len(answers)
    measured = f"{percent(value)}, {amount:.6g} of {len(answers)}"
    verdict: CheckVerdict = "met" if value <= limit else "failed"
    return Check(f"max_{status}", f"at most {percent(limit)} {status}", measured, verdict, value=value)


def max_drop(rule: Rule, pairs: Pairs, change: Change, *, spare: int | None = None) -> Check:
    """Check ``max_drop`` (non-inferiority): the largest drop in the interval is at most the margin.

    :param change: the judgement of the pairs.
    :param spare: number of items of the benchmark that were not measured; None if it is unknown.
    """
    assert rule.max_drop is not None
    margin, reason = rule.max_drop, ""
    verdict: CheckVerdict = "met"
    required = f"at most {_points(margin)} worse (lower limit of the {INTERVAL})"
    if change.largest_drop > margin and change.word == "worse":
        verdict = "failed"
        reason = f"at most {_points(change.largest_drop)} worse, margin {_number(margin)}"
    elif change.largest_drop > margin:
        verdict = "inconclusive"
        # A drop beyond the margin fails once it is significant.
        limit = -margin if -change.difference < margin else 0.0
        enough = _enough(pairs.differences, pairs.clusters, limit, pairs.noun, spare, least=-1)
        reason = f"{_likely(margin, pairs, change)}; {enough}"
    return Check(
        "max_drop", required, change_text(change), verdict, reason,
        change.difference, change.low, change.high,
    )  # fmt: skip


def margin_text(margin: float, change: Check) -> str:
    """Return a met ``max_drop`` in words: ``at most 3.1 points worse (margin 5); measured −0.7``."""
    assert change.value is not None
    assert change.ci_low is not None
    if change.ci_low >= 0:
        return f"not worse (margin {_number(margin)}); measured {points(change.value)}"
    return (
        f"at most {_points(-change.ci_low)} worse (margin {_number(margin)}); measured {points(change.value)}"
    )


def change_text(change: Change) -> str:
    """Return a change in words, with its interval and its test."""
    flips = f"{change.lost} lost and {change.gained} gained of {counted(change.pairs, change.noun)}"
    p = f"{change.word}, p {p_value(change.p)} ({change.test}, corrected)"
    return f"{points(change.difference)} points ({INTERVAL} {point_range(change.low, change.high)}), {flips}; {p}"


def _number(fraction: float) -> str:
    """Return a fraction in points without needless decimals: ``5``, ``2.5``."""
    return f"{100 * fraction:.4g}"


def _points(fraction: float) -> str:
    text = f"{100 * fraction:.1f}".removesuffix(".0")
    return f"{text} point{'' if text == '1' else 's'}"


def _likely(margin: float, pairs: Pairs, change: Change) -> str:
    """Return what was measured, in words, where the interval contains the margin."""
    if not change.lost and not change.gained:
        size = f"{pairs.cluster_count} clusters" if pairs.clustered else counted(pairs.n, pairs.noun)
        return f"{size} without a difference are too few to rule out a drop of {_points(margin)}"
    if change.difference >= 0:
        return f"probably not worse ({points(change.difference)})"
    inside = " and within the margin" if -change.difference < margin else ""
    return f"probably {_points(-change.difference)} worse{inside}"


def metric(rule: Rule, row: MetricRow) -> list[Check]:
    """Check ``min`` and ``max`` on one row of the run's metrics."""
    name = "/".join(n for n in (row.benchmark, row.task, row.language, row.source, row.group, row.name) if n)
    value, low, high = row.value, row.ci_low, row.ci_high
    problem = wrong_side(rule, row.name, row.direction)
    if problem or value is None:
        return [Check("metric", rule.metric, name, "invalid", problem or f"{name} is undefined in this run")]
    limits, basis = (value, value), "estimate"
    if low is not None and high is not None:
        limits, basis = (low, high), INTERVAL
    measured = f"{name} {number(value)}"
    if low is not None and high is not None:
        measured += f" ({number(low)} to {number(high)})"
    checks = []
    if rule.min is not None:
        verdict = ranked(*limits, at_least=rule.min)
        required = f"{row.name} at least {rule.min:g} ({basis})"
        checks.append(Check("min", required, measured, verdict, "", value, low, high))
    if rule.max is not None:
        verdict = ranked(-limits[1], -limits[0], at_least=-rule.max)
        required = f"{row.name} at most {rule.max:g} ({basis})"
        checks.append(Check("max", required, measured, verdict, "", value, low, high))
    return checks


def no_collapse(rule: Rule, changes: Mapping[Member, Change]) -> Check:
    """Check ``no_collapse``: failed if a member is worse and its drop exceeds the margin, otherwise met.

    :param changes: of the members, judged together with all others of the two runs.
    """
    assert rule.no_collapse is not None
    margin = rule.no_collapse
    required = f"no {rule.each} that is worse by more than {_points(margin)}"
    if not changes:
        none = f"no {rule.each} has six independent pairs"
        return Check("no_collapse", required, none, "invalid", f"{none}, so no drop could be significant")
    collapsed = [m for m, change in changes.items() if change.word == "worse" and -change.difference > margin]
    lowest = min(collapsed or changes, key=lambda m: changes[m].difference)
    change = changes[lowest]
    measured = f"{lowest.name}: {change_text(change)}"
    limits = change.difference, change.low, change.high
    if not collapsed:
        measured = f"lowest of {len(changes)}: {measured}"
        return Check("no_collapse", required, measured, "met", "", *limits)
    names = ", ".join(m.name for m in sorted(collapsed, key=lambda m: changes[m].difference)[:5])
    reason = f"{len(collapsed)} of {len(changes)} collapsed: {names}{', …' if len(collapsed) > 5 else ''}"
    return Check("no_collapse", required, measured, "failed", reason, *limits)
