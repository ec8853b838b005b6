"""Whether a gate can judge a run against its baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_llmprops.core.items import Placed, PlacedItem
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.run import NOT_MEASURED, RunMetadata
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.runs.gate.file import Gate, Rule
from pytest_llmprops.runs.merge import shard_steps
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.recorded_command import resume_command


def why_not_comparable(
    gate: Gate,
    facts: RunMetadata,
    records: Sequence[VerdictRecord],
    baseline: Run | None,
    problems: Sequence[str] = (),
) -> list[str]:
    """Return the reasons why the gate cannot judge this run against its baseline, one line each.

    :param records: the verdicts of this run. :param problems: what is inconsistent in its record.
    """
    reasons = [f"this run: {line}" for line in problems]
    if not facts.complete:
        reasons.append(f"this run is incomplete: {_why_incomplete(facts)}")
    if baseline is not None and gate.needs_baseline:
        reasons += unfit_baseline(gate, baseline)
    reasons += _unfit("this run", facts, gate)
    if baseline is None:
        return reasons
    # A promoted copy keeps the id. Runs in a folder that is used again have the same id, but another start.
    if (baseline.run_id, baseline.facts.started) == (facts.run_id, facts.started):
        reasons.append(f"this run is its own baseline {baseline.run_id}; compare it with another run")
    elif gate.needs_baseline and _has_replies_of(baseline, facts, records):
        reasons.append(
            f"all replies of this run are those of baseline {baseline.run_id}, so nothing was measured; name another"
            " candidate, or ask the same one again with --llm-cache refresh"
        )
    paired = [rule for rule in gate.rules if rule.paired]
    names = [name for name in facts.protocols if any(rule.concerns(name) for rule in paired)]
    return reasons + (differences(baseline.facts, facts, names) if paired else [])


def _why_incomplete(facts: RunMetadata) -> str:
    lacking = next((note for note in facts.notes if NOT_MEASURED in note), None)
    if lacking is not None:
        return f"{lacking}; correct this and measure again"
    steps = shard_steps(facts) or f"continue it with: {resume_command(facts.run_id)}"
    return facts.stopped or f"cases have no verdict; {steps}"


def unfit_baseline(gate: Gate, baseline: Run) -> list[str]:
    """Return why no run can be compared with this baseline, one line each."""
    name = f"baseline {baseline.run_id}"
    reasons = [f"{name}: {line}" for line in baseline.problems]
    if not baseline.facts.complete:
        reasons.append(f"{name} is {baseline.state}; choose a complete run")
    return reasons + _unfit(name, baseline.facts, gate)


def _unfit(what: str, facts: RunMetadata, gate: Gate) -> list[str]:
    models, reasons = list(facts.models), []
    if len(models) != 1:
        named = f"{len(models)} models ({', '.join(models)})"
        reasons.append(f"{what} holds {named}; a gate judges one: record a run for each")
    for model in () if gate.allow_mixed else facts.models.values():
        if len(served := model.served_as or ()) > 1:
            mixed = f"{len(served)} served models ({', '.join(served)})"
            reasons.append(f"{what} mixes replies of {mixed}; measure again, or set allow_mixed = true")
    return reasons


def _has_replies_of(baseline: Run, facts: RunMetadata, records: Sequence[VerdictRecord]) -> bool:
    """Return True if each reply of a run was received for its baseline: the same requests, and none asked later.

    The key of a request has the identity of its model, so another model has no key of the baseline.
    """
    newest = [
        [model.newest_reply for model in run.models.values() if model.newest_reply is not None]
        for run in (facts, baseline.facts)
    ]
    if not all(newest) or max(newest[0]) > max(newest[1]):
        return False
    asked = {key for record in records for key in record.requests}
    return bool(asked) and asked <= {key for record in baseline.records for key in record.requests}


def unlike_items(rule: Rule, baseline: RunMetadata, selected: Iterable[PlacedItem]) -> str:
    """Return why too many items of a rule that compares cannot be paired; empty if enough may be.

    It compares the numbers of items by task, so it needs no verdicts of the baseline.

    :param selected: the items of the run; an item may occur several times.
    """
    decided = tasks_by_answer(baseline)
    benchmarks = {row.benchmark for row in baseline.summary}
    if "task" in rule.where and any(rule.concerns(name) and decided(name) for name in benchmarks):
        # Only the answers decide which items are the rule's.
        return ""

    def group(place: Placed) -> tuple[str, ...]:
        task = "" if decided(place.benchmark) else place.task
        return place.benchmark, task, place.language, place.source

    ours, theirs = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    items = {(group(place), place.id) for place in rule.select(selected)}
    ours.update(where for where, _ in items)
    for row in baseline.summary:
        if rule.matches(row):
            theirs[group(row)] += row.items
    missing, added = (theirs - ours).total(), (ours - theirs).total()
    # The gate itself says why a rule has no items, for example because no model serves them.
    if not ours or missing + added <= rule.max_errors * (ours | theirs).total():
        return ""
    return f"baseline {baseline.run_id} has {theirs.total():,} items of {rule.name}, and {ours.total():,} are selected"
