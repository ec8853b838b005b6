"""``completions:NAME``: base models of servers with OpenAI's older API, ``/v1/completions``.

A likelihood is one call: the text, and the text with each option, as a list of prompts. ``echo`` and ``logprobs`` make
the server return the log probability of every token of them. No tokenizer is needed here: the tokens that the text has
alone are those before the option.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Completion, Likelihood, Reply, Usage
from pytest_llmprops.models.api import openai
from pytest_llmprops.models.api.client import ProviderModel
from pytest_llmprops.models.api.deviations import Deviations, add_settings
from pytest_llmprops.models.base import AS_TEXT, CallOptions, Result, scored
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.sampling import common_prefix
from pytest_llmprops.models.spec import ModelSpec

_FIXED = ("model", "prompt", "stream", "n", "echo", "best_of")


@dataclass(frozen=True, slots=True)
class _Echo:
    """Texts whose tokens the server scores. It generates one token after each, because some refuse to generate none."""

    texts: tuple[str, ...]
    extra: tuple[tuple[str, Any], ...] = ()


def _as_chat(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer of ``/v1/completions`` in the form of ``/v1/chat/completions``, choices in their order."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        return answer
    indices = [choice.get("index") for choice in choices]
    if all(isinstance(index, int) for index in indices):
        choices = [
            choice for _, choice in sorted(zip(indices, choices, strict=True), key=lambda pair: pair[0])
        ]
    return {**answer, "choices": [{**choice, **_message(choice)} for choice in choices]}


def _message(choice: Mapping[str, Any]) -> dict[str, Any]:
    found = choice.get("logprobs")
    found = found if isinstance(found, Mapping) else {}
    tokens, values = found.get("tokens"), found.get("token_logprobs")
    entries = None
    if isinstance(tokens, list) and isinstance(values, list) and len(tokens) == len(values):
        # The first token of a text has no probability: null or NaN. It never counts.
        entries = [
            {"token": token, "logprob": -math.inf if value is None or value != value else value}
            for token, value in zip(tokens, values, strict=True)
        ]
    return {"message": {"content": choice.get("text")}, "logprobs": {"content": entries}}


class CompletionsModel(ProviderModel):
    """A base model behind ``/v1/completions``; calls may run concurrently."""

    def __init__(self, spec: ModelSpec, options: CallOptions) -> None:
        provider = replace(openai.PROVIDER, path="/completions")
        super().__init__(spec, options, provider, Deviations(), backend="completions")

    async def completion(self, requests: Sequence[Completion]) -> list[Result]:
        """Return one result per request, in order."""
        return list(await asyncio.gather(*map(self._continued, requests)))

    async def likelihood(self, requests: Sequence[Likelihood]) -> list[Result]:
        """Return one result per request, in order."""
        return list(await asyncio.gather(*map(self._scored, requests)))

    def deviations(self) -> Sequence[str]:
        """Return that prompts are not those of chat models, and the parameters that had to be left out so far."""
        return (AS_TEXT, *super().deviations())

    def body(self, request: Any, count: int) -> dict[str, Any]:
        """Return the body of a call, before any deviation."""
        if isinstance(request, _Echo):
            settings = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0.0}
            return {"model": self.name, "prompt": list(request.texts), **settings}
        return add_settings({"model": self.name, "prompt": request.text}, request, _FIXED)

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        content, headers = await self.client.post(body)
        answer = self.parsed(content, headers)
        return answer if isinstance(answer, BackendError) else _as_chat(answer)

    async def _continued(self, request: Completion) -> Result:
        replies = await self.replies(request, 1)
        return replies if isinstance(replies, BackendError) else replies[0]

    async def _scored(self, request: Likelihood) -> Result:
        texts = (request.text, *(request.text + option for option in request.options))
        replies = await self.replies(_Echo(texts), len(texts))
        if isinstance(replies, BackendError):
            return replies
        usage, costs = _sum_of(replies), [reply.cost_usd for reply in replies]
        call = replace(
            replies[0], usage=usage, cost_usd=None if None in costs else math.fsum(filter(None, costs))
        )
        if len(replies) < len(texts):
            problem = f"returned {len(replies)} choices for {len(texts)} prompts"
            return self._refused(problem, call)
        if replies[0].finish_reason == "content_filter":
            error = BackendError(f"{self.url}: a content filter refused to score a text", kind="response")
            error.billed = call
            return error
        echoed = [_tokens(text, reply) for text, reply in zip(texts, replies, strict=True)]
        generated = _generated(usage, echoed)
        if generated is None:
            return self._refused("returned no log probabilities of the prompt's tokens", call)
        before, *wholes = [tokens[: len(tokens) - generated] for tokens in echoed]
        options = []
        for tokens in wholes:
            start = common_prefix([token for token, _ in before], [token for token, _ in tokens])
            # A token that the option changes counts in both texts, and the difference is the option's.
            logprob = _sum(tokens[start:]) - _sum(before[start:])
            if start == len(tokens) or not math.isfinite(logprob):
                return self._refused("returned no log probability of some of the prompt's tokens", call)
            options.append((logprob, len(tokens) - start))
        return replace(call, text="", value=scored(options), finish_reason="stop", logprobs=None)

    def _refused(self, problem: str, call: Reply) -> BackendError:
        error = BackendError(
            f"{self.url} {problem}; likelihoods need a server that supports echo and logprobs in"
            " /v1/completions, such as vLLM",
            kind="response",
            fatal=True,
        )
        error.billed = call
        return error


def _sum_of(replies: Sequence[Reply]) -> Usage:
    """Return the tokens of one call from those of its replies, which are all reported or all estimated."""
    totals = Counter[str]()
    for reply in replies:
        totals.update(reply.usage.counts)
    return replace(replies[0].usage, **totals)  # type: ignore[arg-type]


def _tokens(text: str, reply: Reply) -> list[tuple[str, float]]:
    """Return (token, log probability) of the echoed text and of the generated token; empty if nothing was echoed."""
    if not reply.text.startswith(text) or reply.logprobs is None:
        return []
    return [(str(entry["token"]), float(entry["logprob"])) for entry in reply.logprobs]


def _generated(usage: Usage, echoed: Sequence[Sequence[tuple[str, float]]]) -> int | None:
    """Return how many of the last tokens of each text were generated; None if not all texts were echoed.

    Some servers do not list a token that ends the text. The usage of the call says so.
    """
    if min(map(len, echoed)) < 2:
        return None
    for generated in (0, 1):
        if sum(map(len, echoed)) - generated * len(echoed) == usage.prompt_tokens:
            return generated
    # Without a usage, each text is followed by the one token that was requested.
    return 1 if usage.estimated else None


def _sum(tokens: Sequence[tuple[str, float]]) -> float:
    return math.fsum(logprob for _, logprob in tokens)


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    if "n" in spec.params:
        raise spec.error("'n' is not a parameter of completions")
    openai.BACKEND.check(spec, options)
    return lambda: CompletionsModel(spec, options)


BACKEND = Backend(
    _check,
    always("completion", "likelihood"),
    remote=True,
    missing=openai.BACKEND.missing,
    example="completions:NAME",
    serves="a base model",
    keys=openai.BACKEND.keys,
)
