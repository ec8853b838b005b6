"""Performance measurements: the comparison with other tools, and the history with its plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.history import HISTORY, PLOT, TARGETS, add_run, plot, read_runs
from bench.peers.__main__ import run_once
from bench.peers.tools import (
    Outcome,
    Prompts,
    Tool,
)

ROWS = [{"prompt": "Input: a\nA or B?", "target": "A"}, {"prompt": "Input: b\nA or B?", "target": "B"}]


class Client(Tool):
    """Sends the given prompts."""

    name = "client"

    def __init__(self, prompts: list[str], correct: int = 1) -> None:
        self._prompts, self._correct = prompts, correct

    def command(self, prompts: Prompts, url: str, in_flight: int, folder: Path) -> list[str]:
        code = (
            "import json, sys, urllib.request as u\n"
            "for p in sys.argv[2:]:\n"
            "    body = {'model': 'm', 'messages': [{'role': 'user', 'content': p}]}\n"
            "    u.urlopen(sys.argv[1] + '/chat/completions', json.dumps(body).encode()).read()"
        )
        return [sys.executable, "-I", "-S", "-c", code, url, *self._prompts]

    def outcome(self, folder: Path) -> Outcome:
        return Outcome(2, self._correct)


@pytest.mark.parametrize(
    ("sent", "correct", "message"),
    [
        ([0, 1], 1, ""),
        ([0], 1, "received 1 calls"),
        ([0, 1, 1], 1, "received 3 calls"),
        ([0, 1], 2, "correct=2"),
    ],
)
def test_only_equal_work_is_measured(
    sent: list[int], correct: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run counts if each prompt was sent once and the tool's counts are right; otherwise the measurement stops."""
    monkeypatch.setattr("bench.peers.__main__.DELAY", 0.0)
    prompts = Prompts(tmp_path, tmp_path / "prompts.jsonl")
    prompts.file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    tool = Client([ROWS[i]["prompt"] for i in sent], correct)
    if not message:
        assert run_once(tool, prompts, Outcome(2, 1), 1, tmp_path / "run", {}).code == 0
        return
    with pytest.raises(SystemExit, match=message):
        run_once(tool, prompts, Outcome(2, 1), 1, tmp_path / "run", {})


# ---- the history


def test_a_run_is_one_line_without_names_or_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has date, commit, machine and figures; lines are added at the end."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
    file = tmp_path / "history.jsonl"
    for value in (1.23456, 2.0):
        add_run(dict.fromkeys(TARGETS, value), runs=3, file=file)
    first, second = read_runs(file)
    assert first.keys() == {"date", "commit", "machine", "runs", "figures"}
    assert first["machine"].keys() == {"cpus", "load", "python"}
    assert set(first["figures"].values()) == {1.235}
    assert set(second["figures"].values()) == {2.0}
    assert "/" not in json.dumps([first["commit"], first["machine"]])


def test_plot_has_each_ratio() -> None:
    """The plot of the documentation is drawn from the history, and names each ratio that has a target."""
    runs = read_runs(HISTORY)
    assert runs
    text = plot(runs)
    assert all(name in text for name in TARGETS if any(name in run["figures"] for run in runs))
    shown = PLOT.read_text(encoding="utf-8")
    assert all(run["commit"][:7] in shown for run in runs)
