"""The reader of stated choices, lists, segmentations and fences: what it reads, and what it leaves unread."""

from __future__ import annotations

import re

from pytest_llmprops.core.reading import fenced, listed, segmented, stated

LABELS = (("A",), ("B",))
YES_NO = (("yes", "equivalent"), ("no", "not equivalent"))
FEELINGS = (("A", "正面", "positive"), ("B", "负面", "negative"))
VERBS = (("weet",), ("ken",))


STATED = [
    "A", " a\n", "**A**", "Ａ", "A<|im_end|>", "&quot;A&quot;", "\\boxed{A}", "<answer>A</answer>", "AAAAA",
    "The answer is A.", "Not B. A.", "B? No, A.", "A, not B", "It can't be B, so A", "Nothing but A.",
    "~~B~~ A", "B ❌ A ✅", "- [ ] B\n- [x] A", "B... wait, actually A", "First I thought B, but the answer is A",
    'Sure!\n{"label": "A", "reason": "unlike B"}', "A\n\nB is wrong, as no letter is a capital.",
    'A\n\nInput: "knee" Label: B', "Unlike the B examples, this is A.", "I'm unsure about B. Final answer: A",
    "Between A and B, A.", "答案是A", "不选B，选A。", "La respuesta correcta es A.", "B — no wait — A",
    "A. B has another meaning.", "I'm not sure, but A", "B\n\nEdit: A", "A, though I'm not sure",
]  # fmt: skip


def swapped(reply: str) -> str:
    """Return a reply with A for B, and B for A."""
    letters = str.maketrans("ABＡＢ", "BAＢＡ")
    exchanged = re.sub(r"(?<![A-Za-z])[AB]+(?![A-Za-z])", lambda match: match[0].translate(letters), reply)
    return exchanged.replace("Ａ", "Ｂ").replace("a\n", "b\n")


def test_a_stated_option_is_read() -> None:
    """Marks, cue words, rejections of the other option, corrections and what a base model adds are understood."""
    for reply in STATED:
        assert stated(reply, LABELS) == 0
        assert stated(swapped(reply), LABELS) == 1


UNREAD = [
    "", "Anything but A.", "Not A", "A or B", "A\nB", "A B A B A", "A/B?", "Neither A nor B",
    "A is for rhyming pairs. These don't rhyme.", "It depends: A if they rhyme, B if not", "A vowel", "It's a",
    "N/A", "A: the words rhyme; B: they don't", "I don't know if it's A", "A和B都可以", "<think>",
    "A and B are wrong.", "If they rhyme, A; otherwise, B",
]  # fmt: skip


def test_a_reply_that_only_rejects_or_names_both_is_unread() -> None:
    """No reading is better than the opposite of what was meant."""
    for reply in UNREAD:
        assert stated(reply, LABELS) is stated(swapped(reply), LABELS) is None


def test_options_have_forms() -> None:
    """Forms are words in any case and spelling, or single letters, whose case counts if two options differ in it."""
    for reply, options, expected in (
        ('{"answer": "no", "explanation": "Yes is hasty."}', YES_NO, 1),
        ('{"answer": "yes"} or {"answer": "no"}', YES_NO, None),
        ('{"answer": "yes"}\n\nWait, that is wrong.\n\n{"answer": "no"}', YES_NO, 1),
        ("No new fact is added, so the answer is yes.", YES_NO, 0),
        ("Yes, they share the topic, but no, they are not equivalent.", YES_NO, None),
        ("They are not equivalent.", YES_NO, 1),
        ("虽然有负面词语，但整体是正面。", FEELINGS, 0),
        ("A. 正面\nB. 负面", FEELINGS, None),
        ("A: positive, B: negative", FEELINGS, None),
        ("ken, want weet is vir feite", VERBS, 1),
        ("weet, nie ken nie", VERBS, 0),
        ("kén", VERBS, 1),
        ("weet/ken", VERBS, None),
        ("stations", (("station",), ("nation",)), None),
        ("⊣", (("⊣",), ("|",)), 0),
        ("Not b but d", (("b",), ("d",), ("p",)), 1),
    ):
        assert stated(reply, options) == expected


def test_lists() -> None:
    """A list is numbered, bulleted, a table or JSON; remarks and a second list are left out."""
    for reply, expected in (
        ("1. city: Huy\n2. date: 1964", ["city: Huy", "date: 1964"]),
        ("Sure!\n- **Huy** (city)\n- Ghent (city)", ["Huy (city)", "Ghent (city)"]),
        ("1. a: Huy 2. b: Ghent 3. c: 1964", ["a: Huy", "b: Ghent", "c: 1964"]),
        ('[{"type": "city", "name": "Huy"}, {"city": "Ghent"}]', ["city: Huy", "city: Ghent"]),
        ("| # | type | entity |\n|---|---|---|\n| 1 | city | Huy |", ["city: Huy"]),
        ("“1. Huy\n2. Ghent”", ["Huy", "Ghent”"]),
        ("1. Tiger\n\nWait, that is wrong. Corrected list:\n1. Huy", ["Huy"]),
        ("- WAIT\n- PENDING", ["WAIT", "PENDING"]),
        ("**Entities:**\n\n1. Huy\n   - a city\n2. Ghent", ["Huy", "Ghent"]),
        ("<city>Huy</city>, <city>Ghent</city>", ["city: Huy", "city: Ghent"]),
        (
            '[{"kind": "song", "name": "Sorry"}, {"kind": "city", "name": "Huy"}]',
            ["song: Sorry", "city: Huy"],
        ),
        ("1. Huy\n\nNot entities:\n- went\n\nExplanation:\n1. It is a city.", ["Huy"]),
        ("1. Huy\n\nSentence: A dog.\n1. dog", ["Huy"]),
        ("Entities: Huy, Ghent and Bruges", ["Huy", "Ghent", "Bruges"]),
        ("The entities are: Huy, Ghent.", ["Huy", "Ghent"]),
        ("The entities are: Huy, the U.S.", ["Huy", "the U.S."]),
        ("Person: Ines\nBook: Orchard", ["Person: Ines", "Book: Orchard"]),
        ("There are no named entities.", []),
        ("1. None", []),
        ("[]", []),
        ("", None),
        ("The sentence talks about Huy.", None),
    ):
        assert listed(reply) == expected


WORDS = ["学生", "留心", "机动", "的", "书"]
SENTENCE = "".join(WORDS)
SPACED = " ".join(WORDS)
#: the same sentence with the canary word cut out
OTHER_CUT = "学生 留 心机 动 的 书"


SEPARATORS = [
    " ", "  ", "\u3000", "\t", "/", " / ", "//", "|", " | ", "｜", "\\", "、", "，", ", ", "; ", "·", "・", "-", "_",
    "→", "+", "\n", "\n- ", "\n* ",
]  # fmt: skip
#: marks around the segmentation, text before and after it, and the sentence itself
AROUND = [
    "“{}”", "`{}`", "**{}**", "```\n{}\n```", "```text\n{}```", "> {}", "  {}\n", "\\boxed{{{}}}",
    "<answer>{}</answer>", "结果：{}",
    "结果如下：\n\n{}", "## 分词\n{}", "答案是 {}", "Here you are: {}", "Of course! {}", "好的，{}",
    "{}。", "{}.", "{} .", "{}\n\n说明：按词义切分。", "{}（共五个词）", "{} 。希望有帮助", "{}</s>",
    "{0}\n{0}", SENTENCE + "\n{}", "原句：" + SENTENCE + " 切分：{}", SENTENCE + "→{}", "不要改动任何字。\n{}",
    '{{"words": "{}"}}', "{}\n\n请切分下一句：\n他来了",
]  # fmt: skip
#: quotes, numbers, parts of speech and translations of the words
TAGGED = [
    '["学生", "留心", "机动", "的", "书"]',
    '[{"word": "学生", "pos": "n"}, {"word": "留心", "pos": "v"}, {"word": "机动"},{"word": "的"},{"word": "书"}]',
    "「学生」「留心」「机动」「的」「书」",
    "[学生][留心][机动][的][书]",
    "1. 学生\n2. 留心\n3. 机动\n4. 的\n5. 书",
    "1）学生 2）留心 3）机动 4）的 5）书",
    "① 学生 ② 留心 ③ 机动 ④ 的 ⑤ 书",
    "学生/n 留心/v 机动/a 的/u 书/n",
    "学生（名词） 留心（动词） 机动（形容词） 的（助词） 书（名词）",
    "学生 名词\n留心 动词\n机动 形容词\n的 助词\n书 名词",
    "| 词 | 词性 |\n|---|---|\n| 学生 | 名词 |\n| 留心 | 动词 |\n| 机动 | 形容词 |\n| 的 | 助词 |\n| 书 | 名词 |",
    "[('学生', '名词'), ('留心', '动词'), ('机动', '形容词'), ('的', '助词'), ('书', '名词')]",
    "学生 (student) 留心 (mind) 机动 (mobile) 的 书 (book)",
    "学生 - xuésheng\n留心 - liúxīn\n机动 - jīdòng\n的 - de\n书 - shū",
]
#: one segmentation is called right, or the others wrong
CALLED_RIGHT = [
    f"初步切分：{OTHER_CUT}\n最终切分：{SPACED}",
    f"错误：{OTHER_CUT}；正确：{SPACED}",
    f"{OTHER_CUT}\n这样不对，应为：\n{SPACED}",
    f"{OTHER_CUT}（错误）\n{SPACED}",
    f"✗ {OTHER_CUT}\n✓ {SPACED}",
    f"Draft: {OTHER_CUT}\nFinal: {SPACED}",
]


def test_segmentations_are_read() -> None:
    """The words are read with any mark between them, in any form, and if the reply has remarks or other versions."""
    separated = [separator.join(WORDS) for separator in SEPARATORS]
    for reply in (*separated, *(form.format(SPACED) for form in AROUND), *TAGGED, *CALLED_RIGHT):
        assert segmented(reply, SENTENCE) == WORDS, reply


def test_changed_uncut_and_several_segmentations_are_unread() -> None:
    """The characters must be the sentence's, with a boundary, and one version of it."""
    for reply in (
        "", SENTENCE, f"切分：{SENTENCE}\n{SENTENCE}", f"{SPACED}\n{OTHER_CUT}", f"{SPACED} 或者 {OTHER_CUT}",
        "学生 留心 机动 的", "学生 留心 機动 的 书", "学生 留心 机动 书", "好 学生 留心 机动 的 书",
        "好学生 留心 机动 的 书",
        "学生 留心 机动 的 书 吧", "好\n学生\n留心\n机动\n的\n书", '["好", "学生", "留心", "机动", "的", "书"]',
        "学生/n 留心/v 机动/a 的/u 书/n 吧/y", "学生 留心 ， 机动 的 书", "学生留心，机动的书", "学生“留心”机动的书",
        f"不应切分为：{OTHER_CUT}", "学生：名词\n留心：动词", "The student minds the mobile book.",
        f"学生留心 {'means that the student minds something ' * 3} 机动的书",
    ):  # fmt: skip
        assert segmented(reply, SENTENCE) is None


def test_the_final_full_stop() -> None:
    """The full stop may be missing or a dot; it is a word of its own unless it is written next to the last word."""
    for reply, words in (
        ("他 来 了 。", "他 来 了 。"), ("他 来 了。", "他 来 了。"), ("他 来 了", "他 来 了 。"),
        ("他 来 了.", "他 来 了。"), ("他 来 了 .", "他 来 了 。"), ("他/来/了｡", "他 来 了。"),
        ("他来了 。", "他来了 。"),
    ):  # fmt: skip
        assert segmented(reply, "他来了。") == words.split()


def test_marks_of_the_sentence_are_words() -> None:
    """Quotes and slashes that belong to the sentence do not separate its words."""
    assert segmented("“ 好 ” 他 说 “ 行 ”", "“好”他说“行”") == list("“好”他说“行”")
    assert segmented("一 1/2 的", "一1/2的") == ["一", "1/2", "的"]


def test_fences() -> None:
    """The last fence with a text counts, without the name of a language."""
    for reply in ("```ken```", "```text\nken\n```\nNote", "```weet``` at first, but ```ken```", "```ken"):
        assert fenced(reply) == "ken"
    assert fenced("``````") is fenced("ken") is None
