"""What a gate judges: errors and missing items, samples, computed metrics, and selections of items."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark
from pytest_llmprops.cli.main import main
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.runs.summary import metric_rows
from tests.support.gated_runs import gate, gate_lines, model, recorded_gate
from tests.support.gates import check_of, gate_of, judged, new
from tests.support.recorded import edit_run_json, verdicts
from tests.support.records import metric, recorded
from tests.support.runs import Runner

#: 1,000 items, of which the baseline answers 900 correctly
OLD = "c" * 900 + "w" * 100


def with_errors(at: range, statuses: str = OLD) -> str:
    return "".join("e" if n in at else letter for n, letter in enumerate(statuses))


@pytest.mark.parametrize("rule", [{"max_drop": 0.01}, {"min_accuracy": 0.873}])
def test_errors_on_items_of_the_baseline_are_not_met(rule: dict[str, Any]) -> None:
    """Errors on items that the baseline answers correctly may be losses; on items that it fails, they hide none."""
    gate = gate_of(rule)
    hiding = judged(gate, new(with_errors(range(10))), verdicts(OLD))
    assert (hiding.decision, hiding.passed) == ("inconclusive", False)
    (check,) = [c for c in hiding.rules[0].checks if c.kind in rule]
    assert "not if the candidate fails the 10 items in error or missing" in check.reason
    assert "(sums/0000, sums/0001, sums/0002, …): measure them again" in check.reason
    elsewhere = judged(gate, new(with_errors(range(900, 910))), verdicts(OLD))
    assert elsewhere.decision == "pass"
    assert judged(gate, new(OLD), verdicts(OLD)).decision == "pass"


def test_missing_items_count_like_errors() -> None:
    """An item that one run lacks, and an error of the baseline, may hide a loss as well."""
    gate = gate_of({"max_drop": 0.015})
    assert judged(gate, new(OLD)[10:], verdicts(OLD)).decision == "inconclusive"
    assert judged(gate, new(OLD)[:-10], verdicts(OLD)).decision == "pass"
    lost = "w" * 10 + OLD[10:]
    assert judged(gate, new(lost), verdicts(with_errors(range(10)))).decision == "inconclusive"
    assert judged(gate, new(lost), verdicts(OLD)[10:]).decision == "inconclusive"
    assert judged(gate, new(OLD), verdicts(with_errors(range(10)))).decision == "pass"


@pytest.mark.parametrize("place", ["benchmark", "source"])
def test_equal_ids_of_two_places_are_different_items(place: str) -> None:
    """A rule over two benchmarks, or sources, whose items have equal ids judges all of them."""
    other: dict[str, Any] = {place: "other"}
    old = [*verdicts("c" * 100), *(replace(r, **other) for r in verdicts("c" * 100))]
    # All of the first hundred right, and all of the others wrong.
    ours = [
        replace(r, model="new", status="wrong" if getattr(r, place) == "other" else "correct") for r in old
    ]
    result = judged(gate_of({"min_accuracy": 0.4}), ours)
    assert "50.0% (42.9 to 57.1), 100 of 200" in check_of(result, "min_accuracy").measured
    result = judged(gate_of({"max_drop": 0.2}), ours, old)
    assert result.rules[0].items == 200
    assert "100 lost and 0 gained of 200 pairs" in check_of(result, "max_drop").measured
    errors = [replace(r, status="error") if getattr(r, place) == "other" else r for r in old]
    assert (
        "50.0%, 100 of 200" in check_of(judged(gate_of({"min_accuracy": 0.4}), errors), "max_errors").measured
    )


METRIC_GATE = "[[rule]]\nbenchmark = '{}'\nmetric = '{}'\nmin = 0.9\n"


def decided(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    (folder.parent / "gate.toml").write_text(METRIC_GATE.format(*words))
    main(["gate", str(folder), "--gate", str(folder.parent / "gate.toml"), "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_changed_metrics_are_invalid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason has both values; a row that the verdicts do not give, and one that is missing, are named."""
    rows = verdicts("cw" * 20, benchmark="homophones", task="asked", values={"function_word": 0.0})
    metrics, _ = metric_rows(rows, {"homophones": find_benchmark("homophones")})
    folder, rule = recorded(tmp_path / "run", rows, metrics=metrics), ("homophones", "accuracy")
    assert decided(folder, capsys, *rule)["decision"] == "fail"
    edit_run_json(folder, lambda facts: [row.update(value=0.95) for row in facts["metrics"]], seal=True)
    result = decided(folder, capsys, *rule)
    assert result["decision"] == "invalid"
    assert "this run: run.json has 0.95 for homophones/asked/en/builtin/" in result["reasons"][0]
    assert "computed from the verdicts it is 0.5" in result["reasons"][0]
    other = {**plain(metrics[0]), "group": "other"}
    edit_run_json(folder, lambda facts: facts.update(metrics=[other]), seal=True)
    reasons = decided(folder, capsys, *rule)["reasons"]
    assert any("/other/" in r and "it is no value" in r for r in reasons)
    assert any("run.json has no value for" in r for r in reasons)


def test_metrics_of_an_unknown_benchmark_are_those_of_run_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark that is not installed cannot compute its metrics; a note says so."""
    row = metric("rate", 0.95, direction="higher")
    folder = recorded(tmp_path / "run", verdicts("c" * 40), metrics=[row])
    assert decided(folder, capsys, "sums", "rate")["decision"] == "pass"
    main(["gate", str(folder), "--gate", str(tmp_path / "gate.toml")])
    assert "note: metrics of sums could not be computed again" in capsys.readouterr().out


SELECTED = {"sums": {"items": 40, "of": 200}}


def notes(result: GateResult) -> list[str]:
    """Return the notes about items; another one says that the benchmark is not installed."""
    return [note for note in result.notes if "items" in note]


def test_selection_is_named() -> None:
    """The note has the numbers and the reason, and the line of the decision says that there is one."""
    for limit, how in ((40, "--llm-limit 40"), (None, "selected by -k, -m, --deselect or name")):
        result = judged(
            gate_of({"min_accuracy": 0.5}), new("c" * 40), selection=SELECTED, options={"limit": limit}
        )
        assert notes(result) == [f"min_accuracy is on a selection: 40 of 200 sums items ({how})"]
        assert result.line == "PASS: new meets the rule (on a selection of the items)"


def test_whole_runs_have_no_note() -> None:
    """All items, other benchmarks and other requirements give no note."""
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"min_accuracy": 0.5}, {"sums": {"items": 40, "of": 40}}),
        ({"min_accuracy": 0.5, "benchmark": "sums"}, {"htest": {"items": 4, "of": 200}}),
        ({"max_refused": 0.5}, SELECTED),
    ]
    for rule, selection in cases:
        result = judged(gate_of(rule), new("c" * 40), selection=selection)
        assert (result.line, notes(result)) == ("PASS: new meets the rule", [])


def test_selection_of_a_run_is_recorded(run: Runner) -> None:
    """`run.json` has the number of selected items and of all items, and both ways to decide say the same."""
    run.sums(40)
    file = gate(run, min_accuracy=0.7)
    words = ("-n", "2", "--llm-gate", str(file), "-k", "sums/000 or sums/001 or sums/002 or sums/0030")
    done = run("--model", model(run), *words)
    assert (done.run["selection"]["sums"], done.run["expected"]) == ({"items": 31, "of": 40}, 31)
    again = recorded_gate(run, done, file)
    lines = " ".join(" ".join(gate_lines(again.output)).split())
    assert lines == " ".join(" ".join(gate_lines(done.output)).split())
    assert "31 of 40 sums items (selected by -k," in lines
