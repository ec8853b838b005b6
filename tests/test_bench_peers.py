"""The comparison with other tools: their configurations, results and checks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.peers.__main__ import run_once, table_row
from bench.peers.tools import (
    Ours,
    Outcome,
    Prompts,
    Tool,
    inspect_outcome,
    lm_eval_outcome,
    lm_eval_task,
    promptfoo_config,
    promptfoo_outcome,
)
from bench.process import Measured

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


def test_configurations_have_prompts_and_targets() -> None:
    """promptfoo's configuration has every prompt and target unchanged; lm-evaluation-harness reads the file."""
    config = promptfoo_config(ROWS, "http://localhost/v1")
    assert [test["vars"] for test in config["tests"]] == ROWS
    assert config["providers"][0]["config"]["apiBaseUrl"] == "http://localhost/v1"
    task = lm_eval_task(Path("/x/prompts.jsonl"))
    assert task["dataset_kwargs"] == {"data_files": {"test": "/x/prompts.jsonl"}}


def test_counts_are_read_from_the_results(tmp_path: Path) -> None:
    """A failed call is neither a reply nor correct, whatever the tool's format."""
    stats = {"successes": 3, "failures": 2, "errors": 5}
    assert promptfoo_outcome({"results": {"stats": stats}}) == Outcome(5, 3)
    score = {"scored_samples": 5, "metrics": {"accuracy": {"value": 0.6}}}
    assert inspect_outcome({"results": {"scores": [score]}}) == Outcome(5, 3)
    results = {"n-samples": {"prompts": {"effective": 5}}, "results": {"prompts": {"exact_match,none": 0.6}}}
    assert lm_eval_outcome(results) == Outcome(5, 3)
    (tmp_path / "run").mkdir()
    statuses = ["correct"] * 3 + ["wrong", "unparsed", "error"]
    lines = "".join(json.dumps({"status": status}) + "\n" for status in statuses)
    (tmp_path / "run" / "verdicts.jsonl").write_text(lines)
    assert Ours().outcome(tmp_path) == Outcome(5, 3)


def test_row_of_the_table() -> None:
    """A row has the medians, the range of the wall time, and its ratio to the ideal."""
    runs = [Measured(0, wall, cpu, 1234.4, "") for wall, cpu in ((4.0, 3.0), (5.0, 2.0), (9.0, 1.0))]
    row = table_row("tool", "1.0", 1000, 64, runs)
    assert row == ("tool", "1.0", "1,000", "64", "5.0 s (4.0-9.0)", "1.60", "2.0 s", "1,234 MB")
