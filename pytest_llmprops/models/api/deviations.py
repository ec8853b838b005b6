"""The body of a call in OpenAI's chat format, and the parameters that an API forces to leave out or to change.

A deviation is made once per model, applies to all later calls and is listed in the run's record. Calls that were in
flight at the first refusal are adapted and resent as well; they do not count as failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Chat, Completion, Message, without_system

#: the names of the token limit
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
#: sent in place of 0 to an API whose temperature must be positive (MiniMax, TGI)
LEAST_TEMPERATURE = 0.01
#: parameters that are left out if the API refuses them; any other refused parameter of --llm-param stops the run
_OPTIONAL = (
    "temperature",
    "top_p",
    "stop",
    "logprobs",
    "top_logprobs",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
)
#: parameters that only the plugin sets
FIXED = ("model", "messages", "stream", "n")


def chat_body(model: str, request: Chat, count: int = 1) -> dict[str, Any]:
    """Return the JSON body that asks for ``count`` replies to ``request``, before any deviation.

    :raises UsageError: if ``--llm-param`` names a parameter that the plugin sets.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
    }
    if count > 1:
        body["n"] = count
    if request.response_format:
        body["response_format"] = {"type": request.response_format}
    if request.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = request.logprobs
    add_settings(body, request, FIXED)
    if NEW_LIMIT in body:
        # That of --llm-param replaces the benchmark's.
        body.pop(OLD_LIMIT, None)
    return body


def add_settings(body: dict[str, Any], request: Chat | Completion, fixed: Sequence[str]) -> dict[str, Any]:
    """Add temperature, token limit, stop texts and ``--llm-param`` to a body; return it.

    :param fixed: parameters that only the plugin sets.
    :raises UsageError: if ``--llm-param`` names one of them.
    """
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body[OLD_LIMIT] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    for name, value in request.extra:
        if name in fixed:
            raise UsageError(f"--llm-param {name}: this is set by the plugin")
        body[name] = value
    return body


class Deviations:
    """The parameters that one model's API refuses, and what is sent instead.

    :param completion_tokens: the API is known to take ``max_completion_tokens``, the newer name of ``max_tokens``.
        Sending that name is then not a deviation.
    :param required_limit: tokens sent as the limit of calls that have none, if the API requires one.
    """

    def __init__(self, *, completion_tokens: bool = False, required_limit: int | None = None) -> None:
        self._tokens_as = NEW_LIMIT if completion_tokens else None
        self._required_limit, self._is_limited = required_limit, False
        self._refused: list[str] = []
        self._least_temperature: float | None = None
        self._has_no_system = False

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Apply all deviations so far to ``body``, in place, and return it."""
        for name in self._refused:
            if name not in (OLD_LIMIT, NEW_LIMIT):
                body.pop(name, None)
        if self._required_limit is not None and body.keys().isdisjoint((OLD_LIMIT, NEW_LIMIT)):
            body[OLD_LIMIT] = self._required_limit
            self._is_limited = True
        if self._tokens_as is not None:
            for name in (OLD_LIMIT, NEW_LIMIT):
                if name in body:
                    body[self._tokens_as] = body.pop(name)
                    break
        temperature = body.get("temperature")
        if self._least_temperature is not None and isinstance(temperature, int | float):
            body["temperature"] = min(max(temperature, self._least_temperature), 1.0)
        if self._has_no_system and "messages" in body:
            messages = without_system([Message(**message) for message in body["messages"]])
            body["messages"] = [{"role": m.role, "content": m.content} for m in messages]
        return body

    def adapt(self, name: str, sent: Mapping[str, Any], *, is_range: bool = False) -> bool:
        """Record that the API refused ``name`` in the body ``sent``; return whether to resend the adapted call.

        :param is_range: the API takes the parameter, but not this value.
        """
        if name in (OLD_LIMIT, NEW_LIMIT):
            other = NEW_LIMIT if name == OLD_LIMIT else OLD_LIMIT
            if other in self._refused:
                # The API accepts neither name. A call without a token limit could cost any amount.
                return False
            self._note(name)
            self._tokens_as = other
            return True
        if name not in _OPTIONAL or name not in sent:
            return False
        if name == "temperature" and is_range and self._least_temperature is None:
            self._least_temperature = LEAST_TEMPERATURE
            return True
        self._note(name)
        if name == "logprobs":
            self._note("top_logprobs")
        return True

    def put_system_first(self, sent: Mapping[str, Any]) -> bool:
        """Record that the model has no role for system messages; return whether to resend the adapted call."""
        has_system = any(message["role"] == "system" for message in sent.get("messages", ()))
        self._has_no_system |= has_system
        return has_system

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.append(name)

    def phrases(self) -> Sequence[str]:
        """Return one short phrase per deviation, in the order of the parameters' names."""
        texts = []
        for name in sorted(self._refused):
            if name in (OLD_LIMIT, NEW_LIMIT):
                texts.append(f"{name} sent as {NEW_LIMIT if name == OLD_LIMIT else OLD_LIMIT}")
            elif name != "top_logprobs" or "logprobs" not in self._refused:
                texts.append(f"{name} left out")
        if self._is_limited:
            texts.append(f"at most {self._required_limit} tokens, because the API requires a limit")
        if self._least_temperature is not None:
            texts.append(f"temperature from {self._least_temperature:g} to 1")
        if self._has_no_system:
            texts.append("system message put before the first user message")
        return tuple(texts)
