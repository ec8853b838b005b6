"""Sentences that are tested until a bound is reached: the tests used, and the bound over a document.

A document is a cluster of several items. Its *mean distance* is the mean, over its tested sentences, of the distance of
the extraction from linear. Sentences that cannot be tested are not in it. The tests of different sentences are drawn
independently, so the bound is a product over the sentences; see ``core/linearity.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.metric_names import DIRECTIONS
from pytest_llmprops.core.linearity import Passed, PooledBound, pooled_bound
from pytest_llmprops.core.metrics import Metric, Place, rate
from pytest_llmprops.core.records import VerdictRecord


@dataclass(frozen=True, slots=True)
class Document:
    """A document whose sentences were tested until a bound was reached.

    :param records: its tested sentences.
    :param filtered: whether a content filter ended the tests of a sentence.
    """

    name: str
    records: tuple[VerdictRecord, ...]
    filtered: bool

    @property
    def epsilon(self) -> float:
        """The distance that each sentence was tested for."""
        return self.records[0].values["epsilon"]

    @property
    def delta(self) -> float:
        """The probability with which a sentence at that distance is accepted, at most."""
        return self.records[0].values["delta"]

    @property
    def accepted(self) -> int:
        """The number of accepted sentences."""
        return sum(r.values["accepted"] == 1 for r in self.records)

    @property
    def is_accepted(self) -> bool:
        """Whether all tested sentences are accepted, and all tests could be run."""
        return self.accepted == len(self.records) and not self.filtered

    @property
    def tests(self) -> int:
        """The number of tests of all its sentences."""
        return int(sum(r.values["tests"] for r in self.records))

    def bound(self) -> PooledBound:
        """Return what its acceptance says about the mean distance."""
        return pooled_bound(
            Passed(int(v["tested"]), int(v["tests"]), bool(v["known_in_full"]))
            for v in (r.values for r in self.records)
        )


def documents_of(records: Iterable[VerdictRecord]) -> list[Document]:
    """Return the documents with a sentence that was tested until a bound was reached, in order."""
    clusters: dict[str, list[VerdictRecord]] = {}
    for record in records:
        if record.cluster != record.id:
            clusters.setdefault(record.cluster, []).append(record)
    found = []
    for name, members in clusters.items():
        tested = tuple(r for r in members if "epsilon" in r.values)
        filtered = any(r.status == "refused" and "entities" in r.values for r in members)
        if tested:
            found.append(Document(name, tested, filtered))
    return found


def document_metrics(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the tests used per sentence, and the acceptance and the bound of each document."""
    tested = [r for r in members if "epsilon" in r.values]
    if not tested:
        return
    yield _tests(place, tested, "")
    if accepted := [r for r in tested if r.values["accepted"]]:
        yield _tests(place, accepted, "accepted")
    documents = documents_of(members)
    if documents:
        name = "document_acceptance_rate"
        yield rate(place, name, [d.is_accepted for d in documents], DIRECTIONS[name])
    for document in documents:
        group = f"document {document.name}"
        yield _tests(place, document.records, group)
        if document.is_accepted:
            bound, n = document.bound(), len(document.records)
            for name, value in (
                ("document_bound", bound.all_pass(document.epsilon)),
                ("document_epsilon", bound.epsilon(document.delta)),
            ):
                yield Metric(*place, name, value, n, group, direction=DIRECTIONS[name])


def _tests(place: Place, records: Sequence[VerdictRecord], group: str) -> Metric:
    name = "tests_per_sentence"
    mean = math.fsum(r.values["tests"] for r in records) / len(records)
    return Metric(*place, name, mean, len(records), group, direction=DIRECTIONS[name])


def document_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield how many documents are accepted, and the weakest of their bounds."""
    documents = documents_of(records)
    accepted = [d for d in documents if d.is_accepted]
    if not documents:
        return
    text = f"documents: {len(accepted)} of {len(documents)} accepted"
    if accepted:
        worst = max(d.bound().all_pass(d.epsilon) for d in accepted)
        rejected = math.floor(1000 * (1 - worst)) / 1000
        text += (
            f"; in each accepted one, an extractor {accepted[0].epsilon:g}-far on average over the tested sentences"
            f" would have been rejected with probability at least {rejected:.3f}"
        )
    yield text
