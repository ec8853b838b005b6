"""The settings of a measurement with the oracle-checker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.choices import (
    Draw,
    Indifferentiable,
    Matching,
    Phi,
    Rule,
    Source,
    Whole,
)
from pytest_llmprops.benchmarks.oracle.linearity_settings import LinearitySettings
from pytest_llmprops.benchmarks.oracle.paraphrase_settings import ParaphraseSettings


@dataclass(frozen=True, slots=True)
class OracleSettings:
    """How sentences and pairs are checked. ``LinearitySettings`` and ``ParaphraseSettings`` explain the other settings.

    :param alignment: how phrases are mapped: ``printed`` is Algorithm 1; ``covering`` must cover both sentences.
    :param whole: whether a phrase may be mapped to the whole other sentence.
    :param no_tests: tests of a "no".
    :param askings: how often the sanity checks ask the same question.
    :param temperature: of every question. Repeated samples are only meaningful above 0. None is the server's default;
        models on this machine then return the most probable reply each time.
    :param search: the sentences and pairs to search for counterexamples; ``rejected``: those that the measurement
        rejected.
    :param shrink_calls: maximum requests of one search. To isolate two of twelve entities takes about 35 sentences,
        each asked about ``samples`` times.
    :param replications: how often the sentences of a counterexample are asked about again, with new samples.
    """

    samples: int = 11
    tests: int = 5
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
    ask_identical: bool = True
    reference: bool = True
    askings: int = 5
    temperature: float | None = 1.0
    max_tokens: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    search: Literal["none", "rejected", "all"] = "rejected"
    shrink_calls: int = 500
    replications: int = 10

    def __post_init__(self) -> None:
        if self.no_tests < 1:
            raise ValueError("no_tests must be at least 1")
        self.linearity()
        self.pairs()
        if not 1 <= self.askings <= 100:
            raise ValueError("askings must be from 1 to 100")
        if self.shrink_calls < 1:
            raise ValueError("shrink_calls must be at least 1")
        if not 0 <= self.replications <= 100:
            raise ValueError("replications must be from 0 to 100")

    def linearity(self) -> LinearitySettings:
        """Return the settings of the linearity checker.

        :raises ValueError: if a number is out of range.
        """
        return LinearitySettings(
            self.samples,
            self.tests,
            self.rule,
            self.draw,
            self.synonym_votes,
            self.named_votes,
            self.paraphrase,
            self.temperature,
            self.max_tokens,
            self.epsilon,
            self.delta,
        )

    def pairs(self) -> ParaphraseSettings:
        """Return the settings of the paraphrase checker.

        :raises ValueError: if a number is out of range.
        """
        return ParaphraseSettings(
            self.phi,
            self.no_tests,
            self.paraphrases,
            self.indifferentiable,
            self.source,
            self.ask_identical,
            self.reference,
        )
