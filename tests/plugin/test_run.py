"""Whole runs with a fake model, in one process and with workers."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.support.runs import Runner
from tests.support.terminal import on_terminal

SUMMARY_KEYS = {
    "model", "benchmark", "task", "language", "source", "items", "clusters", "samples", "answered",
    "errors", "correct", "wrong", "refused", "unparsed", "untested", "accuracy", "ci_low", "ci_high", "ci_method",
    "between_items", "within_items", "cluster_accuracy", "cluster_ci_low", "cluster_ci_high",
}  # fmt: skip
VERDICT_KEYS = {
    "model", "benchmark", "task", "language", "source", "id", "cluster", "sample", "status", "score",
    "expected", "given", "reason", "values", "evidence", "requests",
}  # fmt: skip
CALL_KEYS = {
    "requests", "cache_hits", "retries", "prompt_tokens", "completion_tokens", "cost_usd", "seconds"
}  # fmt: skip
RUN_KEYS = {
    "schema", "run_id", "started", "finished", "complete", "models", "helpers", "protocols", "options",
    "versions", "git", "data", "deviations", "calls", "summary", "metrics",
}  # fmt: skip


#: fails once at most sums
FLAKY = """
from pytest_llmprops import BackendError
seen = set()

def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    if n not in seen and n > 3:
        seen.add(n)
        return BackendError("again", kind="status 500", transient=True)
    return str(n + 1)
"""


def test_record_has_every_required_field(run: Runner, workers: str) -> None:
    """A finished run, beside all installed plugins and other tests, leaves a complete record, a line per failure."""
    run.plugins = None
    run.sums()
    run.write("test_other.py", "def test_fine():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n")
    done = run("--model", run.adder, "-n", workers)
    assert done.code == 1
    record = done.run
    assert record.keys() >= RUN_KEYS
    assert (record["schema"], record["complete"]) == (2, True)
    [row] = record["summary"]
    assert row.keys() == SUMMARY_KEYS
    assert (row["items"], row["correct"], row["wrong"], row["errors"]) == (12, 9, 3, 0)
    assert (row["accuracy"], row["ci_method"]) == (9 / 12, "clopper-pearson")
    assert len(done.verdicts) == 12
    assert all(v.keys() == VERDICT_KEYS for v in done.verdicts.values())
    wrong = {v["id"] for v in done.verdicts.values() if v["status"] == "wrong"}
    assert wrong == {"sums/0000", "sums/0005", "sums/0010"}
    assert {r["key"] for r in done.requests} == {k for v in done.verdicts.values() for k in v["requests"]}
    assert record["calls"].keys() >= CALL_KEYS
    assert "Traceback" not in done.output
    assert "wrong sums/0005: expected '6', given '5'" in done.output
    assert "assert 1 == 2" in done.output
    assert "4 failed, 10 passed" in done.output


def test_limit_takes_the_same_items_for_every_model(run: Runner) -> None:
    """--llm-limit chooses items by seed and id only."""
    run.sums(40)
    one = run("--model", "fake:echo", "--llm-limit", "7")
    two = run("--model", "fake:constant?text=3", "--llm-limit", "7")
    other = run("--model", "fake:echo", "--llm-limit", "7", "--llm-seed", "1")
    assert len(one.verdicts) == 7
    assert one.verdicts.keys() == two.verdicts.keys() != other.verdicts.keys()


def test_param_is_in_every_request(run: Runner) -> None:
    """--llm-param changes every request and its key, and is recorded."""
    run.sums(2)
    done = run("--model", run.adder, "--llm-param", "temperature=0.5", "--llm-param", "top_p=0.9")
    for request in done.requests:
        assert request["request"]["temperature"] == 0.5
        assert request["request"]["extra"] == {"top_p": 0.9}
    assert done.run["options"]["params"] == {"temperature": 0.5, "top_p": 0.9}
    again = run("--model", run.adder)
    assert again.run["calls"]["sent"] == 2


def test_plan_above_a_limit_is_refused(run: Runner) -> None:
    """A plan above --llm-max-calls or --llm-max-cost is refused in one line; nothing is sent, and the session fails."""
    run.sums()
    for options, said in (
        (("fake:echo", "--llm-max-calls", "5", "-n", "2"), "the plan needs 12 calls"),
        (
            ("fake:echo?price_in=1000000&price_out=1000000", "--llm-max-cost", "0.5"),
            "above --llm-max-cost 0.5",
        ),
    ):
        done = run("--model", *options)
        assert done.code not in (0, 5)
        line = next(line for line in done.output.splitlines() if "refused to start: " in line)
        assert said in line
        assert "no run was recorded" in done.output
        assert not done.folder.exists()
    with closing(sqlite3.connect(run.store)) as db:
        assert db.execute("SELECT count(*) FROM replies").fetchone() == (0,)


def test_spent_budget_stops_the_run(run: Runner) -> None:
    """A run that reaches --llm-max-calls stops, keeps its verdicts and says how many are missing."""
    run.sums()
    failing = run.write("flaky.py", FLAKY)
    done = run("--model", f"fake:call?file={failing}", "--llm-max-calls", "15", "--llm-concurrency", "1")
    assert done.code == 2
    assert "--llm-max-calls 15 is spent" in done.output
    assert done.run["calls"]["sent"] == 15
    assert done.run["complete"] is False
    answered = [v for v in done.verdicts.values() if v["status"] == "correct"]
    assert 4 <= len(answered) < 12
    assert f"INCOMPLETE: {12 - len(done.verdicts)} of 12 cases have no verdict" in done.output


def test_cases_are_selected_by_node_id(run: Runner) -> None:
    """Only cases named on the command line are collected; an unknown node id is pytest's usual error."""
    run.sums(50)
    ids = [f"test_sums.py::test_sums[fake-echo-sums/{n:04d}]" for n in (7, 31)]
    done = run("--model", "fake:echo", "-n", "2", *ids)
    assert set(done.verdicts) == {"sums/0007", "sums/0031"}
    assert done.run["complete"] is True
    listed = run("--model", "fake:echo", "--collect-only", "-q")
    assert ids[0] in listed.output
    assert not listed.folder.exists()
    assert run("--model", "fake:echo", "test_sums.py::test_sums[nosuch]").code == 4


def test_ini_keys_are_defaults(run: Runner) -> None:
    """Options can be set as ini keys; the command line takes precedence."""
    run.sums(6)
    run.write("pytest.ini", f"[pytest]\nllm_model = {run.adder}\nllm_limit = 2\nllm_seed = 5\n")
    assert len(run().verdicts) == 2
    done = run("--llm-limit", "3")
    assert len(done.verdicts) == 3
    assert done.run["options"]["seed"] == 5


def test_cost_has_the_date_of_its_prices(run: Runner) -> None:
    """Plan and summary name the file of ``llm_prices`` and its date."""
    run.sums(2)
    table = '{"date": "2026-01-02", "usd_per_million_tokens": {"call": [1000, 1000]}}'
    options = ("--model", run.adder, "-o", f"llm_prices={run.write('mine.json', table)}")
    assert "  prices: mine.json, 2026-01-02" in run(*options, "--llm-plan").output
    refused = run(*options, "--llm-max-cost", "0.001").output
    assert "USD, above --llm-max-cost 0.001" in refused
    assert " USD (prices: mine.json, 2026-01-02)" in run(*options).output
    bad = run(*options[:2], "-o", f"llm_prices={run.folder / 'none.json'}")
    assert (bad.code, bad.folder.exists()) == (4, False)
    assert "ERROR: prices: cannot read" in bad.output


def test_live_line_on_a_terminal(run: Runner) -> None:
    """Until the summary, one line shows cases done, calls per second, calls in flight and verdicts.

    Under CI, with -v and in a file, there is no live line.
    """
    run.sums(20)
    args = ("--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "4", "--llm-cache", "off")
    shown = on_terminal(run, *args, "-n", "2")
    lines = [line for line in shown.split("\r") if "llmprops:" in line and "/20 cases" in line]
    assert len(lines) >= 3
    assert "calls/s" in lines[-1]
    assert "4 in flight" in "".join(lines)
    assert "correct" in lines[-1]
    assert all("\n" not in line.strip("\n") for line in lines[:-1])
    assert shown.index("run record:") > shown.rindex("/20 cases")
    run.sums(8)
    for quiet in (
        on_terminal(run, *args, env={"CI": "true"}),
        on_terminal(run, *args, "-v"),
        run(*args).output,
    ):
        assert "/8 cases" not in quiet
        assert "run record:" in quiet
