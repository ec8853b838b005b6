"""A gate, `llmprops compare` and `llmprops report` draw the same conclusion from the same two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.recorded import verdicts, write_run
from pytest_llmprops.cli.main import main

#: the gate's decision and the report's words for each conclusion of ``llmprops compare``
GATE = {"drop": "fail", "gain": "pass", "no clear difference": "pass", "inconclusive": "inconclusive"}
REPORT = {
    "drop": "does worse than",
    "gain": "does better than",
    "no clear difference": "do not clearly differ",
    "inconclusive": "do not clearly differ",
}


@pytest.mark.parametrize(
    ("lost", "gained", "of", "expected"),
    [
        (7, 1, 100, "drop"),  # p = 0.035: significant one-sided at 0.05, not at 0.025
        (1, 7, 100, "gain"),
        (6, 2, 100, "no clear difference"),
        (2, 2, 200, "no clear difference"),
        (1, 0, 30, "inconclusive"),
    ],
)
def test_gate_and_report_agree_with_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lost: int, gained: int, of: int, expected: str
) -> None:
    """The gate's decision, and the report's heading and table, have the conclusion of `compare`."""
    both = of - lost - gained
    old = write_run(tmp_path / "old", verdicts("c" * lost + "w" * gained + "c" * both, model="old"))
    new = write_run(tmp_path / "new", verdicts("w" * lost + "c" * gained + "c" * both, model="new"))
    assert main(["compare", str(old), str(new), "--json"]) == 0
    [contrast] = json.loads(capsys.readouterr().out)["contrasts"]
    result = contrast["changes"][0]["result"]
    assert result["conclusion"] == expected
    assert result["difference"] == pytest.approx((gained - lost) / of)
    gate = tmp_path / "gate.toml"
    gate.write_text("[[rule]]\nbenchmark = 'sums'\nno_regression = true\n", encoding="utf-8")
    main(["gate", str(new), "--gate", str(gate), "--baseline", str(old)])
    assert f"gate decision: {GATE[expected]}:" in capsys.readouterr().out
    assert main(["report", str(old), str(new), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert REPORT[expected] in page.splitlines()[0]
    assert f"), {expected}" in page
