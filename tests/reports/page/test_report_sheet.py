"""The decision sheet: one page of PDF, printed by an installed browser."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from tests.support.browser import CHROMIUM
from tests.support.records import recorded, verdict, verdicts

needs_browser = pytest.mark.skipif(not any(path.exists() for path in CHROMIUM), reason="needs Chromium")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run with more findings, checks and notes than one page has room for at full size."""
    check = {
        "kind": "min_accuracy",
        "required": "at least 90%",
        "measured": "80%, " + "very " * 30,
        "verdict": "met",
    }
    rules = [{"name": f"rule {n}", "verdict": "met", "items": 3, "checks": [check]} for n in range(40)]
    gate = {
        "decision": "pass",
        "passed": True,
        "line": "pass: 40 of 40 rules are met",
        "file": "g.toml",
        "rules": rules,
    }
    records = [v for n in range(12) for v in verdicts("add", 8, 2, benchmark=f"sums{n}")]
    records.append(verdict("add", 99, "error", benchmark="sums0", given="<script>alert(1)</script>"))
    return recorded(tmp_path / "run", records, gate=gate, notes=[f"note {n}" for n in range(9)])


@needs_browser
def test_the_sheet_is_one_page(run: Path, tmp_path: Path) -> None:
    """However much there is to say, the sheet has one page, in A4."""
    out = tmp_path / "out"
    assert main(["report", str(run), "--out", str(out), "--pdf"]) == 0
    pdf = (out / "decision.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) == 1
    assert re.search(rb"/MediaBox\s*\[0 0 59[45]\.?\d* 84[12]", pdf)


def test_without_a_browser_one_line_says_what_is_needed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    out = tmp_path / "out"
    assert main(["report", str(run), "--out", str(out), "--pdf"]) == 2
    error = capsys.readouterr().err
    assert "--pdf: needs Chromium or Chrome on the PATH" in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_browser_that_fails_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line has the browser's last message, and no partial report is written."""
    browser = tmp_path / "chromium"
    browser.write_text(
        "#!/bin/sh\necho first >&2\necho 'cannot open display' >&2\nexit 1\n", encoding="utf-8"
    )
    browser.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(browser))
    out = tmp_path / "out"
    assert main(["report", str(run), "--out", str(out), "--pdf"]) == 2
    assert "could not print: cannot open display" in capsys.readouterr().err
    assert not out.exists()
