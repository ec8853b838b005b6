"""The names of helpers and searches, and of the choices that settings have."""

from __future__ import annotations

from typing import Literal

from pytest_llmprops.benchmarks.oracle.items import NO, YES

#: the roles of the helpers that align sentences
PARSE, EMBED = "parse", "embed"
#: a test passes if any combination of samples does (the paper's rule), the most frequent sets do, or the first samples
Rule = Literal["any", "majority", "single"]
#: in the order of their numbers in a verdict's values
RULES: tuple[Rule, ...] = ("any", "majority", "single")
#: how x and y of a test are drawn: uniformly from all vectors, as in the paper, or from the informative pairs
Draw = Literal["uniform", "informative"]
#: whether all phrases of both sentences must be aligned, or those of Algorithm 1
Matching = Literal["covering", "printed"]
#: whether a phrase may be mapped to the whole other sentence
Whole = Literal["bar", "allow"]
#: which of the phrases must be equivalent for a proof
Phi = Literal["or", "and"]
#: in the order of their numbers in the values
PHIS: tuple[Phi, Phi] = ("or", "and")
#: how indifferentiable paraphrases are identified, and how the source of a test is drawn
Indifferentiable = Literal["asked", "potential", "random"]
Source = Literal["even", "indifferentiable"]
SYMMETRY, TRANSITIVITY = "symmetry", "transitivity"
#: the properties of answers about pairs that can be searched
PAIR_SEARCHES = (NO, YES, SYMMETRY, TRANSITIVITY)
