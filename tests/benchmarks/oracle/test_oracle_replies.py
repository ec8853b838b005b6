"""Replies to prompts 5 to 7: JSON and plain answers, one repair, and the wording of the prompts."""

from __future__ import annotations

import asyncio
import json

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
from pytest_llmprops.core.requests import Chat, Reply

YES = '{"answer": "yes", "explanation": "same"}'
SENTENCES_PROMPT = sentences_prompt("Was it dry? No.", "Was it wet? Yes.")[1].content


class Replies:
    """An oracle that gives these replies in order, and fails when it runs out."""

    def __init__(self, *replies: str | Reply) -> None:
        self.left = list(replies)
        self.chats: list[Chat] = []
        self.oracle = Oracle(self._reply)

    async def _reply(self, chat: Chat) -> Reply:
        self.chats.append(chat)
        reply = self.left.pop(0)
        return reply if isinstance(reply, Reply) else Reply(reply)


def test_plain_answers() -> None:
    """Without JSON, a labelled answer counts first, then a yes or no of its own, then a statement."""
    words = {
        "Yes.": "yes", "**no**": "no", "True\nThey match.": "yes", "Yes, no word was changed in meaning.": "yes",
        "**Answer:** Yes": "yes", 'The answer would be "no".': "no", "\\boxed{\\text{yes}}": "yes",
        "Semantically equivalent - No": "no",
        "At first I would say yes, but the rivers differ.\n\nAnswer: no": "no", "The rivers differ. No.": "no",
        "The sentences are semantically equivalent.": "yes", "They are not equivalent.": "no",
        f"{SENTENCES_PROMPT}\n\nYes": "yes", '"answer": "no",\n"explanation": "The rivers differ."': "no",
    }  # fmt: skip
    answers = {reply: read_answer(reply) for reply in words}
    assert {reply: answer.word for reply, answer in answers.items()} == words
    assert {answer.notes.read_by for answer in answers.values()} == {"text"}


def test_unreadable_answers() -> None:
    """Any other reply is neither yes nor no, and has a one-line reason."""
    for reply in (
        SENTENCES_PROMPT, "1. 'Did it rain? No.' 2. 'Yes, it rained all day.'", "1. No one came.", "Yes or no?",
        "Maybe.", "No, I can't help with that.", "I can't say whether the sentences are equivalent.",
        "The two sentences may be equivalent.", "Equivalent sentences have one meaning.", "[" * 100_000,
    ):  # fmt: skip
        answer = read_answer(reply)
        assert (answer.said, answer.word) == (None, "unreadable"), reply
        assert answer.notes.problem == "it has no JSON object and no clear yes or no"


RAIN = ["It rains in Rome.", "Rome has rain.", "There's rain in Rome today."]
NUMBERED = "\n".join(f"{n}. {text}" for n, text in enumerate(RAIN, 1))


def test_equivalent_paraphrases() -> None:
    """Lists, objects, numbered lines and plain lines give the same paraphrases, without numbers and labels."""
    for reply in (
        json.dumps({"paraphrases": NUMBERED}), json.dumps({"paraphrases": NUMBERED.splitlines()}),
        json.dumps({"results": RAIN}), json.dumps({"paraphrases": [*RAIN, "", "...", "Paraphrase 4"]}),
        json.dumps([{"original": "Rain in Rome.", "paraphrase": text} for text in RAIN]),
        json.dumps({f"Paraphrase {n}": text for n, text in enumerate(RAIN, 1)}),
        json.dumps({"output": {"paraphrases": RAIN, "note": "All are short."}}),
        "\n".join(json.dumps({"paraphrase": text}) for text in RAIN),
        json.dumps({"paraphrases": RAIN})[:-2], json.dumps({"paraphrases": RAIN})[:-2] + ', "It is rai',
        json.dumps({"paraphrases": RAIN}) * 2, f"Sure, here are three:\n\n{NUMBERED}\n\nI hope they help!",
        "\n".join(f"**Paraphrase {n}:** {text}" for n, text in enumerate(RAIN, 1)),
        "Paraphrases:\n\n" + "\n".join(RAIN),
    ):  # fmt: skip
        assert read_paraphrases(reply).texts == tuple(RAIN), reply


def test_unreadable_paraphrases() -> None:
    """A reply without a list of sentences yields no paraphrase, and has a reason."""
    for reply, problem in (
        ("", "it is empty"),
        ("\n".join(m.content for m in paraphrases_prompt("It rains.")), "no list of sentences"),
        ("It rains in Rome\nIt pours\nIt stops", "no list of sentences"),
        ("It rains in Rome.\nIt pours.", "no list of sentences"),
        (
            json.dumps({"paraphrases": ["It rains.", "x" * (LONGEST_PARAPHRASE + 1)]}),
            "paraphrase 2 is longer than",
        ),
        ("1. It \ud800 rains.\n2. It pours.", "paraphrase 1 has characters"),
    ):
        paraphrases = read_paraphrases(reply)
        assert paraphrases.texts == ()
        assert problem in paraphrases.notes.problem


def _ask(replies: Replies, *, sample: int = 0) -> Answer:
    return asyncio.run(ask_answer(replies.oracle, sentences_prompt("a", "b"), sample=sample))


def test_one_repair() -> None:
    """An unreadable reply is sent back once with its problem, as the same sample; the second counts.

    The conversation has no empty turn, because servers refuse one.
    """
    empty = Replies(" \n", YES)
    assert _ask(empty).said is True
    assert empty.chats[1].messages[2].content == "(empty)"
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


def test_only_an_unreadable_reply_is_repaired() -> None:
    """There is one repair, and none of a reply that can be read or that a content filter withheld."""
    withheld, readable = (Reply(text, finish_reason="content_filter") for text in ("", YES))
    for replies, said, notes in (
        (Replies("Perhaps!", ""), None, ("it is empty", True, False)),
        (Replies(withheld), None, ("a content filter refused", False, True)),
        (Replies(readable), True, ("", False, False)),
    ):
        answer = _ask(replies)
        assert (answer.said, replies.left) == (said, [])
        assert (answer.notes.problem, answer.notes.repaired, answer.notes.refused) == notes


def test_a_cut_off_reply_says_so() -> None:
    """The repair prompt says that the reply was cut off, and quotes only the necessary part of it."""
    replies = Replies(Reply('{"answer": "' + "x" * 10_000, finish_reason="length"), YES)
    assert _ask(replies).said is True
    sent = replies.chats[1].messages
    assert len(sent[2].content) == LONGEST_SENT_BACK
    assert "(cut off)" in sent[3].content


def test_paraphrases_that_were_cut_off_or_repaired() -> None:
    """Of a list that was cut off, the complete paraphrases are used; prompt 7 also has one repair in its own format."""
    for text in ("1. It rains.\n2. Rain falls.\n3. There is ra", '["It rains.", "Rain falls.", "There is ra'):
        replies = Replies(Reply(text, finish_reason="length"))
        result = asyncio.run(ask_paraphrases(replies.oracle, "It rains."))
        assert result.texts == ("It rains.", "Rain falls.")
    replies = Replies("It rains.", '{"paraphrases": ["Rain falls."]}')
    result = asyncio.run(ask_paraphrases(replies.oracle, "It rains."))
    assert (result.texts, result.notes.repaired) == (("Rain falls.",), True)
    assert "'paraphrases'" in replies.chats[1].messages[3].content


def test_wording_of_the_prompts() -> None:
    """Prompts 5, 6 and 7 equal appendix B.1, and keep braces and quotes in a sentence unchanged."""
    equivalent = (
        "Decide whether the following two {} semantically equivalent:\n1. '{}' 2. '{}'\n"
        "Answer yes or no and provide a short explanation.\nOutput with keys 'answer' and 'explanation'."
    )
    paraphrases = (
        "Generate five paraphrases that are semantically equivalent to the following sentence: 'It rains.'\n"
        "Output with key 'paraphrases'."
    )
    decides = "You are a helpful assistant that decides if two {} paraphrases designed to output JSON."
    sentences, phrases = ("He said {sentence2}.", "It's {so}."), ("a dog", "one dog")
    expected = {
        sentences_prompt(*sentences): (decides.format("sentences are"), equivalent.format("sentences are", *sentences)),
        phrases_prompt(*phrases): (
            decides.format("texts could be"), equivalent.format("texts could be considered", *phrases)
        ),
        paraphrases_prompt("It rains."): (
            "You are a helpful paraphrases generator designed to output JSON.", paraphrases
        ),
    }  # fmt: skip
    for (system, human), texts in expected.items():
        assert (system.role, human.role) == ("system", "user")
        assert (system.content, human.content) == texts
