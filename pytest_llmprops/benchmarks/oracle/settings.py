"""The settings of a measurement with the oracle-checker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

#: what passes a test: any combination of samples (the paper's rule), or the most frequent answers
Rule = Literal["any", "majority"]
#: in the order of their numbers in a verdict's values
RULES: tuple[Rule, ...] = ("any", "majority")
#: whether all phrases of both sentences must be aligned, or those of Algorithm 1
Matching = Literal["covering", "printed"]
#: which phrases the model is asked about
Phrases = Literal["all", "needed"]
#: which of the phrases must be equivalent for a proof
Phi = Literal["or", "and"]
#: in the order of their numbers in the values
PHIS: tuple[Phi, Phi] = ("or", "and")
#: lowest and highest values of settings
LIMITS = dict.fromkeys(("samples", "tests", "synonym_votes", "askings"), (1, 100))


@dataclass(frozen=True, slots=True)
class OracleSettings:
    """How sentences and pairs are checked. The defaults are the paper's.

    :param samples: samples per sentence, and of prompt 2.
    :param tests: tests per sentence.
    :param rule: what passes a test. ``any``: one of all combinations of samples, on tests drawn from all vectors, as
        in the paper. ``majority``: the most frequent answers, on tests that can fail.
    :param synonym_votes: samples of prompts 3 and 4.
    :param json: ask for entities as JSON, and let the server enforce JSON wherever a prompt asks for it
        (``response_format``); otherwise prompt 1 asks for a numbered list, as in the paper.
    :param alignment: how answers about pairs are decided. ``printed``: by Algorithm 1; only triangular evidence rejects
        a "no"; its paraphrase is an indifferentiable one of either sentence, if there is one. ``covering``: an
        alignment covers both sentences; a "no" has to pass its test; a fair coin chooses the sentence.
    :param phrases: what the oracle is asked about. ``all``: every phrase pair of the two sentences, whatever the
        answer, and of their paraphrases, which are indifferentiable if it confirms them. ``needed``: only phrases with
        different words, and only to prove a "yes".
    :param distance: minimum distance of a paraphrase from its sentence: 1 minus the Jaccard index of their words.
        Nearer ones are not used, because the words they share would name their source.
    :param askings: how often the sanity checks ask the same question.
    :param search: whether accepted answers are searched for a counterexample.
    :param temperature: of every question. Repeated samples are only meaningful above 0. None is the server's default;
        models on this machine then return the most probable reply each time.
    :raises ValueError: if a setting is out of range.
    """

    samples: int = 11
    tests: int = 5
    rule: Rule = "any"
    synonym_votes: int = 7
    json: bool = False
    alignment: Matching = "printed"
    phrases: Phrases = "all"
    distance: float = 0.0
    askings: int = 5
    search: Literal["none", "accepted"] = "none"
    temperature: float | None = 1.0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be from {low} to {high}")
        if self.rule not in get_args(Rule):
            raise ValueError(f"rule must be one of {', '.join(get_args(Rule))}")
        if not 0 <= self.distance < 1:
            raise ValueError("distance must be at least 0 and below 1")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError("temperature must be from 0 to 2, or none")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1, or none")


PAPER = OracleSettings()
#: for sentences, 3 samples instead of 11, a rule with a bound, and no test that cannot fail; for pairs, no
#: questions about phrases with the same words, phrases of paraphrases, and pairs that need no proof; a fair coin
QUICK = OracleSettings(
    samples=3, rule="majority", synonym_votes=1, json=True, alignment="covering", phrases="needed", distance=0.3,
    askings=3, search="accepted", max_tokens=400,
)  # fmt: skip
