"""Replies to prompts 5 to 7: strict JSON, one repair, and the wording of the prompts."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.replies import (
    LONGEST_PARAPHRASE,
    LONGEST_SENT_BACK,
    Answer,
    ask_answer,
    ask_paraphrases,
    paraphrases_prompt,
    phrases_prompt,
    read_answer,
    read_paraphrases,
    sentences_prompt,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply

YES = '{"answer": "yes", "explanation": "same"}'


class Replies:
    """An oracle that gives these replies in order, and fails when it runs out."""

    def __init__(self, *replies: str | Reply | BackendError) -> None:
        self.left = list(replies)
        self.chats: list[Chat] = []
        self.oracle = Oracle(self._reply)

    async def _reply(self, chat: Chat) -> Reply:
        self.chats.append(chat)
        reply = self.left.pop(0)
        if isinstance(reply, BackendError):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(reply)


@pytest.mark.parametrize("word", ["yes", "Yes", " YES ", "no", "NO\n"])
def test_yes_or_no_in_any_case(word: str) -> None:
    """Yes and no are read in any case, with the explanation."""
    answer = read_answer(json.dumps({"answer": word, "explanation": "as it is"}))
    assert (answer.word, answer.explanation) == (word.strip().lower(), "as it is")
    assert answer.said is (answer.word == "yes")
    assert (answer.notes.problem, answer.notes.fenced) == ("", False)


@pytest.mark.parametrize("reply", ["```json\n{}\n```", "```\n{}```", "```{}```", "  ```JSON\n{}\n```\n"])
def test_fences_are_noted(reply: str) -> None:
    """JSON between fences, with or without a label, is accepted and noted."""
    answer = read_answer(reply.replace("{}", YES))
    assert answer.said is True
    assert answer.notes.fenced


def test_extra_keys_are_ignored() -> None:
    """Extra keys are ignored, and the explanation may be missing or not a text."""
    assert read_answer('{"answer": "no", "sure": 0.9}').said is False
    assert read_answer('{"answer": "no", "explanation": ["a"]}').explanation == ""


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "it is empty"),
        ("Yes, they are.", "it is not JSON"),
        ("{'answer': 'yes'}", "it is not JSON"),
        (f"Here you are: {YES}", "it is not JSON"),
        (YES + YES, "it is not JSON"),
        (f"```{YES}``` and ```{YES}```", "it is not JSON"),
        (f"```{YES}``````{YES}```", "it is not JSON"),
        ('{"answer": "yes", "answer": "no"}', "occurs twice"),
        ('["yes"]', "not a JSON object"),
        ("NaN", "it is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"explanation": "yes"}', "the key 'answer' is missing"),
        ('{"Answer": "yes"}', "the key 'answer' is missing"),
        ('{"answer": "maybe"}', "is 'maybe'"),
        ('{"answer": "yes and no"}', "is 'yes and no'"),
        ('{"answer": true}', "is not a text"),
        ('{"answer": null}', "is not a text"),
        ('{"answer": "\\u0007\\n"}', r"is '\\x07\\n'"),
    ],
)
def test_unreadable_answers(reply: str, problem: str) -> None:
    """Any other reply is neither yes nor no, and has a one-line reason."""
    answer = read_answer(reply)
    assert answer.said is None
    assert answer.word == "unreadable"
    assert re.search(problem, answer.notes.problem)
    assert "\n" not in answer.notes.problem


@given(st.text(max_size=60))
def test_any_reply_is_read(text: str) -> None:
    """No reply makes the reader fail, and only an object with an answer counts as an answer."""
    answer = read_answer(text)
    assert (answer.said is None) is bool(answer.notes.problem)
    assert bool(read_paraphrases(text).texts) is not bool(read_paraphrases(text).notes.problem)


def test_paraphrases() -> None:
    """A list of texts is read in order, and line breaks inside a text become spaces."""
    paraphrases = read_paraphrases('{"paraphrases": ["It rains.", " Rain\\n falls. "]}')
    assert paraphrases.texts == ("It rains.", "Rain falls.")
    assert not paraphrases.notes.problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("It rains.", "not a list"), ([], "not a list"), ({"1": "It rains."}, "not a list"),
        (["It rains.", ""], "element 2"), (["It rains.", {"text": "Rain."}], "element 2"), ([None], "element 1"),
        (["\ud800"], "element 1"), (["x" * (LONGEST_PARAPHRASE + 1)], "longer than"),
    ],
)  # fmt: skip
def test_unreadable_paraphrases(value: object, problem: str) -> None:
    """A reply that is not a list of texts yields no paraphrase, and has a reason."""
    paraphrases = read_paraphrases(json.dumps({"paraphrases": value}))
    assert paraphrases.texts == ()
    assert problem in paraphrases.notes.problem
    assert "is missing" in read_paraphrases(YES).notes.problem


def _ask(replies: Replies, *, sample: int = 0) -> Answer:
    return asyncio.run(ask_answer(replies.oracle, sentences_prompt("a", "b"), sample=sample))


def test_one_repair() -> None:
    """An unreadable reply is sent back once with its problem, as the same sample; the second counts."""
    replies = Replies("Yes!", YES)
    answer = _ask(replies, sample=3)
    assert answer.said is True
    assert answer.notes.repaired
    assert answer.notes.text == YES
    first, second = replies.chats
    assert second.messages[:2] == first.messages
    assert second.messages[2].content == "Yes!"
    assert all(part in second.messages[3].content for part in ("it is not JSON", "'answer'"))
    assert [chat.sample for chat in replies.chats] == [3, 3]


def test_repair_of_an_empty_reply_has_no_empty_turn() -> None:
    """The repair conversation has no empty turn, because servers refuse one."""
    replies = Replies(" \n", YES)
    assert _ask(replies).said is True
    assert replies.chats[1].messages[2].content == "(empty)"


@pytest.mark.parametrize(
    ("replies", "said", "asked", "notes"),
    [
        (("Yes!", ""), None, 2, ("it is empty", True, False)),
        ((YES,), True, 1, ("", False, False)),
        ((Reply("", finish_reason="content_filter"),), None, 1, ("a content filter refused", False, True)),
        ((Reply(YES, finish_reason="content_filter"),), True, 1, ("", False, False)),
    ],
    ids=["repaired once", "readable", "filtered", "readable despite the filter"],
)
def test_only_an_unreadable_reply_is_repaired(
    replies: tuple[str | Reply, ...], said: bool | None, asked: int, notes: tuple[str, bool, bool]
) -> None:
    """There is one repair, and none of a reply that can be read or that a content filter withheld."""
    oracle = Replies(*replies)
    answer = _ask(oracle)
    assert (answer.said, len(oracle.chats)) == (said, asked)
    assert (answer.notes.problem, answer.notes.repaired, answer.notes.refused) == notes


def test_a_cut_off_reply_says_so() -> None:
    """The repair prompt says that the reply was cut off, and quotes only the necessary part of it."""
    replies = Replies(Reply('{"answer": "' + "x" * 10_000, finish_reason="length"), YES)
    assert _ask(replies).said is True
    sent = replies.chats[1].messages
    assert len(sent[2].content) == LONGEST_SENT_BACK
    assert "(cut off)" in sent[3].content


def test_paraphrases_are_repaired_too() -> None:
    """Prompt 7 also has one repair, in its own format."""
    replies = Replies("1. It rains.", '{"paraphrases": ["Rain falls."]}')
    result = asyncio.run(ask_paraphrases(replies.oracle, "It rains."))
    assert result.texts == ("Rain falls.",)
    assert result.notes.repaired
    assert "'paraphrases'" in replies.chats[1].messages[3].content


@pytest.mark.parametrize("before", [(), ("Yes!",)])
def test_failed_call_is_not_an_answer(before: tuple[str, ...]) -> None:
    """A backend error is passed through, also during a repair."""
    with pytest.raises(BackendError, match="down"):
        _ask(Replies(*before, BackendError("down")))


def test_wording_of_the_prompts() -> None:
    """Prompts 5, 6 and 7 equal appendix B.1, and keep braces and quotes in a sentence unchanged."""
    system, human = sentences_prompt("He said {sentence2}.", "It's {so}.")
    assert (system.role, human.role) == ("system", "user")
    assert system.content == (
        "You are a helpful assistant that decides if two sentences are paraphrases designed to output JSON."
    )
    assert human.content == (
        "Decide whether the following two sentences are semantically equivalent:\n"
        "1. 'He said {sentence2}.' 2. 'It's {so}.'\n"
        "Answer yes or no and provide a short explanation.\n"
        "Output with keys 'answer' and 'explanation'."
    )
    system, human = phrases_prompt("a dog", "one dog")
    assert "two texts could be paraphrases designed to output JSON" in system.content
    assert human.content == (
        "Decide whether the following two texts could be considered semantically equivalent:\n"
        "1. 'a dog' 2. 'one dog'\n"
        "Answer yes or no and provide a short explanation.\n"
        "Output with keys 'answer' and 'explanation'."
    )
    system, human = paraphrases_prompt("It rains.")
    assert system.content == "You are a helpful paraphrases generator designed to output JSON."
    assert human.content == (
        "Generate five paraphrases that are semantically equivalent to the following sentence: 'It rains.'\n"
        "Output with key 'paraphrases'."
    )
