"""Reading replies: whether a reply contains the answer, refuses, or offers several answers."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.homophones.reading import (
    LONGEST_READ,
    Reading,
    contains_answer,
    reading,
)
from pytest_llmprops.benchmarks.homophones.reading_rules import SECTIONS, parse_rules

FOLDER = Path(__file__).parents[3] / "data" / "homophones"
DOCUMENT = json.loads((FOLDER / "reading_rules.json").read_text(encoding="utf-8"))
TRADITIONAL = (FOLDER / "traditional.txt").read_text(encoding="utf-8")
RULES = parse_rules(DOCUMENT, TRADITIONAL)
LABELLED = [
    json.loads(line)
    for line in (FOLDER / "labelled_replies.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]


def read(row: dict[str, Any]) -> Reading:
    return reading(
        row["reply"],
        row["answers"],
        "word",
        row["language"],
        RULES,
        word=row["word"],
        sentence=row["sentence"],
    )


def say(reply: str, answer: str = "candle", *, word: str = "kanndul", language: str = "en") -> Reading:
    return reading(reply, [answer], "word", language, RULES, word=word, sentence=f"A {word} table")


# The labelled replies


def test_labelled_replies_are_many_and_balanced() -> None:
    """There are at least 220 replies in all three languages, enough per label, with held-out ones marked."""
    labels = Counter(row["label"] for row in LABELLED)
    assert len(LABELLED) >= 220
    assert labels["refused"] >= 60
    assert labels["wrong"] >= 60
    assert labels["correct"] >= 40
    assert sum(row["several"] for row in LABELLED) >= 25
    assert {"en", "zh", "es"} == {row["language"] for row in LABELLED}
    assert {"dev", "heldout"} == {row["split"] for row in LABELLED}
    assert len({row["id"] for row in LABELLED}) == len(LABELLED)
    assert len({(row["word"], row["reply"]) for row in LABELLED}) == len(LABELLED)


@pytest.mark.simulation
@pytest.mark.parametrize(("split", "least"), [("dev", 0.90), ("heldout", 0.85)])
@pytest.mark.parametrize(
    ("what", "said", "meant"),
    [
        ("refused", lambda result: result.refused, lambda row: row["label"] == "refused"),
        ("several", lambda result: result.several, lambda row: row["several"]),
    ],
)
def test_precision_and_recall(
    split: str,
    least: float,
    what: str,
    said: Callable[[Reading], bool],
    meant: Callable[[dict[str, Any]], bool],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refusals and several answers are found with the precision and recall printed here."""
    pairs = [(said(read(row)), meant(row)) for row in LABELLED if row["split"] == split]
    hits = sum(a and b for a, b in pairs)
    precision = hits / sum(a for a, _ in pairs)
    recall = hits / sum(b for _, b in pairs)
    with capsys.disabled():
        print(f"\n{what:8s} {split:8s} n={len(pairs)} precision={precision:.3f} recall={recall:.3f}")
    assert precision >= least
    assert recall >= least


@pytest.mark.parametrize("label", ["correct", "empty"])
def test_correct_and_empty_replies_are_never_mistaken(label: str) -> None:
    """The reader always agrees with the labels on correct and empty replies, which need no judgement."""
    for row in LABELLED:
        result = read(row)
        assert (row["label"] == label) == getattr(result, label), row


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


def test_any_accepted_answer_is_enough() -> None:
    """The second of two accepted answers is as good as the first."""
    assert contains_answer("a fridge", ["refrigerator", "fridge"], "word", "zh", RULES.words)


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
            "wrong",
        ),
        ("", "empty"),
        ("**\n", "empty"),
    ],
)
def test_status(reply: str, status: str) -> None:
    """A correct answer has priority; a named answer or an echoed question is not a refusal."""
    result = say(reply)
    said = [name for name in ("correct", "refused", "empty") if getattr(result, name)] or ["wrong"]
    assert [status] == said


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


def test_a_denied_candidate_is_not_named() -> None:
    """ "It is not X" names no answer."""
    assert say("It is not “kindle”.").answers_named == ()


def test_reason_names_the_rule() -> None:
    """A refusal's reason names the rule that matched."""
    assert say("I can't determine the meaning.").reason == "refuses: cannot tell"


SCRAPS = st.sampled_from(
    [
        "⟦",
        "⟧",
        '"',
        "'",
        "“",
        "”",
        "**",
        "`",
        "or",
        "或",
        "means",
        "kanndul",
        "1. ",
        "- ",
        "(",
        "（",
        "\n",
        "¿",
        "<w>",
        "\x00",
        "candle",
        "可能是",
        "not",
    ]
)


@settings(max_examples=300)
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


@pytest.mark.simulation
@pytest.mark.parametrize(
    "piece", ["a ", '"x" or ', "可能是“好”、", "means a ", "\n- a", "could be a, ", "⟦(", " "]
)
def test_huge_reply_is_read_quickly(piece: str) -> None:
    """A megabyte of any text takes at most a second or two, since the rules search only the beginning."""
    start = time.process_time()
    say(piece * (1_000_000 // len(piece)))
    assert time.process_time() - start < 5


def test_a_reading_says_what_the_rules_left_out() -> None:
    """A long reply is read at its beginning and its end, and the reason says so."""
    long = "“kindle” is one word. " + "blah " * LONGEST_READ + "It could be “kitten” or “cannon”."
    result = say(long)
    assert result.several
    assert result.reason.endswith(f"the end of {len(long):,} characters were read for other answers")
    assert "characters" not in say("It means “kindle”.").reason


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


def test_the_answer_is_found_beyond_what_the_rules_read() -> None:
    """A long-winded reply that ends with the answer is correct."""
    assert say("blah " * LONGEST_READ + "candle").correct


# Rules


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(DOCUMENT)
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
    rule = {"name": "mine", "language": "en", "pattern": "pass", "note": "as in a quiz"}
    mine = parse_rules({**DOCUMENT, **{section: [] for section in SECTIONS}, "refusal": [rule]}, TRADITIONAL)
    assert reading("Pass!", ["candle"], "word", "en", mine).refused
    assert not reading("I don't know what you mean by that.", ["candle"], "word", "en", mine).refused


def test_rule_names_are_unique() -> None:
    """Rule names are unique within a section, so a reason names exactly one rule."""
    for section in SECTIONS:
        names = [rule["name"] for rule in DOCUMENT[section]]
        assert len(set(names)) == len(names)
