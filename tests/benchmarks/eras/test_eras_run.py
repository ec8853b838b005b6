"""ERAS through pytest: cases, chat models, segmenters and classifiers."""

from __future__ import annotations

import pytest

from tests.support.runs import ROOT, Finished, Runner

ERAS = str(ROOT / "suites" / "test_eras.py")
#: A chat model that segments a sentence with CUT and answers every other question with A.
CUTTER = """
def reply(chat):
    text = chat.messages[-1].content
    sentence = text.splitlines()[-1]
    return "A" if "只回答一个字母" in text else CUT
"""
CHARACTERS = '" ".join(sentence)'


def cutting(run: Runner, cut: str, *options: str) -> Finished:
    """Run ERAS with a fake model that cuts sentences with ``cut``."""
    run.write("cutter.py", CUTTER.replace("CUT", cut))
    return run(
        ERAS, "--model", f"fake:call?file={run.folder / 'cutter.py'}", "--llm-limit", "1", "-q", *options
    )


def test_chat_model_is_measured_on_both_tasks(run: Runner) -> None:
    """A chat model gets requests to segment and to judge sentiment, and its metrics are in the record."""
    options = ("--llm-set", "eras.samples=1", "--llm-set", "eras.rule=paper")
    done = cutting(run, CHARACTERS, *options, "-n", "0")
    assert done.code == 0, done.output
    rows = {r["task"]: r for r in done.run["summary"]}
    assert {task: (r["items"], r["correct"], r["errors"]) for task, r in rows.items()} == {
        "explicit": (39, 39, 0), "implicit": (39, 39, 0),
    }  # fmt: skip
    metrics = {(m["task"], m["name"], m["group"]): m["value"] for m in done.run["metrics"]}
    assert metrics["explicit", "test_accuracy", "overall"] == 1
    # All sentences have the same score: every pair is a tie.
    assert metrics["implicit", "pair_accuracy", "overall"] == metrics["implicit", "sampled_rate", ""] == 1


def test_unread_replies_are_asked_for_again(run: Runner) -> None:
    """The plan counts first requests, and the run makes a second only if it is needed."""
    spaced = '" ".join(sentence) if len(chat.messages) > 1 or "学生" in sentence else sentence'
    plan = cutting(run, spaced, "-k", "explicit", "-n", "0", "--llm-plan")
    assert " 78 " in plan.output, "a request for each of 78 sentences"
    assert " 156 " not in plan.output
    done = cutting(run, spaced, "-k", "explicit", "-n", "0")
    values = [v["values"] for v in done.verdicts.values()]
    retried = int(sum(v["test_retried"] + v["control_retried"] for v in values))
    assert 0 < retried <= 78
    assert all(v["test_read"] and v["control_read"] for v in values)
    assert done.run["calls"]["requests"] == 78 + retried
    [rate] = [m["value"] for m in done.run["metrics"] if m["name"] == "retry_rate"]
    assert rate == pytest.approx(retried / 78)


def test_cases_can_be_paradigms(run: Runner) -> None:
    """With eras.case=paradigm a pytest case is a paradigm; the record has every pair's verdict anyway."""
    words = run.write("words.txt", "信心 留心 机能 心机 意见")
    settings = ("--llm-limit", "2", "--llm-set", "eras.case=paradigm")
    done = run(ERAS, "--model", f"maxmatch:{words}", *settings, "-n", "2", "-q")
    assert len(done.verdicts) == 78
    wrong = {name for name, v in done.verdicts.items() if v["status"] == "wrong"}
    cases = {name.rpartition("/")[0] for name in wrong}
    assert 0 < len(cases) < len(wrong)
    assert f"{len(cases)} failed" in done.output
    assert f"{39 - len(cases)} passed" in done.output
