"""A whole training: plan, train or continue, save, score, learning curve, model card."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_llmprops.benchmarks.eras.tools.training.card import versions, write_card
from pytest_llmprops.benchmarks.eras.tools.training.checkpoints import (
    begin,
    checkpoint_folder,
    write_record,
)
from pytest_llmprops.benchmarks.eras.tools.training.curve import write_curve
from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings
from pytest_llmprops.benchmarks.eras.tools.training.task import CardFacts, Task

Row = Mapping[str, object]


def run_training(
    task: Task,
    settings: Settings,
    out: Path,
    facts: CardFacts,
    *,
    score: Callable[[Path], Sequence[Row]],
    plan: bool = False,
    say: Callable[[str], object] = print,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Train a task into a folder, or continue there; return whether anything was trained.

    A complete training of the same task with the same settings is not repeated. The folder has the model
    (``config.json``, safetensors, tokenizer), ``README.md`` (the model card), ``training.json``, ``curve.csv`` and
    ``curve.svg``. Its checkpoints are deleted when everything else is written.

    :param score: function from the folder of the saved model to rows with the file and its scores, for the card.
    :param plan: print the steps, memory and time, write nothing, and train nothing.
    :param clock: returns seconds; the time limit counts them.
    :raises UsageError: if the folder has another training.
    """
    from pytest_llmprops.benchmarks.eras.tools.training.plan import plan_lines
    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    if plan:
        for line in (*facts.notes, *plan_lines(task, settings.checked())):
            say(line)
        return False
    description = {
        "title": facts.title,
        "base": facts.base,
        "settings": settings.checked().record(),
        "options": dict(facts.options),
        "data": [[file.role, file.name, file.sha256, file.lines] for file in facts.files],
    }
    # Set by torchrun and `accelerate launch`, which start one process per GPU.
    is_main = os.environ.get("RANK", "0") == "0"
    if not is_main:
        say = _silent
    if begin(out, description, is_main=is_main):
        say(f"{out}: this training is complete; nothing to do")
        return False
    for note in facts.notes:
        say(note)
    outcome = train(task, settings, out, say=say, clock=clock)
    if not is_main:
        return True
    task.save(outcome.network, out)
    write_curve(outcome.history, task.metric, out)
    held_out = {"file": "held-out part", **outcome.scores}
    scores = [*score(out), {key: held_out[key] for key in held_out if key not in ("epoch", "step")}]
    training = {
        "steps": outcome.steps,
        "epochs": outcome.epochs,
        "seconds": round(outcome.seconds, 1),
        "rows": len(task.rows),
        "parameters": sum(weights.numel() for weights in outcome.network.parameters()),
        "device": str(outcome.network.device),
        "accumulations": outcome.accumulate,
    }
    write_card(
        out, facts, settings=settings.record(), training=training, scores=scores, remarks=outcome.remarks
    )
    write_record(
        out,
        description,
        complete=True,
        results={"training": training, "scores": scores, "remarks": outcome.remarks, "versions": versions()},
    )
    shutil.rmtree(checkpoint_folder(out), ignore_errors=True)
    return True


def _silent(text: str) -> None:
    """Print nothing; the first process prints for all."""
