"""A training that was stopped continues, and ends with the weights of an uninterrupted one."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmprops.core.errors import LLMPropsError
from tests.support.runs import ROOT
from tests.support.training import lines_said, needs_train, save_base, sentences, silent, write_corpus

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SegmenterTask
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings

pytestmark = [needs_train, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


class Stopped(Exception):
    """What a test raises to stop a training."""


def toy_task(folder: Path) -> SegmenterTask:
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import PretrainedBase, SegmenterTask

    base = folder / "base"
    if not base.exists():
        save_base(base)
    lines = sentences(50)
    return SegmenterTask(PretrainedBase(str(base)), lines[:44], lines[44:])


def toy_settings(**more: Any) -> Settings:
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings

    values: dict[str, Any] = {"batch": 8, "epochs": 3, "learning_rate": 1e-3, "evaluations": 9, "patience": 0}
    return Settings(**{**values, "threads": 1, **more})


def weights(network: Any) -> dict[str, Any]:
    return dict(network.state_dict())


@pytest.mark.simulation
@pytest.mark.parametrize("evaluation", [3, 5])
def test_resumed_equals_uninterrupted(tmp_path: Path, evaluation: int) -> None:
    """A training stopped within an epoch or between two has the same weights, steps and curve when it is continued.

    Dropout is on, so that the state of the random numbers matters.
    """
    import torch

    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    task, settings = toy_task(tmp_path), toy_settings()
    whole = train(task, settings, tmp_path / "whole", say=silent)
    evaluated = 0

    def stop(text: str) -> None:
        nonlocal evaluated
        evaluated += "held-out" in text
        if evaluated > evaluation:
            raise Stopped

    with pytest.raises(Stopped):
        train(task, settings, tmp_path / "parts", say=stop)
    said, say = lines_said()
    resumed = train(task, settings, tmp_path / "parts", say=say)
    assert said[0] == f"continuing from step {2 * evaluation}"
    assert resumed.steps == whole.steps == 18
    first, second = weights(whole.network), weights(resumed.network)
    assert all(torch.equal(first[name], second[name]) for name in first)
    scores = [
        [point["eval_f1"] for point in outcome.history if "eval_f1" in point] for outcome in (whole, resumed)
    ]
    assert scores[0] == scores[1]


def test_killed_process_continues(tmp_path: Path) -> None:
    """After SIGKILL, the same command continues from the last checkpoint; a torn checkpoint is not used."""
    save_base(tmp_path / "base")
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(60))
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "pytest_llmprops.cli.main", "eras", "train", "segmenter", "--data", str(data), "--base",
        str(tmp_path / "base"), "--batch", "4", "--epochs", "10", "--evaluations", "10", "--patience", "0", "--threads",
        "1", "--out", str(out),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 200
    while not list(out.glob("checkpoints/checkpoint-*/trainer_state.json")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    torn = out / "checkpoints" / "checkpoint-9999"
    torn.mkdir()
    (torn / "trainer_state.json").write_text('{"epoch": 1', encoding="utf-8")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert "continuing from step" in done.stdout
    assert "9999" not in done.stdout
    assert (out / "README.md").is_file()
    assert not (out / "checkpoints").exists()


def test_out_of_memory_halves_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If 8 rows do not fit, the training continues with 4 rows and twice the accumulation, and says so."""
    import torch

    from pytest_llmprops.benchmarks.eras.tools.training import trainer

    task, settings = toy_task(tmp_path), toy_settings(epochs=1.0, evaluations=2)
    most = 4
    collate = task.collate

    def limited(rows: Any) -> Any:
        if len(rows) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return collate(rows)

    monkeypatch.setattr(task, "collate", limited)
    said, say = lines_said()
    outcome = trainer.train(task, settings, tmp_path / "out", say=say)
    assert (outcome.accumulate, outcome.steps) == (2, 6)
    assert outcome.remarks == [
        "out of memory with 8 rows at once: continued with 4 rows and 2 accumulations; batches are unchanged"
    ]
    assert outcome.remarks[0] in said
    most = 0
    with pytest.raises(LLMPropsError, match="out of memory with 1 row per step"):
        trainer.train(task, settings, tmp_path / "none", say=silent)


def losses(history: Any) -> list[float]:
    return [point["loss"] for point in history if "loss" in point]


def test_parts_of_a_batch_are_averaged(tmp_path: Path) -> None:
    """The loss of a batch is the mean of its parts' losses, not their sum."""
    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    task = toy_task(tmp_path)
    settings = toy_settings(epochs=1.0, evaluations=1, learning_rate=1e-9)
    whole, parts = (
        train(task, replace(settings, accumulate=n), tmp_path / str(n), say=silent) for n in (1, 4)
    )
    # Random weights give each of four labels about the same probability: the loss is near log 4. Dropout differs.
    assert losses(whole.history) == pytest.approx([math.log(4)], rel=0.05)
    assert losses(parts.history) == pytest.approx(losses(whole.history), rel=0.03)


@pytest.mark.skipif(not os.environ.get("LLMPROPS_SLOW"), reason="slow: set LLMPROPS_SLOW=1")
def test_two_processes_share_a_training(tmp_path: Path) -> None:
    """With torchrun, each of two processes takes half of the batches, one of them writes the files."""
    save_base(tmp_path / "base")
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(80))
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "pytest_llmprops.cli.main",
        "eras", "train", "segmenter", "--data", str(data), "--base", str(tmp_path / "base"), "--batch", "8",
        "--epochs", "1",
        "--learning-rate", "1e-9", "--evaluations", "1", "--threads", "1", "--out", str(out),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on the held-out part") == 1
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert record["training"]["steps"] == 10 // 2
    with (out / "curve.csv").open(encoding="utf-8") as file:
        points = [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]
    assert points == pytest.approx([math.log(4)], rel=0.05)


def test_time_limit_and_early_stop(tmp_path: Path) -> None:
    """A time limit ends a training whose learning rate has fallen to 0; patience ends one that does not improve."""
    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    seconds = 0.0

    def clock() -> float:
        nonlocal seconds
        seconds += 1
        return seconds

    task = toy_task(tmp_path)
    limited = train(
        task, toy_settings(minutes=2, epochs=1000.0, evaluations=2), tmp_path / "a", say=silent, clock=clock
    )
    assert 5 < limited.steps < 120
    rates = [point["learning_rate"] for point in limited.history if "learning_rate" in point]
    assert rates[-1] < 0.1 * 1e-3
    stuck = train(
        task,
        toy_settings(learning_rate=1e-9, epochs=10, evaluations=10, patience=2),
        tmp_path / "b",
        say=silent,
    )
    assert stuck.steps == 3 * 6
