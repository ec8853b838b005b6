"""Paraphrase decision: is the oracle's "yes" proved, or its "no" trusted? (Zeng et al., sections 4 and 5.2)

Outcomes of :class:`ParaphraseChecker`: ``accepted-yes``, ``accepted-no`` and ``rejected``. A rejected answer is not
trusted, but never turned into its opposite. Three outcomes are no decision:

- ``unreadable``: prompt 5 got no answer, or the decision depends on a reply that cannot be read
- ``refused``: the same, if a content filter withheld the reply
- ``untested``: a yes whose sentences have no trees or vectors, or a no without a paraphrase to test

``pair_evidence`` documents what is recorded of a decision.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, PhrasePair, Rho
from pytest_llmprops.benchmarks.oracle.items import PHIS, Phi
from pytest_llmprops.benchmarks.oracle.pair_evidence import (
    Pair,
    PairEvidence,
    PhraseEvidence,
    ProofEvidence,
    answer_values,
    candidate_values,
    holds,
    trust_evidence,
    why_no,
)
from pytest_llmprops.benchmarks.oracle.replies import (
    Answer,
    Paraphrases,
    ask_answer,
    ask_paraphrases,
    phrases_prompt,
    sentences_prompt,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Oracle
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.benchmarks.oracle.trust import (
    Candidate,
    Trust,
    category_of,
    pool_of,
    run_trust_tests,
    usable,
)

# The proof strategy: a "yes" is accepted when an alignment of phrases proves it (Zeng et al., sections 4.3,
# 5.2.2).
#
# Algorithm 1 returns potential alignments. If one of them covers a sentence, the oracle gets prompt 6 for
# each distinct phrase pair of that direction, all at once. A refused pair is not a mapping: coverage is
# computed again without it. A pair whose reply cannot be read is not a mapping either. If the proof fails
# only for that reason, it is undecided.
#
# Covering alignments have larger phrases around some pairs. Words that differ alone may be equivalent in their phrase,
# so the larger phrases are asked about once instead of the refused ones inside them.


#: how often refused phrases are replaced by larger ones
WIDENINGS = 1


@dataclass(frozen=True)
class Proof:
    """An attempt to prove that two sentences are equivalent.

    :param potential: the alignments before the oracle was asked.
    :param confirmed: the same without the refused pairs, some of them replaced by larger phrases.
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
        denied = [pair for pair, answer in self.answers if answer.said is False]
        return self.potential.widened(denied).without(denied).rho

    @property
    def is_filtered(self) -> bool:
        """True if a content filter withheld every reply that cannot be read; False if all can be read."""
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
        """Flat numbers; see the table in ``pair_evidence``."""
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
    answers: dict[PhrasePair, Answer] = {}
    final = alignments
    for _ in range(1 + WIDENINGS):
        pairs = [
            pair
            for pair in final.pairs(aligned_only=True)
            if pair not in answers and (ask_identical or pair.first.casefold() != pair.second.casefold())
        ]
        replies = await asyncio.gather(
            *(ask_answer(oracle, phrases_prompt(p.first, p.second)) for p in pairs)
        )
        answers |= zip(pairs, replies, strict=True)
        refused = [pair for pair, answer in answers.items() if not answer.said]
        before, final = final, final.widened(refused)
        if final == before:
            break
    return Proof(alignments, before.without(refused), tuple(answers.items()))


#: the bound of a no that is accepted as printed
AS_PRINTED = Bound("no bound: a no is rejected only if a paraphrase is called equivalent to both sentences")
#: returns the potential alignments of two sentences; ``Alignments.without_trees`` if the parser or encoder fails
Align = Callable[[str, str], Awaitable[Alignments]]


class ParaphraseChecker:
    """Accepts a "yes" that is proved and a "no" that passes its tests.

    :param align: async function that returns the potential alignments of two sentences.
    :param is_random: whether the sentences are unrelated, as in the third sanity check of section 5.2.1: p is any
        paraphrase, and every pair gets a proof attempt.
    """

    name: ClassVar[str] = "paraphrase"

    def __init__(self, settings: OracleSettings, align: Align, *, is_random: bool = False) -> None:
        self.settings = settings
        self.align = align
        self.is_random = is_random

    async def check(self, x: Pair, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Ask prompt 5 and check the answer.

        :raises BackendError: if a call could not be made.
        """
        answer = await ask_answer(oracle, sentences_prompt(x.first, x.second))
        values = answer_values(x, answer)
        evidence = PairEvidence(
            x.first, x.second, answer.word, answer.explanation, read_by=answer.notes.read_by
        )
        if answer.said is None:
            if self.settings.phrases == "all" or self.is_random:
                proof = await self.proof(x.first, x.second, oracle)
                values |= proof.values
                evidence = replace(evidence, proof=proof.evidence)
            outcome = "refused" if answer.notes.refused else "unreadable"
            repair = ", after one repair" if answer.notes.repaired else ""
            why = f"no answer: {answer.notes.problem}{repair}"
            return Acceptance(False, outcome, why, evidence.to_json(), None, values)
        if answer.said:
            return await self._yes(x, oracle, values, evidence)
        return await self.check_no(x, oracle, rng, values, evidence)

    async def proof(self, first: str, second: str, oracle: Oracle) -> Proof:
        """Try to prove that two sentences are equivalent, whatever the oracle answered."""
        alignments = await self.align(first, second)
        return await prove(alignments, oracle, ask_identical=self.settings.phrases == "all")

    async def _yes(
        self, x: Pair, oracle: Oracle, values: dict[str, float], evidence: PairEvidence
    ) -> Acceptance:
        proof = await self.proof(x.first, x.second, oracle)
        accepted = proof.rho.phi_or
        if accepted:
            outcome = "accepted-yes"
            why = f"yes, proved by {len(proof.confirmed.pairs(aligned_only=True))} phrase pairs"
        elif proof.potential.missing:
            outcome, why = "untested", f"yes, but not tested: {proof.failure}"
        elif proof.possible.phi_or:
            outcome = "refused" if proof.is_filtered else "unreadable"
            unread = sum(answer.said is None for _, answer in proof.answers)
            why = (
                f"yes, but not decided: {unread} of {len(proof.answers)} answers about phrases cannot be read"
            )
        elif not proof.potential.rho.phi_or:
            outcome, why = "rejected", f"yes, but the prover finds no alignment: {proof.failure}"
        else:
            outcome, why = "rejected", f"yes, but not proved: {proof.failure}"
        values |= proof.values | {"accepted": float(accepted), "accepted_paper": float(accepted)}
        shown = replace(evidence, proof=proof.evidence).to_json()
        return Acceptance(accepted, outcome, why, shown, None, values)

    async def check_no(
        self,
        x: Pair,
        oracle: Oracle,
        rng: random.Random,
        values: Mapping[str, float],
        evidence: PairEvidence,
        proof: Proof | None = None,
    ) -> Acceptance:
        """Test the answer that the sentences of ``x`` are not equivalent.

        :param values, evidence: what is known before the test; the result has both, too.
        :param proof: given if the second sentence is the oracle's own paraphrase of the first one: the attempt to prove
            that they are equivalent. That paraphrase is not drawn for a test, which would compare it with itself.
        :raises BackendError: if a call could not be made.
        """
        values = dict(values)
        (rho, alignment_values), paraphrases = await asyncio.gather(
            self._own_alignment(x, oracle, proof),
            asyncio.gather(*(self._paraphrases(sentence, oracle) for sentence in x.sentences)),
        )
        values |= alignment_values
        candidates = await self._candidates(x, paraphrases, oracle, x.second if proof is not None else "")
        values |= candidate_values(candidates, paraphrases)
        evidence = replace(
            evidence,
            paraphrases=tuple(tuple(c.text for c in candidates if c.source == source) for source in (1, 2)),
            problems=tuple(reply.notes.problem for reply in paraphrases),
        )
        results = await self._run_tests(x, rho, candidates, oracle, rng)
        for phi in PHIS:
            values |= {f"{name}_{phi}": number for name, number in results[phi].values.items()}
        trust = results["or"]
        # As printed (section 5.2.3), a test rejects only with triangular evidence.
        as_printed = self.settings.alignment == "printed"
        accepted = trust.accepted_by_paper if as_printed else trust.outcome == "accepted"
        values |= {"accepted": float(accepted), "accepted_paper": float(trust.accepted_by_paper)}
        shown = trust_evidence(evidence, trust).to_json()
        problem = "" if candidates else next((p.notes.problem for p in paraphrases if p.notes.problem), "")
        bound = (AS_PRINTED if as_printed else trust.bound) if accepted else None
        outcome = "accepted-no" if accepted else _outcome_no(trust, paraphrases)
        return Acceptance(accepted, outcome, why_no(trust, problem, accepted=accepted), shown, bound, values)

    async def _own_alignment(
        self, x: Pair, oracle: Oracle, proof: Proof | None
    ) -> tuple[Rho, dict[str, float]]:
        """Return the alignment of the two sentences (category A), as the settings define it, and its values."""
        asks = self.settings.phrases == "all"
        if proof is None and (asks or self.is_random):
            proof = await self.proof(x.first, x.second, oracle)
        if proof is not None:
            return (proof.rho if asks else proof.potential.rho), proof.values
        alignments = await self.align(x.first, x.second)
        rho = alignments.rho
        return rho, {
            "trees_missing": float(bool(alignments.missing)),
            "potential_or": float(rho.phi_or),
            "potential_and": float(rho.phi_and),
            "strength": alignments.strength,
        }

    async def _paraphrases(self, sentence: str, oracle: Oracle) -> Paraphrases:
        if not self.settings.distance:
            return await ask_paraphrases(oracle, sentence)
        return await ask_paraphrases(
            oracle, sentence, is_usable=lambda reply: bool(self._usable(reply, sentence))
        )

    def _usable(self, reply: Paraphrases, sentence: str) -> tuple[str, ...]:
        return usable(reply, sentence, self.settings.distance)

    async def _candidates(
        self, x: Pair, paraphrases: Sequence[Paraphrases], oracle: Oracle, left_out: str
    ) -> list[Candidate]:
        """Return the paraphrases that can be drawn, and whether each can be aligned with the other sentence.

        :param left_out: a paraphrase that is not drawn; empty if all can be.
        """
        texts = [
            (text, source)
            for source in (1, 2)
            for text in self._usable(paraphrases[source - 1], x.sentences[source - 1])
            if text != left_out
        ]
        if self.is_random:
            return [Candidate(text, source) for text, source in texts]
        rhos = await asyncio.gather(
            *(self._alignment(text, x.sentences[2 - source], oracle) for text, source in texts)
        )
        return [
            Candidate(text, source, rho.phi_or, rho.phi_and)
            for (text, source), rho in zip(texts, rhos, strict=True)
        ]

    async def _alignment(self, text: str, other: str, oracle: Oracle) -> Rho:
        if self.settings.phrases == "all":
            return (await self.proof(text, other, oracle)).rho
        return (await self.align(text, other)).rho

    async def _run_tests(
        self, x: Pair, rho: Rho, candidates: Sequence[Candidate], oracle: Oracle, rng: random.Random
    ) -> Mapping[Phi, Trust]:
        """Run the tests for both kinds of alignment; once if both draw from the same paraphrases."""
        if self.is_random:
            trust = await run_trust_tests(x.sentences, candidates, oracle, rng, 1)
            return {"or": trust, "and": trust}
        pools = {"or": [c for c in candidates if c.phi_or], "and": [c for c in candidates if c.phi_and]}
        results: dict[Phi, Trust] = {}
        pool: list[Candidate] = []
        for phi in PHIS:
            before, pool = pool, pool_of(candidates, pools[phi], even=self.settings.alignment == "covering")
            if "or" in results and pool == before:
                trust = results["or"]
            else:
                trust = await run_trust_tests(x.sentences, pool, oracle, rng, 1)
            drawn = [test.candidate in pools[phi] for test in trust.tests]
            category = category_of(holds(rho, phi), bool(drawn) and all(drawn))
            results[phi] = replace(trust, category=category)
        return results


def _outcome_no(trust: Trust, paraphrases: Sequence[Paraphrases]) -> str:
    if trust.outcome == "unreadable":
        unread = [a for test in trust.tests for a in (test.other, test.own) if a.said is None]
        return "refused" if all(answer.notes.refused for answer in unread) else "unreadable"
    if trust.outcome == "untested":
        return "refused" if all(reply.notes.refused for reply in paraphrases) else "untested"
    return "rejected"
