"""Items whose task depends on the answer: pairing, comparing and gating two models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.records import RecordStatus, VerdictRecord
from pytest_llmprops.reports.kit.generic import change_cells
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.gate.sequential import plan_of
from pytest_llmprops.runs.pairs import pair_records, with_one_task, with_tasks_of
from pytest_llmprops.runs.reader import read_run
from tests.support.gates import DrawnRun, gate_of, judged
from tests.support.recorded import verdict, write_run

TASKS = {"y": "yes", "n": "no"}
STATUSES: dict[str, RecordStatus] = {"c": "correct", "w": "wrong", "e": "error"}


def pairs(answers: str, statuses: str, **more: Any) -> list[VerdictRecord]:
    """Return oracle-checker verdicts, with one letter each for the answer (y, n) and the status (c, w, e)."""
    return [
        verdict(f"pair/{n:03d}", STATUSES[status], task=TASKS[answer], benchmark="oracle", **more)
        for n, (answer, status) in enumerate(zip(answers, statuses, strict=True))
    ]


def cases(answers: str) -> list[VerdictRecord]:
    """Return the cases before any call, each under the task of its label."""
    return pairs(answers, "c" * len(answers))


def tasks(records: Iterable[VerdictRecord]) -> str:
    """Return the first letters of the records' tasks."""
    return "".join(r.task[0] for r in records)


def test_item_has_one_task_in_both_runs() -> None:
    """The candidate's answer decides the task of a pair; the records are unchanged."""
    old, new = pairs("yyn", "ccc"), pairs("nyy", "ccc")
    moved = with_tasks_of(old, new)
    assert (tasks(moved), tasks(old)) == ("nyy", "yyn")
    assert [r.id for r in moved] == [r.id for r in old]
    assert with_tasks_of(old, []) == old


@pytest.mark.parametrize(
    ("benchmark", "task"),
    [("oracle", "linearity"), ("sums", "no"), ("not-installed", "no"), ("htest", "rhyme")],
)
def test_other_tasks_are_different_items(benchmark: str, task: str) -> None:
    """Unless the task depends on the answer, the same id in another task is a different item."""
    old = verdict("0001", task="yes", benchmark=benchmark)
    new = verdict("0001", task=task, benchmark=benchmark)
    assert with_tasks_of([old], [new]) == [old]
    assert pair_records([old], [new]).pairs == []


@pytest.mark.parametrize("field", ["source", "language"])
def test_items_of_another_source_or_language_are_different(field: str) -> None:
    """The same id in another source or language does not affect the task."""
    old, new = pairs("y", "c"), pairs("n", "c", **{field: "other"})
    assert tasks(with_tasks_of(old, new)) == "y"


def test_pairs_have_the_candidates_task() -> None:
    """Every item is paired under the candidate's answer, whatever the two models answered."""
    paired = pair_records(pairs("yynn", "cwcw"), pairs("ynyn", "ccwe"))
    assert [(p.key.task, p.baseline, p.candidate) for p in paired.pairs] == [
        ("yes", 1.0, 1.0), ("no", 0.0, 1.0), ("yes", 1.0, 0.0),
    ]  # fmt: skip
    assert (paired.missing, paired.added, [k.task for k in paired.errors]) == ([], [], ["no"])


def test_all_samples_of_an_item_have_its_most_frequent_task() -> None:
    """Repeats with different answers are one item, under the answer that most of them gave, also in a gate."""
    answers = ("ynn", "yny", "yyn")
    samples = [
        r for n, text in enumerate(zip(*answers, strict=True)) for r in pairs("".join(text), "ccw", sample=n)
    ]
    assert sorted((r.id[-1], r.task) for r in with_one_task(samples)) == [
        *[("0", "no")] * 3, *[("1", "yes")] * 3, *[("2", "yes")] * 3,
    ]  # fmt: skip
    paired = pair_records(pairs("yyy", "ccc"), samples)
    assert [(p.key.task, p.baseline, p.candidate) for p in paired.pairs] == [
        ("no", 1.0, 1.0), ("yes", 1.0, 1.0), ("yes", 1.0, 0.0),
    ]  # fmt: skip
    assert (paired.missing, paired.added) == ([], [])
    rules = [
        {"task": task, "max_drop": 0.5, "min_items": 1, "repeats": repeats}
        for task, repeats in (("no", 3), ("yes", 1))
    ]
    result = judged(gate_of(*rules), samples, pairs("yyy", "ccc"))
    assert [rule.items for rule in result.rules] == [1, 2]
    assert "the baseline has 1 sample per item" in result.line


def test_two_runs_are_compared(tmp_path: Path) -> None:
    """`compare` counts losses and gains by the candidate's answer and shows the items that flipped."""
    old = read_run(write_run(tmp_path / "old", pairs("yynn", "ccww", model="m")))
    new = read_run(write_run(tmp_path / "new", pairs("nynn", "wccw", model="m")))
    [contrast] = compare([old, new]).contrasts
    counts = {c.task_key and c.task_key[1]: (c.pairs, c.lost, c.gained, c.errors) for c in contrast.changes}
    assert counts == {"no": (3, 1, 1, 0), "yes": (1, 0, 0, 0), None: (4, 1, 1, 0)}
    assert [flip.key.id for flip in contrast.lost] == ["oracle/pair/000"]
    assert [flip.key.id for flip in contrast.gained] == ["oracle/pair/002"]


def test_the_report_shows_the_change_by_the_second_runs_answer(tmp_path: Path) -> None:
    """The change column counts every item that the second run has under the task."""
    old = read_run(write_run(tmp_path / "old", pairs("y" * 40, "c" * 40)))
    new = read_run(write_run(tmp_path / "new", pairs("n" * 40, "w" * 40)))
    measured = Measured("oracle", series_of([old, new]))
    assert change_cells(measured, ("no", "en", "builtin"))[0].text.startswith("−100.0 (")
    assert change_cells(measured, ("yes", "en", "builtin"))[0].text == "no common items"


def test_a_record_says_which_tasks_are_by_answer(tmp_path: Path) -> None:
    """A benchmark that is not installed is paired, gated and shown according to its record."""
    facts = {"benchmarks": {"elsewhere": {"tasks_by_answer": ["no", "yes"]}}}
    records = [pairs("y" * 40, "c" * 40), pairs("n" * 40, "w" * 40, model="new")]
    old, new = ([replace(r, benchmark="elsewhere") for r in rows] for rows in records)
    runs = [read_run(write_run(tmp_path / name, rows, **facts)) for name, rows in (("a", old), ("b", new))]
    [contrast] = compare(runs).contrasts
    assert [(c.pairs, c.lost) for c in contrast.changes] == [(40, 40)]
    measured = Measured("elsewhere", series_of(runs))
    assert change_cells(measured, ("no", "en", "builtin"))[0].text.startswith("−100.0 (")
    place = {"benchmark": "elsewhere", "task": "no", "max_drop": 0.1, "min_items": 1}
    assert judged(gate_of(place), new, old, **facts).decision == "fail"
    assert judged(gate_of(place), new, old).decision == "invalid"


# ---- gates


def candidate_pairs(answers: str, statuses: str) -> list[VerdictRecord]:
    """Return :func:`pairs` of the model under test."""
    return pairs(answers, statuses, model="new")


def rule(**more: Any) -> dict[str, Any]:
    """Return a comparing rule on the oracle-checker."""
    return {"benchmark": "oracle", "max_drop": 0.1, "min_items": 1, **more}


def test_rule_on_a_task_uses_the_candidates_answer() -> None:
    """A rule on "no" judges the pairs that the candidate calls not equivalent; none is missing."""
    old, new = pairs("y" * 100 + "n" * 100, "c" * 200), candidate_pairs("y" * 50 + "n" * 150, "c" * 200)
    result = judged(gate_of(rule(task="no")), new, old)
    assert result.decision == "pass", result
    [judgement] = result.rules
    assert judgement.items == 150
    worse = candidate_pairs("y" * 50 + "n" * 150, "c" * 50 + "w" * 100 + "c" * 50)
    assert judged(gate_of(rule(task="no")), worse, old).decision == "fail"
    assert judged(gate_of(rule(task="yes")), worse, old).decision == "pass"


def test_a_plan_knows_the_baselines_pairs() -> None:
    """Before the first call a case has the task of its label; a different baseline answer makes no item
    missing.
    """
    gate = gate_of(rule(), sequential=True)
    plan = plan_of(gate, cases("y" * 30 + "n" * 30), pairs("n" * 30 + "y" * 30, "c" * 59 + "e"), 0)
    [rule_plan] = plan.rules.values()
    assert (rule_plan.items, rule_plan.pairs) == (60, 59)
    assert {what: len(ids) for what, ids in rule_plan.faults.items() if ids} == {"in error": 1}


def test_a_sequential_gate_settles_on_answers_that_differ() -> None:
    """A sequential gate on all tasks settles early, with the decision of the full run."""
    gate = gate_of(rule(max_drop=0.2), sequential=True)
    old, new = pairs("yn" * 200, "c" * 400), candidate_pairs("ny" * 200, "c" * 400)
    run = DrawnRun(gate, new, old)
    run.plan = plan_of(gate, cases("yyn" * 133 + "n"), old, 0)
    ended = run.after(300, ended=True)
    assert ended.decision == judged(gate, new, old).decision == "pass", ended
    assert (ended.items_used, ended.items_of) == (300, 400)
