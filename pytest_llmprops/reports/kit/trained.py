"""Models that a command ``train`` wrote: their folder says how they were trained."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.reports.kit.series import Series

#: The files of a trained model's folder (``pytest_llmprops/training``): its record, and its learning curve.
RECORD, CURVE = "training.json", "curve.csv"
#: Names of the score that chose the checkpoint, in the columns of the curve.
METRICS = ("f1", "accuracy")
#: Larger files are not read, because a run's record may name any folder. :data:`_MOST_POINTS` limits the plot.
_MOST_BYTES, _MOST_POINTS = 8_000_000, 500


@dataclass(frozen=True, slots=True)
class Training:
    """How a model was trained.

    :param base: the model that the training started from; empty if it started from random weights.
    :param data: names of the training files.
    :param scores: per scored file, its name and its numbers by name.
    :param metric: one of :data:`METRICS`, or empty.
    :param options: what was trained, by name. :param settings: how, by name.
    :param losses: (step, loss). :param held_out: (step, score on the held-out part).
    """

    title: str
    base: str
    data: tuple[str, ...]
    scores: tuple[tuple[str, Mapping[str, float]], ...]
    metric: str
    options: Mapping[str, JSON]
    settings: Mapping[str, JSON]
    losses: tuple[tuple[float, float], ...]
    held_out: tuple[tuple[float, float], ...]


def read_training(series: Series) -> Training | None:
    """Return how a model was trained; None if the report cannot know it."""
    facts = series.run.facts.models.get(series.model)
    backend, _, rest = facts.spec.partition(":") if facts else ("", "", "")
    if backend != "hf" or not rest:
        return None
    try:
        folder = Path(rest.partition("?")[0]).expanduser()
        record = parsed_json(_text(folder / RECORD))
        curve = list(csv.DictReader(_text(folder / CURVE).splitlines()))
    except (OSError, ValueError, RuntimeError, csv.Error):
        return None
    description = record.get("description") if isinstance(record, dict) else None
    if not isinstance(description, dict):
        return None
    scores = record.get("scores")
    metric = next((name for name in METRICS if curve and name in curve[0]), "")
    return Training(
        title=_string(description.get("title")),
        base=_string(description.get("base")),
        data=tuple(_training_files(description.get("data"))),
        scores=tuple(_scores(scores if isinstance(scores, list) else [])),
        metric=metric,
        options=_object(description.get("options")),
        settings=_object(description.get("settings")),
        losses=_points(curve, "loss"),
        held_out=_points(curve, metric) if metric else (),
    )


def _text(path: Path) -> str:
    with open(path, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} is too large")
    return content.decode("utf-8")


def _object(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}


def _string(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _training_files(rows: JSON) -> Iterator[str]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and len(row) > 1 and row[0] == "training":
            yield _string(row[1])


def _scores(rows: Sequence[JSON]) -> Iterator[tuple[str, Mapping[str, float]]]:
    for row in rows:
        if isinstance(row, dict):
            numbers = {n: float(x) for n, x in row.items() if isinstance(x, int | float) and math.isfinite(x)}
            yield _string(row.get("file")), numbers


def _points(rows: Sequence[Mapping[str, str | None]], name: str) -> tuple[tuple[float, float], ...]:
    """Return (step, value) of the rows that have the value; of very many, evenly chosen ones with the last."""
    points = []
    for row in rows:
        try:
            point = float(row.get("step") or "nan"), float(row.get(name) or "nan")
        except ValueError:
            continue
        if all(map(math.isfinite, point)):
            points.append(point)
    every = -(-len(points) // _MOST_POINTS) or 1
    return tuple(points[::-1][::every][::-1])
