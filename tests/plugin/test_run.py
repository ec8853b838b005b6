"""Whole runs with a fake model, in one process and with workers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.support.runs import Runner

SUMMARY_KEYS = {
    "model", "benchmark", "task", "language", "source", "items", "clusters", "samples", "answered",
    "errors", "correct", "wrong", "refused", "unparsed", "accuracy", "ci_low", "ci_high", "ci_method",
    "between_items", "within_items", "cluster_accuracy", "cluster_ci_low", "cluster_ci_high",
}  # fmt: skip
VERDICT_KEYS = {
    "model", "benchmark", "task", "language", "source", "id", "cluster", "sample", "status", "score",
    "expected", "given", "reason", "values", "evidence", "requests",
}  # fmt: skip
RUN_KEYS = {
    "schema", "run_id", "started", "finished", "complete", "models", "helpers", "protocols", "options",
    "versions", "git", "data", "deviations", "calls", "summary", "metrics",
}  # fmt: skip


def test_record_has_every_required_field(run: Runner, workers: str) -> None:
    """A finished run, beside all installed plugins, leaves a complete record with the counts of its verdicts."""
    run.plugins = None
    run.sums()
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
    assert {
        "requests",
        "cache_hits",
        "retries",
        "prompt_tokens",
        "completion_tokens",
        "cost_usd",
        "seconds",
    } <= (record["calls"].keys())


def test_node_ids_name_model_and_item(run: Runner) -> None:
    """A node id is test[<model label>-<item id>], so that -k selects by either."""
    run.sums()
    done = run("--model", "fake:echo", "--collect-only", "-q")
    assert "test_sums.py::test_sums[fake-echo-sums/0003]" in done.output
    assert not done.folder.exists()


def test_second_run_uses_the_store(run: Runner, workers: str) -> None:
    """A repeated run sends no call and has the same verdicts."""
    run.sums()
    first = run("--model", run.adder, "-n", workers)
    second = run("--model", run.adder, "-n", workers)
    assert first.run["calls"]["sent"] == 12
    assert (second.run["calls"]["sent"], second.run["calls"]["cache_hits"]) == (0, 12)
    before, after = ({k: v["status"] for k, v in one.verdicts.items()} for one in (first, second))
    assert before == after
    assert "12 from the store" in second.output


def test_wrong_answer_is_one_line(run: Runner, workers: str) -> None:
    """A wrong answer fails its case in one line without a traceback, and the summary lists it."""
    run.sums()
    done = run("--model", run.adder, "-n", workers)
    assert "Traceback" not in done.output
    assert "wrong sums/0005: expected '6', given '5'" in done.output
    assert "3 failed, 9 passed" in done.output


def test_without_a_model_suites_are_skipped(run: Runner) -> None:
    """Without --model, one skip says what to pass, and no slow package is imported."""
    run.fresh = True
    run.sums()
    run.write(
        "conftest.py",
        "import sys\n"
        "def pytest_sessionfinish():\n"
        "    heavy = {'openai', 'numpy', 'scipy', 'torch', 'sqlite3', 'asyncio', 'pytest_llmprops.engine'}\n"
        "    print('HEAVY', sorted(heavy & set(sys.modules)))\n",
    )
    done = run("-s", "-p", "no:xdist")
    assert done.code == 0
    assert done.output.count("no model chosen: pass --model SPEC") == 1
    # The suite imports a benchmark class, but that needs only the core.
    assert "HEAVY []" in done.output


def test_each_model_has_its_own_cases(run: Runner) -> None:
    """--model may be repeated; each model has its own cases and summary rows."""
    run.sums(4)
    done = run("--model", run.adder, "--model", "fake:constant?text=2")
    assert [row["model"] for row in done.run["summary"]] == [
        "fake-call-file=" + _safe(run),
        "fake-constant-text=2",
    ]
    assert len(json.loads((done.folder / "run.json").read_text())["models"]) == 2


def _safe(run: Runner) -> str:
    import re

    return re.sub(r"[^A-Za-z0-9._=-]+", "_", str(run.folder / "adder.py"))


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


def test_plan_sends_nothing(run: Runner) -> None:
    """--llm-plan prints the number of calls and makes none, with or without workers."""
    run.sums()
    for n in ("0", "2"):
        done = run("--model", run.adder, "--llm-plan", "-n", n)
        assert done.code == 0
        assert "no call is made" in done.output
        assert " 12 " in next(line for line in done.output.splitlines() if line.startswith("  sums"))
        assert not done.folder.exists()


def test_plan_above_the_budget_is_refused(run: Runner, workers: str) -> None:
    """A plan above --llm-max-calls is refused in one line; nothing is sent, and the session fails."""
    run.sums()
    done = run("--model", run.adder, "--llm-max-calls", "5", "-n", workers)
    assert done.code not in (0, 5)
    assert "refused to start: the plan needs 12 calls" in done.output
    assert "no run was recorded" in done.output
    assert not done.folder.exists()
    assert not _stored(run)


def _stored(run: Runner) -> int:
    """Return the number of stored replies."""
    with closing(sqlite3.connect(run.store)) as db:
        return int(db.execute("SELECT count(*) FROM replies").fetchone()[0])


def test_stored_replies_do_not_count_against_the_budget(run: Runner) -> None:
    run.sums()
    run("--model", run.adder)
    done = run("--model", run.adder, "--llm-max-calls", "1")
    assert len(done.verdicts) == 12


def test_spent_budget_stops_the_run(run: Runner) -> None:
    """A run that reaches --llm-max-calls stops, keeps its verdicts and says how many are missing."""
    run.sums()
    failing = run.write(
        "flaky.py",
        "from pytest_llmprops import BackendError\nseen = {}\n"
        "def reply(chat):\n"
        "    n = int(chat.messages[-1].content.split()[0])\n"
        "    if n not in seen and n > 3:\n"
        "        seen[n] = 1\n"
        "        return BackendError('again', kind='status 500', transient=True)\n"
        "    return str(n + 1)\n",
    )
    done = run("--model", f"fake:call?file={failing}", "--llm-max-calls", "15", "--llm-concurrency", "1")
    assert done.code == 2
    assert "--llm-max-calls 15 is spent" in done.output
    assert done.run["calls"]["sent"] == 15
    assert done.run["complete"] is False
    answered = [v for v in done.verdicts.values() if v["status"] == "correct"]
    assert 4 <= len(answered) < 12
    assert f"INCOMPLETE: {12 - len(done.verdicts)} of 12 cases have no verdict" in done.output


def test_plan_above_the_cost_limit_is_refused(run: Runner) -> None:
    """A plan whose price is above --llm-max-cost is refused, and nothing is sent."""
    run.sums()
    done = run("--model", "fake:echo?price_in=1000000&price_out=1000000", "--llm-max-cost", "0.5")
    assert "above --llm-max-cost 0.5" in done.output
    assert not done.folder.exists()
    assert not _stored(run)


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


def test_refresh_and_off_ask_again(run: Runner) -> None:
    """--llm-cache refresh and off both send every call, and the store has one reply per request."""
    run.sums(3)
    run("--model", run.adder)
    assert run("--model", run.adder, "--llm-cache", "refresh").run["calls"]["sent"] == 3
    assert run("--model", run.adder, "--llm-cache", "off").run["calls"]["sent"] == 3
    with sqlite3.connect(run.store) as db:
        assert db.execute("SELECT count(*) FROM replies").fetchone() == (3,)


def test_junit_has_the_status_of_each_verdict(run: Runner, workers: str) -> None:
    run.sums(3)
    run("--model", run.adder, "-n", workers, "--junitxml", "out.xml")
    text = (run.folder / "out.xml").read_text(encoding="utf-8")
    assert text.count('name="llmprops.status" value="correct"') == 2
    assert text.count('name="llmprops.status" value="wrong"') == 1


def test_ordinary_tests_run_with_the_cases(run: Runner, workers: str) -> None:
    """Ordinary tests in the same session, with all installed plugins, keep their results and tracebacks."""
    run.plugins = None
    run.sums(4)
    run.write("test_other.py", "def test_fine():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n")
    done = run("--model", run.adder, "-n", workers)
    assert "assert 1 == 2" in done.output
    assert "2 failed, 4 passed" in done.output
    assert done.run["complete"] is True


def test_cases_are_selected_by_node_id(run: Runner, workers: str) -> None:
    """Only cases named on the command line are collected; an unknown node id is pytest's usual error."""
    run.sums(50)
    label = (
        run("--model", "fake:echo", "--collect-only", "-q")
        .output.splitlines()[0]
        .partition("[")[2]
        .partition("-sums")[0]
    )
    ids = [f"test_sums.py::test_sums[{label}-sums/{n:04d}]" for n in (7, 31)]
    done = run("--model", "fake:echo", "-n", workers, *ids)
    assert list(done.verdicts) == ["sums/0007", "sums/0031"] or set(done.verdicts) == {
        "sums/0007",
        "sums/0031",
    }
    assert done.run["complete"] is True
    if workers == "0":
        assert "collected 2 items" in done.output
    missing = run("--model", "fake:echo", "test_sums.py::test_sums[nosuch]")
    assert missing.code == 4


SEGMENTER = """
from pytest_llmprops import Reply, register_model

class Segmenter:
    identity = {"backend": "cutter"}
    pinned, max_batch, blocking = True, 1, True
    def segment(self, requests):
        return [Reply(value=list(r.text)) for r in requests]
    def deviations(self):
        return ()
    def close(self):
        pass

register_model("cutter", lambda spec, options: Segmenter(), kinds=["segment"])
"""


def test_items_not_served_are_counted(run: Runner, workers: str) -> None:
    """Items that a model cannot serve are counted as not served and get no verdict."""
    run.sums(7)
    run.write("conftest.py", SEGMENTER)
    done = run("--model", "cutter", "--model", run.adder, "-n", workers)
    assert "not served: 7 sums items" in done.output
    assert len(done.verdicts) == 7
    assert done.run["not_served"] == {"sums": {"cutter": 7}}
    alone = run("--model", "cutter", "-n", workers)
    assert alone.code == 5
    assert "not served: 7 sums items" in alone.output


def test_workers_import_no_sdk(run: Runner) -> None:
    """Workers and controller import no SDK and no numerical library."""
    run.fresh = True
    run.sums(4)
    run.write(
        "conftest.py",
        "import os, sys, pathlib\n"
        "def pytest_sessionfinish():\n"
        "    heavy = {'openai', 'pydantic', 'httpx', 'httpx2', 'numpy', 'scipy', 'torch', 'tenacity'}\n"
        "    name = os.environ.get('PYTEST_XDIST_WORKER', 'controller')\n"
        "    pathlib.Path(f'heavy-{name}').write_text(repr(sorted(heavy & set(sys.modules))))\n",
    )
    run("--model", run.adder, "-n", "2")
    assert {p.name: p.read_text() for p in run.folder.glob("heavy-*")} == {
        "heavy-controller": "[]", "heavy-gw0": "[]", "heavy-gw1": "[]",
    }  # fmt: skip


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
    """Plan, refusal and summary name the file of --llm-prices and its date; the record has the price of the model."""
    run.sums(2)
    table = '{"date": "2026-01-02", "usd_per_million_tokens": {"call": [1000, 1000]}}'
    options = ("--model", run.adder, "--llm-prices", str(run.write("mine.json", table)))
    assert "  prices: mine.json, 2026-01-02" in run(*options, "--llm-plan").output
    refused = run(*options, "--llm-max-cost", "0.001").output
    assert "USD (prices: mine.json, 2026-01-02), above --llm-max-cost 0.001" in refused
    done = run(*options)
    assert " USD (prices: mine.json, 2026-01-02)" in done.output
    [model] = done.run["models"].values()
    assert model["price"] == {"input": 1000.0, "output": 1000.0, "source": "mine.json, 2026-01-02"}
    bad = run(*options[:2], "--llm-prices", str(run.folder / "none.json"))
    assert (bad.code, bad.folder.exists()) == (4, False)
    assert "ERROR: prices: cannot read" in bad.output
