"""Reproducible choice of the next token from logits, shared by all local models."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Completion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Logits = NDArray[np.float32]

#: the parameters of ``--llm-param`` that local models accept
EXTRA = ("top_k", "top_p", "min_p", "seed")
#: maximum tokens of a reply if the request sets no limit
MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Sampler:
    """Draws the tokens of one reply.

    At temperature 0, or without a temperature, it takes the most probable token. Otherwise the probabilities are those
    of the logits divided by the temperature. Three parameters restrict the candidates: the ``top_k`` most probable
    tokens, the smallest set with ``top_p`` of the probability mass, and the tokens at least ``min_p`` times as probable
    as the first. By default there is no restriction, as in the OpenAI API.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    random: random.Random

    @classmethod
    def of(cls, request: Chat | Completion, seed: int) -> Sampler:
        """Return the request's sampler, whose draws depend only on the request and ``seed``.

        :raises BackendError: for a parameter that local models do not accept, or a wrong value.
        """
        extra = dict(request.extra)
        unknown = sorted(set(extra) - set(EXTRA))
        if unknown:
            raise BackendError(
                f"local models do not accept the parameter '{unknown[0]}'; they accept {', '.join(EXTRA)}",
                kind="request",
                fatal=True,
            )
        temperature = request.temperature or 0.0
        if temperature < 0:
            raise BackendError(f"temperature is {temperature}; it must not be negative", kind="request")
        draw = [
            seed,
            extra.get("seed", 0),
            temperature,
            request.sample,
            [(m.role, m.content) for m in request.messages] if isinstance(request, Chat) else request.text,
        ]
        digest = hashlib.sha256(json.dumps(draw).encode()).digest()
        return cls(
            temperature=temperature,
            top_k=int(_number(extra, "top_k", 0)),
            top_p=_number(extra, "top_p", 1.0),
            min_p=_number(extra, "min_p", 0.0),
            random=random.Random(digest),
        )

    @property
    def greedy(self) -> bool:
        """True if the most probable token is always taken."""
        return self.temperature == 0.0 or self.top_k == 1

    def pick(self, logits: Logits) -> int:
        """Draw a token from the ``logits`` of the vocabulary, shape (vocabulary,)."""
        import numpy as np

        if self.greedy:
            return int(logits.argmax())
        # Exactly one random number per token, whatever the restrictions, so that the draws stay in step.
        uniform = self.random.random()
        scaled = (logits.astype(np.float64) - float(logits.max())) / self.temperature
        weights = np.exp(scaled)
        if self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0:
            order = np.argsort(-weights, kind="stable")
            ranked = weights[order]
            keep = np.ones(len(order), dtype=bool)
            if self.top_k > 0:
                keep[self.top_k :] = False
            keep &= ranked >= self.min_p * ranked[0]
            # A token stays while the mass before it is below top_p; the first always stays.
            before = np.concatenate(([0.0], np.cumsum(ranked * keep)[:-1]))
            keep &= before < self.top_p * float((ranked * keep).sum())
            keep[0] = True
            weights[order[~keep]] = 0.0
        total = np.cumsum(weights)
        return int(min(np.searchsorted(total, uniform * total[-1], side="right"), len(total) - 1))


def _number(extra: Mapping[str, Any], name: str, default: float) -> float:
    value = extra.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise BackendError(f"{name} must be a number, not {value!r}", kind="request", fatal=True) from None


def top_logprobs(logits: Logits, token: int, count: int) -> tuple[float, list[tuple[int, float]]]:
    """Return the natural log probability of ``token`` and of the ``count`` most probable tokens, best first.

    They are the model's probabilities at temperature 1, as in the OpenAI API.
    """
    import numpy as np

    wide = logits.astype(np.float64)
    peak = float(wide.max())
    norm = peak + float(np.log(np.exp(wide - peak).sum()))
    count = min(count, len(wide))
    indices = np.argpartition(-wide, count - 1)[:count]
    # Sorted by value, then by token, so that ties have a fixed order.
    best = sorted((int(i) for i in indices), key=lambda i: (-float(wide[i]), i))
    return float(wide[token]) - norm, [(i, float(wide[i]) - norm) for i in best]


def cut_at_stop(text: str, stop: tuple[str, ...]) -> str | None:
    """Return ``text`` up to its first stop string, or None if it has no stop string."""
    positions = [position for position in (text.find(s) for s in stop if s) if position >= 0]
    return text[: min(positions)] if positions else None


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the number of leading tokens that two prompts share."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(a), len(b)))
