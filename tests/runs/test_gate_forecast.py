"""Forecasts of a gate: simulated candidates get the decisions of the gate's own checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.comparison import UnchangedModel
from pytest_llmprops.core.paired import Pairs, drop_test
from pytest_llmprops.runs.gate import checks, forecast
from pytest_llmprops.runs.gate.data import PairingRules
from pytest_llmprops.runs.gate.forecast import DROPS, Rates
from tests.support.commands import one_error
from tests.support.gates import Records, facts_of, gate_of
from tests.support.recorded import verdict, verdicts, write_run

Capture = pytest.CaptureFixture[str]
FACTS = facts_of("old")


def in_clusters(items: int, size: int) -> Records:
    """Return the verdicts of a baseline in clusters of this size."""
    return [replace(r, cluster=f"c{n // size:03d}") for n, r in enumerate(verdicts("c" * items))]


def sampled(items: int, right: int, of: int) -> Records:
    """Return a baseline in which ``right`` of the samples of each item are correct."""
    return [
        verdict(f"{n:04d}", "correct" if sample < right else "wrong", sample=sample)
        for n in range(items)
        for sample in range(of)
    ]


@pytest.mark.parametrize(("items", "size"), [(120, 1), (120, 10), (60, 5)])
@pytest.mark.parametrize("keys", [{"no_regression": True, "detect": 0.15}, {"max_drop": 0.3}])
def test_decisions_are_those_of_the_gate(
    items: int, size: int, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every simulated candidate gets the verdict of the gate's check on the same differences."""
    # The advice on an inconclusive check would take three quarters of the time.
    monkeypatch.setattr(UnchangedModel, "times_to_pass", lambda self, limit: 1.0)
    gate = gate_of(keys, {"task": "other", "no_regression": True})
    [rule, _] = gate.rules
    own = forecast.rule_items(in_clusters(items, size), PairingRules.of(FACTS), 0.02, None)
    drops = np.concatenate(
        [
            forecast.candidate_drops(np.random.default_rng(3), own, drop, 30)
            for drop in (0.0, 0.06, 0.1, 0.3, 0.9)
        ]
    )
    failed, met = forecast.decide_rule(gate, rule, own, drops)
    tests = sum(r.no_regression for r in gate.rules)
    verdicts_ = []
    for row in drops.tolist():
        pairs = Pairs(
            tuple(max(d, 0.0) for d in row),
            tuple(max(-d, 0.0) for d in row),
            tuple(p.cluster for p in own.places),
        )
        test = drop_test(pairs)
        check = (
            checks.max_drop(rule, pairs)
            if rule.max_drop is not None
            else checks.no_regression(rule, pairs, test._replace(p=min(1, tests * test.p)), tests=tests)
        )
        verdicts_.append(check.verdict)
    assert (failed.tolist(), met.tolist()) == (
        [v == "failed" for v in verdicts_],
        [v == "met" for v in verdicts_],
    )
    assert set(verdicts_) >= {"met", "failed"}


def test_candidates_have_the_drop_and_the_churn() -> None:
    """The mean drop and the shares of lost and gained samples are those that were asked for."""
    for size in (1, 10):
        own = forecast.rule_items(in_clusters(400, size), PairingRules.of(FACTS), 0.06, None)
        drops = forecast.candidate_drops(np.random.default_rng(1), own, 0.05, 400)
        # An item that is lost in all samples has no churn.
        assert (drops > 0).mean() == pytest.approx(0.05 + 0.95 * 0.06, abs=0.005)
        assert (drops < 0).mean() == pytest.approx(0.95 * 0.06, abs=0.005)
    # The items of a cluster are alike.
    assert drops.reshape(400, -1, 10).mean(axis=2).std() > 1.1 * drops.std() / np.sqrt(10)


def test_churn_is_measured_from_repeats() -> None:
    """With 1 of 4 samples correct, one of two samples is correct and the other is not in half of the pairs."""
    [rule] = forecast.forecast(gate_of({"no_regression": True}), sampled(50, 1, 4), FACTS).rules
    assert (rule.items, rule.repeats) == (50, 4)
    assert rule.churn == pytest.approx(1 * 3 / (4 * 3))
    [assumed] = forecast.forecast(
        gate_of({"no_regression": True}), sampled(50, 1, 1), FACTS, churn=0.07
    ).rules
    assert (assumed.repeats, assumed.churn) == (1, 0.07)


def test_rates_of_one_rule_and_of_the_gate() -> None:
    """A gate passes less often than each of its rules; worse candidates fail more often."""
    records = [replace(r, task=f"t{n % 2}") for n, r in enumerate(verdicts("c" * 200))]
    plan = forecast.forecast(
        gate_of(*({"task": f"t{n}", "no_regression": True} for n in range(2))), records, FACTS
    )
    assert len(plan.whole) == len(DROPS)
    for rates in (*plan.whole, *(rates for rule in plan.rules for rates in rule.rates)):
        assert sum(rates) == pytest.approx(1)
    assert all(w.passed <= min(r.rates[n].passed for r in plan.rules) for n, w in enumerate(plan.whole))
    failed = [rates.failed for rates in plan.whole]
    assert failed == sorted(failed)
    assert plan.whole[0].passed > 0.9
    assert plan.whole[-1].failed > 0.8
    assert plan.repeats == 1


def test_repeats_are_offered_if_an_unchanged_model_passes_too_rarely() -> None:
    """A model that samples passes in 90% of runs with more repeats; without differences repeats do not help."""
    gate = gate_of({"no_regression": True})
    plan = forecast.forecast(gate, verdicts("c" * 100), FACTS, churn=0.2)
    assert plan.whole[0].passed < 0.8
    assert plan.repeats in (3, 5)
    again = forecast.forecast(gate, verdicts("c" * 100), FACTS, churn=0.2, repeats=plan.repeats)
    assert again.whole[0].passed >= 0.9
    few = gate_of({"no_regression": True, "min_items": 5})
    never = forecast.forecast(few, verdicts("c" * 10), FACTS, churn=0.0)
    assert (never.whole[0], never.repeats) == (Rates(0.0, 0.0, 1.0), None)
    assert "is not ruled out by 10 pairs" in never.rules[0].impossible


@pytest.mark.parametrize("each", ["task", "language", "cluster"])
def test_members_that_collapse(each: str) -> None:
    """If one of ten members loses everything, the rule fails; an unchanged model meets it in 95% of runs or more."""
    members: list[dict[str, Any]] = [{"cluster": str(n), each: f"m{n // 30}"} for n in range(300)]
    records = [replace(verdict(f"{n:04d}"), **member) for n, member in enumerate(members)]
    gate = gate_of({"no_collapse": True, "each": each})
    [rule] = forecast.forecast(gate, records, FACTS).rules
    assert rule.rates[0].passed > 0.93
    own = forecast.rule_items(records, PairingRules.of(FACTS), 0.0, None)
    drops = np.zeros((1, 300))
    drops[:, [n for n, p in enumerate(own.places) if getattr(p, each) == "m7"]] = 1.0
    assert forecast.decide_rule(gate, gate.rules[0], own, drops)[0].all()


def test_min_accuracy_follows_the_baseline() -> None:
    """A limit far below the baseline's accuracy is met, one above it fails, and one at it is inconclusive."""
    records = verdicts("c" * 160 + "w" * 40)
    for limit, index in ((0.6, 0), (0.95, 1), (0.8, 2)):
        [rule] = forecast.forecast(gate_of({"min_accuracy": limit}), records, FACTS).rules
        assert rule.rates[0][index] > 0.9


# ---- the command


def test_plan_prints_rates_and_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Each rule and the whole gate have a row; rules on metrics are not simulated; impossible rules are named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    records = [
        replace(r, task="add" if n < 200 else "few", requests=("k",))
        for n, r in enumerate(verdicts("c" * 240))
    ]
    write_run(Path("base"), records, calls={"requests": 480, "cost_usd": 3.0})
    Path("gate.toml").write_text(
        "[[rule]]\ntask = 'add'\nno_regression = true\n[[rule]]\ntask = 'few'\nmax_drop = 0.02\n",
        encoding="utf-8",
    )
    assert main(["gate", "--plan", "gate.toml", "--baseline", "base"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "unchanged 2 points worse 5 points worse 10 points worse" in text
    assert "add 200 3.0% 97 / 3 / 0" in text
    assert "few 40 3.0% 0 / 0 / 100" in text
    assert "the whole gate 0 / " in text
    assert "IMPOSSIBLE few: the interval of 40 pairs contains the margin" in text
    assert "about 240 calls, 1.50 USD" in text


def test_plan_without_a_baseline_uses_the_built_in_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Without a baseline, the items are the built-in ones of the benchmarks that the rules name."""
    monkeypatch.chdir(tmp_path)
    Path("gate.toml").write_text("[[rule]]\nbenchmark = 'eras'\ntask = 'explicit'\nno_regression = true\n")
    assert main(["gate", "--plan", "gate.toml", "--churn", "0.01"]) == 0
    assert "780 in 39 clusters   1.0%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("base --plan gate.toml", "takes no RUN"),
        ("--gate gate.toml", "needs the RUN"),
        ("--plan gate.toml --churn 0.6", "--churn 0.6: must be from 0 to 0.4"),
        ("--plan none.toml", "cannot be read"),
    ],
)
def test_wrong_use_of_plan_is_one_line(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A wrong combination of arguments is one line that says what to pass."""
    monkeypatch.chdir(tmp_path)
    Path("gate.toml").write_text("[[rule]]\nbenchmark = 'eras'\ntask = 'explicit'\nno_regression = true\n")
    assert message in one_error(capsys, "gate", *words.split())
