"""``llmprops gate`` judges metrics that are computed from the verdicts, not those that run.json has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark
from pytest_llmprops.cli.main import main
from pytest_llmprops.runs.integrity import run_json
from pytest_llmprops.runs.summary import metric_rows
from tests.support.recorded import verdicts, write_run

GATE = "[[rule]]\nbenchmark = '{}'\nmetric = '{}'\nmin = 0.9\nbasis = '{}'\n"


def decided(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    (folder.parent / "gate.toml").write_text(GATE.format(*words))
    main(["gate", str(folder), "--gate", str(folder.parent / "gate.toml"), "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Forty homophones, half of them correct, with their metrics."""
    rows = verdicts("cw" * 20, benchmark="homophones", task="asked", values={"function_word": 0.0})
    metrics, _ = metric_rows(rows, {"homophones": find_benchmark("homophones")})
    assert {row.value for row in metrics if row.name == "accuracy"} == {0.5}
    return write_run(tmp_path / "run", rows, metrics=metrics)


def edit(folder: Path, **values: Any) -> None:
    """Change all rows of the metric accuracy, and compute the hash of run.json again."""
    facts = json.loads((folder / "run.json").read_text())
    for row in facts["metrics"]:
        if row["name"] == "accuracy":
            row.update(values)
    (folder / "run.json").write_text(run_json(facts))


def test_changed_value_is_invalid(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason has both values; a rule on another metric or item does not look at this one."""
    rule = ("homophones", "accuracy", "point")
    assert decided(run, capsys, *rule)["decision"] == "fail"
    edit(run, value=0.95)
    result = decided(run, capsys, *rule)
    assert result["decision"] == "invalid"
    assert "this run: run.json has 0.95 for homophones/asked/en/builtin/" in result["reasons"][0]
    assert "computed from the verdicts it is 0.5" in result["reasons"][0]


def test_changed_interval_decides_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The interval of the computed metric is judged."""
    edit(run, ci_low=0.95, ci_high=0.99)
    assert decided(run, capsys, "homophones", "accuracy", "interval")["decision"] == "fail"


def test_missing_and_added_rows_are_invalid(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that the verdicts do not give, and one that is missing, are named."""
    facts = json.loads((run / "run.json").read_text())
    facts["metrics"] = [{**facts["metrics"][0], "group": "other"}]
    (run / "run.json").write_text(run_json(facts))
    reasons = decided(run, capsys, "homophones", "accuracy", "point")["reasons"]
    assert any("/other/" in r and "it is no value" in r for r in reasons)
    assert any("run.json has no value for" in r for r in reasons)


def test_metrics_of_an_unknown_benchmark_are_those_of_run_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark that is not installed cannot compute its metrics; a note says so."""
    place = {"model": "old", "benchmark": "sums", "task": "add", "language": "en", "source": "builtin"}
    row = {**place, "group": "", "name": "rate", "value": 0.95, "n": 40, "ci_low": None, "ci_high": None,
           "direction": "higher"}  # fmt: skip
    folder = write_run(tmp_path / "run", verdicts("c" * 40), metrics=[row])
    assert decided(folder, capsys, "sums", "rate", "point")["decision"] == "pass"
    main(["gate", str(folder), "--gate", str(tmp_path / "gate.toml")])
    assert "note: metrics of sums could not be computed again" in capsys.readouterr().out
