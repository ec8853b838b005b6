"""A gate, `llmprops compare` and `llmprops report` draw the same conclusion from the same two runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from tests.support.recorded import verdicts, write_run

#: the gate's decision and the report's words for each conclusion of ``llmprops compare``
GATE = {"drop": "fail", "gain": "pass", "no clear difference": "pass", "inconclusive": "inconclusive"}
REPORT = {
    "drop": "does worse than",
    "gain": "does better than",
    "no clear difference": "do not clearly differ",
    "inconclusive": "do not clearly differ",
}


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have enough columns for one line per task; xdist's workers have 80."""
    monkeypatch.setenv("COLUMNS", "200")


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
    decided = capsys.readouterr().out
    assert f"gate decision: {GATE[expected]}:" in decided
    assert main(["report", str(old), str(new), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert REPORT[expected] in page.splitlines()[0]
    assert f"), {expected}" in page
    shown = f"{100 * result['detectable']:.1f} points"
    assert f"smallest drop they could have shown with 80% power: {shown}" in decided
    if expected not in ("drop", "gain"):
        assert page.splitlines()[0].endswith(f"{of} items would show a drop of {shown}).")
        assert page.count(f"would show a drop of {shown}") == 2


def upgraded(folder: Path, **facts: object) -> tuple[str, str]:
    """Write a baseline and a better candidate, which has more ``facts``; return their folders."""
    old = write_run(folder / "current", verdicts("w" * 40 + "c" * 60, model="old"))
    new = write_run(folder / "candidate", verdicts("w" * 10 + "c" * 90, model="new"), **facts)
    return str(old), str(new)


@pytest.mark.parametrize("how", ["option", "gate", "first"])
def test_differences_are_candidate_minus_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """The baseline is the run of the option, or the one that a gate names, or the first one, in every output."""
    gate = {"decision": "pass", "passed": True, "line": "pass: met", "baseline": "current"}
    old, new = upgraded(tmp_path, **({"gate": gate} if how == "gate" else {}))
    runs = {"option": [new, "--baseline", old], "gate": [new, old], "first": [old, new]}[how]
    assert main(["compare", *runs]) == 0
    printed = capsys.readouterr().out
    assert "A → B: old → new" in printed
    assert re.search(r"  \+30\.0  \+\S+ to \+\S+  <0\.001  gain", printed)
    assert main(["report", *runs, "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "new does better than old on sums (+30.0 points" in page
    assert "Change: new minus old in points" in page
    assert "| old | new | Change |" in page


def test_example_workflow_compares_with_the_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the example workflow and of its page have the differences candidate minus baseline."""
    monkeypatch.chdir(tmp_path)
    upgraded(tmp_path)
    (tmp_path / "baselines").mkdir()
    (tmp_path / "reports").mkdir()
    (tmp_path / "current").rename("baselines/current")
    (tmp_path / "candidate").rename("reports/candidate")
    root = Path(__file__).parents[2]
    workflow = (root / "pytest_llmprops" / "cli" / "project" / "model-upgrade.yml").read_text(
        encoding="utf-8"
    )
    page = (root / "docs" / "ci.md").read_text(encoding="utf-8").replace("RUN", "reports/candidate")
    commands = re.findall(r"llmprops (report .* --out) ", workflow) + re.findall(
        r"`llmprops (report .* --out) DIR", page
    )
    assert len(commands) == 2
    for number, command in enumerate(commands):
        assert main([*command.split(), f"report-{number}"]) == 0
        text = Path(f"report-{number}", "report.md").read_text(encoding="utf-8")
        assert text.startswith("# new does better than old")
