"""Lines that are put together have the text that Python's encoder makes of the same values."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.request_records import chat_line, line_of
from pytest_llmprops.core.requests import Chat, Message, Reply, Usage, key_with, request_to_json
from pytest_llmprops.core.strict_json import number

ENCODER = json.JSONEncoder(ensure_ascii=False)
CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats()
VALUES = st.dictionaries(st.text(), NUMBERS | st.text() | st.lists(NUMBERS), max_size=2)
WORDS = st.lists(st.text(), max_size=2).map(tuple)
COUNTS = st.integers(0, 10**6)
CHATS = st.builds(
    Chat,
    st.lists(st.builds(Message, st.text() | st.none(), st.text()), max_size=3).map(tuple),
    temperature=NUMBERS,
    max_tokens=NUMBERS,
    stop=WORDS,
    logprobs=COUNTS,
    sample=COUNTS,
    extra=VALUES.map(lambda values: tuple(sorted(values.items()))),
)
REPLIES = st.builds(
    Reply,
    text=st.text(),
    value=st.none() | VALUES,
    finish_reason=st.text(),
    served_model=st.text(),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS),
    logprobs=st.none() | st.lists(VALUES, max_size=2).map(tuple),
    cost_usd=st.none() | st.floats(),
    deviations=WORDS,
    seconds=st.floats(allow_nan=False, allow_infinity=False),
    stored=st.floats(),
    via=st.sampled_from(["", "batch"]),
    cached=st.booleans(),
    key=st.text(),
)
VERDICTS = st.builds(
    VerdictRecord,
    *[st.text()] * 7,
    sample=COUNTS,
    status=st.sampled_from(["correct", "error"]),
    score=NUMBERS,
    expected=st.text(),
    given=st.text(),
    reason=st.text(),
    values=VALUES,
    evidence=VALUES,
    requests=WORDS,
)


class Precise(float):
    """A number as numpy has them: a float whose ``repr`` is not JSON."""

    def __repr__(self) -> str:
        return f"Precise({float(self)})"


@pytest.mark.parametrize(
    "value", [None, 0, -0.0, 1, 1.0, True, 1e300, float("nan"), float("inf"), -float("inf"), Precise(0.5)]
)
def test_a_number_has_the_text_of_the_encoder(value: Any) -> None:
    """Also numbers that JSON does not have, and those of other types."""
    assert number(value) == ENCODER.encode(value)


@given(VERDICTS)
def test_a_verdict_has_the_text_of_the_encoder(record: VerdictRecord) -> None:
    """A line of ``verdicts.jsonl`` is the JSON of its values."""
    assert record.to_line() == ENCODER.encode(record.to_json()) + "\n"


@given(CHATS)
def test_the_key_of_a_chat_is_that_of_its_canonical_json(chat: Chat) -> None:
    """Keys do not change between versions of this package, which share stores."""
    text = CANONICAL.encode([{"backend": "fake"}, request_to_json(chat)])
    expected = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert key_with('{"backend":"fake"}', chat) == expected


@given(REPLIES)
def test_a_stored_reply_has_the_text_of_the_encoder(reply: Reply) -> None:
    """Whatever fields a reply has."""
    assert reply.to_text() == ENCODER.encode(reply.to_json())


@given(CHATS.filter(lambda chat: all(m.role is not None for m in chat.messages)), REPLIES, st.text())
def test_a_request_has_the_text_of_the_encoder(chat: Chat, reply: Reply, note: str) -> None:
    """A line of ``requests.jsonl`` is the JSON of the request and its reply."""
    contents = [ENCODER.encode(message.content) for message in chat.messages]
    line = chat_line("subject", chat, reply, contents, note=note)
    assert line == ENCODER.encode(line_of("subject", chat, reply, note=note))
