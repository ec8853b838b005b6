"""``llmprops site``: its output, and its messages about wrong arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from tests.support.team_runs import answers, record


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with one run."""
    record(tmp_path / "runs" / "one", 0, answers("model", 0.9, 1, items=10))
    return tmp_path / "runs"


def test_the_first_page_is_printed(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints the page to open; by default, the report of the run is included."""
    site = tmp_path / "site"
    assert main(["site", str(runs), str(runs / "one"), "--out", str(site)]) == 0
    assert capsys.readouterr().out == f"{site / 'index.html'}\n"
    assert len(list(site.glob("runs/one-*/report.html"))) == 1
    assert main(["site", str(runs), "--out", str(site), "--reports", "none"]) == 0
    assert list(site.glob("runs/one-*")) == []


@pytest.mark.parametrize(
    ("place", "out", "message"),
    [
        ("missing", "site", "missing: is not a folder; give folders with run records, such as reports/runs"),
        ("empty", "site", "empty; give folders with run records, such as reports/runs"),
        ("runs", "other", "other: has other files; give a new folder, or one with an earlier site"),
        ("runs", "runs/one/run.json", "run.json: is not a folder"),
    ],
)
def test_wrong_arguments(
    place: str, out: str, message: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong folder is named in one line with the fix, and the exit status is 2."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    assert main(["site", str(tmp_path / place), "--out", str(tmp_path / out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("llmprops: ")
    assert error.endswith(f"{message}\n")
    assert error.count("\n") == 1
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


def test_the_site_may_be_inside_a_folder_of_runs(runs: Path, tmp_path: Path) -> None:
    """The site's own folder is not searched for runs."""
    for _ in range(2):
        assert main(["site", str(tmp_path), "--out", str(tmp_path / "site"), "--reports", "none"]) == 0
    assert "1 run of 1 model" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
