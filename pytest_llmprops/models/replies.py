"""From an answer in OpenAI's chat format, as plain JSON values, to a :class:`Reply`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Usage
from pytest_llmprops.models.prices import Price

#: A longer text is cut here, and counts as cut off.
LONGEST_TEXT = 1_000_000
_FINISH = {"length": "length", "max_tokens": "length", "content_filter": "content_filter"}
_DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


def pinned_by_name(name: str) -> bool:
    """Whether an API model's name ends in a date, and so names one exact model: ``gpt-4o-2024-05-13``."""
    return _DATED.search(name) is not None


def _messages(answer: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(choice, message) of each choice, in the order of the answer."""
    choices = answer.get("choices")
    found = []
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping):
            message = choice.get("message")
            found.append((choice, message if isinstance(message, Mapping) else {}))
    return found


def _member(values: Mapping[str, Any], *names: str) -> Any:
    """``values[name][name]...``, or None where there is no such thing."""
    found: Any = values
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """Tokens of the call; zeros where the server does not say."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()
    hidden = _member(usage, "completion_tokens_details", "reasoning_tokens")
    numbers = (usage.get("prompt_tokens"), usage.get("completion_tokens"), hidden)
    return Usage(*(n if isinstance(n, int) else 0 for n in numbers))


def shares(usage: Usage, count: int) -> list[Usage]:
    """The usage of one call with ``count`` choices as that of each: even parts, the first ones one token larger.

    Their sum is the call's, so the prompt counts once. A server does not say what each choice took.
    """
    if count == 1:
        return [usage]
    numbers = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens)
    return [Usage(*(total // count + (place < total % count) for total in numbers)) for place in range(count)]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        # Some servers answer in parts.
        return "".join(
            p["text"] for p in content if isinstance(p, Mapping) and isinstance(p.get("text"), str)
        )
    return ""


def spent_on_reasoning(answer: Mapping[str, Any]) -> bool:
    """Whether a reasoning model used up its token budget before the first visible word, in any choice."""
    for choice, message in _messages(answer):
        if choice.get("finish_reason") == "length" and not _text(message.get("content")).strip():
            thought = message.get("reasoning_content") or message.get("reasoning")
            if thought or usage_of(answer).reasoning_tokens > 0:
                return True
    return False


def _logprobs(choice: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    """One entry a reply token; None where the server gives none."""
    content = _member(choice, "logprobs", "content")
    if not content:
        return None
    try:
        return tuple(
            {
                "token": entry["token"],
                "logprob": float(entry["logprob"]),
                "top": [
                    {"token": other["token"], "logprob": float(other["logprob"])}
                    for other in entry.get("top_logprobs") or ()
                ],
            }
            for entry in content
        )
    except (KeyError, TypeError, ValueError):
        return None


def chat_replies(
    answer: Mapping[str, Any], count: int, price: Price | None, seconds: float, url: str, model: str
) -> list[Reply] | BackendError:
    """The first ``count`` choices in ``answer``, or as many as there are; a :class:`BackendError` where there is none.

    Usage and cost of the call are divided between them. ``answer["cost_usd"]``, where a backend put it, counts when
    there is no ``price``.

    :param seconds: how long the call took. :param url: where the answer comes from, for the message.
    """
    found = _messages(answer)[:count]
    if not found:
        text = f"{url} answered for {model} without a choice"
        return BackendError(text, kind="response", transient=True)
    cost = answer.get("cost_usd")
    given = None if cost is None else cost / len(found)
    served = str(answer.get("model") or "")
    return [
        replace(
            _reply(choice, message),
            served_model=served,
            usage=usage,
            cost_usd=given if price is None else price.of(usage),
            seconds=seconds,
            stored=time.time(),
        )
        for (choice, message), usage in zip(found, shares(usage_of(answer), len(found)), strict=True)
    ]


def _reply(choice: Mapping[str, Any], message: Mapping[str, Any]) -> Reply:
    """What one choice says."""
    text, finish = (_text(message.get("content")), _FINISH.get(choice.get("finish_reason") or "", "stop"))
    refusal = message.get("refusal") or _member(message, "provider_specific_fields", "refusal")
    if isinstance(refusal, str) and refusal and not text:
        text, finish = refusal, "content_filter"
    if len(text) > LONGEST_TEXT:
        text, finish = text[:LONGEST_TEXT], "length"
    return Reply(text, finish_reason=finish, logprobs=_logprobs(choice))
