"""Turn an answer in OpenAI's chat format, as plain JSON values, into replies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Usage
from pytest_llmprops.models.prices import Price

_FINISH = {"length": "length", "max_tokens": "length", "content_filter": "content_filter"}
_JSON_TYPES = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
#: a larger number is a server's mistake, and too large for a price
_MOST_TOKENS = 10**12
_DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


def pinned_by_name(name: str) -> bool:
    """Return whether an API model's name ends in a date and so identifies one exact model: ``gpt-4o-2024-05-13``."""
    return _DATED.search(name) is not None


def _messages(answer: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return (choice, message) of each choice, in the order of the answer."""
    choices = answer.get("choices")
    pairs = []
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping):
            message = choice.get("message")
            pairs.append((choice, message if isinstance(message, Mapping) else {}))
    return pairs


def _member(values: Mapping[str, Any], *names: str) -> Any:
    """Return ``values[name][name]...``, or None if it does not exist."""
    value: Any = values
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """Return the tokens of the call; zeros if the server does not report them."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()
    hidden = _member(usage, "completion_tokens_details", "reasoning_tokens")
    numbers = (usage.get("prompt_tokens"), usage.get("completion_tokens"), hidden)
    return Usage(*(n if isinstance(n, int) and 0 <= n <= _MOST_TOKENS else 0 for n in numbers))


def shares(usage: Usage, count: int) -> list[Usage]:
    """Split the usage of one call into ``count`` equal parts, one per choice; the first parts get the remainder.

    Servers do not report the usage of each choice. The parts add up to the call's usage, so the prompt counts once.
    """
    if count == 1:
        return [usage]
    numbers = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens)
    return [Usage(*(total // count + (place < total % count) for total in numbers)) for place in range(count)]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        # Some servers return a list of parts.
        return "".join(
            p["text"] for p in content if isinstance(p, Mapping) and isinstance(p.get("text"), str)
        )
    return ""


def spent_on_reasoning(answer: Mapping[str, Any]) -> bool:
    """Return whether any choice of a reasoning model reached the token limit before its first visible word."""
    for choice, message in _messages(answer):
        if choice.get("finish_reason") == "length" and not _text(message.get("content")).strip():
            reasoning = message.get("reasoning_content") or message.get("reasoning")
            if reasoning or usage_of(answer).reasoning_tokens > 0:
                return True
    return False


def _logprobs(choice: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    """Return one entry per token of the reply; None if the server returned none."""
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
    """Return the first ``count`` choices in ``answer``, or fewer if it has fewer; an error if it has none.

    The usage and cost of the call are divided between the choices. Without ``price``, the cost is
    ``answer["cost_usd"]``, if the backend set it.

    :param seconds: duration of the call.
    :param url: the source of the answer, for the error message.
    """
    choices = _messages(answer)[:count]
    if not choices:
        text = f"the answer of {url} for {model} has no choices"
        return BackendError(text, kind="response", transient=True)
    for choice, _ in choices:
        reason = choice.get("finish_reason")
        if reason is not None and not isinstance(reason, str):
            text = f"the answer of {url} for {model} has a finish_reason of JSON type {_JSON_TYPES[type(reason)]}"
            return BackendError(text, kind="response", transient=True)
    cost = answer.get("cost_usd")
    cost_share = None if cost is None else cost / len(choices)
    served = str(answer.get("model") or "")
    return [
        replace(
            _reply(choice, message),
            served_model=served,
            usage=usage,
            cost_usd=cost_share if price is None else price.of(usage),
            seconds=seconds,
        )
        for (choice, message), usage in zip(choices, shares(usage_of(answer), len(choices)), strict=True)
    ]


def without_keys(reply: Reply, keys: Sequence[str]) -> Reply:
    """Return a reply in which ``[key]`` replaces these keys, before any file has it.

    The log probabilities of a text with a key are left out, because their tokens are parts of it.
    """

    def shown(text: str) -> str:
        for key in keys:
            text = text.replace(key, "[key]")
        return text

    text, served = shown(reply.text), shown(reply.served_model)
    if (text, served) == (reply.text, reply.served_model):
        return reply
    return replace(
        reply, text=text, served_model=served, logprobs=reply.logprobs if text == reply.text else None
    )


def _reply(choice: Mapping[str, Any], message: Mapping[str, Any]) -> Reply:
    """Return the text, finish reason and log probabilities of one choice."""
    text, finish = (_text(message.get("content")), _FINISH.get(choice.get("finish_reason") or "", "stop"))
    refusal = message.get("refusal") or _member(message, "provider_specific_fields", "refusal")
    if isinstance(refusal, str) and refusal and not text:
        text, finish = refusal, "content_filter"
    return Reply(text, finish_reason=finish, logprobs=_logprobs(choice))
