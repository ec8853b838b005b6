"""Commands of ``llmprops`` in this process."""

from __future__ import annotations

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
