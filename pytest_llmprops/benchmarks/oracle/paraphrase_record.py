"""The recorded numbers and texts of a paraphrase decision.

Tables 2 to 5 can be recomputed from ``Acceptance.values``. A key is missing if nothing was measured.

=====================================  ============================================================================
``said_yes``                           the answer to prompt 5: 1 yes, 0 no, -1 unreadable
``label``                              the label of the pair: 1 equivalent, 0 not equivalent, -1 no label
``repaired``, ``fenced``               1 if the answer to prompt 5 needed the repair; 1 if it was in code fences
``accepted``                           1 or 0
``accepted_paper``                     the same if only triangular evidence rejects a "no"
``phi``                                the kind of alignment that decided: 0 or, 1 and
``trees_missing``                      1 if the parser or encoder failed, so that nothing is aligned
``potential_or``, ``potential_and``    1 if the sentences are aligned before the oracle is asked
``strength``                           strength of the potential alignment: the smallest cosine of its mappings, in
                                       the better direction; 0 if there is none
``phi_or``, ``phi_and``                the same after the oracle was asked about phrase pairs
``undecided_or``, ``undecided_and``    1 if they are aligned only if replies that cannot be read were a yes
``rho_12``, ``rho_star_12``,           the four alignments behind them (``alignment.Rho``)
``rho_21``, ``rho_star_21``
``phrase_pairs``                       distinct phrase pairs of the potential alignments
``asked_phrases``,                     how many of them were asked, refused (including unreadable), unreadable
``refused_phrases``,
``unreadable_phrases``
``leftover_1``, ``leftover_2``         runs of leftover words: in sentence 1 by the mappings from 1 to 2, in
                                       sentence 2 by the mappings from 2 to 1 (table 12)
``paraphrases_1``, ``paraphrases_2``   paraphrases of each sentence that can be drawn
``left_out_1``, ``left_out_2``         paraphrases with the same words as their sentence or as another paraphrase
``indifferentiable_or``,               paraphrases of both sentences that can be aligned with the other sentence
``indifferentiable_and``
``category_or``, ``category_and``      table 5: 1 AI, 2 ĀI, 3 AĪ, 4 ĀĪ; 0 if indifferentiable ones were not searched for
``trust_or``, ``trust_and``            1 accepted, 2 triangular evidence, 3 inconsistent, 4 unreadable, 5 no test
``trust_paper_or``,                    1 if there is no triangular evidence, so that the paper accepts; 0 also if there
``trust_paper_and``                    was no test or an answer cannot be read
``tests_or``, ``tests_and``            tests; those passed, with triangular evidence, inconsistent
``passed_or``, ``passed_and``,         (answers other than no-yes and yes-yes), and of these with yes about the other
``triangular_or``, ``triangular_and``, sentence and no about its own
``inconsistent_or``,
``inconsistent_and``, ``other_only_or``,
``other_only_and``
``null_yes``, ``null_no``,             1 if a null oracle's answer on the same pair is accepted (``nulls``)
``null_coin``, ``null_overlap``,
``null_judge``
``self_aligned``                       1 if the first sentence is aligned with itself
``fair_coin_or``, ``fair_coin_and``    1 if both sentences had paraphrases to draw, so that the bound holds
=====================================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmprops.benchmarks.oracle.alignment import Rho
from pytest_llmprops.benchmarks.oracle.choices import PHIS, Phi
from pytest_llmprops.benchmarks.oracle.json_reply import Answer, Paraphrases
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairEvidence, TrustTestEvidence
from pytest_llmprops.benchmarks.oracle.trust import Candidate, Trust


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences; ``label`` is True if annotators call them equivalent, None if there is no label."""

    first: str
    second: str
    label: bool | None = None

    @property
    def sentences(self) -> tuple[str, str]:
        """Both sentences."""
        return self.first, self.second


def phi_of(values: Mapping[str, float]) -> Phi:
    """Return the kind of alignment that decided; ``or`` if the record does not say."""
    return PHIS[1] if values.get("phi") == 1 else PHIS[0]


def holds(rho: Rho, phi: Phi) -> bool:
    """Return whether the alignments of this kind hold."""
    return rho.phi_or if phi == "or" else rho.phi_and


def answer_values(x: Pair, answer: Answer) -> dict[str, float]:
    """Return the values of an answer to prompt 5 before the check, so not accepted."""
    return {
        "said_yes": -1.0 if answer.said is None else float(answer.said),
        "label": -1.0 if x.label is None else float(x.label),
        "repaired": float(answer.notes.repaired),
        "fenced": float(answer.notes.fenced),
        "accepted": 0.0,
        "accepted_paper": 0.0,
    }


def candidate_values(
    candidates: Sequence[Candidate], paraphrases: Sequence[Paraphrases], limit: int
) -> dict[str, float]:
    """Return the values of the paraphrases.

    :param candidates: the paraphrases that can be drawn.
    :param paraphrases: the oracle's reply for each sentence.
    :param limit: maximum paraphrases per sentence that are used.
    """
    values = {
        "indifferentiable_or": float(sum(c.phi_or for c in candidates)),
        "indifferentiable_and": float(sum(c.phi_and for c in candidates)),
    }
    for source, reply in enumerate(paraphrases, 1):
        kept = sum(c.source == source for c in candidates)
        values[f"paraphrases_{source}"] = float(kept)
        values[f"left_out_{source}"] = float(len(reply.texts[:limit]) - kept)
    return values


def trust_evidence(evidence: PairEvidence, trust: Trust) -> PairEvidence:
    """Return ``evidence`` with the tests of a "no" (table 15 shows triangular evidence)."""
    tests = tuple(
        TrustTestEvidence(
            test.outcome, test.candidate.source, test.candidate.text, test.other.word, test.own.word
        )
        for test in trust.tests
    )
    return replace(evidence, category=trust.category or "", trust=trust.outcome, tests=tests)


def why_no(trust: Trust, problem: str = "") -> str:
    """Return why a "no" is accepted or not, in one phrase.

    :param problem: why no paraphrases can be read, if that is the reason.
    """
    if trust.outcome == "untested":
        return f"no, but not tested: {problem or 'no paraphrase is left that differs from its sentence'}"
    about = f", category {trust.category}" if trust.category else ""
    passed = sum(test.outcome == "accepted" for test in trust.tests)
    if trust.outcome == "accepted":
        return f"no, and passed {passed} of {passed} tests{about}"
    reasons = {
        "triangular": "triangular evidence, a paraphrase that is said to be equivalent to both sentences",
        "inconsistent": "self-inconsistent, it is not said to be equivalent to its own sentence only",
        "unreadable": "an answer of the test cannot be read",
    }
    return (
        f"no, but not trusted: {reasons[trust.outcome]} ({passed} of {len(trust.tests)} tests passed{about})"
    )
