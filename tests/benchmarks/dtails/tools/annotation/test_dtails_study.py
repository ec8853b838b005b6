"""DTAiLS's annotation questions, and sheets written and read back, with one-line messages for their faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import combinations, groupby
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows
from pytest_llmprops.benchmarks.dtails.rows import COLUMNS, parse_rows
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule, RulesFile
from pytest_llmprops.benchmarks.dtails.tools.annotation.questions import (
    CONFIDENCE,
    Question,
    arranged,
    cells,
    header,
    is_answered,
    question_of,
    read_answer,
    rules_questions,
    selection_questions,
    task_of,
    unshuffled,
)
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
    options_of,
    original_choice,
    read_cells,
    rows_of,
    selection,
    write_cells,
)
from tests.support.dtails import rules_file

CONCEPTS = {f"word{n}": [f"{n}{letter}" for letter in "abc"] for n in range(12)}


SELECT = Question("select", "art", ("美術", "芸術", "アート"), "The art of cooking.")


WRONG = Question("wrong", "art", ("美術", "芸術", "アート"))


MISSING = Question("missing", "art", ("美術", "芸術"))


RULE = Question("rule", "art", ("美術", "芸術"), "fine arts", "美術")


def test_repeated_rows_are_asked_once() -> None:
    """A published row that repeats another adds no question, and the other questions keep their numbers."""
    row = dict(zip(COLUMNS, ("sun", "The sun.", "", "['son', 'sol']", "son"), strict=True))
    rows = parse_rows([row, row, row | {"label": "sol"}], "xx", "published", "x.csv")
    assert list(selection_questions(rows)) == ["r0001", "r0003"]


def test_questions_on_rules() -> None:
    """Figure 3: each concept has one question on missing words, one on wrong words, and one per rule."""
    rules = (Rule("美術", "fine arts"), Rule("芸術", "all arts"))
    file = RulesFile("ja", "m", (ConceptRules("art", "NOUN", rules), ConceptRules("art", "VERB", rules)))
    questions = rules_questions(file)
    assert [q.kind for q in questions.values()] == ["missing", "wrong", "rule", "rule"] * 2
    assert [(q.about, q.text) for q in questions.values() if q.kind == "rule"][:2] == [
        ("美術", "fine arts"),
        ("芸術", "all arts"),
    ]
    assert len({q.group for q in questions.values()}) == 2


def test_concepts_sentences_and_variations_are_shuffled() -> None:
    """Each annotator has another order of concepts, sentences and variations; concepts stay together."""
    questions = selection_questions(rows_of(CONCEPTS, sentences=6))
    sheets = [arranged(questions, seed=0, annotator=n) for n in (1, 2, 3)]
    seen = []
    for sheet in sheets:
        assert sorted(name for name, _ in sheet) == sorted(questions)
        by_concept = groupby(sheet, key=lambda line: questions[line[0]].group)
        concepts = [(group, [name for name, _ in lines]) for group, lines in by_concept]
        orders = {questions[name].group: order for name, order in sheet}
        seen.append((dict(concepts), [group for group, _ in concepts], orders))
        assert len(concepts) == 12
        assert seen[-1][1] != sorted(orders)
        assert len(set(orders.values())) > 3
    for first, second in combinations(seen, 2):
        assert all(first[part] != second[part] for part in range(3))
        assert sum(first[0][group] != second[0][group] for group in first[0]) > 6
    assert arranged(questions, seed=0, annotator=1) == sheets[0] != arranged(questions, seed=1, annotator=1)


def test_variations_keep_their_order_through_a_concept() -> None:
    """All questions of a concept show its variations in the same order, even if the rows do not."""
    rows = [
        dict(zip(COLUMNS, ("sun", f"Sun {n}.", "", repr(names), "a"), strict=True))
        for n, names in enumerate((["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]))
    ]
    questions = selection_questions(parse_rows(rows, "xx", "builtin", "x.csv"))
    for annotator in range(5):
        sheet = arranged(questions, seed=0, annotator=annotator)
        assert len({questions[name].shown(order).options for name, order in sheet}) == 1


def test_rules_follow_the_options_shown() -> None:
    """A concept's questions come as in figure 3, with the rules in the order of the options."""
    rules = tuple(Rule(name, f"rule of {name}") for name in "abcd")
    questions = rules_questions(RulesFile("xx", "m", (ConceptRules("sun", "", rules),)))
    seen = Counter[tuple[str, ...]]()
    for annotator in range(6):
        sheet = [
            questions[name].shown(order) for name, order in arranged(questions, seed=0, annotator=annotator)
        ]
        assert [question.kind for question in sheet] == ["missing", "wrong", *["rule"] * 4]
        assert tuple(question.about for question in sheet[2:]) == sheet[0].options
        seen[sheet[0].options] += 1
    assert len(seen) > 1


@pytest.mark.parametrize("question", [SELECT, WRONG, MISSING, RULE], ids=lambda q: q.kind)
def test_question_is_read_back_from_its_line(question: Question) -> None:
    """A question written to a line is read back from it, and the header identifies the task (section 2.2)."""
    task = "selection" if question.kind == "select" else "rules"
    columns = header(task, 5)
    shown = cells(7, "ja", question)
    line = dict.fromkeys(columns, "") | shown
    assert set(line) == set(columns)
    assert line["question"] == "7"
    assert task_of([*columns, "my notes"]) == task
    assert question_of(line, task) == question
    assert not is_answered(question, dict.fromkeys(question.columns, ""))
    blind = {"question", "concept", "language", "sentence", "option_1", "option_2", "option_3"}
    assert question.kind != "select" or set(shown) == blind


@pytest.mark.parametrize(
    ("question", "column", "text", "expected"),
    [
        (SELECT, "choice", "2", "2"), (SELECT, "choice", " ２ ", "2"), (SELECT, "choice", "۳", "3"),
        (SELECT, "choice", "芸術", "2"), (SELECT, "choice", "ｱｰﾄ", "3"), (SELECT, "choice", "", ""),
        (SELECT, "confidence", "absolutely SURE", CONFIDENCE[0]),
        (SELECT, "confidence", "3", CONFIDENCE[2]), (WRONG, "answer", "None", "none"),
        (WRONG, "answer", "3;1", "1;3"), (WRONG, "answer", "1, 3", "1;3"), (WRONG, "answer", "1；2", "1;2"),
        (WRONG, "answer", "芸術", "2"), (WRONG, "answer", "芸術; 美術", "1;2"), (MISSING, "answer", "Y", "yes"),
        (MISSING, "answer", "NO", "no"), (MISSING, "which", " 工芸\n と\x1b[31m", "工芸 と␛[31m"),
        (RULE, "answer", "yes", "yes"),
    ],
)  # fmt: skip
def test_equivalent_answers(question: Question, column: str, text: str, expected: str) -> None:
    """Numbers in any script, the text of an option, and any case give the same answer."""
    assert read_answer(question, column, text) == expected


@pytest.mark.parametrize(
    ("question", "column", "text", "wanted"),
    [
        (SELECT, "choice", "4", "choice is '4'; write 1 to 3, or the option's text"),
        (SELECT, "choice", "0", "write 1 to 3"),
        (SELECT, "choice", "1.0", "write 1 to 3"),
        (SELECT, "choice", "1;2", "write 1 to 3"),
        (SELECT, "choice", "絵", "write 1 to 3"),
        (SELECT, "confidence", "maybe", "write one of Absolutely sure, Likely but uncertain, No idea"),
        (WRONG, "answer", "13", "write none, or numbers of options (1 to 3) such as 1;3"),
        (WRONG, "answer", "1;絵", "answer is '絵'"),
        (WRONG, "answer", ";", "answer is ';'"),
        (WRONG, "answer", "yes", "write none"),
        (MISSING, "answer", "1", "write yes or no"),
        (RULE, "answer", "TRUE", "write yes or no"),
        (MISSING, "which", "x" * 1001, "which has 1001 characters"),
    ],
)
def test_invalid_answers(question: Question, column: str, text: str, wanted: str) -> None:
    """Any other answer is refused with a short phrase that says what to write."""
    with pytest.raises(DataError) as caught:
        read_answer(question, column, text)
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_that_fold_alike_are_distinguished() -> None:
    """Two options that differ only in Unicode form are matched by exact text or by number."""
    question = Question("select", "x", ("\u00e9", "e\u0301"), "X.")
    assert read_answer(question, "choice", "e\u0301") == "2"
    with pytest.raises(DataError, match="write 1 to 2"):
        read_answer(question, "choice", "E\u0301")


def test_answers_are_mapped_to_the_original_order() -> None:
    """Option numbers as shown become numbers in the question's own order, and other answers are unchanged."""
    order = (2, 0, 1)
    assert SELECT.shown(order).options == ("アート", "美術", "芸術")
    assert unshuffled(SELECT, {"choice": "1", "confidence": "No idea"}, order) == {
        "choice": "3",
        "confidence": "No idea",
    }
    assert unshuffled(WRONG, {"answer": "1;2"}, order) == {"answer": "1;3"}
    assert unshuffled(WRONG, {"answer": "none"}, order) == {"answer": "none"}
    assert unshuffled(RULE, {"answer": "no"}, (1, 0)) == {"answer": "no"}


def test_editors_do_not_change_a_question() -> None:
    """An editor may change case, spaces and Unicode form, but not words or their order."""
    shown = Question("select", "true", ("\u00e9", "b"), "It is  true.")
    assert shown.same_as(Question("select", "TRUE", ("e\u0301", "b"), "It is true."))
    assert not shown.same_as(Question("select", "true", ("b", "\u00e9"), "It is true."))
    assert not shown.same_as(Question("select", "true", ("\u00e9", "b", "c"), "It is true."))
    assert not shown.same_as(Question("select", "true", ("\u00e9", "b"), "It was true."))


FORMULAS = {"sun": ["son", "sol/sole"], "=day": ["dag", "-etmaal", "dia"]}


JUDGED = {"sun": {"son": "the star", "sol": "=sunlight"}, "day": {"dag": "light", "etmaal": "24 hours"}}


SURE = {"confidence": "Absolutely sure"}


def original(folder: Path) -> Callable[[Cells], Cells]:
    """Return the answer of an annotator who always chooses the original translation's variation."""
    choose = original_choice(folder)
    return lambda line: SURE | choose(line)


@pytest.fixture
def sheets(tmp_path: Path) -> list[Path]:
    """Three sheets of four questions, all filled with the variations of the original translations."""
    paths = selection(tmp_path, FORMULAS)
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
        for sheet in (*selection(tmp_path / "s", FORMULAS), *judging(tmp_path / "r", JUDGED))
        for line in read_cells(sheet)
        for text in line.values()
    ]
    assert not any(text.startswith(("=", "+", "-", "@")) for text in cells)
    assert {"'=day", "'-etmaal", "'=sunlight"} < set(cells)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_filled_sheets_are_read_back(tmp_path: Path, delimiter: str) -> None:
    """Answers are matched to their questions and numbered in the question's order, not the sheet's."""
    for sheet in selection(tmp_path, FORMULAS, delimiter=delimiter):
        assert sheet.read_text(encoding="utf-8-sig").startswith(f"question{delimiter}concept{delimiter}")
        fill(sheet, original(tmp_path))
    study = read_study(tmp_path)
    for answers in study.answers.values():
        for name, answer in answers.items():
            assert answer == {"choice": str(study.originals[name].label + 1), "confidence": "Absolutely sure"}
    assert {len(answers) for answers in study.answers.values()} == {4}
    assert len(study.answers) == 3


def test_spreadsheets_may_sort_and_reformat(sheets: list[Path]) -> None:
    """Sorted lines, capitals, other separators, empty lines, notes and words for their numbers change nothing."""
    before = read_study(sheets[0].parent)
    lines = [
        line | {"notes": "hm", "concept": line["concept"].upper()} for line in read_cells(sheets[0])[::-1]
    ]
    write_cells(sheets[0], lines, delimiter=";", quoting=1)
    with sheets[0].open("a", encoding="utf-8") as file:
        file.write(";;;;\r\n\r\n")
    fill(sheets[1], lambda line: {"choice": options_of(line)[int(line["choice"]) - 1]})
    assert read_study(sheets[0].parent) == before


def changed(column: str, text: str, line: int = 2) -> Callable[[list[Cells]], list[Cells]]:
    """Return a function that changes one cell of the n-th line of the file."""
    return lambda lines: [
        cells | {column: text} if number == line else cells for number, cells in enumerate(lines, 2)
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed("choice", ""), "line 2: question 1: choice is empty (1 of 4 questions are open); finish the sheet"),
        (changed("confidence", "", 4), "line 4: question 3: confidence is empty (1 of 4"),
        (changed("choice", "9", 3), "line 3: question 2: choice is '9'; write 1 to "),
        (changed("choice", "\x1b[31m"), "choice is '\\x1b[31m'; write"),
        (changed("sentence", "Other."), "line 2: question 1: its texts were changed"),
        (changed("option_1", "other"), "line 2: question 1: its texts were changed"),
        (changed("option_1", ""), "line 2: question 1: fewer than two options, or a gap"),
        (changed("concept", ""), "line 2: question 1: the concept is empty"),
        (changed("sentence", ""), "line 2: question 1: the sentence is empty"),
        (changed("question", "2"), "line 3: question 2 is also on line 2"),
        (changed("question", "x"), "line 2: question 'x' is not a number"),
        (changed("question", "77"), "line 2: question 77 is not one of 1 to 4"),
        (lambda lines: lines[:-2], "question 3 is missing (2 in all); restore its line"),
        (lambda lines: [{k: v for k, v in line.items() if k != "choice"} for line in lines],
         "line 1: no column 'choice'"),
        (lambda lines: [dict.fromkeys(lines[0], "")], "there are no questions"),
    ],
)  # fmt: skip
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
    rest = read_study(folder, without=["annotator_3.csv"])
    assert list(rest.answers) == ["annotator_1.csv", "annotator_2.csv"]
    with pytest.raises(UsageError, match=r"it has annotator_1\.csv, annotator_2\.csv, annotator_3\.csv"):
        read_study(folder, without=["annotator_4.csv"])
    with pytest.raises(UsageError, match="leaves out all sheets"):
        read_study(folder, without=[sheet.name for sheet in sheets])


def test_sheets_of_another_study(sheets: list[Path], tmp_path: Path) -> None:
    """A sheet of the other task or of another seed is refused."""
    (other, *_) = judging(tmp_path / "rules", JUDGED)
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
    """Rules for another language give a one-line message."""
    rules = rules_file(tmp_path / "rules.json", JUDGED)
    with pytest.raises(UsageError, match="rules for 'af', not 'ta'"):
        write_rules(tmp_path / "out", rules, "ta")
    assert not (tmp_path / "out").exists()
