"""The settings of the linearity checker, and the bound that an acceptance has under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pytest_llmprops.benchmarks.oracle.linear_tests import Rule
from pytest_llmprops.benchmarks.oracle.scheme import AskChat, Bound, Oracle
from pytest_llmprops.core.linearity import rejection_bound

#: how x and y of a test are drawn: uniformly from all vectors, as in the paper, or from the informative pairs
Draw = Literal["uniform", "informative"]
#: distances for which a bound is printed (section 3)
EPSILONS = (0.1, 0.05)
#: printed with every acceptance under ``any``
NO_POWER = "the rule any has no power against noise"


@dataclass(frozen=True, slots=True)
class LinearitySettings:
    """How a sentence is measured; the defaults are the paper's.

    :param samples: samples per sentence.
    :param tests: tests per sentence.
    :param rule: the rule that decides whether a test passes.
    :param draw: ``uniform`` also draws tests that every extractor passes; ``informative`` never does.
    :param synonym_votes: samples of prompts 3 and 4.
    :param named_votes: samples of prompt 2.
    :param paraphrase: whether R(x) is an entity-preserving paraphrase of the sentence with replacements (section 3.2).
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
    """
    if settings.rule == "any":
        return Bound(f"no bound: best of {settings.samples**3:,} combinations; {NO_POWER}")
    bounds = [(epsilon, rejection_bound(epsilon, settings.tests)) for epsilon in EPSILONS]
    text = "; ".join(
        f"an extractor {epsilon}-far from linear would have been rejected with probability at least {p:.3f}"
        for epsilon, p in bounds
    )
    return Bound(text, *bounds[0])
