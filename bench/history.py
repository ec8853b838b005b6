"""The history of the ratios that ``python -m bench mission`` measures, and its plot in docs/reliability.md.

Each line of ``bench/history.jsonl`` is one run: date, commit, facts about the machine, and the figures by name. Ratios
are comparable between machines and under load, seconds are not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.process import ROOT
from pytest_llmprops.reports.kit.figures import MUTED, SERIES, draw, new_figure

HISTORY = ROOT / "bench" / "history.jsonl"
PLOT = ROOT / "docs" / "assets" / "performance.svg"
#: ends the names of figures that say nothing if other processes use the machine
WALL = ": wall"
#: the figures that are plotted: name -> target, if there is one
TARGETS: dict[str, float | None] = {
    "collection of all suites / pytest: CPU": 1.3,
    "suites/ -n 8 / one suite, -n 0: wall": 1.6,
    "1,000 calls, -n 0 / ideal: wall": 1.35,
    "suites/ -n 8 / one suite, -n 0: CPU": None,
}


def add_run(figures: Mapping[str, float], *, runs: int, file: Path = HISTORY) -> None:
    """Append a run to the history, without wall times if the load was above twice the number of CPUs.

    :param runs: number of runs whose medians the figures are.
    """
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    kept = {name: value for name, value in figures.items() if load <= 2 * cpus or not name.endswith(WALL)}
    row = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit,
        "machine": {"cpus": cpus, "load": round(load, 1), "python": sys.version.split()[0]},
        "runs": runs,
        "figures": {name: round(value, 3) for name, value in kept.items()},
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def read_runs(file: Path = HISTORY) -> list[dict[str, Any]]:
    """Return the runs of the history, oldest first."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def plot(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG of the ratios in :data:`TARGETS` over the runs, and their targets as dashed lines."""

    def figure() -> Figure:
        made = new_figure(7.2, 3.2)
        axes = made.add_axes((0.07, 0.16, 0.9, 0.64))
        for shade, (name, target) in zip(SERIES, TARGETS.items(), strict=False):
            points = [(n, run["figures"][name]) for n, run in enumerate(runs) if name in run["figures"]]
            if not points:
                continue
            axes.plot(*zip(*points, strict=True), color=shade, marker="o", label=name)
            if target is not None:
                axes.axhline(target, color=shade, linestyle=(0, (2, 2)), linewidth=0.9)
        axes.set_ylim(0)
        axes.set_xticks(range(len(runs)), [run["commit"].partition("-")[0][:7] for run in runs])
        axes.tick_params(labelsize=8, color=MUTED)
        made.legend(loc="upper left", frameon=False, fontsize=8.5, ncols=2)
        return made

    # matplotlib ends some lines with a space.
    return re.sub(r" +$", "", draw(figure)[0], flags=re.MULTILINE)


if __name__ == "__main__":
    PLOT.write_text(plot(read_runs()), encoding="utf-8")
