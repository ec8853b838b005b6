"""OpenAI's chat format and its Responses API (https://platform.openai.com/docs/api-reference/responses)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_llmprops.models.api.deviations import Deviations

#: parameters of the chat format that the Responses API does not have
_NO_RESPONSES = ("stop", "seed", "logprobs", "top_logprobs", "n", "presence_penalty", "frequency_penalty")
#: parameters of the Responses API that stand for those of the chat format
CHAT_NAMES = {"text": "response_format"}
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
    if "response_format" in params:
        params["text"] = {"format": params.pop("response_format")}
    params["input"] = params.pop("messages")
    # OpenAI would keep the conversation otherwise.
    params["store"] = False
    return params


def _parts(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a message, or of the summary of thoughts."""
    listed = item.get("summary") if item.get("type") == "reasoning" else item.get("content")
    return [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else []


def _texts(parts: Iterable[Mapping[str, Any]]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def chat_answer(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the Responses API in the chat format; without choices if it has no output."""
    output = response.get("output")
    items = [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else None
    if items is None:
        return {"model": response.get("model")}
    messages = [item for item in items if item.get("type") == "message"]
    # What a model says before its answer is not part of it (gpt-5.3-codex and later).
    answers = [item for item in messages if item.get("phase") == "final_answer"]
    answers = answers or [item for item in messages if item.get("phase") != "commentary"]
    thoughts = [
        item for item in items if item.get("type") == "reasoning" or item.get("phase") == "commentary"
    ]
    parts = [part for item in answers for part in _parts(item)]
    message = {
        "content": "".join(_texts(parts)),
        "refusal": next((p["refusal"] for p in parts if isinstance(p.get("refusal"), str)), None),
        "reasoning": "\n".join(_texts(part for item in thoughts for part in _parts(item))),
    }
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, Mapping) else None
    status = response.get("status")
    finish = "error" if status == "failed" else _RESPONSES_FINISH.get(str(why), why) if why else "stop"
    usage = response.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    return {
        "model": response.get("model"),
        "service_tier": response.get("service_tier"),
        "choices": [{"finish_reason": finish, "message": message}],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "total_tokens": usage.get("total_tokens"),
            "prompt_tokens_details": usage.get("input_tokens_details"),
            "completion_tokens_details": usage.get("output_tokens_details"),
        },
    }
