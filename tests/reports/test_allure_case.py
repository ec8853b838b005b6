"""One case as plain values: what is shown, and that its texts are never executed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Chat, Message, Reply, Segment, Usage
from pytest_llmprops.core.texts import visible
from pytest_llmprops.reports.allure import case
from tests.support.records import verdict

RECORD = verdict(
    "position",
    1,
    "wrong",
    expected="two\nlines",
    given="<i>x</i>",
    reason="other",
    values={"position": 2.0},
    evidence={"note": "seen", "rules": [1, None]},
)


class Demo(Benchmark):
    """A benchmark with a control."""

    name = "my_demo"
    about = "Is <it> so?"
    task_about = {"word_only": "Only the *word*."}
    controls = frozenset({"word_only"})


ITEM = Item("demo/1+word_only", "word_only", "ta", "published")


@given(st.text())
def test_visible_text_holds_no_control_characters(text: str) -> None:
    """Only printable text, tabs and line feeds of a reply are kept, and the result can be encoded."""
    shown = visible(text)
    assert all(c in "\t\n" or not ("\x00" <= c < " " or "\x7f" <= c < "\xa0") for c in shown)
    shown.encode("utf-8")


def test_long_texts_keep_beginning_and_end() -> None:
    """An attachment has a maximum length and says what was left out."""
    text = "a" * 50_000 + "b" * 50_000
    shown = case.bounded(text)
    assert len(shown) < case.MOST + 200
    assert shown.startswith("aaa")
    assert shown.endswith("b" * 1000)
    assert "40,000 characters left out" in shown
    assert case.bounded("short") == "short"


def test_description_escapes_every_text() -> None:
    """The description consists of paragraphs of escaped text."""
    html = case.description(Demo(), ITEM, "Doc\n  string & <b>.", RECORD.expected)
    assert "<p>Is &lt;it&gt; so? Doc string &amp; &lt;b&gt;.</p>" in html
    assert "<p>word only: Only the *word*.</p>" in html
    assert "control" in html
    assert html.replace("<p>", "").replace("</p>", "").count("<") == 0
    assert case.description(Benchmark(), ITEM, "", "") == ""


def test_labels_name_benchmark_task_language_and_severity() -> None:
    """Epic, feature and story are readable, and a control has a lower severity than a main task."""
    control = dict(case.labels(Demo(), ITEM, "m"))
    main = dict(case.labels(Demo(), Item("demo/1", "asked", "zh"), "m"))
    assert (control["epic"], control["feature"], control["story"]) == (
        "My demo",
        "word only",
        "ta, published items",
    )
    assert main["story"] == "Chinese, builtin items"
    assert (control["severity"], main["severity"]) == ("minor", "critical")
    assert ("tag", "control") in case.labels(Demo(), ITEM, "m")
    assert ("tag", "control") not in case.labels(Demo(), Item("demo/1", "asked", "zh"), "m")
    assert dict(case.labels(HTest(), ITEM, "m"))["epic"] == "H-TEST"


def test_step_says_what_the_call_cost() -> None:
    """A step shows time, tokens, finish reason and whether the reply was stored."""
    reply = Reply("hi", finish_reason="length", served_model="m-1", usage=Usage(5, 7, 3), seconds=1.5)
    step = case.step("subject", "m", Chat.user("q"), reply, "", attach=True)
    assert (step.name, step.passed, step.seconds) == ("ask m", True, 1.5)
    assert dict(step.parameters) == {
        "time": "1.50 s",
        "tokens": "5 + 7 (3 of them reasoning)",
        "finish reason": "length",
        "served model": "m-1",
    }
    assert [(a.name, a.text) for a in step.attachments] == [("prompt", "q"), ("reply", "hi")]
    stored = case.step("reader", "r", Chat.user("q"), Reply(seconds=1.5, cached=True), "", attach=False)
    assert (stored.name, stored.seconds, stored.attachments) == ("ask reader (r)", 0.0, ())
    assert dict(stored.parameters)["time"] == "from the store; took 1.50 s when it was made"


def test_step_of_a_failed_call_says_why() -> None:
    """A call without a reply is a failed step with its error and prompt."""
    step = case.step("subject", "m", Chat.user("q"), None, "broke\x07", attach=True)
    assert (step.name, step.passed, step.message) == ("m did not answer", False, "broke␇")
    assert [a.name for a in step.attachments] == ["prompt"]


def test_prompts_of_several_turns_show_roles() -> None:
    """Turns are shown under their roles; other kinds of requests are shown as JSON."""
    chat = Chat((Message("system", "Be brief."), Message("user", "Hi")))
    assert case.prompt_text(chat) == "[system]\nBe brief.\n\n[user]\nHi"
    assert '"text": "我"' in case.prompt_text(Segment("我"))
    assert case.reply_text(Reply(value=["我", "们"])) == '[\n "我",\n "们"\n]'
    vectors = Reply(value={"tokens": ["a"], "vectors": np.zeros((1, 384), np.float32)})
    assert json.loads(case.reply_text(vectors)) == {"tokens": ["a"], "vectors": "1 x 384 numbers"}
    empty = case.step("subject", "m", chat, Reply(""), "", attach=True)
    assert empty.attachments[1].text == "(an empty reply)"


def test_verdict_aligns_expected_and_given_answers() -> None:
    """Verdict, answers, reason, values and evidence are aligned rows; continuation lines are indented."""
    assert case.verdict_text(RECORD).splitlines() == [
        "verdict   wrong",
        "expected  two",
        "          lines",
        "given     <i>x</i>",
        "reason    other",
        "position  2",
        "note      seen",
        "rules     1, -",
    ]
    assert "given     -" in case.verdict_text(replace(RECORD, given=""))


def test_sample_is_one_in_twenty_by_seed_and_id() -> None:
    """About 1 in 20 passed cases has attachments: the same ones for one seed, others for another."""
    ids = [f"htest/rhyme/{n:04d}" for n in range(4000)]
    chosen = {i for i in ids if case.in_sample(0, i)}
    assert len(chosen) == pytest.approx(200, abs=50)
    assert chosen == {i for i in ids if case.in_sample(0, i)} != {i for i in ids if case.in_sample(1, i)}


def test_message_is_one_line() -> None:
    """A message of several lines becomes one line that begins with its kind."""
    assert case.message("fault", "a\n  b\x1b") == "fault: a b␛"
