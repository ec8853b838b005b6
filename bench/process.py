"""Run a process and measure it, with its children, from outside."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Measured:
    """A finished process tree: seconds from start to exit, CPU seconds, peak of the summed RSS in MB."""

    code: int
    wall: float
    cpu: float
    peak_mb: float
    output: str


def _children() -> dict[int, list[tuple[int, int]]]:
    """Return pid -> [(child pid, resident pages)] of every process."""
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                parent = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
                pages = int(Path(entry.path, "statm").read_text().split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append((int(entry.name), pages))
    return children


def _resident(root: int) -> int:
    children = _children()
    total, todo = 0, [root]
    try:
        total = int(Path(f"/proc/{root}/statm").read_text().split()[1])
    except OSError:
        return 0
    while todo:
        for pid, pages in children.get(todo.pop(), ()):
            total += pages
            todo.append(pid)
    return total * resource.getpagesize()


def measure(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], memory: bool = True) -> Measured:
    """Run ``command`` until it ends, and measure it.

    :param memory: also measure the memory, which costs some CPU time.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(SAMPLE_SECONDS)

    watcher = threading.Thread(target=watch, daemon=True)
    if memory:
        watcher.start()
    output, _ = process.communicate()
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(process.returncode, wall, cpu, peak / 1e6, output.decode("utf-8", "replace"))
