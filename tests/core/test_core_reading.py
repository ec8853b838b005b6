"""The reader of stated choices, lists, segmentations and fences: what it reads, what it leaves unread, and its time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from pytest_llmprops.core.reading import fenced, listed, segmented, stated

LABELS = (("A",), ("B",))
YES_NO = (("yes", "equivalent"), ("no", "not equivalent"))
FEELINGS = (("A", "正面", "positive"), ("B", "负面", "negative"))
VERBS = (("weet",), ("ken",))


@pytest.mark.parametrize(
    "reply",
    [
        "A", " a\n", "**A**", "Ａ", "A<|im_end|>", "&quot;A&quot;", "\\boxed{A}", "<answer>A</answer>", "AAAAA",
        "The answer is A.", "Not B. A.", "B? No, A.", "A, not B", "It can't be B, so A", "Nothing but A.",
        "~~B~~ A", "B ❌ A ✅", "- [ ] B\n- [x] A", "B... wait, actually A", "First I thought B, but the answer is A",
        'Sure!\n{"label": "A", "reason": "unlike B"}', "A\n\nB is wrong, as no letter is a capital.",
        'A\n\nInput: "knee" Label: B', "Unlike the B examples, this is A.", "I'm unsure about B. Final answer: A",
        "Between A and B, A.", "答案是A", "不选B，选A。", "La respuesta correcta es A.",
    ],
)  # fmt: skip
def test_a_stated_option_is_read(reply: str) -> None:
    """Marks, cue words, rejections of the other option, corrections and what a base model adds are understood."""
    assert stated(reply, LABELS) == 0
    swapped = re.sub(r"(?<![A-Za-z])[AB]+(?![A-Za-z])", lambda match: "AB"[match[0][0] == "A"], reply)
    assert stated(swapped.replace("Ａ", "Ｂ").replace("a\n", "b\n"), LABELS) == 1


@pytest.mark.parametrize(
    "reply",
    [
        "", "Anything but A.", "Not A", "A or B", "A\nB", "A B A B A", "A/B?", "Neither A nor B",
        "A is for rhyming pairs. These don't rhyme.", "It depends: A if they rhyme, B if not", "A vowel", "It's a",
        "N/A", "A: the words rhyme; B: they don't", "I don't know if it's A", "A和B都可以", "<think>",
    ],
)  # fmt: skip
def test_a_reply_that_only_rejects_or_names_both_is_unread(reply: str) -> None:
    """No reading is better than the opposite of what was meant."""
    assert stated(reply, LABELS) is None


@pytest.mark.parametrize(
    ("reply", "options", "expected"),
    [
        ('{"answer": "no", "explanation": "Yes is hasty."}', YES_NO, 1),
        ('{"answer": "yes"} or {"answer": "no"}', YES_NO, None),
        ('{"answer": "yes"}\n\nWait, that is wrong.\n\n{"answer": "no"}', YES_NO, 1),
        ("No new fact is added, so the answer is yes.", YES_NO, 0),
        ("Yes, they share the topic, but no, they are not equivalent.", YES_NO, None),
        ("They are not equivalent.", YES_NO, 1),
        ("虽然有负面词语，但整体是正面。", FEELINGS, 0),
        ("A. 正面\nB. 负面", FEELINGS, None),
        ("ken, want weet is vir feite", VERBS, 1),
        ("weet, nie ken nie", VERBS, 0),
        ("kén", VERBS, 1),
        ("weet/ken", VERBS, None),
        ("stations", (("station",), ("nation",)), None),
        ("⊣", (("⊣",), ("|",)), 0),
        ("Not b but d", (("b",), ("d",), ("p",)), 1),
    ],
)
def test_options_have_forms(reply: str, options: tuple[tuple[str, ...], ...], expected: int | None) -> None:
    """Forms are words in any case and spelling, or single letters, whose case counts if two options differ in it."""
    assert stated(reply, options) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("1. city: Huy\n2. date: 1964", ["city: Huy", "date: 1964"]),
        ("Sure!\n- **Huy** (city)\n- Ghent (city)", ["Huy (city)", "Ghent (city)"]),
        ("1. a: Huy 2. b: Ghent 3. c: 1964", ["a: Huy", "b: Ghent", "c: 1964"]),
        ('[{"type": "city", "name": "Huy"}, {"city": "Ghent"}]', ["city: Huy", "city: Ghent"]),
        ("| # | type | entity |\n|---|---|---|\n| 1 | city | Huy |", ["city: Huy"]),
        ("1. Tiger\n\nWait, that is wrong. Corrected list:\n1. Huy", ["Huy"]),
        ("1. Huy\n\nNot entities:\n- went\n\nExplanation:\n1. It is a city.", ["Huy"]),
        ("1. Huy\n\nSentence: A dog.\n1. dog", ["Huy"]),
        ("Entities: Huy, Ghent and Bruges", ["Huy", "Ghent", "Bruges"]),
        ("Person: Ines\nBook: Orchard", ["Person: Ines", "Book: Orchard"]),
        ("There are no named entities.", []),
        ("1. None", []),
        ("[]", []),
        ("", None),
        ("The sentence talks about Huy.", None),
    ],
)
def test_lists(reply: str, expected: list[str] | None) -> None:
    """A list is numbered, bulleted, a table or JSON; remarks and a second list are left out."""
    assert listed(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("他 在 研究 生命。", "他 在 研究 生命 。"),
        ("好的：\n他/r 在/p 研究/v 生命/n 。/w", "他 在 研究 生命 。"),
        ('{"words": ["他", "在", "研究", "生命", "。"]}', "他 在 研究 生命 。"),
        ("1. 他\n2. 在\n3. 研究\n4. 生命", "他 在 研究 生命 。"),
        ("错误：他在 研究 生命。\n正确：他 在 研究 生命 。", "他 在 研究 生命 。"),
        ("他 在 研究 生命 。\n\n句子：我 在 家 。", "他 在 研究 生命 。"),
        ("他在研究生命。", None),
        ("他 很 在 研究 生命 。", None),
        ("他 在 研究 生命 很 。", None),
        ("他 在 研究 生命 。\n他在 研究 生命 。", None),
        ("他，在 研究 生命。", None),
    ],
)
def test_segmentations(reply: str, expected: str | None) -> None:
    """Words are separated by anything that is not part of the sentence; a changed sentence is not read."""
    words = segmented(reply, "他在研究生命。")
    joined = None if words is None else " ".join(words)
    assert joined in (expected, expected and expected.replace(" 。", "。"))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("```ken```", "ken"),
        ("```text\nken\n```\nNote", "ken"),
        ("```weet``` at first, but ```ken```", "ken"),
        ("```ken", "ken"),
        ("``````", None),
        ("ken", None),
    ],
)
def test_fences(reply: str, expected: str | None) -> None:
    """The last fence with a text counts, without the name of a language."""
    assert fenced(reply) == expected


READERS: dict[str, Callable[[str], object]] = {
    "letters": lambda reply: stated(reply, LABELS),
    "words": lambda reply: stated(reply, VERBS),
    "list": listed,
    "segmentation": lambda reply: segmented(reply, "他在研究生命的起源。"),
    "fence": fenced,
}
PIECES = (
    "A ", "not A, ", "A or ", "(A) ", "answer is ", "ken ", "~~ken ", "~~", "<s>", "<s", "&amp;", "[", '{"a": ', '"',
    "not ",
    "B? ", "wait, ", "so ", "A\n", "(", "if ", "不是A", "Input: A\n", "\n", " ", "\t", "|A|\n", "because A ", "1. A\n2",
    "- a: b\n", "<li>", "他 ", "他/", "[他]", "x, ", "`", "```", "```\nA\n", "\\", "1. a 2. b ", "\u0301", "*", "a: ",
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_long_replies_take_milliseconds(name: str) -> None:
    """The pieces that the patterns look for, repeated to 10,000 and 100,000 characters, take linear time."""
    read = READERS[name]
    for length, limit in ((10_000, 0.1), (100_000, 0.5)):
        for piece in PIECES:
            reply = (piece * (length // len(piece) + 1))[:length]
            start = time.process_time()
            read(reply)
            assert time.process_time() - start < limit, (piece, length)
