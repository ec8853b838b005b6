"""The paper's rule for a site, segmenters and chat models on explicit pairs, and accuracies over paradigms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_llmprops.benchmarks.eras.explicit import (
    IN_CHINESE,
    OTHER,
    RETRY,
    is_degenerate,
    judge_site,
    read_segmentation,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import PLANNED, Chat, Reply, Request, Segment
from pytest_llmprops.core.segmentation import boundaries
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord, record_of
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.eras_cases import BENCHMARK, chat, cut, cutter, first, measured, verdict_of
from tests.support.records import only_numbers

TEXT = "学生留心机动的书"


def test_rule_follows_the_papers_sentence() -> None:
    """A pair is wrong if a boundary is on the canary's near side and none is inside it; all segmentations are tried."""
    text = "甲乙丙丁戊"
    for marks in product((False, True), repeat=4):
        words = cut(text, *(place for place, is_cut in enumerate(marks, 1) if is_cut))
        for start in range(3):
            first, second = marks[start], marks[start + 1]
            left = judge_site(boundaries(words, text), start, "left")
            right = judge_site(boundaries(words, text), start, "right")
            assert (left != "right") is (first and not second)
            assert (right != "right") is (second and not first)
            assert (left == "token") == (text[start + 1 : start + 3] in words)
            assert (right == "token") == (text[start : start + 2] in words)


def test_unreadable_chat_replies() -> None:
    """A reply without one segmentation has no words, and the problem that the next request says."""
    for reply, said in (
        ("``` ```", "empty"), (f"“{TEXT}”", "without a space"), ("学生 留心 机动 的", "not the sentence"),
        ("学生 留心 机动 的 书\n学生 留 心机 动 的 书", "several versions"),
    ):  # fmt: skip
        words, problem = read_segmentation(reply, TEXT)
        assert not words
        assert said in problem
        assert problem in IN_CHINESE


def test_whitespace_of_the_sentence_is_a_word() -> None:
    """The sentence's own spaces are no boundaries that the model found."""
    assert read_segmentation("看 GPT 4 吧", "看GPT 4吧") == (("看", "GPT", " ", "4", "吧"), "")
    assert not read_segmentation("看GPT 4吧", "看GPT 4吧")[0]


def test_verdict_on_a_site(part: Any) -> None:
    """The verdict shows the canary word of a wrong segmentation; the rule of right-branching sites is mirrored."""
    for paradigm, places, values, shown, expected in (
        ("01", (1, 3), [1, 0], "|【心机】|", "信心|机, never 心机"),
        ("01", (1, 4), [0, 1], "|【心机】智|", "信心|机, never 心机"),
        ("02", (0, 2), [1, 0], "|【信心】|", "信|心机, never 信心"),
        ("02", (2,), [0, 1], "【信心】|", "信|心机, never 信心"),
    ):
        item = first(part, "explicit", paradigm)
        verdict = verdict_of(item, part.context, "segment", cutter(item, *places))
        assert (verdict.status, verdict.expected) == ("wrong", expected)
        assert [verdict.values[f"canary_{name}"] for name in ("token", "swallowed")] == values
        assert shown in verdict.given
        assert expected[-2:] in verdict.reason


def test_a_segmenter_that_changes_text_is_an_error(part: Any) -> None:
    """Characters changed, dropped or added are an error of the item that names them, never a wrong answer."""
    item = first(part, "explicit", "01")
    outcome, _ = measured(item, part.context, "segment", lambda r: Reply(value=[*r.text, "啊"]))
    assert outcome.verdict is None
    assert outcome.error is not None
    assert "added '啊'" in outcome.error.message


def test_traditional_characters(part: Any) -> None:
    """With eras.script the sentences are sent converted, the site keeps its place, and the verdict shows it."""
    pytest.importorskip("chinese_converter")
    item = first(part, "explicit", "01")
    outcome, asked = measured(
        item, part.context, "segment", lambda r: Reply(value=[*r.text]), script="chinese-converter"
    )
    [sent, _] = [r.text for r in asked if isinstance(r, Segment)]
    start = item["pair"].site_start
    assert (sent[start : start + 3], len(sent)) == ("信心機", len(item["pair"].test))
    assert outcome.verdict is not None
    assert outcome.verdict.expected == "信心|機, never 心機"


def test_a_converter_that_fails_stops_the_run(part: Any) -> None:
    """A converter that is missing or changes the length stops the run with one line that names the setting."""
    convert = Mock(side_effect=DataError("the number of characters changes"))
    item = first(part, "explicit", "01")
    outcome, _ = measured(item, convert, "segment", lambda r: Reply(), script="chinese-converter")
    assert outcome.stopped == "eras.script=chinese-converter: the number of characters changes"


def test_a_chat_model_segments(part: Any) -> None:
    """A chat model's sentence with spaces is judged like a segmenter's words; the settings are in the requests.

    If only the control's reply is unreadable, the test sentence is judged and the control is not correct.
    """
    item = first(part, "explicit", "01")
    start, test = item["pair"].site_start, item["pair"].test
    outcome, asked = measured(
        item, part.context, "chat", chat(lambda s: " ".join(cut(s, start + 1, start + 3))),
        temperature=0.5, max_tokens=9,
    )  # fmt: skip
    verdict = outcome.verdict
    assert verdict is not None
    assert verdict.status == "wrong"
    assert "【心机】" in verdict.given
    assert (verdict.values["test_read"], verdict.values["control_read"]) == (1, 1)
    assert {(r.temperature, r.max_tokens) for r in asked if isinstance(r, Chat)} == {(0.5, 9)}
    answer = chat(lambda s: " ".join(s) if s == test else "no")
    verdict = verdict_of(item, part.context, "chat", answer, rule="paper")
    assert verdict.status == "correct"
    assert "control: " in verdict.reason
    assert (verdict.values["test"], verdict.values["control"], verdict.values["control_read"]) == (1, 0, 0)


def replies(*texts: str, finish: str = "stop") -> Any:
    """Return a chat model that gives these replies to the requests of each sentence, one after the other."""

    def answer(request: Request) -> Reply:
        assert isinstance(request, Chat)
        number = len(request.messages) // 2
        text = texts[min(number, len(texts) - 1)].replace("{}", " ".join(request.prompt.splitlines()[-1]))
        return Reply(text, finish_reason=finish)

    return answer


def test_an_unreadable_reply_is_asked_for_again(part: Any) -> None:
    """The second request has the conversation, the problem and the sentence; its reply counts."""
    item = first(part, "explicit", "01")
    outcome, asked = measured(item, part.context, "chat", replies("好的", "{}"), rule="paper")
    assert outcome.verdict is not None
    assert outcome.verdict.status == "correct"
    assert [outcome.verdict.values[f"{name}_retried"] for name in ("test", "control")] == [1, 1]
    requests = [r for r in asked if isinstance(r, Chat) and item["pair"].test in r.prompt]
    assert [len(r.messages) for r in requests] == [1, 3]
    last = requests[1].messages
    assert last[:1] == requests[0].messages
    assert (last[1].role, last[1].content) == ("assistant", "好的")
    assert last[2].content == RETRY.format(problem=IN_CHINESE[OTHER], text=item["pair"].test)
    assert requests[1].max_tokens == requests[0].max_tokens
    # Servers refuse a conversation with an empty turn.
    _, asked = measured(item, part.context, "chat", replies("", "{}"))
    empty = {r.messages[1].content for r in asked if isinstance(r, Chat) and len(r.messages) > 1}
    assert empty == {"(empty)"}
    [rate] = [m for m in BENCHMARK.metrics([record(item, outcome.verdict)]) if m.name == "retry_rate"]
    assert (rate.value, rate.n) == (1, 2)
    # The empty replies of --llm-plan are not asked for again.
    _, planned = measured(item, part.context, "chat", lambda r: Reply(key=PLANNED))
    assert len(planned) == 2


def test_one_retry(part: Any) -> None:
    """A reply is asked for again once at most, and never if it was read or a content filter refused."""
    item = first(part, "explicit", "01")
    for texts, finish, number, status, said in (
        (("{}",), "stop", 1, "correct", "not cut out"),
        (("好的", "不行"), "stop", 2, "unparsed", "several versions of it, after one retry"),
        (
            ("好的", "不行"),
            "length",
            2,
            "unparsed",
            "cut off before the end of the sentence, after one retry",
        ),
        (("好的",), "content_filter", 1, "refused", "content filter"),
    ):
        answer = replies(*texts, finish=finish)
        outcome, asked = measured(item, part.context, "chat", answer, rule="paper")
        assert outcome.verdict is not None
        assert (outcome.verdict.status, len(asked)) == (status, 2 * number)
        assert said in outcome.verdict.reason
        assert outcome.verdict.values["test_retried"] == number - 1


def elsewhere(item: Item, *places: int) -> Any:
    """Return a segmenter that cuts a plausible number of words outside the site, and the site only at ``places``."""
    start = item["pair"].site_start

    def answer(request: Request) -> Reply:
        assert isinstance(request, Segment)
        outside = [*range(1, start, 2), *range(start + 4, len(request.text))]
        return Reply(value=cut(request.text, *sorted({*outside, *(start + place for place in places)})))

    return answer


@pytest.mark.parametrize("rule", ["paper", "segmented"])
def test_undecided_sites(part: Any, rule: str) -> None:
    """A site without or with both boundaries is right; by the rule ``segmented`` not if the sentence is degenerate."""
    item = first(part, "explicit", "01")
    start, size = item["pair"].site_start, len(item["pair"].test)

    def status(answer: Any) -> str:
        return verdict_of(item, part.context, "segment", answer, rule=rule).status

    # Fewer than .4 or more than .9 words per character are degenerate.
    assert [is_degenerate(words, 20) for words in (7, 8, 18, 19)] == [True, False, False, True]
    degenerate = "correct" if rule == "paper" else "wrong"
    assert status(lambda r: Reply(value=list(r.text))) == degenerate
    assert status(cutter(item)) == degenerate
    assert status(cutter(item, size - start - 1)) == degenerate
    assert "【" not in verdict_of(item, part.context, "segment", cutter(item), rule=rule).given
    assert status(cutter(item, 2)) == "correct", "the true word is cut out, whatever the rest of the sentence"
    assert status(cutter(item, 1)) == "wrong"
    for places in ((), (1, 2), (0, 1, 2, 3)):
        assert status(elsewhere(item, *places)) == "correct", places


def record(item: Item, verdict: Verdict) -> VerdictRecord:
    return record_of(item, "eras", "m", verdict, requests=[])


def test_metrics_by_hand(part: Any) -> None:
    """Metrics are means over paradigms, whatever their sizes, and need only the records' numbers."""
    cuts: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
        ("01", (1,), (2,)), ("01", (2,), (2,)), ("02", (1,), (1,)), ("02", (), (2,)), ("02", (1, 2), (2,)),
        ("02", (2,), (2,)),
    ]  # fmt: skip
    records: list[VerdictRecord] = []
    for paradigm, test, control in cuts:
        item = [i for i in part.items if i.id.startswith(f"eras/explicit/{paradigm}/")][len(records)]
        answer = cutter(item, *test, control=control)
        records.append(record(item, verdict_of(item, part.context, "segment", answer, rule="paper")))
    rows = {(m.name, m.group): m for m in BENCHMARK.metrics(only_numbers(records))}
    # Paradigm 01, left: one of two test sites right, both controls. Paradigm 02, right: three of four, one of four.
    expected = {
        "test_accuracy": (1 / 2 + 3 / 4) / 2, "control_accuracy": (1 + 1 / 4) / 2, "difference": (1 / 2 - 1 / 2) / 2,
        "both_accuracy": (1 / 2 + 1 / 4) / 2, "canary_token_rate": 0.0, "canary_swallowed_rate": (1 / 2 + 1 / 4) / 2,
        "decided_rate": (1 + 2 / 4) / 2, "decided_accuracy": (1 / 2 + 1 / 2) / 2, "degenerate_rate": 1.0,
    }  # fmt: skip
    assert {name: rows[name, "overall"].value for name in expected} == pytest.approx(expected)
    shares = [r.values["words"] / r.values["characters"] for r in records]
    mean = (sum(shares[:2]) / 2 + sum(shares[2:]) / 4) / 2
    assert rows["words_per_character", "overall"].value == pytest.approx(mean)
    assert (rows["control_accuracy", "right"].value, rows["difference", "left"].value) == (0.25, 0.5)
    assert {group for _, group in rows} == {"overall", "left", "right", "+/-", "-/+"}
    assert [rows["test_accuracy", g].n for g in ("overall", "left", "right")] == [6, 2, 4]
    assert rows["decided_accuracy", "overall"].n == 4
    assert all(BENCHMARK.metric_directions[name] == row.direction for (name, _), row in rows.items())
    for name, values, least in (("test_accuracy", [0.5, 0.75], 0.0), ("difference", [0.5, -0.5], -1.0)):
        row = rows[name, "overall"]
        assert (row.ci_low, row.ci_high) == mean_interval(values, ["a", "b"], least=least)[:2]
    assert ("retry_rate", "") not in rows


def test_degenerate_models_are_named(part: Any) -> None:
    """No score of a model that cuts every character or hardly anything is shown without a warning."""
    every = "1.00 words per character, segmenters give 0.50 to 0.80; every character is a word in 100%"
    items = [item for item in part.items if item.id.startswith("eras/explicit/02/")]
    for places, said in ((range(1, 99), every), ((1,), "sentences are hardly cut in 100%")):

        def answer(request: Request, places: Sequence[int] = places) -> Reply:
            assert isinstance(request, Segment)
            return Reply(value=cut(request.text, *(place for place in places if place < len(request.text))))

        records = [record(item, verdict_of(item, part.context, "segment", answer)) for item in items]
        degenerate, undecided = BENCHMARK.remarks(only_numbers(records))
        assert degenerate.startswith("warning: degenerate segmentation: ")
        assert said in degenerate
        assert undecided.startswith(f"warning: 100% of {len(items)} sites are undecided")
