"""Requests: their plain form, the key of their replies, and their lines in records; messages of workers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import (
    PLANNED,
    REQUESTS,
    Chat,
    Likelihood,
    Message,
    Parse,
    Reply,
    Request,
    Scores,
    Usage,
    request_from_json,
    request_key,
    request_to_json,
)
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain, from_text, line, plain, text
from pytest_llmprops.records.messages import CaseReport, GroupLines
from pytest_llmprops.records.requests import LoggedReply, RequestRecord, record_of
from pytest_llmprops.records.rows import SearchRecord

IDENTITY = {"backend": "b", "name": "m", "revision": "r"}


def _survives_json(value: str) -> bool:
    # JSON decodes an adjacent high and low surrogate to the single character that they encode.
    return bool(json.loads(json.dumps(value)) == value)


TEXT = st.text(st.characters(exclude_categories=())).filter(_survives_json)
TUPLES = st.lists(TEXT, max_size=3).map(tuple)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 10**6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.fixed_dictionaries(
    {"token": TEXT, "logprob": FINITE},
    optional={"top": st.lists(st.fixed_dictionaries({"token": TEXT, "logprob": FINITE}), max_size=2)},
)
#: type of a field -> its values
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("str", "Shared", "Name", "Text"), TEXT),
    **dict.fromkeys(("tuple[str, ...]", "tuple[Name, ...]"), TUPLES),
    **dict.fromkeys(("int", "Count"), COUNTS),
    **dict.fromkeys(("bool", "Flag"), st.booleans()),
    "int | None": st.none() | st.integers(),
    "float": FINITE,
    "float | None": st.none() | st.integers(0) | FINITE.map(abs),
    "Any": VALUES,
    "tuple[tuple[str, Any], ...]": st.dictionaries(TEXT, VALUES, max_size=3).map(
        lambda extra: tuple(sorted(extra.items()))
    ),
    "tuple[Mapping[str, Any], ...] | None": st.none() | st.lists(ENTRIES, max_size=2).map(tuple),
    "Sample": st.integers(0, 99_999),
    "RecordStatus": st.sampled_from(["correct", "error"]),
    "Score | None": st.none() | st.floats(0, 1),
    "Mapping[str, Number]": st.dictionaries(TEXT, st.integers(0, 9) | st.floats(-1e9, 1e9), max_size=2),
    "FreeObject": st.dictionaries(TEXT, FINITE | TEXT | st.lists(FINITE), max_size=2),
}


def built(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for objects of a dataclass, whose fields have any values of their types."""
    return st.builds(kind, **{field.name: BY_TYPE[str(field.type)] for field in fields(kind)})


BY_TYPE["tuple[Message, ...]"] = st.lists(built(Message), min_size=1, max_size=3).map(tuple)
BY_TYPE["Usage"] = built(Usage)


@given(st.one_of(*map(built, REQUESTS)))
@example(Chat.user("\ud800 lone, \udfff lone"))
def test_requests_survive_json(request_: Request) -> None:
    """A request of any kind reads back from JSON equal and with the same key."""
    again = request_from_json(json.loads(json.dumps(request_to_json(request_))))
    assert again == request_
    assert type(again) is type(request_)
    assert request_key(IDENTITY, again) == request_key(IDENTITY, request_)


@given(built(Reply))
@example(Reply("\ud800", value={"words": ["\udfff"]}))
def test_replies_survive_json(reply: Reply) -> None:
    """A reply reads back from JSON equal; the reader supplies key and origin."""
    data = json.loads(reply.to_text())
    assert Reply.from_json(data, key=reply.key, cached=reply.cached) == reply


@given(built(VerdictRecord))
def test_a_verdict_is_read_as_it_was_written(record: VerdictRecord) -> None:
    """A line of ``verdicts.jsonl`` has all that the record has; half a surrogate pair becomes a question mark."""
    read = from_plain(VerdictRecord, json.loads(line(record)))
    assert plain(read) == json.loads(json.dumps(plain(record), ensure_ascii=False).encode("utf-8", "replace"))


def test_a_key_is_that_of_the_canonical_json() -> None:
    """Keys depend on nothing else: versions of this package and processes share stores."""
    chat = Chat.user("Grüße?", temperature=0.0, stop=("\n",))
    text = (
        '[{"backend":"fake"},{"extra":{},"kind":"chat","logprobs":0,"max_tokens":null,'
        '"messages":[["user","Grüße?"]],"sample":0,"stop":["\\n"],"temperature":0.0}]'
    )
    assert request_key({"backend": "fake"}, chat) == hashlib.sha256(text.encode()).hexdigest()


# Lines of requests.jsonl as typed records


TOKENS = ({"token": "four", "logprob": -0.5, "top": {}},)
FOUR = Reply("four", usage=Usage(3, 2, 1, 2, 1, True), service_tier="flex", key="k", logprobs=TOKENS)
CHAT = record_of("subject", Chat.user("2 + 2 ="), FOUR, model="m", cost=0.5)
PARSE = record_of("parser", Parse("A sentence."), Reply(value=[1, 2], key="p", cached=True))


def test_round_trip() -> None:
    """A record that is read has everything that was written; a chat has messages, other requests have none."""
    for record, messages in ((CHAT, [("user", "2 + 2 =")]), (PARSE, [])):
        assert plain(from_plain(RequestRecord, json.loads(line(record)))) == json.loads(line(record))
        assert record.messages == messages
    # A reply that is not recorded is replaced by a note.
    noted = record_of("encoder", Parse("a"), Reply("text", value=[1], key="k"), note="not kept")
    assert noted.reply == LoggedReply(note="not kept")


def test_wrong_lines() -> None:
    """An invalid line raises a ValueError that says what is wrong."""
    changes: list[tuple[dict[str, Any], str]] = [
        ({"key": 7}, "'key' that is not a string"),
        ({"reply": "four"}, "'reply' that is not an object"),
        ({"request": {"messages": [["user", {"prefix": "x", "rest": ""}]]}}, "no earlier line defines"),
        ({"request": {"messages": 7}}, "'request' whose messages or text"),
        ({"request": {"messages": [["user"]]}}, "'request' whose messages or text"),
        (
            {"request": {"messages": [["user", {"prefix": [], "rest": ""}]]}},
            "'request' whose messages or text",
        ),
        ({"request": {"text": 7}}, "'request' whose messages or text"),
    ]
    for change, message in changes:
        with pytest.raises(ValueError, match=message):
            from_plain(RequestRecord, plain(CHAT) | change).in_full({})


def test_the_most_likely_option() -> None:
    """Options are compared by log-likelihood, and by log-likelihood per character; a tie has no winner."""
    request = Likelihood("q", (" a", " bcde"))
    options = [{"logprob": -2.0, "tokens": 1}, {"logprob": -4.0, "tokens": 2}]
    scores = Scores.of(request, Reply(value={"options": options}))
    assert (scores.best, scores.best_normalised) == (0, 1)
    assert scores.values(1, "run1_") == {
        "run1_normalised_right": 1.0, "run1_logprob1": -2.0, "run1_characters1": 1.0, "run1_logprob2": -4.0,
        "run1_characters2": 4.0,
    }  # fmt: skip
    tied = Scores.of(request, Reply(value={"options": [{"logprob": -2.0}, {"logprob": -2.0}]}))
    assert (tied.best, tied.best_normalised) == (None, 1)


def test_a_reply_without_likelihoods_is_an_error() -> None:
    """A model that returns no number for an option has failed; the empty replies of --llm-plan choose nothing."""
    request = Likelihood("q", ("a", "b"))
    infinite = [{"logprob": -1.0}, {"logprob": float("nan")}]
    for value in (None, {}, {"options": [{"logprob": -1.0}]}, {"options": infinite}):
        with pytest.raises(BackendError, match="did not return the log-likelihood of each option"):
            Scores.of(request, Reply("a", value=value))
    assert Scores.of(request, Reply(key=PLANNED)).best is None


def test_reports_of_cases_survive_json() -> None:
    """A worker's report is unchanged by a round trip through JSON, and has the status of its verdict or group."""
    place = ("gpt", "sums", "add", "en", "own", "sums/1")
    verdict = VerdictRecord(
        *place, "sums/1", "wrong", 0.0, "2", "3", "no", {"n": 1.0}, ("k1",), evidence={"x": "y"}
    )
    for message, status in (
        (CaseReport(verdict, by_model=True), "wrong"),
        (CaseReport(group=GroupLines("error", {"wrong": 1}, "{}\n")), "error"),
        (CaseReport(search=SearchRecord(*place, 3, 4, 2, False, {"why": "1 + 1"}, "")), None),
    ):
        assert from_text(CaseReport, text(message)) == message
        assert message.status == status
