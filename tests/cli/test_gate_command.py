"""``llmprops gate`` on recorded runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.runs.catalog import promote
from tests.support import records
from tests.support.commands import one_error, output
from tests.support.recorded import verdicts
from tests.support.records import recorded
from tests.support.runs import ROOT

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(working_folder: Path) -> None:
    """Work in a folder with four runs of 200 sums and a gate file."""
    recorded(Path("reports/runs/before"), verdicts("c" * 190 + "w" * 10))
    recorded(Path("reports/runs/better"), verdicts("c" * 200, model="new"))
    recorded(Path("reports/runs/worse"), verdicts("c" * 150 + "w" * 50, model="new"))
    recorded(Path("reports/runs/alike"), verdicts("c" * 185 + "w" * 5 + "c" * 5 + "w" * 5, model="new"))
    Path("gate.toml").write_text("[[rule]]\nbenchmark = 'sums'\nmax_drop = 0.03\n")


def gate(run: str, *more: str) -> int:
    """Return the exit status of `llmprops gate` on a run, compared with the run ``before``."""
    return main(["gate", run, "--gate", "gate.toml", "--baseline", "before", *more])


@pytest.mark.parametrize(
    ("run", "status", "decision"), [("better", 0, "pass"), ("worse", 1, "fail"), ("alike", 6, "inconclusive")]
)
def test_decision_is_the_exit_status(run: str, status: int, decision: str, capsys: Capture) -> None:
    """The status is 0, 1 or 6; the first line has the decision. The baseline may be a promoted run."""
    promote(Path("reports/runs/before"), "kept")
    assert main(["gate", run, "--gate", "gate.toml", "--baseline", "kept"]) == status
    assert capsys.readouterr().out.startswith(f"{decision.upper()}: ")


def test_markdown_is_appended_and_collapses_what_did_not_change(tmp_path: Path) -> None:
    """``--markdown`` appends, because all steps of a CI job share one file: decision, lost tasks, what changed.

    The table has only what is worse or better, worst first; all else, and each check that is met, is collapsed.
    """
    for name, right in (("old", 120), ("new", 80)):
        numbers = {"kept": 60, "lost": right}
        made = (records.verdicts(task, n, 120 - n, model=name) for task, n in numbers.items())
        recorded(tmp_path / name, [record for task in made for record in task])
    rules = (f'[[rule]]\ntask = "{task}"\nmax_drop = 0.2\n' for task in ("kept", "lost"))
    (tmp_path / "two.toml").write_text("".join(rules))
    page = tmp_path / "summary.md"
    page.write_text("# Before\n")
    gate("better", "--markdown", str(page))
    assert main(["gate", "new", "--baseline", "old", "--gate", "two.toml", "--markdown", str(page)]) == 1
    better, worse = page.read_text().split("## FAIL: new is 33.3 points worse on lost (margin 20)")
    assert better.startswith("# Before\n")
    start = better.index("## PASS: new may replace old")
    assert start < better.index("| 95.0%") < better.index("| 100.0%") < better.index("), better |")
    folds = re.findall("<details><summary>(.*?)</summary>(.*?)</details>", worse, re.DOTALL)
    shown = re.sub("<details>.*?</details>", "", worse, flags=re.DOTALL)
    row = shown.index("| lost | 100.0% (97.0 to 100.0) | 66.7% (57.5 to 75.0) | −33.3 (")
    assert (
        shown.index("Lost:") < row < shown.index("), worse |", row) < shown.index("| rule | required |", row)
    )
    assert "kept" not in shown
    assert [title for title, _ in folds] == ["1 part without a clear change", "1 check met", "Tests"]
    assert "| kept | 50.0% (" in folds[0][1]


def test_error_is_one_line(capsys: Capture) -> None:
    """An error gives status 2 and one line with the reason, and no decision."""
    Path("wrong.toml").write_text("oops = 1\n[[rule]]\nmax_drop = 0\n")
    for words, message in (
        ("better --gate none.toml", "none.toml: cannot be read"),
        ("better --gate gate.toml", "needs a baseline; give one with --baseline RUN"),
        ("nothing --gate gate.toml", "nothing"),
        ("better --gate wrong.toml", "unknown key 'oops'"),
        ("better --gate gate.toml --baseline before --markdown no/a.md", "no/a.md"),
    ):
        assert message in one_error(capsys, "gate", *words.split())


def test_differences_are_candidate_minus_baseline(capsys: Capture) -> None:
    """The baseline is the run of the option, or the one that a gate names, or the first one, in every output.

    The commands of the example workflow and of its page have the same differences.
    """
    old = recorded(Path("baselines/current"), verdicts("w" * 40 + "c" * 60, model="old"))
    right = verdicts("w" * 10 + "c" * 90, model="new")
    new = recorded(Path("reports/candidate"), right)
    gated = recorded(
        Path("gated"), right, gate={"decision": "pass", "line": "pass: met", "baseline": "current"}
    )
    for runs in ((new, "--baseline", old), (gated, old), (old, new)):
        printed = output(capsys, "compare", *runs)
        assert "A → B: old → new" in printed
        assert re.search(r"  \+30\.0  \+\S+ to \+\S+  <0\.001  better", printed)
        output(capsys, "report", *runs, "--out", "report")
        page = Path("report/report.md").read_text(encoding="utf-8")
        assert "new does better than old on sums (+30.0 points" in page
        assert "Change: new minus old in points" in page
        assert "| old | new | Change |" in page
    workflow = (ROOT / "pytest_llmprops/cli/project/model-upgrade.yml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8").replace("RUN", "reports/candidate")
    commands = re.findall(r"llmprops (report .* --out) ", workflow)
    commands += re.findall(r"`llmprops (report .* --out) DIR", page)
    assert len(commands) == 2
    for number, command in enumerate(commands):
        assert main([*command.split(), f"report-{number}"]) == 0
        text = Path(f"report-{number}", "report.md").read_text(encoding="utf-8")
        assert text.startswith("# new does better than old")
