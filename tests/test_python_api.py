"""Measuring, reading, comparing and judging from Python, and the page of the documentation about it."""

from __future__ import annotations

import base64
import doctest
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops import (
    RunStopped,
    UsageError,
    compare,
    decide,
    measure,
    read_run,
)
from pytest_llmprops.cli.main import main
from pytest_llmprops.records.files import plain
from tests.support.recorded import verdicts
from tests.support.records import recorded
from tests.support.runs import ROOT, Runner

Capture = pytest.CaptureFixture[str]
GATE = '[[rule]]\nbenchmark = "sums"\nmax_drop = 0.1\n'
PAGE = ROOT / "docs" / "python.md"
#: a script that measures slowly, and says how it was interrupted
SLOW = """
from pytest_llmprops import measure
try:
    measure("fake:call?file=adder.py&delay=0.2", "test_sums.py", folder="run", options=["--llm-concurrency", "1"])
except KeyboardInterrupt as error:
    print("caught:", error)
"""


@pytest.fixture
def project(run: Runner, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Make a separate folder with the benchmark of sums the current one, without the machine's settings."""
    environment = run.environment({"PYTEST_ADDOPTS": "-p no:cacheprovider"})
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(run.folder)
    run.sums(40)
    return run


def test_run_is_measured_by_pytest(project: Runner, capsys: Capture) -> None:
    """The arguments reach pytest, its output is printed, and the record is the result."""
    settings: dict[str, Any] = {"limit": 5, "workers": 2, "protocol": "paper", "store": project.store}
    run = measure(project.adder, "test_sums.py", options=["--llm-seed", "3"], **settings)
    facts = run.facts.options
    assert (facts["limit"], facts["protocol"], facts["seed"]) == (5, "paper", 3)
    command = facts["command"]
    assert isinstance(command, list)
    assert command[command.index("-n") + 1] == "2"
    assert run.folder.parent == project.folder / "reports" / "runs"
    assert repr(run) == f"<Run {run.run_id}: {run.models[0]}, 5 verdicts, complete>"
    output = capsys.readouterr().out
    assert f"run record: {run.folder}" in output
    assert [line for line in str(run).splitlines() if line not in output.splitlines()] == []


@pytest.mark.parametrize(
    ("model", "words", "error", "line"),
    [
        ("nosuch:x", "test_sums.py", UsageError, r"--model nosuch:x: unknown backend"),
        ("fake:echo", "test_sums.py -k nosuch", UsageError, r"no item matches -k nosuch"),
        ("fake:echo", "test_broken.py", RunStopped, r"ModuleNotFoundError: No module named 'nosuch'$"),
        (
            "fake:call?file=broken.py", "test_sums.py", RunStopped,
            r"RuntimeError: no reply; the verdicts so far are in run, and 'llmprops run --resume run' measures .*s$",
        ),
    ],
    ids=["usage", "selection", "collection", "stopped"],
)  # fmt: skip
def test_failed_run_is_an_exception_with_the_line_of_pytest(
    project: Runner, model: str, words: str, error: type[Exception], line: str, capsys: Capture
) -> None:
    project.write("test_broken.py", "import nosuch")
    project.write("broken.py", "def reply(chat):\n    raise RuntimeError('no reply')")
    suite, *options = words.split()
    with pytest.raises(error, match=line) as raised:
        measure(model, suite, folder="run", options=options, quiet=True)
    assert "\n" not in str(raised.value)
    assert capsys.readouterr().out == ""


def test_interrupt_of_the_caller_ends_the_run(project: Runner) -> None:
    """A notebook interrupts its kernel only. pytest then completes the record of what was measured."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    record = project.folder / "run" / "verdicts.jsonl"
    deadline = time.monotonic() + 120
    while not (record.exists() and record.stat().st_size):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert output.splitlines()[-1].startswith("caught: interrupted; the verdicts so far are in run, and")
    run = read_run(project.folder / "run")
    assert run.facts.finished is not None
    assert run.state == "incomplete"
    assert 0 < len(run.records) < 40
    model = "fake:call?file=adder.py&delay=0.2"
    run = measure(model, "test_sums.py", folder="run", options=["--llm-resume"], quiet=True)
    assert (run.state, len(run.records)) == ("complete", 40)


def test_notebook_shows_tables_and_figures(tmp_path: Path) -> None:
    """A run is HTML with one row per task and a figure; nothing of its texts is markup."""
    pytest.importorskip("matplotlib")
    rows = verdicts("cccwcw", model="<b>new</b>")
    rows[4:] = [replace(row, task="<i>subtract</i>") for row in rows[4:]]
    html = read_run(recorded(tmp_path / "run", rows))._repr_html_()
    assert "<b>&lt;b&gt;new&lt;/b&gt;</b>: 6 verdicts, complete" in html
    assert len(re.findall("<tr>", html)) == 3
    assert "75.0%" in html
    assert "<i>" not in html
    [image] = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert b"<svg" in base64.b64decode(image)


def test_comparison_and_decision_are_those_of_the_commands(tmp_path: Path, capsys: Capture) -> None:
    """`compare` and `decide` give what `llmprops compare` and `llmprops gate` print."""
    folders = [
        recorded(tmp_path / name, verdicts(letters, model=name))
        for name, letters in (("old", "c" * 40), ("new", "w" * 15 + "c" * 25))
    ]
    gate = tmp_path / "gate.toml"
    gate.write_text(GATE, encoding="utf-8")
    old, new = map(read_run, folders)
    comparison = compare(old, new)
    assert main(["compare", *map(str, folders)]) == 0
    assert str(comparison) == capsys.readouterr().out.rstrip("\n")
    assert repr(comparison) == "<Comparison old → new>"
    assert "| 40 | 15 | 0 |" in comparison._repr_markdown_()
    decision = decide(gate, new, old)
    assert main(["gate", "--gate", str(gate), str(folders[1]), "--baseline", str(folders[0]), "--json"]) == 1
    assert json.loads(json.dumps(plain(decision))) == json.loads(capsys.readouterr().out)
    assert repr(decision) == f"<Decision {decision.line}>"
    assert "at most 10 points worse" in decision._repr_markdown_()


def test_wrong_arguments_are_one_line(project: Runner) -> None:
    """A gate as a dict, the path of a run, a gate without its baseline, and an unknown benchmark."""
    gate, wrong = project.write("gate.toml", GATE), dict[str, Any]()
    run = read_run(recorded(project.folder / "run", verdicts("c" * 40)))
    for call, line in (
        (lambda: decide(wrong, run), "the gate is the path of a file, not dict"),  # type: ignore[arg-type]
        (lambda: decide(gate, wrong), r"run is dict; read a run with read_run\(path\)"),  # type: ignore[arg-type]
        (lambda: decide(gate, run), r"needs a baseline; give one with decide\(gate, run, baseline\)$"),
        (lambda: compare(wrong, run), r"compare: argument 1 is dict; read a run with"),  # type: ignore[arg-type]
        (lambda: measure("fake:echo", ["htest", "htset"]), "unknown benchmark 'htset'"),
    ):
        with pytest.raises(UsageError, match=line):
            call()
    assert not (project.folder / "reports").exists()


def test_outputs_of_the_page_are_those_of_its_code(project: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of docs/python.md runs, and prints what the page shows."""
    pytest.importorskip("pandas")
    monkeypatch.setenv("COLUMNS", "100")
    page = doctest.DocTestParser().get_doctest(PAGE.read_text(encoding="utf-8"), {}, PAGE.name, str(PAGE), 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    failures: list[str] = []
    result = doctest.DocTestRunner(optionflags=flags).run(page, out=failures.append)
    assert not result.failed, "".join(failures)
    assert result.attempted > 10
