"""OpenAI's chat format and its Responses API (https://platform.openai.com/docs/api-reference/responses)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_llmprops.models.api.client import Deviations

#: parameters of the chat format that the Responses API does not have
_NO_RESPONSES = ("stop", "seed", "logprobs", "top_logprobs", "n", "presence_penalty", "frequency_penalty")
_RESPONSES_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def response_params(body: Mapping[str, Any], deviations: Deviations) -> dict[str, Any]:
    """Return the parameters of the Responses API for the body of a chat call; what it does not have is left out."""
    params = dict(body)
    for name in _NO_RESPONSES:
        if name in params:
            deviations.adapt(name, params)
            del params[name]
    for name in ("max_tokens", "max_completion_tokens"):
        if name in params:
            # The API refuses less than 16 tokens.
            params["max_output_tokens"] = max(16, params.pop(name))
    params["input"] = params.pop("messages")
    # OpenAI would keep the conversation otherwise.
    params["store"] = False
    return params


def chat_answer(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the Responses API in the chat format; without choices if it has no output."""
    output = response.get("output")
    items = [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else None
    if items is None:
        return {"model": response.get("model")}
    contents = [
        part
        for item in items
        for part in ((item.get("content") if item.get("type") == "message" else None) or ())
        if isinstance(part, Mapping)
    ]
    thoughts = [
        part["text"]
        for item in items
        for part in ((item.get("summary") if item.get("type") == "reasoning" else None) or ())
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    ]
    message = {
        "content": "".join(p["text"] for p in contents if isinstance(p.get("text"), str)),
        "refusal": next((p["refusal"] for p in contents if isinstance(p.get("refusal"), str)), None),
        "reasoning": "\n".join(thoughts),
    }
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, Mapping) else None
    status = response.get("status")
    finish = "error" if status == "failed" else _RESPONSES_FINISH.get(str(why), why) if why else "stop"
    usage = response.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    hidden = usage.get("output_tokens_details")
    return {
        "model": response.get("model"),
        "choices": [{"finish_reason": finish, "message": message}],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "completion_tokens_details": hidden,
        },
    }
