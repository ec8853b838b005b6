"""Choosing tokens from logits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.local.sampling import Sampler, common_prefix, cut_at_stop, top_logprobs

LOGITS = np.log(np.array([0.05, 0.5, 0.3, 0.15], dtype=np.float32))


def sampler(temperature: float, **extra: float) -> Sampler:
    return Sampler.of(Chat.user("x", temperature=temperature, extra=tuple(sorted(extra.items()))), 0)


def test_temperature_zero_takes_the_best() -> None:
    """Temperature 0 and no temperature give the most probable token."""
    assert sampler(0.0).pick(LOGITS) == 1
    assert Sampler.of(Chat.user("x"), 0).pick(LOGITS) == 1


def test_draws_follow_the_probabilities() -> None:
    """At temperature 1 tokens occur with their probabilities (within 3 standard errors)."""
    drawn = sampler(1.0)
    counts = Counter(drawn.pick(LOGITS) for _ in range(4000))
    for token, p in enumerate(np.exp(LOGITS)):
        assert abs(counts[token] / 4000 - p) < 3 * (p * (1 - p) / 4000) ** 0.5


@pytest.mark.parametrize(
    ("extra", "left"),
    [
        ({"top_k": 2}, {1, 2}),
        ({"top_p": 0.7}, {1, 2}),
        ({"min_p": 0.5}, {1, 2}),
        ({"top_k": 1}, {1}),
        ({}, {0, 1, 2, 3}),
    ],
)
def test_truncated_distributions(extra: dict[str, float], left: set[int]) -> None:
    """top_k, top_p and min_p keep the tokens given by their definitions."""
    drawn = sampler(1.0, **extra)
    assert {drawn.pick(LOGITS) for _ in range(600)} == left


def test_draws_depend_on_seed_and_sample() -> None:
    """Seed, sample index and conversation each change the draws; the same request repeats them."""
    flat = np.zeros(1000, dtype=np.float32)

    def draws(request: Chat, seed: int = 0) -> list[int]:
        sampler = Sampler.of(request, seed)
        return [sampler.pick(flat) for _ in range(5)]

    base = Chat.user("x", temperature=1.0)
    assert draws(base) == draws(base)
    others = [
        draws(base, 1),
        draws(Chat.user("x", temperature=1.0, sample=1)),
        draws(Chat.user("y", temperature=1.0)),
    ]
    assert draws(base) not in others


@pytest.mark.parametrize("extra", [(("top_p", "much"),), (("unheard_of", 1),)])
def test_bad_parameters(extra: tuple[tuple[str, object], ...]) -> None:
    """A parameter that is unknown or not a number is an error that names it."""
    with pytest.raises(BackendError, match=extra[0][0]):
        Sampler.of(Chat.user("x", extra=extra), 0)


def test_negative_temperature_is_refused() -> None:
    with pytest.raises(BackendError, match="negative"):
        sampler(-1.0)


def test_logprobs() -> None:
    """Log probabilities are normalised and sorted from the best."""
    own, top = top_logprobs(LOGITS + 7, 3, 2)
    assert own == pytest.approx(np.log(0.15), abs=1e-6)
    assert [token for token, _ in top] == [1, 2]
    assert [value for _, value in top] == pytest.approx([np.log(0.5), np.log(0.3)], abs=1e-6)
    assert len(top_logprobs(LOGITS, 0, 99)[1]) == 4


def test_stop_strings() -> None:
    """A text is cut at the earliest stop string."""
    assert cut_at_stop("one two three", ("three", "two")) == "one "
    assert cut_at_stop("one", ("two", "")) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([], [1], 0),
        ([1, 2, 3], [1, 2, 3], 3),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2, 3], [1, 9, 3], 1),
        ([5], [6], 0),
    ],
)
def test_common_prefix(a: list[int], b: list[int], expected: int) -> None:
    """The common prefix is counted in tokens."""
    assert common_prefix(a, b) == expected
