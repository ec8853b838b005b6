"""The checks of a gate's rule on all of its items, one per requirement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.numbers import counted, number, p_value, percent, point_range, points, with_interval
from pytest_llmprops.records.gate import Check, CheckVerdict
from pytest_llmprops.runs.gate.file import Rule, wrong_side
from pytest_llmprops.runs.judgement import Member
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


def accuracy(rule: Rule, answers: Sequence[Answer], noun: str = "item", *, spare: int | None = None) -> Check:
    """Check ``min_accuracy`` on all answered items, by the interval that summaries show.

    :param noun: what an answer is: ``cluster`` if each has the mean of a cluster's items.
    :param spare: number of items of the benchmark that were not measured; None if it is unknown.
    """
    assert rule.min_accuracy is not None
    if not answers:
        return Check(
            "min_accuracy", accuracy_required(rule), "no answered item", "invalid", "nothing to judge"
        )
    scores, clusters = [a.correct for a in answers], [a.cluster for a in answers]
    total = math.fsum(scores)
    value = total / len(scores)
    interval = mean_interval(scores, clusters)
    measured = f"{with_interval(value, interval.low, interval.high)}, "
    measured += f"{total:.6g} of {len(scores)}" if noun == "item" else f"mean of {len(scores)} {noun}s"
    verdict = ranked(interval.low, interval.high, at_least=rule.min_accuracy)
    reason = ""
    if verdict == "inconclusive":
        from pytest_llmprops.statistics.bounded_mean import ClusterSample, times_to_settle

        sample = ClusterSample.of(scores, clusters)
        times = times_to_settle(sample, rule.min_accuracy, LEVEL / 2, least=0, most=1)
        reason = f"the interval contains the limit; {_settled_by(times, noun, len(scores), clusters, spare)}"
    return Check(
        "min_accuracy", accuracy_required(rule), measured, verdict, reason, value, interval.low, interval.high
    )


def accuracy_required(rule: Rule) -> str:
    """Return the requirement of ``min_accuracy`` in words."""
    assert rule.min_accuracy is not None
    return f"accuracy of at least {percent(rule.min_accuracy)} (lower limit of the {INTERVAL})"


def _settled_by(times: float | None, noun: str, n: int, clusters: Sequence[str], spare: int | None) -> str:
    """Return how many items (and clusters) would decide, given the factor by which more are needed."""
    if times is None:
        return f"the estimate lies on it: no practical number of {noun}s would decide"
    if spare is not None and n * times > n + spare:
        return f"the {counted(n + spare, noun)} of the benchmark are too few to decide"
    return f"about {_amount(times, noun, n, clusters)} would decide it, if the accuracy stays as it is"


def _amount(times: float, noun: str, n: int, clusters: Sequence[str]) -> str:
    count = len(set(clusters))
    more = max(count + 1, math.ceil(times * count))
    if count == n:
        return f"{more} {noun}s"
    return f"{more} clusters ({math.ceil(more * n / count)} {noun}s)"


def share(rule: Rule, status: Literal["refused", "unparsed"], answers: Sequence[Answer]) -> Check:
    """Check ``max_refused`` or ``max_unparsed``: a plain share of the answered items."""
    kind, limit = f"max_{status}", limit_of(rule, status)
    required = f"at most {percent(limit)} {status}"
    if not answers:
        return Check(kind, required, "no answered item", "invalid", "nothing to judge")
    count = math.fsum(getattr(a, status) for a in answers)
    value = count / len(answers)
    measured = f"{percent(value)}, {count:.6g} of {len(answers)}"
    return Check(kind, required, measured, "met" if value <= limit else "failed", value=value)


def limit_of(rule: Rule, status: Literal["refused", "unparsed"]) -> float:
    """Return the largest share of items of this status that the rule allows."""
    limit = rule.max_refused if status == "refused" else rule.max_unparsed
    assert limit is not None
    return limit


def drop_required(rule: Rule) -> str:
    """Return the requirement of ``max_drop`` in words."""
    assert rule.max_drop is not None
    return f"at most {_points(rule.max_drop)} worse (lower limit of the {INTERVAL})"


def max_drop(rule: Rule, pairs: Pairs, change: Change, *, spare: int | None = None) -> Check:
    """Check ``max_drop`` (non-inferiority): the largest drop in the interval is at most the margin.

    :param change: the judgement of the pairs.
    :param spare: number of items of the benchmark that were not measured; None if it is unknown.
    """
    assert rule.max_drop is not None
    reason = ""
    if change.largest_drop <= rule.max_drop:
        verdict: CheckVerdict = "met"
    elif change.word == "worse":
        verdict = "failed"
        reason = f"{_at_most(change)} worse, margin {_number(rule.max_drop)}"
    else:
        verdict = "inconclusive"
        reason = f"{_likely(rule.max_drop, pairs, change)}; {_enough(rule.max_drop, pairs, change, spare)}"
    return Check(
        "max_drop", drop_required(rule), change_text(change), verdict, reason,
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


def _at_most(change: Change) -> str:
    return f"at most {_points(change.largest_drop)}"


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


def _enough(margin: float, pairs: Pairs, change: Change, spare: int | None) -> str:
    """Return how many pairs would decide, if the models differ as measured."""
    from pytest_llmprops.statistics.bounded_mean import ClusterSample, times_to_settle

    sample = ClusterSample.of(pairs.differences, pairs.clusters)
    # A drop beyond the margin fails once it is significant.
    limit = -margin if -change.difference < margin else 0.0
    times = times_to_settle(sample, limit, LEVEL / 2, least=-1, most=1)
    if times is None:
        return f"no practical number of {pairs.noun}s would decide"
    if spare is not None and pairs.n * times > pairs.n + spare:
        return f"the {counted(pairs.n + spare, pairs.noun)} of the benchmark are too few to decide"
    return f"{_amount(times, pairs.noun, pairs.n, pairs.clusters)} would decide"


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
    requirements: list[tuple[str, str, Callable[[float, float], CheckVerdict]]] = []
    if rule.min is not None:
        least = rule.min
        requirements.append(("min", f"at least {least:g}", lambda a, b: ranked(a, b, at_least=least)))
    if rule.max is not None:
        most = rule.max
        requirements.append(("max", f"at most {most:g}", lambda a, b: ranked(-b, -a, at_least=-most)))
    return [
        Check(kind, f"{row.name} {text} ({basis})", measured, judge(*limits), "", value, low, high)
        for kind, text, judge in requirements
    ]


def collapse_required(rule: Rule) -> str:
    """Return the requirement of ``no_collapse`` in words."""
    assert rule.no_collapse is not None
    return f"no {rule.each} that is worse by more than {_points(rule.no_collapse)}"


def no_collapse(rule: Rule, changes: Mapping[Member, Change]) -> Check:
    """Check ``no_collapse``: failed if a member is worse and its drop exceeds the margin, otherwise met.

    :param changes: of the members, judged together with all others of the two runs.
    """
    assert rule.no_collapse is not None
    required = collapse_required(rule)
    if not changes:
        none = f"no {rule.each} has six independent pairs"
        return Check("no_collapse", required, none, "invalid", f"{none}, so no drop could be significant")
    margin = rule.no_collapse
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
