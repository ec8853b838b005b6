"""The checks before a run: what ends it before its first worker, its plan, the confirmation and the first call."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from tests.support.gated_runs import baseline, gate
from tests.support.runs import ADDER, Finished, Runner
from tests.support.terminal import CTRL_C, CTRL_D, answering

#: registers ``api``, a fake model that is called over a network, and lists its calls in a file
API = (
    ADDER
    + """
import os
from pathlib import Path
from pytest_llmprops import BackendError, FakeModel, register_model


def respond(chat):
    with open(Path(__file__).with_name("calls.txt"), "a") as calls:
        calls.write(chat.prompt + "\\n")
    if "refused" in os.environ.get("API", ""):
        return BackendError("the API refuses the key", kind="key", fatal=True)
    if "too long" in os.environ.get("API", "") and int(chat.prompt.split()[0]) > 8:
        return BackendError("the prompt is too long", kind="request")
    if "unreachable" in os.environ.get("API", ""):
        return BackendError("cannot reach api", kind="connection", transient=True)
    return reply(chat)


register_model("api", lambda spec, options: FakeModel(respond, name=spec.name), remote=True)
"""
)


@pytest.fixture
def project(run: Runner) -> Runner:
    """Return a project with 12 sums and the model ``api:m``."""
    run.sums()
    run.write("conftest.py", API)
    return run


def _calls(run: Runner) -> list[str]:
    """Return the prompts of the calls to ``api``, in order."""
    file = run.folder / "calls.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _plan(done: Finished) -> str:
    [line] = [line for line in done.output.splitlines() if line.startswith("llmprops: plan:")]
    return line


def test_what_is_missing_ends_a_run_before_collection(project: Runner) -> None:
    """A missing key, price or data folder, or a folder of a run is one line; nothing is collected or removed."""
    project.write("test_sums.py", "raise AssertionError('collected')")
    (project.folder / "taken").mkdir()
    project.write("taken/run.json", "{}")
    for words, said in (
        ("gpt-4o", ("gpt-4o needs a key", "OPENAI_API_KEY")),
        (
            "api:m --llm-max-cost 1",
            ("needs a price", "and m has none", "price_in", "limit the calls with --llm-max-calls N"),
        ),
        ("api:m --llm-data nosuch", ("nosuch: no such file", "--llm-data DIR")),
        ("api:m --llm-run taken", ("taken", "already holds a run")),
        ("api:m --llm-run taken/run.json/run", ("run.json/run", "is not a folder")),
    ):
        done = project("--model", *words.split(), "-n", "2")
        done.refused(*said)
        assert "collected" not in done.output
    assert [path.name for path in (project.folder / "taken").iterdir()] == ["run.json"]


def test_calls_limit_a_model_without_a_price(project: Runner) -> None:
    """With both limits, as in CI, --llm-max-calls alone limits a model without a price, and a note says so."""
    limits = ("--llm-max-cost", "1", "--llm-max-calls")
    done = project("--model", "api:m", *limits, "20")
    assert len(done.verdicts) == 12
    said = "m has no price, so --llm-max-cost leaves out its calls; --llm-max-calls 20 limits them"
    assert said in " ".join(done.output.split())
    assert "the plan needs 12 calls" in project("--model", "api:m", *limits, "5", "--llm-cache", "off").output


def test_an_invalid_selection_sends_nothing(project: Runner) -> None:
    """Nothing is sent and nothing recorded before pytest's selection is known to be valid."""
    for spec, workers, chosen, said in (
        ("api:m", "2", ("-m", "("), "Wrong expression passed to '-m'"),
        ("api:m", "0", ("no_file.py",), "file or directory not found: no_file.py"),
        ("api:m", "2", ("test_sums.py::no_test",), "not found: "),
        ("fake:constant?text=1", "0", ("-k", "sums add"), "Wrong expression passed to '-k'"),
    ):
        done = project("--model", spec, "-n", workers, *chosen)
        done.refused(said)
        assert "no item matches" not in done.output
        assert _calls(project) == []


@pytest.mark.parametrize(("fault", "calls", "workers"), [("refused", 1, "2"), ("unreachable", 2, "0")])
def test_a_model_that_cannot_be_called_ends_a_run(
    project: Runner, workers: str, fault: str, calls: int
) -> None:
    """A refused first call, or a server that no retry reaches, ends the run in one line without workers."""
    done = project("--model", "api:m", "-n", workers, "-o", "llm_retries=1", env={"API": fault})
    done.refused("m: " + {"refused": "the API refuses", "unreachable": "cannot reach api"}[fault])
    assert _calls(project) == ["0 + 1 ="] * calls
    with closing(sqlite3.connect(project.store)) as db:
        assert db.execute("SELECT count(*) FROM replies").fetchone() == (0,)


def test_the_first_call_is_one_of_the_run(project: Runner) -> None:
    """It has the shortest prompt that is not stored, and the run has the same calls, counters and log as without it.

    If all replies are stored, or the model is a local one, there is none.
    """
    project("--model", "api:m", "-k", "0000")
    assert _calls(project) == ["0 + 1 ="]
    refused = {"API": "refused"}
    project("--model", "api:m", "-n", "2", env=refused).refused("the API refuses")
    assert _calls(project) == ["0 + 1 =", "1 + 1 ="]
    done = project("--model", "api:m", "-n", "2", "--llm-cache", "refresh")
    assert _plan(done) == "llmprops: plan: 12 calls (none stored yet), no price of m"
    assert _calls(project)[2] == "0 + 1 ="
    assert len(_calls(project)[2:]) == len(set(_calls(project)[2:])) == 12
    calls = done.run["calls"]
    assert (calls["requests"], calls["sent"], calls["answered"], calls["cache_hits"]) == (12, 12, 12, 0)
    assert len(done.verdicts) == len(done.requests) == 12
    done = project("--model", "api:m", env=refused)
    assert _plan(done) == "llmprops: plan: 0 calls (12 already stored), about 0.00 USD"
    assert len(done.verdicts) == 12
    assert "llmprops: plan" not in project("--model", "api:m", "--llm-cache", "only", env=refused).output
    local = project("--model", project.adder, "-o", "llm_confirm=1 calls")
    assert ("llmprops: plan:" in local.output, len(local.verdicts)) == (False, 12)


#: needs a confirmation
ASKED = ("-o", "llm_confirm=5 calls")


def test_a_resumed_run_plans_what_is_missing(project: Runner) -> None:
    """A resumed run plans the remaining cases; if it is refused, its record stays as it was."""
    spec = ("--model", "api:m", "--llm-cache", "off")
    first = project(*spec, env={"API": "too long"})
    assert [v["status"] for v in first.verdicts.values()].count("error") == 3
    before = (first.folder / "verdicts.jsonl").read_bytes()
    resume = (*spec, "-n", "2", "--llm-resume", "--llm-run", str(first.folder))
    done = project(*resume, env={"API": "refused"})
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.output
    assert "plan: 3 calls" in _plan(done)
    assert (first.folder / "verdicts.jsonl").read_bytes() == before
    project(*resume)
    assert len(first.verdicts) == 12
    assert "error" not in {v["status"] for v in first.verdicts.values()}
    # The errors, the refused call, and the three calls of the resumed run.
    assert len(_calls(project)) == 12 + 1 + 3


def test_a_run_with_collection_errors_is_planned(project: Runner) -> None:
    """Workers run what can be collected, so it is planned and confirmed; the error is reported once."""
    project.write("test_broken.py", "import nosuch_module")
    spec = ("--model", "api:m", "-n", "2")
    refused = project(*spec, *ASKED)
    assert refused.code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: this run needs a confirmation: 12 calls" in refused.output
    done = project(*spec)
    for output in (refused.output, done.output):
        assert output.count("ERROR collecting test_broken.py") == 1
    assert "plan: 12 calls" in _plan(done)


@pytest.mark.parametrize(
    ("args", "confirmed"),
    [
        ((), False),
        (("--llm-max-calls", "20"), True),
        (("--llm-max-cost", "20"), False),
        (("-o", "llm_confirm=0.001 USD", "--llm-max-cost", "20"), True),
        (("-o", "llm_confirm=off"), True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_script_confirms_a_costly_run(project: Runner, args: tuple[str, ...], confirmed: bool) -> None:
    """Above a limit of llm_confirm, a script needs --llm-yes, or a limit of its own of that kind."""
    project.write("pytest.ini", "[pytest]\nllm_confirm = 5 calls\n")
    prices = '{"usd_per_million_tokens": {"m": [100, 200]}, "date": "2026-01-01", "source": "us"}'
    project.write("prices.json", prices)
    done = project("--model", "api:m", "-o", "llm_prices=prices.json", *args)
    if confirmed:
        assert len(done.verdicts) == 12
        return
    done.refused("12 calls", "about 0.02 USD", "above llm_confirm = ", "--llm-yes", "--llm-size small")
    assert _calls(project) == []


@pytest.mark.parametrize(
    ("answer", "n", "code"),
    [("y\n", "2", 1), ("n\n", "0", 2), (CTRL_C, "2", 2), (CTRL_D, "0", 4)],
    ids=["yes", "no", "ctrl-c", "end of input"],
)
def test_a_terminal_is_asked(project: Runner, answer: str, n: str, code: int) -> None:
    """On a terminal, only y starts the run; Ctrl-C and the end of the input leave nothing but the first call."""
    asked = ("--model", "api:m", *ASKED, "-n", n)
    status, shown = answering(project, *asked, question="continue? [y/N]", answer=answer)
    assert status == code, shown
    assert "Traceback" not in shown
    assert shown.count("plan: 12 calls") == 1
    assert len(_calls(project)) == (12 if code == 1 else 1)
    assert (project.folder / "run-1").exists() == (code == 1)
    if code == 2:
        assert "not confirmed; at most one call per model was sent" in shown
    if answer == CTRL_D:
        # A CI system may have a terminal, but nobody answers.
        status, shown = answering(project, *asked, env={"CI": "true"})
        assert (status, "continue?" in shown) == (code, False)


def test_a_gate_that_an_unchanged_model_seldom_passes_is_confirmed(project: Runner) -> None:
    """The header says how often an unchanged model passes; below half of the runs, a script needs --llm-yes."""
    project.sums(30)
    gated = ("--model", "api:m", "--llm-baseline", str(baseline(project, "c" * 30)), "--llm-gate")
    done = project(*gated, str(gate(project, max_drop=0.12)))
    done.refused("30 calls", "an unchanged model passes in 3", "confirm with --llm-yes", "larger max_drop")
    assert _calls(project) == []
    for margin, args in ((0.12, ("--llm-yes",)), (0.5, ())):
        done = project(*gated, str(gate(project, max_drop=margin)), *args)
        [header] = re.findall("^llmprops: gate gate.toml against base.*", done.output, re.MULTILINE)
        assert ("an unchanged model passes in 36%" in header) == (margin < 0.5)
        assert "of runs" in header
        assert len(done.verdicts) == 30
