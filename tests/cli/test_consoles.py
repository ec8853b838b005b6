"""Consoles that cannot show every character, such as cp1252 on Windows."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pytest_llmprops.cli.main import main
from tests.support.runs import Runner

GATE = '[[rule]]\nname = "𠮷词"\nbenchmark = "sums"\nmin_accuracy = 0.5\nmin_items = 8\n'


def _printed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run a command on a console with cp1252 and strict errors; return its status and output."""
    console = io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(
            sys, name, io.TextIOWrapper(console, "cp1252", errors="strict", write_through=True)
        )
    status = main(words)
    return status, console.getvalue().decode("cp1252")


def test_cp1252_console_shows_escapes(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, plans and commands escape the characters that a console lacks; JSON stays JSON."""
    run.sums(8)
    # A benchmark in Chinese; one character needs two escapes in JSON.
    for old, new in (
        (
            'name = "sums"',
            'name, title = "sums", "词"\n\n    def remarks(self, records):\n        return ["八个词 ✓"]',
        ),
        ('"add", "en"', '"词", "zh"'),
        ("given=reply.text)", 'given="𠮷 → ≥", reason="机器人")'),
    ):
        run.change("test_sums.py", old, new)
    gate = str(run.write("gate.toml", GATE))
    folders = []
    for options, code in (((), 1), (("--llm-gate", gate, "-n", "2"), 1), (("--llm-plan",), 0)):
        done = run("--model", "fake:echo", *options, env={"PYTHONIOENCODING": "cp1252:strict"})
        assert "UnicodeEncodeError" not in done.output
        assert "INTERNALERROR" not in done.output
        assert done.code == code
        assert "\\u673a\\u5668\\u4eba" in done.output or code == 0
        folders.append(str(done.folder))
    first, second, _ = folders
    monkeypatch.chdir(run.folder)
    for words, status, said in (
        (["runs", "show", first], 0, "\\u673a\\u5668\\u4eba"),
        (["runs", "list"], 0, ""),
        (["compare", first, second], 0, "\\u2192"),
        (["gate", "--gate", gate, first], 1, "\\U00020bb7\\u8bcd"),
        (["runs", "show", "没有"], 2, "\\u6ca1\\u6709"),
    ):
        got, printed = _printed(words, monkeypatch)
        assert got == status, printed
        assert said in printed
        assert "codec" not in printed
    _, printed = _printed(["gate", "--gate", gate, first, "--json"], monkeypatch)
    assert json.loads(printed)["rules"][0]["name"] == "𠮷词"
