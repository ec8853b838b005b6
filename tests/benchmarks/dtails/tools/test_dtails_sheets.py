"""DTAiLS's annotation sheets, their faults, and agreement on hand-computed cases and the paper's printed values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule, RulesFile
from pytest_llmprops.benchmarks.dtails.tools.sheets import (
    CONFIDENCE,
    Judged,
    Question,
    arranged,
    fleiss_kappa,
    read_answer,
    read_study,
    result_lines,
    rules_result,
    rules_study,
    selection_result,
    selection_study,
    total_agreement,
    write_expert_set,
    write_sheets,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.annotation import (
    Cells,
    fill,
    options_of,
    place_of,
    read_cells,
    selection,
    write_cells,
)
from tests.support.dtails import row, rules_file, write_language

SELECT = Question("select", "art", "NOUN", ("美術", "芸術", "アート"), "The art of cooking.")
WRONG = Question("wrong", "art", "NOUN", ("美術", "芸術", "アート"))
MISSING = Question("missing", "art", "NOUN", ("美術", "芸術"))
RULE = Question("rule", "art", "NOUN", ("美術", "芸術"), "fine arts", "美術")
#: names of concepts and variations that a spreadsheet would run
FORMULAS = {"sun": ["son", "sol/sole"], "=day": ["dag", "-etmaal", "dia"]}
DAY = {"sun": {"son": "the star", "sol": "sunlight"}, "day": {"dag": "light", "etmaal": "24 hours"}}


def test_repeated_rows_are_asked_once(tmp_path: Path) -> None:
    """A row that repeats another adds no question, and the other questions keep their numbers."""
    rows = [row(), row(), row(sentence="We live.", label="leef/lewe")]
    data = write_language(tmp_path, "xx", rows)
    (data / "dtails" / "SOURCE.json").unlink()  # Only published rows may repeat.
    assert list(selection_study("xx", data).questions) == ["r0001", "r0003"]


def test_concepts_sentences_and_variations_are_shuffled() -> None:
    """Each annotator and seed has another order; the variations of a concept keep their order in all its questions."""
    questions = {
        f"{concept} {n}": Question("select", concept, "", tuple(f"{concept}{m}" for m in range(4)), f"{n}")
        for concept in "abcdefgh"
        for n in range(6)
    }
    sheets = [arranged(questions, seed=seed, annotator=n) for seed in (0, 1) for n in (1, 2, 3)]
    for sheet in sheets:
        assert sorted(name for name, _ in sheet) == sorted(questions)
        concepts = [list(lines) for _, lines in groupby(sheet, key=lambda line: line[0][0])]
        assert len(concepts) == 8
        assert all(len({tuple(order) for _, order in lines}) == 1 for lines in concepts)
        assert len({tuple(order) for _, order in sheet}) > 3
        assert any([name for name, _ in lines] != sorted(name for name, _ in lines) for lines in concepts)
    assert len({json.dumps(sheet) for sheet in sheets}) == 6
    assert arranged(questions, seed=0, annotator=1) == sheets[0]


def test_questions_on_rules(tmp_path: Path) -> None:
    """Figure 3: what is missing, what is wrong, then the rules in the order of the options, per concept and tag."""
    rules = tuple(Rule(name, f"rule of {name}") for name in "abcd")
    file = tmp_path / "rules.json"
    entries = (ConceptRules("art", "NOUN", rules), ConceptRules("art", "VERB", rules))
    file.write_text(RulesFile("xx", "m", entries).to_json(), encoding="utf-8")
    seen = set()
    for sheet in write_sheets(tmp_path / "sheets", rules_study("xx", file), annotators=6)[:-1]:
        lines = read_cells(sheet)
        assert [line["ask"].split()[0] for line in lines] == ["Is", "Which", *["Is"] * 4] * 2
        for start in (0, 6):
            assert [line["variation"] for line in lines[start + 2 : start + 6]] == options_of(lines[start])
        seen.add(tuple(options_of(lines[0])))
    assert len(seen) > 1
    with pytest.raises(UsageError, match="rules for 'xx'; use the file for 'ta'"):
        rules_study("ta", file)


def test_equivalent_answers() -> None:
    """Numbers in any script, the text of an option, and any case give the same answer, as indexes of the question."""
    alike = Question("select", "x", "", ("\u00e9", "e\u0301", "o"), "X.")
    cases: list[tuple[Question, str, str, object]] = [
        (alike, "choice", "e\u0301", 1),
        (SELECT, "choice", " ２ ", 1), (SELECT, "choice", "۳", 0), (SELECT, "choice", "ｱｰﾄ", 2),
        (SELECT, "choice", "", None), (SELECT, "confidence", "absolutely SURE", CONFIDENCE[0]),
        (SELECT, "confidence", "3", CONFIDENCE[2]), (WRONG, "answer", "None", frozenset()),
        (WRONG, "answer", "1, 3", frozenset({0, 2})), (WRONG, "answer", "1；2", frozenset({2, 1})),
        (WRONG, "answer", "芸術; 美術", frozenset({1, 0})), (MISSING, "answer", "Y", True),
        (RULE, "answer", "NO", False), (MISSING, "which", " 工芸\n と\x1b[31m", "工芸 と␛[31m"),
    ]  # fmt: skip
    for question, column, text, expected in cases:
        order = (2, 1, 0) if len(question.options) == 3 else (0, 1)
        assert read_answer(question, order, column, text) == expected, text


def test_invalid_answers() -> None:
    """Any other answer is refused with a short phrase that says what to write."""
    alike = Question("select", "x", "", ("\u00e9", "e\u0301"), "X.")
    for question, column, text, wanted in (
        (SELECT, "choice", "4", "choice is '4'; write 1 to 3, or the option's text"),
        (SELECT, "choice", "0", "write 1 to 3"),
        (alike, "choice", "E\u0301", "write 1 to 2"),
        (SELECT, "confidence", "maybe", "write one of Absolutely sure, Likely but uncertain, No idea"),
        (WRONG, "answer", "13", "write none, or numbers of options (1 to 3) such as 1;3"),
        (WRONG, "answer", "1;絵", "answer is '1;絵'"),
        (WRONG, "answer", ";", "answer is ';'"),
        (RULE, "answer", "TRUE", "write yes or no"),
    ):
        with pytest.raises(DataError, match=re.escape(wanted)):
            read_answer(question, range(len(question.options)), column, text)


def original(folder: Path) -> Callable[[Cells], Cells]:
    """Return the answer of an annotator who always chooses the original translation's variation."""
    key = json.loads((folder / "key.json").read_text(encoding="utf-8"))
    labels = {(q["concept"], q["text"]): q["options"][q["label"]] for q in key["questions"].values()}

    def choose(line: Cells) -> Cells:
        label = labels[line["concept"].removeprefix("'"), line["sentence"].removeprefix("'")]
        return {"choice": place_of(line, label), "confidence": CONFIDENCE[0]}

    return choose


@pytest.fixture
def sheets(tmp_path: Path) -> list[Path]:
    """Three sheets of four questions, all filled with the variations of the original translations."""
    paths = selection(tmp_path, FORMULAS)
    for sheet in paths:
        fill(sheet, original(sheet.parent))
    return paths


def test_sheets_are_blind(tmp_path: Path) -> None:
    """A sheet has blank answers and no labels or translations, and the same seed gives the same files."""
    for name in "ab":
        paths = write_sheets(tmp_path / name, selection_study("fa"))
        assert [path.name for path in paths] == [*(f"annotator_{n}.csv" for n in (1, 2, 3)), "key.json"]
    first, second, *_ = ((tmp_path / name / "annotator_1.csv").read_bytes() for name in "ab")
    rows = expert_rows(DataFolder(builtin_data(), "builtin"), "fa")
    lines = read_cells(tmp_path / "a" / "annotator_1.csv")
    assert first == second
    assert [line["question"] for line in lines] == [str(n) for n in range(1, len(rows) + 1)]
    assert {line["choice"] + line["confidence"] for line in lines} == {""}
    assert sorted(line["sentence"] for line in lines) == sorted(row.sentence for row in rows)
    assert not any(row.target in first.decode() for row in rows if row.target)
    assert "label" not in lines[0]


def test_filled_sheets_are_read_back(tmp_path: Path) -> None:
    """Answers are matched to their questions and numbered in the question's order, not the sheet's.

    Sorted lines, capitals, other separators, empty lines, notes and words for their numbers change nothing.
    """
    paths = selection(tmp_path, FORMULAS, delimiter="\t")
    for path in paths:
        text = path.read_text(encoding="utf-8-sig")
        assert text.startswith("question\tconcept\t")
        assert "\t'=day\t" in text, "a cell starts like a formula"
        fill(path, original(path.parent))
    study = read_study(paths[0].parent)
    assert len(study.answers) == 3
    for answers in study.answers.values():
        assert {name: answer["choice"] for name, answer in answers.items()} == {
            name: question.label for name, question in study.questions.items()
        }
    lines = [
        line | {"notes": "hm", "concept": line["concept"].upper()} for line in read_cells(paths[0])[::-1]
    ]
    write_cells(paths[0], lines, delimiter=";", quoting=1)
    with paths[0].open("a", encoding="utf-8") as file:
        file.write(";;;;\r\n\r\n")
    fill(paths[1], lambda line: {"choice": options_of(line)[int(line["choice"]) - 1]})
    assert read_study(paths[0].parent) == study


def test_invalid_sheets_give_one_line(sheets: list[Path]) -> None:
    """Each fault of a sheet gives one line with the file, the line and the fix."""
    lines = read_cells(sheets[1])
    for place, change, says in (
        (0, {"choice": ""}, "line 2: question 1: choice is empty (1 of 4 questions are open); finish"),
        (1, {"choice": "\x1b[31m"}, "line 3: question 2: choice is '\\x1b[31m'; write"),
        (0, {"sentence": "Other."}, "line 2: question 1: sentence was changed; copy the line"),
        (0, {"option_1": ""}, "line 2: question 1: option_1 was changed"),
        (1, {"question": "1"}, "line 3: question 1 is not one of 1 to 4, or is there twice"),
    ):
        write_cells(sheets[1], [*lines[:place], lines[place] | change, *lines[place + 1 :]])
        with pytest.raises(DataError) as caught:
            read_study(sheets[0].parent)
        message = str(caught.value)
        assert message.startswith(f"{sheets[1]}: {says}")
        assert message.isprintable()


def test_sheets_that_are_not_there_are_left_out(sheets: list[Path]) -> None:
    """A study is read from the sheets in the folder, and the result says how many they are; none is an error."""
    sheets[2].unlink()
    study = read_study(sheets[0].parent)
    assert list(study.answers) == ["annotator_1.csv", "annotator_2.csv"]
    assert "annotators 2 of 3" in result_lines(study)[0]
    for sheet in sheets[:2]:
        sheet.unlink()
    with pytest.raises(DataError, match=r"none of annotator_1\.csv, .* is here"):
        read_study(sheets[0].parent)


def test_damaged_key_gives_one_line(sheets: list[Path]) -> None:
    """A key that was changed, is not JSON or is missing gives a one-line message."""
    path = sheets[0].parent / "key.json"
    key = json.loads(path.read_text(encoding="utf-8"))
    key["questions"]["r0001"]["label"] = 1 - key["questions"]["r0001"]["label"]
    for text in ("", "[]", "{", "{}", json.dumps(key)):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(
            DataError, match=r"key\.json: not a key by `llmprops lab dtails annotate`, or changed"
        ):
            read_study(path.parent)
    path.unlink()
    with pytest.raises(DataError, match="use the folder with the filled sheets"):
        read_study(path.parent)


def test_kappa_by_hand() -> None:
    """If all answers are equal (table 4, Latvian), kappa is NaN; for one annotator or no question, so is agreement."""
    # p = 5/6, chance 74/144
    assert fleiss_kappa([(1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 0, 0)]) == pytest.approx(23 / 35)
    # 2 of 4 pairs agree; three categories with 2, 4 and 2 of 8 answers: chance 3/8
    assert fleiss_kappa([(0, 0), (1, 1), (1, 2), (1, 2)]) == pytest.approx((1 / 2 - 3 / 8) / (5 / 8))
    same = Judged.of([(True, True, True)] * 5)
    assert (same.total, same.pabak, math.isnan(same.kappa)) == (1.0, 1.0, True)
    alone = Judged.of([(True,), (False,)])
    assert alone.share == 0.5
    undefined = (alone.total, alone.kappa, alone.pabak, total_agreement([]), fleiss_kappa([]))
    assert all(map(math.isnan, undefined))


def test_values_of_the_papers_tables() -> None:
    """Table 4, Afrikaans: 97.5% agreement, kappa -0.008, PABAK 0.950; table 3: 99.2% are right.

    PABAK is twice the total agreement minus one (tables 4 and 6); recall pools three judgements each (table 1).
    """
    # Of 40 rules judged by three annotators, one calls one rule wrong.
    stats = Judged.of([(True, True, True)] * 39 + [(True, True, False)])
    numbers = [round(n, 3) for n in (stats.total, stats.kappa, stats.pabak, stats.share)]
    assert numbers == [0.975, -0.008, 0.95, 0.992]
    for agreed, of, printed in ((29, 41, (0.707, 0.415)), (8, 18, (0.444, -0.111)), (19, 24, (0.792, 0.583))):
        stats = Judged.of([(True,) * 3] * agreed + [(True, False, False)] * (of - agreed))
        assert (round(stats.total, 3), round(stats.pabak, 3)) == printed
    # Afrikaans 17 concepts, Farsi 100, Hindi 41
    for yes, of, share in ((42, 51, 0.824), (217, 300, 0.723), (110, 123, 0.894)):
        judgements = [True] * yes + [False] * (of - yes)
        assert round(Judged.of(list(zip(*[iter(judgements)] * 3, strict=True))).share, 3) == share


def judged(line: Cells, **objections: Mapping[str, str]) -> Cells:
    """Return one annotator's answer; without an entry for a rule or concept there is no objection."""
    concept = line["concept"]
    rules, wrong, missing = (objections.get(name, {}) for name in ("rules", "wrong", "missing"))
    if line["ask"].startswith("Is the rule"):
        return {"answer": rules.get(line["variation"], "yes")}
    if line["ask"].startswith("Which"):
        return {"answer": place_of(line, wrong[concept]) if concept in wrong else "none"}
    return {"answer": "yes" if concept in missing else "no", "which": missing.get(concept, "")}


def test_rules_by_hand(tmp_path: Path) -> None:
    """9 of 12 rules, 10 of 12 variations and 2 of 6 concepts are accepted; what a majority rejects is named."""
    rules = rules_file(tmp_path / "rules.json", DAY, "xx")
    sheets = write_sheets(tmp_path / "sheets", rules_study("xx", rules))[:-1]
    people: list[dict[str, Any]] = [
        {"rules": {"etmaal": "no"}, "wrong": {"sun": "sol"}, "missing": {"day": "dagje"}},
        {"rules": {"etmaal": "no", "dag": "no"}, "missing": {"day": ""}},
        {"wrong": {"sun": "sol"}, "missing": {"day": "", "sun": "zon \x1b[2J"}},
    ]
    for sheet, answers in zip(sheets, people, strict=True):
        fill(sheet, partial(judged, **answers))
    study = read_study(sheets[0].parent)
    parts = rules_result(study).judged
    assert [part.share for part in parts.values()] == pytest.approx([9 / 12, 10 / 12, 2 / 6])
    assert [part.total for part in parts.values()] == pytest.approx([2 / 4, 3 / 4, 1 / 2])
    # chance (9/12)^2 + (3/12)^2 = 5/8; observed (1 + 1 + 1/3 + 1/3) / 4 = 2/3
    assert parts["accuracy"].kappa == pytest.approx((2 / 3 - 5 / 8) / (3 / 8))
    assert set(rules_result(study).remarks) == {
        "a majority: day, etmaal: the rule is not correct",
        "a majority: sun, sol: does not mean it",
        "named as missing: day: dagje",
        "named as missing: sun: zon ␛[2J",
    }


def test_selection_by_hand(tmp_path: Path) -> None:
    """Table 2: half of the sentences have sufficient context, and both agreements are as computed.

    The two sentences of a majority are read back unchanged as the expert set; without any, nothing is written.
    """
    # Four sentences: all right; two of three right; two with one wrong answer; three wrong in two ways.
    concepts = {"sun": ["son", "zon", "sol"], "day": ["dag", "zon", "dia", "etmaal"]}
    people = [["son", "zon", "zon", "etmaal"], ["son", "zon", "zon", "dia"], ["son", "sol", "dag", "etmaal"]]
    order = [f"Sentence {n} says {concept}." for concept in concepts for n in range(2)]
    sheets = selection(tmp_path, concepts)

    def selected(line: Cells, choices: list[str], confidence: str) -> Cells:
        return {"choice": place_of(line, choices[order.index(line["sentence"])]), "confidence": confidence}

    for sheet, choices, confidence in zip(sheets, people, CONFIDENCE, strict=True):
        fill(sheet, partial(selected, choices=choices, confidence=confidence))
    study = read_study(sheets[0].parent)
    result = selection_result(study)
    assert result.expert == ("r0001", "r0002")
    # right are 3 + 2 + 1 + 0 of 12, chance 1/2, observed (1 + 1/3 + 1/3 + 1) / 4 = 2/3
    stats = result.judged["original"]
    assert (stats.share, stats.total, stats.kappa, stats.pabak) == pytest.approx((0.5, 0.5, 1 / 3, 0))
    text = [" ".join(line.split()) for line in result_lines(study)]
    assert "sufficient context 50.0%: for 2 of 4 the majority chose the original's variation" in text
    assert "same variation 25.0%" in text
    assert "confidence: Absolutely sure 33.3%, Likely but uncertain 33.3%, No idea 33.3%" in text
    assert text[-1] == "annotator_3.csv: the original's variation in 50.0%"
    files = DataFolder(tmp_path / "data", "generated")
    before = expert_rows(files, "xx")
    write_expert_set(files.root / "dtails" / "en-xx" / "expert_dataset.csv", study)
    assert expert_rows(files, "xx") == before[:2]
    with pytest.raises(UsageError, match="Is a directory"):
        write_expert_set(tmp_path, study)
    for sheet in sheets:
        fill(sheet, partial(selected, choices=["zon", "sol", "zon", "dia"], confidence="1"))
    with pytest.raises(UsageError, match="nothing to write"):
        write_expert_set(tmp_path / "x.csv", read_study(sheets[0].parent))
