"""Between OpenAI's chat format, which the rest of this package speaks, and Anthropic's Messages API.

Calls and lines of batches are written by the same function, so that both ask the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_llmprops.models.deviations import Deviations

#: the Messages API requires a limit; sent where a benchmark sets none
MOST_TOKENS = 4096
#: parameters of OpenAI's format that the Messages API does not have
_ABSENT = ("logprobs", "top_logprobs", "seed", "presence_penalty", "frequency_penalty")
_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def message_params(body: Mapping[str, Any], deviations: Deviations) -> dict[str, Any]:
    """Return the parameters of the Messages API for the body of a chat call, see :func:`chat_body`.

    System messages become the parameter ``system``. What the API does not have is left out, as a deviation. So are stop
    sequences of white space only, which it refuses.
    """
    params = dict(body)
    for name in _ABSENT:
        if name in params:
            deviations.adapt(name, params)
            del params[name]
    stops = params.pop("stop", None)
    if stops:
        listed = [stops] if isinstance(stops, str) else list(stops)
        if all(stop.strip() for stop in listed):
            params["stop_sequences"] = listed
        else:
            deviations.adapt("stop", body)
    if "max_completion_tokens" in params:
        params["max_tokens"] = params.pop("max_completion_tokens")
    messages = params.pop("messages")
    system = [message["content"] for message in messages if message["role"] == "system"]
    params["messages"] = [message for message in messages if message["role"] != "system"]
    if system:
        params["system"] = "\n\n".join(system)
    return params


def chat_answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the Messages API in OpenAI's chat format; without choices if it is not a message."""
    content = message.get("content")
    if not isinstance(content, list):
        return {"model": message.get("model")}
    blocks = [block for block in content if isinstance(block, Mapping)]
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    is_thinking = any(block.get("type") in ("thinking", "redacted_thinking") for block in blocks)
    reason = message.get("stop_reason")
    finish = _FINISH.get(reason, "stop") if isinstance(reason, str) else reason
    choice = {
        "finish_reason": finish,
        "message": {"content": "".join(texts), "reasoning": "thinking" if is_thinking else None},
    }
    return {"model": message.get("model"), "choices": [choice], "usage": _usage(message.get("usage"))}


def _usage(usage: Any) -> dict[str, Any]:
    """Return the tokens of a call. Those that were written into or read from a cache of prompts are prompt tokens."""
    if not isinstance(usage, Mapping):
        return {}
    prompt = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    numbers = [usage.get(name) or 0 for name in prompt]
    total = sum(numbers) if all(isinstance(number, int) for number in numbers) else 0
    return {"prompt_tokens": total, "completion_tokens": usage.get("output_tokens")}
