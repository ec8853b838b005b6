"""Runs that a gate cannot judge: incomplete, different from the baseline, or on a task with a target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.pairs import differences
from tests.support.gates import baseline_of, facts_of, gate_of, judged
from tests.support.recorded import verdicts

SETTINGS = {"temperature": 0.0, "k": 4}
PROTOCOL = {"name": "quick", "settings": SETTINGS, "seed": 0}
DATA = {"builtin:sums/en.csv": "aa", "builtin:htest/rhyme.jsonl": "bb"}
FACTS: dict[str, Any] = {
    "protocols": {"sums": PROTOCOL},
    "data": DATA,
    "options": {"params": {"top_p": 0.9}},
    "helpers": {"reader": {"spec": "gpt-4o", "identity": "gpt-4o"}},
    "deviations": {"old": ["temperature left out"]},
}
OURS = {**FACTS, "deviations": {"new": ["temperature left out"]}}


def against(
    ours: dict[str, Any] | None = None, theirs: dict[str, Any] | None = None, **settings: Any
) -> GateResult:
    """Return the decision after changing facts of either run."""
    gate = gate_of({"benchmark": "sums", "max_drop": 0.5}, **settings)
    facts = facts_of("new", **{**OURS, **(ours or {})})
    baseline = baseline_of(verdicts("c" * 40), **{**FACTS, **(theirs or {})})
    return decide(gate, facts, verdicts("c" * 40, model="new"), baseline)


@pytest.mark.parametrize(
    ("ours", "wanted"),
    [
        ({"protocols": {"sums": {**PROTOCOL, "name": "paper"}}}, "protocol of sums: protocol quick → paper"),
        (
            {"protocols": {"sums": {**PROTOCOL, "settings": {"temperature": 1.0, "k": 4, "cot": True}}}},
            "temperature 0.0 → 1.0, cot (none) → True",
        ),
        ({"protocols": {"sums": {**PROTOCOL, "seed": 7}}}, "protocol of sums: seed 0 → 7"),
        ({"options": {"params": {}}}, "request parameter top_p: 0.9 in the baseline, (none) in this run"),
        (
            {"helpers": {"reader": {"spec": "x", "identity": "gpt-5"}}},
            "helper model reader: gpt-4o in the baseline, gpt-5 in this run",
        ),
        ({"data": {**DATA, "builtin:sums/en.csv": "cc"}}, "data: builtin:sums/en.csv changed"),
        ({"deviations": {}}, "deviation only of the baseline: temperature left out"),
        (
            {"deviations": {"new": ["temperature left out", "stop left out"]}},
            "deviation only of this run: stop left out",
        ),
        ({"models": {"new": {}, "other": {}}}, "this run holds 2 models (new, other); a gate judges one"),
        (
            {"models": {"new": {"served_as": ["a-1", "a-2"]}}},
            "this run mixes replies of 2 served models (a-1, a-2)",
        ),
        (
            {"complete": False},
            "this run is incomplete: cases have no verdict; continue it with 'llmprops retry run-new'",
        ),
        ({"complete": False, "stopped": "wrong key"}, "this run is incomplete: wrong key"),
    ],
)
def test_differences_are_named(ours: dict[str, Any], wanted: str) -> None:
    """Each difference makes the gate invalid and is described in the one-line decision."""
    result = against(ours)
    assert (result.decision, result.passed) == ("invalid", False)
    assert len(result.reasons) == 1
    assert wanted in result.reasons[0]
    assert wanted in result.line


@pytest.mark.parametrize(
    ("theirs", "wanted"),
    [
        ({"complete": False}, "baseline run-old is incomplete"),
        ({"models": {"old": {}, "older": {}}}, "baseline run-old holds 2 models"),
        ({"models": {"old": {"served_as": ["a", "b"]}}}, "baseline run-old mixes replies of 2 served models"),
    ],
)
def test_baseline_must_be_complete_too(theirs: dict[str, Any], wanted: str) -> None:
    """An incomplete or mixed baseline makes the gate invalid, as an incomplete or mixed run does."""
    assert against(theirs=theirs).reasons[0].startswith(wanted)


def test_an_older_baseline_is_named_as_such() -> None:
    """A baseline from before a change of data or protocol is called older; a newer one is not."""
    changed = {"protocols": {"sums": {**PROTOCOL, "seed": 7}}, "data": {**DATA, "builtin:sums/en.csv": "cc"}}
    older, younger = against(changed), against({**changed, "started": "2025-12-31"})
    assert [r.partition(":")[0] for r in older.reasons] == [
        "baseline run-old of 2026-01-01 is older than this run's protocol of sums",
        "baseline run-old of 2026-01-01 is older than this run's data",
    ]
    assert [r.partition(" this run's")[0] for r in younger.reasons] == ["baseline run-old is not of"] * 2


def test_only_benchmarks_of_the_rules_are_compared() -> None:
    """Other benchmarks' protocols and data are ignored, and so is a baseline that no rule needs."""
    other = {
        "protocols": {"sums": PROTOCOL, "htest": {**PROTOCOL, "seed": 1}},
        "data": {**DATA, "builtin:htest/rhyme.jsonl": "other"},
    }
    assert against(other, {"protocols": {"sums": PROTOCOL, "htest": PROTOCOL}}).decision == "pass"
    alone = gate_of({"benchmark": "sums", "min_accuracy": 0.5})
    facts = facts_of("new", protocols={"sums": {**PROTOCOL, "seed": 7}})
    baseline = baseline_of(verdicts("c" * 40), complete=False, **FACTS)
    assert decide(alone, facts, verdicts("c" * 40, model="new"), baseline).decision == "pass"


def test_renamed_token_limit_is_not_a_deviation() -> None:
    """Sending max_tokens as max_completion_tokens is not a deviation."""
    renamed = ["temperature left out", "max_tokens sent as max_completion_tokens"]
    assert against({"deviations": {"new": renamed}}).decision == "pass"


def test_gate_file_may_allow_some_differences() -> None:
    """The gate file can allow mixed served models and deviations, but nothing else."""
    mixed = {"models": {"new": {"served_as": ["a-1", "a-2"]}}}
    assert against(mixed, allow_mixed=True).decision == "pass"
    assert against({"deviations": {}}, allow_deviations=True).decision == "pass"
    assert against(mixed, allow_deviations=True).decision == "invalid"
    assert against({"deviations": {}}, allow_mixed=True).decision == "invalid"


def test_several_reasons_are_counted() -> None:
    """The line names the first reason and counts the others."""
    result = against({"complete": False, "options": {"params": {}}, "deviations": {}})
    assert len(result.reasons) == 3
    assert result.line.startswith("INVALID: this run is incomplete")
    assert result.line.endswith("(and 2 more)")


def test_many_changed_files_are_counted() -> None:
    """The message names three changed files and counts the others; a file read by only one run is not a change."""
    names = [f"builtin:sums/{n}.csv" for n in range(5)]
    before, after = (
        facts_of("old", data=dict.fromkeys(names, "a")),
        facts_of("new", data=dict.fromkeys(names, "b")),
    )
    (line,) = differences(before, after, ["sums"])
    assert line.endswith("builtin:sums/2.csv and 2 more changed")
    assert differences(before, facts_of("new", data={"published:sums/9.csv": "b"}), ["sums"]) == []


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
    """If a benchmark is neither in the record nor installed, the gate says so and treats all of its tasks alike."""
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


# ---- headline tasks

HOMOPHONES = {"benchmark": "homophones", "language": "en"}


def homophones(model: str, **right: int) -> list[VerdictRecord]:
    """Return the verdicts of 100 items of each task, of which so many are correct."""
    return [
        record
        for task, correct in right.items()
        for record in verdicts(
            "c" * correct + "w" * (100 - correct), model=model, benchmark="homophones", task=task
        )
    ]


@pytest.mark.parametrize(
    ("asked", "control", "decision"), [(78, 90, "fail"), (90, 20, "pass")], ids=["asked", "control"]
)
def test_a_rule_without_a_task_judges_headline_tasks(asked: int, control: int, decision: str) -> None:
    """Controls cannot hide a drop of the headline task, and a drop of a control is no failure."""
    old = homophones("old", asked=90, context_only=60)
    new = homophones("new", asked=asked, context_only=control)
    new = [replace(r, id=f"{r.id}-{r.task}") for r in new]
    old = [replace(r, id=f"{r.id}-{r.task}") for r in old]
    result = judged(gate_of({**HOMOPHONES, "no_regression": True}), new, old)
    assert (result.decision, result.items_of) == (decision, 100)
    every = judged(gate_of({**HOMOPHONES, "task": "*", "no_regression": True}), new, old)
    assert (every.decision == "fail", every.items_of) == (decision == "pass", 200)


def test_side_tasks_are_no_headline_tasks() -> None:
    """Letter Geometry is not in the figure of H-TEST; alone, it is judged, as in reports."""
    old = verdicts("c" * 40, benchmark="htest", task="rhyme")
    geometry = verdicts("w" * 40, benchmark="htest", task="letter_geometry", model="new")
    new = [*verdicts("c" * 40, benchmark="htest", task="rhyme", model="new"), *geometry]
    gate = gate_of({"benchmark": "htest", "min_accuracy": 0.5})
    assert judged(gate, new, old).decision == "pass"
    assert judged(gate, geometry).decision == "fail"
    # A selection of the candidate cannot change what is judged.
    assert (
        judged(gate, geometry, old)
        .reasons[0]
        .endswith(
            "matches nothing: without a task, it judges headline tasks, not htest/letter_geometry; name the task"
        )
    )
