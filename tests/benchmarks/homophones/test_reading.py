"""Reading replies: whether a reply offers the answer, refuses, or offers several answers."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.replies import homophone_replies, labelled_replies
from pytest_llmprops.benchmarks.homophones.answer_forms import forms_of
from pytest_llmprops.benchmarks.homophones.benchmark import Homophones, ask_about
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.homophones.reading import LONGEST_READ, Reading, contains_answer, reading
from pytest_llmprops.benchmarks.homophones.reading_rules import SECTIONS, parse_rules
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.reasoning import answer_of
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.data.files import DataFolder, builtin_data

DOCUMENT = json.loads((builtin_data() / "homophones" / "reading_rules.json").read_text(encoding="utf-8"))
RULES = Homophones().load(DataFolder(builtin_data(), "builtin")).context
LANGUAGES = ("en", "zh", "es")
#: whether the replies offer the answer
OFFERS = homophone_replies()
#: whether the replies refuse, and whether they offer several answers
LABELLED = labelled_replies("homophones/labelled_replies")


def read(row: dict[str, Any], match: str = "word") -> Reading:
    words = {name: row[name] for name in ("word", "sentence")}
    answer, _ = answer_of(Reply(row["reply"]))
    return reading(answer.text, row["answers"], match, row["language"], RULES, **words)


def say(reply: str, answer: str = "candle", *, word: str = "kanndul", language: str = "en") -> Reading:
    return reading(reply, [answer], "word", language, RULES, word=word, sentence=f"A {word} table")


def read_of(item: Item, reply: str) -> Reading:
    return read({**item.fields, "reply": reply, "language": item.language})


def says(reply: str, item: Item) -> bool:
    return read_of(item, reply).correct


@cache
def readings() -> list[tuple[dict[str, Any], Reading]]:
    """Return the labelled replies with their readings."""
    return [(row, read(row)) for row in LABELLED]


# The labelled replies


def test_labelled_replies_are_many_and_balanced() -> None:
    """Every split has enough replies of each label in all three languages, and no reply occurs twice."""
    labels = Counter(row["label"] for row in LABELLED)
    assert labels["refused"] >= 60
    assert labels["wrong"] >= 60
    assert labels["correct"] >= 40
    assert sum(row["several"] for row in LABELLED) >= 25
    assert {(row["split"], row["language"]) for row in LABELLED} >= {("heldout", code) for code in LANGUAGES}
    counts = Counter((row["split"], row["language"], row["label"]) for row in OFFERS)
    assert sum(row["split"] == "heldout" for row in OFFERS) >= 200
    assert (
        min(counts[s, c, x] for s in ("dev", "heldout") for c in LANGUAGES for x in ("correct", "not")) >= 30
    )
    for rows in (LABELLED, OFFERS):
        assert (
            len({row["id"] for row in rows})
            == len({(row["word"], row["reply"]) for row in rows})
            == len(rows)
        )


def test_correct_and_empty_replies_are_never_mistaken() -> None:
    """The reader always agrees with the labels on correct and empty replies, which need no judgement."""
    for row, result in readings():
        assert (row["label"] == "correct", row["label"] == "empty") == (result.correct, result.empty), row


# Forms


@pytest.mark.parametrize(
    ("answer", "language", "same", "other"),
    [
        ("driver", "en", ["Drivers", "driver's"], ["driving", "screwdriver"]),
        ("knives", "en", ["knife"], []),
        ("men", "en", ["man"], ["mend"]),
        ("child", "en", ["children"], []),
        ("stop", "en", ["stopped"], []),
        ("hope", "en", [], ["hopping"]),
        ("neighbor", "en", ["neighbours"], []),
        ("glasses", "en", [], ["glass"]),
        ("write", "en", ["wrote"], []),
        ("seat belt", "en", ["seatbelts"], []),
        ("avión", "es", ["AVION", "aviones"], []),
        ("vecino", "es", ["vecina"], []),
        ("libro", "es", [], ["libra"]),
        ("caso", "es", [], ["casa"]),
        ("jefe", "es", ["jefa"], []),
        ("vaso de agua", "es", ["vasos de agua"], []),
        ("luz", "es", ["luces"], []),
        ("sembrar", "es", ["siembran"], []),
        ("caña", "es", [], ["cana"]),
        ("厨房", "zh", ["廚房"], ["厨师"]),
    ],
)
def test_forms_of_an_answer(answer: str, language: str, same: list[str], other: list[str]) -> None:
    """Regular inflection, accents and the Chinese script make no other word; other derivations do."""
    forms = forms_of((answer,), language, RULES.words)
    assert [form for form in same + other if forms.found_in(form)] == same


def test_a_form_that_is_the_homophone_is_no_answer() -> None:
    """If only an accent or a letter tells the answer from the homophone, it has to be there."""
    forms = forms_of(("está",), "es", RULES.words, "esta")
    assert forms.found_in("está")
    assert not forms.found_in("esta")
    assert not forms_of(("fly",), "en", RULES.words, "flies").found_in("flies")


def test_traditional_characters_are_those_of_opencc() -> None:
    """The table has each Big5 character that OpenCC converts to one of GB 2312, and nothing else."""
    convert = pytest.importorskip("opencc").OpenCC("t2s").convert
    expected = {}
    for lead in range(0xA1, 0xFF):
        for trail in (*range(0x40, 0x7F), *range(0xA1, 0xFF)):
            character = bytes([lead, trail]).decode("big5", errors="ignore")
            simplified = convert(character)
            is_han = "一" <= character <= "鿿" and len(simplified) == 1
            if is_han and simplified != character and simplified.encode("gb2312", errors="ignore"):
                expected[ord(character)] = simplified
    assert RULES.words.simplified == expected


# contains_answer


@pytest.mark.parametrize(
    ("reply", "answer", "language", "contains", "word"),
    [
        ("It means Candle.", "candle", "en", True, True),
        ("candles", "candle", "en", True, True),
        ("a scandal", "candle", "en", False, False),
        ("the hatter", "hat", "en", True, False),
        ("you should sow it", "to sow", "es", True, True),
        ("you should sow it", "to sow", "en", False, False),
        ("sown", "to sow", "es", True, False),
        ("to", "to", "es", True, True),
        ("Es el niño", "nino", "es", False, False),
        ("el avion", "avión", "es", False, True),
        ("廚房", "厨房", "zh", False, True),
        ("Es el nin\u0303o", "niño", "es", True, True),
        ("es el NIÑO", "niño", "es", True, True),
        ("niños", "niño", "es", True, True),
        ("指的是厨房里", "厨房", "zh", True, True),
        ("a seat\nbelt", "seat belt", "zh", False, True),
        ("the driver’s seat", "driver's seat", "en", True, True),
        ("C++", "c++", "en", True, True),
        ("", "candle", "en", False, False),
        ("anything", "", "en", False, False),
    ],
)
def test_contains_answer(reply: str, answer: str, language: str, contains: bool, word: bool) -> None:
    """A match is a substring, or a whole word in any inflection, accentuation and Chinese script; "to" is
    optional outside English.
    """
    assert contains == contains_answer(reply, [answer], "contains", language, RULES.words)
    assert word == contains_answer(reply, [answer], "word", language, RULES.words)


def test_unknown_match_is_refused() -> None:
    """The error for an invalid setting lists the valid ones."""
    with pytest.raises(ValueError, match=r"homophones\.match is 'fuzzy': use contains or word"):
        contains_answer("x", ["x"], "fuzzy", "en", RULES.words)


# reading


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("I don't know.", "refused"),
        ("I don't know, but it may be a candle.", "correct"),
        ("I don't know, but it may be “canned oil”.", "wrong"),
        ("Could you provide more context?", "refused"),
        (
            (
                "In the sentence 'A kanndul table', the word 'kanndul' is a homophone word, "
                "can you tell its true meaning?"
            ),
            "is_echo",
        ),
        ('What does "kanndul" mean in this sentence?', "is_echo"),
        ('¿Cuál es el verdadero significado de "kanndul"?', "is_echo"),
        ("请问“kanndul”这个词的真正意思是什么？", "is_echo"),
        ('Does "kanndul" mean a kettle?', "wrong"),
        ("", "empty"),
        ("**\n", "empty"),
    ],
)
def test_status(reply: str, status: str) -> None:
    """A correct answer has priority; a named answer or a repeated question is not a refusal."""
    result = say(reply)
    said = [name for name in ("correct", "refused", "empty", "is_echo") if getattr(result, name)] or ["wrong"]
    assert [status] == said
    # The word and the sentence may be unknown.
    assert reading("I think it is a candle.", ["candle"], "word", "en", RULES).correct


@pytest.mark.parametrize(
    ("reply", "several"),
    [
        ("“Candle” or “kindle”.", True),
        ("It could be kindle, cannon or candle.", True),
        ("1. Kindle\n2. Candle", True),
        ("可能是“蜡烛”或“腊竹”", True),
        ("Podría ser “vela” o “velo”.", True),
        ("“Kanndul” means “candle”.", False),
        ("“A kanndul table”: “kanndul” sounds like “candle”.", False),
        ("It is “candle”, which means “vela” or “cirio” in Spanish.", False),
        ("It could be a typo or a name.", False),
    ],
)
def test_several_answers(reply: str, several: bool) -> None:
    """Different candidates count; the word, the sentence, glosses and words like "typo" do not."""
    assert several == say(reply).several


def test_two_accepted_answers_are_one() -> None:
    """ "fridge or refrigerator" offers one answer when both are right."""
    reply = "It is “fridge” or “refrigerator”."
    both = reading(reply, ["fridge", "refrigerator"], "word", "zh", RULES, word="兵香", sentence="放进兵香")
    assert not both.several
    assert reading(reply, ["fridge"], "word", "zh", RULES, word="兵香", sentence="放进兵香").several


def test_answers_named_leave_out_word_and_sentence() -> None:
    """The quoted word and parts of the quoted sentence are not among the named answers."""
    result = say("“Kanndul” in “A kanndul table” means “kindle”, and “table” fits.")
    assert result.answers_named == ("kindle",)
    assert not say("It means “table” or “kindle”.").several


@pytest.mark.parametrize(
    ("reply", "refused"),
    [
        ("It can't be “candle”.", False),
        ("Sorry, it is not a candle but a kindle.", False),
        ("No puede ser una vela.", False),
        ("“Kanndul” no es lo mismo que una vela.", False),
        ("不是蜡烛。", False),
        ("“kanndul”与“蜡烛”无关。", False),
        ("I don't know the word, but from the context it is a lamp.", False),
        ("“kanndul”不是标准词语，不能理解为“蜡烛”，我认为指点着的灯。", False),
        ("Según el contexto:\n- No hay luz.\n\nConclusión: “kanndul” son las lámparas.", False),
        ("“Kanndul” is a lamp, and no light is brighter.", False),
        ("“Kanndul” es un candil sin aceite.", False),
        ("“kanndul”是指没有光的夜晚。", False),
        ("“Kindle”: nothing else comes to mind.", False),
        ("It is often confused with other things.", False),
        ("“kanndul”没有写错。", False),
        ("No.", True),
        ("Sorry.", True),
        ("It is not a word.", True),
        ("It may be a name or a term that I am not familiar with.", True),
        ("“kanndul”可能写错了。", True),
        ("No hay contexto.", True),
    ],
)
def test_a_refusal_names_and_defines_nothing(reply: str, refused: bool) -> None:
    """A rejected candidate, another word and a definition are answers, even in a reply with a "not"."""
    assert say(reply).refused is refused


@pytest.mark.parametrize(
    ("reply", "reason", "read_by"),
    [
        ("I can't determine the meaning.", "refuses: cannot tell", "refusal rule cannot tell"),
        ("It means “candle”.", "offers the answer", "named answer"),
        ("Light a candle and look.", "offers the answer", "only mention"),
        ("A candle table", "offers the answer", "restored sentence"),
        ("It means “kindle”.", "names kindle", "defines another meaning"),
        ("Kindle", "names Kindle", "names another word"),
        (
            "Hello there, how nice to see you today.",
            "no answer found in the reply",
            "no answer found in the reply",
        ),
        ("What does “kanndul” mean?", "repeats the question", "repeats the question"),
    ],
)
def test_reason_names_the_rule(reply: str, reason: str, read_by: str) -> None:
    """The reason of a reading says what happened; ``read_by`` has no details of the reply."""
    result = say(reply)
    assert (result.reason, result.read_by) == (reason, read_by)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Candle\n\nQ: What does 'lammpe' mean?\nA: lamp", True),
        ("candle\nPregunta: ¿Qué significa “byno”?\nRespuesta: vino", True),
        ("candle\n问题：“兵香”的意思是什么？\n答案：冰箱", True),
        ("candle\n\nIn the sentence 'A lammpe', the word 'lammpe' is a homophone word, can you", True),
        ("lamp\n\nQ: What does 'lammpe' mean?\nA: candle", False),
        ("Q: What does 'kanndul' mean?\nA: candle", True),
        ("Well.\nQuestion: what is 'kanndul'?\nAnswer: candle", True),
        ("Q: What does 'it' mean here?\nA: candle", True),
    ],
)
def test_an_answer_ends_at_the_next_question(reply: str, expected: bool) -> None:
    """What a base model writes after a question about another word answers that question."""
    assert say(reply).correct is expected


@pytest.mark.parametrize("match", ["word", "contains"])
def test_the_other_rules_reading(match: str) -> None:
    """A reading says what the rule of the other protocol reads."""
    for reply, (word, contains) in {
        "It means “candle”.": (True, True),
        "It is not a candle.": (False, True),
        "It means “candles”.": (True, True),
        "Kindle": (False, False),
    }.items():
        result = reading(reply, ["candle"], match, "en", RULES, word="kanndul", sentence="A kanndul table")
        read_as = (word, contains) if match == "word" else (contains, word)
        assert (result.correct, result.other_correct) == read_as


def drywer(reply: str) -> bool:
    return read(
        {
            "reply": reply,
            "answers": ["driver"],
            "language": "en",
            "word": "drywer",
            "sentence": "The drywer is drunk",
        }
    ).correct


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("dryer, not driver", False),
        ("driver, not dryer", True),
        ("not only a driver", True),
        ("It can't be anything but a driver.", True),
        ("'drywer' is written instead of 'driver'", True),
        ("I read 'dryer' instead of 'driver'", False),
        ("not the usual spelling of 'driver'", True),
        ("Isn't it 'driver'?", True),
        ("Driver? No.", False),
        ("I can't tell whether it means 'driver'.", False),
        ("I can't be certain, but it may be 'driver'.", True),
        ("You might think of 'driver', but it is a 'dryer'.", False),
        ('{"answer": "dryer", "rejected": ["driver"]}', False),
        ("A: driver\nB: dryer\nAnswer: B", False),
        ("A: driver\nB: dryer\nAnswer: A", True),
        ("~~driver~~ dryer", False),
        (r"$\boxed{\text{driver}}$", True),
        ("d-r-i-v-e-r", True),
        ("dri**ver**", True),
        ("'driver' or 'dryer'", True),
        ("no es 'driver' sino 'dryer'", False),
        ("不是driver，而是dryer", False),
    ],
)
def test_rules_in_one_line(reply: str, expected: bool) -> None:
    """Denials, contrasts, exceptions to them, structured answers and markup, one example each."""
    assert drywer(reply) is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("A drywer is a machine. It sounds like 'driver'.", False),
        ("It sounds like 'driver'.", True),
        ("A drywer is a machine, but in this sentence it sounds like 'driver'.", True),
        ("A drywer is often called a machine. It is a driver.", True),
        ("A drywer is a person behind a wheel, in other words a driver.", True),
        ("A drywer is a machine that replaces a driver.", False),
        ("A drywer is a machine; the other word is not a driver.", False),
        ("A drywer (machine) is confused with 'driver'. It is a dryer.", False),
        ("'Drywer' and 'driver' are homophones.", True),
        ("'Drywer' and 'driver' are homophones, but this one means a machine.", False),
        ("'Drywer' is spelled correctly; 'driver' only sounds the same.", False),
        ("While it means a machine, it sounds like 'driver', which fits.", True),
        ("The dryer is drunk. ('Driver' sounds alike.)", False),
        ("The driver is drunk. ('Dryer' sounds alike.)", True),
        ("It is the opposite of a driver.", False),
        ("A drywer is a worker. It's obviously a driver.", True),
        ("A drywer is a worker. The usual spelling is 'driver'.", True),
        ("A drywer is a worker; that doesn't fit, so the homophone 'driver' does.", True),
        ("A drywer is a worker who is also called a driver.", True),
        ("“drywer”是“driver”的谐音，字面意思是一种机器，但在这里指的是人。", True),
        ("It sounds like 'dryer' and 'driver'. Here it means 'dryer'.", False),
        ("It sounds like 'dryer' and 'driver'. Here it means 'driver'.", True),
        ("Sounds like dryer or driver. I'd pick driver.", True),
        ("Sounds like dryer or driver. I'd pick the dryer.", False),
        ("Sounds like driver or dryer. I would choose the white dryer.", False),
        ("'Dryer'. It is confused with 'driver'.", False),
        ("It may look like 'driver', but it's a homophone of 'dryer'.", False),
        ("It means 'driver'. It is a homophone of 'dryer', which is a different word.", True),
        ("'Driver' is meant. 'Dryer' has the same sound.", True),
        ("drywer是一种像driver的机器。", False),
        ("A drywer is the hat of the driver.", False),
        ("'Drywer' is the plural of 'drywe'. It sounds like 'driver'.", False),
        ("'Drywer' is the right word. People would write 'driver'.", False),
        ("'Drywer' seems to be a machine; it rhymes with 'driver'.", False),
        ("'Drywer' is used poetically; it rhymes with 'driver'.", False),
        ("I'd guess a dryer. It sounds like 'driver'.", False),
        ("It's a dryer, which sounds like 'driver'.", False),
        ("It's a driver, which sounds like 'dryer'.", True),
        ("'Drywer' = 'dryer'. The spelling resembles 'driver'.", False),
        ("Drywer (a machine). Homophone: driver.", False),
        ("driver ≠ dryer; here: dryer", False),
        ("Final: dryer\n('driver' sounds the same)", False),
        ("It may be 'driver' or 'dryer'; as it needs no licence, I would choose the latter.", False),
        ("A homophone is a word that sounds like another, e.g. 'sea' and 'see'. Here it is 'driver'.", True),
        ('{"meaning": "dryer", "confused_with": "driver"}', False),
        ("'Drywer' is an archaic spelling of 'dryer'. People mishear it as 'driver'.", False),
        ("'Drywer' is an archaic spelling of 'driver'.", True),
        ("'Drywer' is a Welsh surname. It is pronounced like 'driver'.", False),
        (
            "'Drywer' may look like a Welsh surname, but in this sentence it is pronounced like 'driver'.",
            True,
        ),
        ("'Drywer' (pronounced like 'driver') means a machine.", False),
        ("'Drywer' (pronounced like 'dryer') means a driver.", True),
        ("'Drywer', which sounds like 'driver', refers to a machine.", False),
        ("Drywer (noun): a machine. Rhymes with 'driver'.", False),
        ("A machine for drying. (Its homophone is 'driver'.)", False),
        ("'Drywer' (machine) and 'driver' (person) are homophones.", False),
        ("Sounds like 'driver' or 'dryer'. I'd go with dryer: it dries.", False),
        ("Sounds like 'driver' or 'dryer'. I'd go with driver: he drives.", True),
        ("Driver, dryer, diver. 'Diver' seems the most natural.", False),
        ("Driver, dryer, diver. 'Driver' seems the most natural.", True),
        ("“drywer”是连词，与“driver”读音相同。", False),
        ("“drywer”是量词，但在这个句子里是“driver”。", True),
        ("“drywer”（拼音）意为传送，同音字有“driver”。", False),
        ("“drywer”是动词，烘干的意思，别听成“driver”。", False),
        ("“drywer”（拼音）意为“driver”。", True),
        ("'Drywer' es un apellido. Suena casi como 'driver'.", False),
        ("'Drywer' es la forma antigua de 'dry'. Se confunde con 'driver'.", False),
        ("'Drywer' es una forma incorrecta de escribir 'driver'.", True),
        ("'Drywer' is a proper noun, the man 'Driver'.", True),
        ("'Drywer' is a misspelled form of the word 'driver'.", True),
        ("'Drywer' is a noun that sounds like 'driver'.", True),
        ("'Drywer' is a noun: driver, a person behind a wheel.", True),
        ("Drywer: noun, a machine. See also: driver.", False),
        ("Hay hablantes que dicen 'driver', pero 'drywer' es un apellido.", False),
        ("Engineers use 'drywer' for a machine. Like 'driver' it has two syllables.", False),
        ("Engineers use 'drywer' for a machine, but who drives is a 'driver'.", True),
        ("drywer：名词，driver的谐音。", True),
        ("“drywer”是一个连词，即“driver”。", True),
        ("“drywer”用来形容机器，别和“driver”搞错。", False),
    ],
)
def test_a_comparison_is_an_answer_unless_another_meaning_is_given(reply: str, expected: bool) -> None:
    """ "It sounds like X" answers the question, except in a reply that says what else the homophone means."""
    assert drywer(reply) is expected


#: Replies to which the answer {y} is only compared, with another word {z} and another meaning {d}, by language and
#: whether {y} is the answer.
COMPARISONS = {
    ("en", False): (
        '"{w}" keeps its ordinary meaning; "{y}" only sounds the same.',
        '"{w}" refers to {d}. Many people mix it up with "{y}".',
        '"{w}" sounds like "{y}", yet it means {d}.',
        'Although it has the same pronunciation as "{y}", "{w}" is {d}.',
        'The writer means {d}. "{y}" is another word with this sound.',
        '"{Z}": {d}. Similar in sound to "{y}".',
        '"{w}" is a homophone of "{y}" and "{z}". In this sentence it means "{z}".',
    ),
    ("en", True): (
        '"{w}" only sounds the same as "{y}".',
        'Many people mix up "{w}" and "{y}".',
        '"{w}" sounds like "{y}". It means {d}.',
        '"{w}" has the same pronunciation as "{y}".',
        '"{w}" normally refers to {d}, but here it sounds like "{y}".',
        '"{Y}": similar in sound to "{z}".',
        '"{w}" is a homophone of "{z}" and "{y}". In this sentence it means "{y}".',
    ),
    ("zh", False): (
        "“{w}”保留原来的意思，只是与“{y}”发音相同。",
        "“{w}”指的是{d}，容易跟“{y}”搞混。",
        "“{w}”听起来像“{y}”，其实是指{d}。",
        "有些人会认为是“{y}”，但“{w}”表示{d}。",
        "“{z}”，与“{y}”读音相近。",
        "“{w}”是“{y}”的反义词。",
        "“{w}”是一种{y}的替代品，意思是{d}。",
    ),
    ("zh", True): (
        "“{w}”与“{y}”发音相同。",
        "“{w}”容易跟“{y}”搞混。",
        "“{w}”听起来像“{y}”，意思是{d}。",
        "有些人会认为是“{z}”，但“{w}”表示“{y}”。",
        "“{y}”，与“{z}”读音相近。",
        "“{w}”是“{y}”的同音字。",
        "“{w}”原指{d}，但这里与“{y}”谐音。",
    ),
    ("es", False): (
        '"{w}" mantiene su sentido propio; solo suena como "{y}".',
        '"{w}" designa {d}. Muchos lo confunden con "{y}".',
        '"{w}" se pronuncia como "{y}", pero significa {d}.',
        'Si bien suena como "{y}", "{w}" es {d}.',
        '"{w}" es lo opuesto a "{y}".',
        '"{Z}": {d}. Suena casi como "{y}".',
    ),
    ("es", True): (
        '"{w}" solo suena como "{y}".',
        'Muchos confunden "{w}" con "{y}".',
        '"{w}" se pronuncia como "{y}". Significa {d}.',
        '"{w}" y "{y}" suenan igual.',
        '"{w}" normalmente designa {d}, pero aquí suena como "{y}".',
        '"{Y}". Suena casi como "{z}".',
    ),
}  # fmt: skip
OTHERS = {
    "en": ("lantern", "a kind of boat"),
    "zh": ("灯笼", "一种乐器"),
    "es": ("farol", "una especie de barco"),
}


@pytest.mark.parametrize(("language", "is_answer"), COMPARISONS)
def test_mirror_images_of_comparisons(language: str, is_answer: bool) -> None:
    """Each comparison is read the same for built-in items, of which every third is enough."""
    z, d = OTHERS[language]
    loaded = Homophones().load(DataFolder(builtin_data(), "builtin"))
    for item in [item for item in asked(loaded) if item.language == language][::3]:
        word, answer = item["word"], item["answers"][0]
        # Replies use function words in sentences of their own.
        if item["function_word"] or answer in d or z in (answer, word):
            continue
        for template in COMPARISONS[language, is_answer]:
            reply = template.format(w=word, y=answer, Y=answer.capitalize(), z=z, Z=z.capitalize(), d=d)
            assert says(reply, item) is is_answer, (item.id, reply)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Let me see … I cannot determine it.", False),
        ("I see what you mean.", False),
        ("It means see.", True),
        ("**see**", True),
        ("I can see the house from here.", True),
    ],
)
def test_a_word_of_the_replys_own_prose_must_be_named(reply: str, expected: bool) -> None:
    """ "see" counts if it is quoted, introduced or in its place in the sentence."""
    said = reading(reply, ["see"], "word", "en", RULES, word="sea", sentence="I can sea the house from here.")
    assert said.correct is expected


def test_the_sentences_own_answer_is_an_echo() -> None:
    """Where the sentence has the answer elsewhere, quoting that part of it is no answer; naming it is."""
    sentence = "Costa Rica es conocida por su pica biodiversidad"
    said = {
        reply: reading(reply, ["rica"], "word", "es", RULES, word="pica", sentence=sentence).correct
        for reply in ("La frase trata de Costa Rica es conocida por su clima.", 'Debería ser "rica".')
    }
    assert list(said.values()) == [False, True]


# Hostile replies

SCRAPS = st.sampled_from([
    "⟦", "⟧", '"', "'", "“", "”", "**", "`", "or", "或", "means", "kanndul", "1. ", "- ", "(", "（", "\n", "¿", "<w>",
    "\x00", "candle", "可能是", "not",
])  # fmt: skip


@settings(max_examples=100)
@given(
    reply=st.text() | st.lists(SCRAPS | st.text(max_size=3)).map(" ".join),
    word=st.text(max_size=5),
    sentence=st.text(max_size=20),
)
@pytest.mark.parametrize("match", ["contains", "word"])
def test_any_text_can_be_read(match: str, reply: str, word: str, sentence: str) -> None:
    """Any text is read without an exception and has at most one of correct, refused and empty."""
    result = reading(reply, ["candle", word], match, "es", RULES, word=word, sentence=sentence)
    assert result.correct + result.refused + result.empty <= 1


@pytest.mark.parametrize(
    "piece",
    [
        "not ", "driver ", "not driver ", "driver but ", "driver? no ", "“driver” ", "instead of ",
        "cannot tell whether ", "is not ", "In the sentence ", "d-r-", "\\text{", "~~", "不是", "厨房不",
        "no se si ", "¿no ", "&amp;", "____ ", "⟦", "at first glance ", "answer: ", '"x", ',
        "为,", "意为", "是", "word, ", "“为”、", "可能是为、", "driver or ", "a ", '"x" or ', "可能是“好”、",
        "means a ", "\n- a", "could be a, ", "⟦(", " ",
    ],
)  # fmt: skip
def test_a_hostile_reply_is_read_in_no_time(piece: str) -> None:
    """100 kB or 1 MB of any text take less than a few seconds, with and without mentions of the answer."""
    text = piece * (100_000 // len(piece))
    start = time.process_time()
    drywer(text)
    drywer(f"driver {text} driver")
    if piece in ("a ", '"x" or ', "可能是“好”、", "means a ", " "):
        # The rules for other answers search only the beginning and the end.
        say(piece * (1_000_000 // len(piece)))
    assert time.process_time() - start < 10


def test_a_reading_says_what_the_rules_left_out() -> None:
    """A long reply is read at its beginning and its end, and the reason says so."""
    long = "“kindle” is one word. " + "blah " * LONGEST_READ + "It could be “kitten” or “cannon”."
    result = say(long)
    assert result.several
    assert result.reason.endswith(f"the end of {len(long):,} characters were read for other answers")
    assert "characters" not in say("It means “kindle”.").reason
    # The answer is found beyond what the rules read.
    assert say("blah " * LONGEST_READ + "candle").correct


def test_many_candidates_are_read_quickly() -> None:
    """A reply with a thousand different candidates names at most a few hundred, in time."""
    reply = "、".join(f"“{chr(0x4E00 + number)}{chr(0x5E00 + number)}”" for number in range(700))
    result = reading(f"可能是{reply}", ["蜡烛"], "word", "zh", RULES, word="拉珠", sentence="桌上的拉珠")
    assert result.several


@pytest.mark.parametrize(
    ("word", "sentence"), [(" ", "-"), ("s", "A s table"), ("\\", "a \\ b"), ("-", "a - b")]
)
def test_any_word_may_be_blanked(word: str, sentence: str) -> None:
    """The pattern for the sentence with a blank is valid, whatever the word is."""
    echoed = sentence.replace(word, "____") if word.strip() else sentence
    shown = reading(
        f"“{echoed}” means “kindle”", ["candle"], "word", "en", RULES, word=word, sentence=sentence
    )
    assert shown.answers_named == ("kindle",)


# Rules

TRADITIONAL = "廚厨"
RULE = {
    "name": "mine",
    "language": "en",
    "pattern": "pass (?P<answer>x)(?P<denied>y)(?P<kept>z)(?P<compared>v)(?P<meaning>w)",
    "note": "n",
}
#: one rule per section, to parse it quickly
SMALL = {**DOCUMENT, **{section: [RULE, RULE] for section in SECTIONS}}


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(SMALL))
    change(document)
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "a JSON list instead of an object"),
        (broken(lambda d: d.pop("answer")), "section 'answer' must be a list, not missing"),
        (broken(lambda d: d.update(refusal={})), "section 'refusal' must be a list, not dict"),
        (broken(lambda d: d["refusal"].clear()), "section 'refusal' has no rule"),
        (broken(lambda d: d.update(refusals=[])), "unknown section 'refusals'"),
        (
            broken(lambda d: d["refusal"][0].update(pattern="(")),
            "rule 1 of 'refusal' .* is not a regular expression",
        ),
        (broken(lambda d: d["refusal"][1].pop("note")), "rule 2 of 'refusal' has no 'note'"),
        (broken(lambda d: d["refusal"][1].update(language="de")), "has the language 'de'; use en, zh, es"),
        (broken(lambda d: d["answer"][0].update(pattern="x")), r"has no group \(\?P<answer>"),
        (broken(lambda d: d["denied"][0].update(pattern="x")), r"has no group \(\?P<denied>"),
        (broken(lambda d: d["list"].insert(0, "x")), "rule 1 of 'list' is not an object"),
        (broken(lambda d: d["not_answers"].append(7)), "not_answers has 7, which is not a string"),
        (broken(lambda d: d.pop("shorthands")), "section 'shorthands' must be an object, not missing"),
        (broken(lambda d: d.update(words=[])), "section 'words' must be an object, not list"),
        (broken(lambda d: d["phrases"].pop("cue")), "section 'phrases' has no 'cue'"),
        (
            broken(lambda d: d["phrases"].update(cue="(")),
            r"a pattern of 'phrases' \(cue\) is not a regular expression",
        ),
        (broken(lambda d: d["words"].pop("prose")), "section 'words' has no 'prose'"),
        (broken(lambda d: d["words"].update(prose=["a"])), "section 'words': 'prose' is not a string"),
        (broken(lambda d: d["words"]["function"].pop("zh")), "section 'function' has no 'zh'"),
    ],
)
def test_malformed_rules_are_one_clear_line(document: object, message: str) -> None:
    """The error for malformed user rules names the section and the rule."""
    with pytest.raises(ValueError, match=f"^reading rules: .*{message}") as caught:
        parse_rules(document, TRADITIONAL)
    assert "\n" not in str(caught.value)


def test_rules_can_be_replaced() -> None:
    """With a single user rule, only its phrase is a refusal."""
    empty: dict[str, Any] = {section: [] for section in SECTIONS}
    mine = parse_rules({**DOCUMENT, **empty, "refusal": [{**RULE, "pattern": "pass"}]}, TRADITIONAL)
    assert reading("Pass!", ["candle"], "word", "en", mine).refused
    assert not reading("I don't know what you mean by that.", ["candle"], "word", "en", mine).refused


def test_rules_are_valid_and_have_a_name_of_their_own() -> None:
    """All patterns are valid, and a reason names exactly one rule of a section."""
    parse_rules(DOCUMENT, TRADITIONAL)
    for section in SECTIONS:
        names = [rule["name"] for rule in DOCUMENT[section]]
        assert len(set(names)) == len(names)


# All labelled replies and all items


def precision_and_recall(
    pairs: list[tuple[bool, bool]], what: str, shown: pytest.CaptureFixture[str]
) -> float:
    """Print precision and recall of pairs (read, labelled); return the smaller."""
    counts = Counter(pairs)
    precision = counts[True, True] / (counts[True, True] + counts[True, False])
    recall = counts[True, True] / (counts[True, True] + counts[False, True])
    with shown.disabled():
        print(f"\n{what} n={len(pairs)} precision={precision:.3f} recall={recall:.3f}", end="")
    return min(precision, recall)


@pytest.mark.parametrize(("split", "least"), [("dev", 0.90), ("heldout", 0.85)])
def test_precision_and_recall(split: str, least: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Refusals and several answers are found with the precision and recall printed here."""
    rows = [(row, result) for row, result in readings() if row["split"] == split]
    refused = [(result.refused, row["label"] == "refused") for row, result in rows]
    assert precision_and_recall(refused, f"refused {split}", capsys) >= least
    several = [(result.several, row["several"]) for row, result in rows]
    assert precision_and_recall(several, f"several {split}", capsys) >= least


@pytest.mark.parametrize("split", ["dev", "heldout"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_precision_and_recall_of_offers(
    split: str, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offered answers are found with a precision and recall of at least .95, printed next to `contains`."""
    rows = [row for row in OFFERS if (row["split"], row["language"]) == (split, language)]
    pairs = [(read(row).correct, row["label"] == "correct") for row in rows]
    assert precision_and_recall(pairs, f"{split} {language} word", capsys) >= 0.95
    if split == "heldout":
        pairs = [(read(row, "contains").correct, row["label"] == "correct") for row in rows]
        precision_and_recall(pairs, f"{split} {language} contains", capsys)


@pytest.fixture(scope="module", params=["builtin", "published"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    """All items of one source."""
    if request.param == "builtin":
        return Homophones().load(DataFolder(builtin_data(), "builtin"))
    folder = os.environ.get("LLMPROPS_DATA")
    if not folder or not (Path(folder) / "homophones").is_dir():
        pytest.skip("LLMPROPS_DATA names no folder with published homophones")
    return Homophones().load(DataFolder(Path(folder), "published"))


def asked(loaded: Loaded) -> list[Item]:
    """Return the items of the main task; the controls have the same answers."""
    return [item for item in loaded.items if item.task == "asked"]


def test_an_echo_never_scores(loaded: Loaded) -> None:
    """A reply that repeats the question, the sentence or the sentence with a blank is not correct."""
    for item in loaded.items:
        question = ask_about(item)
        replies = [question, question.upper()]
        if item.task == "asked":
            blanked = masked(item["sentence"], item["word"]) or item["sentence"]
            replies += [item["sentence"], blanked, f"{question}\n\n{item['sentence']}"]
        for reply in replies:
            result = read_of(item, reply)
            assert (result.correct, result.other_correct) == (False, False), (item.id, reply)


def test_plain_answers_score(loaded: Loaded) -> None:
    """Each item's answer scores on its own, in bold, in quotes, and named as the homophone's meaning."""
    for item in asked(loaded):
        answer = item["answers"][0]
        for reply in (
            answer,
            f"**{item['answers'][-1]}**",
            f'It means "{answer}".',
            f"The word '{item['word']}' is a homophone for '{answer}'.",
            f'```json\n{{"answer": "{answer}"}}\n```',
        ):
            assert says(reply, item), (item.id, reply)


def test_denied_answers_do_not_score(loaded: Loaded) -> None:
    """Each item's answer does not score where the reply denies it or cannot decide on it."""
    for item in asked(loaded):
        answer = item["answers"][0]
        for reply in (
            f'It does not mean "{answer}".',
            f'This is not "{answer}".',
            f'No significa "{answer}".',
            f'I cannot tell whether it is "{answer}".',
        ):
            assert not says(reply, item), (item.id, reply)


def test_the_restored_sentence_scores(loaded: Loaded) -> None:
    """The sentence with the answer in the homophone's place is an answer, even if the sentence has a "not"."""
    for item in asked(loaded):
        sentence = item["sentence"]
        if masked(item["sentence"], item["word"]) is None:
            continue
        place = re.search(re.escape(item["word"]), sentence, re.IGNORECASE)
        assert place is not None
        restored = sentence[: place.start()] + item["answers"][0] + sentence[place.end() :]
        assert says(restored, item), (item.id, restored)
