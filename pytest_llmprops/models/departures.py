"""The body of a chat call, and the departures from it that an API forces on us.

A departure is made once per model, holds for all later calls, and is listed in the run's record. Calls
that were in flight when the first refusal came adapt on their own and count as no failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Chat

#: Room given once to a reasoning model that spends the whole budget on hidden tokens.
MORE_TOKENS = 4096
_OLD, _NEW = "max_tokens", "max_completion_tokens"
#: What a call can do without; a parameter that the user added and the API refuses stops the run instead.
_DISPENSABLE = (
    "temperature",
    "top_p",
    "stop",
    "logprobs",
    "top_logprobs",
    "seed",
    "presence_penalty",
    "frequency_penalty",
)
_FIXED = ("model", "messages", "stream", "n")


def body_of(model: str, request: Chat, count: int = 1) -> dict[str, Any]:
    """The JSON body that asks for ``count`` replies to ``request``, before any departure.

    :raises UsageError: when ``--llm-param`` names what the plugin itself decides.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
    }
    if count > 1:
        body["n"] = count
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body[_OLD] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = request.logprobs
    for name, value in request.extra:
        if name in _FIXED:
            raise UsageError(f"--llm-param {name}: this is set by the plugin")
        if name in (_OLD, _NEW):
            body.pop(_OLD, None)
        body[name] = value
    return body


class Departures:
    """What one model's API refuses, and what is sent instead.

    :param completion_tokens: the API is known to take ``max_completion_tokens``, the later name of
        ``max_tokens``; sending it then is no departure.
    """

    def __init__(self, *, completion_tokens: bool = False) -> None:
        self._tokens_as = _NEW if completion_tokens else None
        self._refused: list[str] = []
        self.extra_tokens = 0

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """``body`` with all departures so far made in place."""
        for name in self._refused:
            if name not in (_OLD, _NEW):
                body.pop(name, None)
        if self._tokens_as is not None:
            for name in (_OLD, _NEW):
                if name in body:
                    body[self._tokens_as] = body.pop(name)
                    break
        if self.extra_tokens:
            for name in (_OLD, _NEW):
                if isinstance(body.get(name), int):
                    body[name] += self.extra_tokens
        return body

    def refused(self, name: str, sent: Mapping[str, Any]) -> bool:
        """Note that ``name`` was refused in the call ``sent``; whether to send that call again, adapted."""
        if name in (_OLD, _NEW):
            other = _NEW if name == _OLD else _OLD
            if other in self._refused:
                # Neither name is taken: a call without a bound on its cost is not made.
                return False
            self._note(name)
            self._tokens_as = other
            return True
        if name not in _DISPENSABLE or name not in sent:
            return False
        self._note(name)
        if name == "logprobs":
            self._note("top_logprobs")
        return True

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.append(name)

    def raise_budget(self, sent: Mapping[str, Any], extra_when_sent: int) -> bool:
        """Whether to send a call again that spent its budget on hidden tokens; the budget is raised once."""
        if _OLD not in sent and _NEW not in sent:
            return False
        if self.extra_tokens == 0:
            self.extra_tokens = MORE_TOKENS
        return extra_when_sent < self.extra_tokens

    def phrases(self) -> Sequence[str]:
        """The departures, each in one short phrase, in the order of the parameters' names."""
        told = []
        for name in sorted(self._refused):
            if name in (_OLD, _NEW):
                told.append(f"{name} sent as {_NEW if name == _OLD else _OLD}")
            elif name != "top_logprobs" or "logprobs" not in self._refused:
                told.append(f"{name} left out")
        if self.extra_tokens:
            told.append(f"token budget raised by {self.extra_tokens}")
        return tuple(told)
