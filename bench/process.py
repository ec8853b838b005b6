"""Run a process and measure it, with its children, from outside; options and the table of figures."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.stub_server import RunningStub

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_SECONDS = 0.05
#: a test file with ``n`` cases that do nothing
TRIVIAL = (
    "import pytest\n@pytest.mark.parametrize('n', range({n}))\ndef test_trivial(n):\n    assert n >= 0\n"
)
#: turns off plugins of the development environment that a user's environment does not have
PLAIN = ["-p", "no:hypothesispytest", "-p", "no:allure_pytest", "-p", "no:timeout", "-o", "addopts="]
#: 100 items from each of the ten tasks other than Letter Geometry
THOUSAND = ["--llm-limit", "100", "-k", "not letter_geometry"]


def parsed(doc: str | None, /, **options: Any) -> argparse.Namespace:
    """Return the options of the command line.

    :param options: the default of each option, or a tuple of its default and its help.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, option in options.items():
        default, text = option if isinstance(option, tuple) else (option, None)
        several = isinstance(default, list)
        kind = type(default[0] if several else default)
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=kind, nargs="+" if several else None, default=default, help=text)
    return parser.parse_args()


def environment(folder: Path, *more: str) -> dict[str, str]:
    """Return an environment without the settings of this machine that affect a run, or begin with one of ``more``."""
    # With PYTHONDONTWRITEBYTECODE, which containers often set, every process would compile the package.
    own = ("OPENAI_", "LLMPROPS_", "PYTEST_", "PYTHON", *more)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder), "CI": "1"}


def spread(values: Sequence[float], unit: str = " s") -> str:
    """Return the median and the range of several runs."""
    return f"{statistics.median(values):.2f}{unit} ({min(values):.2f}-{max(values):.2f})"


@dataclass(frozen=True)
class Measured:
    """A finished process tree: seconds from start to exit, CPU seconds, peak of the summed RSS in MB."""

    code: int
    wall: float
    cpu: float
    peak_mb: float
    output: str


def tree(root: int) -> list[int]:
    """Return a process and all that it has started, directly or not."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _resident(root: int) -> int:
    """Return the resident bytes of a process and its children."""
    pages = 0
    for pid in tree(root):
        with suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], memory: bool = True) -> Measured:
    """Run ``command`` until it ends, and measure it.

    :param memory: also measure the memory, which costs some CPU time.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    files: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, cwd=cwd, env=dict(env), **files)
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


class Bench:
    """Runs the H-TEST suite against the stub server, and prints one line per figure."""

    def __init__(self, runs: int, folder: Path) -> None:
        self.runs = runs
        self.folder = folder
        self._count = 0
        self.env = environment(folder)

    def fresh(self, name: str) -> Path:
        """Return a path that no run has used."""
        self._count += 1
        return self.folder / f"{name}-{self._count}"

    def suite(self, stub: RunningStub, *args: str, store: Path | None = None) -> Measured:
        """Run ``pytest suites/test_htest.py`` against ``stub``."""
        return measure(self.command(stub, *args, store=store), cwd=ROOT, env=self.env)

    def command(self, stub: RunningStub, *args: str, store: Path | None = None) -> list[str]:
        """Return the command of :meth:`suite`."""
        return [
            sys.executable, "-m", "pytest", "suites/test_htest.py", *PLAIN, "-q", "-p", "no:cacheprovider",
            "--model", "openai:stub", "--llm-base-url", stub.url, "--llm-concurrency", "64",
            "--llm-store", str(store or self.fresh("store")), "--llm-run", str(self.fresh("run")),
            *(args if "-k" in args else (*THOUSAND, *args)),
        ]  # fmt: skip

    def median(
        self, name: str, values: Sequence[float], limit: float | None = None, unit: str = " s"
    ) -> None:
        """Print the median and the range of several runs, or one ratio, and the limit."""
        middle = statistics.median(values)
        shown = spread(values, unit) if len(values) > 1 else f"{middle:.2f}{unit}"
        self.line(name, shown, f"<= {limit}{unit}" if limit else "", middle <= limit if limit else None)

    def line(self, name: str, value: str, target: str = "", good: bool | None = None) -> None:
        """Print one figure."""
        mark = {True: "ok", False: "MISSED", None: ""}[good]
        print(f"{name:<58} {value:>28}  {target:<34} {mark}", flush=True)
