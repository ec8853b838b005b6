"""The tokens that answers report, whatever the API calls them."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Price, Reply, Usage, estimated_tokens
from pytest_llmprops.models.api import anthropic, responses
from pytest_llmprops.models.api.replies import chat_replies
from pytest_llmprops.models.api.usage import service_tier, shares, usage_of
from tests.support.backends import error

#: usage of an answer, and its tokens; the objects are those of the pages
REPORTED: dict[str, tuple[dict[str, Any], Usage]] = {
    # https://developers.openai.com/docs/guides/prompt-caching
    "OpenAI": (
        {"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
         "prompt_tokens_details": {"cached_tokens": 1920},
         "completion_tokens_details": {"reasoning_tokens": 0}},
        Usage(2006, 300, 0, 1920),
    ),
    # https://api-docs.deepseek.com/guides/kv_cache
    "DeepSeek": (
        {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
         "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
        Usage(100, 7, 0, 64),
    ),
    # https://platform.moonshot.ai/docs/api/chat
    "Kimi": (
        {"prompt_tokens": 19, "completion_tokens": 21, "total_tokens": 40, "cached_tokens": 10},
        Usage(19, 21, 0, 10),
    ),
    # https://openrouter.ai/docs/prompt-caching
    "OpenRouter": (
        {"prompt_tokens": 10339, "completion_tokens": 60, "total_tokens": 10399,
         "prompt_tokens_details": {"cached_tokens": 10318, "cache_write_tokens": 20}},
        Usage(10339, 60, 0, 10318, 20),
    ),
    # https://github.com/Wei-Shaw/sub2api/issues/5771
    "xAI": (
        {"prompt_tokens": 10120, "completion_tokens": 1499, "total_tokens": 14428,
         "prompt_tokens_details": {"cached_tokens": 128},
         "completion_tokens_details": {"reasoning_tokens": 2809}},
        Usage(10120, 1499 + 2809, 2809, 128),
    ),
    # https://github.com/router-for-me/CLIProxyAPI/issues/5733
    "Gemini": (
        {"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 81,
         "completion_tokens_details": {"reasoning_tokens": 60}},
        Usage(21, 60, 60),
    ),
    "none": ({}, Usage()),
    "hostile": (
        {"prompt_tokens": -5, "completion_tokens": True, "total_tokens": 1e300,
         "prompt_tokens_details": {"cached_tokens": 10**30}, "cached_tokens": "7"},
        Usage(),
    ),
    "more cached than sent": (
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9}},
        Usage(5, 0, 0, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTED)
def test_tokens_of_the_chat_format(name: str) -> None:
    """Cached tokens are a part of the prompt's, and thoughts a part of the output's."""
    reported, tokens = REPORTED[name]
    assert usage_of({"usage": reported}) == tokens


def test_tokens_of_other_apis() -> None:
    """Input tokens of Anthropic are those outside of the cache; the Responses API has other names.

    https://platform.claude.com/docs/build-with-claude/prompt-caching,
    https://platform.openai.com/docs/api-reference/responses/object
    """
    usage: dict[str, Any] = {
        "input_tokens": 50, "cache_read_input_tokens": 100_000, "cache_creation_input_tokens": 248,
        "output_tokens": 503, "service_tier": "priority",
    }  # fmt: skip
    answer = anthropic.chat_answer({"model": "claude", "content": [], "usage": usage})
    assert (usage_of(answer), service_tier(answer)) == (Usage(100_298, 503, 0, 100_000, 248), "priority")
    usage = {
        "input_tokens": 328, "input_tokens_details": {"cached_tokens": 256}, "output_tokens": 52,
        "output_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 380,
    }  # fmt: skip
    answer = responses.chat_answer({"model": "gpt-5", "output": [], "usage": usage, "service_tier": "flex"})
    assert (usage_of(answer), service_tier(answer)) == (Usage(328, 52, 40, 256), "flex")


@pytest.mark.parametrize(
    ("tier", "shown"), [("sk-secret\x1b[2J", "other"), ("Flex", "flex"), ("default", ""), (None, ""), (7, "")]
)
def test_only_a_tier_with_a_price_of_its_own_is_named(tier: Any, shown: str) -> None:
    """A server may send any text, also a key."""
    assert service_tier({"service_tier": tier}) == shown


def test_shares_have_the_tokens_of_caches() -> None:
    """The parts of a call for several samples add up to it; what cannot be divided goes to the first ones."""
    parts = shares(Usage(7, 3, 1, 5, 2, estimated=True), 3)
    numbers = ((3, 1, 1, 2, 1), (2, 1, 0, 2, 1), (2, 1, 0, 1, 0))
    assert parts == [Usage(*part, estimated=True) for part in numbers]


def _replies(
    answer: dict[str, Any], price: Price | None = None, limit: int | None = None, prompt: str = ""
) -> list[Reply] | BackendError:
    return chat_replies(answer, 2, price, 1.0, "http://host", "m", limit, prompt)


def test_tokens_are_estimated_from_the_texts() -> None:
    """4 bytes are one token; a reply that its limit cut has all tokens of the limit."""
    message = {"content": "Paris", "reasoning_content": "France is a country. " * 10}
    price = Price(1.0, 10.0, "")
    for finish, completion in (("stop", (5 + 210) / 4), ("length", 100)):
        answer = {"choices": [{"finish_reason": finish, "message": message}]}
        replies = _replies(answer, price, 100, "The capital of France?" * 20)
        assert isinstance(replies, list)
        [reply] = replies
        assert reply.usage == Usage(110, round(completion), estimated=True)
        assert reply.cost_usd == pytest.approx(price.of(reply.usage))
    assert estimated_tokens("请把下面的句子切分成词") == 8


def test_an_error_has_what_is_billed_for_it() -> None:
    """An answer without a reply may have tokens, which the provider bills; without tokens it bills nothing."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    failed = {"choices": [{"finish_reason": "error", "message": {"content": ""}}]}
    billed = error(_replies({**failed, "usage": usage}, Price(1e6, 1e7, ""))).billed
    assert (billed.usage, billed.cost_usd) == (Usage(10, 2), 30.0)
    assert error(_replies({"usage": usage})).billed.cost_usd is None
    assert error(_replies(failed)).billed is None


def test_thoughts_of_a_reply() -> None:
    """The server counts them, or they are what is left beside the text; without thoughts there are none."""
    assert Reply("yes", usage=Usage(9, 30, 25)).thinking_tokens == 25
    assert Reply("yes!", reasoning="Hmm.", usage=Usage(9, 30)).thinking_tokens == 29
    assert Reply("yes", usage=Usage(9, 30)).thinking_tokens == 0
