"""Items without an answer at their worst for the candidate, so that errors cannot hide failures.

A rule leaves out items that are in error or missing in one of the runs, up to ``max_errors`` of them. If these are the
items that the candidate fails, what is left looks better than the candidate is: 30 items lost of 1,000 become 20 lost
of 990. So a requirement with a stated error rate is met only if it is also met when every item without an answer
counts against the candidate. A failed one is not affected: it fails on the answers alone.

A test whether the errors are concentrated on items that the baseline answers correctly could not hold the error rates.
If the baseline is right on 90% of the items, ten errors fall on ten such items in 35% of all runs by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_llmprops.core.gate_results import RuleResult, SequentialPlan
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.runs.benchmark_facts import TasksByAnswer
from pytest_llmprops.runs.gate_draw import ABSENT_HERE
from pytest_llmprops.runs.gate_file import Rule
from pytest_llmprops.runs.pairing import by_item, with_tasks_of

#: the requirements with a stated rate of wrong acceptances
_WITH_RATE = ("min_accuracy", "no_regression", "max_drop")


class AtWorst(NamedTuple):
    """The records of one rule with an answer for every item, and ids of the items that had none in one of the runs."""

    candidate: list[VerdictRecord]
    baseline: list[VerdictRecord]
    plan: SequentialPlan | None
    unanswered: list[str]


def at_worst(
    rule: Rule,
    candidate: Sequence[VerdictRecord],
    baseline: Sequence[VerdictRecord],
    plan: SequentialPlan | None,
    decided: TasksByAnswer,
) -> AtWorst:
    """Return a rule's records with errors and missing items counted against the candidate.

    Errors of the candidate and items that only the baseline has become wrong. Errors of the baseline and items that
    only the candidate has become correct for the baseline.

    :param plan: the plan of a run that draws its items; the result has one without known faults.
    """
    own = rule.select(candidate)
    failed = [r.id for r in own if r.status == "error"]
    ours = [replace(r, status="wrong") if r.status == "error" else r for r in own]
    if not rule.paired:
        return AtWorst(ours, [], plan, list(dict.fromkeys(failed)))
    others = rule.select(with_tasks_of(baseline, own, decided))
    failed += [r.id for r in others if r.status == "error"]
    theirs = [replace(r, status="correct") if r.status == "error" else r for r in others]
    here, there = by_item(own), by_item(others)
    # Of a run that draws its items, only those that are not to be drawn are missing.
    drawn_from = None if plan is None else plan.rules[rule.name]
    absent = None if drawn_from is None else set(drawn_from.faults.get(ABSENT_HERE, ()))
    for key, records in there.items():
        if key not in here and (absent is None or key.id in absent):
            failed.append(key.id)
            ours += [replace(r, status="wrong") for r in records]
    for key, records in here.items():
        if key not in there:
            failed.append(key.id)
            theirs += [replace(r, status="correct") for r in records]
    if plan is not None and drawn_from is not None:
        more = len(absent or ())
        items, effective = drawn_from.items + more, drawn_from.effective + more
        every = replace(
            drawn_from, items=items, effective=effective, faults={}, pairs=items, pairs_effective=effective
        )
        plan = replace(plan, rules={**plan.rules, rule.name: every})
    return AtWorst(ours, theirs, plan, list(dict.fromkeys(failed)))


def confirmed(rule: Rule, result: RuleResult, worst: RuleResult, unanswered: Sequence[str]) -> RuleResult:
    """Return the result in which a requirement is met only if it is met at worst as well.

    :param worst: the result on the records of :func:`at_worst`.
    """
    verdicts = {check.kind: check.verdict for check in worst.checks}
    names = first_names(sorted(unanswered))
    reason = (
        f"met by the answers, but not if the candidate fails the {len(unanswered)} items in error or missing in one of"
        f" the runs ({names}): measure them again"
    )
    checks = tuple(
        replace(check, verdict="inconclusive", reason=reason)
        if check.verdict == "met" and has_rate(rule, check.kind) and verdicts.get(check.kind) != "met"
        else check
        for check in result.checks
    )
    if checks == result.checks:
        return result
    return replace(
        result, checks=checks, verdict="inconclusive" if result.verdict == "met" else result.verdict
    )


def has_rate(rule: Rule, kind: str) -> bool:
    """Whether a requirement has a stated rate of wrong acceptances."""
    return kind in _WITH_RATE and not (kind == "min_accuracy" and rule.basis == "point")
