"""The commands `llmprops dtails annotate`, `page` and `agreement`, run as a user runs them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from tests.support.annotation import fill, judging, read_cells, rules_file

RULES = {"sun": {"son": "the star", "sol": "sunlight"}}


def run(*words: object) -> int:
    return main(["dtails", *map(str, words)])


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the single line on standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def test_from_sheets_to_the_expert_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sheets are written, refused while they are empty, and yield results and data once they are filled."""
    sheets = tmp_path / "sheets"
    assert run("annotate", "--task", "selection", "--lang", "ta", "--out", sheets, "--annotators", 2) == 0
    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == [
        "annotator_1.csv",
        "annotator_2.csv",
        "key.json",
    ]
    assert run("agreement", sheets) == 2
    assert "annotator_1.csv: line 2: question 1: choice is empty" in one_error(capsys)
    for sheet in sheets.glob("*.csv"):
        fill(sheet, lambda line: {"choice": "1", "confidence": "2"})
    assert run("agreement", sheets, "--write", tmp_path / "out") == 0
    out = capsys.readouterr().out
    assert out.startswith("data builtin, ta: ")
    assert "(paper 65.3%)" in out
    assert (tmp_path / "out" / "dtails" / "en-ta" / "expert_dataset.csv").is_file()


def test_rules_from_sheets_to_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The task rules takes its concepts from the rules file, and the separator can be chosen."""
    rules = rules_file(tmp_path / "rules.json", RULES)
    out = tmp_path / "out"
    words = ("--task", "rules", "--lang", "xx", "--rules", rules, "--separator", "semicolon", "--seed", 4)
    assert run("annotate", *words, "--out", out) == 0
    assert "question;ask;concept" in (out / "annotator_3.csv").read_text(encoding="utf-8")
    for sheet in out.glob("*.csv"):
        fill(sheet, lambda line: {"answer": "none" if line["ask"].startswith("Which") else "yes"})
    capsys.readouterr()
    assert run("agreement", out, "--without", "annotator_2.csv") == 0
    assert "1 concept, 2 annotators" in capsys.readouterr().out
    assert run("agreement", out, "--write", tmp_path / "set") == 2
    assert "these are of --task rules" in one_error(capsys)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--task", "rules", "--lang", "af"), "--task rules needs --rules FILE"),
        (
            ("--task", "rules", "--lang", "af", "--rules", "x", "--data", "y"),
            "--data is only for --task selection",
        ),
        (("--task", "selection", "--lang", "af", "--rules", "x"), "--rules is only for --task rules"),
        (("--task", "selection", "--lang", "afr"), "--lang afr: not a code of two lowercase letters"),
        (("--task", "selection", "--lang", "../"), "not a code of two lowercase letters"),
        (("--task", "selection", "--lang", "zz"), "zz.csv: no such file"),
        (("--task", "selection", "--lang", "af", "--annotators", "0"), "--annotators must be at least 1"),
        (("--task", "rules", "--lang", "af", "--rules", "none.json"), "none.json: No such file or directory"),
    ],
)
def test_invalid_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    """Each invalid option gives a one-line message, and nothing is written."""
    assert run("annotate", *words, "--out", tmp_path / "out") == 2
    assert says in one_error(capsys)
    assert not (tmp_path / "out").exists()


def test_a_page_ends_with_ctrl_c(tmp_path: Path) -> None:
    """The page command prints its address, saves an answer, and on Ctrl-C prints the number answered."""
    (sheet, *_) = judging(tmp_path, RULES)
    command = [sys.executable, "-m", "pytest_llmprops.cli.main", "dtails", "page", str(sheet)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"{sheet}: 0 of 4 questions answered.")
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", url)
        body = json.dumps({"question": 1, "answers": {"answer": "no"}}).encode()
        headers = {"Content-Type": "application/json", "Origin": "/".join(url.split("/")[:3])}
        with urllib.request.urlopen(urllib.request.Request(f"{url}answer", body, headers)) as response:
            assert json.load(response)["saved"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == f"{sheet}: 1 of 4 questions answered"
    assert read_cells(sheet)[0]["answer"] == "no"


def test_missing_sheet_and_unusable_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing sheet and an unusable port each give a one-line message."""
    assert run("page", tmp_path / "none.csv") == 2
    assert "none.csv: No such file" in one_error(capsys)
    (sheet, *_) = judging(tmp_path, RULES)
    assert run("page", sheet, "--port", -1) == 2
    assert "--port -1: not a port" in one_error(capsys)
