"""Reading a run record: the valid part is returned, or a one-line error is raised."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.runs.reader import Run, read_run
from pytest_llmprops.runs.readings import read_reviews
from pytest_llmprops.runs.record import RunRecord, first_facts
from pytest_llmprops.runs.replies import read_requests
from pytest_llmprops.runs.summary import summary_rows
from tests.runs.test_readings import MARK
from tests.runs.test_runs_searches import FOUND
from tests.runs.test_runs_searches import row as search_row
from tests.support.recorded import edit_run_json, verdict, verdicts
from tests.support.records import exchange, metric, recorded


def counts(run: Run) -> list[tuple[Any, ...]]:
    return [(r.items, r.correct, r.wrong, r.errors, r.accuracy) for r in run.facts.summary]


def one_line(caught: pytest.ExceptionInfo[DataError]) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_separators_within_a_text_do_not_end_a_line(tmp_path: Path) -> None:
    """Unicode line and paragraph separators and control characters in a reply do not end the record."""
    special = "\u2028\u2029\x85\x0b\x0c\x1c\r\n\x00"
    run = read_run(recorded(tmp_path, [verdict(given=special), verdict("0002")]))
    assert [r.given for r in run.records] == [special, "4"]


def test_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    """If a case has two lines, the last is kept and counted; each sample is a separate case."""
    rows = [verdict(status="wrong"), verdict(sample=1), verdict(status="correct"), verdict("0002")]
    run = read_run(recorded(tmp_path, rows))
    assert [(r.id, r.sample, r.status) for r in run.records] == [
        ("sums/0001", 0, "correct"),
        ("sums/0001", 1, "correct"),
        ("sums/0002", 0, "correct"),
    ]
    assert counts(run) == [(2, 3, 0, 0, 1.0)]
    assert any("recorded more than once" in note for note in run.notes)
    assert run.state == "complete"


def test_missing_or_damaged_run_json(tmp_path: Path) -> None:
    """A run.json that is missing, or not a JSON object with a schema, gives a one-line error with its place."""
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(DataError, match=f"^{folder}: has no run.json, so it is not a run$"):
            read_run(folder)
    for text in ("", "[]", "{}", '{"schema": "1"}', "\xff"):
        (tmp_path / "run.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(DataError) as caught:
            read_run(tmp_path)
        assert one_line(caught).startswith(f"{tmp_path / 'run.json'}: ")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda facts: facts.update(schema=3), "newer version: schema 3, this one reads 2; upgrade pytest-llmprops"),
        (lambda facts: facts.update(models={"old": "gpt"}), "'models.old' that is not an object"),
        (lambda facts: facts.update(deviations={"old": "none"}), "'deviations.old' that is not a list"),
        (lambda facts: facts["summary"].append(7), "'summary[1]' that is not an object"),
        (lambda facts: facts["summary"][0].pop("accuracy"), "has no 'summary[0].accuracy'"),
        (lambda facts: facts["summary"][0].update(items="5"), "'summary[0].items' that is not a whole number"),
        (lambda facts: facts.update(complete="yes"), "'complete'"),
    ],
)  # fmt: skip
def test_facts_of_the_wrong_kind(
    edit: Callable[[dict[str, Any]], object], named: str, tmp_path: Path
) -> None:
    """A fact of the wrong type, or of a newer version, is named in the error, and no table is built from it."""
    folder = recorded(tmp_path, verdicts("cw"))
    edit_run_json(folder, edit)
    with pytest.raises(DataError) as caught:
        read_run(folder)
    assert named in one_line(caught)


MISSING = object()
#: file -> what reads it, and a line of it
LINES: dict[str, tuple[Callable[[Path], object], dict[str, Any]]] = {
    "verdicts.jsonl": (read_run, plain(verdict())),
    "requests.jsonl": (read_requests, exchange("k", "2 + 2 =", "4")),
    "searches.jsonl": (read_run, search_row(1, FOUND)),
    "review.jsonl": (lambda folder: read_reviews(folder, "run"), MARK),
}
DAMAGED_LINES: list[tuple[str, str | dict[str, Any], str]] = [
    ("verdicts.jsonl", "{", "is damaged"),
    ("verdicts.jsonl", "null", "is not a JSON object"),
    ("verdicts.jsonl", "[" * 200 + "]" * 200, "has more than 100 lists and objects in each other"),
    ("verdicts.jsonl", {"values": MISSING}, "has no 'values'"),
    ("verdicts.jsonl", {"status": "right"}, "has a 'status' that is not one of correct, wrong, refused, unparsed, "),
    ("verdicts.jsonl", {"values": {"rate": "1"}}, "has a 'values.rate' that is not a number"),
    ("verdicts.jsonl", {"requests": [1]}, r"has a 'requests\[0\]' that is not a string"),
    ("requests.jsonl", "{", "is damaged"),
    ("requests.jsonl", '{"key": "k"}', "has no"),
    ("requests.jsonl", {"request": {"messages": [["user", {"prefix": "no", "rest": ""}]]}}, "has"),
    ("searches.jsonl", {"id": 3}, "has a 'id' that is not a string"),
    ("searches.jsonl", {"spent": None}, "has a 'spent' that is not true or false"),
    ("searches.jsonl", {"counterexample": {"x": []}}, "has no 'counterexample.why'"),
    ("searches.jsonl", {"counterexample": {**FOUND, "replicated": "1"}}, "has a 'counterexample.replicated' that is "),
    ("review.jsonl", {"id": None}, "has a 'id' that is not a string"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "said"), DAMAGED_LINES)
def test_a_damaged_line_is_named(name: str, change: str | dict[str, Any], said: str, tmp_path: Path) -> None:
    """The error has file, line, problem and what to do; a last line that is a JSON object must be valid, too."""
    read, good = LINES[name]
    line, last = change, 2
    if not isinstance(line, str):
        line, last = json.dumps({k: v for k, v in {**good, **line}.items() if v is not MISSING}), 3
    for number in range(2, last + 1):
        folder = recorded(tmp_path / str(number), verdicts("cwc"))
        lines = [json.dumps(good)] * 3
        lines[number - 1] = line
        (folder / name).write_text("\n".join(lines) + "\n")
        with pytest.raises(
            DataError, match=f"{folder / name}: line {number} {said}.*; restore the file"
        ) as caught:
            read(folder)
        one_line(caught)


def test_lines_and_rows_without_samples_are_of_one_repeat(tmp_path: Path) -> None:
    """A record from before there were repeats: every line is sample 0, and every row has one sample per item."""
    folder = recorded(tmp_path, verdicts("cwe"))
    path = folder / "verdicts.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in r.items() if k != "sample"}) + "\n" for r in lines))

    def without(facts: dict[str, Any]) -> None:
        for row in facts["summary"]:
            cluster = [column for column in row if column.startswith("cluster_")]
            for column in ("samples", "answered", "between_items", "within_items", *cluster):
                del row[column]

    edit_run_json(folder, without)
    run = read_run(folder)
    assert run.notes == ()
    assert [r.sample for r in run.records] == [0, 0, 0]
    assert run.facts.summary == summary_rows(run.records)


def test_rows_of_repeats_count_samples_and_average_items(tmp_path: Path) -> None:
    """Two items with 4 and 2 answered samples: the accuracy is the mean of 3/4 and 0, not 3 of 6."""
    rows = [replace(r, id=str(n // 4), sample=n % 4) for n, r in enumerate(verdicts("cccwewwe"))]
    [row] = read_run(recorded(tmp_path, rows)).facts.summary
    assert (row.items, row.samples, row.answered, row.has_repeats) == (2, 8, 2, True)
    assert (row.correct, row.wrong, row.errors, row.accuracy) == (3, 3, 2, 0.375)
    assert row.ci_high is not None
    assert row.ci_high > 0.8  # for two items, not for six samples
    assert (row.between_items, row.within_items) == pytest.approx((0.2109375, 0.1875))


def test_every_cut_of_an_unfinished_run_gives_its_whole_lines(tmp_path: Path) -> None:
    """Wherever the file of a killed run ends, exactly the complete verdicts before are read and counted."""
    records = verdicts("cwce", given="猫")
    folder = recorded(tmp_path, records, complete=False, summary=[])
    edit_run_json(folder, lambda facts: facts.update(finished=None))
    raw = (folder / "verdicts.jsonl").read_bytes()
    for cut in range(0, len(raw) + 1, 7):
        (folder / "verdicts.jsonl").write_bytes(raw[:cut])
        run = read_run(folder)
        lines = raw[:cut].split(b"\n")
        # A record that lacks only its line end is complete.
        whole = len(lines) - 1 + (lines[-1].endswith(b"}") and lines[-1].count(b"{") == lines[-1].count(b"}"))
        assert run.records == tuple(records[:whole])
        assert run.facts.summary == summary_rows(records[:whole])
        assert any("truncated" in note for note in run.notes) == bool(lines[-1] and whole < len(lines))
        assert any(f"without finishing (killed?): {whole} verdicts" in note for note in run.notes)
        assert run.state == "incomplete"


def test_cut_record_of_a_complete_run_is_incomplete(tmp_path: Path) -> None:
    """A complete run that lost verdicts is counted on the remaining ones and becomes incomplete."""
    folder = recorded(tmp_path, verdicts("ccww"))
    path = folder / "verdicts.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    run = read_run(folder)
    assert run.state == "incomplete"
    assert run.facts.complete is False
    assert counts(run) == [(3, 2, 1, 0, 2 / 3)]
    assert "verdicts.jsonl is cut short: 3 verdicts of 4; counted as incomplete" in run.notes


def test_disagreement_is_settled_by_the_verdicts(tmp_path: Path) -> None:
    """If verdicts and summary disagree, the table follows the verdicts and a note says so."""
    run = read_run(recorded(tmp_path, verdicts("ccw"), summary=summary_rows(verdicts("cww"))))
    assert counts(run) == [(3, 2, 1, 0, 2 / 3)]
    assert [note for note in run.notes if "disagree" in note]


def test_missing_summary_and_metrics_are_computed(tmp_path: Path) -> None:
    """For a run.json without tables, the reader computes the tables that the run would have written."""
    rows = verdicts("cw", benchmark="homophones", task="asked", values={"function_word": 0.0})
    folder = recorded(tmp_path, rows, summary=[], metrics=[])
    run = read_run(folder)
    assert run.facts.summary == summary_rows(rows)
    [row] = [r for r in run.facts.metrics if r.group == "content_words"]
    assert (row.name, row.value, row.model) == ("accuracy", 0.5, "old")
    assert any("no summary" in note for note in run.notes)


def test_metrics_of_a_stopped_run_are_kept(tmp_path: Path) -> None:
    """The tables that a stopped run wrote are kept, including the metrics of an unknown benchmark."""
    row = metric("carry_rate", 0.5)
    run = read_run(recorded(tmp_path, verdicts("cw"), complete=False, expected=9, metrics=[row]))
    assert run.facts.metrics == (from_plain(MetricRow, row),)
    assert run.notes == ("incomplete: 2 of 9 cases have a verdict",)


def begun(folder: Path, statuses: str) -> RunRecord:
    """Return a record that is being written, with these verdicts."""
    record = RunRecord(folder, first_facts(folder, models={"old": ModelMetadata("old")}))
    for row in verdicts(statuses):
        record.add(row)
    return record


def test_run_being_written_differs_from_a_killed_one(tmp_path: Path) -> None:
    """A run is being written as long as its files are locked; without a lock it is reported as ended early."""
    record = begun(tmp_path, "cwc")
    # A reader does not release the writer's lock.
    read_run(tmp_path)
    run = read_run(tmp_path)
    assert (run.state, run.writing) == ("being written", True)
    assert run.notes[0] == "still being written: 3 verdicts so far"
    assert counts(run) == [(3, 2, 1, 0, 2 / 3)]
    record.close()
    run = read_run(tmp_path)
    assert (run.state, run.writing) == ("incomplete", False)
    assert run.notes[0] == "ended without finishing (killed?): 3 verdicts are kept"


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_run_is_no_longer_being_written_when_it_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    """Once finished, the record reads as complete, even in the process that wrote it, and without fcntl."""
    if not has_locks:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    record = begun(tmp_path, "c")
    assert read_run(tmp_path).state == ("being written" if has_locks else "incomplete")
    record.finish(replace(record.facts, complete=True, expected=1, summary=summary_rows(record.records)))
    assert read_run(tmp_path).state == "complete"
