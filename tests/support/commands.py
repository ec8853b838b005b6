"""Commands of ``llmprops`` in this process, and one that is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run a test in its own working folder, with a wide terminal; return the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the output of a command that succeeds."""
    assert main(list(map(str, words))) == 0
    return capsys.readouterr().out


def one_error(capsys: pytest.CaptureFixture[str], *words: object, status: int = 2) -> str:
    """Return the only line of a command that fails: on standard error, and nothing on standard output."""
    assert main(list(map(str, words))) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def killed_with_its_child(code: str, folder: Path) -> None:
    """Check that a process that is killed (SIGKILL) leaves no child; only Linux tells a child that its parent ended.

    :param code: Python code that runs ``sys.executable``, in place of which a program waits.
    """
    new, pid, fake = (folder / name for name in ("new", "pid", "python"))
    fake.write_text(f"#!/bin/sh\necho $$ > {new}; mv {new} {pid}; exec sleep 120\n")
    fake.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.executable = {str(fake)!r}; {code}"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(pid.exists)
        child = int(pid.read_text())
        process.kill()
        until(lambda: _has_ended(child))
    finally:
        process.kill()
        process.wait()


def _has_ended(pid: int) -> bool:
    # The number of a killed process is taken until its parent asks for its status, which init may do late.
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    except OSError:
        return True


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
