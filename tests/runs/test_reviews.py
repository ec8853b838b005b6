"""``review.jsonl``: marks of people beside a run."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.rows import Review
from pytest_llmprops.reports.page.build import write_report
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.readings import append_review, read_reviews
from tests.support.records import recorded, verdict
from tests.support.report_items import unpacked

MARK: dict[str, Any] = {
    "run": "run", "model": "model", "benchmark": "sums", "source": "builtin", "id": "sums/en/add/0001", "sample": 0,
    "judged_wrongly": True, "note": "both spellings are right", "time": "2026-01-02T03:04:05Z",
    "status": "",
}  # fmt: skip


def beside(folder: Path, *lines: object) -> Path:
    """Return a run with a ``review.jsonl`` of these lines; a text is a line as it is."""
    run = recorded(folder / "run", [verdict("add", n, "wrong") for n in range(3)])
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (run / "review.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return run


def test_the_last_mark_on_a_verdict_counts(tmp_path: Path) -> None:
    """A later mark replaces an earlier one, an empty one deletes it, and marks on other runs are ignored."""
    run = beside(
        tmp_path,
        MARK,
        {**MARK, "note": "no, it is wrong", "judged_wrongly": False},
        {**MARK, "id": "sums/en/add/0002"},
        {**MARK, "id": "sums/en/add/0002", "judged_wrongly": False, "note": ""},
        {**MARK, "run": "other"},
    )
    [mark] = read_reviews(run, "run").values()
    assert (mark.id, mark.note, mark.judged_wrongly) == ("sums/en/add/0001", "no, it is wrong", False)
    assert plain(mark) == {**MARK, "note": "no, it is wrong", "judged_wrongly": False}


def test_a_run_without_marks(tmp_path: Path) -> None:
    """Without the file there are none; a line that was cut off at the end is ignored."""
    assert read_reviews(tmp_path, "run") == {}
    assert read_reviews(beside(tmp_path, MARK, '{"run": "ru'), "run").keys() == {
        ("model", "sums", "builtin", "sums/en/add/0001", 0)
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": None}, "has a 'id' that is not a string"),
        ({"judged_wrongly": "yes"}, "has a 'judged_wrongly' that is not true or false"),
        ({"status": "good"}, "has a 'status' that is not one of correct, wrong, refused, unparsed"),
        ({"sample": -1}, "has a 'sample' that is not a whole number"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    """The error names file, line and what is wrong."""
    with pytest.raises(DataError, match=rf"review.jsonl: line 2 {problem}"):
        read_reviews(beside(tmp_path, MARK, {**MARK, **change}, MARK), "run")


def test_marks_beside_a_run_are_on_the_page_and_change_no_number(tmp_path: Path) -> None:
    """The page has the marks; the record is still consistent."""
    run = beside(tmp_path, {**MARK, "note": "\u202eevil"})
    page = write_report([run], tmp_path / "out")[0].read_text(encoding="utf-8")
    [index] = [line for line in page.splitlines() if 'id="index"' in line]
    [mark] = unpacked(index.split(">")[1].split("<")[0])["reviews"]
    assert mark == {**MARK, "note": "[U+202E]evil"}
    assert read_run(run).problems == ()


def test_a_mark_is_appended_as_one_line(tmp_path: Path) -> None:
    """What was in the file stays, and the new mark counts."""
    run = beside(tmp_path, {**MARK, "note": "first"})
    append_review(run, from_plain(Review, {**MARK, "note": "second\u2028 line\n"}))
    assert len((run / "review.jsonl").read_bytes().splitlines()) == 2
    [mark] = read_reviews(run, "run").values()
    assert mark.note == "second\u2028 line\n"


@pytest.mark.parametrize(
    ("tail", "notes"),
    [
        ('{"run": "ru', ["first", "new"]),
        (json.dumps({**MARK, "id": "other"}), ["first", "both spellings are right", "new"]),
    ],
)
def test_a_mark_after_an_incomplete_line(tmp_path: Path, tail: str, notes: list[str]) -> None:
    """A line that a killed process left is removed; one of a person without a line end is kept."""
    run = beside(tmp_path, {**MARK, "note": "first", "id": "sums/en/add/0002"})
    with (run / "review.jsonl").open("a") as file:
        file.write(tail)
    append_review(run, from_plain(Review, {**MARK, "note": "new"}))
    assert [mark.note for mark in read_reviews(run, "run").values()] == notes


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the caller, and the file has its earlier marks and no half line."""
    run = beside(tmp_path, MARK)
    before = (run / "review.jsonl").read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        append_review(run, from_plain(Review, {**MARK, "note": "lost"}))
    assert (run / "review.jsonl").read_bytes() == before
