"""Annotation questions, their order, and how answers are read."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, groupby

import pytest

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
from pytest_llmprops.core.errors import DataError
from tests.support.annotation import rows_of

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
        concepts = [
            (group, [name for name, _ in lines])
            for group, lines in groupby(sheet, key=lambda line: questions[line[0]].group)
        ]
        orders = {questions[name].group: order for name, order in sheet}
        seen.append((dict(concepts), [group for group, _ in concepts], orders))
        assert len(concepts) == 12
        assert [group for group, _ in concepts] != sorted(orders)
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
    """A question written to a line is read back from it, and the header identifies the task."""
    task = "selection" if question.kind == "select" else "rules"
    columns = header(task, 5)
    line = dict.fromkeys(columns, "") | cells(7, "ja", question)
    assert set(line) == set(columns)
    assert line["question"] == "7"
    assert task_of([*columns, "my notes"]) == task
    assert question_of(line, task) == question
    assert not is_answered(question, dict.fromkeys(question.columns, ""))


def test_selection_sheet_shows_only_sentences_and_variations() -> None:
    """Section 2.2: a selection sheet shows only source sentences and variations."""
    assert set(cells(1, "ja", SELECT)) == {
        "question",
        "concept",
        "language",
        "sentence",
        *header("selection", 3)[4:7],
    }


@pytest.mark.parametrize(
    ("question", "column", "text", "expected"),
    [
        (SELECT, "choice", "2", "2"),
        (SELECT, "choice", " ２ ", "2"),
        (SELECT, "choice", "۳", "3"),
        (SELECT, "choice", "芸術", "2"),
        (SELECT, "choice", "ｱｰﾄ", "3"),
        (SELECT, "choice", "", ""),
        (SELECT, "confidence", "absolutely SURE", CONFIDENCE[0]),
        (SELECT, "confidence", "3", CONFIDENCE[2]),
        (WRONG, "answer", "None", "none"),
        (WRONG, "answer", "3;1", "1;3"),
        (WRONG, "answer", "1, 3", "1;3"),
        (WRONG, "answer", "1；2", "1;2"),
        (WRONG, "answer", "芸術", "2"),
        (WRONG, "answer", "芸術; 美術", "1;2"),
        (MISSING, "answer", "Y", "yes"),
        (MISSING, "answer", "NO", "no"),
        (MISSING, "which", " 工芸\n と\x1b[31m", "工芸 と␛[31m"),
        (RULE, "answer", "yes", "yes"),
    ],
)
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
