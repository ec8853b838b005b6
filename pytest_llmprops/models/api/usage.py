"""The tokens and the service tier that an answer reports, whatever the API calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Price, Reply, Usage, estimated_tokens

#: a larger number is a server's mistake, and too large for a price
_MOST_TOKENS = 10**12
#: prompt tokens that the provider read from its cache: OpenAI and most others, DeepSeek, Kimi, Anthropic
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
    ("cache_read_input_tokens",),
)
#: prompt tokens that the provider wrote into its cache: OpenRouter, Anthropic
_WRITTEN = (("prompt_tokens_details", "cache_write_tokens"), ("cache_creation_input_tokens",))
#: tiers whose price is that of the table; the batch tier of Anthropic has the discount of a batch
_USUAL_TIERS = ("", "auto", "default", "standard", "on_demand", "batch")
#: tiers with a price of their own
_OTHER_TIERS = ("flex", "priority", "fast", "scale", "performance")


def member(values: Mapping[str, Any], *names: str) -> Any:
    """Return ``values[name][name]...``, or None if it does not exist."""
    value: Any = values
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """Return the tokens of the call; zeros if the server does not report them.

    xAI and Gemini's compatible API leave the thoughts out of ``completion_tokens`` and count them in ``total_tokens``
    (https://docs.x.ai/docs/key-information/consumption-and-rate-limits).
    """
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()
    prompt, completion = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    hidden = _tokens(usage, "completion_tokens_details", "reasoning_tokens")
    left_out = _tokens(usage, "total_tokens") - prompt - completion
    if left_out > 0:
        completion, hidden = completion + left_out, max(hidden, left_out)
    cached = min(prompt, next(filter(None, (_tokens(usage, *names) for names in _CACHED)), 0))
    written = next(filter(None, (_tokens(usage, *names) for names in _WRITTEN)), 0)
    return Usage(prompt, completion, hidden, cached, min(prompt - cached, written))


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    number = member(usage, *names)
    return number if type(number) is int and 0 <= number <= _MOST_TOKENS else 0


def estimated_usage(prompt: str, reply: str, most: int | None) -> Usage:
    """Return about how many tokens a call had whose server reports none.

    :param reply: the text of all choices, with the thoughts.
    :param most: the token limit of a reply that it cut; None for other replies.
    """
    sent, received = estimated_tokens(prompt), estimated_tokens(reply)
    return Usage(max(1, sent), max(1, received, most or 0), estimated=True)


def shares(usage: Usage, count: int) -> list[Usage]:
    """Split the usage of one call into ``count`` equal parts, one per choice; the first parts get the remainder.

    Servers do not report the usage of each choice. The parts add up to the call's usage, so the prompt counts once.
    """
    if count == 1:
        return [usage]
    parts = []
    for place in range(count):
        own = {name: total // count + (place < total % count) for name, total in usage.counts.items()}
        parts.append(replace(usage, **own))  # type: ignore[arg-type]
    return parts


def service_tier(answer: Mapping[str, Any]) -> str:
    """Return the tier that answered, if its price is not that of the table (OpenAI, Groq, Anthropic).

    A name that is not known is ``other``: a server may send any text.
    """
    tier = answer.get("service_tier") or member(answer, "usage", "service_tier")
    if not isinstance(tier, str) or tier.lower() in _USUAL_TIERS:
        return ""
    return tier.lower() if tier.lower() in _OTHER_TIERS else "other"


def with_bill(error: BackendError, answer: Mapping[str, Any], price: Price | None) -> BackendError:
    """Return the error of an answer that is not a reply, with what the provider bills for it if the answer says so."""
    usage = usage_of(answer)
    if usage != Usage():
        cost = None if price is None else price.of(usage)
        error.billed = Reply(usage=usage, cost_usd=cost, service_tier=service_tier(answer))
    return error
