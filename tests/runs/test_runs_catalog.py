"""Find runs by name, list them, promote them to baselines, and keep an index of many."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs import catalog
from pytest_llmprops.runs.catalog import RunIndex, find_run, list_runs, promote, record_identity, run_folders
from pytest_llmprops.runs.reader import read_facts, read_run
from pytest_llmprops.runs.record import RunRecord, first_facts
from tests.support.recorded import edit_run_json, verdicts
from tests.support.records import recorded


def runs_folder(root: Path) -> Path:
    return root / "reports" / "runs"


@pytest.mark.parametrize("place", ["reports/runs", "baselines"])
def test_a_folder_does_not_hide_a_name(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain name is that of a run or of a baseline, even if the current folder has a run folder of that name."""
    named = recorded(tmp_path / place / "mine", verdicts("c"))
    monkeypatch.chdir(named.parent)
    assert find_run("mine") == Path("mine")
    local = recorded(tmp_path / "mine", verdicts("w"))
    monkeypatch.chdir(tmp_path)
    assert find_run("mine").resolve() == find_run("mine", tmp_path) == named
    for path in ("./mine", "mine/", "mine/run.json", str(local)):
        assert find_run(path).resolve() == local


def test_no_such_run_names_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message contains the requested name and at most five of the newest runs, or says that there is none.

    If a run and a baseline have the same name, it has both folders, one of which must be given.
    """
    runs_folder(tmp_path).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for text in ("none", "reports/runs"):
        with pytest.raises(UsageError, match="no run is recorded here yet"):
            find_run(text)
    for n in range(7):
        recorded(runs_folder(tmp_path) / f"run{n}", verdicts("c"))
    with pytest.raises(UsageError) as caught:
        find_run("other", tmp_path)
    text = str(caught.value)
    assert "no run 'other'" in text
    assert text.count("run6") == 1
    assert sum(f"run{n}" in text for n in range(7)) == catalog.NEWEST
    assert "\n" not in text
    with pytest.raises(
        UsageError, match=r"no run 'latest': a run is named by its folder; the newest is run\d$"
    ):
        find_run("latest", tmp_path)
    recorded(tmp_path / "baselines" / "run0", verdicts("c"))
    with pytest.raises(UsageError, match=r"of a run and of a baseline; .*runs/run0 or .*baselines/run0"):
        find_run("run0", tmp_path)


def test_all_runs_newest_first(tmp_path: Path) -> None:
    """Runs and baselines are listed newest first by start time, with state and facts; unreadable ones are last."""
    for day, name in enumerate(("b", "c", "a"), 1):
        recorded(runs_folder(tmp_path) / name, verdicts("cw"), started=f"2026-01-0{day}T00:00:00+00:00")
    recorded(tmp_path / "baselines" / "old", verdicts("c"), started="2025-01-01T00:00:00+00:00")
    recorded(runs_folder(tmp_path) / "later", verdicts("c"), schema=9)
    listing = list_runs(tmp_path)
    assert [run.folder.name for run in listing] == ["a", "c", "b", "old", "later"]
    assert [run.state for run in listing] == ["complete"] * 4 + ["unreadable"]
    assert listing[0].facts is not None
    assert listing[0].facts.summary[0].correct == 1


def test_promoted_run_is_a_complete_copy(tmp_path: Path) -> None:
    """The baseline reads like the run, keeps its run_id, and records its source and date."""
    run = recorded(runs_folder(tmp_path) / "mine", verdicts("cwe"), requests=[{"key": "k", "request": {}}])
    target = promote(run, "base", tmp_path)
    assert target == tmp_path / "baselines" / "base"
    assert sorted(p.name for p in target.iterdir()) == ["requests.jsonl", "run.json", "verdicts.jsonl"]
    copy, original = read_run(target), read_run(run)
    assert copy.records == original.records
    assert copy.run_id == "mine"
    changed = {name for name, value in plain(copy.facts).items() if value != plain(original.facts)[name]}
    assert changed == {"promoted_from", "promoted_at", "files"} - (
        {"files"} if original.facts.files else set()
    )
    assert copy.facts.promoted_from == "mine"
    assert copy.facts.promoted_at >= str(original.facts.finished)
    assert [p.name for p in target.parent.iterdir()] == ["base"]
    bare = promote(run, "bare", tmp_path, replies=False)
    assert sorted(p.name for p in bare.iterdir()) == ["run.json", "verdicts.jsonl"]
    assert read_run(bare).problems == ()


def test_a_failed_replacement_leaves_the_old_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the copy cannot be moved into place, the old baseline is unchanged."""
    one = recorded(runs_folder(tmp_path) / "one", verdicts("c"))
    two = recorded(runs_folder(tmp_path) / "two", verdicts("w"))
    target = promote(one, "base", tmp_path)
    rename = Path.rename

    def failing(self: Path, to: Path) -> Path:
        if self.name.endswith(".new"):
            raise OSError(28, "No space left on device")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="No space"):
        promote(two, "base", tmp_path, replace=True)
    assert read_run(target).run_id == "one"
    assert [p.name for p in target.parent.iterdir()] == ["base"]


def test_names_that_are_refused(tmp_path: Path) -> None:
    """A path, a hidden name, control characters, and names of a run, of the baseline itself and of other folders."""
    run = recorded(runs_folder(tmp_path) / "mine", verdicts("c"))
    target = promote(run, "base", tmp_path)
    (tmp_path / "baselines" / "notes").mkdir()
    for name, said in (
        *((name, "baseline") for name in ("", "..", "a/b", "a\nb", "mine")),
        ("notes", "has no run"),
        ("base", "already"),
    ):
        with pytest.raises(UsageError, match=said):
            promote(target, name, tmp_path, replace=True)
    assert [path.parent.name for path in tmp_path.glob("baselines/**/run.json")] == ["base"]
    assert read_run(target).run_id == "mine"


def test_a_run_that_is_being_written_is_not_promoted(tmp_path: Path) -> None:
    """Even where an incomplete run is allowed."""
    root = runs_folder(tmp_path)
    (root / "writing").mkdir(parents=True)
    record = RunRecord(root / "writing", first_facts(root / "writing"))
    with pytest.raises(UsageError, match="still being written"):
        promote(root / "writing", "other", tmp_path, allow_incomplete=True)
    record.finish(record.facts)


def test_records_at_any_depth(tmp_path: Path) -> None:
    """Records are found below the given folders, also damaged ones; hidden folders and parts of records are not."""
    for name in ("team/a", "team/deep/b", "team/.hidden", "team/a/inside", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "team" / "cut").mkdir()
    (tmp_path / "team" / "cut" / "verdicts.jsonl").write_text("")
    team = tmp_path.resolve() / "team"
    assert run_folders([tmp_path / "team", tmp_path / "team" / "a"]) == [
        team / "a",
        team / "cut",
        team / "deep" / "b",
    ]
    with pytest.raises(UsageError, match="missing: is not a folder; give folders with run records"):
        run_folders([tmp_path / "missing"])


def test_only_changed_runs_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run.json is read once per content; runs that appear, change or disappear are noticed."""
    read: list[str] = []

    def reading(folder: Path) -> RunMetadata:
        read.append(folder.name)
        return read_facts(folder)

    monkeypatch.setattr(catalog, "read_facts", reading)
    for name in ("one", "two"):
        recorded(tmp_path / name, verdicts("ccw"))
    runs = RunIndex([tmp_path])
    assert sorted(run.folder.name for run in runs.refresh()[0]) == ["one", "two"]
    runs.refresh()
    assert sorted(read) == ["one", "two"]
    for name in ("run.json", "verdicts.jsonl"):
        (tmp_path / "one" / name).unlink()
    edit_run_json(tmp_path / "two", lambda facts: facts.update(stopped="key"))
    [run] = runs.refresh()[0]
    assert (run.facts.stopped if run.facts else "", read[2:]) == ("key", ["two"])


def test_many_runs_are_listed_bit_by_bit(tmp_path: Path) -> None:
    """Without time, nothing new is read, but what is known is listed; a place that does not exist has no runs yet."""
    runs = RunIndex([tmp_path / "later", tmp_path])
    assert runs.refresh() == ([], True)
    recorded(tmp_path / "later" / "one", verdicts("c"))
    assert runs.refresh(0) == ([], False)
    assert runs.refresh()[1]
    recorded(tmp_path / "two", verdicts("c"))
    listed, is_complete = runs.refresh(0)
    assert ([run.folder.name for run in listed], is_complete) == (["one"], False)


def test_the_identity_of_a_record_changes_with_its_files(tmp_path: Path) -> None:
    """A report is built again if one of the files that it reads changed, not for a review mark."""
    run = recorded(tmp_path / "run", verdicts("c"))
    before = record_identity(run)
    (run / "review.jsonl").write_text("{}\n")
    assert record_identity(run) == before
    (run / "requests.jsonl").write_text("")
    assert record_identity(run) != before
