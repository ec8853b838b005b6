"""The evidence of a verdict on a sentence that was tested for linearity; see ``docs/record-evidence.md``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.dependence import Culprit, Losses
from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import Samples, most_frequent
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.verdicts import (
    READ_BY,
    Evidence,
    count_in,
    number_in,
    numbers_in,
    objects_in,
    text_in,
    texts_in,
    without_empty,
)

#: why an entity is left out that the sentence does not contain
NOT_IN_SENTENCE = "not in the sentence"
#: maximum rejected replacements whose reasons an entity's evidence keeps
_MOST_REJECTED = 5


@dataclass(frozen=True, slots=True)
class CulpritEvidence:
    """An entity that breaks linearity, its kinds, and the counts that justify them, in words."""

    name: str
    synonym: str
    kinds: tuple[str, ...]
    why: str
    cause: str = ""

    @classmethod
    def of(cls, culprit: Culprit) -> CulpritEvidence:
        """Return the evidence of ``culprit``."""
        return cls(culprit.name, culprit.synonym, culprit.kinds, culprit.why, culprit.cause)

    @classmethod
    def from_json(cls, evidence: Evidence) -> CulpritEvidence:
        """Read a recorded culprit; missing fields are empty."""
        name, synonym, why, cause = (text_in(evidence, key) for key in ("name", "synonym", "why", "cause"))
        return cls(name, synonym, texts_in(evidence, "kinds"), why, cause)

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        shown: Evidence = {
            "name": self.name,
            "synonym": self.synonym,
            "kinds": list(self.kinds),
            "why": self.why,
        }
        return {**shown, "cause": self.cause} if self.cause else shown


@dataclass(frozen=True, slots=True)
class LossEvidence:
    """How an entity is lost; see :class:`~pytest_llmprops.benchmarks.oracle.dependence.Losses`.

    :param on: the names of the entities that explain its losses.
    :param changes: per tested entity, in their order, the change of the loss if that one is replaced; None without a
        comparison. Empty if the entity is consistent.
    """

    name: str
    outcome: str
    lost: int
    of: int
    p: float = 1.0
    p_unrelated: float = 1.0
    on: tuple[str, ...] = ()
    changes: tuple[float | None, ...] = ()

    @classmethod
    def all_of(cls, lost: Sequence[Losses], subject: Subject) -> tuple[LossEvidence, ...]:
        """Return the evidence of ``lost``; nothing if every entity is consistent."""
        if all(one.outcome == "consistent" for one in lost):
            return ()
        names = [entity.name for entity in subject.tested]
        return tuple(
            cls(
                names[one.place],
                one.outcome,
                one.lost,
                one.of,
                round(one.p, 4),
                round(one.p_unrelated, 4),
                tuple(names[place] for place in one.on),
                tuple(None if change is None else round(change, 3) for change in one.changes),
            )
            for one in lost
        )

    @classmethod
    def from_json(cls, evidence: Evidence) -> LossEvidence:
        """Read a recorded entity; missing fields are empty."""
        numbers = {key: number_in(evidence, key) for key in ("lost", "of", "p", "p_unrelated")}
        return cls(
            text_in(evidence, "name"),
            text_in(evidence, "outcome"),
            int(numbers["lost"] or 0),
            int(numbers["of"] or 0),
            1.0 if numbers["p"] is None else numbers["p"],
            1.0 if numbers["p_unrelated"] is None else numbers["p_unrelated"],
            texts_in(evidence, "on"),
            numbers_in(evidence, "changes"),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        shown: Evidence = {"name": self.name, "outcome": self.outcome, "lost": self.lost, "of": self.of}
        if self.changes:
            p_values: Evidence = {"p": self.p, "p_unrelated": self.p_unrelated}
            shown = {**shown, **p_values, "on": list(self.on), "changes": list(self.changes)}
        return shown


@dataclass(frozen=True, slots=True)
class SentenceEvidence:
    """How a sentence was tested for linearity.

    :param entities: see :func:`entity_evidence`.
    :param tests: see :func:`test_evidence`.
    :param losses: one per tested entity; empty if every entity is consistent.
    :param culprits: empty unless the sentence is rejected.
    :param read_by: how the reply with the answer was read, or why it cannot be.
    """

    sentence: str = ""
    entities: tuple[Evidence, ...] = ()
    tests: tuple[Evidence, ...] = ()
    losses: tuple[LossEvidence, ...] = ()
    culprits: tuple[CulpritEvidence, ...] = ()
    read_by: str = ""

    @classmethod
    def from_json(cls, evidence: Evidence) -> SentenceEvidence:
        """Read a verdict's evidence; missing fields are empty."""
        return cls(
            text_in(evidence, "sentence"),
            objects_in(evidence, "entities"),
            objects_in(evidence, "tests"),
            tuple(map(LossEvidence.from_json, objects_in(evidence, "losses"))),
            tuple(map(CulpritEvidence.from_json, objects_in(evidence, "culprits"))),
            text_in(evidence, READ_BY),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record, without its empty parts."""
        return without_empty(
            {
                "sentence": self.sentence,
                "entities": list(self.entities),
                "tests": list(self.tests),
                "losses": [one.to_json() for one in self.losses],
                "culprits": [culprit.to_json() for culprit in self.culprits],
                READ_BY: self.read_by,
            }
        )


def entity_evidence(answer: Sequence[Entity], chosen: Sequence[Synonym]) -> tuple[Evidence, ...]:
    """Return each entity of the answer with its replacement, or why it has none."""
    by_key = {synonym.entity.key: synonym for synonym in chosen}
    rows: list[Evidence] = []
    for entity in answer:
        synonym = by_key.get(entity.key)
        known = without_empty({"name": entity.name, "class": entity.kind})
        if synonym is not None and synonym.text:
            named = bool(synonym.entity.named)
            how = {"how": synonym.how, "named": named, "decided_by": synonym.decided_by}
            rows.append({**known, "replacement": synonym.text, **how})
            continue
        if synonym is not None:
            refused = "; ".join(f"{text!r}: {why}" for text, why in synonym.rejected[:_MOST_REJECTED])
            why_not = f"no replacement{': ' + refused if refused else ''}"
        elif entity.state == "not_literal":
            why_not = NOT_IN_SENTENCE
        else:
            why_not = f"inside {entity.inside!r}" if entity.state == "contained" else "not tested"
        rows.append({**known, "left_out": why_not})
    return tuple(rows)


def test_evidence(tests: Sequence[OneTest]) -> tuple[Evidence, ...]:
    """Return each test with its three sentences and the most frequent extraction of each."""
    return tuple(
        {
            "passed": test.passed,
            "passing": test.passing,
            "combinations": test.total,
            "x": _extraction(test.samples[0]),
            "y": _extraction(test.samples[1]),
            "x+y": _extraction(test.samples[2]),
        }
        for test in tests
    )


def _extraction(samples: Samples) -> Evidence:
    names, times = most_frequent(samples.sets)
    return {
        "sentence": samples.text,
        "entities": sorted(names),
        "replies": times,
        "asked": len(samples.readings),
    }


@dataclass(frozen=True, slots=True)
class LinearityCounterexample:
    """A counterexample to linearity, as a search records it.

    :param replaced: number of entities that x or y replaces.
    :param entities: number of entities in the vectors.
    :param x, y: the names of the entities that they replace.
    """

    replaced: int
    entities: int
    x: tuple[str, ...]
    y: tuple[str, ...]
    culprits: tuple[CulpritEvidence, ...]

    @classmethod
    def from_json(cls, evidence: Evidence) -> LinearityCounterexample:
        """Read the ``counterexample`` of a line of ``searches.jsonl``; missing fields are empty or 0."""
        return cls(
            count_in(evidence, "replaced"),
            count_in(evidence, "entities"),
            texts_in(evidence, "x"),
            texts_in(evidence, "y"),
            tuple(map(CulpritEvidence.from_json, objects_in(evidence, "culprits"))),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        return {
            "x": list(self.x),
            "y": list(self.y),
            "replaced": self.replaced,
            "entities": self.entities,
            "culprits": [culprit.to_json() for culprit in self.culprits],
        }
