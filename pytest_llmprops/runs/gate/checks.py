"""The checks of a gate's rule on all of its items, one per requirement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from pytest_llmprops.core.comparison import ALPHA, PASS_RATE, UnchangedModel, judge
from pytest_llmprops.core.gate_results import Check, CheckVerdict, Loss
from pytest_llmprops.core.numbers import (
    counted,
    number,
    p_value,
    percent,
    ruled_out,
    size_in_points,
    with_interval,
)
from pytest_llmprops.core.numbers import interval as interval_shown
from pytest_llmprops.core.paired import DropTest, Pairs, drop_interval, drop_test, holm, sample_of
from pytest_llmprops.core.records import MetricRow
from pytest_llmprops.core.statistics import Interval, mean_interval
from pytest_llmprops.runs.gate.file import Each, Rule, wrong_side

#: how messages name an interval at the level of all rules
INTERVAL = f"{1 - ALPHA:.0%} interval"


class Answer(NamedTuple):
    """One answered item: its cluster, and the shares of its samples that are correct, refused and unparsed."""

    cluster: str
    correct: float
    refused: float
    unparsed: float


class Member(NamedTuple):
    """One task, language or cluster of a benchmark."""

    benchmark: str
    kind: Each
    name: str


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
        from pytest_llmprops.core.bounded_mean import ClusterSample, times_to_settle

        sample = ClusterSample.of(scores, clusters)
        times = times_to_settle(sample, rule.min_accuracy, ALPHA / 2, least=0, most=1)
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


def regression_required(rule: Rule) -> str:
    """Return the requirement of ``no_regression`` in words."""
    detect = size_in_points(rule.detect)
    return f"no significant drop; a drop of {detect} or more is ruled out (80% confidence)"


def no_regression(rule: Rule, pairs: Pairs, test: DropTest, *, tests: int, spare: int | None = None) -> Check:
    """Check ``no_regression``: no significant drop, and a drop of ``detect`` is ruled out.

    A significant gain alone does not suffice: if one cluster in ten fails wholly, a third of all samples of ten
    clusters have none of them, and may show a gain.

    :param test: the test with the Holm-corrected p-value.
    :param tests: the number of tests that the correction is for.
    :param spare: number of items of the benchmark that were not measured; None if it is unknown.
    """
    interval = drop_interval(pairs)
    result = judge(pairs, detect=rule.detect, test=test)
    corrected = f", Holm over {tests} rules" if tests > 1 else ""
    test_text = f"p {p_value(result.p)} ({result.test_method}{corrected}, alpha {ALPHA:g})"
    measured = f"{_drop(pairs, interval)}; {test_text}; {ruled_out(result.limit)}"
    if result.conclusion == "drop":
        verdict: CheckVerdict = "failed"
        reason = f"the drop is significant: {_flips(pairs)}"
    elif result.limit <= rule.detect:
        verdict, reason = "met", ""
    else:
        verdict = "inconclusive"
        model = UnchangedModel(sample_of(pairs), alpha=ALPHA / tests)
        advice = _pass_advice(model, "detect", rule.detect, pairs, spare)
        reason = f"a drop of {size_in_points(rule.detect)} is not ruled out by {_size(pairs)}; {advice}"
    return Check(
        "no_regression", regression_required(rule), measured, verdict, reason, pairs.drop, *interval[:2]
    )


def _flips(pairs: Pairs) -> str:
    return f"{pairs.losses} lost and {pairs.gains} gained of {pairs.n} {pairs.noun}s"


def _drop(pairs: Pairs, interval: Interval) -> str:
    """Return a drop with its interval in words; a negative drop is a gain."""
    low, high, _ = interval
    word = "drop"
    if pairs.drop < 0:
        word, low, high = "gain", -high, -low
    return f"{word} of {size_in_points(pairs.drop)} ({INTERVAL} {interval_shown(low, high)}), {_flips(pairs)}"


def _pass_advice(model: UnchangedModel, key: str, limit: float, pairs: Pairs, spare: int | None) -> str:
    """Return what would let an unchanged model pass: more pairs, or another value of the rule's ``key``."""
    times = model.times_to_pass(limit)
    if times is not None and (spare is None or math.ceil(pairs.n * times) <= pairs.n + spare):
        needed = _amount(times, pairs.noun, pairs.n, pairs.clusters)
        return f"with about {needed} an unchanged model passes in {PASS_RATE:.0%} of runs"
    whole = ", and the benchmark has no more" if spare == 0 else ""
    advice = f"an unchanged model passes in {model.pass_rate(limit):.0%} of runs of this size{whole}"
    enough = model.limit_to_pass()
    return advice if enough is None else f"{advice}; with {key} = {enough:g} it passes in {PASS_RATE:.0%}"


def _size(pairs: Pairs) -> str:
    return (
        f"{pairs.cluster_count} clusters ({pairs.n} pairs)" if pairs.clustered else f"{pairs.n} {pairs.noun}s"
    )


def drop_required(rule: Rule) -> str:
    """Return the requirement of ``max_drop`` in words."""
    assert rule.max_drop is not None
    return f"drop of at most {size_in_points(rule.max_drop)} (upper limit of the {INTERVAL})"


def max_drop(rule: Rule, pairs: Pairs, *, spare: int | None = None) -> Check:
    """Check ``max_drop`` (non-inferiority): the whole interval of the drop is at or below the margin.

    :param spare: number of items of the benchmark that were not measured; None if it is unknown.
    """
    assert rule.max_drop is not None
    interval = drop_interval(pairs)
    verdict = ranked(-interval.high, -interval.low, at_least=-rule.max_drop)
    reason = ""
    if verdict == "failed":
        reason = f"the drop is larger: {_flips(pairs)}"
    elif verdict == "inconclusive":
        model = UnchangedModel(sample_of(pairs), ALPHA / 2)
        reason = f"the interval of {_size(pairs)} contains the margin; "
        reason += _pass_advice(model, "max_drop", rule.max_drop, pairs, spare)
    return Check(
        "max_drop",
        drop_required(rule),
        _drop(pairs, interval),
        verdict,
        reason,
        pairs.drop,
        *interval[:2],
    )


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


# Single tasks, languages and clusters: a drop on one of them may hide in the mean over all.


def collapse_required(rule: Rule) -> str:
    """Return the requirement of ``no_collapse`` in words."""
    return f"no {rule.each} with a significant drop"


def member_tests(members: Mapping[Member, Pairs]) -> dict[Member, float]:
    """Return the p-value of a drop of each member, before any correction."""
    return {m: drop_test(pairs).p if pairs.drop > 0 else 1.0 for m, pairs in members.items()}


def no_collapse(rule: Rule, members: Mapping[Member, Pairs], p_values: Mapping[Member, float]) -> Check:
    """Check ``no_collapse``: failed if a member drops significantly, otherwise met, however few pairs there are.

    :param p_values: corrected for all tests of all such rules.
    """
    required = collapse_required(rule)
    if not members:
        none = f"no {rule.each} has five independent pairs"
        return Check("no_collapse", required, none, "invalid", f"{none}, so no drop could be significant")
    worst = max(members, key=lambda m: (p_values[m] <= ALPHA, members[m].drop))
    pairs = members[worst]
    limits = drop_interval(pairs)
    lost = [m for m in members if p_values[m] <= ALPHA]
    measured = f"{worst.name}: {_drop(pairs, limits)}; p {p_value(p_values[worst])} (Holm)"
    if not lost:
        measured = f"largest drop of {len(members)}: {measured}" if pairs.drop > 0 else "no drop"
        return Check("no_collapse", required, measured, "met", "", pairs.drop, *limits[:2])
    names = ", ".join(m.name for m in sorted(lost, key=lambda m: -members[m].drop)[:5])
    reason = f"{len(lost)} of {len(members)} dropped: {names}{', …' if len(lost) > 5 else ''}"
    return Check("no_collapse", required, measured, "failed", reason, pairs.drop, *limits[:2])


def losses(families: Sequence[Mapping[Member, Pairs]], titles: Callable[[str], str]) -> list[Loss]:
    """Return the members that drop significantly at 0.05, the largest drop of each kind first.

    Each family gets an equal part of 0.05, so that hundreds of clusters do not hide the drop of a task; Holm's
    correction is over its members.
    """
    families = [family for family in families if family]
    lost = []
    for family in families:
        tests = member_tests(family)
        adjusted = holm(list(tests.values()))
        for member, p in zip(tests, (min(1.0, len(families) * p) for p in adjusted), strict=True):
            if p <= ALPHA:
                pairs = family[member]
                low, high, _ = drop_interval(pairs)
                place = (member.benchmark, titles(member.benchmark), member.kind, member.name)
                lost.append(Loss(*place, pairs.drop, low, high, p, pairs.n, pairs.losses, pairs.gains))
    kinds = get_args(Each)
    return sorted(lost, key=lambda loss: (kinds.index(loss.kind), -loss.drop))
