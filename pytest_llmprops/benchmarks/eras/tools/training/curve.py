"""The learning curve of a training, as CSV and SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import MissingExtra
from pytest_llmprops.data.whole_files import replacing, write_text

_FIRST = ("step", "epoch", "seconds", "learning_rate", "loss")


def write_curve(history: Sequence[Mapping[str, float]], metric: str, folder: Path) -> list[Path]:
    """Write ``curve.csv`` and ``curve.svg``, and return their paths.

    :param history: the points; those of an evaluation have ``eval_<name>``.
    :param metric: the name of the score that the figure shows next to the loss.
    :raises MissingExtra: without matplotlib.
    """
    names = {name for entry in history for name in entry}
    scores = sorted(name for name in names if name.startswith("eval_"))
    columns = [*(name for name in _FIRST if name in names), *scores]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name.removeprefix("eval_") for name in columns])
    writer.writerows([entry.get(name, "") for name in columns] for entry in history)
    write_text(folder / "curve.csv", text.getvalue())
    with replacing(folder / "curve.svg") as draft:
        _draw(history, metric, draft)
    return [folder / "curve.csv", folder / "curve.svg"]


def _draw(history: Sequence[Mapping[str, float]], metric: str, file: Path) -> None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the learning curve", package="matplotlib", extra="train") from None
    # The same history gives the same file.
    with mpl.rc_context({"svg.hashsalt": "curve", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=(7, 3.5), layout="constrained")
        left = figure.add_subplot()
        losses = [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
        left.plot(*zip(*losses, strict=True), color="#8888aa", linewidth=1, label="loss (training)")
        left.set(xlabel="step", ylabel="loss", yscale="log")
        right = left.twinx()
        name = f"eval_{metric}"
        values = [(entry["step"], entry[name]) for entry in history if name in entry]
        right.plot(
            *zip(*values, strict=True),
            color="#c04020",
            marker="o",
            markersize=3,
            label=f"{metric} (held out)",
        )
        right.set(ylabel=f"{metric} (held out)")
        lines = [*left.get_lines(), *right.get_lines()]
        left.legend(lines, [line.get_label() for line in lines], loc="center right", frameon=False)
        figure.savefig(file, format="svg", metadata={"Date": None})
