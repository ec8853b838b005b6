"""The corpora of the trainings: segmented text of SIGHAN 2005, and labelled reviews of ASAP and ChnSentiCorp."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.statistics.intervals import clopper_pearson
from pytest_llmprops.training.task import DataFile

_TEXT = ("text_a", "text", "review", "reviewbody")
_LABELS: Mapping[str, bool | None] = {"1": True, "0": False}
#: ASAP has stars instead of labels. Which of them are positive is our choice.
_STARS: Mapping[str, bool | None] = {"1": False, "2": False, "3": None, "4": True, "5": True}
#: Words in the names of files, such as ``train.csv`` and ``ChnSentiCorp_dev.tsv``, and the use of the files.
_PARTS = {"train": "training", "dev": "held out", "valid": "held out", "test": "test"}


Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The words of each line of a segmented file; ``name`` is the file's without its folder."""

    name: str
    sha256: str
    lines: Sequence[Words]

    def as_file(self, role: str) -> DataFile:
        """Return the file for the model card."""
        return DataFile(role, self.name, self.sha256, len(self.lines))


def read_segmented(file: Path) -> Corpus:
    """Read a segmented file in the format of SIGHAN 2005: one sentence per line, with spaces between words.

    Spaces may be full-width (U+3000) and may repeat. A byte-order mark and Windows line ends are accepted.

    :raises DataError: if the file cannot be read, is not UTF-8, is empty or is not segmented.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None
    # splitlines() would also split at other separators, which may occur within a line.
    lines = [words for line in utf8(raw, str(file)).split("\n") if (words := line.split())]
    if all(len(words) == 1 for words in lines) and max((len(w[0]) for w in lines), default=9) > 4:
        problem = "no spaces between words" if lines else "the file is empty"
        raise DataError(f"{file}: {problem}; it must have one sentence per line, with spaces between words")
    return Corpus(file.name, hashlib.sha256(raw).hexdigest(), lines)


class Review(NamedTuple):
    """A text and its label: positive or not."""

    text: str
    positive: bool


@dataclass(frozen=True, slots=True)
class ReviewFile:
    """The reviews of a file.

    :param name: its path below the folder that was given. :param left_out: number of reviews with three stars.
    """

    name: str
    sha256: str
    reviews: tuple[Review, ...]
    left_out: int


class Accuracy(NamedTuple):
    """The share of reviews scored on the side of their label, with its 95% interval; even odds are wrong."""

    value: float
    low: float
    high: float
    n: int


def read_reviews(file: Path, name: str = "") -> ReviewFile:
    """Read a file of ChnSentiCorp (tabs; columns ``label``, ``text_a``) or ASAP (commas; ``star``, ``reviewbody``).

    Labels are 1 and 0. Four and five stars are positive, one and two negative; three are left out. Other columns are
    ignored. Files with tabs have no quoting.

    :param name: the file in tables; its own name by default.
    :raises DataError: if the file cannot be read, has no reviews, or has unknown columns or labels.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None
    text = utf8(raw, str(file)).replace("\r\n", "\n")
    # Not splitlines, which also splits at U+2028 and other characters inside reviews.
    lines = [line + "\n" for line in text.split("\n")]
    if "\t" in lines[0]:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.DictReader(lines)
    columns = [(name or "").strip().casefold() for name in rows.fieldnames or ()]
    rows.fieldnames = columns
    text_column = next((name for name in _TEXT if name in columns), None)
    label_column = next((name for name in ("label", "star") if name in columns), None)
    if text_column is None or label_column is None:
        raise DataError(f"{file}: line 1 must name the columns label and text_a, or star and reviewbody")
    labels = _STARS if label_column == "star" else _LABELS
    reviews, left_out = list[Review](), 0
    for row in rows:
        review, label = (row[text_column] or "").strip(), (row[label_column] or "").strip().removesuffix(".0")
        if not review or label not in labels:
            problem = f"the label {label[:20]!r} is not one of {', '.join(labels)}" if review else "no text"
            raise DataError(f"{file}, line {rows.line_num}: {problem}; correct the line or remove it")
        positive = labels[label]
        if positive is None:
            left_out += 1
        else:
            reviews.append(Review(review, positive))
    if not reviews:
        raise DataError(f"{file}: no review is positive or negative; every line needs a label and a text")
    return ReviewFile(name or file.name, hashlib.sha256(raw).hexdigest(), tuple(reviews), left_out)


def review_files(folder: Path) -> dict[str, list[ReviewFile]]:
    """Read the files below a folder that have ``train``, ``dev``, ``valid`` or ``test`` in their names.

    :return: the files by their use: ``training``, ``held out`` and ``test``.
    :raises DataError: if a file cannot be used.
    """
    parts: dict[str, list[ReviewFile]] = {"training": [], "held out": [], "test": []}
    for file in sorted(folder.rglob("*")):
        words = re.split(r"[^a-z]+", file.stem.casefold())
        part = next((_PARTS[word] for word in words if word in _PARTS), None)
        if part is not None and file.suffix.casefold() in (".csv", ".tsv") and file.is_file():
            parts[part].append(read_reviews(file, file.relative_to(folder).as_posix()))
    return parts


def accuracy(scored: Sequence[tuple[Review, Score]]) -> Accuracy:
    """Return the accuracy of at least one review's score."""
    right = 0
    for review, score in scored:
        side = score.positive - 0.5 if score.log_odds is None else score.log_odds
        right += side > 0 if review.positive else side < 0
    interval = clopper_pearson(right, len(scored))
    return Accuracy(right / len(scored), interval.low, interval.high, len(scored))
