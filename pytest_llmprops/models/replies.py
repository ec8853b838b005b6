"""From an answer in OpenAI's chat format, as plain JSON values, to a :class:`Reply`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
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


def _first_message(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """(choice, message) of the first choice, if there is one."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return None
    message = choices[0].get("message")
    return choices[0], message if isinstance(message, Mapping) else {}


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
    """Whether a reasoning model used up its token budget before the first visible word."""
    first = _first_message(answer)
    if first is None or first[0].get("finish_reason") != "length" or _text(first[1].get("content")).strip():
        return False
    thought = first[1].get("reasoning_content") or first[1].get("reasoning")
    return usage_of(answer).reasoning_tokens > 0 or bool(thought)


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


def chat_reply(
    answer: Mapping[str, Any], price: Price | None, seconds: float, url: str, model: str
) -> Reply | BackendError:
    """The reply in ``answer``; a :class:`BackendError` where it holds no choice.

    ``answer["cost_usd"]``, where a backend put it, counts when there is no ``price``.

    :param seconds: how long the call took. :param url: where the answer comes from, for the message.
    """
    first = _first_message(answer)
    if first is None:
        text = f"{url} answered for {model} without a choice"
        return BackendError(text, kind="response", transient=True)
    choice, message = first
    text, finish = (_text(message.get("content")), _FINISH.get(choice.get("finish_reason") or "", "stop"))
    refusal = message.get("refusal") or _member(message, "provider_specific_fields", "refusal")
    if isinstance(refusal, str) and refusal and not text:
        text, finish = refusal, "content_filter"
    if len(text) > LONGEST_TEXT:
        text, finish = text[:LONGEST_TEXT], "length"
    usage = usage_of(answer)
    return Reply(
        text,
        finish_reason=finish,
        served_model=str(answer.get("model") or ""),
        usage=usage,
        logprobs=_logprobs(choice),
        cost_usd=answer.get("cost_usd") if price is None else price.of(usage),
        seconds=seconds,
        stored=time.time(),
    )
