"""Answers of APIs as replies: streams that nobody asked for, thoughts without an answer, phases, ids of calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fixtures.apis import KEY, Answer, Call, completion, refusal, serving
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api.replies import chat_replies
from pytest_llmprops.models.api.responses import chat_answer
from pytest_llmprops.models.api.streams import CutStream, parsed_answer
from pytest_llmprops.models.base import Result
from tests.support.backends import called, error, fatal, make, reply

ASKED = Chat.user("What is the capital of France?", max_tokens=300)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the keys of the stubs."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def asked(respond: Callable[[Call], Answer], request: Chat = ASKED, spec: str = "openai:m") -> Result:
    """Return the result of one call to a server."""

    with serving(respond) as url:
        address = url if spec.startswith("anthropic") else f"{url}/v1"
        return called(make(spec, base_url=address), request)[0]


def events(*data: Any, end: str = "") -> bytes:
    """Return a stream of events."""
    return "".join(f"event: x\ndata: {json.dumps(one)}\n\n" for one in data).encode() + end.encode()


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk of OpenAI's chat format."""
    return {"model": "m", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def test_choices_of_a_stream_are_told_apart() -> None:
    """Chunks of several samples may come in any order; twelve choices stay in theirs."""
    pieces = [chunk(n, content=f"{n}") for n in (*range(11, -1, -1), *range(12))]
    ends = [chunk(n, "length" if n == 3 else "stop") for n in range(12)]
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    answer = parsed_answer(events(*pieces, *ends, usage))
    assert [one["message"]["content"] for one in answer["choices"]] == [f"{n}{n}" for n in range(12)]
    assert [one["finish_reason"] for one in answer["choices"]][2:5] == ["stop", "length", "stop"]
    assert answer["usage"] == usage["usage"]


@pytest.mark.parametrize("end", ["\r\n\r\n", "\r\r"])
def test_lines_of_a_stream_end_as_its_standard_says(end: str) -> None:
    """Other separators of lines may be in a text."""
    text = "one\u2028two\x85three"
    event = json.dumps(chunk(0, "stop", content=text), ensure_ascii=False)
    answer = parsed_answer(f"data: {event}{end}data: [DONE]{end}".encode())
    assert answer["choices"][0]["message"]["content"] == text


def test_logprobs_of_a_stream_are_joined() -> None:
    """Each chunk has the log probabilities of its tokens."""
    first, second = chunk(content="A"), chunk(0, "stop", content="B")
    for one, token in ((first, "A"), (second, "B")):
        one["choices"][0]["logprobs"] = {"content": [{"token": token, "logprob": -1.0}]}
    [choice] = parsed_answer(events(first, second))["choices"]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["A", "B"]


def test_answer_may_be_followed_by_the_end_of_a_stream() -> None:
    """Some gateways append it to every answer, with or without a line break."""
    for end in ("data: [DONE]", "\n\ndata: [DONE]\n\n"):
        assert parsed_answer(b'{"a": 1}' + end.encode()) == {"a": 1}
    for other in (b'{"a": 1}{"b": 2}', b'{"a": 1}data: {"b": 2}', b"<html>data: no</html>"):
        with pytest.raises(json.JSONDecodeError):
            parsed_answer(other)


def test_events_of_the_responses_api_end_with_the_whole_answer() -> None:
    """The last event has all of it, whatever came before."""
    begin, end = (
        {"type": "x", "response": {"status": s, "output": []}} for s in ("in_progress", "completed")
    )
    delta = {"type": "response.output_text.delta", "delta": "A"}
    assert parsed_answer(events(begin, delta, end)) == end["response"]
    with pytest.raises(CutStream):
        parsed_answer(events(begin, delta))


def test_events_of_the_messages_api_are_joined() -> None:
    """Blocks, stop reason and usage of Anthropic's events make a message; pings are left out."""
    text = events(
        {"type": "message_start", "message": {"model": "c", "content": [], "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Pa"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "ris"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    )
    sent = {"content-type": "text/event-stream"}
    got = reply(asked(lambda call: (200, sent, text.decode()), spec="anthropic:claude"))
    assert (got.text, got.reasoning, got.finish_reason, got.served_model) == ("Paris", "Hm.", "stop", "c")
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (9, 7)


def test_cut_stream_is_asked_again_and_never_read() -> None:
    """A stream without an end is a lost connection: half an answer is none."""
    got = error(asked(lambda call: (200, {}, events(chunk(content="Lon")).decode())))
    assert (got.kind, got.transient, got.message) == ("connection", True, "the answer was cut off")


def test_error_in_a_stream_is_that_error() -> None:
    """A gateway reports a failure of its provider in the middle of a stream."""
    failure = {"error": {"message": "Overloaded", "code": 529}}
    got = error(asked(lambda call: (200, {}, events(chunk(content="Lon"), failure).decode())))
    assert (got.kind, got.transient, "Overloaded" in got.message) == ("status 529", True, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: 5\n\n", ""),
        ('data: {"choices": [4]}\n\n', ""),
        ('data: {"choices": [{"index": {}}]}\n\n', ""),
        ('data: {"type": "message_start"}\n\n', ""),
        ("[" * 5_000, "nested too deeply"),
        ('{"usage": ' + "9" * 5_000 + "}", "an integer has too many digits"),
        ('{"choices": [{"message": {"content": "x"}, "finish_reason": ["stop"]}]}', "finish_reason of JSON type array"),
        ('{"choices": [{"finish_reason": "stop"}]}', "a message of JSON type null"),
    ],
    ids=range(8),
)  # fmt: skip
def test_answers_that_no_api_sends_are_one_line(text: str, said: str) -> None:
    """A hostile answer or stream is an error of its call, which says what is odd and not what Python calls it."""
    got = error(asked(lambda call: (200, {"content-type": "application/json"}, text)), said)
    assert got.kind in ("response", "connection")
    assert got.transient


TOKEN: dict[str, Any] = {"token": "a", "logprob": -1.0}


@pytest.mark.parametrize(
    ("choice", "more"),
    [
        (
            {"logprobs": {"content": [TOKEN | {"token": {"__array__": "!!!", "type": "zz", "shape": [1]}}]}},
            {},
        ),
        ({"logprobs": {"content": [TOKEN | {"top_logprobs": [{"token": 1, "logprob": -1.0}]}]}}, {}),
        ({}, {"cost_usd": -1}),
        ({}, {"cost_usd": 10**400}),
    ],
)
def test_fields_of_another_type_are_left_out(choice: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """A server may send any JSON in place of log probabilities and a cost; its answer is kept."""
    answer = {"choices": [{"message": {"content": "yes"}, **choice}], **more}
    got = reply(asked(lambda call: (200, {}, answer)))
    assert (got.text, got.logprobs, got.cost_usd) == ("yes", None, None)


def thinks(finish: str = "stop", spent: int = 0, **message: Any) -> Callable[[Call], Answer]:
    """Return a server that sends this message.

    :param spent: tokens of the reply; 0 for fewer than the limit.
    """
    usage = {"prompt_tokens": 5, "completion_tokens": spent or 20}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return lambda call: (200, {}, {"model": "m", "choices": [choice], "usage": usage})


@pytest.mark.parametrize(
    ("message", "text", "finish"),
    [
        ({"content": "Paris"}, "Paris", "stop"),
        ({"content": None, "refusal": "No."}, "No.", "content_filter"),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "", "stop"),
        ({"content": "", "reasoning": ""}, "", "stop"),
    ],
)
def test_other_replies_with_thoughts_are_replies(message: dict[str, Any], text: str, finish: str) -> None:
    """An answer, a refusal, a call of a tool and an empty reply are no mistake of a parser."""
    got = reply(asked(thinks(**{"reasoning": "Hm."} | message)))
    assert (got.text, got.finish_reason) == (text, finish)


@pytest.mark.parametrize("message", [{"content": "", "reasoning": "Hm."}, {"content": None}])
@pytest.mark.parametrize(("spent", "finish"), [(300, "length"), (299, "stop")])
def test_reply_that_took_all_its_tokens_was_cut(message: Mapping[str, Any], spent: int, finish: str) -> None:
    """An empty reply with as many tokens as the limit was cut, although the server says that it stopped."""
    result = asked(thinks(spent=spent, **message))
    if finish == "stop" and "reasoning" in message:
        fatal(result, "text only in 'reasoning': check the server's reasoning parser")
    else:
        assert reply(result).finish_reason == finish


@pytest.mark.parametrize(("thoughts", "finish"), [("", "stop"), ("Hm.", "length")])
def test_tokens_of_a_call_are_those_of_all_its_replies(thoughts: str, finish: str) -> None:
    """An empty reply of several was cut if each took its limit; one with thoughts may have taken most of the tokens."""
    contents = ["A", {"content": "", "reasoning": thoughts}, "B"]
    messages = [one if isinstance(one, dict) else {"content": one} for one in contents]
    choices = [{"finish_reason": "stop", "message": message} for message in messages]
    answer = {"choices": choices, "usage": {"completion_tokens": 8}}
    replies = chat_replies(answer, 3, None, 0.0, "http://h", "m", limit=8)
    assert isinstance(replies, list)
    assert [one.finish_reason for one in replies] == ["stop", finish, "stop"]


def test_details_of_thoughts_are_thoughts() -> None:
    """OpenRouter's list has summaries, texts, and encrypted parts, which are left out."""
    details = [
        {"type": "reasoning.summary", "summary": "Short."},
        {"type": "reasoning.encrypted", "data": "gAAAA"},
        {"type": "reasoning.text", "text": "Long."},
    ]
    got = reply(asked(thinks(content="Paris", reasoning=None, reasoning_details=details)))
    assert (got.text, got.reasoning) == ("Paris", "Short.\nLong.")


def test_only_the_final_answer_is_read() -> None:
    """Commentary is a thought; without phases, all messages are the answer."""

    def message(text: str, **phase: str | None) -> dict[str, Any]:
        return {"type": "message", **phase, "content": [{"type": "output_text", "text": text}]}

    def read(*output: dict[str, Any]) -> tuple[str, str]:
        [choice] = chat_answer({"status": "completed", "output": list(output)})["choices"]
        return choice["message"]["content"], choice["message"]["reasoning"]

    first, last = message("I look.", phase="commentary"), message("A", phase="final_answer")
    assert read(first, last) == ("A", "I look.")
    assert read(first, message("A", phase=None)) == ("A", "I look.")
    assert read(message("draft"), first, last) == ("A", "I look.")
    assert read(message("A"), message("B")) == ("AB", "")
    assert read(first) == ("", "I look.")


@pytest.mark.parametrize(
    ("spec", "header"),
    [("openai:m", "X-LiteLLM-Call-Id"), ("anthropic:m", "request-id")],
)
def test_id_of_a_call_is_in_replies_and_errors(spec: str, header: str) -> None:
    """What a provider's support asks for is kept; a long message does not cut it off."""
    block = [{"type": "text", "text": "Paris"}]

    def fine(call: Call) -> Answer:
        _, _, body = completion(call)
        return 200, {header: "req_1"}, body | {"content": block, "request_id": "of-the-body"}

    def fails(call: Call) -> Answer:
        status, _, body = refusal("very wrong " * 100, status=500)
        return status, {header: "req_2"}, body

    def nothing(call: Call) -> Answer:
        return 200, {header: "req_3"}, {"model": "m", "choices": []}

    assert reply(asked(fine, spec=spec)).request_id == "req_1"

    def page(call: Call) -> Answer:
        return 200, {header: "req_4"}, "<html>Sign in</html>"

    for server, end in ((fails, "(request req_2)"), (nothing, "(request req_3)"), (page, "(request req_4)")):
        got = error(asked(server, spec=spec))
        assert got.message.endswith(end)
        assert len(got.message) <= 300
