"""`llmprops oracle sentences` writes a folder that the suite reads, and reports a failure in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.data.files import DataFolder


def sentences(*words: object) -> int:
    return main(["oracle", "sentences", *(str(word) for word in words)])


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def test_sentences_can_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder is read as generated data, each sentence once, and the file names are printed."""
    file = tmp_path / "spec.txt"
    file.write_text(
        "The CRC field holds 16 bits.\n\nLinks are reset by ABORT.\nLinks are reset by ABORT.\n", "utf-8"
    )
    out = tmp_path / "out"
    assert sentences(file, "--out", out) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(out / "oracle" / n) for n in ("sentences.txt", "SOURCE.json")
    ]
    source = DataFolder(out, "published").source_for("oracle")
    part = loaded(OracleChecker(), DataFolder(out, source))
    assert [(item.id, item.task, item.source, item["text"]) for item in part.items] == [
        ("oracle/own/0001", "linearity", "generated", "The CRC field holds 16 bits."),
        ("oracle/own/0002", "linearity", "generated", "Links are reset by ABORT."),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "gone.txt"),
        (b"\n \n", "the file is empty"),
        (b"A bell\x07 rings.\n", "line 1: has control characters"),
        ("Façade.\n".encode("latin-1"), "UTF-8"),
        (b"\n" + b"x" * 2001, "line 2: 2001 characters"),
    ],
    ids=["missing", "empty", "control", "encoding", "long"],
)
def test_bad_files_give_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    """A file that cannot be read as sentences gives one line that names it, and nothing is written."""
    file = tmp_path / "gone.txt"
    if content is not None:
        file.write_bytes(content)
    assert sentences(file, "--out", tmp_path / "out") == 2
    line = one_error(capsys)
    assert said in line
    assert "gone.txt" in line
    assert not (tmp_path / "out").exists()


def test_a_folder_with_published_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with published data is refused, because the new sentences would hide that data."""
    (tmp_path / "mine.txt").write_text("One here.\n", encoding="utf-8")
    (tmp_path / "out" / "msrp").mkdir(parents=True)
    assert sentences(tmp_path / "mine.txt", "--out", tmp_path / "out") == 2
    assert "choose another output folder" in one_error(capsys)
