"""``--llm-repeats``: samples of an item, their calls, verdicts and reports."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from pytest_llmprops.core.requests import REPEAT_STRIDE
from tests.support.allure import results, texts
from tests.support.gated_runs import command
from tests.support.runs import Finished, Runner

#: a fake model whose first sample is right, and the others only for even sums
NOISY = """
def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    return str(n + 1 if chat.sample == 0 or n % 2 == 0 else n)
"""
#: methods of a benchmark
OWN = """
    metric_directions = {"right": "higher"}

    def metrics(self, records):
        right = sum(r.status == "correct" for r in records)
        yield Metric("add", "en", "builtin", "right", float(right), len(records), direction="higher")

    def remarks(self, records):
        yield f"{len(records)} records of samples {sorted({r.sample for r in records})}"
"""
WARM = ("--llm-param", "temperature=0.7")


def lines(done: Finished) -> list[dict[str, Any]]:
    """Return the lines of ``verdicts.jsonl``, of which an item has several."""
    text = (done.folder / "verdicts.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def noisy(run: Runner, items: int = 6) -> str:
    """Write the benchmark of sums and return a model whose samples differ."""
    run.sums(items)
    return f"fake:call?file={run.write('noisy.py', NOISY)}"


def test_each_sample_has_its_own_call_and_verdict(run: Runner) -> None:
    """One case per item; one request and one verdict per sample; the summary counts both.

    A benchmark's metrics are computed per repeat and averaged; its remarks are about the first samples.
    """
    model = noisy(run)
    run.change("test_sums.py", '    name = "sums"\n', f'    name = "sums"\n{OWN}')
    run.change("test_sums.py", "Item, Verdict", "Item, Metric, Verdict")
    done = run("--model", model, "--llm-repeats", "3", "-n", "2", "-rA", "--junit-xml", "report.xml")
    assert "3 passed" in done.output
    assert "3 failed" in done.output
    assert len([x for x in done.output.splitlines() if x.endswith("noisy.py-sums/0000]")]) == 1
    rows = lines(done)
    assert sorted((r["id"], r["sample"]) for r in rows) == [
        (f"sums/{n:04d}", sample) for n in range(6) for sample in range(3)
    ]
    assert {r["status"] for r in rows if r["sample"] == 0} == {"correct"}
    assert {r["request"]["sample"] for r in done.requests} == {0, REPEAT_STRIDE, 2 * REPEAT_STRIDE}
    assert (done.run["complete"], done.run["expected"], done.run["options"]["repeats"]) == (True, 18, 3)
    [row] = done.run["summary"]
    assert (row["items"], row["samples"], row["correct"], row["wrong"]) == (6, 18, 12, 6)
    assert row["accuracy"] == pytest.approx((3 + 3 / 3) / 6)
    assert (row["between_items"], row["within_items"]) == pytest.approx((2 / 15 - 1 / 18, 1 / 6))
    metrics = {(m["name"], m["group"]): m["value"] for m in done.run["metrics"]}
    assert metrics == {
        ("pass@k", "k=2"): pytest.approx(5 / 6), ("pass@k", "k=3"): 1.0, ("majority", ""): 0.5,
        ("right", ""): pytest.approx((6 + 3 + 3) / 3),
    }  # fmt: skip
    assert "6 records of samples [0]" in done.output
    assert "wrong sums/0001 (2 of 3 samples not correct): expected '2', given '1'" in done.output
    assert "note: every request had temperature 0, so the samples of an item differ only as" in done.output
    table = [line.split() for line in done.output.splitlines() if line.startswith(("  task ", "  add "))]
    assert [table[0][3:5], table[0][-4:]] == [["items", "samples"], ["var", "items", "var", "samples"]]
    assert [table[1][3:5], table[1][-2:]] == [["6", "18"], ["0.078", "0.167"]]
    # The line of a failed case has the number of samples and the different answers.
    report = (run.folder / "report.xml").read_text(encoding="utf-8")
    assert "wrong: 2 of 3 samples wrong: expected '2', given '1' (2 times)" in unescape(report)
    assert '<property name="llmprops.samples" value="3"' in report
    shown = command(run, "runs", "show", str(done.folder)).output
    assert re.search(r"^  metric +add/en/k=3\n  pass@k +1$", shown, re.MULTILINE)


def test_more_repeats_ask_only_for_the_missing_samples(run: Runner) -> None:
    """Sample 0 is the request of a run without repeats; a later run with more repeats uses all stored samples.

    The plan has the calls of all samples, and a limit on calls applies to them.
    """
    model = noisy(run)
    plan = run("--model", model, "--llm-repeats", "3", "--llm-plan")
    [row] = [line.split() for line in plan.output.splitlines() if line.strip().startswith("sums ")]
    assert row[2:6] == ["6", "x", "3", "18"]
    assert "6 if the API returns all samples of a prompt in one call" in plan.output
    assert "without the thoughts of models that think" in " ".join(plan.output.split())
    refused = run("--model", model, "--llm-repeats", "3", "--llm-max-calls", "17")
    assert "the plan needs 18 calls" in refused.output
    sent = []
    for repeats in ("1", "3", "2"):
        done = run("--model", model, "--llm-repeats", repeats)
        sent.append(done.run["calls"]["sent"])
        assert len(lines(done)) == 6 * int(repeats)
    assert sent == [6, 12, 0]


def test_samples_of_the_benchmark_do_not_meet_those_of_repeats(run: Runner) -> None:
    """A benchmark that asks for three samples of a prompt has nine different requests in three repeats."""
    run.sums(1)
    thrice = "        for k in range(3):\n            reply = await"
    run.change("test_sums.py", "        reply = await", thrice)
    run.change("test_sums.py", "max_tokens=8", "max_tokens=8, sample=k")
    done = run("--model", run.adder, "--llm-repeats", "3")
    assert [len(r["requests"]) for r in lines(done)] == [3, 3, 3]
    assert len({key for r in lines(done) for key in r["requests"]}) == done.run["calls"]["sent"] == 9


def test_a_sample_in_error_leaves_the_others(run: Runner) -> None:
    """A failed call is the error of its sample only; an item with errors and right answers is an error in pytest."""
    run.sums(3)
    failing = "    return ValueError('down') if n == 1 and chat.sample else str(n + 1)\n    #"
    run.change("adder.py", "    return", failing)
    done = run("--model", run.adder, "--llm-repeats", "3")
    assert "1 error" in done.output
    [row] = done.run["summary"]
    counts = [row[name] for name in ("items", "samples", "errors", "answered", "accuracy")]
    assert counts == [3, 9, 2, 3, 1.0]
    assert done.run["complete"] is True


def test_a_run_of_stored_samples_says_so(run: Runner) -> None:
    """A second run at temperature 0.7 makes no calls and says that it repeats the first; refresh samples again."""
    model = noisy(run)
    said = "6 of 6 (100.0%) replies at a temperature above 0, or the model's default, are stored ones"
    first, again = (run("--model", model, *WARM) for _ in range(2))
    assert (said in first.output, said in again.output) == (False, True)
    assert (again.run["calls"]["sampled"], again.run["calls"]["sampled_earlier"]) == (6, 6)
    fresh = run("--model", model, *WARM, "--llm-cache", "refresh")
    assert "are stored ones" not in fresh.output
    assert fresh.run["calls"]["sent"] == 6


def test_allure_result_has_a_step_per_sample(run: Runner) -> None:
    """The result of an item has one step per sample, with its call, prompt, reply and verdict."""
    pytest.importorskip("allure_pytest")
    folder = run.folder / "allure"
    run("--model", noisy(run, 2), "--llm-repeats", "2", "--alluredir", str(folder))
    by_name = results(folder)
    assert sorted(by_name) == ["sums/0000", "sums/0001"]
    failed = by_name["sums/0001"]
    assert [(s["name"], s["status"]) for s in failed["steps"]] == [
        ("sample 0: correct", "passed"),
        ("sample 1: wrong", "failed"),
    ]
    inner = failed["steps"][1]
    assert [a["name"] for a in inner["attachments"]] == ["verdict"]
    [call] = inner["steps"]
    assert [a["name"] for a in call["attachments"]] == ["prompt", "reply"]
    assert "sums/0001 sample 1" in texts(folder, failed)["samples that are not correct"]
