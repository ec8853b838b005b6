"""Training of a :class:`~pytest_llmprops.training.task.Task` with the Trainer of transformers.

Importing this module imports torch and transformers.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.training.checkpoints import checkpoint_folder, last_checkpoint
from pytest_llmprops.training.task import (
    EpochBatches,
    Precision,
    Progress,
    Row,
    Settings,
    Task,
    elapsed_in,
    is_stuck,
)

#: steps between two points of the learning curve
_LOGGED = 20
#: larger than any number of steps: evaluations and checkpoints follow :class:`Progress` instead
_NEVER = 1 << 40
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trained network and how it was trained.

    :param network: the network of the checkpoint that is kept, in evaluation mode.
    :param seconds: time of training, including that of earlier processes that were resumed.
    :param scores: the scores of that checkpoint on the held-out part.
    :param accumulate: parts of a batch; more than in the settings if memory did not suffice.
    :param remarks: what differs from the settings, one sentence each.
    :param history: the points of the learning curve: step, epoch, seconds, and loss or scores.
    """

    network: Any
    steps: int
    epochs: float
    seconds: float
    scores: Mapping[str, float]
    accumulate: int
    remarks: Sequence[str]
    history: Sequence[Mapping[str, float]]


def train(
    task: Task,
    settings: Settings,
    out: Path,
    *,
    say: Say = print,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Train a network, or continue from the last checkpoint in ``out``.

    If memory does not suffice, the batch is divided into twice as many parts, and the training continues from the last
    checkpoint. The batches and the rate of learning stay the same.

    :param clock: returns seconds; the time limit counts them.
    :raises LLMPropsError: if memory does not suffice for a single row.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    accumulate, remarks = settings.accumulate, list[str]()
    while True:
        try:
            return _train(task, settings, accumulate, out, remarks, say, clock)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            rows = settings.batch // accumulate
        # Here the exception, and with it the network of the failed attempt, is freed.
        torch.cuda.empty_cache()
        parts = [d for d in range(2 * accumulate, settings.batch + 1) if settings.batch % d == 0]
        if not parts:
            raise LLMPropsError(
                f"out of memory with {rows} row{'s' * (rows > 1)} per step; use a smaller --base or --window"
            )
        accumulate = parts[0]
        remarks.append(
            f"out of memory with {rows} rows at once: continued with {settings.batch // accumulate} rows"
            f" and {accumulate} accumulations; batches are unchanged"
        )
        say(remarks[-1])


def _is_out_of_memory(error: Exception) -> bool:
    # torch has no class of its own for a CPU without memory.
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def chosen_precision(precision: Precision) -> Precision:
    """Return the precision for this machine: for ``auto``, bf16 on a GPU that has it, otherwise 32 bits."""
    if precision != "auto":
        return precision
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "32"


def _train(
    task: Task,
    settings: Settings,
    accumulate: int,
    out: Path,
    remarks: Sequence[str],
    say: Say,
    clock: Callable[[], float],
) -> Outcome:
    transformers.set_seed(settings.seed)
    network = task.network()
    progress = Progress(
        seconds=None if settings.minutes is None else 60 * settings.minutes,
        warmup=settings.warmup,
        clock=clock,
    )
    metric = f"eval_{task.metric}"
    trainer = TaskTrainer(task, network, settings, accumulate, out, progress)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(_Conductor(progress, settings, metric))
    trainer.add_callback(_Bar(progress, task.metric, say))
    checkpoint = last_checkpoint(out)
    if checkpoint is not None:
        say(f"continuing from step {checkpoint.name.removeprefix('checkpoint-')}")
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    history = [entry for entry in trainer.state.log_history if "loss" in entry or metric in entry]
    evaluated = [entry for entry in history if metric in entry]
    kept = max(evaluated, key=lambda entry: entry[metric]) if settings.keeps_best else evaluated[-1]
    return Outcome(
        network=trainer.accelerator.unwrap_model(trainer.model).eval(),
        steps=int(trainer.state.global_step),
        epochs=float(trainer.state.epoch),
        seconds=elapsed_in(history),
        scores={name.removeprefix("eval_"): kept[name] for name in kept if name.startswith("eval_")},
        accumulate=accumulate,
        remarks=list(remarks),
        history=history,
    )


class TaskTrainer(Trainer):  # type: ignore[misc]
    """The Trainer of transformers with a task's batches, scores and schedule."""

    def __init__(
        self, task: Task, network: Any, settings: Settings, accumulate: int, out: Path, progress: Progress
    ) -> None:
        self._task, self._settings, self._progress = task, settings, progress
        precision = chosen_precision(settings.precision)
        on_gpu, several = torch.cuda.is_available(), int(os.environ.get("WORLD_SIZE", "1")) > 1
        self.batches = EpochBatches(
            task.rows, batch=settings.batch, accumulate=accumulate, seed=settings.seed
        )
        arguments = TrainingArguments(
            output_dir=str(checkpoint_folder(out)),
            per_device_train_batch_size=self.batches.batch_size,
            gradient_accumulation_steps=accumulate,
            num_train_epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.clip,
            seed=settings.seed,
            bf16=precision == "bf16",
            fp16=precision == "fp16",
            # Evaluations and checkpoints are chosen by :class:`_Conductor`. These values only allow the best checkpoint
            # at the end.
            eval_strategy="steps",
            save_strategy="steps",
            eval_steps=_NEVER,
            save_steps=_NEVER,
            save_total_limit=2,
            load_best_model_at_end=settings.keeps_best,
            metric_for_best_model=task.metric,
            greater_is_better=True,
            logging_steps=_LOGGED,
            remove_unused_columns=False,
            # With two heads, a batch uses one of them.
            ddp_find_unused_parameters=len({row.source for row in task.rows}) > 1,
            use_cpu=not on_gpu,
            # Without it, several processes on CPUs would each train a network of their own.
            ddp_backend="gloo" if several and not on_gpu else None,
            report_to="none",
            disable_tqdm=True,
            log_level="error",
        )
        self.lr_scheduler: Any = None
        self.control: Any = None
        super().__init__(
            model=network,
            args=arguments,
            train_dataset=task.rows,
            eval_dataset=task.rows,
            data_collator=task.collate,
        )
        # BERT's classifiers take any keyword, so transformers 5.23 believes that they divide the loss by the number of
        # labels of a whole batch. They do not, and the losses of the parts would be added instead of averaged.
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> Any:
        """Return the loader of the task's batches."""
        loader: DataLoader[Any] = DataLoader(
            self.train_dataset, batch_sampler=self.batches, collate_fn=self._task.collate
        )
        return self.accelerator.prepare(loader)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Return the schedule of the learning rate."""
        self._progress.max_steps = num_training_steps
        if self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
                optimizer or self.optimizer, self._progress.learning_rate_factor
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def evaluate(self, *arguments: Any, **more: Any) -> dict[str, float]:
        """Return the task's scores on the held-out part."""
        network = self.accelerator.unwrap_model(self.model)
        network.eval()
        scores = {f"eval_{name}": value for name, value in self._task.evaluate(network).items()}
        self.log(scores)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the time of training to a point of the learning curve."""
        super().log({**logs, "seconds": round(self._progress.elapsed, 3)}, start_time)


class _Conductor(TrainerCallback):  # type: ignore[misc]
    """Evaluates, writes checkpoints and stops by the share of the training that is done."""

    def __init__(self, progress: Progress, settings: Settings, metric: str) -> None:
        self._progress, self._settings, self._metric = progress, settings, metric
        self._done = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._progress.max_steps = state.max_steps
        self._progress.resume(elapsed_in(state.log_history))
        self._done = self._due(state.global_step)

    def _due(self, step: int) -> int:
        """Return how many evaluations are due after ``step`` steps."""
        # Rounding errors must not delay an evaluation to the next step.
        return int(self._progress.share(step) * self._settings.evaluations + 1e-9)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        due = self._due(state.global_step)
        if due > self._done:
            self._done = due
            control.should_log = control.should_evaluate = control.should_save = True
        if self._progress.share(state.global_step) >= 1:
            control.should_training_stop = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if is_stuck(state.log_history, self._metric, self._settings.patience):
            control.should_training_stop = True


class _Bar(TrainerCallback):  # type: ignore[misc]
    """A progress bar in percent, with a line for each evaluation."""

    def __init__(self, progress: Progress, metric: str, say: Say) -> None:
        self._progress, self._metric, self._say = progress, metric, say
        self._bar: Any = None
        self._loss = float("nan")

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        # None: no bar if standard error is not a terminal
        self._bar = tqdm(total=100, unit="%", disable=None, leave=False, bar_format="{l_bar}{bar}{postfix}")

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float], **more: Any) -> None:
        self._loss = logs.get("loss", self._loss)
        if self._bar is not None:
            self._bar.n = round(100 * self._progress.share(state.global_step))
            self._bar.set_postfix_str(f"step {state.global_step}, loss {self._loss:.4f}")

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **more: Any
    ) -> None:
        share, value = self._progress.share(state.global_step), metrics[f"eval_{self._metric}"]
        if self._bar is not None:
            self._bar.clear()
        self._say(
            f"{100 * share:3.0f}%  step {state.global_step:,}, {self._progress.elapsed:,.0f} s:"
            f" loss {self._loss:.4f}, {self._metric} {value:.4f} on the held-out part"
        )

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._bar is not None:
            self._bar.close()


#: batches whose time is measured, from short to long ones
_TIMED = 3


def plan_lines(task: Task, settings: Settings) -> list[str]:
    """Return lines about the steps, memory and time of a training; nothing is written and no weights are kept.

    Memory and time are measured: a network is trained for a few batches of different lengths, among them the longest
    one, and then dropped.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    transformers.set_seed(settings.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = task.network().to(device).train()
    batches = EpochBatches(
        task.rows, batch=settings.batch, accumulate=settings.accumulate, seed=settings.seed
    )
    steps = batches.steps * settings.epochs
    parts = sorted(batches, key=lambda part: max(len(task.rows[i].ids) for i in part))
    chosen = [parts[round(place * (len(parts) - 1) / _TIMED)] for place in range(_TIMED + 1)]
    # The longest part comes first: it also warms up.
    seconds = _timed(task, network, [chosen[-1], *chosen[:-1]], settings)
    per_step = settings.accumulate * sum(seconds[1:]) / _TIMED
    parameters = [weights.numel() for weights in network.parameters()]
    trained = sum(weights.numel() for weights in network.parameters() if weights.requires_grad)
    of_them = f", {trained:,} of them trained" if trained < sum(parameters) else ""
    total = per_step * steps
    shown = f"{round(steps):,} steps in {settings.epochs:g} epochs"
    if settings.minutes is not None and 60 * settings.minutes < total:
        total = 60 * settings.minutes
        reached = total / per_step
        shown = f"about {reached:,.0f} steps ({reached / batches.steps:.1f} epochs) until the time limit"
    tokens = sum(len(row.ids) for row in task.rows)
    return [
        f"data:    {len(task.rows):,} rows, {tokens:,} tokens",
        f"steps:   {shown}, {settings.batch} rows each ({settings.accumulate} x {batches.batch_size})",
        f"network: {sum(parameters):,} parameters{of_them}",
        f"memory:  {_memory(device) / 2**30:.1f} GiB on {_device_name(device)}, measured with the longest rows",
        f"time:    {per_step:.3f} s per step, {_duration(total)} in total without evaluations",
    ]


def _timed(task: Task, network: Any, parts: Sequence[Sequence[int]], settings: Settings) -> list[float]:
    device = next(network.parameters()).device
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate)
    precision = chosen_precision(settings.precision)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float16
    seconds = []
    for part in parts:
        rows: list[Row] = [task.rows[index] for index in part]
        start = time.perf_counter()
        batch: Mapping[str, Any] = task.collate(rows)
        with torch.autocast(device.type, dtype=dtype, enabled=precision != "32"):
            loss = network(**{name: tensor.to(device) for name, tensor in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


def _memory(device: torch.device) -> float:
    """Return the highest memory use so far, in bytes: of the GPU, or of the process."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated())
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def _device_name(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({torch.get_num_threads()} threads)"
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
