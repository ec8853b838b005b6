"""``--plan``: the steps, memory and time of a training, measured on a few batches."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers

from pytest_llmprops.benchmarks.eras.tools.training.rows import EpochBatches, Row
from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings
from pytest_llmprops.benchmarks.eras.tools.training.task import Task
from pytest_llmprops.benchmarks.eras.tools.training.trainer import chosen_precision

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
    parameters = sum(weights.numel() for weights in network.parameters())
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
        f"network: {parameters:,} parameters",
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
