"""The evidence of a verdict on a pair of sentences; see ``docs/record.md``."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmprops.core.verdicts import (
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
        return {
            "outcome": self.outcome,
            "source": self.source,
            "paraphrase": self.paraphrase,
            "other": self.other,
            "own": self.own,
        }


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
            }
        )
        # An empty proof is kept too: it records that a proof was tried.
        return fields if self.proof is None else fields | {"proof": self.proof.to_json()}


@dataclass(frozen=True, slots=True)
class PairCounterexample:
    """Answers about sentences that cannot all be right, as a search records them.

    :param sentences: the shortest that were found.
    :param answers: the numbers of two sentences, counted from 1, and the model's answer about them.
    :param edits: the names of the edits that made one sentence from another one, if any.
    """

    sentences: tuple[str, ...]
    answers: tuple[tuple[int, int, str], ...]
    edits: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, evidence: Evidence) -> PairCounterexample:
        """Read the ``counterexample`` of a line of ``searches.jsonl``; missing fields are empty or 0."""
        answers = tuple(
            (count_in(answer, "first"), count_in(answer, "second"), text_in(answer, "answer"))
            for answer in objects_in(evidence, "answers")
        )
        return cls(texts_in(evidence, "sentences"), answers, texts_in(evidence, "edits"))

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        answers: list[Evidence] = [
            {"first": one, "second": two, "answer": word} for one, two, word in self.answers
        ]
        return {"sentences": list(self.sentences), "answers": answers, "edits": list(self.edits)}
