"""The settings of the paraphrase checker."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.choices import Indifferentiable, Phi, Source


@dataclass(frozen=True, slots=True)
class ParaphraseSettings:
    """How a pair is checked. The defaults are the paper's.

    :param phi: the kind of alignment that decides; both kinds are recorded.
    :param tests: tests of a "no", each with its own coin.
    :param paraphrases: maximum paraphrases per sentence (prompt 7 asks for five).
    :param indifferentiable: how indifferentiable paraphrases are identified. ``asked``: by alignments whose phrase
        pairs the oracle confirms. ``potential``: by the potential alignments, without questions. ``random``: not at
        all, as in the third sanity check of section 5.2.1.
    :param ask_identical: also ask whether two phrases with the same words are equivalent.
    :param source: how the source of a test is drawn. ``even``: by a fair coin if both sentences have paraphrases.
        ``indifferentiable``: only among sentences with an indifferentiable paraphrase, if there is one.
    :param reference: also try to prove pairs whose answer is not yes (the reference columns of table 3).
    :raises ValueError: if there is less than one test or paraphrase.
    """

    phi: Phi = "or"
    tests: int = 1
    paraphrases: int = 5
    indifferentiable: Indifferentiable = "asked"
    source: Source = "indifferentiable"
    ask_identical: bool = True
    reference: bool = True

    def __post_init__(self) -> None:
        for name in ("tests", "paraphrases"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")


#: no questions about phrases with the same words, phrases of paraphrases, and pairs that need no proof; a fair coin
QUICK = ParaphraseSettings(indifferentiable="potential", source="even", ask_identical=False, reference=False)
