"""`llmprops view` as a user starts and ends it."""

from __future__ import annotations

import importlib.util
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.reports.terminal import next_command
from pytest_llmprops.reports.view import serving
from pytest_llmprops.reports.view.hub import Watch
from pytest_llmprops.reports.view.rows import id_of
from tests.support.records import recorded, verdicts
from tests.support.runs import ROOT
from tests.support.view_server import first_message

Start = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with two runs and a baseline."""
    monkeypatch.chdir(tmp_path)
    for name in ("reports/runs/one", "reports/runs/two", "baselines/good"):
        recorded(tmp_path / name, verdicts("add", 1, 1))
    return tmp_path


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command in a process; return it and its first line."""
    processes = []

    def begin(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest_llmprops.cli.main", "view", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline()

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_one_line_has_the_address_and_ctrl_c_ends_it_at_once(
    project: Path, start: Start, end: int, status: int
) -> None:
    """An open page does not keep the server, and nothing more is printed."""
    process, line = start("--no-browser")
    address = re.fullmatch(r"llmprops view: (http://127\.0\.0\.1:\d+/\S{32}/) \(Ctrl-C ends it\)\n", line)
    assert address is not None, line
    rows = first_message(address[1])["rows"]
    assert {(row["name"], row["place"]) for row in rows} == {("one", ""), ("two", ""), ("good", "baselines")}
    connection = socket.create_connection(("127.0.0.1", int(address[1].split(":")[2].split("/")[0])))
    connection.sendall(
        f"GET /{address[1].split('/')[3]}/events HTTP/1.1\r\nHost: {address[1].split('/')[2]}\r\n\r\n".encode()
    )
    assert connection.recv(100)
    begun = time.monotonic()
    process.send_signal(end)
    output, _ = process.communicate(timeout=20)
    assert (process.returncode, output) == (status, "")
    assert time.monotonic() - begun < 5
    connection.close()


def test_without_a_browser_one_line_says_so(project: Path, start: Start) -> None:
    """A terminal without windows opens no browser in itself."""
    process, _ = start()
    assert process.stdout is not None
    assert process.stdout.readline() == "llmprops view: no browser was found; open the address yourself\n"


@pytest.mark.parametrize(
    ("argument", "names", "opened"),
    [
        ("one", {"one", "two", "good"}, True),
        ("reports/runs/one", {"one", "two", "good"}, True),
        ("baselines", {"good"}, False),
        ("empty", set(), False),
        ("elsewhere/run", {"run"}, True),
    ],
)
def test_a_run_or_a_folder_is_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch, argument: str, names: set[str], opened: bool
) -> None:
    """A run is opened in the list of the runs next to it; a folder is a list of its runs."""
    recorded(project / "elsewhere" / "run", verdicts("add", 1, 0))
    (project / "empty").mkdir()
    shown: list[serving.Shown] = []
    monkeypatch.setattr(serving, "serve", lambda what, *_, **__: shown.append(what))
    assert main(["view", argument, "--no-browser"]) == 0
    watch = Watch(shown[0].places)
    watch.step()
    assert {row["name"] for row in watch.rows.values()} == names
    assert (shown[0].opened is not None) == opened
    if shown[0].opened is not None:
        assert id_of(shown[0].opened) in watch.rows


def test_wrong_arguments_are_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing folder, an unknown run, a port in use and a wrong port number each say what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        expected = {
            ("./nowhere/run",): "nowhere/run: there is no such folder; give a run, or a folder with runs",
            ("nowhere",): "no run 'nowhere': RUN is a folder with a run.json",
            ("--port", port): f"--port {port}: Address already in use; leave it out to use a free one",
            ("--port", "70000"): "--port 70000: is not a port number; leave it out to use a free one",
        }
        for arguments, problem in expected.items():
            assert main(["view", "--no-browser", *arguments]) == 2
            printed = capsys.readouterr()
            assert printed.err.startswith(f"llmprops: {problem}"), printed
            assert (printed.err.count("\n"), printed.out) == (1, "")


def test_the_next_command_after_a_run_is_one_that_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the extra, `view` says how to install it, and a run ends with the report's command."""
    assert next_command(Path("runs/one")) == "next: llmprops view runs/one"
    real = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "uvicorn" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert next_command(Path("runs/one")) == "next: llmprops report runs/one --out report"
    assert main(["view"]) == 2
    assert capsys.readouterr().err == (
        "llmprops: llmprops view needs the package 'uvicorn': pip install 'pytest-llmprops[view]'\n"
    )
