"""DTAiLS sheets written and read back: blind, complete, and with one-line messages for their faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import (
    read_study,
    selection_rows,
    write_rules,
    write_selection,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from tests.support.annotation import (
    Cells,
    fill,
    judging,
    label_of,
    options_of,
    place_of,
    read_cells,
    rules_file,
    selection,
    write_cells,
)

CONCEPTS = {"sun": ["son", "sol/sole"], "=day": ["dag", "-etmaal", "dia"]}
RULES = {"sun": {"son": "the star", "sol": "=sunlight"}, "day": {"dag": "light", "etmaal": "24 hours"}}
SURE = {"confidence": "Absolutely sure"}


def original(folder: Path) -> Callable[[Cells], Cells]:
    """Return the answer of an annotator who always chooses the original translation's variation."""
    label = label_of(folder)

    def choose(line: Cells) -> Cells:
        cells = {column: text.removeprefix("'") for column, text in line.items()}
        return SURE | {"choice": place_of(cells, label(cells))}

    return choose


@pytest.fixture
def sheets(tmp_path: Path) -> list[Path]:
    """Three sheets of four questions, all filled with the variations of the original translations."""
    paths = selection(tmp_path, CONCEPTS)
    for sheet in paths:
        fill(sheet, original(tmp_path))
    return paths


def test_sheets_are_blind_and_seeded(tmp_path: Path) -> None:
    """A sheet has blank answers and no labels or translations; its order depends on seed and annotator."""
    texts = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        rows, source = selection_rows(None, "fa")
        assert source == "builtin"
        sheets = write_selection(tmp_path / name, rows, "fa", source, seed=seed)
        assert [sheet.name for sheet in sheets] == [*(f"annotator_{n}.csv" for n in (1, 2, 3)), "key.json"]
        texts[name] = [sheet.read_bytes() for sheet in sheets[:-1]]
    assert texts["a"] == texts["b"]
    assert len({*texts["a"], *texts["c"]}) == 6
    lines = read_cells(tmp_path / "a" / "annotator_1.csv")
    assert [line["question"] for line in lines] == [str(n) for n in range(1, len(rows) + 1)]
    assert {line["choice"] + line["confidence"] for line in lines} == {""}
    assert sorted(line["sentence"] for line in lines) == sorted(row.sentence for row in rows)
    assert not any(row.target in texts["a"][0].decode() for row in rows if row.target)
    assert {"option_1", "language"} < set(lines[0])
    assert "label" not in lines[0]


def test_cells_never_start_like_a_formula(tmp_path: Path) -> None:
    """No cell of a sheet starts like a formula, whatever concept, variation or rule it holds."""
    cells = [
        text
        for sheet in (*selection(tmp_path / "s", CONCEPTS), *judging(tmp_path / "r", RULES))
        for line in read_cells(sheet)
        for text in line.values()
    ]
    assert not any(text.startswith(("=", "+", "-", "@")) for text in cells)
    assert {"'=day", "'-etmaal", "'=sunlight"} < set(cells)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_filled_sheets_are_read_back(tmp_path: Path, delimiter: str) -> None:
    """Answers are matched to their questions and numbered in the question's order, not the sheet's."""
    for sheet in selection(tmp_path, CONCEPTS, delimiter=delimiter):
        assert sheet.read_text(encoding="utf-8-sig").startswith(f"question{delimiter}concept{delimiter}")
        fill(sheet, original(tmp_path))
    study = read_study(tmp_path)
    for answers in study.answers.values():
        for name, answer in answers.items():
            assert answer == {"choice": str(study.originals[name].label + 1), "confidence": "Absolutely sure"}
    assert {len(answers) for answers in study.answers.values()} == {4}
    assert len(study.answers) == 3


def test_spreadsheets_may_sort_and_reformat(sheets: list[Path]) -> None:
    """Sorted lines, capitals from Excel, other separators, empty lines and a notes column change nothing."""
    before = read_study(sheets[0].parent)
    lines = read_cells(sheets[0])
    lines = [line | {"notes": "hm", "concept": line["concept"].upper()} for line in lines[::-1]]
    write_cells(sheets[0], lines, delimiter=";", quoting=1)
    with sheets[0].open("a", encoding="utf-8") as file:
        file.write(";;;;\r\n\r\n")
    assert read_study(sheets[0].parent) == before


def test_words_are_read_as_their_numbers(sheets: list[Path]) -> None:
    """An annotator may write the word instead of its number."""
    before = read_study(sheets[0].parent)
    fill(sheets[0], lambda line: {"choice": options_of(line)[int(line["choice"]) - 1]})
    assert read_study(sheets[0].parent) == before


def changed(column: str, text: str, line: int = 2) -> Callable[[list[Cells]], list[Cells]]:
    """Return a function that changes one cell of the n-th line of the file."""
    return lambda lines: [
        cells | {column: text} if number == line else cells for number, cells in enumerate(lines, 2)
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            changed("choice", ""),
            "line 2: question 1: choice is empty (1 of 4 questions are open); finish the sheet",
        ),
        (changed("confidence", "", 4), "line 4: question 3: confidence is empty (1 of 4"),
        (changed("choice", "9", 3), "line 3: question 2: choice is '9'; write 1 to "),
        (changed("choice", "\x1b[31m"), "choice is '\\x1b[31m'; write"),
        (
            changed("confidence", "maybe"),
            "line 2: question 1: confidence is 'maybe'; write one of Absolutely sure",
        ),
        (changed("sentence", "Other."), "line 2: question 1: its texts were changed"),
        (changed("option_1", "other"), "line 2: question 1: its texts were changed"),
        (changed("option_1", ""), "line 2: question 1: fewer than two options, or a gap"),
        (changed("concept", ""), "line 2: question 1: the concept is empty"),
        (changed("sentence", ""), "line 2: question 1: the sentence is empty"),
        (changed("question", "2"), "line 3: question 2 is also on line 2"),
        (changed("question", "x"), "line 2: question 'x' is not a number"),
        (changed("question", "77"), "line 2: question 77 is not one of 1 to 4"),
        (lambda lines: [*lines, lines[1]], "line 6: question 2 is also on line 3"),
        (lambda lines: lines[:-2], "question 3 is missing (2 in all); restore its line"),
        (
            lambda lines: [{k: v for k, v in line.items() if k != "choice"} for line in lines],
            "line 1: no column 'choice'",
        ),
        (lambda lines: [dict.fromkeys(lines[0], "")], "there are no questions"),
    ],
)
def test_invalid_sheets_give_one_line(
    sheets: list[Path], change: Callable[[list[Cells]], list[Cells]], says: str
) -> None:
    """Each fault of a sheet gives one line with the file, the line and the fix."""
    write_cells(sheets[1], change(read_cells(sheets[1])))
    with pytest.raises(DataError) as caught:
        read_study(sheets[0].parent)
    message = str(caught.value)
    assert message.startswith(f"{sheets[1]}: ")
    assert says in message
    assert message.isprintable()


def test_sheets_may_be_omitted(sheets: list[Path]) -> None:
    """A missing sheet gives a one-line message, and the study can be read without it."""
    folder = sheets[0].parent
    sheets[2].unlink()
    with pytest.raises(DataError, match=r"annotator_3\.csv: No such file"):
        read_study(folder)
    assert list(read_study(folder, without=["annotator_3.csv"]).answers) == [
        "annotator_1.csv",
        "annotator_2.csv",
    ]
    with pytest.raises(UsageError, match=r"it has annotator_1\.csv, annotator_2\.csv, annotator_3\.csv"):
        read_study(folder, without=["annotator_4.csv"])
    with pytest.raises(UsageError, match="leaves out all sheets"):
        read_study(folder, without=[sheet.name for sheet in sheets])


def test_sheets_of_another_study(sheets: list[Path], tmp_path: Path) -> None:
    """A sheet of the other task or of another seed is refused."""
    (other, *_) = judging(tmp_path / "rules", RULES)
    own = sheets[0].read_bytes()
    sheets[0].write_bytes(other.read_bytes())
    with pytest.raises(DataError, match=r"the sheet is for task rules, but .* is for selection"):
        read_study(sheets[0].parent)
    sheets[0].write_bytes(own)
    sheets[1].write_bytes(own)
    with pytest.raises(DataError, match="its texts were changed"):
        read_study(sheets[0].parent)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key.pop("sheets"),
        lambda key: key.pop("originals"),
        lambda key: key.update(format="x"),
        lambda key: key.update(task="x"),
        lambda key: key["questions"]["r0001"].pop("options"),
        lambda key: key["questions"]["r0001"].update(kind="rule"),
        lambda key: key["questions"]["r0001"].update(text=1),
        lambda key: key["originals"]["r0001"].update(label=7),
        lambda key: key["originals"]["r0001"].update(label=-1),
        lambda key: key["sheets"]["annotator_1.csv"].pop(),
        lambda key: key["sheets"]["annotator_1.csv"][0].__setitem__(1, [0, 0]),
        lambda key: key["sheets"].update({"../x.csv": key["sheets"]["annotator_1.csv"]}),
        lambda key: key.update(questions=[]),
    ],
)
def test_damaged_key_gives_one_line(sheets: list[Path], spoil: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    """A key with a missing or invalid entry is refused."""
    path = sheets[0].parent / "key.json"
    key = json.loads(path.read_text(encoding="utf-8"))
    spoil(key)
    path.write_text(json.dumps(key), encoding="utf-8")
    with pytest.raises(DataError, match=r"key\.json: not a key by `llmprops dtails annotate`"):
        read_study(sheets[0].parent)


def test_unreadable_key_gives_one_line(sheets: list[Path]) -> None:
    """A missing key, a key that is not JSON and a key without sheets each give a one-line message."""
    path = sheets[0].parent / "key.json"
    key = json.loads(path.read_text(encoding="utf-8"))
    for text in ("", "[]", "{", json.dumps(key | {"sheets": {}})):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"key\.json: "):
            read_study(path.parent)
    path.unlink()
    with pytest.raises(DataError, match="use the folder with the filled sheets"):
        read_study(path.parent)


def test_published_rows_become_questions(published: Path) -> None:
    """Questions can be made from the sentences of the authors' files, if available."""
    rows, source = selection_rows(published, "af")
    assert source == "published"
    assert rows == expert_rows(DataFolder(published, "published"), "af")


def test_rules_of_another_language(tmp_path: Path) -> None:
    """Rules for another language, zero annotators and a missing rules file each give a one-line message."""
    rules = rules_file(tmp_path / "rules.json", RULES, language="af")
    with pytest.raises(UsageError, match="rules for 'af', not 'ta'"):
        write_rules(tmp_path / "out", rules, "ta")
    with pytest.raises(UsageError, match="--annotators must be at least 1"):
        write_rules(tmp_path / "out", rules, "af", annotators=0)
    with pytest.raises(DataError, match="use a file by `llmprops dtails rules`"):
        write_rules(tmp_path / "out", tmp_path / "none.json", "af")
    assert not (tmp_path / "out").exists()
