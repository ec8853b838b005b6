"""The decision of a gate on a recorded run, or on a run and its baseline.

A rule leaves out items that are in error or missing in one of the runs, up to ``max_errors`` of them. If these are
the items that the candidate fails, what is left looks better than the candidate is: 30 items lost of 1,000 become 20
lost of 990. So a requirement with a stated error rate is met only if it is also met when every item without an answer
counts against the candidate. A failed one is not affected: it fails on the answers alone.

A test whether the errors are concentrated on items that the baseline answers correctly could not hold the error
rates. If the baseline is right on 90% of the items, ten errors fall on ten such items in 35% of all runs by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmprops.core.items import ItemPlace, Placed, PlacedItem
from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.numbers import count, percent, size_in_points
from pytest_llmprops.core.texts import did_you_mean, first_names
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.gate import Check, CheckVerdict, GateDecision, GateResult, RuleResult
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.records.served_models import fallback_notes
from pytest_llmprops.runs.benchmark_metadata import facts_of, tasks_by_answer, unknown_benchmarks
from pytest_llmprops.runs.comparable import caveats, differences, remarks_on_baseline
from pytest_llmprops.runs.gate import checks as gate_checks
from pytest_llmprops.runs.gate.comparable import unfit_baseline, why_not_comparable
from pytest_llmprops.runs.gate.data import RuleData, Terms
from pytest_llmprops.runs.gate.file import Gate, Rule, misplaced_rules, on_headline_tasks, unbounded_rules
from pytest_llmprops.runs.integrity import AGAIN, added_hashes, is_equal, shown_value
from pytest_llmprops.runs.pairs import Item, headline_members, pair_items, pairs_of, recorded_changes
from pytest_llmprops.runs.reader import Run, computed_metrics
from pytest_llmprops.statistics.judgement import Change, judge

if TYPE_CHECKING:
    from pytest_llmprops.statistics.paired import Pairs

#: the requirements with a stated rate of wrong acceptances
_WITH_RATE = ("min_accuracy", "max_drop", "no_collapse")


def confirmed(result: RuleResult, worst: RuleResult, unanswered: Sequence[str]) -> RuleResult:
    """Return the result in which a requirement is met only if it is met at worst as well.

    :param worst: the result on :meth:`RuleData.at_worst`. :param unanswered: ids of the items that differ there.
    """
    verdicts = {check.kind: check.verdict for check in worst.checks}
    reason = (
        f"met by the answers, but not if the candidate fails the {len(unanswered)} items in error or missing in one of"
        f" the runs ({first_names(sorted(unanswered))}): measure them again"
    )
    checks = tuple(
        replace(check, verdict="inconclusive", reason=reason)
        if check.verdict == "met" and check.kind in _WITH_RATE and verdicts.get(check.kind) != "met"
        else check
        for check in result.checks
    )
    verdict = "inconclusive" if checks != result.checks and result.verdict == "met" else result.verdict
    return replace(result, checks=checks, verdict=verdict)


def fitness(data: RuleData, nothing: str) -> list[Check]:
    """Check ``min_items`` and ``max_errors``: whether there are enough answers to judge.

    :param nothing: why the rule has no items, if it has none.
    """
    rule, checks = data.rule, []
    if data.is_empty:
        return [Check("items", "items to judge", "none", "invalid", nothing)]
    n, what = data.judged, "pairs" if rule.paired else "answered items"
    if n < rule.min_items:
        reason = f"{n} {what} are fewer than min_items = {rule.min_items}"
        checks.append(Check("min_items", f"at least {rule.min_items} {what}", str(n), "invalid", reason))
    faulty, of = data.fault_size, len(data.items)
    if faulty or not rule.checks:
        share = faulty / of
        required = f"at most {percent(rule.max_errors)} in error or missing"
        measured = f"{percent(share)}, {faulty:.6g} of {of}"
        verdict: CheckVerdict = "met" if share <= rule.max_errors else "invalid"
        kinds = [f"{len(keys)} {what}" for what, keys in data.faults.items() if keys]
        reason = f"of {of} items {' and '.join(kinds)} ({first_names(data.faulty)})"
        checks.append(
            Check("max_errors", required, measured, verdict, "" if verdict == "met" else reason, share)
        )
    return checks


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
    before, after = (
        {(r.model, r.benchmark, r.task, r.language, r.source, r.group, r.name): r.value for r in rows}
        for rows in (recorded, computed)
    )
    return [
        f"run.json has {shown_value(before.get(key))} for {'/'.join(filter(None, key[1:]))}, computed from the verdicts"
        f" it is {shown_value(after.get(key))}: run.json was changed or written by another version; {AGAIN}"
        for key in dict.fromkeys([*before, *after])
        if not is_equal(before.get(key), after.get(key))
    ]


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
    terms, items = Terms.of(*runs), pair_items(theirs, records, tasks_by_answer(*runs))
    places = [item.key for item in items if item.candidate]
    gate = on_headline_tasks(gate, [*facts.summary, *(item.key for item in items)], *runs)
    rules = [RuleData.of(rule, facts.metrics, items, terms) for rule in gate.rules]
    family = headline_members(pairs_of(items), *runs)
    changes = judge(family)
    of_members = {pairs: changes[member] for member, pairs in family.items()}
    nothing = _nothing(gate, facts, places)
    results = _results(rules, nothing, of_members)
    if any(data.faulty for data in rules):
        worst_results = _results([data.at_worst() for data in rules], nothing, of_members)
        results = [
            confirmed(result, at_worst, data.faulty)
            for result, at_worst, data in zip(results, worst_results, rules, strict=True)
        ]
    selection = _selections(facts, gate)
    worst: CheckVerdict = min((r.verdict for r in results), key=ORDER.index)
    reasons = why_not_comparable(gate, facts, records, baseline, problems)
    reasons += gate.overlaps(places) + misplaced_rules(gate, places, *runs)
    names = dict.fromkeys(place.benchmark for place in places)
    reasons += unbounded_rules(gate, {n: known for n in names if (known := facts_of(n, *runs)) is not None})
    reasons += [
        f"{result.name}: {check.reason}"
        for result in results
        for check in result.checks
        if check.verdict == "invalid"
    ]
    decision: GateDecision = "invalid" if reasons else _DECISIONS[worst]
    comparable: set[str] = set()
    remarks: list[str] = []
    if baseline is not None and not reasons:
        comparable, remarks = _comparable(gate, facts, baseline, names)
    judged = {m: change for m, change in changes.items() if m.benchmark in comparable}
    chance = None
    if gate.needs_baseline and not reasons:
        from pytest_llmprops.runs.gate.forecast import unchanged_passes

        chance = unchanged_passes(gate, rules, theirs, facts)
    result = GateResult(
        decision=decision,
        file=gate.file,
        sha256=gate.sha256,
        baseline=None if baseline is None else baseline.run_id,
        reasons=tuple(reasons),
        caveats=tuple(caveats(runs)),
        notes=(
            *selection,
            *remarks,
            *unknown_benchmarks(names, *runs),
            *(f"run {run.run_id}: {line}" for run in runs for line in added_hashes(run)),
            *(f"run {run.run_id}: {line}" for run in runs for line in fallback_notes(run.models.values())),
        ),
        rules=tuple(results),
        chance=chance,
        changes=recorded_changes(judged, *runs),
    )
    return replace(result, line=_line(result, gate, runs, is_selection=bool(selection)))


def _selections(facts: RunMetadata, gate: Gate) -> list[str]:
    """Return one note for each selection of items on which a ``min_accuracy`` is judged: easy ones would meet it."""
    limit = facts.options.get("limit")
    how = f"--llm-limit {limit}" if limit is not None else "selected by -k, -m, --deselect or name"
    return [
        f"min_accuracy is on a selection: {count(selected)} of {count(available)} {name} items ({how})"
        for name, (selected, available) in facts.selected_items.items()
        if selected < available
        and any(rule.concerns(name) for rule in gate.rules if rule.min_accuracy is not None)
    ]


def _nothing(gate: Gate, facts: RunMetadata, places: Iterable[Placed]) -> Mapping[str, str]:
    """Return why rules have no item: name of the rule -> one line."""
    more = "".join(
        f"; {sum(models.values())} {benchmark} items were not served"
        for benchmark, models in facts.not_served.items()
    )
    return {name: f"{line}{more}" for name, line in gate.empty_rules(places).items()}


def _results(
    rules: Sequence[RuleData], nothing: Mapping[str, str], known: Mapping[Pairs, Change]
) -> list[RuleResult]:
    """Judge each rule.

    :param nothing: why rules have no items. :param known: the changes of all members of the two runs.
    """
    all_checks = [(data, fitness(data, nothing.get(data.rule.name, ""))) for data in rules]
    fit = [pair for pair in all_checks if all(check.verdict != "invalid" for check in pair[1])]
    changes = _changes([data for data, _ in fit], known)
    for data, checks in fit:
        checks += _metric_checks(data) if data.rule.metric else _full_checks(data, changes)
    return [
        RuleResult(
            data.rule.name, min((c.verdict for c in checks), key=ORDER.index), data.judged, tuple(checks)
        )
        for data, checks in all_checks
    ]


def _changes(rules: Iterable[RuleData], known: Mapping[Pairs, Change]) -> Mapping[Pairs, Change]:
    """Return the change of all pairs that the rules judge.

    Pairs of a member have the same change as the member, whatever the rules are. Others are judged together with all
    members.
    """
    wanted = [data.comparison for data in rules if data.rule.max_drop is not None]
    wanted += [pairs for data in rules for pairs in data.members.values()]
    others = [pairs for pairs in wanted if pairs.n and pairs not in known]
    together = judge({pairs: pairs for pairs in (*known, *others)}) if others else {}
    return {**together, **known}


def impossible_rules(gate: Gate, places: Iterable[PlacedItem], facts: RunMetadata) -> dict[str, str]:
    """Return the rules that these items cannot meet, whatever the answers: name -> why, and what would do.

    Each rule is judged on a run that answers every item correctly, and on a baseline with the same verdicts. Rules on
    metrics are judged by their numbers of items alone.

    :param places: one per item, or one per task that it may have. :param facts: those of the run to come.
    """
    terms, places, rules = Terms.of(facts), list(places), []
    for rule in gate.rules:
        items = {(p.benchmark, p.language, p.source, p.id): _correct(p) for p in rule.select(places)}
        if items:
            rules.append(RuleData(rule, list(items.values()), (), (), terms))
    return {
        result.name: check.reason + _best_possible(check)
        for result in _results(rules, {}, {})
        for check in result.checks
        if check.verdict != "met" and check.kind != "metric"
    }


def _correct(p: PlacedItem) -> Item:
    record = VerdictRecord(
        "", p.benchmark, p.task, p.language, p.source, p.id, p.cluster, "correct", 1.0, "", "", "", {}, ()
    )  # fmt: skip
    return Item.of(ItemPlace(p.benchmark, p.task, p.language, p.source, p.id), [record], [record])


def _best_possible(check: Check) -> str:
    """Return the limit that the best answers meet, in whole points: of ``min_accuracy`` or ``max_drop``."""
    if check.ci_low is None or check.kind not in ("min_accuracy", "max_drop"):
        return ""
    limit = math.floor(100 * check.ci_low) / 100
    return f"; {check.kind} = {abs(limit):g} can be met"


def _metric_checks(data: RuleData) -> list[Check]:
    rule = data.rule
    if not data.metrics:
        known = ", ".join(data.metric_names) or "none"
        is_known = rule.metric in data.metric_names
        near = "" if is_known else did_you_mean(rule.metric, data.metric_names)
        why = f"the run has no metric {rule.metric} there; it has {known}{near}"
        return [Check("metric", rule.metric, "none", "invalid", why)]
    return [check for row in data.metrics for check in gate_checks.metric(rule, row)]


def _full_checks(data: RuleData, changes: Mapping[Pairs, Change]) -> list[Check]:
    rule, checks = data.rule, []
    if rule.min_accuracy is not None:
        checks.append(gate_checks.accuracy(rule, *data.scores, spare=data.spare))
    if rule.max_drop is not None:
        pairs = data.comparison
        checks.append(gate_checks.max_drop(rule, pairs, changes[pairs], spare=data.spare))
    if rule.no_collapse is not None:
        checks.append(gate_checks.no_collapse(rule, {m: changes[p] for m, p in data.members.items()}))
    if rule.max_refused is not None:
        checks.append(gate_checks.share(rule, "refused", data.answers.values()))
    if rule.max_unparsed is not None:
        checks.append(gate_checks.share(rule, "unparsed", data.answers.values()))
    return checks


def _comparable(
    gate: Gate, facts: RunMetadata, baseline: Run, benchmarks: Iterable[str]
) -> tuple[set[str], list[str]]:
    """Return the benchmarks on which a run is comparable with its baseline, and what a reader should know of it.

    A gate checks this before only for the rules that compare.
    """
    unfit = unfit_baseline(gate, baseline)
    reasons: dict[str, list[str]] = {}
    for name in sorted(benchmarks):
        lines = unfit or differences(baseline.facts, facts, [name])
        reasons.setdefault(lines[0] if lines else "", []).append(name)
    comparable = set(reasons.pop("", ()))
    remarks = remarks_on_baseline(baseline.facts, facts) if comparable else []
    return comparable, remarks + [
        f"not compared on {', '.join(names)}: {reason}" for reason, names in reasons.items()
    ]


def _line(result: GateResult, gate: Gate, runs: Sequence[RunMetadata], *, is_selection: bool) -> str:
    """Return the decision in one line.

    :param runs: ``run.json`` of the run and, if there is one, its baseline.
    """
    word, decision, lost = result.decision.upper(), result.decision, result.losses
    if decision == "invalid":
        return f"{word}: {result.reasons[0]}{_more(result.reasons)}"
    ours, *theirs = (", ".join(run.models) for run in runs)
    losses = f"{_worse(lost[0].difference)} {lost[0].where}{_more(lost)}" if lost else ""
    rules = {rule.name: rule for rule in gate.rules}
    if decision == "pass":
        n = len(result.rules)
        text = f"{ours} meets {f'all {n} rules' if n > 1 else 'the rule'}"
        if theirs and gate.needs_baseline and any(rule.is_about_accuracy for rule in gate.rules):
            # A model is compared with itself when its provider may have changed it.
            text = f"{ours} may replace {theirs[0] if theirs[0] != ours else 'baseline ' + runs[1].run_id}"
        where = " (on a selection of the items)" if is_selection else ""
        margin = _nearest_margin(result, rules)
        return f"{word}: {text}{where}{margin}" + (f"; but it is {losses}" if losses else "")
    wanted: CheckVerdict = "failed" if decision == "fail" else "inconclusive"
    decisive = [
        (rules[rule.name], check)
        for rule in result.rules
        for check in rule.checks
        if check.verdict == wanted and rule.verdict == wanted
    ]
    rule, check = decisive[0]
    if decision == "inconclusive":
        also = f"; {ours} is {losses}" if losses else ""
        return f"{word}: {rule.name}: {check.reason or check.measured}{_more(decisive)}{also}"
    # The failed rule comes first: what was lost most may be another place.
    failed = list({rule.name: rule for rule, _ in decisive})
    text = f"{ours} {_failure(rule, check)}{_more(failed)}"
    unsaid = [loss for loss in lost if not math.isclose(loss.difference, check.value or 0.0)]
    worst = min(unsaid, key=lambda loss: loss.difference, default=None)
    return f"{word}: {text}" + (f"; it is {_worse(worst.difference)} {worst.where}" if worst else "")


def _nearest_margin(result: GateResult, rules: Mapping[str, Rule]) -> str:
    """Return the ``max_drop`` whose margin is nearest, in words; empty without such a rule."""
    checks = [
        (rules[rule.name].max_drop or 0.0, rule.name, check)
        for rule in result.rules
        for check in rule.checks
        if check.kind == "max_drop" and check.ci_low is not None
    ]
    if not checks:
        return ""
    margin, name, check = min(checks, key=lambda one: one[0] + (one[2].ci_low or 0.0))
    text = gate_checks.margin_text(margin, check)
    return f": {text}" if len(rules) == 1 else f": {name}: {text}"


def _more(members: Sequence[object]) -> str:
    return f" (and {len(members) - 1} more)" if len(members) > 1 else ""


def _worse(difference: float) -> str:
    return f"{size_in_points(difference)} worse"


def _failure(rule: Rule, check: Check) -> str:
    """Return what a model does that fails a check, in words."""
    if check.kind in ("max_drop", "no_collapse") and check.value is not None:
        member = check.measured.partition(": ")[0] if check.kind == "no_collapse" else ""
        where = f"on {member} ({rule.name})" if member else f"on {rule.name}"
        margin = rule.max_drop if check.kind == "max_drop" else rule.no_collapse
        text = f"is {_worse(check.value)} {where if rule.where else 'overall'}"
        if margin and check.ci_low is not None and -check.value <= margin:
            text += f", and up to {size_in_points(check.ci_low)}"
        return f"{text} (margin {100 * (margin or 0.0):.4g})"
    if check.kind == "min_accuracy" and rule.min_accuracy is not None:
        return f"has {percent(check.value)} right on {rule.name}; at least {percent(rule.min_accuracy)} is required"
    return f"fails {rule.name}: {check.measured} (required: {check.required})"
