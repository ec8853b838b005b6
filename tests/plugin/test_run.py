"""Whole runs with a fake model, in one process and with workers."""

from __future__ import annotations

from tests.support.runs import Runner
from tests.support.terminal import answering

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


def test_ini_keys_are_defaults(run: Runner) -> None:
    """Options can be set as ini keys; the command line takes precedence."""
    run.sums(6)
    run.write("pytest.ini", f"[pytest]\nllm_model = {run.adder}\nllm_limit = 2\nllm_seed = 5\n")
    assert len(run().verdicts) == 2
    done = run("--llm-limit", "3")
    assert len(done.verdicts) == 3
    assert done.run["options"]["seed"] == 5


def test_live_line_on_a_terminal(run: Runner) -> None:
    """Until the summary, one line shows cases done, calls per second, calls in flight and verdicts.

    Under CI, with -v and in a file, there is no live line.
    """
    run.sums(20)
    args = ("--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "4", "--llm-cache", "off")
    _, shown = answering(run, *args, "-n", "2")
    lines = [line for line in shown.split("\r") if "llmprops:" in line and "/20 cases" in line]
    assert len(lines) >= 3
    assert "calls/s" in lines[-1]
    assert "4 in flight" in "".join(lines)
    assert "correct" in lines[-1]
    assert all("\n" not in line.strip("\n") for line in lines[:-1])
    assert shown.index("run record:") > shown.rindex("/20 cases")
    run.sums(8)
    for quiet in (
        answering(run, *args, env={"CI": "true"})[1],
        answering(run, *args, "-v")[1],
        run(*args).output,
    ):
        assert "/8 cases" not in quiet
        assert "run record:" in quiet
