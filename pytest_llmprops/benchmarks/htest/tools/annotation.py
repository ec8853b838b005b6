"""People and the rules of H-TEST (Lee & Lim, Table 7 and appendix E): pages, sheets, and the number of rules found.

An annotator sees the examples of each task that a model with the same k sees, printed on paper, and says what tells
group A from group B within three minutes. Somebody else writes the answers down and judges them, because only people
can tell whether two wordings mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.benchmarks.htest.items import TASKS, Example, few_shot, read_examples
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.strict_json import short
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.published_results import find
from pytest_llmprops.data.sheet_files import numbered_lines, sheet_text, write_new

KEY = "key.json"
_SHEETS, _PAGES = "annotator_*.csv", "annotator_*.txt"
_COLUMNS = ("question", "rule", "correct")
_ANSWERS = {"yes": True, "y": True, "no": False, "n": False}
_INSTRUCTIONS = (
    "Each list has texts of two groups, A and B. The groups are different based on a linguistic rule.\n"
    "For each list, say the rule as precisely as possible. You have three minutes per list.\n"
)


@dataclass(frozen=True, slots=True)
class Person:
    """The result of one sheet: the number of examples per task, and by task whether its rule was identified."""

    name: str
    k: int
    rules: Mapping[str, bool]


def examples_in(data: Path | None) -> dict[str, Sequence[Example]]:
    """Return the (text, label) examples of each task.

    :param data: Folder with ``htest/*_dev.jsonl``; None for the built-in ones.
    :raises DataError: If a file is missing or malformed.
    """
    files = DataFolder(builtin_data(), "builtin") if data is None else DataFolder(data, "published")
    return {task: read_examples(files, task) for task in TASKS}


def write_sheets(
    out: Path, examples: Mapping[str, Sequence[Example]], *, seed: int, ks: Sequence[int]
) -> list[Path]:
    """Write ``annotator_1.txt`` and ``annotator_1.csv`` … and ``key.json``; return the files.

    The tasks of each annotator are shuffled. Annotators must not see the key, which has the tasks and their rules.

    :param examples: (text, label) pairs by task. :param ks: Number of examples per task, one for each annotator.
    :raises UsageError: If there are too few examples, or the folder already has sheets or cannot be written.
    """
    files: dict[str, str] = {}
    sheets: dict[str, object] = {}
    for number, k in enumerate(ks, 1):
        if k < 2 or k % 2:
            raise UsageError(f"--k {k}: give even numbers of at least 2, half of the examples are A")
        tasks = generator(seed, "htest annotate", number).sample(sorted(examples), len(examples))
        name = f"annotator_{number}"
        try:
            lists = [few_shot(examples[task], k) for task in tasks]
        except ValueError as error:
            raise UsageError(f"--k {k}: {error}") from None
        files[f"{name}.txt"] = _page(f"Annotator {number}", lists)
        rows = [{"question": str(n)} for n in range(1, len(tasks) + 1)]
        files[f"{name}.csv"] = sheet_text(_COLUMNS, rows)
        sheets[f"{name}.csv"] = {"k": k, "tasks": tasks}
    rules = {task: HTest.task_about[task] for task in examples}
    key = {"version": 1, "seed": seed, "rules": rules, "sheets": sheets}
    files[KEY] = json.dumps(key, ensure_ascii=False, indent=1) + "\n"
    return write_new(out, files, taken=(KEY, _SHEETS, _PAGES))


def _page(title: str, lists: Sequence[Sequence[Example]]) -> str:
    """Return the text to print; a form feed begins a new sheet of paper for each list."""
    pages = [f"{title}\n\n{_INSTRUCTIONS}"]
    for number, examples in enumerate(lists, 1):
        pages.append(
            "\n".join([f"List {number}\n", *(f"{label}  {text}" for text, label in examples)]) + "\n"
        )
    return "\f".join(pages)


def read_sheets(folder: Path) -> list[Person]:
    """Return the result of each filled sheet in ``folder``; ``key.json`` lists the sheets.

    :raises DataError: If the key or a sheet is missing or damaged, or an answer is not judged.
    """
    key = DataFolder(folder, "user").json(KEY)
    try:
        sheets = {
            str(name): (int(sheet["k"]), [str(task) for task in sheet["tasks"]])
            for name, sheet in key["sheets"].items()
            if name == Path(name).name
        }
    except (KeyError, TypeError, AttributeError, ValueError):
        sheets = {}
    if not sheets:
        _fail(folder / KEY, "names no sheets of this folder; restore the original file")
    return [Person(Path(name).stem, k, _judged(folder / name, tasks)) for name, (k, tasks) in sheets.items()]


def _judged(path: Path, tasks: Sequence[str]) -> dict[str, bool]:
    """Return by task whether its rule was identified, in the order of the sheet."""
    rules: dict[str, bool] = {}
    for place, number, cells in numbered_lines(path, "question", len(tasks), _COLUMNS):
        _, rule, correct = (cells[column] for column in _COLUMNS)
        is_correct = _ANSWERS.get(correct.casefold(), None if rule or correct else False)
        if is_correct is None:
            raise DataError(
                f"{place}: correct is {short(correct)}; compare the rule with {KEY}, and write yes or no"
            )
        if is_correct and not rule:
            raise DataError(f"{place}: correct is yes, but the rule is empty; write the rule")
        rules[tasks[number - 1]] = is_correct
    return rules


def result_rows(people: Sequence[Person]) -> list[tuple[str, ...]]:
    """Return the result in the form of Table 7, with the paper's participants below."""
    rows = [(person.name, person.k, f"{sum(person.rules.values())}/{len(person.rules)}") for person in people]
    printed = find(paper="htest", table="7", metric="rules_identified_rate")
    rows += [(f"{r.model} (paper)", r.k or 0, f"{r.value * len(TASKS):.0f}/{len(TASKS)}") for r in printed]
    ks = sorted({k for _, k, _ in rows})
    head = ("", *(f"k = {k}" for k in ks))
    return [head, *((name, *(found if k == own else "-" for k in ks)) for name, own, found in rows)]


def _fail(path: Path, problem: str) -> NoReturn:
    raise DataError(f"{path}: {problem}") from None
