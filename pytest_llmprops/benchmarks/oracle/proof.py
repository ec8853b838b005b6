"""The proof strategy: a "yes" is accepted when an alignment of phrases proves it (Zeng et al., sections 4.3, 5.2.2).

Algorithm 1 returns potential alignments. If one of them covers a sentence, the oracle gets prompt 6 for each distinct
phrase pair of that direction, all at once. A refused pair is not a mapping: coverage is computed again without it.
A pair whose reply cannot be read is not a mapping either. If the proof fails only for that reason, it is undecided.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, PhrasePair, Rho
from pytest_llmprops.benchmarks.oracle.json_reply import Answer, ask_answer
from pytest_llmprops.benchmarks.oracle.pair_evidence import PhraseEvidence, ProofEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import phrases_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Oracle


@dataclass(frozen=True)
class Proof:
    """An attempt to prove that two sentences are equivalent.

    :param potential: the alignments before the oracle was asked.
    :param confirmed: the same without the refused pairs.
    :param answers: each pair that was asked, with the answer; empty if no potential alignment covers a sentence.
    """

    potential: Alignments
    confirmed: Alignments
    answers: tuple[tuple[PhrasePair, Answer], ...] = ()

    @property
    def rho(self) -> Rho:
        """The confirmed alignments. A proof needs their ``phi_or`` or ``phi_and``."""
        return self.confirmed.rho

    @cached_property
    def possible(self) -> Rho:
        """The alignments if every reply that cannot be read were a yes."""
        return self.potential.without([pair for pair, answer in self.answers if answer.said is False]).rho

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter withheld every reply that cannot be read; False if all can be read."""
        unread = [answer for _, answer in self.answers if answer.said is None]
        return bool(unread) and all(answer.notes.refused for answer in unread)

    @property
    def refused(self) -> tuple[PhrasePair, ...]:
        """Pairs that the oracle did not confirm: it said no, or its reply cannot be read."""
        return tuple(pair for pair, answer in self.answers if not answer.said)

    @property
    def evidence(self) -> ProofEvidence:
        """The phrase pairs of a proof (table 13), and the leftover words that prevent one (table 12)."""
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
        """Why no proof exists in both directions, in one phrase: the words left over in each sentence."""
        return self.potential.missing or f"left over: {self.evidence.uncovered}"

    @property
    def values(self) -> dict[str, float]:
        """Flat numbers; see the table in ``paraphrase_record``."""
        rho, potential = self.rho, self.potential.rho
        first, second = self.confirmed.leftovers
        numbers = {
            "trees_missing": bool(self.potential.missing),
            "potential_or": potential.phi_or,
            "potential_and": potential.phi_and,
            "strength": self.potential.strength,
            "phi_or": rho.phi_or,
            "phi_and": rho.phi_and,
            "undecided_or": self.possible.phi_or and not rho.phi_or,
            "undecided_and": self.possible.phi_and and not rho.phi_and,
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
    """Ask the oracle about the phrase pairs of ``alignments``, except of directions that cover no sentence.

    :param ask_identical: False treats two phrases with the same words as equivalent without asking.
    :raises BackendError: if a call could not be made.
    """
    pairs = [
        pair
        for pair in alignments.pairs(aligned_only=True)
        if ask_identical or pair.first.casefold() != pair.second.casefold()
    ]
    replies = await asyncio.gather(*(ask_answer(oracle, phrases_prompt(p.first, p.second)) for p in pairs))
    answers = tuple(zip(pairs, replies, strict=True))
    refused = [pair for pair, answer in answers if not answer.said]
    return Proof(alignments, alignments.without(refused), answers)
