"""``--llm-resume`` continues a run that was killed, interrupted or stopped, or that has errors."""

from __future__ import annotations

import fcntl
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.stub_server import RunningStub
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.plugin.resuming import check_cases
from pytest_llmprops.records.messages import AlreadyMeasured, CollectionMetadata
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.reader import read_run
from tests.support.commands import one_error, until
from tests.support.gated_runs import command, gate
from tests.support.runs import Finished, Runner

#: adds, and fails at the sums below the number in a file
FAILING = """
from collections.abc import Callable
from pathlib import Path

def reply(chat):
    n = int(chat.messages[-1].content.split()[0])
    with open(Path(__file__).with_name("asked.txt"), "a") as asked:
        asked.write(f"{n}\\n")
    if n < int(Path(__file__).with_name("failing.txt").read_text()):
        return RuntimeError("overloaded")
    return str(n + 1 if n % 5 else n)
"""


def _with_errors(run: Runner, failing: int = 3) -> None:
    run.sums()
    run.write("adder.py", FAILING)
    run.write("failing.txt", str(failing))
    run.write("asked.txt", "")


def _asked(run: Runner) -> list[int]:
    """Return the sums that the model was asked, and forget them."""
    file = run.folder / "asked.txt"
    numbers = sorted(map(int, file.read_text().split()))
    file.write_text("")
    return numbers


def _resume(run: Runner, first: Finished, *args: str) -> Finished:
    done = run("--llm-run", str(first.folder), "--llm-resume", *args)
    return Finished(done.code, done.output, first.folder)


def _change(done: Finished, **facts: object) -> None:
    """Change what ``run.json`` says of a run."""
    (done.folder / "run.json").write_text(json.dumps(done.run | facts), encoding="utf-8")


def test_errors_are_measured_again_and_verdicts_stay(run: Runner, workers: str) -> None:
    """A resumed run asks only about the errors; its record is that of one run, complete and consistent."""
    _with_errors(run)
    options = ("--model", run.adder, "--llm-cache", "off", "-o", "llm_retries=0", "-n", workers)
    first = run(*options)
    assert first.run["summary"][0]["errors"] == 3
    started, asked = first.run["started"], _asked(run)
    assert len(asked) == 12
    run.write("failing.txt", "0")
    done = _resume(run, first, *options)
    assert _asked(run) == [0, 1, 2]
    assert "9 deselected" in done.output or workers == "2"
    record = read_run(first.folder)
    assert not record.problems
    assert record.notes == ()
    assert (record.facts.complete, record.facts.expected, len(record.records)) == (True, 12, 12)
    assert (record.facts.started, record.facts.calls.answered) == (started, 12)
    [row] = record.facts.summary
    assert (row.correct, row.wrong, row.errors) == (9, 3, 0)
    assert "9 verdicts kept, 3 errors measured again" in done.output
    # As a run in one piece: two of the kept verdicts are wrong.
    assert done.code == 1
    assert {r["key"] for r in done.requests} >= {k for v in done.verdicts.values() for k in v["requests"]}


#: what is different, options, and what the line says
DIFFERENT = {
    "limit": (("--llm-limit", "5"), "--llm-limit (none), not 5"),
    "protocol": (("--llm-param", "temperature=1"), "--llm-param (none), not temperature=1"),
    "protocol in workers": (("--llm-param", "top_p=1", "-n", "2"), "--llm-param (none), not top_p=1"),
    "model": (("--model", "fake:echo"), "name the same models"),
    "selection": (("-k", "0003"), "select the same tests"),
    "items": (("-n", "2"), "select the same tests"),
    "in use": ((), "another process is writing this run"),
    "baseline": ((), "is a baseline; resume the run the-run"),
}


def test_another_run_is_refused(run: Runner) -> None:
    """Another model, protocol or selection is refused in one line; no verdict is lost and no call is made.

    So is a record that another process writes, and that of a baseline.
    """
    _with_errors(run)
    model = ("--model", run.adder, "-o", "llm_retries=0")
    first = run(*model)
    _asked(run)
    for difference, (args, said) in DIFFERENT.items():
        run.sums(13 if difference == "items" else 12)
        run.write("adder.py", FAILING)
        if difference == "baseline":
            _change(first, promoted_from="the-run")
        before = {file.name: file.read_bytes() for file in first.folder.iterdir()}
        with open(first.folder / "verdicts.jsonl", "ab") as file:
            if difference == "in use":
                fcntl.flock(file, fcntl.LOCK_EX)
            done = _resume(run, first, *model, *args)
        assert done.code == 4, done.output
        assert len([line for line in done.output.splitlines() if said in line]) == 1, done.output
        assert _asked(run) == []
        assert {file.name: file.read_bytes() for file in first.folder.iterdir()} == before


def test_resume_needs_a_run(run: Runner) -> None:
    """--llm-resume without a run is refused in one line that says how to name one."""
    run.sums()
    for folder, said in (("", "--llm-run DIR"), ("nosuch", "nosuch: has no run.json")):
        done = run("--model", run.adder, "--llm-resume", "--llm-run", folder)
        assert (done.code, said in done.output) == (4, True)
        assert not (run.folder / "nosuch").exists()


@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGINT, "2"), (signal.SIGKILL, "2"), (signal.SIGKILL, "0")]
)
def test_ended_run_is_resumed(
    run: Runner, start_stub: Callable[..., RunningStub], workers: str, number: signal.Signals
) -> None:
    """A run that was interrupted or killed names the right numbers, and is completed without a repeated verdict."""
    run.sums(200)
    stub = start_stub(delay=0.05)
    model = ("--model", "openai:stub", "--llm-base-url", stub.url, "--llm-concurrency", "8", "-n", workers)
    started = run.start(*model)
    folder = started.folder
    until(lambda: _lines(folder) >= 30)
    started.check()
    started.send(number, to_all=True)
    first = started.end()
    kept = _lines(folder)
    early = read_run(folder)
    assert (early.facts.complete, early.facts.expected) == (False, 200)
    assert early.facts.protocols["sums"].name == "quick"
    if number == signal.SIGINT:
        assert first.code == 2
        assert f"INCOMPLETE: {200 - kept} of 200 cases have no verdict" in first.output
    else:
        for name in ("verdicts.jsonl", "requests.jsonl"):
            with open(folder / name, "a") as file:
                file.write('{"key": "torn", "model": "cut')
    done = _resume(run, first, *model)
    assert "torn" not in (folder / "requests.jsonl").read_text(encoding="utf-8")
    record = read_run(folder)
    assert (record.problems, record.facts.complete, len(record.records)) == ((), True, 200)
    assert f"{kept} verdicts kept" in done.output
    assert not list(folder.glob(".*"))


#: sends Ctrl-C when the fifth verdict is in the file, before the record has noted it
INTERRUPTING = """
import os, signal
from pytest_llmprops.runs import record

append, written = record.append_whole, []

def interrupting(file, raw, size):
    append(file, raw, size)
    written.append(raw)
    if len(written) == 5:
        os.kill(os.getpid(), signal.SIGINT)

record.append_whole = interrupting
"""


def test_ctrl_c_while_a_verdict_is_written_leaves_a_consistent_record(run: Runner) -> None:
    """A verdict is either in the file and in the hashes of the record, or in none of them."""
    run.sums()
    run.write("conftest.py", INTERRUPTING)
    first = run("--model", run.adder, "-n", "2")
    assert "INCOMPLETE: 7 of 12 cases have no verdict" in first.output
    # The record has a problem: it is incomplete.
    assert not [problem for problem in read_run(first.folder).problems if "changed" in problem]
    run.write("conftest.py", "")
    done = _resume(run, first, "--model", run.adder, "-n", "2")
    record = read_run(first.folder)
    assert (record.problems, record.facts.complete, len(record.records)) == ((), True, 12)
    assert "5 verdicts kept" in done.output


def _lines(folder: Path) -> int:
    file = folder / "verdicts.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_samples_that_are_missing_run_alone(run: Runner) -> None:
    """Of an item with several samples, only those without a verdict are measured."""
    _with_errors(run, failing=0)
    options = ("--model", run.adder, "--llm-repeats", "3", "--llm-cache", "off")
    first = run(*options)
    _asked(run)
    lines = (first.folder / "verdicts.jsonl").read_text().splitlines()
    _change(first, finished=None, complete=False, files={}, summary=[], metrics=[])
    (first.folder / "verdicts.jsonl").write_text("\n".join(lines[:-4]) + "\n")
    _resume(run, first, *options)
    assert _asked(run) == [10, 11, 11, 11]
    assert read_run(first.folder).problems == ()


def test_run_that_never_began_leaves_no_record(run: Runner) -> None:
    """A run without a case, or that stops before its first call, leaves no folder."""
    run.sums()
    nothing = run("--model", run.adder, "-n", "2", "-k", "nosuch")
    assert nothing.code == 5
    assert not nothing.folder.exists()
    over = run("--model", run.adder, "-n", "2", "--llm-max-calls", "3")
    assert over.code == 2
    assert "; no run was recorded" in over.output
    assert not over.folder.exists()


def test_retry_repeats_the_command_of_a_run(run: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    """``llmprops run --resume RUN`` prints the run's own pytest command with --llm-resume, and completes the record."""
    _with_errors(run)
    first = run("--model", run.adder, "-o", "llm_retries=0", "--llm-limit", "10")
    run.write("failing.txt", "0")
    _asked(run)
    done = command(run, "run", "--resume", str(first.folder), "-q")
    assert f"--llm-limit=10 --llm-resume --llm-run={first.folder} -q\n" in done.output
    assert set(_asked(run)) <= {0, 1, 2}
    assert read_run(first.folder).facts.summary[0].errors == 0
    assert "no run 'nosuch'" in one_error(capsys, "run", "--resume", "nosuch")


def test_a_run_without_errors_is_not_resumed(run: Runner) -> None:
    """One line says so, and the record stays as it is."""
    run.sums()
    first = run("--model", run.adder)
    before = (first.folder / "run.json").read_bytes()
    done = _resume(run, first, "--model", run.adder)
    assert (done.code, "complete and has no errors" in done.output) == (4, True)
    assert (first.folder / "run.json").read_bytes() == before


def test_a_run_is_not_resumed_on_other_data(run: Runner) -> None:
    """If a file of the items has changed, the line names it; the items with verdicts would be other ones."""
    facts = RunMetadata("run", data={"items.jsonl": "1", "gone.jsonl": "1"}, expected=2)
    now = CollectionMetadata(cases=2, data={"items.jsonl": "1"})
    check_cases(run.folder, facts, AlreadyMeasured(), now)
    with pytest.raises(UsageError, match=r"the data changed since then \(items\.jsonl\)"):
        check_cases(run.folder, facts, AlreadyMeasured(), replace(now, data={"items.jsonl": "2"}))


def test_a_resumed_run_without_cases_has_the_status_of_its_gate(run: Runner) -> None:
    """A run that was killed after its last verdict is only completed and decided; a failed gate is no success.

    The summary names each package whose version differs from that of the first part.
    """
    run.sums(40)
    file = gate(run, min_accuracy=0.85)
    options = ("--model", run.adder, "-n", "2", "--llm-gate", str(file))
    first = run(*options)
    assert (first.code, first.run["gate"]["decision"]) == (6, "inconclusive"), first.output
    facts = first.run
    for name in ("content_sha256", "gate"):
        del facts[name]
    facts |= {"complete": False, "finished": None, "files": {}}
    facts["versions"]["pytest"] = "0.1"
    (first.folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    done = _resume(run, first, *options)
    assert (done.code, done.run["complete"]) == (6, True), done.output
    assert done.run["gate"]["decision"] == "inconclusive"
    assert "resumed with other versions: pytest 0.1 then," in done.output
