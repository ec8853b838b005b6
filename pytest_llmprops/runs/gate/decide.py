"""The decision of a gate on a recorded run, or on a run and its baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_llmprops.core.gate_results import (
    Check,
    CheckVerdict,
    GateDecision,
    GateResult,
    Loss,
    RuleResult,
)
from pytest_llmprops.core.items import PlacedItem
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.paired import drop_test, holm
from pytest_llmprops.core.records import MetricRow, VerdictRecord
from pytest_llmprops.core.run_metadata import NOT_MEASURED, RunMetadata
from pytest_llmprops.core.served_models import fallback_notes
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.runs.benchmark_metadata import TasksByAnswer, facts_of, title_of, unknown_benchmarks
from pytest_llmprops.runs.caveats import caveats
from pytest_llmprops.runs.gate import checks as gate_checks
from pytest_llmprops.runs.gate.data import PairingRules, RuleData, members, selection_notes
from pytest_llmprops.runs.gate.file import (
    Gate,
    Rule,
    misplaced_rules,
    on_headline_tasks,
    tasks_apart,
    unbounded_rules,
)
from pytest_llmprops.runs.integrity import AGAIN, added_hashes
from pytest_llmprops.runs.pairs import (
    by_item,
    differences,
    pair_records,
    remarks_on_baseline,
    why_not_comparable,
    with_one_task,
    with_tasks_of,
)
from pytest_llmprops.runs.parts import shard_steps
from pytest_llmprops.runs.reader import Run, computed_metrics
from pytest_llmprops.runs.recorded_command import retry_command

# Items without an answer at their worst for the candidate, so that errors cannot hide failures.
#
# A rule leaves out items that are in error or missing in one of the runs, up to ``max_errors`` of them. If
# these are the items that the candidate fails, what is left looks better than the candidate is: 30 items lost
# of 1,000 become 20 lost of 990. So a requirement with a stated error rate is met only if it is also met when
# every item without an answer counts against the candidate. A failed one is not affected: it fails on the
# answers alone.
#
# A test whether the errors are concentrated on items that the baseline answers correctly could not hold the
# error rates. If the baseline is right on 90% of the items, ten errors fall on ten such items in 35% of all
# runs by chance.

#: the requirements with a stated rate of wrong acceptances
_WITH_RATE = ("min_accuracy", "no_regression", "max_drop", "no_collapse")


class RecordsAtWorst(NamedTuple):
    """The records of one rule with an answer for every item, and ids of the items that had none in one of the runs."""

    candidate: list[VerdictRecord]
    baseline: list[VerdictRecord]
    unanswered: list[str]


def records_at_worst(
    rule: Rule,
    candidate: Sequence[VerdictRecord],
    baseline: Sequence[VerdictRecord],
    decided: TasksByAnswer,
) -> RecordsAtWorst:
    """Return a rule's records with errors and missing items counted against the candidate.

    Errors of the candidate and items that only the baseline has become wrong. Errors of the baseline and items that
    only the candidate has become correct for the baseline.
    """
    own = rule.select(candidate)
    failed = [r.id for r in own if r.status == "error"]
    ours = [replace(r, status="wrong") if r.status == "error" else r for r in own]
    if not rule.paired:
        return RecordsAtWorst(ours, [], list(dict.fromkeys(failed)))
    others = rule.select(with_tasks_of(baseline, own, decided))
    failed += [r.id for r in others if r.status == "error"]
    theirs = [replace(r, status="correct") if r.status == "error" else r for r in others]
    here, there = by_item(own), by_item(others)
    for key, records in there.items():
        if key not in here:
            failed.append(key.id)
            ours += [replace(r, status="wrong") for r in records]
    for key, records in here.items():
        if key not in there:
            failed.append(key.id)
            theirs += [replace(r, status="correct") for r in records]
    return RecordsAtWorst(ours, theirs, list(dict.fromkeys(failed)))


def confirmed(result: RuleResult, worst: RuleResult, unanswered: Sequence[str]) -> RuleResult:
    """Return the result in which a requirement is met only if it is met at worst as well.

    :param worst: the result on the records of :func:`records_at_worst`.
    """
    verdicts = {check.kind: check.verdict for check in worst.checks}
    names = first_names(sorted(unanswered))
    reason = (
        f"met by the answers, but not if the candidate fails the {len(unanswered)} items in error or missing in one of"
        f" the runs ({names}): measure them again"
    )
    checks = tuple(
        replace(check, verdict="inconclusive", reason=reason)
        if check.verdict == "met" and check.kind in _WITH_RATE and verdicts.get(check.kind) != "met"
        else check
        for check in result.checks
    )
    if checks == result.checks:
        return result
    return replace(
        result, checks=checks, verdict="inconclusive" if result.verdict == "met" else result.verdict
    )


def fitness(data: RuleData) -> list[Check]:
    """Check ``min_items``, ``repeats`` and ``max_errors``: whether there are enough answers to judge."""
    rule, checks = data.rule, []
    n, what = (len(data.pairs), "pairs") if rule.paired else (len(data.answers), "answered items")
    if n < rule.min_items:
        reason = f"{n} {what} are fewer than min_items = {rule.min_items}"
        checks.append(Check("min_items", f"at least {rule.min_items} {what}", str(n), "invalid", reason))
    checks += _repeats(data)
    faulty, of = data.fault_size, data.either
    if faulty or not rule.checks:
        share = faulty / of
        required = f"at most {percent(rule.max_errors)} in error or missing"
        measured = f"{percent(share)}, {faulty:.6g} of {of}"
        is_met = share <= rule.max_errors
        checks.append(
            Check(
                "max_errors",
                required,
                measured,
                "met" if is_met else "invalid",
                "" if is_met else _faults(data),
                share,
            )
        )
    return checks


def _repeats(data: RuleData) -> list[Check]:
    wanted = data.rule.repeats
    fewest = [samples for samples in data.samples if samples is not None]
    if wanted == 1 or not fewest:
        return []
    required, measured = f"at least {wanted} samples per item", str(min(fewest))
    for name, again, samples in zip(("this run", "the baseline"), ("", " it"), data.samples, strict=True):
        if samples is not None and samples < wanted:
            has = f"{name} has {samples} sample{'s' * (samples > 1)} per item, and repeats = {wanted}"
            reason = f"{has}; measure{again} again with --llm-repeats {wanted}"
            return [Check("repeats", required, measured, "invalid", reason)]
    return [Check("repeats", required, measured, "met")]


def _faults(data: RuleData) -> str:
    kinds = [f"{len(ids)} {what}" for what, ids in data.faults.items() if ids]
    return f"of {data.either} items {' and '.join(kinds)} ({first_names(data.faulty)})"


# The metrics that a gate's rules judge, computed again from the verdicts of a recorded run.

Key = tuple[str, ...]


def with_computed_metrics(gate: Gate, run: Run) -> Run:
    """Return the run with the metrics that the gate's rules judge computed from its verdicts.

    A value in ``run.json`` that differs is one of the run's problems. A benchmark that is not installed keeps the
    metrics of ``run.json``, and a note says so.
    """
    rules = [rule for rule in gate.rules if rule.metric]
    names = {
        name for name in {r.benchmark for r in run.records} if any(rule.concerns(name) for rule in rules)
    }
    computed, notes = computed_metrics([r for r in run.records if r.benchmark in names])
    known = {row.benchmark for row in computed}
    recorded = [row for row in run.facts.metrics if row.benchmark in known]
    others = [row for row in run.facts.metrics if row.benchmark not in known]
    return replace(
        run,
        facts=replace(run.facts, metrics=(*others, *computed)),
        problems=(*run.problems, *_differences(recorded, computed)),
        notes=tuple(dict.fromkeys([*run.notes, *notes])),
    )


def _differences(recorded: Iterable[MetricRow], computed: Iterable[MetricRow]) -> list[str]:
    """Compare values, not intervals: the computed ones are judged."""
    before, after = ({_key(row): row.value for row in rows} for rows in (recorded, computed))
    return [
        f"run.json has {_shown(before.get(key))} for {'/'.join(filter(None, key[1:]))}, computed from the verdicts it"
        f" is {_shown(after.get(key))}: run.json was changed or written by another version; {AGAIN}"
        for key in dict.fromkeys([*before, *after])
        if not _equal(before.get(key), after.get(key))
    ]


def _key(row: MetricRow) -> Key:
    return (row.model, row.benchmark, row.task, row.language, row.source, row.group, row.name)


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))


def _shown(value: float | None) -> str:
    return "no value" if value is None else f"{value:.6g}"


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
    facts: RunMetadata,
    records: Sequence[VerdictRecord],
    baseline: Run | None,
    problems: Sequence[str] = (),
) -> GateResult:
    """Judge a run by a gate.

    :param facts: the run's ``run.json``. :param records: its verdicts.
    :param problems: what is inconsistent in the run's record; those of the baseline are in ``baseline.problems``.
    """
    # A baseline with several models is rejected by why_not_comparable().
    first = baseline.models[:1] if baseline is not None else []
    theirs = [r for r in baseline.records if r.model in first] if baseline is not None else []
    runs = [facts] if baseline is None else [facts, baseline.facts]
    terms = PairingRules.of(*runs)
    records = with_one_task(records, terms.decided)
    gate = on_headline_tasks(gate, [*facts.summary, *records, *theirs], *runs)
    rules = [RuleData.of(rule, facts.metrics, records, theirs, terms) for rule in gate.rules]
    results = _results(gate, rules, _nothing(gate, facts, records))
    if any(data.faulty for data in rules) or any(r.status == "error" for r in (*records, *theirs)):
        results = _confirmed(gate, results, records, theirs, terms)
    selection = selection_notes(gate, facts, rules, records, theirs, terms.decided)
    worst: CheckVerdict = min((r.verdict for r in results), key=ORDER.index)
    reasons = why_not_comparable(gate, facts, records, baseline, problems)
    if not facts.complete:
        reasons.insert(len(problems), f"this run is incomplete: {_why_incomplete(facts)}")
    reasons += gate.overlaps(records) + misplaced_rules(gate, records, *runs)
    names = dict.fromkeys(r.benchmark for r in records)
    reasons += unbounded_rules(gate, {n: known for n in names if (known := facts_of(n, *runs)) is not None})
    reasons += [
        f"{result.name}: {check.reason}"
        for result in results
        for check in result.checks
        if check.verdict == "invalid"
    ]
    decision: GateDecision = "invalid" if reasons else _DECISIONS[worst]
    lost: list[Loss] = []
    remarks: list[str] = []
    if baseline is not None and not reasons:
        comparable, remarks = _comparable(facts, baseline, {r.benchmark for r in records})
        remarks = [*remarks_on_baseline(baseline.facts, facts, sorted(comparable)), *remarks]
        lost = _losses(runs, [r for r in records if r.benchmark in comparable], theirs, terms)
    return GateResult(
        decision=decision,
        line=_line(decision, gate, results, reasons, lost, runs, is_selection=bool(selection)),
        file=gate.file,
        sha256=gate.sha256,
        baseline=None if baseline is None else baseline.run_id,
        reasons=tuple(reasons),
        caveats=tuple(caveats(runs)),
        notes=(
            *selection,
            *remarks,
            *_low_baselines(rules),
            *unknown_benchmarks((r.benchmark for r in records), *runs),
            *(f"run {run.run_id}: {line}" for run in runs for line in added_hashes(run)),
            *(f"run {run.run_id}: {line}" for run in runs for line in fallback_notes(run.models.values())),
        ),
        rules=tuple(results),
        losses=tuple(lost),
    )


def _low_baselines(rules: Iterable[RuleData]) -> Iterator[str]:
    """Return one note for each rule whose baseline has so little right that the rule's drop is impossible."""
    for data in rules:
        rule, scores = data.rule, data.comparison.baseline
        limits = [rule.detect] * rule.no_regression + [rule.max_drop] * (rule.max_drop is not None)
        right = math.fsum(scores) / len(scores) if scores else 1.0
        if any(right <= limit for limit in limits if limit is not None):
            yield f"{rule.name}: the baseline has only {percent(right)} right, so there is little to lose"


def _why_incomplete(facts: RunMetadata) -> str:
    lacking = next((note for note in facts.notes if NOT_MEASURED in note), None)
    if lacking is not None:
        return f"{lacking}; correct this and measure again"
    steps = shard_steps(facts) or f"continue it with: {retry_command(facts.run_id)}"
    return facts.stopped or f"cases have no verdict; {steps}"


def _nothing(gate: Gate, facts: RunMetadata, records: Sequence[VerdictRecord]) -> Mapping[str, str]:
    """Return why rules have no item: name of the rule -> one line."""
    more = "".join(
        f"; {sum(models.values())} {benchmark} items were not served"
        for benchmark, models in facts.not_served.items()
    )
    return {name: f"{line}{more}" for name, line in gate.empty_rules(records).items()}


# ---- judging


def _results(gate: Gate, rules: Sequence[RuleData], nothing: Mapping[str, str]) -> list[RuleResult]:
    tests = sum(data.rule.no_regression for data in rules)
    checks_of_rules: list[list[Check]] = []
    for data in rules:
        checks = fitness(data) if data.items else [_no_items(nothing[data.rule.name])]
        if not any(c.verdict == "invalid" for c in checks):
            checks += _metric_checks(data) if data.rule.metric else _full_checks(data)
        checks_of_rules.append(checks)
    _add_regression_checks(rules, checks_of_rules, tests)
    _add_collapse_checks(rules, checks_of_rules)
    return [
        RuleResult(
            data.rule.name,
            min((c.verdict for c in checks), key=ORDER.index),
            data.judged,
            tuple(checks),
        )
        for data, checks in zip(rules, checks_of_rules, strict=True)
    ]


def impossible_rules(gate: Gate, places: Iterable[PlacedItem], facts: RunMetadata) -> dict[str, str]:
    """Return the rules that these items cannot meet, whatever the answers: name -> why, and what would do.

    Each rule is judged on a run that answers every item correctly, and on a baseline with the same verdicts. Rules on
    metrics are judged by their numbers of items alone.

    :param places: one per item, or one per task that it may have. :param facts: those of the run to come.
    """
    terms, places = PairingRules.of(facts), list(places)
    rules = []
    for rule in gate.rules:
        items = {(p.benchmark, p.language, p.source, p.id): p for p in rule.select(places)}
        records = [
            VerdictRecord(
                "",
                p.benchmark,
                p.task,
                p.language,
                p.source,
                p.id,
                p.cluster,
                "correct",
                1.0,
                "",
                "",
                "",
                {},
                (),
            )
            for p in items.values()
        ]
        if records:
            rules.append(RuleData.of(replace(rule, repeats=1), (), records, records, terms))
    return {
        result.name: check.reason + _best_possible(check)
        for result in _results(gate, rules, {})
        for check in result.checks
        if check.verdict != "met" and check.kind != "metric"
    }


def _best_possible(check: Check) -> str:
    """Return the largest ``min_accuracy`` that right answers to all items reach, in whole points."""
    if check.kind != "min_accuracy" or check.ci_low is None:
        return ""
    return f"; min_accuracy = {math.floor(100 * check.ci_low) / 100:g} can be met"


def _confirmed(
    gate: Gate,
    results: Sequence[RuleResult],
    records: Sequence[VerdictRecord],
    theirs: Sequence[VerdictRecord],
    terms: PairingRules,
) -> list[RuleResult]:
    """Return the results in which errors and missing items cannot hide failures."""
    worst = [records_at_worst(rule, records, theirs, terms.decided) for rule in gate.rules]
    rules = [
        RuleData.of(rule, (), w.candidate, w.baseline, terms)
        for rule, w in zip(gate.rules, worst, strict=True)
    ]
    at_worst_results = _results(gate, rules, dict.fromkeys((rule.name for rule in gate.rules), ""))
    return [
        confirmed(result, other, w.unanswered)
        for result, other, w in zip(results, at_worst_results, worst, strict=True)
    ]


def _no_items(why: str) -> Check:
    return Check("items", "items to judge", "none", "invalid", why)


def _metric_checks(data: RuleData) -> list[Check]:
    rule = data.rule
    if not data.metrics:
        return [Check("metric", rule.metric, "none", "invalid", f"the run has no metric {rule.metric} there")]
    return [check for row in data.metrics for check in gate_checks.metric(rule, row)]


def _full_checks(data: RuleData) -> list[Check]:
    rule, checks = data.rule, []
    if rule.min_accuracy is not None:
        checks.append(gate_checks.accuracy(rule, data.units, data.noun, spare=data.spare))
    if rule.max_drop is not None:
        checks.append(gate_checks.max_drop(rule, data.comparison, spare=data.spare))
    if rule.max_refused is not None:
        checks.append(gate_checks.share(rule, "refused", data.answers))
    if rule.max_unparsed is not None:
        checks.append(gate_checks.share(rule, "unparsed", data.answers))
    return checks


def _add_regression_checks(rules: Sequence[RuleData], checks_of_rules: list[list[Check]], tests: int) -> None:
    """Add the checks of all ``no_regression`` rules; Holm's correction needs every p-value."""
    tested = [
        (data, checks, drop_test(data.comparison))
        for data, checks in zip(rules, checks_of_rules, strict=True)
        if data.rule.no_regression and all(c.verdict != "invalid" for c in checks)
    ]
    # A rule that is invalid counts as one without a drop.
    p_values = [test.p for _, _, test in tested] + [1.0] * (tests - len(tested))
    adjusted = holm(p_values) if tested and tests > 1 else p_values
    for (data, checks, test), p in zip(tested, adjusted, strict=False):
        adjusted_test = test._replace(p=p)
        checks.append(
            gate_checks.no_regression(
                data.rule,
                data.comparison,
                adjusted_test,
                tests=tests,
                spare=data.spare,
            )
        )


def _add_collapse_checks(rules: Sequence[RuleData], checks_of_rules: list[list[Check]]) -> None:
    """Add the checks of all ``no_collapse`` rules; Holm's correction is over all of their members."""
    tested = [
        (data.rule, checks, data.members)
        for data, checks in zip(rules, checks_of_rules, strict=True)
        if data.rule.no_collapse and all(c.verdict != "invalid" for c in checks)
    ]
    tests = [gate_checks.member_tests(scores) for _, _, scores in tested]
    adjusted = iter(holm([p for one in tests for p in one.values()]))
    for rule, checks, scores in tested:
        p_values = dict(zip(scores, adjusted, strict=False))
        checks.append(gate_checks.no_collapse(rule, scores, p_values))


def _comparable(facts: RunMetadata, baseline: Run, benchmarks: Iterable[str]) -> tuple[set[str], list[str]]:
    """Return the benchmarks on which a run is comparable with its baseline, and one line on each reason for others.

    A gate checks this before only for the rules that compare.
    """
    problems = [] if baseline.facts.complete else [f"it is {baseline.state}"]
    problems += [*(["it has several models"] if len(baseline.models) > 1 else []), *baseline.problems]
    reasons: dict[str, list[str]] = {}
    for name in sorted(benchmarks):
        unlike = differences(baseline.facts, facts, [name])
        reasons.setdefault(next(iter((*problems, *unlike)), ""), []).append(name)
    comparable = set(reasons.pop("", ()))
    return comparable, [
        f"not compared with baseline {baseline.run_id} on {', '.join(names)}: {reason}"
        for reason, names in reasons.items()
    ]


def _losses(
    runs: Sequence[RunMetadata],
    records: Sequence[VerdictRecord],
    theirs: Sequence[VerdictRecord],
    terms: PairingRules,
) -> list[Loss]:
    """Return the headline tasks, languages and clusters that dropped significantly.

    :param runs: ``run.json`` of the run and its baseline.
    """
    apart = tasks_apart([*records, *theirs], *runs)
    known = {name: facts_of(name, *runs) for name in {r.benchmark for r in records}}
    others = {
        (name, task)
        for name, facts in known.items()
        if facts
        for task in (*facts.accuracy_targets, *facts.unranked)
    }
    pairs = [
        pair
        for pair in pair_records(theirs, records, terms.decided).pairs
        if (pair.key.benchmark, pair.key.task) not in apart | others
    ]
    by_language = members(pairs, ["language"], terms.is_weighted)
    counts = Counter(member.benchmark for member in by_language)
    # The only language of a benchmark is all of its items.
    several = {m: scores for m, scores in by_language.items() if counts[m.benchmark] > 1}
    families = [
        members(pairs, ["task"], terms.is_weighted) | several,
        members(pairs, ["cluster"], terms.is_weighted),
    ]
    return gate_checks.losses(families, lambda name: title_of(name, *runs))


#: checks whose value is the drop from the baseline
_DROPS = ("no_regression", "max_drop", "no_collapse")


def _line(
    decision: GateDecision,
    gate: Gate,
    results: Sequence[RuleResult],
    reasons: Sequence[str],
    lost: Sequence[Loss],
    runs: Sequence[RunMetadata],
    *,
    is_selection: bool,
) -> str:
    """Return the decision in one line.

    :param runs: ``run.json`` of the run and, if there is one, its baseline.
    """
    word = decision.upper()
    if decision == "invalid":
        return f"{word}: {reasons[0]}{_more(reasons)}"
    ours, *theirs = (", ".join(run.models) for run in runs)
    losses = f"loses {_points(lost[0].drop)} {lost[0].where}{_more(lost)}" if lost else ""
    if decision == "pass":
        text = f"{ours} meets {_rules(len(results))}"
        if theirs and gate.needs_baseline:
            # A model is compared with itself when its provider may have changed it.
            text = f"{ours} may replace {theirs[0] if theirs[0] != ours else 'baseline ' + runs[1].run_id}"
        where = " (on a selection of the items)" if is_selection else ""
        return f"{word}: {text}{where}" + (f", but {losses}" if losses else "")
    wanted: CheckVerdict = "failed" if decision == "fail" else "inconclusive"
    rules = {rule.name: rule for rule in gate.rules}
    decisive = [
        (rules[result.name], check)
        for result in results
        for check in result.checks
        if check.verdict == wanted and result.verdict == wanted
    ]
    if decision == "inconclusive":
        rule, check = decisive[0]
        also = f"; {ours} {losses}" if losses else ""
        return f"{word}: {rule.name}: {check.reason or check.measured}{_more(decisive)}{also}"
    first = decisive[0][1]
    if losses and first.kind == "no_collapse" and _member(first) == lost[0].name:
        return f"{word}: {ours} {losses}"
    # The failed rule comes first: what was lost most may be another place.
    text = f"{ours} {_failure(*decisive[0])}{_more(decisive)}"
    return f"{word}: {text}" + (f"; it {losses}" if losses else "")


def _more(members: Sequence[object]) -> str:
    return f" (and {len(members) - 1} more)" if len(members) > 1 else ""


def _rules(n: int) -> str:
    return f"all {n} rules" if n > 1 else "the rule"


def _points(drop: float) -> str:
    """Return a drop in whole points, or with a decimal below 10 points."""
    return f"{100 * drop:.{0 if drop >= 0.0995 else 1}f} points"


def _member(check: Check) -> str:
    """Return the member that dropped most, with which a failed ``no_collapse`` begins."""
    return check.measured.partition(": ")[0]


def _failure(rule: Rule, check: Check) -> str:
    """Return what a model does that fails a check, in words."""
    if check.kind in _DROPS and check.value is not None:
        member = _member(check) if check.kind == "no_collapse" else ""
        where = f"on {member} ({rule.name})" if member else f"on {rule.name}"
        return f"loses {_points(check.value)} {where if rule.where else 'overall'}"
    if check.kind == "min_accuracy" and rule.min_accuracy is not None:
        return f"has {percent(check.value)} right on {rule.name}; at least {percent(rule.min_accuracy)} is required"
    return f"fails {rule.name}: {check.measured} (required: {check.required})"
