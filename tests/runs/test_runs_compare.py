"""Pairing the records of two runs, and the contents of a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.homophones.tools.import_verdicts import import_homophones
from pytest_llmprops.core.comparison import detectable_drop_of
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.paired import Pairs, drop_interval, drop_test
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.request_log import RequestLog
from pytest_llmprops.runs.compare import Change, compare
from pytest_llmprops.runs.pairs import ItemKey, pair_records
from pytest_llmprops.runs.reader import Run, read_run
from pytest_llmprops.runs.summary import summary_rows
from tests.support.recorded import verdict, verdicts, write_run


def run_of(folder: Path, statuses: str, model: str = "m", **facts: Any) -> Run:
    return read_run(write_run(folder, verdicts(statuses, model=model), **facts))


def key(item: str) -> ItemKey:
    return ItemKey("sums", "add", "en", "builtin", f"sums/{item}")


def samples(statuses: str) -> list[VerdictRecord]:
    """Return one item's samples, one letter each: correct, wrong, refused, error."""
    return [replace(r, id="sums/0001", sample=n) for n, r in enumerate(verdicts(statuses))]


# pair_records


def test_every_item_is_paired_missing_added_or_in_error() -> None:
    """Answers in both runs make a pair; an item in one run only, or in error in either, does not."""
    paired = pair_records(verdicts("cwecc"), [*verdicts("ccce"), verdict("9999")])
    assert [(p.key, p.baseline, p.candidate) for p in paired.pairs] == [
        (key("0000"), 1.0, 1.0),
        (key("0001"), 0.0, 1.0),
    ]
    assert paired.errors == [key("0002"), key("0003")]
    assert paired.missing == [key("0004")]
    assert paired.added == [key("9999")]


@pytest.mark.parametrize("field", ["benchmark", "task", "language", "source"])
def test_only_the_same_place_is_paired(field: str) -> None:
    """The same id in another benchmark, task, language or source is a different item."""
    other: dict[str, Any] = {field: "other"}
    paired = pair_records([verdict(id="x")], [verdict(id="x", **other)])
    assert (paired.pairs, len(paired.missing), len(paired.added)) == ([], 1, 1)


def test_repeats_are_averaged_first() -> None:
    """Samples of an item in error are left out of the average; an item is in error only if all are."""
    baseline, candidate = samples("cwce"), samples("rc")
    [pair] = pair_records(baseline, candidate).pairs
    assert (pair.baseline, pair.candidate) == (2 / 3, 1 / 2)
    failed = [verdict(status="error", sample=n) for n in range(2)]
    assert pair_records(baseline, failed).errors == [key("0001")]


LETTERS = st.text(alphabet="cwrue", max_size=12)


@given(LETTERS, LETTERS)
def test_nothing_is_lost_or_counted_twice(one: str, other: str) -> None:
    """Each item of either run is in exactly one of the four lists."""
    paired = pair_records(verdicts(one), verdicts(other))
    keys = [*(p.key for p in paired.pairs), *paired.missing, *paired.added, *paired.errors]
    assert sorted(keys) == [key(f"{n:04d}") for n in range(max(len(one), len(other)))]
    back = pair_records(verdicts(other), verdicts(one))
    assert [(p.candidate, p.baseline) for p in back.pairs] == [
        (p.baseline, p.candidate) for p in paired.pairs
    ]
    assert (back.missing, back.added) == (paired.added, paired.missing)


# compare


def conclusion(change: Change) -> str:
    assert change.result is not None
    return change.result.conclusion


def test_changes_are_in_the_order_of_the_suites(tmp_path: Path) -> None:
    """The order in which workers ended the cases does not matter; run.json has the order of the suites."""
    rows = [verdict(id="a", task="add"), verdict(id="b", task="multiply")]
    for name in ("old", "new"):
        write_run(tmp_path / name, rows[::-1], summary=summary_rows(rows))
    [contrast] = compare([read_run(tmp_path / name) for name in ("old", "new")]).contrasts
    assert [change.task_key.task for change in contrast.changes if change.task_key] == ["add", "multiply"]


def test_changes_are_those_of_the_pairs(tmp_path: Path) -> None:
    """Counts, drop, interval, p-value and detectable drop are computed from the pairs of both runs."""
    old = run_of(tmp_path / "old", "c" * 28 + "w" * 8 + "e")
    new = run_of(tmp_path / "new", "w" * 3 + "c" * 27 + "w" * 6 + "cc")
    [contrast] = compare([old, new]).contrasts
    [change] = contrast.changes
    assert (change.pairs, change.only_baseline, change.only_candidate, change.errors) == (36, 0, 1, 1)
    assert (change.lost, change.gained) == (3, 2)
    scores = (1.0,) * 28 + (0.0,) * 8, (0.0,) * 3 + (1.0,) * 27 + (0.0,) * 6
    pairs = Pairs(*scores, tuple(map(str, range(36))))
    result = change.result
    assert result is not None
    assert result.difference == pytest.approx(-1 / 36)
    assert (result.p, result.test_method) == drop_test(pairs)
    assert (-result.high, -result.low, result.interval_method) == drop_interval(pairs)
    assert result.detectable == detectable_drop_of(pairs, alpha=0.05)
    assert result.conclusion == "inconclusive"


def test_a_clear_drop_is_significant(tmp_path: Path) -> None:
    """Ten losses without a gain are a significant drop."""
    [contrast] = compare(
        [run_of(tmp_path / "a", "c" * 20), run_of(tmp_path / "b", "w" * 10 + "c" * 10)]
    ).contrasts
    assert conclusion(contrast.changes[0]) == "drop"


def test_each_task_and_all(tmp_path: Path) -> None:
    """Every task, language and source has a separate change, and one change covers all items."""
    rows = [verdict(f"{task}{n}", task=task) for task in ("one", "two") for n in range(2)]
    old, new = read_run(write_run(tmp_path / "a", rows)), read_run(write_run(tmp_path / "b", rows))
    [contrast] = compare([old, new]).contrasts
    assert [(c.task_key and c.task_key.task, c.pairs) for c in contrast.changes] == [
        ("one", 2),
        ("two", 2),
        (None, 4),
    ]


def test_flips_show_both_replies(tmp_path: Path) -> None:
    """Each lost or gained item is shown with both runs' replies, or with the answer if no reply was kept."""
    old = write_run(tmp_path / "old", [*verdicts("cwc"), verdict("x", requests=["k"], given="4")])
    log = RequestLog(old)
    log.add("subject", Chat.user("?"), Reply("It is 4.", key="k"))
    log.close()
    new = write_run(tmp_path / "new", [*verdicts("ccc"), verdict("x", "unparsed", given="what?")])
    [contrast] = compare([read_run(old), read_run(new)]).contrasts
    [lost], [gained] = contrast.lost, contrast.gained
    assert (lost.key.id, lost.baseline.reply, lost.candidate.reply) == ("sums/x", "It is 4.", "what?")
    assert (lost.baseline.status, lost.candidate.status, lost.expected) == ("correct", "unparsed", "4")
    assert (gained.key.id, gained.baseline.status, gained.candidate.status) == (
        "sums/0001",
        "wrong",
        "correct",
    )


def test_a_flip_of_repeats_shows_the_samples_that_differ(tmp_path: Path) -> None:
    """A flip of a repeated item shows one correct and one wrong sample, with the share of correct samples."""
    old = [replace(r, given=f"old {r.sample}") for r in samples("ewcc")]
    new = [replace(r, given=f"new {r.sample}") for r in samples("ecww")]
    [contrast] = compare(
        [read_run(write_run(tmp_path / n, r)) for n, r in (("a", old), ("b", new))]
    ).contrasts
    [lost] = contrast.lost
    assert (lost.baseline.reply, lost.candidate.reply) == ("old 2", "new 2")
    assert (lost.baseline.score, lost.candidate.score) == (2 / 3, 1 / 3)


def test_which_runs_are_compared(tmp_path: Path) -> None:
    """The first run is compared with each other run; with all_pairs, every run with every other."""
    runs = [run_of(tmp_path / name, "cw", model=name) for name in ("x", "y", "z")]
    one = compare(runs).contrasts
    every = compare(runs, all_pairs=True).contrasts
    assert [(c.baseline.model, c.candidate.model) for c in one] == [("x", "y"), ("x", "z")]
    assert [(c.baseline.model, c.candidate.model) for c in every] == [("x", "y"), ("x", "z"), ("y", "z")]


def models(tmp_path: Path, *groups: str) -> list[Run]:
    """Return runs with one model per letter."""
    return [
        read_run(write_run(tmp_path / f"r{n}", [row for m in group for row in verdicts("cw", model=m)]))
        for n, group in enumerate(groups)
    ]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (("x", "y"), ["xy"]),
        (("xy", "yx"), ["xx", "yy"]),
        (("xy", "xz"), ["xx"]),
        (("x", "yz"), ["xy", "xz"]),
        (("xyz",), ["xy", "xz"]),
    ],
)
def test_which_models_are_compared(groups: tuple[str, ...], expected: list[str], tmp_path: Path) -> None:
    """The same model is compared across two runs, otherwise every model with every other, also within one
    run.
    """
    comparison = compare(models(tmp_path, *groups))
    assert [c.baseline.model + c.candidate.model for c in comparison.contrasts] == expected
    left_out = groups == ("xy", "xz")
    assert any("B (y), D (z)" in note for note in comparison.notes) == left_out


def test_one_model_alone_is_refused(tmp_path: Path) -> None:
    """A single run with a single model is refused."""
    with pytest.raises(UsageError, match="name another run"):
        compare(models(tmp_path, "x"))


def test_differences_are_listed(tmp_path: Path) -> None:
    """A different protocol is listed as a difference; a record's notes are listed with its run."""
    old = run_of(tmp_path / "a", "cc", protocols={"sums": {"name": "quick", "settings": {"k": 1}, "seed": 0}})
    new = run_of(tmp_path / "b", "cc", protocols={"sums": {"name": "quick", "settings": {"k": 2}, "seed": 0}},
                 complete=False, expected=5)  # fmt: skip
    comparison = compare([old, new])
    assert any("k 1 → 2" in text for text in comparison.contrasts[0].differences)
    assert comparison.notes == ("b: incomplete: 2 of 5 cases have a verdict",)
    assert compare([old, old]).contrasts[0].differences == ()


def test_the_published_upgrade(published: Path, tmp_path: Path) -> None:
    """On the authors' English items GPT-4 loses 1 of GPT-3.5's correct answers and gains 28."""
    folders = {folder.name: folder for folder, _ in import_homophones(published, tmp_path)}
    runs = [read_run(folders[f"imported-homophones-{name}"]) for name in ("GPT-3.5", "GPT-4")]
    [contrast] = compare(runs).contrasts
    [change] = [c for c in contrast.changes if c.task_key and c.task_key.language == "en"]
    assert (change.pairs, change.lost, change.gained) == (100, 1, 28)
    assert change.result is not None
    assert change.result.difference == pytest.approx(0.27)
    assert conclusion(change) == "gain"
    back = compare(runs[::-1]).contrasts[0].changes[0]
    assert (back.lost, back.gained, conclusion(back)) == (28, 1, "drop")
