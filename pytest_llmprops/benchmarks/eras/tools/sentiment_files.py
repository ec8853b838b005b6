"""Labelled sentences and reviews: read them, draw training data, and compute accuracy (ERAS, table 2, figure 5)."""

from __future__ import annotations

import csv
import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.numbers import counted
from pytest_llmprops.core.statistics import clopper_pearson
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.training.task import DataFile

_TEXT = ("text", "text_a", "review", "reviewbody", "sentence", "content")
_LABEL = ("label", "labels", "sentiment", "y")
#: ASAP has a column of stars instead of labels.
_STARS = "star"
_LABELS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "positive", "pos", "+", "正面", "正向", "积极"), True),
    **dict.fromkeys(("0", "-1", "negative", "neg", "-", "负面", "负向", "消极"), False),
}
#: Four and five stars are positive, one and two negative. Three stars are neither and are left out.
_STAR_LABELS: Mapping[str, bool | None] = {"1": False, "2": False, "3": None, "4": True, "5": True}


class Labelled(NamedTuple):
    """A sentence and its human label: positive or not."""

    text: str
    positive: bool


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The rows of a file. ``left_out`` counts three-star reviews; ``note`` says how stars were converted to labels."""

    rows: tuple[Labelled, ...]
    left_out: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class SentimentAccuracy:
    """The share of sentences scored on the correct side of even odds, with its 95% interval; a tie is wrong."""

    value: float
    ci_low: float
    ci_high: float
    correct: int
    n: int


def parse_labelled(text: str, name: str) -> LabelledFile:
    """Parse a labelled file: tab- or comma-separated, with or without a header.

    A header names a text column (text, text_a, review, reviewbody, sentence, content) and a label column: label,
    labels, sentiment or y, as in ChnSentiCorp's files, or ``star`` (1 to 5), as in ASAP's. Other columns are ignored.
    Without a header a row is label and text, in either order. Labels are 1/0, positive/negative, pos/neg, 1/-1,
    正面/负面 and others. Tab-separated files have no quoting.

    :param name: File name, for messages.
    :raises DataError: for a file without rows, and for unknown columns or labels.
    """
    lines = text.removeprefix("\ufeff")
    first = lines.partition("\n")[0]
    rows = _records(lines, "\t" if "\t" in first else ",", name)
    head = next(rows, None)
    if head is None:
        raise DataError(
            f"{name}: the file has no rows; every row needs a label and a text, separated by a tab"
        )
    columns = [field.strip().casefold() for field in head[1]]
    text_at = next((columns.index(c) for c in _TEXT if c in columns), None)
    label_at = next((columns.index(c) for c in _LABEL if c in columns), None)
    stars = label_at is None and _STARS in columns
    if stars:
        label_at = columns.index(_STARS)
    if text_at is None or label_at is None:
        text_at, label_at = _places(head[1], name)
        rows = itertools.chain([head], rows)
    return _labelled(rows, text_at, label_at, len(columns), stars, name)


def _labelled(
    body: Iterator[tuple[int, list[str]]], text_at: int, label_at: int, width: int, stars: bool, name: str
) -> LabelledFile:
    known: Mapping[str, bool | None] = _STAR_LABELS if stars else _LABELS
    rows: list[Labelled] = []
    left_out = 0
    for number, fields in body:
        if len(fields) != width:
            raise DataError(
                f"{name}: line {number} has {len(fields)} fields, but line 1 has {width}; correct it"
            )
        # pandas writes 5.0 for 5.
        label = fields[label_at].strip().casefold().removesuffix(".0")
        if label not in known:
            expected = "1 to 5 stars" if stars else "1/0, positive/negative or 正面/负面"
            raise DataError(f"{name}: line {number}: unknown label {fields[label_at]!r}; use {expected}")
        if not fields[text_at].strip():
            raise DataError(f"{name}: line {number} has no text; remove it")
        positive = known[label]
        if positive is None:
            left_out += 1
        else:
            rows.append(Labelled(fields[text_at].strip(), positive))
    if not rows:
        raise DataError(
            f"{name}: no row has a positive or negative label; every row needs a label and a text"
        )
    note = "4 and 5 stars count as positive, 1 and 2 as negative, 3 left out (assumed)" if stars else ""
    return LabelledFile(tuple(rows), left_out, note)


def _records(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) for every line that is not blank."""
    # Not splitlines, which also splits at U+2028 and other characters inside texts.
    lines = (line + "\n" for line in text.replace("\r\n", "\n").split("\n"))
    if delimiter == "\t":
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{name}: line {number}: {error}; correct the quoting") from None
        if any(field.strip() for field in fields):
            yield number, fields


def _places(fields: Sequence[str], name: str) -> tuple[int, int]:
    """Return the (text, label) columns of a file without a header."""
    if len(fields) == 2:
        for label_at in (0, 1):
            if fields[label_at].strip().casefold() in _LABELS:
                return 1 - label_at, label_at
    raise DataError(
        f"{name}: line 1 names no text and label columns ({', '.join(fields)[:80]});"
        f" add a header with {_TEXT[0]} and {_LABEL[0]}"
    )


def sentiment_accuracy(rows: Sequence[Labelled], scores: Sequence[Score]) -> SentimentAccuracy:
    """Return the share of sentences scored on their label's side of even odds; even odds are always wrong.

    :param scores: One per row, in order.
    :raises ValueError: without rows, or if the lengths differ.
    """
    if not rows:
        raise ValueError("an accuracy needs at least one labelled sentence")
    correct = 0
    for row, score in zip(rows, scores, strict=True):
        side = score.positive - 0.5 if score.log_odds is None else score.log_odds
        correct += side > 0 if row.positive else side < 0
    interval = clopper_pearson(correct, len(rows))
    return SentimentAccuracy(correct / len(rows), interval.low, interval.high, correct, len(rows))


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
