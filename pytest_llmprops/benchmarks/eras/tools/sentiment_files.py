"""Labelled sentiment files, and a model's accuracy on them (ERAS, table 2's test-set columns and figure 5)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.statistics import wilson

_TEXT = ("text", "text_a", "review", "sentence", "content")
_LABEL = ("label", "labels", "sentiment", "y")
#: ASAP gives stars where others give a label
_STARS = "star"
_LABELS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "positive", "pos", "+", "正面", "正向", "积极"), True),
    **dict.fromkeys(("0", "-1", "negative", "neg", "-", "负面", "负向", "消极"), False),
}
#: four and five stars are positive, one and two negative; three are neither, and left out
_STAR_LABELS: Mapping[str, bool | None] = {"1": False, "2": False, "3": None, "4": True, "5": True}


class Labelled(NamedTuple):
    """A sentence and whether people call it positive."""

    text: str
    positive: bool


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The rows of a file. ``left_out`` counts reviews with three of five stars; ``note`` says how labels were read."""

    rows: tuple[Labelled, ...]
    left_out: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class SentimentAccuracy:
    """Share of sentences on the right side of even odds, with Wilson's 95% interval; a tie is wrong."""

    value: float
    ci_low: float
    ci_high: float
    correct: int
    n: int


def parse_labelled(text: str, name: str) -> LabelledFile:
    """Read the text of a labelled file: tab- or comma-separated, with or without a header.

    A header names a text column (text, text_a, review, sentence, content) and a label column (label, labels,
    sentiment, y), as ChnSentiCorp's files have, or ``star`` (1 to 5), as ASAP's have; further columns are
    ignored. Without a header a row is label and text, in either order. Labels: 1/0, positive/negative,
    pos/neg, 1/-1, 正面/负面 ... Tab-separated files have no quoting.

    :param name: of the file, for messages.
    :raises DataError: in one line for a file without rows, columns or labels that are not understood.
    """
    lines = text.removeprefix("\ufeff")
    first = lines.partition("\n")[0]
    rows = _records(lines, "\t" if "\t" in first else ",", name)
    head = next(rows, None)
    if head is None:
        raise DataError(f"{name}: the file has no rows; write label and text, separated by a tab")
    columns = [field.strip().casefold() for field in head[1]]
    text_at = next((columns.index(c) for c in _TEXT if c in columns), None)
    label_at = next((columns.index(c) for c in _LABEL if c in columns), None)
    stars = label_at is None and _STARS in columns
    if stars:
        label_at = columns.index(_STARS)
    if text_at is None or label_at is None:
        text_at, label_at = _places(head[1], name)
        body: Iterator[tuple[int, list[str]]] = _chain(head, rows)
    else:
        body = rows
    return _labelled(body, text_at, label_at, len(columns), stars, name)


def _labelled(
    body: Iterator[tuple[int, list[str]]], text_at: int, label_at: int, width: int, stars: bool, name: str
) -> LabelledFile:
    known: Mapping[str, bool | None] = _STAR_LABELS if stars else _LABELS
    found: list[Labelled] = []
    left_out = 0
    for number, fields in body:
        if len(fields) != width:
            raise DataError(f"{name}: line {number} has {len(fields)} fields, the first {width}; correct it")
        # Tables written by pandas hold 5.0 for 5.
        label = fields[label_at].strip().casefold().removesuffix(".0")
        if label not in known:
            wanted = "1 to 5 stars" if stars else "1/0, positive/negative or 正面/负面"
            raise DataError(f"{name}: line {number}: the label {fields[label_at]!r} is none of {wanted}")
        if not fields[text_at].strip():
            raise DataError(f"{name}: line {number} has no text; remove it")
        positive = known[label]
        if positive is None:
            left_out += 1
        else:
            found.append(Labelled(fields[text_at].strip(), positive))
    if not found:
        raise DataError(f"{name}: no row has a positive or negative label; write label and text")
    note = "4 and 5 stars taken for positive, 1 and 2 for negative, 3 left out (assumed)" if stars else ""
    return LabelledFile(tuple(found), left_out, note)


def _records(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every line that is not blank."""
    # split, not splitlines: texts may hold U+2028 and others that it would split at
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


def _chain(
    head: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    yield head
    yield from rows


def _places(fields: Sequence[str], name: str) -> tuple[int, int]:
    """(text, label) columns of a file without a header."""
    if len(fields) == 2:
        for label_at in (0, 1):
            if fields[label_at].strip().casefold() in _LABELS:
                return 1 - label_at, label_at
    raise DataError(
        f"{name}: its first line names no text and label columns ({', '.join(fields)[:80]});"
        f" give it a header with {_TEXT[0]} and {_LABEL[0]}"
    )


def sentiment_accuracy(rows: Sequence[Labelled], scores: Sequence[Score]) -> SentimentAccuracy:
    """How many sentences score on their label's side of even odds; even odds are wrong for both.

    :param scores: one a row, in order. :raises ValueError: without rows, or when the lengths differ.
    """
    if not rows:
        raise ValueError("an accuracy needs at least one labelled sentence")
    correct = 0
    for row, score in zip(rows, scores, strict=True):
        side = score.positive - 0.5 if score.log_odds is None else score.log_odds
        correct += side > 0 if row.positive else side < 0
    interval = wilson(correct, len(rows))
    return SentimentAccuracy(correct / len(rows), interval.low, interval.high, correct, len(rows))
