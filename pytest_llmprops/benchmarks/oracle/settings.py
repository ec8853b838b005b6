"""The settings of a measurement with the oracle-checker."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pytest_llmprops.benchmarks.oracle.items import Draw, Indifferentiable, Matching, Phi, Rule, Source, Whole
from pytest_llmprops.benchmarks.oracle.scheme import Bound
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
#: tests per sentence in the paper
DEFAULT_TESTS = 5
#: lowest and highest values of settings
LIMITS = {
    **dict.fromkeys(("samples", "tests", "synonym_votes", "named_votes", "askings"), (1, 100)),
    **dict.fromkeys(("no_tests", "paraphrases", "shrink_calls"), (1, None)),
    "replications": (0, 100),
}
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class OracleSettings:
    """How sentences and pairs are checked. The defaults are the paper's.

    :param samples: samples per sentence.
    :param tests: tests per sentence; cannot be set with ``epsilon`` and ``delta``, which decide their number.
    :param rule: the rule that decides whether a test passes.
    :param draw: ``uniform`` also draws tests that every extractor passes; ``informative`` never does.
    :param synonym_votes: samples of prompts 3 and 4.
    :param named_votes: samples of prompt 2.
    :param paraphrase: whether R(x) is an entity-preserving paraphrase of the sentence with replacements (section 3.2).
    :param epsilon, delta: test a sentence until an extractor ``epsilon``-far from linear would have passed with
        probability at most ``delta``, or until a test fails. None: ``tests`` tests.
    :param alignment: how phrases are mapped: ``printed`` is Algorithm 1; ``covering`` must cover both sentences.
    :param whole: whether a phrase may be mapped to the whole other sentence.
    :param phi: the kind of alignment that decides; both kinds are recorded.
    :param no_tests: tests of a "no", each with its own coin.
    :param paraphrases: maximum paraphrases per sentence (prompt 7 asks for five).
    :param indifferentiable: how indifferentiable paraphrases are identified. ``asked``: by alignments whose phrase
        pairs the oracle confirms. ``potential``: by the potential alignments, without questions. ``random``: not at
        all, as in the third sanity check of section 5.2.1.
    :param source: how the source of a test is drawn. ``even``: by a fair coin if both sentences have paraphrases.
        ``indifferentiable``: only among sentences with an indifferentiable paraphrase, if there is one.
    :param distance: minimum distance of a paraphrase from its sentence: 1 minus the Jaccard index of their words.
        Nearer ones are not used, because the words they share would name their source.
    :param ask_identical: also ask whether two phrases with the same words are equivalent.
    :param reference: also try to prove pairs whose answer is not yes (the reference columns of table 3).
    :param askings: how often the sanity checks ask the same question.
    :param edits: also ask whether a sentence of the pair is equivalent to a minimal edit and to a neutral edit of it;
        at most two more questions, which change no verdict.
    :param temperature: of every question. Repeated samples are only meaningful above 0. None is the server's default;
        models on this machine then return the most probable reply each time.
    :param search: the sentences and pairs to search for counterexamples; ``rejected``: those that the measurement
        rejected.
    :param shrink_calls: maximum requests of one search. To isolate two of twelve entities takes about 35 sentences,
        each asked about ``samples`` times.
    :param replications: how often the sentences of a counterexample are asked about again, with new samples.
    :raises ValueError: if a setting is out of range.
    """

    samples: int = 11
    tests: int = DEFAULT_TESTS
    rule: Rule = "any"
    draw: Draw = "uniform"
    synonym_votes: int = 7
    named_votes: int = 11
    paraphrase: bool = False
    alignment: Matching = "printed"
    whole: Whole = "allow"
    phi: Phi = "or"
    no_tests: int = 1
    paraphrases: int = 5
    indifferentiable: Indifferentiable = "asked"
    source: Source = "indifferentiable"
    distance: float = 0.0
    ask_identical: bool = True
    reference: bool = True
    askings: int = 5
    edits: bool = False
    temperature: float | None = 1.0
    max_tokens: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    search: Literal["none", "rejected", "all"] = "rejected"
    shrink_calls: int = 500
    replications: int = 10

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if high is None and value < low:
                raise ValueError(f"{name} must be at least {low}")
            if high is not None and not low <= value <= high:
                raise ValueError(f"{name} must be from {low} to {high}")
        if self.rule not in get_args(Rule):
            raise ValueError(f"rule must be one of {', '.join(get_args(Rule))}")
        if self.draw not in get_args(Draw):
            raise ValueError(f"draw must be one of {', '.join(get_args(Draw))}")
        if not 0 <= self.distance < 1:
            raise ValueError("distance must be at least 0 and below 1")
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
                "epsilon and delta need a rule with a bound: set rule to majority or single, or both to none"
            )
        if self.draw != "informative":
            raise ValueError(
                "epsilon and delta need tests that can fail: set draw to informative, or both to none"
            )
        if self.tests != DEFAULT_TESTS:
            raise ValueError("epsilon and delta decide the number of tests: set both to none to set tests")

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


PAPER = OracleSettings()
#: for sentences, at most 81 samples instead of 165, a rule with a bound, and no test that cannot fail; for pairs, no
#: questions about phrases with the same words, phrases of paraphrases, and pairs that need no proof; a fair coin
QUICK = OracleSettings(
    samples=3, rule="majority", draw="informative", synonym_votes=1, named_votes=1, alignment="covering", whole="bar",
    indifferentiable="potential", source="even", distance=0.3, ask_identical=False, reference=False, askings=3,
    edits=True, max_tokens=400, epsilon=0.1, delta=0.1, shrink_calls=200, replications=5,
)  # fmt: skip


def bound_of(settings: OracleSettings) -> Bound:
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


def reached_bound(settings: OracleSettings, m: int, tests: int, *, is_known: bool) -> Bound:
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
