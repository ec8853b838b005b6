"""Requests: their plain form, and the key under which their replies are stored."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.core.requests import (
    KINDS,
    Chat,
    Embed,
    FillMask,
    Message,
    Parse,
    Reply,
    Request,
    Segment,
    Sentiment,
    Translate,
    Usage,
    request_from_json,
    request_key,
    request_to_json,
)

IDENTITY = {"backend": "b", "name": "m", "revision": "r"}
#: one request of each kind, and a different value for every field
VARIED: list[tuple[Request, dict[str, Any]]] = [
    (
        Chat.user("q"),
        {
            "messages": (Message("user", "p"),),
            "temperature": 0.7,
            "max_tokens": 5,
            "stop": ("x",),
            "logprobs": 3,
            "sample": 1,
            "extra": (("top_p", 0.5),),
        },
    ),
    (Segment("q"), {"text": "p"}),
    (Sentiment("q"), {"text": "p"}),
    (Translate("q", "en", "zh"), {"text": "p", "source": "fr", "target": "de"}),
    (FillMask("q"), {"text": "p", "candidates": ("a",)}),
    (Embed("q"), {"text": "p", "tokens": True}),
    (Parse("q"), {"text": "p", "language": "zh", "analysis": "dependency"}),
]


def _survives_json(value: str) -> bool:
    # JSON decodes an adjacent high and low surrogate to the single character that they encode.
    return bool(json.loads(json.dumps(value)) == value)


TEXT = st.text(st.characters(exclude_categories=())).filter(_survives_json)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TUPLES = st.lists(TEXT, max_size=3).map(tuple)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        Chat,
        messages=st.lists(st.builds(Message, TEXT, TEXT), min_size=1, max_size=3).map(tuple),
        temperature=st.none() | FINITE,
        max_tokens=st.none() | st.integers(),
        stop=TUPLES,
        logprobs=st.integers(0, 20),
        sample=st.integers(0),
        extra=st.dictionaries(TEXT, VALUES, max_size=3).map(lambda d: tuple(sorted(d.items()))),
    ),
    st.builds(Segment, TEXT),
    st.builds(Sentiment, TEXT),
    st.builds(Translate, TEXT, TEXT, TEXT),
    st.builds(FillMask, TEXT, TUPLES),
    st.builds(Embed, TEXT, st.booleans()),
    st.builds(Parse, TEXT, TEXT, TEXT),
)
REPLIES = st.builds(
    Reply,
    text=TEXT,
    value=VALUES,
    finish_reason=st.sampled_from(["stop", "length", "content_filter"]),
    served_model=TEXT,
    usage=st.builds(Usage, st.integers(0), st.integers(0), st.integers(0)),
    logprobs=st.none() | st.lists(st.dictionaries(TEXT, VALUES, max_size=2), max_size=2).map(tuple),
    cost_usd=st.none() | FINITE,
    deviations=TUPLES,
    seconds=FINITE,
    stored=FINITE,
    cached=st.booleans(),
    key=TEXT,
)


def test_every_kind_is_varied() -> None:
    """The table above covers every kind and every field."""
    assert tuple(request.kind for request, _ in VARIED) == KINDS
    for request, others in VARIED:
        assert {f.name for f in dataclasses.fields(request)} == set(others)


@pytest.mark.parametrize(("request_", "others"), VARIED, ids=KINDS)
def test_every_field_changes_the_key(request_: Request, others: dict[str, Any]) -> None:
    """A request that differs in any one field has a different key."""
    varied = [dataclasses.replace(request_, **{name: value}) for name, value in others.items()]
    assert len({request_key(IDENTITY, r) for r in [request_, *varied]}) == len(others) + 1


def test_kind_and_model_change_the_key() -> None:
    """The same text as another kind of request, or for a different model, has a different key."""
    kinds: list[Request] = [
        Segment("q"),
        Sentiment("q"),
        FillMask("q"),
        Embed("q"),
        Parse("q"),
        Chat.user("q"),
    ]
    assert len({request_key(IDENTITY, r) for r in kinds}) == len(kinds)
    identities = [IDENTITY, {**IDENTITY, "revision": "s"}, {**IDENTITY, "base_url": "u"}, {"backend": "b"}]
    assert len({request_key(i, kinds[0]) for i in identities}) == len(identities)


def test_order_of_names_does_not_change_the_key() -> None:
    """Parameters and identities give the same key in any order."""
    forth = Chat.user("q", extra=(("a", 1), ("b", 2)))
    back = Chat.user("q", extra=(("b", 2), ("a", 1)))
    assert request_key({"x": 1, "y": 2}, forth) == request_key({"y": 2, "x": 1}, back)


def test_turn_boundaries_change_the_key() -> None:
    """Turns with equal concatenated texts but different boundaries have different keys."""
    one = Chat((Message("user", "a\nb"),))
    two = Chat((Message("user", "a"), Message("user", "b")))
    assert one.prompt == two.prompt
    assert request_key(IDENTITY, one) != request_key(IDENTITY, two)


def test_keys_are_the_same_in_every_process() -> None:
    """Another process with another hash seed gives the same keys."""
    requests = [r for r, _ in VARIED] + [Chat.user("\u4e2d\ud800", extra=(("a", {"z": 1, "b": [2]}),))]
    code = (
        "import json, sys\n"
        "from pytest_llmprops.core.requests import request_from_json, request_key\n"
        "identity, requests = json.load(sys.stdin)\n"
        "print(json.dumps([request_key(identity, request_from_json(r)) for r in requests]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([IDENTITY, [request_to_json(r) for r in requests]]),
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [request_key(IDENTITY, r) for r in requests]


@given(REQUESTS)
@example(Chat.user("\ud800 lone, \udfff lone"))
def test_requests_survive_json(request_: Request) -> None:
    """A request of any kind reads back from JSON equal and with the same key."""
    again = request_from_json(json.loads(json.dumps(request_to_json(request_))))
    assert again == request_
    assert type(again) is type(request_)
    assert request_key(IDENTITY, again) == request_key(IDENTITY, request_)


@given(REPLIES)
@example(Reply("\ud800", value={"words": ["\udfff"]}))
def test_replies_survive_json(reply: Reply) -> None:
    """A reply reads back from JSON equal; the reader supplies key and origin."""
    data = json.loads(json.dumps(reply.to_json()))
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
