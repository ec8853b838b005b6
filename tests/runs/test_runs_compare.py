"""Pairing the records of two runs, also where a task depends on the answer, and the contents of a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.items import ItemPlace
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports.kit.generic import change_cells
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.pairs import ABSENT_HERE, ABSENT_THERE, IN_ERROR, Item, pair_items, pairs_of
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.summary import summary_rows
from pytest_llmprops.statistics.judgement import judge
from pytest_llmprops.statistics.paired import Pairs
from tests.support.gates import gate_of, judged
from tests.support.recorded import published_run, verdict, verdicts
from tests.support.records import recorded


def key(item: str) -> ItemPlace:
    return ItemPlace("sums", "add", "en", "builtin", f"sums/{item}")


def samples(statuses: str) -> list[VerdictRecord]:
    """Return one item's samples, one letter each: correct, wrong, refused, error."""
    return [replace(r, id="sums/0001", sample=n) for n, r in enumerate(verdicts(statuses))]


def faults(items: Iterable[Item]) -> dict[str, str]:
    """Return the fault of each item that is no pair, by the last part of its id."""
    return {item.key.id.rpartition("/")[2]: item.fault for item in items if item.pair is None}


def scores(items: Iterable[Item]) -> list[tuple[str, float, float]]:
    """Return task and scores of each pair."""
    return [(p.key.task, p.baseline, p.candidate) for p in pairs_of(items)]


def test_every_item_is_paired_missing_added_or_in_error() -> None:
    """Answers in both runs make a pair; an item in one run only, or in error in either, does not."""
    items = pair_items(verdicts("cwecc"), [*verdicts("ccce"), verdict("9999")])
    assert [p.key for p in pairs_of(items)] == [key("0000"), key("0001")]
    assert scores(items) == [("add", 1.0, 1.0), ("add", 0.0, 1.0)]
    assert faults(items) == {"0002": IN_ERROR, "0003": IN_ERROR, "0004": ABSENT_HERE, "9999": ABSENT_THERE}


def test_repeats_are_averaged_first() -> None:
    """Samples of an item in error are left out of the average; an item is in error only if all are."""
    baseline, candidate = samples("cwce"), samples("rc")
    assert scores(pair_items(baseline, candidate)) == [("add", 2 / 3, 1 / 2)]
    failed = [verdict(status="error", sample=n) for n in range(2)]
    assert faults(pair_items(baseline, failed)) == {"0001": IN_ERROR}


LETTERS = st.text(alphabet="cwrue", max_size=12)


@given(LETTERS, LETTERS)
def test_nothing_is_lost_or_counted_twice(one: str, other: str) -> None:
    """Each item of either run occurs once; exchanged runs have exchanged scores and faults."""
    items, back = pair_items(verdicts(one), verdicts(other)), pair_items(verdicts(other), verdicts(one))
    assert sorted(item.key for item in items) == [key(f"{n:04d}") for n in range(max(len(one), len(other)))]
    assert [(new, old) for _, old, new in scores(items)] == [(old, new) for _, old, new in scores(back)]
    swapped = {ABSENT_HERE: ABSENT_THERE, ABSENT_THERE: ABSENT_HERE}
    assert {name: swapped.get(fault, fault) for name, fault in faults(items).items()} == faults(back)


def test_changes_are_in_the_order_of_the_suites(tmp_path: Path) -> None:
    """The order in which workers ended the cases does not matter; run.json has the order of the suites."""
    rows = [verdict(id="a", task="add"), verdict(id="b", task="multiply")]
    for name in ("old", "new"):
        recorded(tmp_path / name, rows[::-1], summary=summary_rows(rows))
    [contrast] = compare([read_run(tmp_path / name) for name in ("old", "new")]).contrasts
    assert [change.task_key.task for change in contrast.changes if change.task_key] == ["add", "multiply"]


def test_changes_are_those_of_the_pairs(tmp_path: Path) -> None:
    """Counts and the judgement are those of the pairs of both runs."""
    statuses = {"old": "c" * 28 + "w" * 8 + "e", "new": "w" * 3 + "c" * 27 + "w" * 6 + "cc"}
    runs = [read_run(recorded(tmp_path / name, verdicts(text))) for name, text in statuses.items()]
    [contrast] = compare(runs).contrasts
    [change] = contrast.changes
    assert (change.pairs, change.only_baseline, change.only_candidate, change.errors) == (36, 0, 1, 1)
    assert (change.lost, change.gained) == (3, 2)
    scores = (1.0,) * 28 + (0.0,) * 8, (0.0,) * 3 + (1.0,) * 27 + (0.0,) * 6
    pairs = Pairs(*scores, tuple(map(str, range(36))))
    assert change.result == judge({"all": pairs})["all"]


def test_a_flip_of_repeats_shows_the_samples_that_differ(tmp_path: Path) -> None:
    """A flip of a repeated item shows one correct and one wrong sample, with the share of correct samples."""
    old = [replace(r, given=f"old {r.sample}") for r in samples("ewcc")]
    new = [replace(r, given=f"new {r.sample}") for r in samples("ecww")]
    [contrast] = compare([read_run(recorded(tmp_path / n, r)) for n, r in (("a", old), ("b", new))]).contrasts
    [lost] = contrast.lost
    assert (lost.baseline.reply, lost.candidate.reply) == ("old 2", "new 2")
    assert (lost.baseline.score, lost.candidate.score) == (2 / 3, 1 / 3)


@pytest.mark.parametrize(
    ("groups", "all_pairs", "expected"),
    [
        (("x", "y", "z"), False, ["xy", "xz"]),
        (("x", "y", "z"), True, ["xy", "xz", "yz"]),
        (("xy", "xz"), False, ["xx"]),
        (("x", "yz"), False, ["xy", "xz"]),
        (("xyz",), False, ["xy", "xz"]),
    ],
)
def test_which_models_are_compared(
    groups: tuple[str, ...], all_pairs: bool, expected: list[str], tmp_path: Path
) -> None:
    """The first run is compared with each other one, or all are; the same model across two runs, if there is one."""
    runs = [
        read_run(recorded(tmp_path / f"r{n}", [row for m in group for row in verdicts("cw", model=m)]))
        for n, group in enumerate(groups)
    ]
    comparison = compare(runs, all_pairs=all_pairs)
    assert [c.baseline.model + c.candidate.model for c in comparison.contrasts] == expected
    left_out = groups == ("xy", "xz")
    assert any("B (y), D (z)" in note for note in comparison.notes) == left_out


def test_the_published_upgrade(tmp_path: Path) -> None:
    """On the authors' English items GPT-4 loses 1 of GPT-3.5's correct answers and gains 28."""
    runs = [read_run(published_run(model, tmp_path)) for model in ("GPT-3.5", "GPT-4")]
    [contrast] = compare(runs).contrasts
    [change] = [c for c in contrast.changes if c.task_key and c.task_key.language == "en"]
    assert (change.pairs, change.lost, change.gained) == (100, 1, 28)
    assert change.result is not None
    assert change.result.difference == pytest.approx(0.27)
    assert change.result.word == "better"
    back = compare(runs[::-1]).contrasts[0].changes[0]
    assert back.result is not None
    assert (back.lost, back.gained, back.result.word) == (28, 1, "worse")


TASKS = {"y": "yes", "n": "no"}
STATUSES: dict[str, RecordStatus] = {"c": "correct", "w": "wrong", "e": "error"}


def pairs(answers: str, statuses: str, **more: Any) -> list[VerdictRecord]:
    """Return oracle-checker verdicts, with one letter each for the answer (y, n) and the status (c, w, e)."""
    return [
        verdict(f"pair/{n:03d}", STATUSES[status], task=TASKS[answer], benchmark="oracle", **more)
        for n, (answer, status) in enumerate(zip(answers, statuses, strict=True))
    ]


#: a benchmark that is not installed, whose tasks depend on the answer
FACTS: dict[str, Any] = {"benchmarks": {"elsewhere": {"tasks_by_answer": ["no", "yes"]}}}


def elsewhere(records: Iterable[VerdictRecord]) -> list[VerdictRecord]:
    """Return the records as those of a benchmark whose accuracy may decide a gate."""
    return [replace(r, benchmark="elsewhere") for r in records]


@pytest.mark.parametrize(
    ("benchmark", "other"),
    [("oracle", {"task": "linearity"}), ("not-installed", {"task": "no"}), ("oracle", {"source": "other"})],
)
def test_other_places_are_different_items(benchmark: str, other: dict[str, Any]) -> None:
    """Unless the task depends on the answer, the same id in another task or source is a different item."""
    old = verdict("0001", task="yes", benchmark=benchmark)
    items = pair_items([old], [replace(old, **other)])
    assert [item.fault for item in items] == [ABSENT_HERE, ABSENT_THERE]


def test_pairs_have_the_candidates_task() -> None:
    """Every item is paired under the candidate's answer, whatever the two models answered."""
    items = pair_items(pairs("yynn", "cwcw"), pairs("ynyn", "ccwe"))
    assert scores(items) == [("yes", 1.0, 1.0), ("no", 0.0, 1.0), ("yes", 1.0, 0.0)]
    assert [(item.key.task, item.fault) for item in items if item.pair is None] == [("no", IN_ERROR)]


def test_all_samples_of_an_item_have_its_most_frequent_task() -> None:
    """Repeats with different answers are one item, under the answer that most of them gave, also in a gate."""
    answers = ("ynn", "yny", "yyn")
    repeats = [
        r for n, text in enumerate(zip(*answers, strict=True)) for r in pairs("".join(text), "ccw", sample=n)
    ]
    items = pair_items(pairs("yyy", "ccc"), repeats)
    assert scores(items) == [("no", 1.0, 1.0), ("yes", 1.0, 1.0), ("yes", 1.0, 0.0)]
    assert {len(item.candidate) for item in items} == {3}
    rules = [{"task": task, "max_drop": 0.5, "min_items": 1} for task in ("no", "yes")]
    result = judged(gate_of(*rules), elsewhere(repeats), elsewhere(pairs("yyy", "ccc")), **FACTS)
    assert [rule.items for rule in result.rules] == [1, 2]


def test_a_record_says_which_tasks_are_by_answer(tmp_path: Path) -> None:
    """A benchmark that is not installed is paired, gated and shown according to its record."""
    records = [pairs("y" * 40, "c" * 40), pairs("n" * 40, "w" * 40, model="new")]
    old, new = map(elsewhere, records)
    runs = [read_run(recorded(tmp_path / name, rows, **FACTS)) for name, rows in (("a", old), ("b", new))]
    [contrast] = compare(runs).contrasts
    assert [(c.pairs, c.lost) for c in contrast.changes] == [(40, 40)]
    measured = Measured("elsewhere", series_of(runs))
    assert change_cells(measured, ("no", "en", "builtin"))[0].text.startswith("−100.0 (")
    place = {"benchmark": "elsewhere", "task": "no", "max_drop": 0.1, "min_items": 1}
    assert judged(gate_of(place), new, old, **FACTS).decision == "fail"
    assert judged(gate_of(place), new, old).decision == "invalid"


def test_untested_items_are_in_no_pair() -> None:
    """An item that one run could not decide is left out, also of the accuracy; only an error is a fault."""
    before = [verdict(f"{n}") for n in range(4)]
    statuses: tuple[RecordStatus, ...] = ("wrong", "untested", "error", "correct")
    after = [replace(record, status=status) for record, status in zip(before, statuses, strict=True)]
    items = pair_items(before, after)
    assert [(pair.key.id, pair.baseline, pair.candidate) for pair in pairs_of(items)] == [
        (before[0].id, 1.0, 0.0), (before[3].id, 1.0, 1.0),
    ]  # fmt: skip
    assert {item.key.id: item.fault for item in items if item.fault} == {before[2].id: IN_ERROR}
    [row] = summary_rows(after)
    assert (row.items, row.answered, row.accuracy) == (4, 2, 0.5)
    assert (row.correct, row.wrong, row.untested, row.errors) == (1, 1, 1, 1)
