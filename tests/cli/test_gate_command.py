"""``llmprops gate`` on recorded runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.tools.import_verdicts import import_homophones
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.comparison import detectable_drop
from pytest_llmprops.core.paired import mcnemar_drop
from pytest_llmprops.runs.catalog import promote
from pytest_llmprops.runs.reader import read_run
from tests.support.recorded import verdicts, write_run


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with four runs of 200 sums and a gate file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    write_run(Path("reports/runs/before"), verdicts("c" * 190 + "w" * 10))
    write_run(Path("reports/runs/better"), verdicts("c" * 200, model="new"))
    write_run(Path("reports/runs/worse"), verdicts("c" * 150 + "w" * 50, model="new"))
    write_run(Path("reports/runs/alike"), verdicts("c" * 185 + "w" * 5 + "c" * 5 + "w" * 5, model="new"))
    Path("gate.toml").write_text("[[rule]]\nbenchmark = 'sums'\nmax_drop = 0.03\nno_regression = true\n")


def gate(run: str, *more: str) -> int:
    """Return the exit status of `llmprops gate` on a run, compared with the run ``before``."""
    return main(["gate", run, "--gate", "gate.toml", "--baseline", "before", *more])


@pytest.mark.parametrize(
    ("run", "status", "decision"), [("better", 0, "pass"), ("worse", 1, "fail"), ("alike", 1, "inconclusive")]
)
def test_decision_is_the_exit_status(
    run: str, status: int, decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 0 for a pass, otherwise 1; the last line has the decision."""
    assert gate(run) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"gate decision: {decision}: ")


def test_inconclusive_passes_if_the_file_accepts_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 0, and the line says why."""
    text = Path("gate.toml").read_text()
    Path("gate.toml").write_text("inconclusive = 'pass'\n" + text)
    assert gate("alike") == 0
    assert "gate decision: inconclusive, which the gate file accepts" in capsys.readouterr().out


def test_promoted_baseline_is_selected_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    promote(Path("reports/runs/before"), "kept")
    main(["gate", "better", "--gate", "gate.toml", "--baseline", "kept"])
    assert "gate decision: pass" in capsys.readouterr().out


def test_json_is_the_gate_of_run_json(capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints the decision with the keys that it has in `run.json`."""
    assert gate("worse", "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["decision"], printed["baseline"], printed["passed"]) == ("fail", "before", False)
    assert {c["kind"] for c in printed["rules"][0]["checks"]} == {"max_drop", "no_regression"}


def test_markdown_is_appended(tmp_path: Path) -> None:
    """``--markdown`` appends, because all steps of a CI job share one summary file."""
    page = tmp_path / "summary.md"
    page.write_text("# Before\n")
    gate("better", "--markdown", str(page))
    gate("worse", "--markdown", str(page))
    text = page.read_text()
    assert text.startswith("# Before\n")
    assert text.index("## Gate: pass") < text.index("## Gate: fail")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gate", "better", "--gate", "none.toml"], "none.toml: cannot be read"),
        (["gate", "better", "--gate", "gate.toml"], "needs a baseline; give one with --baseline RUN"),
        (["gate", "nothing", "--gate", "gate.toml"], "nothing"),
        (["gate", "better", "--gate", "gate.toml", "--baseline", "nothing"], "nothing"),
        (["gate", "better", "--gate", "wrong.toml"], "unknown key 'oops'"),
        (
            ["gate", "better", "--gate", "gate.toml", "--baseline", "before", "--markdown", "no/a.md"],
            "no/a.md",
        ),
    ],
)
def test_error_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An error gives status 2 and one line with the reason, and no decision."""
    Path("wrong.toml").write_text("oops = 1\n[[rule]]\nmax_drop = 0\n")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert "gate decision" not in out
    assert err.startswith("llmprops: ")
    assert message in err
    assert err.count("\n") == 1


def test_invalid_gate_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """A rule that matches nothing, or items of another rule, makes the gate invalid."""
    for text, message in [
        ("[[rule]]\ntask = 'sub'\nmax_drop = 0.1\n", "invalid: sub: matches nothing: task is one of add"),
        (
            "[[rule]]\ntask = 'add'\nmax_drop = 0.1\n[[rule]]\nlanguage = 'en'\nmax_drop = 0.1\n",
            "are both about",
        ),
    ]:
        Path("gate.toml").write_text(text)
        assert gate("better") == 1
        assert message in capsys.readouterr().out.splitlines()[-1]


# ---- the published homophones: four models' verdicts on every item


@pytest.fixture(scope="module")
def models(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import the published verdicts of four models; return the folder of the runs."""
    folder = tmp_path_factory.mktemp("published-runs")
    assert len(list(import_homophones(published, folder))) == 4
    return folder


def published_gate(models: Path, old: str, new: str, rule: str) -> list[str]:
    """Write a gate with one rule; return the arguments that compare two published models."""
    Path("gate.toml").write_text(f"[[rule]]\nbenchmark = 'homophones'\n{rule}\n")
    names = [str(models / f"imported-homophones-{name}") for name in (new, old)]
    return ["gate", names[0], "--baseline", names[1], "--gate", "gate.toml", "--json"]


@pytest.mark.parametrize("rule", ["language = 'en'\nno_regression = true", "language = 'en'\nmax_drop = 0"])
def test_gpt4_may_replace_gpt35_but_not_the_reverse(
    models: Path, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In English, a gate that allows no drop passes the upgrade and fails the downgrade."""
    assert main(published_gate(models, "GPT-3.5", "GPT-4", rule)) == 0
    assert json.loads(capsys.readouterr().out)["decision"] == "pass"
    assert main(published_gate(models, "GPT-4", "GPT-3.5", rule)) == 1
    assert json.loads(capsys.readouterr().out)["decision"] == "fail"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ernie_decisions_follow_from_the_counts(
    models: Path, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In both directions, the decision follows from the numbers of lost, gained and all pairs."""
    drops = {}
    for old, new in (("Ernie-3.5", "Ernie-4.0"), ("Ernie-4.0", "Ernie-3.5")):
        main(published_gate(models, old, new, f"language = '{language}'\nno_regression = true"))
        result = json.loads(capsys.readouterr().out)
        correct = []
        for name in (old, new):
            records = read_run(models / f"imported-homophones-{name}").records
            correct.append({r.id: r.status == "correct" for r in records if r.language == language})
        lost = sum(correct[0][i] > correct[1][i] for i in correct[0])
        gained = sum(correct[0][i] < correct[1][i] for i in correct[0])
        n = len(correct[0])
        enough = detectable_drop(lost, gained, n, alpha=0.05) <= 0.1
        (check,) = result["rules"][0]["checks"]
        enough |= check["ci_high"] < 0  # the whole interval is a gain
        expected = "fail" if mcnemar_drop(lost, gained) <= 0.05 else "pass" if enough else "inconclusive"
        assert result["decision"] == expected
        assert math.isclose(check["value"], (lost - gained) / n)
        drops[old] = check["value"]
    assert math.isclose(drops["Ernie-3.5"], -drops["Ernie-4.0"])
