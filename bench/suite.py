"""Run the H-TEST suite against the stub server, and print the table of figures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.process import Measured, measure
from bench.stub_server import RunningStub

ROOT = Path(__file__).resolve().parent.parent
#: 100 items from each of the ten tasks other than Letter Geometry
THOUSAND = ["--llm-limit", "100", "-k", "not letter_geometry"]
#: turns off plugins of the development environment that a user's environment does not have
PLAIN = [
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:allure_pytest",
    "-p",
    "no:timeout",
    "-o",
    "addopts=",
]


class Bench:
    """Runs the suite and prints one line per figure."""

    def __init__(self, runs: int, folder: Path) -> None:
        self.runs = runs
        self.folder = folder
        #: the figures for the history
        self.figures: dict[str, float] = {}
        self._count = 0
        # With PYTHONDONTWRITEBYTECODE, which containers often set, every process would compile the package.
        own = ("OPENAI_", "LLMPROPS_", "PYTEST_", "PYTHON")
        env = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        self.env = env | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder), "CI": "1"}

    def fresh(self, name: str) -> Path:
        """Return a path that no run has used."""
        self._count += 1
        return self.folder / f"{name}-{self._count}"

    def suite(
        self, stub: RunningStub, *args: str, store: Path | None = None, run: Path | None = None
    ) -> Measured:
        """Run ``pytest suites/test_htest.py`` against ``stub``."""
        return measure(self.command(stub, *args, store=store, run=run), cwd=ROOT, env=self.env)

    def command(
        self, stub: RunningStub, *args: str, store: Path | None = None, run: Path | None = None
    ) -> list[str]:
        """Return the command of :meth:`suite`."""
        return [
            sys.executable, "-m", "pytest", "suites/test_htest.py", *PLAIN, "-q", "-p", "no:cacheprovider",
            "--model", "openai:stub", "--llm-base-url", stub.url, "--llm-concurrency", "64",
            "--llm-store", str(store or self.fresh("store")), "--llm-run", str(run or self.fresh("run")),
            *(args if "-k" in args else (*THOUSAND, *args)),
        ]  # fmt: skip

    def ratio(self, name: str, value: float, limit: float | None = None) -> None:
        """Print a ratio and its limit, and keep it for the history."""
        self.figures[name] = value
        target, good = ("", None) if limit is None else (f"<= {limit}", value <= limit)
        self.line(name, f"{value:.2f}", target, good)

    def line(self, name: str, value: str, target: str, good: bool | None) -> None:
        """Print one figure."""
        mark = {True: "ok", False: "MISSED", None: ""}[good]
        print(f"{name:<58} {value:>28}  {target:<34} {mark}", flush=True)
