"""One line of requests.jsonl as a typed record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_llmprops.core.request_records import RequestRecord, line_of
from pytest_llmprops.core.requests import Chat, Parse, Reply, Usage

CHAT = line_of(
    "subject",
    Chat.user("2 + 2 ="),
    Reply("four", usage=Usage(3, 2), key="k", logprobs=({"token": "four", "logprob": -0.5, "top": {}},)),
)
PARSE = line_of("parser", Parse("A sentence."), Reply(value=[1, 2], key="p", cached=True))


@pytest.mark.parametrize("line", [CHAT, PARSE], ids=["chat", "parse"])
def test_round_trip(line: dict[str, Any]) -> None:
    """A record that is read has everything that was written."""
    read = json.loads(json.dumps(line))
    assert json.loads(json.dumps(RequestRecord.from_json(read).to_json())) == read


def test_messages() -> None:
    """A chat has messages; other requests have none."""
    assert RequestRecord.from_json(CHAT).messages == [("user", "2 + 2 =")]
    assert RequestRecord.from_json(PARSE).messages == []


def test_note_replaces_the_reply() -> None:
    """A reply that is not recorded is replaced by a note."""
    line = line_of("encoder", Parse("a"), Reply("text", value=[1], key="k"), note="not kept")
    assert line["reply"] == {"text": "", "note": "not kept"}
    assert RequestRecord.from_json(line).note == "not kept"


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
        RequestRecord.from_json(CHAT | change)
