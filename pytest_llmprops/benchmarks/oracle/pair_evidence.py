"""The evidence of a verdict on a pair of sentences; see ``docs/record.md``.

The recorded numbers and texts of a paraphrase decision.

Tables 2 to 5 can be recomputed from ``Acceptance.values``. A key is missing if nothing was measured.

=====================================  ============================================================================
``said_yes``                           the answer to prompt 5: 1 yes, 0 no, -1 unreadable
``label``                              the label of the pair: 1 equivalent, 0 not equivalent, -1 no label
``repaired``, ``fenced``               1 if the answer to prompt 5 needed the repair; 1 if it was in code fences
``accepted``                           1 or 0
``accepted_paper``                     the same if only triangular evidence rejects a "no"
``trees_missing``                      1 if the parser or encoder failed, so that nothing is aligned
``potential_or``, ``potential_and``    1 if the sentences are aligned before the oracle is asked
``strength``                           strength of the potential alignment: the smallest cosine of its mappings, in
                                       the better direction; 0 if there is none
``phi_or``, ``phi_and``                the same after the oracle was asked about phrase pairs
``undecided_or``, ``undecided_and``    1 if they are aligned only if replies that cannot be read were a yes
``phrase_pairs``                       distinct phrase pairs of the potential alignments
``asked_phrases``,                     how many of them were asked, refused (including unreadable), unreadable
``refused_phrases``,
``unreadable_phrases``
``leftover_1``, ``leftover_2``         runs of leftover words: in sentence 1 by the mappings from 1 to 2, in
                                       sentence 2 by the mappings from 2 to 1 (table 12)
``paraphrases_1``, ``paraphrases_2``   paraphrases of each sentence that can be drawn
``left_out_1``, ``left_out_2``         paraphrases too near to their sentence, or with the words of another paraphrase
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
``shallow_first_word`` …               the features of the two sentences that a shallow oracle sees (``nulls.FEATURES``)
``overlap_own_or``, ``overlap_own_and``, the word overlap of the tests' paraphrases with their source and with the other
``overlap_other_or``,                  sentence; of several tests, the lowest with the source and the highest with the
``overlap_other_and``                  other sentence
``fair_coin_or``, ``fair_coin_and``    1 if both sentences had paraphrases to draw, so that the bound holds
=====================================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pytest_llmprops.benchmarks.oracle.alignment import Rho
from pytest_llmprops.benchmarks.oracle.items import Phi
from pytest_llmprops.benchmarks.oracle.replies import Answer, Paraphrases
from pytest_llmprops.benchmarks.oracle.trust import PARAPHRASES, Candidate, Trust
from pytest_llmprops.core.verdicts import (
    READ_BY,
    Evidence,
    count_in,
    flag_in,
    object_in,
    objects_in,
    text_in,
    text_lists_in,
    texts_in,
    without_empty,
)


@dataclass(frozen=True, slots=True)
class PhraseEvidence:
    """Two phrases of an alignment.

    :param equivalent: the model's answer; None if it cannot be read.
    :param why: why the model does not confirm the pair; otherwise empty.
    :param asked: False if the phrases have the same words and count as equivalent without a question.
    """

    first: str
    second: str
    equivalent: bool | None
    why: str = ""
    asked: bool = True

    @classmethod
    def from_json(cls, evidence: Evidence) -> PhraseEvidence:
        """Read a recorded phrase pair; missing fields are empty."""
        first, second, why = (text_in(evidence, key) for key in ("first", "second", "why"))
        asked = flag_in(evidence, "asked")
        return cls(first, second, flag_in(evidence, "equivalent"), why, asked is not False)

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        fields = {"first": self.first, "second": self.second, "equivalent": self.equivalent}
        return fields | ({"why": self.why} if self.why else {}) | ({} if self.asked else {"asked": False})


@dataclass(frozen=True, slots=True)
class ProofEvidence:
    """An attempt to prove that two sentences are equivalent.

    :param leftovers: for each of the two sentences, the runs of words that no alignment covers.
    :param missing: why there is no alignment at all; otherwise empty.
    """

    phrases: tuple[PhraseEvidence, ...] = ()
    leftovers: tuple[tuple[str, ...], ...] = ()
    missing: str = ""

    @classmethod
    def from_json(cls, evidence: Evidence) -> ProofEvidence:
        """Read a recorded attempt; missing fields are empty."""
        return cls(
            tuple(map(PhraseEvidence.from_json, objects_in(evidence, "phrases"))),
            text_lists_in(evidence, "leftovers"),
            text_in(evidence, "missing"),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record, without its empty parts."""
        phrases = [phrase.to_json() for phrase in self.phrases]
        leftovers = [list(words) for words in self.leftovers] if any(self.leftovers) else []
        return without_empty({"phrases": phrases, "leftovers": leftovers, "missing": self.missing})

    @property
    def confirmed(self) -> tuple[PhraseEvidence, ...]:
        """Pairs that the model was asked about and calls equivalent."""
        return tuple(phrase for phrase in self.phrases if phrase.asked and phrase.equivalent)

    @property
    def refused(self) -> tuple[PhraseEvidence, ...]:
        """Pairs that the model does not confirm: it says no, or its reply cannot be read."""
        return tuple(phrase for phrase in self.phrases if not phrase.equivalent)

    @property
    def uncovered(self) -> str:
        """The words left over in each sentence, and the number of phrase pairs that the model refused."""
        parts = [
            f"s{number}: {{ {', '.join(words)} }}" for number, words in enumerate(self.leftovers, 1) if words
        ]
        asked = sum(phrase.asked for phrase in self.phrases)
        refused = f"; {len(self.refused)} of {asked} phrase pairs refused" if self.refused else ""
        return f"{', '.join(parts) or 'nothing'}{refused}"


@dataclass(frozen=True, slots=True)
class TrustTestEvidence:
    """A test of a "no": is the paraphrase of sentence ``source`` equivalent to the other sentence and to its source?

    :param other, own: the model's answers about the two: ``yes``, ``no`` or ``unreadable``.
    """

    outcome: str
    source: int
    paraphrase: str
    other: str
    own: str

    @classmethod
    def from_json(cls, evidence: Evidence) -> TrustTestEvidence:
        """Read a recorded test; missing fields are empty or 0."""
        outcome, paraphrase, other, own = (
            text_in(evidence, key) for key in ("outcome", "paraphrase", "other", "own")
        )
        return cls(outcome, count_in(evidence, "source"), paraphrase, other, own)

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """How the answer on a pair of sentences was checked.

    :param answer: ``yes``, ``no`` or ``unreadable``.
    :param proof: None if no proof was tried.
    :param paraphrases: for each sentence, the paraphrases that could be drawn.
    :param problems: for each sentence, why its paraphrases cannot be read; otherwise empty.
    :param category: of table 5; empty if indifferentiable paraphrases were not searched for.
    :param trust: the outcome of the deciding tests of a "no"; otherwise empty.
    :param tests: the deciding tests of a "no".
    :param read_by: how the answer was read, or why it cannot be.
    """

    first: str = ""
    second: str = ""
    answer: str = ""
    explanation: str = ""
    proof: ProofEvidence | None = None
    paraphrases: tuple[tuple[str, ...], ...] = ()
    problems: tuple[str, ...] = ()
    category: str = ""
    trust: str = ""
    tests: tuple[TrustTestEvidence, ...] = ()
    read_by: str = ""

    @classmethod
    def from_json(cls, evidence: Evidence) -> PairEvidence:
        """Read a verdict's evidence; missing fields are empty."""
        keys = ("sentence_1", "sentence_2", "answer", "explanation")
        first, second, answer, explanation = (text_in(evidence, key) for key in keys)
        return cls(
            first,
            second,
            answer,
            explanation,
            ProofEvidence.from_json(object_in(evidence, "proof")) if "proof" in evidence else None,
            text_lists_in(evidence, "paraphrases"),
            texts_in(evidence, "paraphrase_problems"),
            text_in(evidence, "category"),
            text_in(evidence, "trust"),
            tuple(map(TrustTestEvidence.from_json, objects_in(evidence, "tests"))),
            text_in(evidence, READ_BY),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record, without its empty parts."""
        fields = without_empty(
            {
                "sentence_1": self.first,
                "sentence_2": self.second,
                "answer": self.answer,
                "explanation": self.explanation,
                "paraphrases": [list(texts) for texts in self.paraphrases],
                "paraphrase_problems": list(self.problems) if any(self.problems) else [],
                "category": self.category,
                "trust": self.trust,
                "tests": [test.to_json() for test in self.tests],
                READ_BY: self.read_by,
            }
        )
        # An empty proof is kept too: it records that a proof was tried.
        return fields if self.proof is None else fields | {"proof": self.proof.to_json()}


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


def holds(rho: Rho, phi: Phi) -> bool:
    """Return True if the alignments of this kind hold."""
    return rho.phi_or if phi == "or" else rho.phi_and


def answer_values(x: Pair, answer: Answer) -> dict[str, float]:
    """Return the values of an answer to prompt 5 before the check, so not accepted."""
    return {
        "said_yes": -1.0 if answer.said is None else float(answer.said),
        "label": -1.0 if x.label is None else float(x.label),
        "repaired": float(answer.notes.repaired),
        "accepted": 0.0,
        "accepted_paper": 0.0,
    }


def candidate_values(candidates: Sequence[Candidate], paraphrases: Sequence[Paraphrases]) -> dict[str, float]:
    """Return the values of the paraphrases.

    :param candidates: the paraphrases that can be drawn.
    :param paraphrases: the oracle's reply for each sentence.
    """
    values = {
        "indifferentiable_or": float(sum(c.phi_or for c in candidates)),
        "indifferentiable_and": float(sum(c.phi_and for c in candidates)),
    }
    for source, reply in enumerate(paraphrases, 1):
        kept = sum(c.source == source for c in candidates)
        values[f"paraphrases_{source}"] = float(kept)
        values[f"left_out_{source}"] = float(len(reply.texts[:PARAPHRASES]) - kept)
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


def why_no(trust: Trust, problem: str = "", *, accepted: bool) -> str:
    """Return why a "no" is accepted or not, in one phrase.

    :param problem: why no paraphrases can be read, if that is the reason.
    """
    if trust.outcome == "untested":
        return f"no, but not tested: {problem or 'no paraphrase differs enough from its sentence'}"
    about = f", category {trust.category}" if trust.category else ""
    passed = sum(test.outcome == "accepted" for test in trust.tests)
    if accepted:
        tests = f"{passed} of {len(trust.tests)} tests{about}"
        return f"no, and passed {tests}" + ("" if trust.outcome == "accepted" else "; no triangular evidence")
    reasons = {
        "triangular": "triangular evidence, a paraphrase that is said to be equivalent to both sentences",
        "inconsistent": "self-inconsistent, it is not said to be equivalent to its own sentence only",
        "unreadable": "an answer of the test cannot be read",
    }
    return (
        f"no, but not trusted: {reasons[trust.outcome]} ({passed} of {len(trust.tests)} tests passed{about})"
    )
