"""What a gate says about an accuracy that is not on all items, or not on those of the baseline.

Rules that compare count items that one run lacks (``max_errors``). ``min_accuracy`` alone would be met by a selection
of easy items without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmprops.core.numbers import count
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.runs.benchmark_facts import TasksByAnswer
from pytest_llmprops.runs.gate_data import RuleData
from pytest_llmprops.runs.gate_file import Gate
from pytest_llmprops.runs.pairing import with_tasks_of


def selection_notes(
    gate: Gate,
    facts: RunFacts,
    rules: Iterable[RuleData],
    candidate: Sequence[VerdictRecord],
    baseline: Sequence[VerdictRecord],
    decided: TasksByAnswer,
) -> list[str]:
    """Return one note for each selection of items on which a ``min_accuracy`` was judged.

    :param baseline: the verdicts of the baseline; empty without one.
    """
    with_accuracy = [data for data in rules if data.rule.min_accuracy is not None]
    notes = [
        f"min_accuracy is on a selection: {count(selected)} of {count(available)} {name} items ({_how(facts)})"
        for name, (selected, available) in facts.selected_items.items()
        if selected < available and any(data.rule.concerns(name) for data in with_accuracy)
    ]
    for data in with_accuracy:
        # Of a run that draws its items, those not drawn are no selection.
        if data.rule.paired or data.partial or not baseline:
            continue
        ours = {(r.benchmark, r.source, r.id) for r in data.rule.select(candidate)}
        others = data.rule.select(with_tasks_of(baseline, candidate, decided))
        theirs = {(r.benchmark, r.source, r.id) for r in others}
        if ours != theirs:
            missing, more, here = (count(len(ids)) for ids in (theirs - ours, ours - theirs, ours))
            notes.append(
                f"{data.rule.name}: min_accuracy is not on the items of the baseline: {missing} of its"
                f" {count(len(theirs))} are missing here, and {more} of the {here} here are missing there"
            )
    return notes


def _how(facts: RunFacts) -> str:
    limit = facts.options.get("limit")
    return f"--llm-limit {limit}" if limit is not None else "selected by -k, -m, --deselect or name"
