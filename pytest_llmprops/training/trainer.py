"""Training of a :class:`~pytest_llmprops.training.task.Task` with the Trainer of transformers.

Importing this module imports torch and transformers.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader
from transformers import EarlyStoppingCallback, PrinterCallback, Trainer, TrainingArguments

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.training.task import EpochBatches, Settings, Task

#: steps between two points of the learning curve
_LOGGED = 20
_STATE = "trainer_state.json"


def checkpoint_folder(out: Path) -> Path:
    """Return the folder of the checkpoints of a training in ``out``."""
    return out / "checkpoints"


def last_checkpoint(out: Path) -> Path | None:
    """Return the newest complete checkpoint of a training, and remove incomplete ones; None if there is none.

    A process that was killed may leave an incomplete checkpoint. Its last file is written last.
    """
    complete: dict[int, Path] = {}
    for folder in checkpoint_folder(out).glob("checkpoint-*"):
        try:
            parsed_json((folder / _STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(folder)
            continue
        step = re.search(r"\d+$", folder.name)
        complete[int(step[0]) if step else 0] = folder
    return complete[max(complete)] if complete else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trained network and how it was trained.

    :param network: the network of the checkpoint that is kept, in evaluation mode.
    :param seconds: time of training in this process.
    :param scores: the scores of that checkpoint on the held-out part.
    :param history: the points of the learning curve: step, epoch, and loss or scores.
    """

    network: Any
    steps: int
    epochs: float
    seconds: float
    scores: Mapping[str, float]
    history: Sequence[Mapping[str, float]]


def train(task: Task, settings: Settings, out: Path) -> Outcome:
    """Train a network, or continue from the last checkpoint in ``out``.

    :raises LLMPropsError: if memory does not suffice.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    transformers.set_seed(settings.seed)
    trainer = TaskTrainer(task, settings, out)
    checkpoint = last_checkpoint(out)
    if checkpoint is not None:
        print(f"continuing from step {checkpoint.name.removeprefix('checkpoint-')}")
    try:
        result = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except torch.OutOfMemoryError:
        raise LLMPropsError(
            f"out of memory with {settings.batch // settings.accumulate} rows at once; use a larger --accumulate, or a"
            " smaller --base"
        ) from None
    metric = f"eval_{task.metric}"
    history = [entry for entry in trainer.state.log_history if "loss" in entry or metric in entry]
    evaluated = [entry for entry in history if metric in entry]
    kept = max(evaluated, key=lambda entry: entry[metric]) if settings.keeps_best else evaluated[-1]
    return Outcome(
        network=trainer.accelerator.unwrap_model(trainer.model).eval(),
        steps=int(trainer.state.global_step),
        epochs=float(trainer.state.epoch),
        seconds=float(result.metrics["train_runtime"]),
        scores={name.removeprefix("eval_"): kept[name] for name in kept if name.startswith("eval_")},
        history=history,
    )


class TaskTrainer(Trainer):  # type: ignore[misc]
    """The Trainer of transformers with a task's batches and scores."""

    def __init__(self, task: Task, settings: Settings, out: Path) -> None:
        self._task = task
        self.batches = EpochBatches(
            task.rows, batch=settings.batch, accumulate=settings.accumulate, seed=settings.seed
        )
        steps = math.ceil(self.batches.steps * settings.epochs)
        interval = math.ceil(steps / settings.evaluations)
        has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        arguments = TrainingArguments(
            output_dir=str(checkpoint_folder(out)),
            per_device_train_batch_size=self.batches.batch_size,
            gradient_accumulation_steps=settings.accumulate,
            num_train_epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            warmup_steps=math.ceil(settings.warmup * steps),
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.clip,
            seed=settings.seed,
            bf16=settings.precision == "bf16" or (settings.precision == "auto" and has_bf16),
            fp16=settings.precision == "fp16",
            eval_strategy="steps",
            save_strategy="steps",
            eval_steps=interval,
            save_steps=interval,
            save_total_limit=2,
            load_best_model_at_end=settings.keeps_best,
            metric_for_best_model=task.metric,
            greater_is_better=True,
            logging_steps=min(_LOGGED, interval),
            remove_unused_columns=False,
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
            disable_tqdm=True,
            log_level="error",
        )
        self.control: Any = None
        super().__init__(
            model=task.network(),
            args=arguments,
            train_dataset=task.rows,
            eval_dataset=task.rows,
            data_collator=task.collate,
            callbacks=[EarlyStoppingCallback(settings.patience)] if settings.patience else None,
        )
        self.remove_callback(PrinterCallback)
        # BERT's classifiers take any keyword, so transformers 5.23 believes that they divide the loss by the number of
        # labels of a whole batch. They do not, and the losses of the parts would be added instead of averaged.
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> Any:
        """Return the loader of the task's batches."""
        loader: DataLoader[Any] = DataLoader(
            self.train_dataset, batch_sampler=self.batches, collate_fn=self._task.collate
        )
        return self.accelerator.prepare(loader)

    def evaluate(self, *arguments: Any, **more: Any) -> dict[str, float]:
        """Return the task's scores on the held-out part."""
        network = self.accelerator.unwrap_model(self.model)
        network.eval()
        scores = {f"eval_{name}": value for name, value in self._task.evaluate(network).items()}
        self.log(scores)
        step, value = self.state.global_step, scores[f"eval_{self._task.metric}"]
        print(
            f"{step / self.state.max_steps:4.0%}  step {step:,}:"
            f" {self._task.metric} {value:.4f} on the held-out part"
        )
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores
