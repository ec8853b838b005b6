"""Whether a gate can judge a run against its baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_llmprops.core.items import Placed, PlacedItem
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.runs.gate.file import Gate, Rule
from pytest_llmprops.runs.reader import Run


def why_not_comparable(
    gate: Gate,
    facts: RunMetadata,
    records: Sequence[VerdictRecord],
    baseline: Run | None,
    problems: Sequence[str] = (),
) -> list[str]:
    """Return the reasons why the gate cannot judge this run against its baseline, one line each.

    The caller checks whether this run is complete.

    :param records: the verdicts of this run. :param problems: what is inconsistent in its record.
    """
    reasons = [f"this run: {line}" for line in problems]
    is_paired = baseline is not None and gate.needs_baseline
    reasons += [*unfit_baseline(gate, baseline), *_unfit("this run", facts, gate)]
    # A promoted copy keeps the id. Runs in a folder that is used again have the same id, but another start.
    if baseline is not None and (baseline.run_id, baseline.facts.started) == (facts.run_id, facts.started):
        reasons.append(f"this run is its own baseline {baseline.run_id}; compare it with another run")
    elif is_paired and baseline is not None and _has_replies_of(baseline, facts, records):
        reasons.append(
            f"all replies of this run are those of baseline {baseline.run_id}, so nothing was measured; name another"
            " candidate, or ask the same one again with --llm-cache refresh"
        )
    if is_paired and baseline is not None:
        paired = [rule for rule in gate.rules if rule.paired]
        names = [name for name in facts.protocols if any(rule.concerns(name) for rule in paired)]
        reasons += differences(baseline.facts, facts, names)
    return reasons


def unfit_baseline(gate: Gate, baseline: Run | None) -> list[str]:
    """Return why no run can be compared with this baseline, one line each; nothing if the gate needs none."""
    if baseline is None or not gate.needs_baseline:
        return []
    name = f"baseline {baseline.run_id}"
    reasons = [f"{name}: {line}" for line in baseline.problems]
    if not baseline.facts.complete:
        reasons.append(f"{name} is {baseline.state}; choose a complete run")
    return reasons + _unfit(name, baseline.facts, gate)


def _unfit(what: str, facts: RunMetadata, gate: Gate) -> list[str]:
    return [*_not_one_model(what, facts), *([] if gate.allow_mixed else _mixed(what, facts))]


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


def _not_one_model(what: str, facts: RunMetadata) -> list[str]:
    models = list(facts.models)
    if len(models) == 1:
        return []
    return [
        f"{what} holds {len(models)} models ({', '.join(models)}); a gate judges one: record a run for each"
    ]


def _mixed(what: str, facts: RunMetadata) -> list[str]:
    return [
        f"{what} mixes replies of {len(served)} served models ({', '.join(served)});"
        " measure again, or set allow_mixed = true"
        for model in facts.models.values()
        if len(served := model.served_as or ()) > 1
    ]


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
