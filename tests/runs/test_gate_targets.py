"""Rules on tasks whose accuracy is best in the middle, and settings that only shape how cases are shown."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.gates import facts_of, gate_of, judged
from fixtures.recorded import verdicts
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.runs.comparable import differences

ERAS = {"benchmark": "eras", "language": "zh"}


def _records(task: str, letters: str) -> list[VerdictRecord]:
    return verdicts(letters, **ERAS, task=task)


@pytest.mark.parametrize("check", [{"min_accuracy": 0.4}, {"no_regression": True}, {"max_drop": 0.1}])
def test_accuracy_with_a_target_is_no_rule(check: dict[str, Any]) -> None:
    """More accuracy on eras implicit is no better: such a rule is invalid, also where its pattern is wide."""
    records = _records("implicit", "cw" * 40)
    for place in ({"benchmark": "eras"}, {"task": "*"}):
        result = judged(gate_of({**place, **check}), records, records)
        assert result.decision == "invalid"
        assert "whose accuracy is best at 0.5" in result.line


def test_other_rules_and_tasks_stand() -> None:
    """Refusals on the same task, and accuracy on the other task, may be asked for."""
    assert judged(gate_of({**ERAS, "max_refused": 0.1}), _records("implicit", "cw" * 40)).decision == "pass"
    rule = {**ERAS, "task": "explicit", "min_accuracy": 0.4}
    both = [*_records("explicit", "c" * 60), *_records("implicit", "w" * 60)]
    assert judged(gate_of(rule), both).decision == "pass"


@pytest.mark.parametrize(("setting", "comparable"), [("case", True), ("samples", False)])
def test_presentation_is_no_difference(setting: str, comparable: bool) -> None:
    """Runs that differ only in how cases are shown measured the same."""
    runs = [
        facts_of(model, protocols={"eras": {"name": "quick", "seed": 0, "settings": {setting: value}}})
        for model, value in (("old", "pair"), ("new", "paradigm"))
    ]
    assert (differences(*runs, ["eras"]) == []) is comparable
