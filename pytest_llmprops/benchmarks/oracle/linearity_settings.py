"""The settings of the linearity checker, and the bound that an acceptance has under them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import get_args

from pytest_llmprops.benchmarks.oracle.choices import Draw, Rule
from pytest_llmprops.benchmarks.oracle.scheme import AskChat, Bound, Oracle
from pytest_llmprops.core.linearity import (
    all_pass,
    different_draws,
    draws,
    informative_draws,
    needed_tests,
    rejection_bound,
    vectors_away,
)

#: distances for which a bound is printed (section 3)
EPSILONS = (0.1, 0.05)
#: printed with every acceptance under ``any``
NO_POWER = "the rule any has no power against noise"
#: limits of ``epsilon`` and ``delta``, which need at most 232 tests per sentence
LOWEST_EPSILON, LOWEST_DELTA = 0.01, 0.001
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LinearitySettings:
    """How a sentence is measured; the defaults are the paper's.

    :param samples: samples per sentence.
    :param tests: tests per sentence; not used with ``epsilon`` and ``delta``.
    :param rule: the rule that decides whether a test passes.
    :param draw: ``uniform`` also draws tests that every extractor passes; ``informative`` never does.
    :param synonym_votes: samples of prompts 3 and 4.
    :param named_votes: samples of prompt 2.
    :param paraphrase: whether R(x) is an entity-preserving paraphrase of the sentence with replacements (section 3.2).
    :param epsilon, delta: test a sentence until an extractor ``epsilon``-far from linear would have passed with
        probability at most ``delta``, or until a test fails. None: ``tests`` tests.
    """

    samples: int = 11
    tests: int = 5
    rule: Rule = "any"
    draw: Draw = "uniform"
    synonym_votes: int = 7
    named_votes: int = 11
    paraphrase: bool = False
    temperature: float | None = 1.0
    max_tokens: int | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("samples", "tests", "synonym_votes", "named_votes"):
            if not 1 <= getattr(self, name) <= 100:
                raise ValueError(f"{name} must be from 1 to 100")
        if self.rule not in get_args(Rule):
            raise ValueError(f"rule must be one of {', '.join(get_args(Rule))}")
        if self.draw not in get_args(Draw):
            raise ValueError(f"draw must be one of {', '.join(get_args(Draw))}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError("temperature must be from 0 to 2, or none")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1, or none")
        self._check_target()

    def _check_target(self) -> None:
        if self.epsilon is None and self.delta is None:
            return
        if self.epsilon is None or self.delta is None:
            missing = "epsilon" if self.epsilon is None else "delta"
            raise ValueError(f"epsilon and delta are set together; {missing} is missing")
        if not LOWEST_EPSILON <= self.epsilon < 1:
            raise ValueError(f"epsilon must be at least {LOWEST_EPSILON} and below 1, or none")
        if not LOWEST_DELTA <= self.delta < 1:
            raise ValueError(f"delta must be at least {LOWEST_DELTA} and below 1, or none")
        if self.rule == "any":
            raise ValueError(
                "epsilon and delta need a rule with a bound: set rule to majority or single, not any"
            )
        if self.draw != "informative":
            raise ValueError("epsilon and delta need tests that can fail: set draw to informative")

    @property
    def target(self) -> tuple[float, float] | None:
        """``epsilon`` and ``delta``, if tests are run until they are reached; otherwise None."""
        return None if self.epsilon is None or self.delta is None else (self.epsilon, self.delta)

    def pairs(self, rng: random.Random, m: int) -> list[tuple[int, int]]:
        """Draw x and y of the tests of a sentence with m entities, in the order in which they are run.

        With a target, they are drawn without replacement; otherwise with replacement, as in the paper.
        """
        if self.target is not None:
            return different_draws(rng, m, needed_tests(m, *self.target))
        return (draws if self.draw == "uniform" else informative_draws)(rng, m, self.tests)

    def oracle(self, ask: AskChat) -> Oracle:
        """Return an oracle with the temperature and maximum length of these settings."""
        return Oracle(ask, temperature=self.temperature, max_tokens=self.max_tokens)


PAPER = LinearitySettings()
#: at most 27 samples of tested sentences instead of 165, a rule with a bound, and no test that cannot fail
QUICK = LinearitySettings(
    samples=3,
    tests=3,
    rule="majority",
    draw="informative",
    synonym_votes=1,
    named_votes=1,
    max_tokens=400,
)


def bound_of(settings: LinearitySettings) -> Bound:
    """Return the bound of an acceptance under these settings (Theorem 3.1 over the tests of one sentence).

    Under ``any`` there is no bound, because a test is the best of all combinations of samples. If a reply cannot be
    read, f has no value and the test fails. The bound then applies to extractors that are far for every such value.

    The bound of informative draws needs f(0) = 1...1: the answer about the sentence has none of the replacements. The
    synonym generator refuses replacements that are an entity of the answer, or contain one.

    f is the function that the samples of this run determine, one value per vector. Another run's samples may determine
    another function.
    """
    if settings.target is not None:
        epsilon, delta = settings.target
        return _bound(epsilon, 1 - delta)
    if settings.rule == "any":
        return Bound(f"no bound: best of {settings.samples**3:,} combinations; {NO_POWER}")
    bounds = [_bound(epsilon, rejection_bound(epsilon, settings.tests)) for epsilon in EPSILONS]
    return replace(bounds[0], text="; ".join(bound.text for bound in bounds))


def reached_bound(settings: LinearitySettings, m: int, tests: int, *, is_known: bool) -> Bound:
    """Return the bound of a sentence with m entities whose ``tests`` tests passed.

    :param is_known: whether all vectors are known, and with them f.
    """
    if settings.target is None:
        return bound_of(settings)
    epsilon = settings.target[0]
    if is_known:
        return Bound("every set of replacements was asked about: the extraction is linear", epsilon, 1.0)
    rejects = 1 - all_pass(m, tests, vectors_away(epsilon, m))
    # Rounded down, so that the text claims no more than the tests do.
    return _bound(epsilon, math.floor(1000 * rejects + _ROUNDING) / 1000)


def _bound(epsilon: float, probability: float) -> Bound:
    text = (
        f"an extractor {epsilon:g}-far from linear would have been rejected with probability at least"
        f" {probability:.3f}"
    )
    return Bound(text, epsilon, probability)
