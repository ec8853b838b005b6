"""Run the H-TEST suite against the stub server, and print the table of figures."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.process import PLAIN, ROOT, Measured, environment, measure, spread
from bench.stub_server import RunningStub

#: 100 items from each of the ten tasks other than Letter Geometry
THOUSAND = ["--llm-limit", "100", "-k", "not letter_geometry"]


class Bench:
    """Runs the suite and prints one line per figure."""

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

    def ratio(self, name: str, value: float, limit: float | None = None) -> None:
        """Print a ratio and its limit."""
        target, good = ("", None) if limit is None else (f"<= {limit}", value <= limit)
        self.line(name, f"{value:.2f}", target, good)

    def median(
        self, name: str, values: Sequence[float], limit: float | None = None, unit: str = " s"
    ) -> None:
        """Print the median and the range of several runs, and the limit of the median."""
        target, good = (
            ("", None) if limit is None else (f"<= {limit}{unit}", statistics.median(values) <= limit)
        )
        self.line(name, spread(values, unit), target, good)

    def line(self, name: str, value: str, target: str = "", good: bool | None = None) -> None:
        """Print one figure."""
        mark = {True: "ok", False: "MISSED", None: ""}[good]
        print(f"{name:<58} {value:>28}  {target:<34} {mark}", flush=True)
