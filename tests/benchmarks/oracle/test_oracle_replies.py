"""Replies to prompts 5 to 7: JSON and plain answers, one repair, and the wording of the prompts."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

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
SENTENCES_PROMPT = sentences_prompt("Was it dry? No.", "Was it wet? Yes.")[1].content


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


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("Yes.", "yes"), ("NO", "no"), ("**no**", "no"), ("`Yes`", "yes"), ("'no'", "no"), ("True", "yes"),
        ("Yes, because nothing was lost.", "yes"), ("No, because a year is missing.", "no"),
        ("yes - both are about one bridge", "yes"), ("no,the rivers differ", "no"), ("No!", "no"),
        ("Yes, no word was changed in meaning.", "yes"), ("Sure! Yes, they match.", "yes"),
        ("**Answer:** Yes", "yes"),
        ("- answer: no", "no"), ("### Answer\n\nYes", "yes"), ("<answer>no</answer>", "no"), ("答案：no", "no"),
        ("The answer is yes.", "yes"), ('The answer would be "no".', "no"), ("My final answer: NO", "no"),
        ("\\boxed{no}", "no"), ("Equivalent: yes", "yes"), ("Semantically equivalent - No", "no"),
        ("At first I would say yes, but the rivers differ.\n\nAnswer: no", "no"),
        ("One bridge is open, the other one is closed.\n\nNo.", "no"), ("The rivers differ. No.", "no"),
        ("1. No\n2. The rivers differ.", "no"), ("1. No: the rivers differ", "no"),
        ("The answer to this question is yes.", "yes"), ("True\nThey match.", "yes"),
        ("I would say no, since the rivers differ.", "no"),
        ("The sentences are semantically equivalent.", "yes"), ("They are not equivalent.", "no"),
        ("Answer: true", "yes"), ("False. The rivers differ.", "no"), ("\\boxed{\\text{yes}}", "yes"),
        (f"{SENTENCES_PROMPT}\n\nYes", "yes"), ('"answer": "no",\n"explanation": "The rivers differ."', "no"),
        ('The first says "No, we will never sell it to you." Answer: yes', "yes"),
    ],
)  # fmt: skip
def test_plain_answers(reply: str, word: str) -> None:
    """Without JSON, a labelled answer counts first, then a yes or no of its own, then a statement."""
    answer = read_answer(reply)
    assert answer.word == word
    assert answer.notes.read_by == "text"


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "it is empty"),
        (SENTENCES_PROMPT, "no clear yes or no"),
        ("1. 'Did it rain? No.' 2. 'Yes, it rained all day.'", "no clear yes or no"),
        ("1. No one came.", "no clear yes or no"),
        ("No explanation is needed.", "no clear yes or no"),
        ("Yes or no?", "no clear yes or no"),
        ("Yes and no.", "no clear yes or no"),
        ("I cannot answer yes or no.", "no clear yes or no"),
        ("Maybe.", "no clear yes or no"),
        ("No, I can't help with that.", "no clear yes or no"),
        ("No problem, send me both sentences.", "no clear yes or no"),
        ("I can't say whether the sentences are equivalent.", "no clear yes or no"),
        ("The two sentences may be equivalent.", "no clear yes or no"),
        ("Equivalent sentences have one meaning.", "no clear yes or no"),
        ("NaN", "no clear yes or no"),
        ('Choose one of ["yes", "no"].', "no clear yes or no"),
        ("[]", "no clear yes or no"),
        ("[" * 100_000, "no clear yes or no"),
    ],
)
def test_unreadable_answers(reply: str, problem: str) -> None:
    """Any other reply is neither yes nor no, and has a one-line reason."""
    answer = read_answer(reply)
    assert answer.said is None
    assert answer.word == "unreadable"
    assert re.search(problem, answer.notes.problem)
    assert "\n" not in answer.notes.problem


RAIN = ["It rains in Rome.", "Rome has rain.", "There's rain in Rome today."]
NUMBERED = "\n".join(f"{n}. {text}" for n, text in enumerate(RAIN, 1))


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"Paraphrases": RAIN}), json.dumps({"paraphrased_sentences": RAIN}), json.dumps(RAIN),
        json.dumps({"paraphrases": NUMBERED}),
        json.dumps({"paraphrases": NUMBERED.splitlines()}), json.dumps({"results": RAIN}),
        json.dumps({"paraphrases": [*RAIN, "", "...", "Paraphrase 4"]}),
        json.dumps([{"original": "Rain in Rome.", "paraphrase": text} for text in RAIN]),
        json.dumps({"paraphrases": {f"paraphrase{n}": text for n, text in enumerate(RAIN, 1)}}),
        json.dumps({f"Paraphrase {n}": text for n, text in enumerate(RAIN, 1)}),
        json.dumps({"sentence": "Rain in Rome.", "paraphrases": RAIN, "note": "All are short."}),
        json.dumps({"output": {"paraphrases": RAIN}}),
        "\n".join(json.dumps({"paraphrase": text}) for text in RAIN),
        f"Here you are:\n```json\n{json.dumps({'paraphrases': RAIN}, indent=1)}\n```\nDo you need more?",
        "{'paraphrases': [" + ", ".join(f"'{text}'" for text in RAIN) + ",]}",
        json.dumps({"paraphrases": RAIN})[:-2], json.dumps({"paraphrases": RAIN})[:-2] + ', "It is rai',
        NUMBERED, f"Sure, here are three:\n\n{NUMBERED}\n\nI hope they help!",
        "\n".join(f"- {text}" for text in RAIN),
        "paraphrases:\n" + "\n".join(f'  - "{text}"' for text in RAIN),
        "\n".join(f"**Paraphrase {n}:** {text}" for n, text in enumerate(RAIN, 1)),
        "Paraphrases:\n\n" + "\n".join(RAIN), json.dumps({"paraphrases": RAIN}) * 2,
        "\n".join(f"<paraphrase>{text}</paraphrase>" for text in RAIN),
        NUMBERED.replace("\n", "\n   (short)\n"), f"Sorry for that. Here they are:\n{NUMBERED}",
    ],
)  # fmt: skip
def test_equivalent_paraphrases(reply: str) -> None:
    """Lists, objects, numbered lines and plain lines give the same paraphrases, without numbers and labels."""
    assert read_paraphrases(reply).texts == tuple(RAIN)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "it is empty"),
        ("\n".join(m.content for m in paraphrases_prompt("It rains.")), "no list of sentences"),
        ("It rains in Rome.", "no list of sentences"),
        ("It rains in Rome\nIt pours\nIt stops", "no list of sentences"),
        ("It rains in Rome.\nIt pours.", "no list of sentences"),
        (
            json.dumps({"paraphrases": ["It rains.", "x" * (LONGEST_PARAPHRASE + 1)]}),
            "paraphrase 2 is longer than",
        ),
        ("1. It \ud800 rains.\n2. It pours.", "paraphrase 1 has characters"),
    ],
)
def test_unreadable_paraphrases(reply: str, problem: str) -> None:
    """A reply without a list of sentences yields no paraphrase, and has a reason."""
    paraphrases = read_paraphrases(reply)
    assert paraphrases.texts == ()
    assert problem in paraphrases.notes.problem


def _ask(replies: Replies, *, sample: int = 0) -> Answer:
    return asyncio.run(ask_answer(replies.oracle, sentences_prompt("a", "b"), sample=sample))


def test_one_repair() -> None:
    """An unreadable reply is sent back once with its problem, as the same sample; the second counts."""
    replies = Replies("Perhaps!", YES)
    answer = _ask(replies, sample=3)
    assert answer.said is True
    assert answer.notes.repaired
    assert answer.notes.text == YES
    first, second = replies.chats
    assert second.messages[:2] == first.messages
    assert second.messages[2].content == "Perhaps!"
    assert all(part in second.messages[3].content for part in ("no JSON object", "'answer'"))
    assert [chat.sample for chat in replies.chats] == [3, 3]


def test_repair_of_an_empty_reply_has_no_empty_turn() -> None:
    """The repair conversation has no empty turn, because servers refuse one."""
    replies = Replies(" \n", YES)
    assert _ask(replies).said is True
    assert replies.chats[1].messages[2].content == "(empty)"


@pytest.mark.parametrize(
    ("replies", "said", "asked", "notes"),
    [
        (("Perhaps!", ""), None, 2, ("it is empty", True, False)),
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


def test_a_paraphrase_that_was_cut_off_is_left_out() -> None:
    """Of a list that was cut off, the complete paraphrases are used."""
    for text in ("1. It rains.\n2. Rain falls.\n3. There is ra", '["It rains.", "Rain falls.", "There is ra'):
        result = asyncio.run(
            ask_paraphrases(Replies(Reply(text, finish_reason="length")).oracle, "It rains.")
        )
        assert result.texts == ("It rains.", "Rain falls.")


def test_paraphrases_are_repaired_too() -> None:
    """Prompt 7 also has one repair, in its own format."""
    replies = Replies("It rains.", '{"paraphrases": ["Rain falls."]}')
    result = asyncio.run(ask_paraphrases(replies.oracle, "It rains."))
    assert result.texts == ("Rain falls.",)
    assert result.notes.repaired
    assert "'paraphrases'" in replies.chats[1].messages[3].content


@pytest.mark.parametrize("before", [(), ("Perhaps!",)])
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
