"""Homophones as a benchmark: questions, controls, repeated questions, matching, statuses, metrics."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.homophones.benchmark import Homophones, ask_about
from pytest_llmprops.benchmarks.homophones.items import alternatives, masked
from pytest_llmprops.benchmarks.homophones.reading import REQUEST, offers_answer
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.core.verdicts import OTHER_READING, READ_ALIKE, READ_BY
from pytest_llmprops.data.files import DataFolder, builtin_data

#: the fixture of this folder's conftest.py
Measure = Callable[..., Any]
H = Homophones()
FILES = {
    "en": ("testset_english.csv", ("sentence", "word", "answer")),
    "zh": ("testset_chinese.csv", ("sentence", "word", "answer_english", "answer_chinese")),
    "es": ("testset_espanol.csv", ("sentence", "word", "answer_english", "answer_spanish")),
}
QUESTION = (
    "In the sentence 'Hang the lammpe over the table', the word 'lammpe' is a homophone word,"
    " can you tell its true meaning?"
)
REFUSAL = "I cannot determine its meaning without more context. Could you provide more information?"


def write(folder: Path, language: str, *rows: tuple[str, ...]) -> None:
    (folder / "homophones").mkdir(exist_ok=True)
    name, columns = FILES[language]
    with open(folder / "homophones" / name, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def load(folder: Path, language: str, *rows: tuple[str, ...]) -> Loaded:
    write(folder, language, *rows)
    return H.load(DataFolder(folder, "published"))


@pytest.fixture
def lamp(tmp_path: Path) -> Loaded:
    """One English item and its two controls."""
    return load(tmp_path, "en", ("Hang the lammpe over the table", "lammpe", "lamp"))


def test_paper_and_quick_requests(lamp: Loaded, measure: Measure) -> None:
    """`paper` leaves temperature and length to the server; `quick` sets both and asks for a line with the answer."""
    paper, quick = (
        measure(H, lamp.items[0], lamp.context, "lamplight", protocol=name) for name in ("paper", "quick")
    )
    assert paper.calls == [("subject", Chat.user(QUESTION))]
    assert quick.calls == [("subject", Chat.user(f"{QUESTION}\n{REQUEST}", temperature=0.0, max_tokens=256))]
    assert REQUEST.splitlines()[-1] == "ANSWER: <word>"
    assert (paper.verdict.status, quick.verdict.status) == ("correct", "wrong")


def test_control_questions(lamp: Loaded, measure: Measure) -> None:
    """An item's controls, in its cluster, are the sentence without its word, and the word without its sentence."""
    names = [f"homophones/en/p0001{end}" for end in ("", "+context_only", "+word_only")]
    assert [i.id for i in lamp.items] == names
    assert {i.cluster for i in lamp.items} == {names[0]}
    context_only, word_only = (
        measure(H, i, lamp.context, "lamp", match="contains").prompt for i in lamp.items[1:]
    )
    assert context_only.startswith("In the sentence 'Hang the ____ over the table', ")
    assert "lammpe" not in context_only
    assert word_only == "The word 'lammpe' is a homophone word, can you tell its true meaning?"


def test_mask_ignores_case_and_finds_every_place(tmp_path: Path) -> None:
    """The word is masked in any case, but not inside another word; without it, there is no masked control."""
    assert masked("Wee think that wee won", "wee") == "____ think that ____ won"
    assert masked("A week ago WEE won", "wee") == "A week ago ____ won"
    assert masked("他把门观上了", "观上") == "他把门____了"
    tasks = [i.task for i in load(tmp_path, "en", ("We sold the boatt", "bowt", "x")).items]
    assert tasks == ["asked", "word_only"]


def test_foreign_answers_may_be_english(tmp_path: Path, measure: Measure) -> None:
    """Chinese and Spanish items, asked in English (section 6.3), accept answers in their language and in English."""
    replies = {
        "zh": {"It means 关上": True, "Most likely “shut”": True, "It means 'open'": False},
        "es": {"Significa LIBRO": True, "It means book": True, "It means 'free'": False},
    }
    write(tmp_path, "zh", ("他把门观上了", "观上", "close/shut", "关上"))
    data = load(tmp_path, "es", ("Compré un livrro", "livrro", "book", "libro"))
    for item in [item for item in data.items if item.task == "asked"]:
        question = QUESTION.replace("Hang the lammpe over the table", item["sentence"])
        assert ask_about(item) == question.replace("lammpe", item["word"])
        for reply, correct in replies[item.language].items():
            status = "correct" if correct else "wrong"
            assert measure(H, item, data.context, reply).verdict.status == status, reply


def test_contains_and_line_matching(tmp_path: Path, measure: Measure) -> None:
    """`contains` finds "a" inside "cat", as the paper's rule does; `line` needs a whole word, in the line if any."""
    data = load(tmp_path, "es", ("Fuimos ha nadar", "ha", "to", "a"))
    for reply, *statuses in (
        ("Its source is 'cat'", "correct", "wrong"),
        ("The word is 'a'.", "correct", "correct"),
        ("It is 'a'.\nANSWER: cat", "correct", "wrong"),
        ("It is 'cat'.\n**ANSWER: a**", "correct", "correct"),
    ):
        verdicts = [
            measure(H, data.items[0], data.context, reply, match=match).verdict
            for match in ("contains", "line")
        ]
        assert [v.status for v in verdicts] == statuses, reply
        assert [v.values["function_word"] for v in verdicts] == [1.0, 1.0]


def test_offered_answers() -> None:
    """The last line with an answer counts; without one, whole words in any regular form that are not rejected."""
    context = H.load(DataFolder(builtin_data(), "builtin")).context
    for reply, answer, language, is_right in (
        ('{"ANSWER": "fridge"}', "fridge", "en", True),
        ("**ANSWER:** ＦＲＩＤＧＥ<|im_end|>", "fridge", "en", True),
        ("It is not a fridge.\nANSWER: fridge", "fridge", "en", True),
        ("ANSWER: phrydge\nWait, better:\nANSWER: fridge", "fridge", "en", True),
        ("It is a fridge.\nANSWER: <word>", "fridge", "en", True),
        ("It is a bridge, not a fridge.", "fridge", "en", False),
        ("Not a fridge. Or perhaps a fridge after all.", "fridge", "en", True),
        ("It sounds like a fridge, but means a bridge.", "fridge", "en", False),
        ("It sounds like a fridge, but is spelt otherwise: a fridge.", "fridge", "en", True),
        ("She cartridges.", "fridge", "en", False),
        ("driving", "driver", "en", False),
        ("vecinas", "vecino", "es", True),
        ("el avion", "avión", "es", True),
        ("It means sow.", "to sow", "es", True),
        ("ANSWER：廚房", "厨房", "zh", True),
        ("不是厨房，是厨师", "厨房", "zh", False),
    ):
        assert offers_answer(reply, [answer], language, context) is is_right, reply


def test_settings_out_of_range_are_refused() -> None:
    """An unknown match, zero asks or an empty reply length is a one-line usage error."""
    for bad in ({"match": "exact"}, {"asks": "0"}, {"asks": "11"}, {"max_tokens": "0"}):
        with pytest.raises(UsageError, match=r"--llm-set homophones[^\n]*\Z"):
            resolve("homophones", H.protocols, "quick", bad, 0)


def test_question_is_repeated_after_a_refusal(lamp: Loaded, measure: Measure) -> None:
    """With asks = N the same question follows a refusal up to N times, as in the paper's forced answer."""
    seen = measure(H, lamp.items[0], lamp.context, REFUSAL, "Ah, a lamp!", asks=2)
    question = Message("user", f"{QUESTION}\n{REQUEST}")
    assert seen.calls[0][1].messages == (question,)
    assert seen.calls[1][1].messages == (question, Message("assistant", REFUSAL), question)
    assert seen.calls[1][1].temperature == seen.calls[0][1].temperature
    assert seen.verdict.status == "correct"
    assert (seen.verdict.values["asks"], seen.verdict.values["first_correct"]) == (2.0, 0.0)
    refusing = measure(H, lamp.items[0], lamp.context, REFUSAL, REFUSAL, REFUSAL, asks=3)
    assert [len(request.messages) for _, request in refusing.calls] == [1, 3, 5]
    assert (refusing.verdict.status, refusing.verdict.values["asks"]) == ("refused", 3.0)
    # A repeated control question does not reveal the withheld clue.
    control = measure(H, lamp.items[1], lamp.context, REFUSAL, "lamp", asks=2)
    turns = [m.content for m in control.calls[1][1].messages if m.role == "user"]
    assert turns[0] == turns[1]
    assert "lammpe" not in "".join(turns)


@pytest.mark.parametrize(
    ("reply", "status", "several"),
    [
        (Reply("It sounds like 'lamp'."), "correct", 0.0),
        (Reply("It sounds like 'lamb'."), "wrong", 0.0),
        (Reply("It could be either 'lamp' or 'lamb'."), "correct", 1.0),
        (Reply(REFUSAL), "refused", 0.0),
        (Reply("…!"), "unparsed", 0.0),
        (Reply("The word is 'lamp', since it is", finish_reason="length"), "correct", 0.0),
        (Reply("The word is 'lamb', since it is", finish_reason="length"), "unparsed", 0.0),
        (Reply("ANSWER: lamb\nsince", finish_reason="length"), "wrong", 0.0),
        (Reply("I cannot tell.\nANSWER: lamp/lamb"), "correct", 1.0),
        (Reply("It could be a lamp.\nANSWER: unknown"), "refused", 0.0),
        (Reply("It sounds like 'lamp'.", finish_reason="content_filter"), "refused", 0.0),
    ],
)
def test_statuses(reply: Reply, status: str, several: float, lamp: Loaded, measure: Measure) -> None:
    """Refusals, empty and cut-off replies are distinct from wrong answers; several answers are flagged."""
    verdict = measure(H, lamp.items[0], lamp.context, reply).verdict
    is_correct = float(status == "correct")
    assert (verdict.status, verdict.score, verdict.values["several"]) == (status, is_correct, several)
    if status != "refused" or reply.finish_reason == "content_filter":
        # Only a refusal by the model repeats the question.
        assert measure(H, lamp.items[0], lamp.context, reply, asks=3).verdict == verdict
    assert (verdict.values["asks"], verdict.values["function_word"]) == (1.0, 0.0)
    assert verdict.values["first_correct"] == is_correct
    assert verdict.expected == "lamp"
    assert verdict.reason


def test_what_was_given_and_why(lamp: Loaded, measure: Measure, tmp_path: Path) -> None:
    """The verdict has what the line has, or else the answer or the reply."""
    for reply, given, reason in (
        ("It means 'lamb', not 'lamp'.", "It means 'lamb', not 'lamp'.", "rejects the answer"),
        ("It means 'lamb'.", "It means 'lamb'.", "does not contain the answer"),
        ("It could be 'lamb' or 'lamp'.", "lamp", "contains the answer"),
        ("It is a lamp.\nANSWER: lamb", "lamb", "the last line has lamb"),
    ):
        verdict = measure(H, lamp.items[0], lamp.context, reply).verdict
        assert (verdict.given, verdict.reason) == (given, reason)
    # The 非 of 卡非 is no negation of the answer after it.
    data = load(tmp_path, "zh", ("来一杯卡非提神", "卡非", "coffee", "咖啡"))
    item = next(item for item in data.items if item.language == "zh")
    assert measure(H, item, data.context, "“卡非”的真正含义是“咖啡”。").verdict.status == "correct"


def test_how_a_reply_was_read(lamp: Loaded, measure: Measure) -> None:
    """A verdict says whether the line or the paper's rule read the reply, and what the other protocol reads."""
    for reply, match, read_by, alike, other in (
        (Reply("It means 'lamp'."), "line", "the paper's rule", 1.0, None),
        (Reply("'Lamp' or 'lamb'?\nANSWER: lamb"), "line", "answer line", 0.0, "correct"),
        (Reply("It means 'lamb', not 'lamp'."), "line", "the paper's rule", 0.0, "correct"),
        (Reply("It means 'lamb', not 'lamp'."), "contains", "the paper's rule", 0.0, "not correct"),
        (Reply("", finish_reason="content_filter"), "line", "content filter", 1.0, None),
    ):
        verdict = measure(H, lamp.items[0], lamp.context, reply, match=match).verdict
        assert (verdict.evidence[READ_BY], verdict.values[READ_ALIKE]) == (read_by, alike)
        assert verdict.evidence.get(OTHER_READING) == other
        assert verdict.values.get("line") == (float(read_by == "answer line") if match == "line" else None)


def test_remarks(lamp: Loaded, measure: Measure) -> None:
    """The summary says how many replies had no line, and warns of several answers; controls are left out."""
    controls = [measure(H, lamp.items[1], lamp.context, QUESTION).record] * 30
    several = "It could be 'lamp' or 'lamb'.\nANSWER: lamp or lamb"
    cases: list[tuple[list[str], list[str]]] = [
        (["ANSWER: lamp"] * 20, []),
        (["lamp"] * 2 + ["ANSWER: lamp"], ["2 of 3 replies have no line 'ANSWER: word'"]),
        ([several] * 20, ["warning: 100.0% of the replies name several answers"]),
    ]
    for replies, remarks in cases:
        records = [measure(H, lamp.items[0], lamp.context, reply).record for reply in replies]
        said = list(H.remarks([*records, *controls]))
        assert [text.partition(";")[0] for text in said] == remarks
        imported = [replace(record, values={}) for record in records]
        assert list(H.remarks(imported)) == []


def test_metrics_by_hand(tmp_path: Path, measure: Measure) -> None:
    """Several answers are accepted per task; function-word and content-word accuracy cover the main task only."""
    rows = [
        ("Hang the lammpe over the table", "lammpe", "lamp"),
        ("Drink the teigh while it is hot", "teigh", "tea"),
        ("Come witth me", "witth", "with"),
    ]
    data = load(tmp_path, "en", *rows)
    lamp, tea, word = (i for i in data.items if i.task == "asked")
    script = (
        (lamp, "It sounds like 'lamp'."), (tea, "It could be 'tie' or 'toe'."), (word, REFUSAL),
        (data.items[1], "The word is 'light'."),
    )  # fmt: skip
    records = [measure(H, item, data.context, reply).record for item, reply in script]
    failed = replace(records[0], status="error", values={})
    results = {(m.task, m.name, m.group): (m.value, m.n) for m in H.metrics([failed, *records])}
    assert results == {
        ("asked", "several_answers_rate", ""): (1 / 3, 3),
        ("asked", "accuracy", "function_words"): (0.0, 1),
        ("asked", "accuracy", "content_words"): (1 / 2, 2),
        ("context_only", "several_answers_rate", ""): (0.0, 1),
    }


def test_alternatives_are_whole_answers() -> None:
    """A slash separates whole answers; a pronoun, article or auxiliary shares the words after its alternative."""
    for cell, expected in (
        ("she/he opened", ["she opened", "he opened"]),
        ("I / He/She was", ["I was", "He was", "She was"]),
        ("will/would open", ["will open", "would open"]),
        # These answers are complete.
        ("he/she", ["he", "she"]),
        ("soy milk/soymilk", ["soy milk", "soymilk"]),
        ("a/to the", ["a", "to the"]),
        (" / ", []),
    ):
        assert alternatives(cell) == expected


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    """An empty cell is refused at loading with the file and row, and a file without answers with the column."""
    for bad in (("", "lammpe", "lamp"), ("A lammpe", " ", "lamp"), ("A lammpe", "lammpe", "/")):
        with pytest.raises(DataError, match=r"homophones/testset_english\.csv: row 2: [^\n]*\Z"):
            load(tmp_path, "en", ("A teigh", "teigh", "tea"), bad)
    (tmp_path / "homophones" / "testset_english.csv").write_text("sentence,word,other\na,b,c\n", "utf-8")
    with pytest.raises(DataError, match=r"testset_english\.csv: no column 'answer'[^\n]*\Z"):
        H.load(DataFolder(tmp_path, "published"))
