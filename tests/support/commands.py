"""Commands of ``llmprops`` in this process, and one that is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main


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
    fake.write_text(f"#!/bin/sh\necho $$ > {new}; mv {new} {pid}; exec sleep 60\n")
    fake.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.executable = {str(fake)!r}; {code}"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_until(pid.exists)
        child = int(pid.read_text())
        process.kill()
        _wait_until(lambda: not _is_running(child))
    finally:
        process.kill()
        process.wait()


def _wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a minute at most."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_running(process: int) -> bool:
    """Return True if a process has not ended; one that nobody waits for has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
