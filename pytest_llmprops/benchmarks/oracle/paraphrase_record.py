"""What is recorded and shown of a paraphrase decision.

``Acceptance.values``, from which tables 2 to 5 can be recomputed. A key is missing where nothing was measured.

=====================================  ============================================================================
``said_yes``                           the answer to prompt 5: 1 yes, 0 no, -1 none that can be read
``label``                              of the pair: 1 equivalent, 0 not, -1 without a label
``repaired``, ``fenced``               the answer to prompt 5 came with the repair; stood between fences: 1 or 0
``accepted``                           1 or 0
``accepted_paper``                     the same, with a "no" rejected by triangular evidence only
``phi``                                the kind of alignment by which the decision was made: 0 or, 1 and
``trees_missing``                      1: the parser or encoder failed, so that nothing is aligned
``potential_or``, ``potential_and``    the sentences are aligned before the oracle is asked: 1 or 0
``phi_or``, ``phi_and``                the same, after phrase pairs were put to the oracle
``rho_12``, ``rho_star_12``,           the four alignments behind them (``alignment.Rho``)
``rho_21``, ``rho_star_21``
``phrase_pairs``                       distinct phrase pairs of the potential alignments
``asked_phrases``,                     of them asked, refused (unreadable ones included), unreadable
``refused_phrases``,
``unreadable_phrases``
``leftover_1``, ``leftover_2``         runs of words left over: of sentence 1 by the mappings from 1 to 2, of
                                       sentence 2 by those from 2 to 1 (table 12)
``paraphrases_1``, ``paraphrases_2``   paraphrases of each sentence that can be drawn
``left_out_1``, ``left_out_2``         given, but with the words of their sentence or of another of them
``indifferentiable_or``,               of the paraphrases of both, those that can be aligned to the other sentence
``indifferentiable_and``
``category_or``, ``category_and``      table 5: 1 AI, 2 ĀI, 3 AĪ, 4 ĀĪ; 0: indifferentiable ones were not sought
``trust_or``, ``trust_and``            1 accepted, 2 triangular evidence, 3 inconsistent, 4 unreadable, 5 no test
``trust_paper_or``,                    1: no triangular evidence, so that the paper accepts; 0 also where there was no
``trust_paper_and``                    test, or an answer cannot be read
``tests_or``, ``tests_and``            tests made; of them passed, with triangular evidence, inconsistent
``passed_or``, ``passed_and``,
``triangular_or``, ``triangular_and``,
``inconsistent_or``,
``inconsistent_and``
``fair_coin_or``, ``fair_coin_and``    1: both sentences had paraphrases to draw, so that the bound holds
=====================================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.oracle.json_reply import Answer, Paraphrases
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairEvidence, TrustTestEvidence
from pytest_llmprops.benchmarks.oracle.trust import Candidate, Trust

Phi = Literal["or", "and"]
#: by their number in the values
PHIS: tuple[Phi, Phi] = ("or", "and")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences; ``label`` is True where people call them equivalent, None without a label."""

    first: str
    second: str
    label: bool | None = None

    @property
    def sentences(self) -> tuple[str, str]:
        """Both."""
        return self.first, self.second


def phi_of(values: Mapping[str, float]) -> Phi:
    """The kind of alignment by which a recorded decision was made; ``or`` where the record does not say."""
    return PHIS[1] if values.get("phi") == 1 else PHIS[0]


def answer_values(x: Pair, answer: Answer) -> dict[str, float]:
    """Of the answer to prompt 5; not accepted yet."""
    return {
        "said_yes": -1.0 if answer.said is None else float(answer.said),
        "label": -1.0 if x.label is None else float(x.label),
        "repaired": float(answer.notes.repaired),
        "fenced": float(answer.notes.fenced),
        "accepted": 0.0,
        "accepted_paper": 0.0,
    }


def candidate_values(
    candidates: Sequence[Candidate], given: Sequence[Paraphrases], limit: int
) -> dict[str, float]:
    """Of the paraphrases: ``candidates`` are what is left of those ``given`` for each sentence.

    :param limit: most paraphrases of a sentence that are looked at.
    """
    values = {
        "indifferentiable_or": float(sum(c.phi_or for c in candidates)),
        "indifferentiable_and": float(sum(c.phi_and for c in candidates)),
    }
    for source, found in enumerate(given, 1):
        kept = sum(c.source == source for c in candidates)
        values[f"paraphrases_{source}"] = float(kept)
        values[f"left_out_{source}"] = float(len(found.texts[:limit]) - kept)
    return values


def trust_evidence(evidence: PairEvidence, trust: Trust) -> PairEvidence:
    """Return ``evidence`` with the tests of a "no", as table 15 shows triangular evidence."""
    tests = tuple(
        TrustTestEvidence(
            test.outcome, test.candidate.source, test.candidate.text, test.other.word, test.own.word
        )
        for test in trust.tests
    )
    return replace(evidence, category=trust.category or "", trust=trust.outcome, tests=tests)


def why_no(trust: Trust) -> str:
    """One phrase on why a "no" is accepted or not."""
    if trust.outcome == "untested":
        return "no, but not tested: no paraphrase is left that differs from its sentence"
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
