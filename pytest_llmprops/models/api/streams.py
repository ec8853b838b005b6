"""Answers that a server streams although no call asks for it: what their events say in all.

The data of the events are chunks of OpenAI's formats, or the events of its Responses API or of Anthropic's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_END = "[DONE]"


class CutStream(ValueError):
    """A stream ends before its answer does."""


def parsed_answer(content: bytes) -> Any:
    """Return the JSON of an answer, also of one that is streamed, or followed by the end of a stream.

    :raises CutStream: if a stream was cut off. :raises ValueError: if the content is neither JSON nor a stream.
    """
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        text = content.decode("utf-8", "replace").strip()
        if error.msg == "Extra data":
            answer, end = json.JSONDecoder().raw_decode(text)
            if text[end:].split() == ["data:", _END]:
                return answer
        # Not splitlines: texts in JSON may have other separators of lines.
        lines = re.split(r"[\r\n]+", text)
        data = [line[5:].strip() for line in lines if line.startswith("data:")]
        if not data:
            raise
    events = [event for one in data if one and one != _END and isinstance(event := json.loads(one), dict)]
    try:
        answer, is_whole = _joined(events)
    except (AttributeError, TypeError, KeyError):
        raise ValueError("its events have no known format") from None
    if not (is_whole or _END in data):
        raise CutStream("the answer was cut off")
    return answer


def _joined(events: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], bool]:
    """Return the answer in the events of a stream, and whether it has an end."""
    for event in events:
        whole = event if event.get("error") else event.get("response")
        if whole and whole.get("status") not in ("queued", "in_progress"):
            return whole, True
    if any(event.get("type") == "message_start" for event in events):
        return _message(events)
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        answer |= {name: value for name, value in event.items() if value is not None}
        for chunk in event.get("choices") or ():
            index = chunk.get("index", 0)
            choice, delta = choices.get(index, {}), chunk.get("delta") or chunk.get("message") or {}
            finish = chunk.get("finish_reason") or choice.get("finish_reason")
            more = {**chunk, "index": None, "message": {**delta, "role": None}}
            choices[index] = {**_added(choice, more), "finish_reason": finish}
    answer["choices"] = [choices[index] for index in sorted(choices)]
    return answer, bool(choices) and all(choice["finish_reason"] for choice in choices.values())


def _message(events: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], bool]:
    message: dict[str, Any] = {}
    blocks: dict[int, Any] = {}
    for event in events:
        kind, delta = event.get("type"), event.get("delta") or {}
        if kind == "message_start":
            message = dict(event["message"])
        elif kind in ("content_block_start", "content_block_delta"):
            block = event.get("content_block") or {**delta, "type": None}
            blocks[event["index"]] = _added(blocks.get(event["index"], {}), block)
        elif kind == "message_delta":
            message |= {**delta, "usage": {**(message.get("usage") or {}), **(event.get("usage") or {})}}
    message["content"] = [blocks[index] for index in sorted(blocks)]
    return message, bool(message.get("stop_reason"))


def _added(value: Any, more: Any) -> Any:
    """Return a part of an answer with what a later event adds to it."""
    if type(value) in (str, list) and type(value) is type(more):
        return value + more
    if isinstance(value, Mapping) and isinstance(more, Mapping):
        return {**value, **{name: _added(value.get(name), part) for name, part in more.items()}}
    return value if more is None else more
