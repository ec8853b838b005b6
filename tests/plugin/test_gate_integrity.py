"""A gated run does not judge a baseline or a record that was changed."""

from __future__ import annotations

import json

from tests.support.gated_runs import baseline, gate, recorded_gate
from tests.support.runs import Runner

#: changes a line of the record after the 30th case
CHANGING = """
from pathlib import Path
finished = []

def pytest_runtest_logfinish(nodeid):
    finished.append(nodeid)
    if len(finished) == 30:
        path = Path("run-1/verdicts.jsonl")
        path.write_bytes(path.read_bytes().replace(b'"wrong"', b'"refused"', 1))
"""


def test_changed_baseline_is_refused_before_the_first_call(run: Runner, workers: str) -> None:
    """A baseline whose files contradict each other is refused with one line."""
    run.sums(40)
    old = baseline(run, "c" * 40)
    path = old / "verdicts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"correct"', b'"wrong"', 1))
    words = ("--llm-gate", str(gate(run, max_drop=0.5)), "--llm-baseline", str(old))
    done = run("--model", run.adder, "-n", workers, *words)
    assert done.code == 4, done.output
    assert f"--llm-baseline {old}: run.json has correct 40 of sums/add/en/builtin" in done.output
    assert not (done.folder / "run.json").exists()


def test_record_that_is_changed_during_the_run_is_invalid(run: Runner) -> None:
    """The hashes are those of the verdicts that were reported, so the gate of the run and later ones see the change."""
    run.sums(40)
    run.write("conftest.py", CHANGING)
    file = gate(run, min_accuracy=0.1)
    done = run("--model", run.adder, "-n", "0", "--llm-gate", str(file))
    assert (done.run["gate"]["decision"], done.code) == ("invalid", 1), done.output
    reason = "this run: verdicts.jsonl was changed after the run"
    assert done.run["gate"]["reasons"][0].startswith(reason)
    again = recorded_gate(run, done, file)
    assert again.code == 1
    assert "this run: run.json has wrong 8 of sums/add/en/builtin, verdicts.jsonl has 7" in again.output


def test_hash_of_the_requests_is_of_the_whole_file(run: Runner, workers: str) -> None:
    """The broker appends to the requests until it is closed; the hash is computed afterwards."""
    run.sums(40)
    file = gate(run, min_accuracy=0.1)
    done = run("--model", run.adder, "-n", workers, "--llm-gate", str(file))
    assert len(done.requests) == 40
    assert set(done.run["files"]) == {"verdicts.jsonl", "requests.jsonl"}
    again = recorded_gate(run, done, file)
    assert (again.code, done.code) == (0, 0), again.output
    facts = json.loads((done.folder / "run.json").read_text())
    facts["options"]["limit"] = 3
    (done.folder / "run.json").write_text(json.dumps(facts))
    again = recorded_gate(run, done, file)
    assert again.code == 1
    assert "invalid: this run: run.json was changed after the run" in again.output
