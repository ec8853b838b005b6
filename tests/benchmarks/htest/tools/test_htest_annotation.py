"""Table 7: pages and sheets for people who look for the rules of H-TEST, and their results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.htest.items import TASKS, few_shot
from pytest_llmprops.benchmarks.htest.tools.annotation import examples_in, read_sheets, write_sheets
from pytest_llmprops.core.errors import DataError, UsageError
from tests.support.annotation import read_cells, write_cells
from tests.support.commands import one_error, output

Rows = list[dict[str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the sheets and pages of two annotators, with 4 and 14 examples."""
    write_sheets(tmp_path / "study", examples_in(None), seed=1, ks=[4, 14])
    return tmp_path / "study"


def fill(folder: Path, number: int, change: Callable[[dict[str, str], str], Any] | None = None) -> Rows:
    """Fill a sheet with right answers and return its lines; ``change`` changes a line, given its task."""
    tasks = json.loads((folder / "key.json").read_text("utf-8"))["sheets"][f"annotator_{number}.csv"]["tasks"]
    rows = read_cells(folder / f"annotator_{number}.csv")
    for row, task in zip(rows, tasks, strict=True):
        row |= {"rule": f"a rule about {task}", "correct": "yes"}
        if change is not None:
            change(row, task)
    write_cells(folder / f"annotator_{number}.csv", rows, delimiter=";")
    return rows


def test_a_page_has_the_examples_of_the_models(folder: Path) -> None:
    """Each list has the first k / 2 examples of each label, as a prompt has; the tasks are shuffled and unnamed."""
    examples, sheets = examples_in(None), json.loads((folder / "key.json").read_text("utf-8"))["sheets"]
    orders = [sheet["tasks"] for sheet in sheets.values()]
    assert [sorted(order) for order in orders] == [sorted(TASKS)] * 2
    assert orders[0] != orders[1] != list(TASKS)
    for number, (k, order) in enumerate(zip((4, 14), orders, strict=True), 1):
        page = (folder / f"annotator_{number}.txt").read_text("utf-8")
        shown = [(text, label) for label, text in re.findall(r"^([AB])  (.*)$", page, re.MULTILINE)]
        assert shown == [example for task in order for example in few_shot(examples[task], k)]
        sheet = (folder / f"annotator_{number}.csv").read_text("utf-8-sig")
        assert not any(task in text for task in TASKS if "_" in task for text in (page, sheet))
        assert [row["question"] for row in read_cells(folder / f"annotator_{number}.csv")] == list(
            map(str, range(1, 11))
        )


def test_the_table_counts_rules_identified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule counts if it was judged right, and no rule is none; the paper's people are below."""
    wrong = {
        "rhyme": {"correct": "No"},
        "palindrome": {"correct": "n"},
        "end_ly": {"rule": "", "correct": ""},
    }
    fill(folder, 1)
    fill(folder, 2, lambda row, task: row.update(wrong.get(task, {})))
    first, second = read_sheets(folder)
    assert (first.k, sum(first.rules.values())) == (4, 10)
    assert {task for task, is_identified in second.rules.items() if not is_identified} == {*wrong}
    text = output(capsys, "lab", "htest", "annotate", folder, "--score")
    assert [line.split() for line in text.splitlines()][1:7] == [
        ["annotator_1", "10/10", "-", "-", "-"],
        ["annotator_2", "-", "7/10", "-", "-"],
        *(
            ["Human", name, "(paper)", *("10/10" if place == n else "-" for place in range(4))]
            for n, name in enumerate("ABCD")
        ),
    ]
    assert text.splitlines()[7].startswith("annotator_2: not identified:")


def test_damaged_files_are_one_line(folder: Path) -> None:
    """A missing judgement and a right rule that is empty name the line and the fix; a key that is another file, too."""
    fill(folder, 2)
    first, *rest = fill(folder, 1)
    for change, message in (
        ({"correct": ""}, "correct is ''; compare the rule with key.json, and write yes or no"),
        ({"rule": ""}, "correct is yes, but the rule is empty; write the rule"),
    ):
        write_cells(folder / "annotator_1.csv", [first | change, *rest], delimiter=";")
        with pytest.raises(DataError, match=f"annotator_1.csv: line 2: question 1: {message}$"):
            read_sheets(folder)
    for key in ("{}", '{"sheets": {}}', '{"sheets": {"../x.csv": {"k": 4, "tasks": []}}}'):
        (folder / "key.json").write_text(key, "utf-8")
        with pytest.raises(DataError, match=r"key.json: .*; restore the original file"):
            read_sheets(folder)
    (folder / "key.json").unlink()
    with pytest.raises(UsageError, match="has sheets already"):
        write_sheets(folder, examples_in(None), seed=1, ks=[4])


def test_numbers_of_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default four people get the paper's numbers of examples; too many or an odd number are one line."""
    for k, message in ((52, "k = 52 needs 26 examples of each label"), (3, "even numbers of at least 2")):
        assert message in one_error(capsys, "lab", "htest", "annotate", tmp_path / "new", "--k", k)
    assert not (tmp_path / "new").exists()
    output(capsys, "lab", "htest", "annotate", tmp_path / "four")
    assert len(list((tmp_path / "four").iterdir())) == 9
