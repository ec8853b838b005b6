"""Write H-TEST files: new sets, and chat data for fine-tuning.

This module loads the pronunciation dictionary, calls the pure generators, and writes files. Every file is
first written under a temporary name, so an incomplete file is never left behind.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.htest.tools.generators import (
    TASKS,
    Row,
    all_palindromes,
    generate,
    item_key,
    number_rows,
)
from pytest_llmprops.benchmarks.htest.tools.letter_geometry import GeometryRow, build_letter_geometry
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.pronunciation import load_cmudict
from pytest_llmprops.data.whole_files import write_text

BUILTIN_SEED = 414213
BUILTIN_TEST = 200
EXAMPLES = 50
VERSION = 3
#: Tasks whose built-in items were replaced: an id never returns with another text. The first ones had 0000 to 0199, and
#: 0000 to 0049 as examples.
_REPLACED = frozenset({"end_ly", "end_punctuation", "palindrome", "rhyme", "start_vowel"})
#: The first id of Letter Geometry: its first questions had 0000 to 0103.
_FIRST_GEOMETRY = 104
#: The features of :func:`simple_features` that a task's rule is about.
_RULE_FEATURES = {
    "end_punctuation": {"marks"},
    "hyphenated_word": {"marks", "words"},
    "spelled_math": {"marks"},
    "spelled_number": {"digits"},
    "uppercase": {"capitals"},
}


def _write(path: Path, text: str) -> None:
    """Write a complete UTF-8 file with LF line ends, or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; free disk space or choose another folder"
        ) from error


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def known_tasks(tasks: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tasks; all ten if none is named.

    :raises UsageError: for an unknown task.
    """
    for task in tasks or ():
        if task not in TASKS:
            raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(TASKS)}")
    return tuple(dict.fromkeys(tasks)) if tasks else TASKS


def builtin_split(task: str) -> tuple[list[Row], list[Row]]:
    """Return the test and example rows of a built-in task, byte for byte those of the committed files."""
    test, examples = _split(
        generate(task, n=BUILTIN_TEST + EXAMPLES, seed=BUILTIN_SEED, lexicon=load_cmudict())
    )
    first, first_example = (BUILTIN_TEST, EXAMPLES) if task in _REPLACED else (0, 0)
    return number_rows(test, first), number_rows(examples, first_example)


def builtin_geometry() -> list[GeometryRow]:
    """Return the built-in rows of Letter Geometry, byte for byte those of the committed file."""
    return build_letter_geometry(seed=BUILTIN_SEED, first=_FIRST_GEOMETRY)


def builtin_texts(task: str) -> list[str]:
    """Return the texts of all built-in rows of a task."""
    return [row["centerpiece"] for part in builtin_split(task) for row in part]


def _split(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    texts = [row["centerpiece"] for row in rows]
    return texts[EXAMPLES:], texts[:EXAMPLES]


def _check_size(n: int) -> None:
    if n < 2 or n % 2:
        raise UsageError(f"htest: n is {n}; choose an even number of at least 2 (half A, half B)")


def generate_set(
    out_dir: str | Path,
    *,
    seed: int,
    n: int,
    exclude: Collection[str] = (),
    tasks: Sequence[str] | None = None,
) -> list[Path]:
    """Write a new set to ``<out_dir>/htest``, for ``--llm-data <out_dir>``.

    ``<task>_test.jsonl`` has ``n`` rows and ``<task>_dev.jsonl`` has 50. None of them is built-in, or in ``exclude``.
    ``SOURCE.json`` says how they were generated. All rows are generated before the first file is written.

    :param n: An even number of at least 2.
    :param exclude: Texts of other items to exclude, for example the published ones.
    :param tasks: Names of tasks; all ten by default.
    :return: The files, SOURCE.json last.
    :raises UsageError: for an unknown task, an impossible ``n``, or a folder that cannot be written.
    """
    _check_size(n)
    folder = Path(out_dir) / "htest"
    files: dict[str, str] = {}
    for task in known_tasks(tasks):
        rows = _fresh(task, n=n + EXAMPLES, seed=seed, exclude=exclude)
        test, examples = _split(rows)
        files[f"{task}_test.jsonl"] = _jsonl(number_rows(test))
        files[f"{task}_dev.jsonl"] = _jsonl(number_rows(examples))
    source = {"source": "generated", "generator": "htest", "seed": seed, "n": n, "version": VERSION}
    files["SOURCE.json"] = json.dumps(source) + "\n"
    for name, text in files.items():
        _write(folder / name, text)
    return [folder / name for name in files]


def _fresh(task: str, *, n: int, seed: int, exclude: Collection[str]) -> list[Row]:
    """Return ``n`` rows, none of which is built-in or in ``exclude``."""
    # The built-in rows are generated again instead of read: the result is the same.
    excluded = [*exclude, *builtin_texts(task)]
    return generate(task, n=n, seed=seed, lexicon=load_cmudict(), exclude=excluded)


def palindromes_left(exclude: Collection[str] = ()) -> str:
    """Return one line that says how many palindromes exist, and how many of them a new set may have."""
    taken = {item_key("palindrome", text) for text in (*exclude, *builtin_texts("palindrome"))}
    real, made_up = all_palindromes(load_cmudict())
    return (
        f"palindrome: {len(real)} real and {len(made_up)} made-up palindromes exist; {len(real - taken)} and"
        f" {len(made_up - taken)} of them are new, the others are built-in or excluded"
    )


def simple_features(text: str) -> dict[str, float]:
    """Return features of a text that a model could look at instead of the rule. All are counts, except two ratios."""
    letters = [character for character in text.casefold() if character.isalpha()]
    count = max(len(letters), 1)
    return {
        "characters": len(text),
        "words": len(text.split()),
        "distinct letters": len(set(letters)),
        "distinct letters per letter": len(set(letters)) / count,
        "vowels per letter": sum(letter in "aeiou" for letter in letters) / count,
        "doubled letters": sum(one == other for one, other in pairwise(letters)),
        "letters repeated after one other": sum(
            one == other for one, other in zip(letters, letters[2:], strict=False)
        ),
        "capitals": sum(character.isupper() for character in text),
        "digits": sum(character.isdigit() for character in text),
        "marks": sum(not character.isalnum() and not character.isspace() for character in text),
    }


def feature_accuracies(task: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the accuracy of each simple feature that the rule of ``task`` is not about.

    A feature says A on one side of a threshold. Threshold and side are the best ones of one half of the rows and are
    measured on the other half, in both directions, so that a feature that tells nothing has 0.5 on average.

    :param rows: Rows of the task; A and B alternate.
    """
    own = _RULE_FEATURES.get(task, set())
    samples = [(simple_features(row["centerpiece"]), bool(row["correct_options"] == [0])) for row in rows]
    # Neighbours are one A and one B, so that both halves are balanced.
    halves = [[sample for number, sample in enumerate(samples) if number // 2 % 2 == half] for half in (0, 1)]

    def accuracy(name: str, half: int, threshold: float, *, is_low_a: bool) -> float:
        hits = [((sample[name] <= threshold) == is_low_a) == is_a for sample, is_a in halves[half]]
        return sum(hits) / max(len(hits), 1)

    def best(name: str, half: int) -> tuple[float, bool]:
        choices = product(sorted({sample[name] for sample, _ in halves[half]}), (True, False))
        return max(choices, key=lambda choice: accuracy(name, half, choice[0], is_low_a=choice[1]))

    accuracies: dict[str, float] = {}
    for name in simple_features("") if halves[0] and halves[1] else ():
        if name not in own:
            measured = []
            for half in (0, 1):
                threshold, is_low_a = best(name, half)
                measured.append(accuracy(name, 1 - half, threshold, is_low_a=is_low_a))
            accuracies[name] = sum(measured) / 2
    return accuracies


def feature_line(task: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return one line with the simple feature that predicts the labels of ``rows`` best, and its accuracy."""
    accuracies = feature_accuracies(task, rows)
    if not accuracies:
        return f"{task}: too few rows to measure simple features"
    name = max(accuracies, key=lambda feature: accuracies[feature])
    return (
        f"{task}: the best of {len(accuracies)} simple features is right for {accuracies[name]:.1%} ({name})"
    )


def train_prompt(text: str) -> str:
    """Return the paper's question without examples (section 3, appendix G)."""
    return f'Input: "{text}" Label: \nA \nB (Respond in one letter and nothing else)'


def training_rows(task: str, *, n: int, seed: int, exclude: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return ``n`` new items of a task as (text, label), alternating A and B.

    :raises UsageError: for an impossible ``n``.
    """
    _check_size(n)
    rows = _fresh(task, n=n, seed=seed, exclude=exclude)
    return [(row["centerpiece"], row["options"][row["correct_options"][0]]) for row in rows]


def export_train(
    out_dir: str | Path,
    *,
    n: int,
    seed: int,
    exclude: Collection[str] = (),
    tasks: Sequence[str] | None = None,
) -> list[Path]:
    """Write ``<task>_train.jsonl`` in the chat format for fine-tuning (the paper's appendix F).

    Every task has ``n`` rows, alternating A and B. None of them is an item of the built-in test or example
    files, or of ``exclude``.

    :param exclude: Texts of other items to exclude, for example the published ones.
    :return: The files.
    :raises UsageError: for an impossible ``n``, or a folder that cannot be written.
    """
    _check_size(n)
    files: dict[str, str] = {}
    for task in known_tasks(tasks):
        files[f"{task}_train.jsonl"] = _jsonl(
            {
                "messages": [
                    {"role": "user", "content": train_prompt(text)},
                    {"role": "assistant", "content": label},
                ]
            }
            for text, label in training_rows(task, n=n, seed=seed, exclude=exclude)
        )
    for name, text in files.items():
        _write(Path(out_dir) / name, text)
    return [Path(out_dir) / name for name in files]
