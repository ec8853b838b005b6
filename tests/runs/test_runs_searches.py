"""Searches for counterexamples in a run record: written, read back, shown, exported, promoted, reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.records.files import from_plain, line
from pytest_llmprops.records.rows import SearchRecord
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.kit.blocks import Fold, Table
from pytest_llmprops.reports.kit.generic import fine_print
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.runs.export import table
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.record import RunRecord, search_counts
from tests.support.recorded import verdicts
from tests.support.records import recorded

FOUND = {
    "why": '2 of 6 entities replaced (x: "Lisbon"; y: "Globex"); culprit: "Lisbon" (weak, multi-form)',
    "x": ["Lisbon"],
    "y": ["Globex"],
    "replaced": 2,
    "entities": 6,
    "culprits": [
        {"name": "Lisbon", "synonym": "Nairobi", "kinds": ["multi-form", "weak"], "why": "in 4 of 11 replies"}
    ],
    "evidence": {"smallest counterexample": "Adriana left Nairobi."},
}


def row(number: int, counterexample: Any = None, **more: Any) -> dict[str, Any]:
    """Return a line of ``searches.jsonl``."""
    return {
        "model": "old",
        "benchmark": "oracle",
        "task": "linearity",
        "language": "en",
        "source": "builtin",
        "id": f"oracle/general/{number:03}",
        "property": "linearity",
        "examples": 40,
        "requests": 30,
        "calls": 20,
        "spent": False,
        "counterexample": counterexample,
        "error": "",
        **more,
    }


def searched(folder: Path, *rows: dict[str, Any], counted: bool = True) -> Path:
    """Return a run with these searches."""
    folder.mkdir(parents=True)
    searches = [from_plain(SearchRecord, one) for one in rows]
    if rows:
        (folder / "searches.jsonl").write_bytes(b"".join(map(line, searches)))
    latest = {search.key: search for search in searches}.values()
    facts: dict[str, Any] = {"searches": search_counts(latest)} if counted and rows else {}
    return recorded(folder, verdicts("cw", benchmark="oracle", task="linearity"), **facts)


def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what ``runs show`` prints about searches."""
    assert main(["runs", "show", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = next((n for n, line in enumerate(lines) if line.startswith("search")), len(lines))
    return lines[begin:]


def test_searches_are_appended_and_kept(tmp_path: Path) -> None:
    """Each search is in the file at once; a resumed run begins with those that it keeps."""
    first, second = (from_plain(SearchRecord, row(number)) for number in (1, 2))
    record = RunRecord(tmp_path, RunMetadata("run"))
    record.add_search(first)
    record.add_search(second)
    file = tmp_path / "searches.jsonl"
    assert (file.read_bytes(), record.searches) == (line(first) + line(second), [first, second])
    record.close()
    again = RunRecord(tmp_path, RunMetadata("run"), [], [second])
    again.add_search(first)
    assert (file.read_bytes(), again.searches) == (line(second) + line(first), [second, first])
    again.close()


def test_show_has_the_searches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``runs show`` prints the searches and their results; the last of several searches on an item counts.

    It says how often counterexamples repeat; what was not repeated is counted apart and last.
    """
    noise, repeated = ({**FOUND, "replications": 5, "replicated": n} for n in (3, 4))
    run = searched(
        tmp_path / "run",
        row(1),
        row(2, repeated, spent=True),
        row(1, FOUND, calls=7),
        row(3, error="it broke"),
        row(4, not_repeated=noise),
    )
    counted = "3 items searched, 2 counterexamples, 160 examples, 67 calls; 1 not repeated"
    assert shown(run, capsys) == [
        f"search (linearity): {counted}; 1 stopped when their calls were spent; 1 ended by a backend error",
        f"  oracle/general/001: {FOUND['why']}",
        f"  oracle/general/002: {FOUND['why']}; repeats in 4 of 5; the calls were spent before it was shrunk further",
        f"  oracle/general/004: not repeated: {FOUND['why']}; repeats in 3 of 5",
    ]


def test_properties_are_counted_separately(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each property of an item has its own search and its own line; a line without a property is kept."""
    old = {name: value for name, value in row(1, FOUND).items() if name != "property"}
    run = searched(tmp_path / "run", row(1, property="no"), row(1, FOUND, property="yes"), row(1), old)
    assert [line for line in shown(run, capsys) if line.startswith("search")] == [
        "search (no): 1 item searched, 0 counterexamples, 40 examples, 20 calls",
        "search (yes): 1 item searched, 1 counterexample, 40 examples, 20 calls",
        "search (linearity): 1 item searched, 0 counterexamples, 40 examples, 20 calls",
        "search: 1 item searched, 1 counterexample, 40 examples, 20 calls",
    ]
    assert [r.property for r in read_run(run).searches] == ["no", "yes", "linearity", ""]


def test_show_lists_some_of_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At most five counterexamples are listed, and no control character reaches the terminal."""
    run = searched(tmp_path / "run", *(row(n, {**FOUND, "why": "a\x1b[2Jb\nc"}) for n in range(8)))
    _, first, *others = shown(run, capsys)
    assert first == "  oracle/general/000: a␛[2Jb␊c"
    assert others[4:] == ["  … and 3 more in searches.jsonl"]


def test_a_killed_run_has_its_searches(tmp_path: Path) -> None:
    """If run.json has no counts, they are computed from the lines; a truncated last line is ignored with a note."""
    run = searched(tmp_path / "run", row(1, FOUND), row(2), counted=False)
    with (run / "searches.jsonl").open("a") as file:
        file.write('{"model": "ol')
    read = read_run(run)
    assert [(r.id, r.calls) for r in read.searches] == [
        ("oracle/general/001", 20),
        ("oracle/general/002", 20),
    ]
    assert read.facts.searches == search_counts(read.searches)
    assert read.facts.searches[0].searched == 2
    assert any("searches.jsonl: its last line is truncated" in note for note in read.notes)


def test_export(tmp_path: Path) -> None:
    """The export has one row per search; test_runs_export.py writes it in both formats."""
    frame = table([read_run(searched(tmp_path / "run", row(1), row(2, FOUND)))], "searches")
    assert list(frame["has_counterexample"]) == [False, True]
    assert list(frame["requests"]) == [30, 30]
    assert list(frame["why"].isna()) == [True, False]
    assert frame["run_id"][0] == "run"
    assert json.loads(frame["counterexample"][1]) == FOUND
    assert list(table([read_run(searched(tmp_path / "none"))], "searches").columns) == list(frame.columns)


def test_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A baseline keeps its searches; without replies it keeps only the counts, because the lines quote sentences."""
    monkeypatch.chdir(tmp_path)
    run = searched(tmp_path / "run", row(1, FOUND))
    assert main(["runs", "promote", str(run), "whole"]) == 0
    assert main(["runs", "promote", str(run), "counts", "--without-replies"]) == 0
    capsys.readouterr()
    assert len(shown(tmp_path / "baselines" / "whole", capsys)) == 2
    assert not (tmp_path / "baselines" / "counts" / "searches.jsonl").exists()
    assert shown(tmp_path / "baselines" / "counts", capsys) == [
        "search (linearity): 1 item searched, 1 counterexample, 40 examples, 20 calls"
    ]


def test_report(tmp_path: Path) -> None:
    """The report counts the searches of each property, and shows what their counterexamples show."""
    edited = {"why": "listed as <b>ken</b>, weet: chose ken", "edits": [], "replications": 5, "replicated": 4}
    rows = row(1, {**edited, "evidence": {}}, property=""), row(2, property=""), row(1, FOUND)
    run = read_run(searched(tmp_path / "run", *rows))
    counts, fold, *_ = fine_print(Measured("oracle", series_of([run])))
    assert isinstance(counts, Table)
    assert isinstance(fold, Fold)
    assert [[cell.text for cell in cells[1:4]] for cells in counts.rows] == [
        ["–", "2", "1"], ["linearity", "1", "1"],
    ]  # fmt: skip
    [examples] = fold.blocks
    assert isinstance(examples, Table)
    assert [[cell.text for cell in cells][2:] for cells in examples.rows] == [
        ["–", "4 of 5", edited["why"]], ["linearity", "–", FOUND["why"]],
    ]  # fmt: skip
    none = fine_print(Measured("oracle", series_of([read_run(searched(tmp_path / "none"))])))
    assert not any(isinstance(block, Table) for block in none)
