"""Whole runs with a fake model, in one process and with workers."""

from __future__ import annotations

import json
import sqlite3
import xml.etree.ElementTree as ET
from contextlib import closing

import pytest

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
#: notes what other plugins see of each report
WATCH = """
import json
import pytest

SEEN = []

@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    SEEN.append([report.when, [name for name, _ in report.user_properties], sorted(vars(report))])

def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        with open("seen.json", "w") as file:
            json.dump(SEEN, file)
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
    assert record["schema"] == 2
    assert record["complete"] is True
    [row] = record["summary"]
    assert row.keys() == SUMMARY_KEYS
    assert (row["items"], row["correct"], row["wrong"], row["errors"]) == (12, 9, 3, 0)
    assert row["accuracy"] == pytest.approx(9 / 12)
    assert row["ci_method"] == "clopper-pearson"
    assert len(done.verdicts) == 12
    assert all(v.keys() == VERDICT_KEYS for v in done.verdicts.values())
    assert {v["id"] for v in done.verdicts.values() if v["status"] == "wrong"} == {
        "sums/0000", "sums/0005", "sums/0010",
    }  # fmt: skip
    assert {r["key"] for r in done.requests} == {k for v in done.verdicts.values() for k in v["requests"]}
    assert record["calls"].keys() >= CALL_KEYS
    assert "Traceback" not in done.output
    assert "wrong sums/0005: expected '6', given '5'" in done.output
    assert "assert 1 == 2" in done.output
    assert "4 failed, 10 passed" in done.output


def test_second_run_uses_the_store(run: Runner) -> None:
    """A repeated run sends no call, has the same verdicts, and is within any limit of calls."""
    run.sums()
    first = run("--model", run.adder, "-n", "2")
    second = run("--model", run.adder, "-n", "2", "--llm-max-calls", "1")
    assert first.run["calls"]["sent"] == 12
    assert (second.run["calls"]["sent"], second.run["calls"]["cache_hits"]) == (0, 12)
    before, after = ({k: v["status"] for k, v in one.verdicts.items()} for one in (first, second))
    assert before == after
    assert "12 from the store" in second.output


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


@pytest.mark.parametrize(
    ("model", "limit", "said", "workers"),
    [
        ("fake:echo", ("--llm-max-calls", "5"), "the plan needs 12 calls", "0"),
        ("fake:echo", ("--llm-max-calls", "5"), "the plan needs 12 calls", "2"),
        (
            "fake:echo?price_in=1000000&price_out=1000000",
            ("--llm-max-cost", "0.5"),
            "above --llm-max-cost 0.5",
            "0",
        ),
    ],
)
def test_plan_above_a_limit_is_refused(
    run: Runner, model: str, limit: tuple[str, ...], said: str, workers: str
) -> None:
    """A plan above --llm-max-calls or --llm-max-cost is refused in one line; nothing is sent, and the session fails."""
    run.sums()
    done = run("--model", model, *limit, "-n", workers)
    assert done.code not in (0, 5)
    assert "refused to start: " in done.output
    assert said in done.output
    assert "no run was recorded" in done.output
    assert not done.folder.exists()
    assert not _stored(run)


def _stored(run: Runner) -> int:
    """Return the number of stored replies."""
    with closing(sqlite3.connect(run.store)) as db:
        return int(db.execute("SELECT count(*) FROM replies").fetchone()[0])


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


def test_cache_only_names_the_first_missing_request(run: Runner) -> None:
    """--llm-cache only stops the run at the first request without a stored reply."""
    run.sums(3)
    run("--model", run.adder)
    run.sums(4)
    done = run("--model", run.adder, "--llm-cache", "only")
    assert "no stored reply" in done.output
    assert "'3 + 1 ='" in done.output
    assert len(done.verdicts) == 3
    assert done.code == 2


def test_cases_are_selected_by_node_id(run: Runner, workers: str) -> None:
    """Only cases named on the command line are collected; an unknown node id is pytest's usual error."""
    run.sums(50)
    ids = [f"test_sums.py::test_sums[fake-echo-sums/{n:04d}]" for n in (7, 31)]
    done = run("--model", "fake:echo", "-n", workers, *ids)
    assert set(done.verdicts) == {"sums/0007", "sums/0031"}
    assert done.run["complete"] is True
    if workers == "0":
        assert "collected 2 items" in done.output
    listed = run("--model", "fake:echo", "--collect-only", "-q")
    assert ids[0] in listed.output
    assert not listed.folder.exists()
    missing = run("--model", "fake:echo", "test_sums.py::test_sums[nosuch]")
    assert missing.code == 4


def test_ini_keys_are_defaults(run: Runner) -> None:
    """Options can be set as ini keys; the command line takes precedence."""
    run.sums(6)
    run.write("pytest.ini", f"[pytest]\nllm_model = {run.adder}\nllm_limit = 2\nllm_seed = 5\n")
    assert len(run().verdicts) == 2
    done = run("--llm-limit", "3")
    assert len(done.verdicts) == 3
    assert done.run["options"]["seed"] == 5


LOCAL = """
import os
from pytest_llmprops import Reply, register_model

class Local:
    identity = {"backend": "local"}
    pinned, max_batch, blocking = True, 4, True
    def chat(self, requests):
        with open("served-by", "a") as file:
            file.write(f"{os.getpid()}\\n" * len(requests))
        return [Reply(str(len(r.prompt))) for r in requests]
    def deviations(self):
        return ()
    def close(self):
        pass

register_model("local", lambda spec, options: Local())
"""


def test_local_model_runs_in_one_process(run: Runner) -> None:
    """With several workers, one process serves all calls of a local model."""
    run.sums(30)
    run.write("conftest.py", LOCAL)
    done = run("--model", "local", "-n", "3")
    assert len(done.verdicts) == 30
    pids = (run.folder / "served-by").read_text(encoding="utf-8").split()
    assert len(pids) == 30
    assert len(set(pids)) == 1


def test_cost_has_the_date_of_its_prices(run: Runner) -> None:
    """Plan, refusal and summary name the file of ``llm_prices`` and its date; the record has the price of the model."""
    run.sums(2)
    table = '{"date": "2026-01-02", "usd_per_million_tokens": {"call": [1000, 1000]}}'
    options = ("--model", run.adder, "-o", f"llm_prices={run.write('mine.json', table)}")
    assert "  prices: mine.json, 2026-01-02" in run(*options, "--llm-plan").output
    refused = run(*options, "--llm-max-cost", "0.001").output
    assert "USD (prices: mine.json, 2026-01-02), above --llm-max-cost 0.001" in refused
    done = run(*options)
    assert " USD (prices: mine.json, 2026-01-02)" in done.output
    [model] = done.run["models"].values()
    assert {name: value for name, value in model["price"].items() if value is not None} == {
        "input": 1000.0, "output": 1000.0, "source": "mine.json, 2026-01-02",
    }  # fmt: skip
    bad = run(*options[:2], "-o", f"llm_prices={run.folder / 'none.json'}")
    assert (bad.code, bad.folder.exists()) == (4, False)
    assert "ERROR: prices: cannot read" in bad.output


def test_other_plugins_see_no_typed_report(run: Runner, workers: str) -> None:
    """Other plugins see a report with the JUnit properties and pytest's own attributes only."""
    run.sums(6)
    run.write("conftest.py", WATCH)
    xml = run.folder / "junit.xml"
    done = run("--model", run.adder, "-n", workers, f"--junitxml={xml}", "-o", "junit_family=xunit1")
    assert len(done.verdicts) == 6
    seen = json.loads((run.folder / "seen.json").read_text())
    assert sum(when == "call" for when, _, _ in seen) == 6
    names = {name for _, properties, _ in seen for name in properties}
    assert "llmprops.status" in names
    assert all(name.startswith("llmprops.") for name in names)
    assert not [name for _, _, attributes in seen for name in attributes if "llmprops" in name]
    written = {p.get("name") for p in ET.parse(xml).getroot().iter("property")}
    assert written == names


def test_live_line_on_a_terminal(run: Runner, workers: str) -> None:
    """Until the summary, one line shows cases done, calls per second, calls in flight and verdicts."""
    run.sums(28)
    shown = on_terminal(run, "--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "4", "-n", workers)
    lines = [line for line in shown.split("\r") if "llmprops:" in line and "/28 cases" in line]
    assert len(lines) >= 3
    assert "calls/s" in lines[-1]
    assert "4 in flight" in "".join(lines)
    assert "correct" in lines[-1]
    assert all("\n" not in line.strip("\n") for line in lines[:-1])
    assert shown.index("run record:") > shown.rindex("/28 cases")


@pytest.mark.parametrize("quiet", ["ci", "verbose", "file"])
def test_no_live_line_elsewhere(run: Runner, quiet: str) -> None:
    """Under CI, with -v and in a file, there is no live line."""
    run.sums(8)
    args = ("--model", f"{run.adder}&delay=0.4", "--llm-concurrency", "4")
    if quiet == "file":
        shown = run(*args).output
    else:
        verbose = ["-v"] if quiet == "verbose" else []
        shown = on_terminal(run, *args, *verbose, env={"CI": "true"} if quiet == "ci" else {})
    assert "/8 cases" not in shown
    assert "run record:" in shown
