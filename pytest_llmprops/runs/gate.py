"""The decision of a gate on a recorded run, or on a run and its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_llmprops.core.gate_results import (
    Check,
    CheckVerdict,
    GateDecision,
    GateResult,
    RuleResult,
    SequentialPlan,
)
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.runs import gate_bounds, gate_checks
from pytest_llmprops.runs.benchmark_facts import unknown_benchmarks
from pytest_llmprops.runs.comparable import unfit
from pytest_llmprops.runs.completing import shard_steps
from pytest_llmprops.runs.gate_data import RuleData, Terms
from pytest_llmprops.runs.gate_draw import fingerprint
from pytest_llmprops.runs.gate_errors import at_worst, confirmed
from pytest_llmprops.runs.gate_file import Gate
from pytest_llmprops.runs.gate_fitness import fitness
from pytest_llmprops.runs.gate_selection import selection_notes
from pytest_llmprops.runs.gate_targets import misplaced
from pytest_llmprops.runs.integrity import added_hashes
from pytest_llmprops.runs.pairing import with_one_task
from pytest_llmprops.runs.reader import Run

#: worst first
ORDER: tuple[CheckVerdict, ...] = ("invalid", "failed", "inconclusive", "met")
_DECISIONS: Mapping[CheckVerdict, GateDecision] = {
    "invalid": "invalid",
    "failed": "fail",
    "inconclusive": "inconclusive",
    "met": "pass",
}


def decide(
    gate: Gate,
    facts: RunFacts,
    records: Sequence[VerdictRecord],
    baseline: Run | None,
    *,
    running: bool = False,
    problems: Sequence[str] = (),
) -> GateResult:
    """Judge a run by a gate.

    :param facts: the run's ``run.json``; ``sequential`` has the plan of a run that draws its items
        (:func:`~pytest_llmprops.runs.gate_draw.plan_of`). :param records: its verdicts.
    :param running: the run has not ended, so it may be incomplete.
    :param problems: what is inconsistent in the run's record; those of the baseline are in ``baseline.problems``.
    """
    # A baseline with several models is rejected by unfit().
    first = baseline.models[:1] if baseline is not None else []
    theirs = [r for r in baseline.records if r.model in first] if baseline is not None else []
    plan = _same_terms(gate, facts, theirs)
    runs = [facts] if baseline is None else [facts, baseline.facts]
    terms = Terms.of(*runs)
    records = with_one_task(records, terms.decided)
    rules = [RuleData.of(rule, facts.metrics, records, theirs, plan, terms) for rule in gate.rules]
    results = _results(gate, rules, _nothing(gate, facts, records))
    if any(data.faulty for data in rules) or any(r.status == "error" for r in (*records, *theirs)):
        results = _confirmed(gate, results, records, theirs, plan, terms)
    selection = selection_notes(gate, facts, rules, records, theirs, terms.decided)
    worst: CheckVerdict = min((r.verdict for r in results), key=ORDER.index)
    decided = worst in ("invalid", "failed") or not any(map(rule_open, results))
    reasons = unfit(gate, facts, baseline, problems)
    ended = plan is not None and plan.ended
    if not (running or facts.complete or (ended and (decided or reasons))):
        reasons.insert(len(problems), f"this run is incomplete: {_why_incomplete(facts, plan)}")
    reasons += gate.overlaps(records) + misplaced(gate, records, *runs)
    reasons += [
        f"{result.name}: {check.reason}"
        for result in results
        for check in result.checks
        if check.verdict == "invalid"
    ]
    decision: GateDecision = "invalid" if reasons else _DECISIONS[worst]
    passed = decision == "pass" or (decision == "inconclusive" and gate.inconclusive == "pass")
    used, total = sum(r.drawn for r in rules), sum(r.total for r in rules)
    early = used < total
    return GateResult(
        decision=decision,
        passed=passed,
        line=_line(decision, results, reasons, passed=passed, is_selection=bool(selection)),
        file=gate.file,
        sha256=gate.sha256,
        baseline=None if baseline is None else baseline.run_id,
        sequential=gate.sequential,
        stopped_early=early,
        items_used=used,
        items_of=total,
        reasons=tuple(reasons),
        notes=(
            *((f"stopped early: {used} of {total} items; estimates are of these",) if early else ()),
            *selection,
            *unknown_benchmarks((r.benchmark for r in records), *runs),
            *(f"run {run.run_id}: {line}" for run in runs for line in added_hashes(run)),
        ),
        rules=tuple(results),
    )


def settled(result: GateResult) -> bool:
    """Whether further items cannot change the decision of a run that draws its items, or are unlikely to."""
    if result.decision in ("fail", "invalid"):
        return True
    return not any(rule_open(rule) for rule in result.rules)


def rule_open(result: RuleResult) -> bool:
    """Whether the rule still needs items."""
    return result.partial and result.verdict == "inconclusive"


def _same_terms(gate: Gate, facts: RunFacts, theirs: Sequence[VerdictRecord]) -> SequentialPlan | None:
    """Return the plan of a run that draws its items; None if the plan is for another gate or baseline."""
    plan = facts.sequential
    if plan is None or (plan.gate, plan.baseline) != (gate.sha256, fingerprint(theirs)):
        return None
    return plan


def _why_incomplete(facts: RunFacts, plan: SequentialPlan | None) -> str:
    if facts.stopped_by_gate and plan is None:
        return "it was stopped early by another gate file or for another baseline; measure the rest"
    steps = shard_steps(facts) or f"continue it with 'llmprops retry {facts.run_id}'"
    return facts.stopped or f"cases have no verdict; {steps}"


def _nothing(gate: Gate, facts: RunFacts, records: Sequence[VerdictRecord]) -> Mapping[str, str]:
    """Return why rules have no item: name of the rule -> one line."""
    more = "".join(
        f"; {sum(models.values())} {benchmark} items were not served"
        for benchmark, models in facts.not_served.items()
    )
    return {name: f"{line}{more}" for name, line in gate.empty_rules(records).items()}


# ---- judging


def _results(gate: Gate, rules: Sequence[RuleData], nothing: Mapping[str, str]) -> list[RuleResult]:
    tests = sum(data.rule.no_regression for data in rules)
    bounds = sum(len(data.rule.checks) for data in rules if not data.rule.metric)
    checks_of_rules: list[list[Check]] = []
    for data in rules:
        checks = fitness(data) if data.total else [_no_items(nothing[data.rule.name])]
        if not any(c.verdict == "invalid" for c in checks):
            if data.rule.metric:
                checks += _metric_checks(data)
            elif data.partial:
                checks += _partial_checks(data, data.rule.alpha / 2 / max(bounds, 1), tests)
            else:
                checks += _full_checks(data)
        checks_of_rules.append(checks)
    _add_regression_checks(gate, rules, checks_of_rules, tests)
    return [
        RuleResult(
            data.rule.name,
            min((c.verdict for c in checks), key=ORDER.index),
            data.judged,
            tuple(checks),
            data.partial,
        )
        for data, checks in zip(rules, checks_of_rules, strict=True)
    ]


def _confirmed(
    gate: Gate,
    results: Sequence[RuleResult],
    records: Sequence[VerdictRecord],
    theirs: Sequence[VerdictRecord],
    plan: SequentialPlan | None,
    terms: Terms,
) -> list[RuleResult]:
    """Return the results in which errors and missing items cannot hide failures."""
    worst = [at_worst(rule, records, theirs, plan, terms.decided) for rule in gate.rules]
    rules = [
        RuleData.of(rule, (), w.candidate, w.baseline, w.plan, terms)
        for rule, w in zip(gate.rules, worst, strict=True)
    ]
    at_worst_results = _results(gate, rules, dict.fromkeys((rule.name for rule in gate.rules), ""))
    return [
        confirmed(rule, result, other, w.unanswered)
        for rule, result, other, w in zip(gate.rules, results, at_worst_results, worst, strict=True)
    ]


def _no_items(why: str) -> Check:
    return Check("items", "items to judge", "none", "invalid", why)


def _metric_checks(data: RuleData) -> list[Check]:
    rule = data.rule
    if data.partial:
        return [Check("metric", rule.metric, "needs all items", "inconclusive", gate_bounds.OPEN)]
    if not data.metrics:
        return [Check("metric", rule.metric, "none", "invalid", f"the run has no metric {rule.metric} there")]
    return [check for row in data.metrics for check in gate_checks.metric(rule, row)]


def _full_checks(data: RuleData) -> list[Check]:
    rule, checks = data.rule, []
    if rule.min_accuracy is not None:
        checks.append(gate_checks.accuracy(rule, data.units, data.noun))
    if rule.max_drop is not None:
        checks.append(gate_checks.max_drop(rule, data.comparison))
    if rule.max_refused is not None:
        checks.append(gate_checks.share(rule, "refused", data.answers))
    if rule.max_unparsed is not None:
        checks.append(gate_checks.share(rule, "unparsed", data.answers))
    return checks


def _partial_checks(data: RuleData, rate: float, tests: int) -> list[Check]:
    rule, checks = data.rule, []
    if data.weighs_clusters:
        # The bounds are for items of equal weight.
        checks += [
            Check(kind, required(rule), "needs all items", "inconclusive", gate_bounds.OPEN)
            for kind, required in gate_checks.REQUIRED.items()
            if kind in rule.checks
        ]
    elif rule.paired:
        pairs = data.comparison
        if rule.max_drop is not None:
            checks.append(gate_bounds.max_drop(rule, pairs, data.population, rate))
        if rule.no_regression:
            alpha = rule.alpha / 2
            checks.append(
                gate_bounds.no_regression(rule, pairs, data.population, rate, alpha=alpha, tests=tests)
            )
    if rule.min_accuracy is not None and not data.weighs_clusters:
        checks.insert(0, gate_bounds.accuracy(rule, data.answers, data.items, rate))
    if rule.max_refused is not None:
        checks.append(gate_bounds.share(rule, "refused", data.answers, data.items, rate))
    if rule.max_unparsed is not None:
        checks.append(gate_bounds.share(rule, "unparsed", data.answers, data.items, rate))
    return checks


def _add_regression_checks(
    gate: Gate, rules: Sequence[RuleData], checks_of_rules: list[list[Check]], tests: int
) -> None:
    """Add the checks of all complete ``no_regression`` rules; Holm's correction needs every p-value."""
    from pytest_llmprops.core.drop_tests import drop_test, holm

    tested = [
        (data, checks, drop_test(data.comparison))
        for data, checks in zip(rules, checks_of_rules, strict=True)
        if data.rule.no_regression and not data.partial and all(c.verdict != "invalid" for c in checks)
    ]
    # A rule that was settled early has a p-value above alpha. Replacing it by 1 changes no other rule's verdict.
    p_values = [test.p for _, _, test in tested] + [1.0] * (tests - len(tested))
    adjusted = holm(p_values) if tested and tests > 1 else p_values
    for (data, checks, test), p in zip(tested, adjusted, strict=False):
        alpha = data.rule.alpha / 2 if gate.sequential else data.rule.alpha
        rule = replace(data.rule, alpha=alpha)
        checks.append(
            gate_checks.no_regression(rule, data.comparison, test._replace(p=p), alpha=alpha, tests=tests)
        )


def _line(
    decision: GateDecision,
    results: Sequence[RuleResult],
    reasons: Sequence[str],
    *,
    passed: bool,
    is_selection: bool,
) -> str:
    if decision == "invalid":
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"invalid: {reasons[0]}{more}"
    if decision == "pass":
        where = ", on a selection of the items" if is_selection else ""
        return f"pass: {len(results)} of {len(results)} rules are met{where}"
    wanted: CheckVerdict = "failed" if decision == "fail" else "inconclusive"
    reasons_of_checks = [
        f"{result.name}: {check.reason or check.measured}"
        for result in results
        for check in result.checks
        if check.verdict == wanted and result.verdict == wanted
    ]
    more = f" (and {len(reasons_of_checks) - 1} more)" if len(reasons_of_checks) > 1 else ""
    accepted = ", which the gate file accepts" if decision == "inconclusive" and passed else ""
    return f"{decision}{accepted}: {reasons_of_checks[0]}{more}"
