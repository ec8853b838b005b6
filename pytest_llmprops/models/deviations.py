"""The body of a chat call, and the changes to it that an API forces.

Each change is made once per model, applies to all later calls and is listed in the run's record. Calls that were in
flight at the first refusal are adapted and resent as well; they do not count as failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Chat

#: added once to the token limit of a reasoning model that uses all of it for hidden tokens
MORE_TOKENS = 4096
_OLD, _NEW = "max_tokens", "max_completion_tokens"
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
)
_FIXED = ("model", "messages", "stream", "n")


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


class Deviations:
    """The parameters that one model's API refuses, and what is sent instead.

    :param completion_tokens: the API is known to take ``max_completion_tokens``, the newer name of ``max_tokens``.
        Sending that name is then not a deviation.
    :param required_limit: tokens sent as the limit of calls that have none, if the API requires one.
    """

    def __init__(self, *, completion_tokens: bool = False, required_limit: int | None = None) -> None:
        self._tokens_as = _NEW if completion_tokens else None
        self._required_limit, self._is_limited = required_limit, False
        self._refused: list[str] = []
        self.extra_tokens = 0

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Apply all deviations so far to ``body``, in place, and return it."""
        for name in self._refused:
            if name not in (_OLD, _NEW):
                body.pop(name, None)
        if self._required_limit is not None and body.keys().isdisjoint((_OLD, _NEW)):
            body[_OLD] = self._required_limit
            self._is_limited = True
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

    def adapt(self, name: str, sent: Mapping[str, Any]) -> bool:
        """Record that the API refused ``name`` in the body ``sent``; return whether to resend the adapted call."""
        if name in (_OLD, _NEW):
            other = _NEW if name == _OLD else _OLD
            if other in self._refused:
                # The API accepts neither name. A call without a token limit could cost any amount.
                return False
            self._note(name)
            self._tokens_as = other
            return True
        if name not in _OPTIONAL or name not in sent:
            return False
        self._note(name)
        if name == "logprobs":
            self._note("top_logprobs")
        return True

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.append(name)

    def raise_budget(self, sent: Mapping[str, Any], extra_when_sent: int) -> bool:
        """Raise the token limit, once per model, after a call that used all of it for hidden tokens.

        :param extra_when_sent: :attr:`extra_tokens` when the body ``sent`` was built.
        :return: whether to send the call again.
        """
        if _OLD not in sent and _NEW not in sent:
            return False
        if self.extra_tokens == 0:
            self.extra_tokens = MORE_TOKENS
        return extra_when_sent < self.extra_tokens

    def phrases(self) -> Sequence[str]:
        """Return one short phrase per deviation, in the order of the parameters' names."""
        texts = []
        for name in sorted(self._refused):
            if name in (_OLD, _NEW):
                texts.append(f"{name} sent as {_NEW if name == _OLD else _OLD}")
            elif name != "top_logprobs" or "logprobs" not in self._refused:
                texts.append(f"{name} left out")
        if self._is_limited:
            texts.append(f"at most {self._required_limit} tokens, because the API requires a limit")
        if self.extra_tokens:
            texts.append(f"token budget raised by {self.extra_tokens}")
        return tuple(texts)
