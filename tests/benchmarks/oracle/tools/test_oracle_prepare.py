"""A user's sentences, converted into a folder that the benchmark reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.oracle.items import items
from pytest_llmprops.benchmarks.oracle.tools.sentences import write_sentences
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder


def mine(tmp_path: Path, text: str = "One here.\n\nTwo here.\nOne  here.\n") -> Path:
    path = tmp_path / "mine.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_written_sentences_are_read(tmp_path: Path) -> None:
    """Each sentence is written once and read as a generated item, and the mark has their number."""
    out = tmp_path / "out"
    files = write_sentences(mine(tmp_path), out)
    assert [path.relative_to(out).as_posix() for path in files] == [
        "oracle/sentences.txt",
        "oracle/SOURCE.json",
    ]
    mark = json.loads(files[1].read_text(encoding="utf-8"))
    assert {"source": "generated", "file": "mine.txt", "n": 2, "repeated": 1}.items() <= mark.items()
    source = DataFolder(out, "published").source_for("oracle")
    assert [item["text"] for item in items(DataFolder(out, source))] == ["One here.", "Two here."]


def test_written_folder_can_be_replaced(tmp_path: Path) -> None:
    """A folder written by this function is replaced, including its mark."""
    write_sentences(mine(tmp_path), tmp_path / "out")
    target, mark = write_sentences(mine(tmp_path, "Three.\n"), tmp_path / "out")
    assert target.read_text(encoding="utf-8") == "Three.\n"
    assert json.loads(mark.read_text(encoding="utf-8"))["n"] == 1


def test_folder_with_other_data_is_refused(tmp_path: Path) -> None:
    """A folder with published data, another generator's mark or unmarked sentences is refused."""
    source = mine(tmp_path)
    for name, text in (("msrp/a.txt", "x"), ("oracle/SOURCE.json", "{}"), ("oracle/sentences.txt", "x")):
        out = tmp_path / name.replace("/", "-")
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="choose another output folder"):
            write_sentences(source, out)
        assert [p.name for p in out.rglob("*") if p.is_file()] == [Path(name).name]


def test_bad_files(tmp_path: Path) -> None:
    """A missing file or one without sentences is refused by name, and nothing is written."""
    with pytest.raises(DataError, match=r"gone\.txt"):
        write_sentences(tmp_path / "gone.txt", tmp_path / "out")
    with pytest.raises(DataError, match=r"mine\.txt"):
        write_sentences(mine(tmp_path, " \n"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """An output folder that is a file gives one error line."""
    with pytest.raises(UsageError, match="cannot be written"):
        write_sentences(mine(tmp_path), mine(tmp_path))
