"""Paraphrase decision: is the oracle's "yes" proved, or its "no" trusted? (Zeng et al., sections 4 and 5.2)

Outcomes of :class:`ParaphraseChecker`: ``accepted-yes``, ``accepted-no`` and ``rejected``. A rejected answer is not
trusted, but never turned into its opposite. Three outcomes are no decision:

- ``unreadable``: prompt 5 got no answer, or the decision depends on a reply that cannot be read
- ``refused``: the same, if a content filter withheld the reply
- ``untested``: a yes whose sentences have no trees or vectors, or a no without a paraphrase to test

``paraphrase_record`` documents what is recorded of a decision.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, Rho
from pytest_llmprops.benchmarks.oracle.choices import PHIS, Phi
from pytest_llmprops.benchmarks.oracle.json_reply import Paraphrases, ask_answer, ask_paraphrases
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import sentences_prompt
from pytest_llmprops.benchmarks.oracle.paraphrase_record import (
    Pair,
    answer_values,
    candidate_values,
    holds,
    trust_evidence,
    why_no,
)
from pytest_llmprops.benchmarks.oracle.paraphrase_settings import ParaphraseSettings
from pytest_llmprops.benchmarks.oracle.proof import Proof, prove
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.trust import (
    Candidate,
    Trust,
    category_of,
    pool_of,
    run_trust_tests,
    usable,
)

#: returns the potential alignments of two sentences; ``Alignments.without_trees`` if the parser or encoder fails
Align = Callable[[str, str], Awaitable[Alignments]]


class ParaphraseChecker:
    """Accepts a "yes" that is proved and a "no" that passes its tests.

    :param align: async function that returns the potential alignments of two sentences.
    """

    name: ClassVar[str] = "paraphrase"

    def __init__(self, settings: ParaphraseSettings, align: Align) -> None:
        self.settings = settings
        self.align = align

    async def check(self, x: Pair, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Ask prompt 5 and check the answer.

        :raises BackendError: if a call could not be made.
        """
        answer = await ask_answer(oracle, sentences_prompt(x.first, x.second))
        values = {**answer_values(x, answer), "phi": float(PHIS.index(self.settings.phi))}
        evidence = PairEvidence(x.first, x.second, answer.word, answer.explanation)
        if answer.said is None:
            if self.settings.reference:
                proof = await self.proof(x.first, x.second, oracle)
                values |= proof.values
                evidence = replace(evidence, proof=proof.evidence)
            outcome = "refused" if answer.notes.refused else "unreadable"
            repair = ", after one repair" if answer.notes.repaired else ""
            why = f"no answer: {answer.notes.problem}{repair}"
            return Acceptance(False, outcome, why, evidence.to_json(), None, values)
        if answer.said:
            return await self._yes(x, oracle, values, evidence)
        return await self._no(x, oracle, rng, values, evidence)

    async def proof(self, first: str, second: str, oracle: Oracle) -> Proof:
        """Try to prove that two sentences are equivalent, whatever the oracle answered."""
        alignments = await self.align(first, second)
        return await prove(alignments, oracle, ask_identical=self.settings.ask_identical)

    async def _yes(
        self, x: Pair, oracle: Oracle, values: dict[str, float], evidence: PairEvidence
    ) -> Acceptance:
        proof = await self.proof(x.first, x.second, oracle)
        accepted = holds(proof.rho, self.settings.phi)
        if accepted:
            outcome = "accepted-yes"
            why = f"yes, proved by {len(proof.confirmed.pairs(aligned_only=True))} phrase pairs"
        elif proof.potential.missing:
            outcome, why = "untested", f"yes, but not tested: {proof.failure}"
        elif holds(proof.possible, self.settings.phi):
            outcome = "refused" if proof.is_filtered else "unreadable"
            unread = sum(answer.said is None for _, answer in proof.answers)
            why = (
                f"yes, but not decided: {unread} of {len(proof.answers)} answers about phrases cannot be read"
            )
        elif not holds(proof.potential.rho, self.settings.phi):
            outcome, why = "rejected", f"yes, but the prover finds no alignment: {proof.failure}"
        else:
            outcome, why = "rejected", f"yes, but not proved: {proof.failure}"
        values |= proof.values | {"accepted": float(accepted), "accepted_paper": float(accepted)}
        shown = replace(evidence, proof=proof.evidence).to_json()
        return Acceptance(accepted, outcome, why, shown, None, values)

    async def _no(
        self,
        x: Pair,
        oracle: Oracle,
        rng: random.Random,
        values: dict[str, float],
        evidence: PairEvidence,
    ) -> Acceptance:
        (rho, alignment_values), paraphrases = await asyncio.gather(
            self._own_alignment(x, oracle),
            asyncio.gather(*(ask_paraphrases(oracle, sentence) for sentence in x.sentences)),
        )
        values |= alignment_values
        candidates = await self._candidates(x, paraphrases, oracle)
        values |= candidate_values(candidates, paraphrases, self.settings.paraphrases)
        evidence = replace(
            evidence,
            paraphrases=tuple(tuple(c.text for c in candidates if c.source == source) for source in (1, 2)),
            problems=tuple(reply.notes.problem for reply in paraphrases),
        )
        results = await self._run_tests(x, rho, candidates, oracle, rng)
        for phi in PHIS:
            values |= {f"{name}_{phi}": number for name, number in results[phi].values.items()}
        trust = results[self.settings.phi]
        accepted = trust.outcome == "accepted"
        values |= {"accepted": float(accepted), "accepted_paper": float(trust.accepted_by_paper)}
        shown = trust_evidence(evidence, trust).to_json()
        problem = "" if candidates else next((p.notes.problem for p in paraphrases if p.notes.problem), "")
        bound = trust.bound if accepted else None
        return Acceptance(
            accepted, _outcome_no(trust, paraphrases), why_no(trust, problem), shown, bound, values
        )

    async def _own_alignment(self, x: Pair, oracle: Oracle) -> tuple[Rho, dict[str, float]]:
        """Return the alignment of the two sentences (category A), as the settings define it, and its values."""
        how = self.settings.indifferentiable
        if self.settings.reference or how == "asked":
            proof = await self.proof(x.first, x.second, oracle)
            return (proof.potential.rho if how == "potential" else proof.rho), proof.values
        if how == "random":
            return Rho(), {}
        alignments = await self.align(x.first, x.second)
        rho = alignments.rho
        return rho, {
            "trees_missing": float(bool(alignments.missing)),
            "potential_or": float(rho.phi_or),
            "potential_and": float(rho.phi_and),
            "strength": alignments.strength,
        }

    async def _candidates(
        self, x: Pair, paraphrases: Sequence[Paraphrases], oracle: Oracle
    ) -> list[Candidate]:
        """Return the paraphrases that can be drawn, and whether each can be aligned with the other sentence."""
        texts = [
            (text, source)
            for source in (1, 2)
            for text in usable(paraphrases[source - 1], x.sentences[source - 1], self.settings.paraphrases)
        ]
        if self.settings.indifferentiable == "random":
            return [Candidate(text, source) for text, source in texts]
        rhos = await asyncio.gather(
            *(self._alignment(text, x.sentences[2 - source], oracle) for text, source in texts)
        )
        return [
            Candidate(text, source, rho.phi_or, rho.phi_and)
            for (text, source), rho in zip(texts, rhos, strict=True)
        ]

    async def _alignment(self, text: str, other: str, oracle: Oracle) -> Rho:
        if self.settings.indifferentiable == "asked":
            return (await self.proof(text, other, oracle)).rho
        return (await self.align(text, other)).rho

    async def _run_tests(
        self, x: Pair, rho: Rho, candidates: Sequence[Candidate], oracle: Oracle, rng: random.Random
    ) -> Mapping[Phi, Trust]:
        """Run the tests for both kinds of alignment; once if both draw from the same paraphrases."""
        if self.settings.indifferentiable == "random":
            trust = await run_trust_tests(x.sentences, candidates, oracle, rng, self.settings.tests)
            return {"or": trust, "and": trust}
        pools = {
            "or": [c for c in candidates if c.phi_or],
            "and": [c for c in candidates if c.phi_and],
        }
        results: dict[Phi, Trust] = {}
        pool: list[Candidate] = []
        for phi in PHIS:
            before, pool = pool, pool_of(candidates, pools[phi], even=self.settings.source == "even")
            if "or" in results and pool == before:
                trust = results["or"]
            else:
                trust = await run_trust_tests(x.sentences, pool, oracle, rng, self.settings.tests)
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
    return "accepted-no" if trust.outcome == "accepted" else "rejected"
