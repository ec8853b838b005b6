"""Items and examples from the built-in, published and generated files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import Item

Label = Literal["A", "B"]
LABELS: tuple[Label, Label] = ("A", "B")
#: The ten tasks, with the names of the published files (paper, table 1).
TASKS = (
    "uppercase",
    "start_vowel",
    "end_punctuation",
    "palindrome",
    "end_ly",
    "spelled_math",
    "spelled_number",
    "rhyme",
    "repeated_word",
    "hyphenated_word",
)
GEOMETRY = "letter_geometry"
Example = tuple[str, str]
_ID_PREFIXES = {"published": "p", "generated": "g"}
#: Keys of the text. The authors' ``start_vowel_dev.jsonl`` has ``question``, their other files have ``centerpiece``.
TEXT_KEYS = ("centerpiece", "question")


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


def read_rows(files: DataFiles, path: str, *, options: int) -> list[dict[str, Any]]:
    """Return the ``id`` (empty in published files), ``text``, ``options`` and ``answer`` (an index) of each row.

    :param options: Number of options: 2 for the labels A and B.
    :raises DataError: With the file, the row and the fix.
    """
    rows = []
    for number, row in enumerate(files.jsonl(path), 1):
        place = f"{path}: row {number}"
        text, choices = text_of(row, place), cast(Any, row.get("options"))
        correct = cast(Any, row.get("correct_options"))
        if options == 2:
            has_options = choices == list(LABELS)
        else:
            are_texts = isinstance(choices, list) and [type(choice) for choice in choices] == [str] * options
            has_options = are_texts and len(set(choices)) == options
        # isinstance(…, int) would accept true.
        is_index = isinstance(correct, list) and [type(index) for index in correct] == [int]
        if not has_options or not is_index or correct[0] not in range(options):
            expected = "the options A and B" if options == 2 else f"{options} different options"
            raise DataError(
                f"{place}: needs {expected}, and correct_options with the index of the correct one"
            )
        rows.append({"id": str(row.get("id", "")), "text": text, "options": choices, "answer": correct[0]})
    return rows


def few_shot(examples: Sequence[Example], k: int) -> tuple[Example, ...]:
    """Return the first k / 2 examples of each label, alternating A, B (appendix G).

    :param examples: (text, label) pairs.
    :raises ValueError: if a label has fewer than k / 2 examples.
    """
    half = k // 2
    chosen = [[e for e in examples if e[1] == label][:half] for label in ("A", "B")]
    if min(map(len, chosen)) < half:
        raise ValueError(
            f"k = {k} needs {half} examples of each label, but there are {len(chosen[0])} A and {len(chosen[1])} B"
        )
    return tuple(example for pair in zip(*chosen, strict=True) for example in pair)


def load_items(files: DataFiles) -> Loaded:
    """Load the tasks whose files exist; the context maps each task to its (text, label) examples."""
    items: list[Item] = []
    examples: dict[str, tuple[Example, ...]] = {}
    for task in TASKS:
        if files.exists(f"htest/{task}_test.jsonl"):
            items += _items(files, task, options=2)
            examples[task] = read_examples(files, task)
    if files.exists(f"htest/{GEOMETRY}_test.jsonl"):
        items += _items(files, GEOMETRY, options=4)
    if not items:
        # Raises the error that names the missing file and how to get it.
        files.text(f"htest/{TASKS[0]}_test.jsonl")
    return Loaded(tuple(items), examples)


def read_examples(files: DataFiles, task: str) -> tuple[Example, ...]:
    """Return the (text, label) examples of a task.

    :raises DataError: If the file is missing or malformed.
    """
    rows = read_rows(files, f"htest/{task}_dev.jsonl", options=2)
    return tuple((row["text"], LABELS[row["answer"]]) for row in rows)


def _items(files: DataFiles, task: str, *, options: int) -> Iterator[Item]:
    prefix = _ID_PREFIXES.get(files.source, "")
    for number, row in enumerate(read_rows(files, f"htest/{task}_test.jsonl", options=options), 1):
        name = f"{prefix}{row.pop('id') or format(number, '04d')}"
        yield Item(f"htest/{task}/{name}", task, "en", files.source, fields=row)
