"""Requests: their plain form, the key of their replies, and their lines in records; messages of workers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import (
    PLANNED,
    Chat,
    Completion,
    Embed,
    FillMask,
    Likelihood,
    Message,
    Parse,
    Reply,
    Request,
    Scores,
    Segment,
    Sentiment,
    Translate,
    Usage,
    request_from_json,
    request_key,
    request_to_json,
)
from pytest_llmprops.core.strict_json import strict_json
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
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FINITE | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TUPLES = st.lists(TEXT, max_size=3).map(tuple)
#: of the type that a field has, or another, which users can set
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats()
COUNTS = st.integers(0, 10**6)


def chats(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Chat]:
    return st.builds(
        Chat,
        messages=st.lists(st.builds(Message, TEXT, TEXT), min_size=1, max_size=3).map(tuple),
        temperature=numbers,
        max_tokens=numbers,
        stop=TUPLES,
        logprobs=COUNTS,
        sample=COUNTS,
        extra=st.dictionaries(TEXT, VALUES, max_size=3).map(lambda d: tuple(sorted(d.items()))),
    )


ENTRIES = st.fixed_dictionaries(
    {"token": TEXT, "logprob": FINITE},
    optional={"top": st.lists(st.fixed_dictionaries({"token": TEXT, "logprob": FINITE}), max_size=2)},
)


def replies(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Reply]:
    return st.builds(
        Reply,
        text=TEXT,
        value=VALUES,
        finish_reason=st.sampled_from(["stop", "length", "content_filter"]),
        served_model=TEXT,
        usage=st.builds(Usage, COUNTS, COUNTS, COUNTS)
        | st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.booleans()),
        logprobs=st.none() | st.lists(ENTRIES, max_size=2).map(tuple),
        cost_usd=st.none() | st.integers(0) | FINITE.map(abs),
        deviations=TUPLES,
        seconds=FINITE,
        stored=numbers,
        via=st.sampled_from(["", "batch"]),
        cached=st.booleans(),
        key=TEXT,
        service_tier=st.sampled_from(["", "flex"]),
        reasoning=TEXT,
    )


REQUESTS: st.SearchStrategy[Request] = st.one_of(
    chats(st.none() | st.integers() | FINITE),
    st.builds(
        Completion,
        TEXT,
        temperature=st.none() | FINITE,
        max_tokens=st.none() | st.integers(),
        stop=TUPLES,
        sample=st.integers(0),
        extra=st.dictionaries(TEXT, VALUES, max_size=3).map(lambda d: tuple(sorted(d.items()))),
    ),
    st.builds(Likelihood, TEXT, TUPLES),
    st.builds(Segment, TEXT),
    st.builds(Sentiment, TEXT),
    st.builds(Translate, TEXT, TEXT, TEXT),
    st.builds(FillMask, TEXT, TUPLES),
    st.builds(Embed, TEXT, st.booleans()),
    st.builds(Parse, TEXT, TEXT, TEXT),
)


@given(REQUESTS)
@example(Chat.user("\ud800 lone, \udfff lone"))
def test_requests_survive_json(request_: Request) -> None:
    """A request of any kind reads back from JSON equal and with the same key."""
    again = request_from_json(json.loads(json.dumps(request_to_json(request_))))
    assert again == request_
    assert type(again) is type(request_)
    assert request_key(IDENTITY, again) == request_key(IDENTITY, request_)


@given(replies(FINITE))
@example(Reply("\ud800", value={"words": ["\udfff"]}))
def test_replies_survive_json(reply: Reply) -> None:
    """A reply reads back from JSON equal; the reader supplies key and origin."""
    data = json.loads(reply.to_text())
    assert Reply.from_json(data, key=reply.key, cached=reply.cached) == reply


def test_following_up_keeps_the_settings() -> None:
    """A second turn appends the reply and the new question and changes nothing else."""
    first = Chat.user("q", temperature=0.7, sample=2)
    second = first.then("a", "again?")
    assert [(m.role, m.content) for m in second.messages] == [
        ("user", "q"),
        ("assistant", "a"),
        ("user", "again?"),
    ]
    assert (second.temperature, second.sample) == (0.7, 2)
    assert second.prompt == "q\na\nagain?"
    assert len(first.messages) == 1


VERDICTS = st.builds(
    VerdictRecord,
    *[TEXT] * 7,
    sample=st.integers(0, 99_999),
    status=st.sampled_from(["correct", "error"]),
    score=st.none() | st.floats(0, 1),
    expected=TEXT,
    given=TEXT,
    reason=TEXT,
    values=st.dictionaries(TEXT, st.integers(0, 9) | st.floats(-1e9, 1e9), max_size=2),
    evidence=st.dictionaries(TEXT, FINITE | TEXT | st.lists(FINITE), max_size=2),
    requests=TUPLES,
)


@given(VERDICTS)
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


CHAT = record_of(
    "subject",
    Chat.user("2 + 2 ="),
    Reply(
        "four",
        usage=Usage(3, 2, 1, 2, 1, True),
        service_tier="flex",
        key="k",
        logprobs=({"token": "four", "logprob": -0.5, "top": {}},),
    ),
    model="m",
    cost=0.5,
)
PARSE = record_of("parser", Parse("A sentence."), Reply(value=[1, 2], key="p", cached=True))


@pytest.mark.parametrize("record", [CHAT, PARSE], ids=["chat", "parse"])
def test_round_trip(record: RequestRecord) -> None:
    """A record that is read has everything that was written."""
    assert plain(from_plain(RequestRecord, json.loads(line(record)))) == json.loads(line(record))
    # A chat has messages; other requests have none.
    assert record.messages == ([("user", "2 + 2 =")] if record is CHAT else [])
    # A reply that is not recorded is replaced by a note.
    noted = record_of("encoder", Parse("a"), Reply("text", value=[1], key="k"), note="not kept")
    assert noted.reply == LoggedReply(note="not kept")


WRONG_LINES: list[tuple[dict[str, Any], str]] = [
    ({"key": 7}, "'key' that is not a string"),
    ({"reply": "four"}, "'reply' that is not an object"),
    ({"request": {"messages": [["user", {"prefix": "x", "rest": ""}]]}}, "no earlier line defines"),
    ({"request": {"messages": 7}}, "'request' whose messages or text"),
    ({"request": {"messages": [["user"]]}}, "'request' whose messages or text"),
    ({"request": {"messages": [["user", {"prefix": [], "rest": ""}]]}}, "'request' whose messages or text"),
    ({"request": {"text": 7}}, "'request' whose messages or text"),
]


def test_wrong_lines() -> None:
    """An invalid line raises a ValueError that says what is wrong."""
    for change, message in WRONG_LINES:
        with pytest.raises(ValueError, match=message):
            from_plain(RequestRecord, plain(CHAT) | change).in_full({})


# Messages between workers and their controller


VERDICT = VerdictRecord(
    "gpt", "sums", "add", "en", "own", "sums/1", "sums/1", "wrong", 0.0, "2", "3", "expected '2'",
    {"n": 1.0}, ("k1",), evidence={"text": "1 + 1"},
)  # fmt: skip
SEARCH = SearchRecord("gpt", "sums", "add", "en", "own", "sums/1", 3, 4, 2, False, {"why": "1 + 1"}, "")


def test_case_reports_survive_json() -> None:
    """A report is unchanged by a round trip through JSON."""
    for message in (
        CaseReport(VERDICT, by_model=True),
        CaseReport(group=GroupLines("wrong", {"wrong": 1}, "{}\n")),
        CaseReport(search=SEARCH),
    ):
        assert from_text(CaseReport, text(message)) == message


def test_the_status_and_the_group_of_a_report() -> None:
    """A report has the status of its verdict or group, none of a search."""
    assert CaseReport(VERDICT).status == "wrong"
    assert CaseReport(search=SEARCH).status is None
    message = CaseReport(group=GroupLines("error", {"wrong": 1}, "{}\n"))
    assert message.status == "error"


# Strict JSON


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting property name enclosed in double quotes at line 1, column 2"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5_000, "an integer has too many digits"),
        ("NaN", "NaN is not JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
    ],
    ids=["cut off", "deep", "digits", "NaN", "twice"],
)
def test_problems_are_in_plain_words(text: str, problem: str) -> None:
    """Every document that cannot be read is one short phrase, without the names of Python's exceptions."""
    with pytest.raises(ValueError, match=f"^{problem}$"):
        strict_json(text)


def test_the_most_likely_option() -> None:
    """Options are compared by log-likelihood, and by log-likelihood per character; a tie has no winner."""
    request = Likelihood("q", (" a", " bcde"))
    options = [{"logprob": -2.0, "tokens": 1}, {"logprob": -4.0, "tokens": 2}]
    scores = Scores.of(request, Reply(value={"options": options}))
    assert (scores.best, scores.best_normalised) == (0, 1)
    assert scores.values(1, "run1_") == {
        "run1_normalised_right": 1.0,
        "run1_logprob1": -2.0,
        "run1_characters1": 1.0,
        "run1_logprob2": -4.0,
        "run1_characters2": 4.0,
    }
    tied = Scores.of(request, Reply(value={"options": [{"logprob": -2.0}, {"logprob": -2.0}]}))
    assert (tied.best, tied.best_normalised) == (None, 1)


WITHOUT: list[Any] = [
    None,
    {},
    {"options": []},
    {"options": [{"logprob": -1.0}]},
    {"options": [{"logprob": float("nan")}] * 2},
]


def test_a_reply_without_likelihoods_is_an_error() -> None:
    """A model that returns no number for an option has failed; no option is chosen for it."""
    for value in WITHOUT:
        with pytest.raises(BackendError, match="did not return the log-likelihood of each option"):
            Scores.of(Likelihood("q", ("a", "b")), Reply("a", value=value))


def test_a_plan_has_no_likelihoods() -> None:
    """The empty replies of --llm-plan choose nothing and are not errors."""
    assert Scores.of(Likelihood("q", ("a", "b")), Reply(key=PLANNED)).best is None
