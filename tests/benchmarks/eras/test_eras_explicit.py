"""The paper's rule for a site, chat models' segmentations, and accuracies over paradigms."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pytest_llmprops.benchmarks.eras.explicit import (
    PROMPT,
    ParadigmFacts,
    accuracy_rows,
    judge_words,
    paradigm_scores,
    read_segmentation,
)
from pytest_llmprops.benchmarks.eras.settings import EXPLICIT_TASK
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.models.segmenters.maxmatch import longest_match, read_words

PLACE = ("explicit", "zh", "builtin")
TEXT = "学生留心机动的书"
SITE = 2


@pytest.mark.parametrize(
    ("segmented", "left", "right"),
    [
        # Figure 3: 留心机 is a site of both branchings.
        ("学生 留心 机动 的 书", "right none", "wrong token"),
        ("学生 留 心机 动 的 书", "wrong token", "right none"),
        ("学生 留 心机动 的 书", "wrong swallowed", "right none"),
        ("学生留心 机动 的 书", "right none", "wrong swallowed"),
        ("学生 留 心 机动 的 书", "right none", "right none"),
        ("学生 留心机 动 的 书", "right none", "right none"),
        ("学生留心机动的书", "right none", "right none"),
    ],
)
def test_rule(segmented: str, left: str, right: str) -> None:
    """A pair is wrong if a boundary is on the canary's near side and none is inside it; otherwise it is right."""
    for branching, expected in (("left", left), ("right", right)):
        result = judge_words(segmented.split(), TEXT, SITE, branching)  # type: ignore[arg-type]
        assert f"{'right' if result.right else 'wrong'} {result.canary}" == expected


def test_rule_follows_the_papers_sentence() -> None:
    """For every segmentation of five characters, the judgement follows the paper's sentence literally."""
    text = "甲乙丙丁戊"
    for marks in product((False, True), repeat=4):
        words = re.sub(r"(.)", r"\1 ", text).split()
        for place in reversed(range(4)):
            if not marks[place]:
                words[place : place + 2] = ["".join(words[place : place + 2])]
        for start in range(3):
            first, second = marks[start], marks[start + 1]
            left = judge_words(words, text, start, "left")
            right = judge_words(words, text, start, "right")
            assert left.right is not (first and not second)
            assert right.right is not (second and not first)
            assert (left.canary == "token") == (text[start + 1 : start + 3] in words)
            assert (right.canary == "token") == (text[start : start + 2] in words)
            for result in (left, right):
                assert result.right == (result.canary == "none")


def test_changed_characters_are_an_error() -> None:
    """A segmentation of another text is an error, not a wrong answer."""
    with pytest.raises(BackendError, match="dropped '书'"):
        judge_words(["学生", "留心", "机动", "的"], TEXT, SITE, "left")


@pytest.mark.parametrize(
    "reply",
    [
        "学生 留心 机动 的 书",
        "  学生  留心\u3000机动 的 书\n",
        "学生/留心/机动/的/书",
        "学生 / 留心 / 机动 / 的 / 书/",
        "```\n学生 留心 机动 的 书\n```",
        "```text\n学生 留心 机动 的 书```",
        "“学生 留心 机动 的 书”",
        "`学生 留心 机动 的 书`",
    ],
)
def test_readable_chat_replies(reply: str) -> None:
    """Spaces of any width or slashes split the words; a code fence or quotes around them are removed."""
    result = read_segmentation(reply, TEXT)
    assert result.words == ("学生", "留心", "机动", "的", "书"), result.problem


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("", "empty"),
        ("``` ```", "empty"),
        ("学生留心机动的书", "without a space"),
        ("“学生留心机动的书”", "without a space"),
        ("学生 留心 机动 的", "not the sentence"),
        ("学生 留心 机动 的 书。", "not the sentence"),
        ("分词：学生 留心 机动 的 书", "not the sentence"),
        ("学生 留心 機動 的 书", "not the sentence"),
        ("学生/n 留心/v 机动/a 的/u 书/n", "not the sentence"),
        ("学生|留心|机动|的|书", "not the sentence"),
        ("学生 留心 机动 的 书\n希望有帮助", "more than one line"),
        ("学生\n留心\n机动\n的\n书", "more than one line"),
        ("“学生 留心 机动 的 书", "not the sentence"),
    ],
)
def test_unreadable_chat_replies(reply: str, said: str) -> None:
    """Other replies are unreadable, and so is an unsegmented sentence, which the rule would call right."""
    result = read_segmentation(reply, TEXT)
    assert not result.words
    assert said in result.problem


def test_chat_reply_keeps_separators_of_the_sentence() -> None:
    """Quotes, slashes and spaces that belong to the sentence are kept; its spaces are words."""
    assert read_segmentation("“ 好 ” 他 说 “ 行 ”", "“好”他说“行”").words == tuple("“好”他说“行”")
    assert read_segmentation("一 1/2 的", "一1/2的").words == ("一", "1/2", "的")
    assert read_segmentation("看 GPT 4 吧", "看GPT 4吧").words == ("看", "GPT", " ", "4", "吧")
    assert not read_segmentation("看GPT 4吧", "看GPT 4吧").words
    assert read_segmentation("好", "好").words == ("好",)
    assert TEXT in PROMPT.format(text=TEXT)


def rows_by_name(rows: list[Metric]) -> dict[tuple[str, str], Metric]:
    return {(row.name, row.group): row for row in rows}


FACTS = {
    "01": ParadigmFacts("left", "+/-"),
    "02": ParadigmFacts("right", "-/+"),
    "03": ParadigmFacts("left", "-/0"),
    "04": ParadigmFacts("left", "-/0"),
}
#: paradigm 01: test 1/2, control 1; 02: 0 and 1/4, 03: 1 and 1, 04: 0 and 1
OUTCOMES = [
    *[("01", True, True), ("01", False, True)],
    *[("02", False, False)] * 3,
    ("02", False, True),
    *[("03", True, True)] * 8,
    ("04", False, True),
]


def test_paradigms_by_hand() -> None:
    """Shares of each paradigm's pairs: test, control and both right."""
    result = {s.paradigm: (s.pairs, s.test, s.control, s.both) for s in paradigm_scores(reversed(OUTCOMES))}
    assert list(result) == ["01", "02", "03", "04"]
    assert result == {"01": (2, 0.5, 1, 0.5), "02": (4, 0, 0.25, 0), "03": (8, 1, 1, 1), "04": (1, 0, 1, 0)}
    assert paradigm_scores([("01", True, False)])[0].both == 0


def test_means_are_over_paradigms() -> None:
    """Overall and group figures are means over paradigms, whatever their sizes; difference is control -
    test.
    """
    rows = rows_by_name(accuracy_rows(PLACE, paradigm_scores(OUTCOMES), FACTS))
    assert {group for _, group in rows} == {"overall", "left", "right", "+/-", "-/+", "-/0"}
    assert rows["test_accuracy", "overall"].value == pytest.approx((0.5 + 0 + 1 + 0) / 4)
    assert rows["control_accuracy", "overall"].value == pytest.approx(3.25 / 4)
    assert rows["difference", "overall"].value == pytest.approx((3.25 - 1.5) / 4)
    assert rows["test_accuracy", "left"].value == pytest.approx(0.5)
    assert rows["control_accuracy", "right"].value == pytest.approx(0.25)
    assert rows["both_accuracy", "-/0"].value == pytest.approx(0.5)
    assert [rows["test_accuracy", g].n for g in ("overall", "left", "right")] == [15, 11, 4]
    assert all(row.direction == EXPLICIT_TASK[row.name] for row in rows.values())
    assert not accuracy_rows(PLACE, [], FACTS)


def test_intervals_are_over_paradigms() -> None:
    """The interval is that of the mean of one number per paradigm, a little wider than a bootstrap over paradigms."""
    rng = np.random.default_rng(3)
    facts = {f"{i:02d}": ParadigmFacts("left" if i < 24 else "right", "+/-") for i in range(1, 40)}
    outcomes = [(p, bool(rng.random() < i / 39), True) for i, p in enumerate(facts) for _ in range(20)]
    scores = paradigm_scores(outcomes)
    row = rows_by_name(accuracy_rows(PLACE, scores, facts))["test_accuracy", "overall"]
    values = np.array([s.test for s in scores])
    means = values[rng.integers(0, 39, size=(20_000, 39))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    assert row.ci_low is not None
    assert row.ci_high is not None
    assert low - 0.02 < row.ci_low < low < high < row.ci_high < high + 0.02
    assert (row.ci_low, row.ci_high) == mean_interval(values.tolist(), [s.paradigm for s in scores])[:2]


def test_identical_paradigms_have_a_wide_interval() -> None:
    """Identical paradigms and a single one have wide intervals."""
    facts = {f"{i:02d}": ParadigmFacts("left", "+/-" if i else "-/+") for i in range(10)}
    rows = rows_by_name(accuracy_rows(PLACE, paradigm_scores([(p, True, True) for p in facts]), facts))
    perfect = rows["test_accuracy", "overall"]
    assert perfect.value == 1
    assert perfect.ci_low is not None
    assert 0.6 < perfect.ci_low < 0.8
    difference = rows["difference", "overall"]
    assert difference.value == 0
    assert (difference.ci_low, difference.ci_high) == pytest.approx((perfect.ci_low - 1, 1 - perfect.ci_low))
    assert rows["test_accuracy", "-/+"].ci_low == pytest.approx(0.025)


def test_maxmatch_on_the_published_templates(published: Path) -> None:
    """MaxMatch with the MSR words reproduces Table 1's figures for any two-character slot words."""
    words = read_words(published / "icwb2" / "msr_training_words.utf8")
    cut = longest_match(words)
    templates = json.loads((published / "eras" / "templates.json").read_text(encoding="utf-8"))
    places = json.loads((published / "eras" / "key_word_locations.json").read_text(encoding="utf-8"))
    filled = ("学生", "警察", "医生")
    outcomes, facts = [], {}
    for number, index in enumerate([*range(18), *range(18, 60, 2)]):
        start, _, branch = places[index]
        branching = ("left", "right")[branch]
        facts[f"{number:02d}"] = ParadigmFacts(branching, "+/-")  # type: ignore[arg-type]
        for word in filled:
            right = []
            for kind in ("amb_templates", "nonamb_templates"):
                text = re.sub("[a-z]+", word, templates[kind][index])
                right.append(judge_words(cut(text), text, start - 1, branching).right)  # type: ignore[arg-type]
            outcomes.append((f"{number:02d}", right[0], right[1]))
    rows = rows_by_name(accuracy_rows(PLACE, paradigm_scores(outcomes), facts))
    result = {g: round(100 * (rows["test_accuracy", g].value or 0), 1) for g in ("overall", "left", "right")}
    assert result == {"overall": 64.1, "left": 82.6, "right": 37.5}
    assert rows["control_accuracy", "overall"].value == 1
