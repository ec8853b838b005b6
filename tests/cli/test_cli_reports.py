"""`llmprops view`, as a user starts and ends it, and `llmprops site`."""

from __future__ import annotations

import importlib.util
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.reports.site import app
from pytest_llmprops.reports.site.live import Watch
from pytest_llmprops.reports.site.pages import id_of
from pytest_llmprops.reports.terminal import next_command
from tests.support.commands import one_error, output
from tests.support.records import recorded, verdicts
from tests.support.runs import ROOT
from tests.support.team_runs import answers, record
from tests.support.view_server import ask, first_message

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with two runs and a baseline."""
    monkeypatch.chdir(tmp_path)
    for name in ("reports/runs/one", "reports/runs/two", "baselines/good"):
        recorded(tmp_path / name, verdicts("add", 1, 1))
    return tmp_path


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_one_line_has_the_address_and_ctrl_c_ends_it_at_once(end: int, status: int) -> None:
    """An open page does not keep the server, and nothing more is printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_llmprops.cli.main", "view", "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.fullmatch(
            r"llmprops view: (http://(127\.0\.0\.1:(\d+))/(\S{32})/) \(Ctrl-C ends it\)\n", line
        )
        assert address is not None, line
        url, host, port, token = address.groups()
        assert first_message(url)["rows"] == []
        assert all(f">{name}<" in ask(url).text for name in ("one", "two", "good"))
        with socket.create_connection(("127.0.0.1", int(port))) as connection:
            connection.sendall(f"GET /{token}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert connection.recv(100)
            process.send_signal(end)
            output, _ = process.communicate(timeout=60)
        assert (process.returncode, output) == (status, "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("argument", "names", "opened"),
    [
        ("one", {"one", "two", "good"}, True),
        ("baselines", {"good"}, False),
        ("elsewhere/run", {"run"}, True),
    ],
)
def test_a_run_or_a_folder_is_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch, argument: str, names: set[str], opened: bool
) -> None:
    """The report of a run is opened, and the runs next to it are shown; a folder shows its runs."""
    recorded(project / "elsewhere" / "run", verdicts("add", 1, 0))
    shown: list[app.Shown] = []
    monkeypatch.setattr(app, "serve", lambda what, *_, **__: shown.append(what))
    assert main(["view", argument, "--no-browser"]) == 0
    watch = Watch(shown[0].places)
    watch.step()
    assert {run.folder.name for run in watch.runs.values()} == names
    assert (shown[0].opened is not None) == opened
    if shown[0].opened is not None:
        assert id_of(shown[0].opened) in watch.runs


def test_wrong_arguments_are_one_line(project: Path, capsys: Capture) -> None:
    """A missing folder, an unknown run, a port in use and a wrong port number each say what to do.

    So do folders of `site` that are missing, empty or in use.
    """
    (project / "empty").mkdir()
    (project / "other").mkdir()
    (project / "other" / "notes.txt").write_text("mine")
    for place, out, message in (
        ("missing", "site", "missing: is not a folder; give folders with run records, such as reports/runs"),
        ("empty", "site", "empty; give folders with run records, such as reports/runs"),
        ("reports", "other", "other: has other files; give a new folder, or one with an earlier site"),
        ("reports", "reports/runs/one/run.json", "run.json: is not a folder"),
    ):
        assert one_error(capsys, "site", project / place, "--out", project / out).endswith(message)
    assert (project / "other" / "notes.txt").read_text() == "mine"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        expected = {
            ("./nowhere/run",): "nowhere/run: there is no such folder; give a run, or a folder with runs",
            ("nowhere",): "no run 'nowhere': RUN is a folder with a run.json",
            ("--port", port): f"--port {port}: Address already in use; leave it out to use a free one",
            ("--port", "70000"): "--port 70000: is not a port number; leave it out to use a free one",
        }
        for arguments, problem in expected.items():
            assert one_error(capsys, "view", "--no-browser", *arguments).startswith(f"llmprops: {problem}")


def test_the_next_command_after_a_run_is_one_that_works(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Without the extra, `view` says how to install it; a run ends with another command, which its packages allow."""
    assert next_command(Path("runs/one")) == "next: llmprops view runs/one"
    real, absent = importlib.util.find_spec, {"uvicorn"}

    def without(name: str, *more: Any) -> Any:
        return None if name in absent else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert next_command(Path("runs/one")) == "next: llmprops report runs/one --out report"
    said = "llmprops: llmprops view needs the package 'uvicorn': pip install 'pytest-llmprops[report]'"
    assert one_error(capsys, "view") == said
    absent.add("jinja2")
    assert next_command(Path("runs/one")) == "next: llmprops readings runs/one"


def test_the_first_page_is_printed(tmp_path: Path, capsys: Capture) -> None:
    """The command prints the page to open; by default, the report of the run is included.

    The site may be inside a folder of runs, which is not searched for runs then.
    """
    site, runs = tmp_path / "site", tmp_path / "runs"
    record(runs / "one", 0, answers("model", 0.9, 1, items=10))
    assert output(capsys, "site", runs, runs / "one", "--out", site) == f"{site / 'index.html'}\n"
    assert len(list(site.glob("runs/one-*/report.html"))) == 1
    output(capsys, "site", tmp_path, "--out", site, "--reports", "none")
    assert list(site.glob("runs/one-*")) == []
    assert "1 run of 1 model" in (site / "index.html").read_text(encoding="utf-8")
