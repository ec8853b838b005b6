"""The evidence of a verdict on a sentence that was tested for linearity; see ``docs/record.md``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.culprits import Culprit
from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import Samples, most_frequent
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.evidence import (
    Evidence,
    count_in,
    objects_in,
    text_in,
    texts_in,
    without_empty,
)

#: maximum rejected replacements whose reasons an entity's evidence keeps
_MOST_REJECTED = 5


@dataclass(frozen=True, slots=True)
class CulpritEvidence:
    """An entity that breaks linearity, its kinds, and the counts that justify them, in words."""

    name: str
    synonym: str
    kinds: tuple[str, ...]
    why: str

    @classmethod
    def of(cls, culprit: Culprit) -> CulpritEvidence:
        """Return the evidence of ``culprit``."""
        return cls(culprit.name, culprit.synonym, culprit.kinds, culprit.why)

    @classmethod
    def from_json(cls, evidence: Evidence) -> CulpritEvidence:
        """Read a recorded culprit; missing fields are empty."""
        name, synonym, why = (text_in(evidence, key) for key in ("name", "synonym", "why"))
        return cls(name, synonym, texts_in(evidence, "kinds"), why)

    def to_json(self) -> Evidence:
        """Return the object for the record."""
        return {"name": self.name, "synonym": self.synonym, "kinds": list(self.kinds), "why": self.why}


@dataclass(frozen=True, slots=True)
class SentenceEvidence:
    """How a sentence was tested for linearity.

    :param entities: see :func:`entity_evidence`.
    :param tests: see :func:`test_evidence`.
    :param culprits: empty unless the sentence is rejected.
    """

    sentence: str = ""
    entities: tuple[Evidence, ...] = ()
    tests: tuple[Evidence, ...] = ()
    culprits: tuple[CulpritEvidence, ...] = ()

    @classmethod
    def from_json(cls, evidence: Evidence) -> SentenceEvidence:
        """Read a verdict's evidence; missing fields are empty."""
        return cls(
            text_in(evidence, "sentence"),
            objects_in(evidence, "entities"),
            objects_in(evidence, "tests"),
            tuple(map(CulpritEvidence.from_json, objects_in(evidence, "culprits"))),
        )

    def to_json(self) -> Evidence:
        """Return the object for the record, without its empty parts."""
        return without_empty(
            {
                "sentence": self.sentence,
                "entities": list(self.entities),
                "tests": list(self.tests),
                "culprits": [culprit.to_json() for culprit in self.culprits],
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
            why_not = "not in the sentence"
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
