"""The index of many runs: what it lists, and that it reads again only what changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.run_metadata import ModelMetadata, RunMetadata
from pytest_llmprops.runs import catalog
from pytest_llmprops.runs.catalog import RunIndex, record_identity
from pytest_llmprops.runs.reader import read_facts
from pytest_llmprops.runs.record import RunRecord, first_facts
from tests.support.records import recorded, verdicts


def test_only_changed_runs_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run.json is read once per content; runs that appear, change or disappear are noticed."""
    read: list[str] = []

    def reading(folder: Path) -> RunMetadata:
        read.append(folder.name)
        return read_facts(folder)

    monkeypatch.setattr(catalog, "read_facts", reading)
    for name in ("one", "two"):
        recorded(tmp_path / name, verdicts("add", 2, 1))
    runs = RunIndex([tmp_path])
    assert sorted(run.folder.name for run in runs.refresh()[0]) == ["one", "two"]
    runs.refresh()
    assert sorted(read) == ["one", "two"]
    for name in ("run.json", "verdicts.jsonl"):
        (tmp_path / "one" / name).unlink()
    facts = json.loads((tmp_path / "two" / "run.json").read_text())
    (tmp_path / "two" / "run.json").write_text(json.dumps({**facts, "stopped": "key"}))
    [run] = runs.refresh()[0]
    assert (run.facts.stopped if run.facts else "", read[2:]) == ("key", ["two"])


def test_missing_and_later_folders(tmp_path: Path) -> None:
    """A place that does not exist has no runs; its first run is listed when it is there."""
    runs = RunIndex([tmp_path / "later", tmp_path])
    assert runs.refresh() == ([], True)
    recorded(tmp_path / "later" / "run", verdicts("add", 1, 0))
    assert [run.state for run in runs.refresh()[0]] == ["complete"]


def test_the_state_of_a_run_that_goes_on_and_is_killed(tmp_path: Path) -> None:
    """The lock on the verdicts says whether a process writes them, without a change of run.json."""
    folder = tmp_path / "run"
    folder.mkdir()
    record = RunRecord(folder, first_facts(folder, models={"m": ModelMetadata("m")}, expected=3))
    runs = RunIndex([tmp_path])
    assert runs.refresh()[0][0].state == "being written"
    record.close()
    assert runs.refresh()[0][0].state == "incomplete"


@pytest.mark.parametrize(
    "change",
    [
        {"models": {"m": "text"}}, {"models": {"m": {"served_as": 3}}}, {"git": {"commit": None}}, {"remarks": [{}]},
        {"summary": [1]}, {"gate": {"decision": 3}}, {"gate": [1]}, {"started": 5}, {"expected": "many"},
        {"notes": 3}, {"benchmarks": {"b": 1}}, {"calls": {"requests": "a"}}, {"sequential": 1}, {"schema": 99},
    ],
)  # fmt: skip
def test_a_broken_run_json_is_a_row(tmp_path: Path, change: dict[str, Any]) -> None:
    """A field of any type neither ends the listing nor hides the other runs."""
    recorded(tmp_path / "good", verdicts("add", 1, 0))
    broken = recorded(tmp_path / "broken", verdicts("add", 1, 0))
    facts = json.loads((broken / "run.json").read_text())
    (broken / "run.json").write_text(json.dumps({**facts, **change}))
    listed = {run.folder.name: run for run in RunIndex([tmp_path]).refresh()[0]}
    assert listed["good"].facts is not None
    assert listed["broken"].facts is not None or "run.json" in listed["broken"].problem


def test_many_runs_are_listed_bit_by_bit(tmp_path: Path) -> None:
    """Without time, nothing new is read, but what is known is listed."""
    recorded(tmp_path / "one", verdicts("add", 1, 0))
    runs = RunIndex([tmp_path])
    assert runs.refresh(0) == ([], False)
    assert runs.refresh()[1]
    recorded(tmp_path / "two", verdicts("add", 1, 0))
    listed, is_complete = runs.refresh(0)
    assert ([run.folder.name for run in listed], is_complete) == (["one"], False)


def test_the_identity_of_a_record_changes_with_its_files(tmp_path: Path) -> None:
    """A report is built again if one of the files that it reads changed, not for a review mark."""
    run = recorded(tmp_path / "run", verdicts("add", 1, 0))
    before = record_identity(run)
    (run / "review.jsonl").write_text("{}\n")
    assert record_identity(run) == before
    (run / "requests.jsonl").write_text("")
    assert record_identity(run) != before
