"""Runs with a failing server, broker or disk: no verdict is lost or guessed."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.stub_server import RunningStub
from tests.support.runs import Finished, Runner
from tests.support.servers import JsonHandler, serving

Stub = Callable[..., RunningStub]


def _statuses(done: Finished) -> dict[str, str]:
    return {name: row["status"] for name, row in done.verdicts.items()}


def _against(stub: RunningStub, *args: str) -> tuple[str, ...]:
    return ("--model", "openai:stub", "--llm-base-url", stub.url, *args)


def test_injected_faults_change_no_verdict(run: Runner, start_stub: Stub) -> None:
    """Replies with status 429 and 500 are retried, and every verdict is the same as without them."""
    run.sums(60)
    options = ("--llm-cache", "off", "-n", "2")
    calm = run(*_against(start_stub(delay=0.01)), *options)
    faulty = run(*_against(start_stub(delay=0.01, rate_429=0.1, rate_500=0.1, seed=3)), *options)
    assert len(calm.verdicts) == 60
    assert _statuses(calm) == _statuses(faulty)
    assert faulty.run["calls"]["retries"] > 0
    assert faulty.run["summary"][0]["errors"] == 0


def test_items_that_always_fail_are_errors_not_answers(run: Runner, start_stub: Stub) -> None:
    """Items whose calls always fail are errors and do not count in the accuracy."""
    run.sums(60)
    stub = start_stub(delay=0.01, always_500="7 + 1 =|23 + 1 =|41 + 1 =")
    done = run(*_against(stub), "-o", "llm_retries=2", "-n", "2")
    assert done.code == 1
    failed = {n for n, s in _statuses(done).items() if s == "error"}
    assert {"sums/0007", "sums/0023", "sums/0041"} <= failed
    [row] = done.run["summary"]
    assert row["errors"] == len(failed)
    assert row["correct"] + row["wrong"] + row["refused"] + row["unparsed"] == 60 - len(failed)
    assert row["accuracy"] == pytest.approx(row["correct"] / (60 - len(failed)))
    assert "backend error" in done.output
    assert "Traceback" not in done.output


def test_failing_server_stops_the_run(run: Runner, start_stub: Stub, workers: str) -> None:
    """If every call fails, the run stops within a minute, with no accuracy and a failing exit status."""
    run.sums(200)
    begun = time.monotonic()
    done = run(*_against(start_stub(delay=0.01, fail_all=True)), "-n", workers)
    assert done.code not in (0, 5)
    assert "calls in a row failed" in done.output
    assert all(row["accuracy"] is None for row in done.run["summary"])
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (("--model", "openai:missing"), {}, "missing"),
        (("--model", "openai:stub"), {"OPENAI_API_KEY": "wrong"}, "OPENAI_API_KEY"),
    ],
)
def test_wrong_key_or_model_stops_at_once(
    run: Runner, start_stub: Stub, args: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    """A wrong key or an unknown model ends the run after its first call, with one line that names it, and no record."""
    run.sums(200)
    stub = start_stub(delay=0.01)
    done = run(*args, "--llm-base-url", stub.url, env=env)
    assert done.code == 4
    [line] = [line for line in done.output.splitlines() if "ERROR" in line]
    assert said in line
    assert "Traceback" not in done.output
    assert stub.stats()["requests"] == 1
    assert not done.folder.exists()


class Hostile(JsonHandler):
    """Answers each sum with objects in place of texts and numbers, named as the parts of a broker's messages."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a call."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = int(body["messages"][-1]["content"].split()[0])
        array = {"__array__": "!!!", "type": "zz", "shape": [1]}
        choice = {
            "message": {"content": str(number + 1)},
            "logprobs": {"content": [{"token": array, "logprob": -1.0, "arrays": [array], "closed": "x"}]},
        }
        usage = {"prompt_tokens": True, "completion_tokens": array}
        self.send_json({"choices": [choice], "usage": usage, "cost_usd": "abc", "model": array, "id": 1})


def test_objects_in_place_of_texts_and_numbers_cost_no_reply(run: Runner, workers: str) -> None:
    """A run with a server whose answers have wrong types ends with the right verdicts."""
    run.sums(20)
    with serving(Hostile) as url:
        done = run("--model", "openai:m", "--llm-base-url", url, "-n", workers)
    assert set(_statuses(done).values()) == {"correct"}
    assert len(done.verdicts) == 20
    assert "Traceback" not in done.output


def test_rerun_after_kill_repeats_only_calls_in_flight(run: Runner, start_stub: Stub) -> None:
    """After kill -9, the same command repeats only the calls that were in flight."""
    run.sums(300)
    stub = start_stub(delay=0.1)
    started = run.start(*_against(stub, "--llm-concurrency", "16"))
    while stub.stats()["answered"] < 80:
        started.check()
        time.sleep(0.02)
    started.send(signal.SIGKILL)
    started.end()
    done = run(*_against(stub, "--llm-concurrency", "64"))
    assert len(done.verdicts) == 300
    stats = stub.stats()
    assert stats["distinct"] == 300
    assert stats["repeats"] <= 16


#: kills the controller when its broker has begun, before a worker collects
KILLED_BEFORE_COLLECTION = """
import os, pathlib, pytest, signal, time

@pytest.hookimpl(trylast=True)
def pytest_configure_node():
    mark, log = pathlib.Path("killed"), pathlib.Path("record/requests.jsonl")
    if not mark.exists():
        while not log.exists():
            time.sleep(0.01)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_killed_before_its_first_run_json_is_run_again(run: Runner, start_stub: Stub) -> None:
    """After kill -9 between the creation of requests.jsonl and of run.json, the same command just runs."""
    run.sums(12)
    run.write("conftest.py", KILLED_BEFORE_COLLECTION)
    folder = run.folder / "record"
    command = (*_against(start_stub(delay=0.01)), "-n", "2", "--llm-run", str(folder))
    run.start(*command).end()
    assert (folder / "requests.jsonl").read_bytes() == b""
    assert not (folder / "run.json").exists()
    done = replace(run(*command), folder=folder)
    assert len(done.verdicts) == 12
    assert done.run["complete"] is True


def test_interrupt_leaves_a_valid_incomplete_record(run: Runner, start_stub: Stub, workers: str) -> None:
    """Ctrl-C ends the run with status 2 and a readable record, marked incomplete; another run makes the other calls."""
    stub = start_stub(delay=0.1)
    _interrupt(run, stub, workers, signal.SIGINT, times=1, to_all=True)
    again = run(*_against(stub, "--llm-concurrency", "64"))
    assert len(again.verdicts) == 400
    assert stub.stats()["repeats"] <= 8


@pytest.mark.parametrize(
    ("workers", "number", "times", "to_all"),
    [
        ("0", signal.SIGINT, 3, True),
        ("2", signal.SIGTERM, 1, False),
        ("2", signal.SIGTERM, 2, True),
        ("0", signal.SIGHUP, 1, True),
        ("2", signal.SIGHUP, 2, True),
    ],
    ids=[
        "ctrl-c three times",
        "terminated",
        "all processes terminated twice",
        "terminal closed",
        "terminal of all processes closed twice",
    ],
)
def test_other_interrupts_end_a_run_as_ctrl_c_does(
    run: Runner, start_stub: Stub, workers: str, number: signal.Signals, times: int, to_all: bool
) -> None:
    """SIGTERM, SIGHUP, and Ctrl-C pressed again, print no traceback and leave no folder of the broker behind."""
    _interrupt(run, start_stub(delay=0.1), workers, number, times=times, to_all=to_all)


def test_a_closed_terminal_ends_a_run_as_ctrl_c_does(run: Runner, start_stub: Stub, workers: str) -> None:
    """A run whose terminal is gone cannot print, but completes its record and leaves no folder of the broker."""
    run.sums(400)
    temporary, folder = run.folder / "temporary", run.folder / "record"
    temporary.mkdir()
    stub = start_stub(delay=0.1)
    terminal, inside = pty.openpty()
    started = run.start_with(
        [inside] * 3, *_against(stub, "--llm-concurrency", "8", "-n", workers), folder=folder,
        env={"TMPDIR": str(temporary)},
    )  # fmt: skip
    os.close(inside)
    while stub.stats()["answered"] < 60:
        while select.select([terminal], [], [], 0)[0]:
            os.read(terminal, 65_536)
        assert started.poll() is None
        time.sleep(0.02)
    # The terminal is gone and the signal is there before the run prints again.
    os.kill(started.pid, signal.SIGSTOP)
    os.close(terminal)
    os.kill(started.pid, signal.SIGHUP)
    os.kill(started.pid, signal.SIGCONT)
    done = Finished(started.wait(60), "", folder)
    assert done.code == 2
    assert not list(temporary.glob("llmprops-*"))
    assert done.run["complete"] is False
    assert done.run["finished"]


def _interrupt(
    run: Runner, stub: RunningStub, workers: str, number: signal.Signals, *, times: int, to_all: bool
) -> None:
    """Interrupt a run of 400 cases; check its record, its output and the temporary folder."""
    run.sums(400)
    temporary = run.folder / "temporary"
    temporary.mkdir()
    started = run.start(
        *_against(stub, "--llm-concurrency", "8", "-n", workers), env={"TMPDIR": str(temporary)}
    )
    while stub.stats()["answered"] < 60:
        started.check()
        time.sleep(0.02)
    for _ in range(times):
        started.send(number, to_all=to_all)
        time.sleep(0.03)
    done = started.end()
    assert done.code == 2
    assert "Traceback" not in done.output
    assert "INCOMPLETE: " in done.output
    assert not list(temporary.glob("llmprops-*"))
    assert done.run["complete"] is False
    assert done.run["finished"]
    assert len(done.verdicts) < 400
    assert all(v["status"] != "error" for v in done.verdicts.values())


def test_concurrency_limits_all_workers_together(run: Runner, start_stub: Stub) -> None:
    """--llm-concurrency limits the calls in flight of all workers together, and the limit is reached."""
    run.sums(200)
    stub = start_stub(delay=0.1)
    run(*_against(stub, "--llm-concurrency", "24", "-n", "2"))
    assert 22 <= stub.stats()["peak_in_flight"] <= 24


def test_deviations_of_a_reasoning_model_are_recorded(run: Runner, start_stub: Stub) -> None:
    """A model that refuses a temperature is measured; the deviation is recorded and marked with a star."""
    run.sums(6)
    done = run("--model", "openai:reasoner-1", "--llm-base-url", start_stub(delay=0.01).url)
    assert all(v["status"] in ("correct", "wrong") for v in done.verdicts.values())
    [deviations] = done.run["deviations"].values()
    assert any("temperature" in d for d in deviations)
    assert "reasoner-1*" in done.output


def test_thoughts_without_tokens_are_errors(run: Runner, start_stub: Stub) -> None:
    """A model that thinks has no verdicts with ``llm_max_thinking = 0``, and all of them in the next run."""
    run.sums(3)
    model = ("--model", "openai:reasoner-1", "--llm-base-url", start_stub(delay=0.0, answer="sum").url)
    done = run(*model, "-o", "llm_max_thinking=0")
    assert set(_statuses(done).values()) == {"error"}
    assert "(llm_max_thinking)" in done.output
    assert sorted(_statuses(run(*model)).values()) == ["correct", "correct", "wrong"]


def test_filtered_replies_are_refused_in_any_benchmark(run: Runner, start_stub: Stub) -> None:
    """A benchmark that knows nothing of filters has neither wrong nor unparsed replies because of them."""
    run.sums(2)
    reasons = ("content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "refusal")
    names = ["filtered", "filtered-reply", "refusing", *(f"finish-{reason}" for reason in reasons)]
    models = [word for name in names for word in ("--model", f"openai:{name}")]
    done = run(*models, "--llm-base-url", start_stub(delay=0.0).url)
    assert [(row["model"], row["refused"]) for row in done.run["summary"]] == [(name, 2) for name in names]


def test_unknown_finish_reasons_are_noted(run: Runner, start_stub: Stub) -> None:
    """A reply with a finish reason that nobody documents is read, and the summary says so once."""
    run.sums(3)
    url = start_stub(delay=0.0, answer="sum").url
    done = run("--model", "openai:finish-odd", "--llm-base-url", url, "-n", "2")
    assert sorted(_statuses(done).values()) == ["correct", "correct", "wrong"]
    assert " ".join(done.output.split()).count("the finish_reason 'odd' is unknown") == 1


def test_failures_of_the_provider_are_retried_and_not_stored(run: Runner, start_stub: Stub) -> None:
    """A finish reason that reports a failure makes no verdict, whatever the text."""
    run.sums(2)
    names = [
        f"finish-{reason}" for reason in ("error", "network_error", "insufficient_system_resource", "abort")
    ]
    models = [word for name in names for word in ("--model", f"openai:{name}")]
    options = (*models, "--llm-base-url", start_stub(delay=0.0, answer="sum").url)
    done = run(*options, "-o", "llm_retries=1")
    assert [(row["model"], row["errors"]) for row in done.run["summary"]] == [(name, 2) for name in names]
    assert done.run["calls"]["retries"] == 8
    assert run(*options, "-o", "llm_retries=0").run["calls"]["cache_hits"] == 0


def test_broker_that_dies_ends_the_run(run: Runner) -> None:
    """If the broker process dies, the run fails with one line, and its record is incomplete or has errors."""
    run.sums(40)
    deadly = run.write(
        "deadly.py",
        "import os\ndef reply(chat):\n    if chat.messages[-1].content.startswith('20 '):\n        os._exit(3)\n"
        "    return 'x'\n",
    )
    done = run("--model", f"fake:call?file={deadly}", "-n", "2")
    assert done.code != 0
    assert "the broker process ended with status 3" in done.output
    assert done.run["complete"] is False or any(v["status"] == "error" for v in done.verdicts.values())


@pytest.mark.parametrize("cache", ["reuse", "off"])
def test_full_disk_stops_the_run(run: Runner, cache: str) -> None:
    """If the record cannot be written, the run stops with one line and keeps the verdicts written so far."""
    run.sums(12)
    run.write(
        "conftest.py",
        "import errno\nfrom pytest_llmprops.runs import record\n"
        "add = record.RunRecord.add\n"
        "def full(self, row):\n"
        "    if len(self.records) >= 5:\n        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    add(self, row)\n"
        "record.RunRecord.add = full\n",
    )
    done = run("--model", run.adder, "--llm-cache", cache)
    assert done.code == 2
    assert "No space left on device" in done.output
    assert "free disk space and run again" in done.output
    assert ("in the store" in done.run["stopped"]) == (cache == "reuse")
    assert len(done.verdicts) == 5
    assert done.run["complete"] is False


#: makes writes of reports of workers fail; an empty file takes no disk space
FULL_FOR_REPORTS = """
import errno, os
from pytest_llmprops.plugin import worker_files
write = worker_files.write_text
def full(path, text):
    if text and path.name in {files}:
        raise OSError(errno.ENOSPC, "No space left on device")
    write(path, text)
worker_files.write_text = full
"""


@pytest.mark.parametrize("files", [(".collected-gw0.json", ".collected-gw1.json"), (".collected-gw1.json",)])
def test_a_disk_too_full_for_the_reports_of_workers_is_one_line(run: Runner, files: tuple[str, ...]) -> None:
    """If workers cannot report what they collected, the run ends with one line on the folder."""
    run.sums(12)
    run.write("conftest.py", FULL_FOR_REPORTS.format(files=files))
    done = run("--model", run.adder, "-n", "2")
    assert done.code == 4
    assert "INTERNALERROR" not in done.output
    assert "Different tests" not in done.output
    [line] = [line for line in done.output.splitlines() if "ERROR" in line]
    assert f"run record {done.folder}: No space left on device; free disk space" in line
    if done.folder.exists():
        assert len(files) == 1
        assert done.run["complete"] is False
        assert done.run["stopped"] in line


def test_a_disk_too_full_for_the_first_facts_is_one_line(run: Runner, workers: str) -> None:
    """If the first run.json cannot be written, one line names the folder and the fix, and there is no record."""
    run.sums(12)
    run.write(
        "conftest.py",
        "import errno\nfrom pytest_llmprops.runs import record\n"
        "def full(self):\n    raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "record.RunRecord.write_facts = full\n",
    )
    done = run("--model", run.adder, "-n", workers)
    assert done.code == 4
    [line] = [line for line in done.output.splitlines() if "ERROR" in line]
    assert f"run record {done.folder}: No space left on device; free disk space" in line
    assert "--llm-run DIR" in line
    assert not done.folder.exists()
