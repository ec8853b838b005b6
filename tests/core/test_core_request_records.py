"""One line of requests.jsonl as a typed record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.core.requests import Chat, Parse, Reply, Usage

CHAT = RequestRecord.of(
    "subject",
    Chat.user("2 + 2 ="),
    Reply("four", usage=Usage(3, 2), key="k", logprobs=({"token": "four", "logprob": -0.5, "top": {}},)),
)
PARSE = RequestRecord.of("parser", Parse("A sentence."), Reply(value=[1, 2], key="p", cached=True))


@pytest.mark.parametrize("record", [CHAT, PARSE], ids=["chat", "parse"])
def test_round_trip(record: RequestRecord) -> None:
    """Reading the written line returns the same JSON."""
    line = json.loads(json.dumps(record.to_json()))
    assert json.loads(json.dumps(RequestRecord.from_json(line).to_json())) == line


def test_messages() -> None:
    """A chat has messages; other requests have none."""
    assert CHAT.messages == [("user", "2 + 2 =")]
    assert PARSE.messages == []


def test_note_replaces_the_reply() -> None:
    """A reply that is not recorded is replaced by a note."""
    record = RequestRecord.of("encoder", Parse("a"), Reply("text", value=[1], key="k"), note="not kept")
    assert record.to_json()["reply"] == {"text": "", "note": "not kept"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": 7}, "'key' of the wrong type"),
        ({"reply": "four"}, "'reply' of the wrong type"),
        ({"request": {"messages": [["user", {"prefix": "x", "rest": ""}]]}}, "no earlier line defines"),
        ({"request": {"messages": 7}}, "not pairs of role and content"),
    ],
)
def test_wrong_lines(change: dict[str, Any], message: str) -> None:
    """An invalid line raises a ValueError that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        RequestRecord.from_json(CHAT.to_json() | change)
