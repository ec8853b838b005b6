"""The proof strategy: a "yes" is accepted when an alignment of phrases proves it (Zeng et al., sections 4.3, 5.2.2).

Algorithm 1 gives potential alignments. Only where one covers a sentence is the oracle asked: each distinct phrase
pair of the directions that are covered, by prompt 6, all at once. A pair that it refuses is no mapping, and coverage
is computed again from those that are left.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, PhrasePair, Rho
from pytest_llmprops.benchmarks.oracle.json_reply import Answer, ask_answer
from pytest_llmprops.benchmarks.oracle.pair_evidence import PhraseEvidence, ProofEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import phrases_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Oracle


@dataclass(frozen=True, slots=True)
class Proof:
    """An attempt to prove that two sentences are equivalent.

    :param potential: the alignments before the oracle was asked. :param confirmed: without the refused pairs.
    :param answers: of each pair that was asked; empty where no potential alignment covers.
    """

    potential: Alignments
    confirmed: Alignments
    answers: tuple[tuple[PhrasePair, Answer], ...] = ()

    @property
    def rho(self) -> Rho:
        """The alignments that hold; their ``phi_or`` or ``phi_and`` is what a proof needs."""
        return self.confirmed.rho

    @property
    def refused(self) -> tuple[PhrasePair, ...]:
        """Pairs that the oracle did not confirm: a "no", or a reply that cannot be read."""
        return tuple(pair for pair, answer in self.answers if not answer.said)

    @property
    def evidence(self) -> ProofEvidence:
        """The phrase pairs of a proof (table 13), and what is in its way: the leftover words (table 12)."""
        if self.potential.missing:
            return ProofEvidence(missing=self.potential.missing)
        phrases = [
            PhraseEvidence(pair.first, pair.second, answer.said, _why_not(answer))
            for pair, answer in self.answers
        ]
        asked = {pair for pair, _ in self.answers}
        phrases += [
            PhraseEvidence(pair.first, pair.second, True, asked=False)
            for pair in self.confirmed.pairs(aligned_only=True)
            if pair not in asked
        ]
        return ProofEvidence(tuple(phrases), self.confirmed.leftovers)

    @property
    def failure(self) -> str:
        """One phrase on why there is no proof in both directions: the words left over in each sentence."""
        return self.potential.missing or f"left over: {self.evidence.uncovered}"

    @property
    def values(self) -> dict[str, float]:
        """Flat numbers: see the table of ``paraphrase``."""
        rho, potential = self.rho, self.potential.rho
        first, second = self.confirmed.leftovers
        numbers = {
            "trees_missing": bool(self.potential.missing),
            "potential_or": potential.phi_or,
            "potential_and": potential.phi_and,
            "phi_or": rho.phi_or,
            "phi_and": rho.phi_and,
            "rho_12": rho.forward,
            "rho_star_12": rho.forward_star,
            "rho_21": rho.backward,
            "rho_star_21": rho.backward_star,
            "phrase_pairs": len(self.potential.pairs()),
            "asked_phrases": len(self.answers),
            "refused_phrases": len(self.refused),
            "unreadable_phrases": sum(answer.said is None for _, answer in self.answers),
            "leftover_1": len(first),
            "leftover_2": len(second),
        }
        return {name: float(number) for name, number in numbers.items()}


def _why_not(answer: Answer) -> str:
    return "" if answer.said else answer.explanation or answer.notes.problem


async def prove(alignments: Alignments, oracle: Oracle, *, ask_identical: bool = True) -> Proof:
    """Put the phrase pairs of ``alignments`` to the oracle; of directions that cover no sentence there are none.

    :param ask_identical: False takes two phrases of the same words as equivalent without asking.
    :raises BackendError: a call could not be made.
    """
    pairs = [
        pair
        for pair in alignments.pairs(aligned_only=True)
        if ask_identical or pair.first.casefold() != pair.second.casefold()
    ]
    said = await asyncio.gather(*(ask_answer(oracle, phrases_prompt(p.first, p.second)) for p in pairs))
    answers = tuple(zip(pairs, said, strict=True))
    refused = [pair for pair, answer in answers if not answer.said]
    return Proof(alignments, alignments.without(refused), answers)
