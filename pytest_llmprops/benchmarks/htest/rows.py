"""Rows of H-TEST files: published, built-in and generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError

LABELS = ("A", "B")
#: Keys of the text. The authors' ``start_vowel_dev.jsonl`` has ``question``, their other files have ``centerpiece``.
TEXT_KEYS = ("centerpiece", "question")


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One line of an H-TEST file.

    :param answer: Index of the correct option.
    :param id: Empty in published files.
    """

    text: str
    options: list[str]
    answer: int
    id: str = ""


def text_of(row: Mapping[str, Any], place: str) -> str:
    """Return the text of a row.

    :param place: File and row, for messages.
    :raises DataError: If the row has no text.
    """
    key = next((key for key in TEXT_KEYS if key in row), None)
    if key is None:
        keys = " or ".join(map(repr, TEXT_KEYS))
        raise DataError(f"{place}: no {keys}; every line needs {keys}, 'options' and 'correct_options'")
    text = row[key]
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: {key} must be a non-empty string")
    return text


def read_rows(files: DataFiles, path: str, *, options: int) -> list[ItemRow]:
    """Read a file and check its rows.

    :param options: Number of options: 2 for the labels A and B.
    :raises DataError: With the file, the row and the fix.
    """
    rows = []
    for number, row in enumerate(files.jsonl(path), 1):
        place = f"{path}: row {number}"
        text, choices, correct = text_of(row, place), row.get("options"), row.get("correct_options")
        if not _are_options(choices, options) or not (
            # isinstance(…, int) would accept true.
            isinstance(correct, list)
            and len(correct) == 1
            and type(correct[0]) is int
            and correct[0] in range(options)
        ):
            expected = "the options A and B" if options == 2 else f"{options} different options"
            raise DataError(
                f"{place}: needs {expected}, and correct_options with the index of the correct one"
            )
        rows.append(ItemRow(text, choices, correct[0], str(row.get("id", ""))))
    return rows


def _are_options(value: object, count: int) -> TypeGuard[list[str]]:
    if count == 2:
        return value == list(LABELS)
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        return False
    return len(value) == len(set(value)) == count
