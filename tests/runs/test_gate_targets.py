"""Tasks whose best accuracy is in the middle, and settings that only affect presentation."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.runs.pairs import differences
from tests.support.gates import facts_of, gate_of, judged
from tests.support.recorded import verdicts

ERAS = {"benchmark": "eras", "language": "zh"}


def _records(task: str, letters: str) -> list[VerdictRecord]:
    return verdicts(letters, **ERAS, task=task)


@pytest.mark.parametrize("check", [{"min_accuracy": 0.4}, {"no_regression": True}, {"max_drop": 0.1}])
def test_accuracy_rule_on_a_task_with_a_target_is_invalid(check: dict[str, Any]) -> None:
    """Higher accuracy on eras implicit is not better, so an accuracy rule on it is invalid, even with a wide
    pattern.
    """
    records = _records("implicit", "cw" * 40)
    for place in ({"benchmark": "eras"}, {"task": "*"}):
        result = judged(gate_of({**place, **check}), records, records)
        assert result.decision == "invalid"
        assert "whose accuracy is best at 0.5" in result.line


def test_other_rules_and_tasks_are_valid() -> None:
    """A refusal rule on the same task and an accuracy rule on another task are valid."""
    assert judged(gate_of({**ERAS, "max_refused": 0.1}), _records("implicit", "cw" * 40)).decision == "pass"
    rule = {**ERAS, "task": "explicit", "min_accuracy": 0.4}
    both = [*_records("explicit", "c" * 60), *_records("implicit", "w" * 60)]
    assert judged(gate_of(rule), both).decision == "pass"


class Guess(Benchmark):
    """A benchmark that is not installed, so that the gate knows it only from the record."""

    name = "guess"
    accuracy_targets = {"coin": 0.5}
    presentation = frozenset({"layout"})


GUESS = {"guess": BenchmarkMetadata.of(Guess, data=["builtin:guess/coins.csv"]).to_json()}


def test_targets_come_from_the_record() -> None:
    """A rule on a task with a target is invalid for any benchmark whose record declares the target."""
    records = verdicts("cw" * 40, benchmark="guess", task="coin")
    rule = gate_of({"benchmark": "guess", "min_accuracy": 0.4})
    result = judged(rule, records, benchmarks=GUESS)
    assert result.decision == "invalid"
    assert "guess coin, whose accuracy is best at 0.5" in result.line
    assert result.notes == ()


def test_unknown_benchmark_is_named() -> None:
    """If a benchmark is neither in the record nor installed, the gate says so and treats all of its tasks
    alike.
    """
    records = verdicts("cccw" * 20, benchmark="guess", task="coin")
    result = judged(gate_of({"benchmark": "guess", "min_accuracy": 0.4}), records)
    assert result.decision == "pass"
    assert len(result.notes) == 1
    assert result.notes[0].startswith("guess: run.json does not say")


@pytest.mark.parametrize(
    ("benchmark", "setting", "comparable"),
    [
        ("eras", "case", True),
        ("eras", "samples", False),
        ("guess", "layout", True),
        ("guess", "samples", False),
    ],
)
def test_presentation_is_not_a_difference(benchmark: str, setting: str, comparable: bool) -> None:
    """Runs that differ only in presentation settings are comparable, also if only the record knows the benchmark."""
    old, new = (
        facts_of(
            model,
            benchmarks=GUESS,
            protocols={benchmark: {"name": "quick", "seed": 0, "settings": {setting: value}}},
        )
        for model, value in (("old", 1), ("new", 2))
    )
    assert (differences(old, new, [benchmark]) == []) is comparable


@pytest.mark.parametrize(("compared", "lines"), [("guess", 1), ("sums", 0)])
def test_files_of_another_benchmark_do_not_matter(compared: str, lines: int) -> None:
    """A changed file affects only the benchmarks that read it, whatever its folder is called."""
    file = "builtin:guess/coins.csv"
    protocols = {name: {"name": "quick", "seed": 0, "settings": {}} for name in ("guess", "sums")}
    old, new = (facts_of(m, benchmarks=GUESS, protocols=protocols, data={file: m}) for m in ("old", "new"))
    assert len(differences(old, new, [compared])) == lines
