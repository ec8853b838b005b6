"""Labelled reviews to train and score sentiment classifiers: ASAP and ChnSentiCorp as they are published."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.benchmarks.eras.tools.sentiment_files import Labelled, parse_labelled
from pytest_llmprops.benchmarks.eras.tools.training.task import DataFile
from pytest_llmprops.core.encoding import utf8
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.numbers import counted

_SUFFIXES = (".csv", ".tsv", ".txt")
#: Words in the names of files: ``train.csv``, ``ChnSentiCorp_dev.tsv``.
_PARTS = {"train": "training", "training": "training", "dev": "held out", "valid": "held out", "test": "test"}
#: More held-out reviews would make evaluations take longer than the training.
MOST_HELD_OUT = 2000


@dataclass(frozen=True, slots=True)
class ReviewFile:
    """A labelled file. ``name`` is its path below the folder of ``--data``, or its name."""

    name: str
    sha256: str
    rows: Sequence[Labelled]
    note: str


@dataclass(frozen=True, slots=True)
class Reviews:
    """The reviews of a training.

    :param training: the reviews to train on. :param held_out: those that choose the best checkpoint.
    :param tests: the files to score. :param files: all files, for the model card. :param notes: what was left out.
    """

    training: Sequence[Labelled]
    held_out: Sequence[Labelled]
    tests: Sequence[ReviewFile]
    files: Sequence[DataFile]
    notes: Sequence[str]


def read_reviews(
    data: Sequence[Path], tests: Sequence[Path] = (), *, held_out: float = 0.05, seed: int = 0
) -> Reviews:
    """Return the reviews of files and folders, without training reviews whose text is a test review.

    A folder may have any number of files at any depth with ``train``, ``dev`` or ``test`` in their names. A file of
    ``data`` is a training file.

    :param tests: further files to score.
    :param held_out: share of the training reviews that is held out if there is no ``dev`` file.
    :raises DataError: if a file cannot be used. :raises UsageError: if there is no training review.
    """
    if not 0 < held_out < 1:
        raise UsageError(f"--held-out must be between 0 and 1, not {held_out}")
    parts: dict[str, list[ReviewFile]] = {"training": [], "held out": [], "test": []}
    for path in data:
        if path.is_dir():
            for file, part in _files(path):
                parts[part].append(_read(file, file.relative_to(path).as_posix()))
        else:
            parts["training"].append(_read(path, path.name))
    parts["test"] += [_read(path, path.name) for path in tests]
    if not parts["training"]:
        given = ", ".join(map(str, data))
        raise UsageError(
            f"--data {given}: no training file; a folder needs files with train in their names, and"
            f" {', '.join(_SUFFIXES)} at their end"
        )
    notes = [f"{file.name}: {file.note}" for part in parts.values() for file in part if file.note]
    tested = {row.text for file in parts["test"] for row in file.rows}
    rows = [row for file in parts["training"] for row in file.rows]
    training = [row for row in rows if row.text not in tested]
    if len(training) < len(rows):
        missing = len(rows) - len(training)
        share = f"({missing / len(rows):.1%})"
        notes.append(f"{counted(missing, 'training review')} {share} left out: also a test review")
    chosen = random.Random(f"held out reviews {seed}")
    held = [row for file in parts["held out"] for row in file.rows if row.text not in tested]
    if held:
        texts = {row.text for row in held}
        training = [row for row in training if row.text not in texts]
        held = chosen.sample(held, min(len(held), MOST_HELD_OUT))
    elif len(training) > 1:
        count = min(MOST_HELD_OUT, max(1, round(held_out * len(training))))
        chosen.shuffle(training)
        held, training = training[:count], training[count:]
    if not training or not held:
        raise UsageError("--data: too few reviews are left to train on; give more data")
    if len({row.positive for row in training}) < 2:
        raise UsageError("--data: all training reviews have the same label; give positive and negative ones")
    notes.append(f"{counted(len(held), 'review')} held out, chosen with the seed")
    files = [DataFile(part, f.name, f.sha256, len(f.rows)) for part, some in parts.items() for f in some]
    return Reviews(training, held, parts["test"], files, notes)


def _files(folder: Path) -> list[tuple[Path, str]]:
    """Return the labelled files of a folder, with their use."""
    found = []
    for file in sorted(folder.rglob("*")):
        words = re.split(r"[^a-z]+", file.stem.casefold())
        part = next((_PARTS[word] for word in words if word in _PARTS), None)
        if part is not None and file.suffix.casefold() in _SUFFIXES and file.is_file():
            found.append((file, part))
    return found


def _read(file: Path, name: str) -> ReviewFile:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None
    labelled = parse_labelled(utf8(raw, str(file)), str(file))
    note = f"{labelled.note}: {counted(labelled.left_out, 'review')}" if labelled.note else ""
    return ReviewFile(name, hashlib.sha256(raw).hexdigest(), labelled.rows, note)
