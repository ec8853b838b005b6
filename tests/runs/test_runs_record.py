"""Writing a run record."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.runs.record import RunRecord, check_run_folder, new_run_folder

ONE = VerdictRecord("m", "b", "t", "en", "given", "1", "1", 0, "correct", 1.0, "a", "a", "as expected")


def test_verdicts_that_were_not_written_do_not_count(tmp_path: Path) -> None:
    """On a full disk, the record has only what was written before."""
    (tmp_path / "verdicts.jsonl").symlink_to("/dev/full")
    record = RunRecord(tmp_path, RunMetadata("run"))
    with pytest.raises(OSError, match="No space left"):
        record.add(ONE)
    assert record.records == []
    with pytest.raises(OSError, match="No space left"):
        record.close()


def test_a_folder_without_run_json_is_free_if_its_files_are_empty(tmp_path: Path) -> None:
    """Empty files, which a killed run leaves before its first run.json, do not take a folder; files with data do."""
    for name in ("requests.jsonl", "verdicts.jsonl"):
        folder = tmp_path / name.removesuffix(".jsonl")
        folder.mkdir()
        (folder / name).touch()
        check_run_folder(str(folder), tmp_path)
        assert new_run_folder(str(folder), ["m"], tmp_path) == folder
        (folder / name).write_text("{}\n", encoding="utf-8")
        for use in (
            lambda at: check_run_folder(at, tmp_path),
            lambda at: new_run_folder(at, ["m"], tmp_path),
        ):
            with pytest.raises(UsageError, match=f"has {name} but no run.json"):
                use(str(folder))
        assert (folder / name).read_text(encoding="utf-8") == "{}\n"
