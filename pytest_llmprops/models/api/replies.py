"""The replies in an answer in OpenAI's chat format, which the answers of all APIs are turned into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Price, Reply, Usage, is_finite, is_logprob
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.usage import (
    estimated_usage,
    member,
    service_tier,
    shares,
    usage_of,
    with_bill,
)

#: what the finish reasons of the APIs mean, in lower case; documented by OpenAI, Anthropic, Google, Mistral, Cohere,
#: AWS Bedrock, Zhipu, vLLM, TGI and llama.cpp
_STOP = (
    "stop", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token", "tool_calls", "function_call", "tool_use",
    "complete", "completed", "pause_turn",
)  # fmt: skip
_LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
_FILTERED = (
    "content_filter", "content_filtered", "refusal", "safety", "recitation", "prohibited_content", "blocklist",
    "spii", "image_safety", "guardrail_intervened", "sensitive",
)  # fmt: skip
#: the provider failed (OpenRouter, DeepSeek, Zhipu, vLLM); the text, if there is any, is not an answer
_FAILED = (
    "error", "insufficient_system_resource", "network_error", "abort", "aborted", "cancelled", "timeout",
    "malformed_function_call",
)  # fmt: skip
_FINISH = {
    **dict.fromkeys(_STOP, "stop"),
    **dict.fromkeys(_LENGTH, "length"),
    **dict.fromkeys(_FILTERED, "content_filter"),
    **dict.fromkeys(_FAILED, "failed"),
}
_JSON_TYPES = {
    bool: "boolean", int: "number", float: "number", list: "array", dict: "object", str: "string", type(None): "null",
}  # fmt: skip


def _messages(answer: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return (choice, message) of each choice, in the order of the answer."""
    choices = answer.get("choices")
    pairs = []
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping):
            message = choice.get("message")
            pairs.append((choice, message if isinstance(message, Mapping) else {}))
    return pairs


#: types of the parts of a content that are not the answer
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")


def _text(content: Any) -> str:
    """Return the answer in a content: a text, or the texts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [p for p in content if isinstance(p, Mapping) and p.get("type") not in _THOUGHTS]
        return "".join(p["text"] for p in parts if isinstance(p.get("text"), str))
    return ""


def _reasoning(message: Mapping[str, Any]) -> str:
    """Return the thoughts in the fields of a message, or in the parts of its content (Mistral, Anthropic)."""
    field = _reasoning_field(message)
    if field and isinstance(message[field], str):
        return str(message[field])
    parts = message[field] if field else message.get("content")
    texts = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and (field or part.get("type") in _THOUGHTS):
            inner = part.get("thinking") or part.get("reasoning") or part.get("summary") or part.get("text")
            texts.append(_text(inner))
    return "\n".join(filter(None, texts))


def _reasoning_field(message: Mapping[str, Any]) -> str:
    """Return the name of the field with the thoughts; empty if there is none. The last one is a list (OpenRouter)."""
    names = ("reasoning_content", "reasoning", "thinking")
    is_text = (name for name in names if isinstance(message.get(name), str) and message[name])
    return next(is_text, "reasoning_details" if isinstance(message.get("reasoning_details"), list) else "")


def _logprobs(choice: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    """Return one entry per token of the reply; None if the server returned none, or not tokens with numbers."""
    content = member(choice, "logprobs", "content")
    if not content:
        return None
    try:
        entries = tuple(
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
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return entries if all(map(is_logprob, entries)) else None


def chat_replies(
    answer: Mapping[str, Any],
    count: int,
    price: Price | None,
    seconds: float,
    url: str,
    model: str,
    limit: int | None = None,
    prompt: str | None = None,
) -> list[Reply] | BackendError:
    """Return the first ``count`` choices in ``answer``, or fewer if it has fewer; an error if it has none.

    The usage and cost of the call are divided between the choices. Without ``price``, the cost is
    ``answer["cost_usd"]``, if the backend set it.

    :param seconds: duration of the call.
    :param url: the source of the answer, for the error message.
    :param limit: the token limit of the call; an empty reply with as many tokens was cut, whatever its finish reason.
    :param prompt: what was sent, to estimate the tokens that a server does not report; None to estimate nothing.
    """
    choices = _messages(answer)[:count]
    call_usage, request_id = usage_of(answer), errors.cleaned_id(answer.get("request_id"))
    if not choices:
        text = f"the answer of {url} for {model} has no choices"
        error = BackendError(errors.marked(text, request_id), kind="response", transient=True)
        return with_bill(error, answer, price)
    # xAI does not count the tokens of thoughts among those of the completion.
    spent = max(call_usage.completion_tokens, call_usage.reasoning_tokens)

    def is_spent(message: Mapping[str, Any]) -> bool:
        # One of several replies with thoughts may have taken most of the tokens.
        parts = 1 if _reasoning_field(message) else len(choices)
        return limit is not None and spent >= parts * limit

    for choice, message in choices:
        failure = _failure_in(choice, message, url, model, is_spent=is_spent(message))
        if failure is not None:
            text = errors.marked(failure.message, request_id)
            error = BackendError(text, kind=failure.kind, transient=failure.transient, fatal=failure.fatal)
            return with_bill(error, answer, price)
    cost: Any = answer.get("cost_usd")
    if not is_finite(cost) or cost < 0:
        # Of a server, which may send anything under this name.
        cost = None
    cost_share = None if cost is None else cost / len(choices)
    served, tier = str(answer.get("model") or ""), service_tier(answer)
    replies = [_reply(choice, message, is_spent=is_spent(message)) for choice, message in choices]
    if call_usage == Usage() and prompt is not None:
        texts = "".join(reply.reasoning + reply.text for reply in replies)
        call_usage = estimated_usage(prompt, texts, limit if replies[0].finish_reason == "length" else None)
    return [
        replace(
            reply,
            served_model=served,
            request_id=request_id,
            usage=usage,
            # No tokens were reported, nor is there a prompt to estimate them from.
            cost_usd=cost_share if price is None or usage == Usage() else price.of(usage),
            seconds=seconds,
            service_tier=tier,
        )
        for reply, usage in zip(replies, shares(call_usage, len(choices)), strict=True)
    ]


def _failure_in(
    choice: Mapping[str, Any], message: Mapping[str, Any], url: str, model: str, *, is_spent: bool
) -> BackendError | None:
    """Return the failure that a choice reports although the status is 200; None if it has a reply."""
    inner = choice.get("error")
    if inner:
        code = inner.get("code") if isinstance(inner, Mapping) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        error = errors.from_status(status, {}, inner, url=url, model=model)
        # The call itself was accepted, so that only the provider's failure may be transient, never the key's.
        return BackendError(f"the provider failed: {error.message}", kind="provider", transient=True)
    reason, content = choice.get("finish_reason"), message.get("content")
    finish = _FINISH.get(reason.lower()) if isinstance(reason, str) else None
    # Gemini sends no message with a reply that it withheld or cut.
    has_message = isinstance(choice.get("message"), Mapping) or finish not in (None, "stop")
    for name, value, is_valid in (
        ("finish_reason", reason, isinstance(reason, str | None)),
        ("message", choice.get("message"), has_message),
        ("content", content, isinstance(content, str | list | None)),
    ):
        if not is_valid:
            text = f"the answer of {url} for {model} has a {name} of JSON type {_JSON_TYPES[type(value)]}"
            return BackendError(text, kind="response", transient=True)
    if finish == "failed":
        text = errors.clean(f"the provider failed: finish_reason '{reason}'")
        return BackendError(text, kind="provider", transient=True)
    if reason and finish is None and not _text(message.get("content")).strip():
        text = errors.clean(f"the reply is empty, and its finish_reason '{reason}' is unknown")
        return BackendError(text, kind="response", transient=True)
    thoughts = _reasoning_field(message)
    is_answer = _text(content).strip() or _refusal(message) or message.get("tool_calls")
    if thoughts and finish in (None, "stop") and not is_spent and not is_answer:
        text = f"the reply has text only in '{thoughts}': check the server's reasoning parser"
        # All replies are the same before the first success. After it, the error is that of one item.
        return BackendError(errors.clean(text), kind="response", fatal=True)
    return None


def _refusal(message: Mapping[str, Any]) -> str:
    refusal = message.get("refusal") or member(message, "provider_specific_fields", "refusal")
    return refusal if isinstance(refusal, str) else ""


def unknown_reasons(answer: Mapping[str, Any]) -> set[str]:
    """Return the finish reasons of an answer whose meaning is unknown."""
    reasons = [choice.get("finish_reason") for choice, _ in _messages(answer)]
    return {errors.clean(r) for r in reasons if isinstance(r, str) and r and r.lower() not in _FINISH}


def _reply(choice: Mapping[str, Any], message: Mapping[str, Any], *, is_spent: bool) -> Reply:
    """Return the text, thoughts, finish reason and log probabilities of one choice.

    :param is_spent: the call took all tokens of its limit. Some servers do not say that they cut a thought.
    """
    text, finish = (
        _text(message.get("content")),
        _FINISH.get((choice.get("finish_reason") or "").lower(), "stop"),
    )
    refusal = _refusal(message)
    if refusal and not text:
        text, finish = refusal, "content_filter"
    elif is_spent and not text.strip() and finish == "stop":
        finish = "length"
    return Reply(text, finish_reason=finish, logprobs=_logprobs(choice), reasoning=_reasoning(message))
