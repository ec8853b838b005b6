"""The metrics of the linearity test (Zeng et al., section 5.1).

The unit of a rate is a sentence, an entity, a changed sentence, an entity in a changed sentence, or a test;
``docs/oracle-reference.md`` says which. Units of a sentence, and sentences of a document, are not independent:
intervals are over clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.oracle.dependence import OUTCOMES
from pytest_llmprops.benchmarks.oracle.extraction import Names, normalised
from pytest_llmprops.benchmarks.oracle.linearity import NAMES
from pytest_llmprops.benchmarks.oracle.linearity_evidence import NOT_IN_SENTENCE, SentenceEvidence
from pytest_llmprops.benchmarks.oracle.metric_names import DIRECTIONS
from pytest_llmprops.core.linearity import Passed, PooledBound, pooled_bound
from pytest_llmprops.core.metrics import Metric, Place, rate
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import mean_interval
from pytest_llmprops.core.verdicts import text_in

# Sentences that are tested until a bound is reached: the tests used, and the bound over a document.
#
# A document is a cluster of several items. Its *mean distance* is the mean, over its tested sentences, of the
# distance of the extraction from linear. Sentences that cannot be tested are not in it. The tests of
# different sentences are drawn independently, so the bound is a product over the sentences; see
# ``core/linearity.py``.


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
        """True if all tested sentences are accepted, and all tests could be run."""
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


Values = Mapping[str, float]


def domain_of(record: VerdictRecord) -> str:
    """Return the second part of the item's id: ``general``, ``technical`` …"""
    return record.id.split("/")[1]


def sentence_metrics(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of the sentences of one place, in total and by domain if there are several."""
    read = [r for r in members if "entities" in r.values]
    yield rate(place, "no_entities_rate", [bool(r.values.get("no_entities")) for r in read], "none")
    yield rate(place, "unmeasurable_rate", [bool(r.values.get("unmeasurable")) for r in read], "none")
    vacuous = [bool(r.values["no_informative_test"]) for r in read if "no_informative_test" in r.values]
    if vacuous:
        yield rate(place, "no_informative_test_rate", vacuous, "none")
    domains = dict.fromkeys(map(domain_of, read))
    groups = {"": read}
    if len(domains) > 1:
        groups |= {name: [r for r in read if domain_of(r) == name] for name in domains}
    for group, group_records in groups.items():
        # This includes sentences without extracted entities and sentences that cannot be tested.
        yield from _decided(place, group, [r for r in group_records if is_decided(r.values)])
        labelled = _labelled(group_records)
        extracted, whole = _value("labelled_extracted"), _value("labelled")
        yield from _share(place, "label_overlap", labelled, extracted, whole, group)
        tested = [r for r in group_records if r.values.get("tests")]
        if tested:
            yield from _tested(place, group, tested)
            yield from _correlations(place, group, [r.values for r in tested])


def is_decided(values: Values) -> bool:
    """Return True if an answer is accepted or rejected, "no entities" too where that can be told."""
    return bool(values.get("tests")) or ("no_entities" in values and "null_nothing" in values)


def _decided(place: Place, group: str, records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the share of accepted answers, and that of an extractor that extracts nothing."""
    if records:
        yield _mean(place, records)("decided_acceptance_rate", _value("accepted"), group)
    if known := [r for r in records if "null_nothing" in r.values]:
        name = NAMES["null_nothing"]
        group = f"{group}, {name}" if group else name
        yield _mean(place, known)("null_decided_rate", _value("null_nothing"), group)


def _labelled(records: Iterable[VerdictRecord]) -> list[VerdictRecord]:
    return [r for r in records if r.values.get("labelled")]


def _tested(place: Place, group: str, records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of sentences with something to test. Those accepted trivially are counted separately."""
    mean = _mean(place, records)
    yield mean("acceptance_rate", lambda v: v["accepted"], group)
    accepted = [r for r in records if r.values["accepted"]]
    # Only tested entities are accepted or rejected; those left out of the vectors are neither.
    yield from _share(
        place, "entity_acceptance_rate", records, _of_accepted(_value("tested")), _value("tested"), group
    )
    name, parts = "labelled_entity_acceptance_rate", _of_accepted(labelled_tested)
    yield from _share(place, name, _labelled(records), parts, labelled_tested, group)
    yield mean("a_rate", _a_rate, group)
    if accepted:
        yield _mean(place, accepted)("a_rate", _a_rate, f"{group}, accepted" if group else "accepted")
    yield mean("a_test", lambda v: v["tests_passed"] / v["tests"], group)
    yield mean("con_o", lambda v: v["con_o"] / v["samples"], group)
    yield mean("con_rs", lambda v: v["con_rs"] / v["samples"], group)
    yield mean("entities", _value("entities"), group)
    yield mean("linear_not_faithful_rate", _value("linear_not_faithful"), group)
    informative = [r for r in records if not r.values.get("no_informative_test")]
    if informative:
        yield _mean(place, informative)("informative_acceptance_rate", _value("accepted"), group)
        yield _mean(place, informative)("faithful_acceptance_rate", _is_faithful, group)
        yield from _nulls(place, informative, group)
    drawn = [r for r in records if "informative_tests" in r.values]
    yield from _share(
        place,
        "vacuous_test_rate",
        drawn,
        lambda v: v["tests"] - v["informative_tests"],
        _value("tests"),
        group,
    )
    yield from _share(place, "identity_rate", records, _value("identity"), _value("changed"), group)
    decided = [r for r in records if "undecided" in r.values]
    for outcome in OUTCOMES:
        name = f"{outcome}_entity_rate"
        yield from _share(place, name, decided, _value(outcome), _value("tested"), group)
    yield from _share(place, "named_share", records, _value("named"), _value("tested"), group)
    voted = [r for r in records if "named_by_vote" in r.values]
    yield from _share(place, "named_by_vote_rate", voted, _value("named_by_vote"), _value("tested"), group)
    yield from _share(place, "lost_rate", records, _value("lost"), _slots, group)
    yield from _share(place, "both_rate", records, _value("both"), _slots, group)
    if sentences := math.fsum(r.values["sentences"] for r in records):
        # A number per sentence, not a share: no interval.
        extra = math.fsum(r.values["extra"] for r in records) / sentences
        direction = DIRECTIONS["extra_per_sentence"]
        yield Metric(*place, "extra_per_sentence", extra, int(sentences), group, direction=direction)


def union_overlaps(place: Place, models: Sequence[Sequence[VerdictRecord]]) -> list[Metric | None]:
    """Return, per model, the share that it extracts of the entities that any of the models extracts.

    It is not a metric of a run, because it needs the records of several models.

    Only names that are in the sentence count, on sentences with a readable answer of every model.

    :param models: the records of each model, one per sentence. Those without evidence are left out.
    """
    answers = [
        {r.id: (names, r.cluster) for r in records if (names := _extracted(r)) is not None}
        for records in models
    ]
    common = [name for name in answers[0] if all(name in model for model in answers)] if answers else []
    unions = {name: frozenset().union(*(model[name][0] for model in answers)) for name in common}
    return [
        next(
            _share_of(
                place,
                "union_overlap",
                [(len(model[name][0]), len(union), model[name][1]) for name, union in unions.items()],
            ),
            None,
        )
        for model in answers
    ]


def _extracted(record: VerdictRecord) -> Names | None:
    """Return the names of a model's answer that are in the sentence; None if they are not known."""
    entities = SentenceEvidence.from_json(record.evidence).entities
    if len(entities) != record.values.get("entities"):
        return None
    names = (text_in(e, "name") for e in entities if text_in(e, "left_out") != NOT_IN_SENTENCE)
    return frozenset(map(normalised, names))


Number = Callable[[Values], float]


def _value(name: str) -> Number:
    return lambda v: v[name]


def labelled_tested(values: Values) -> float:
    """Return the labelled entities in the vectors; in older records, those in the answer."""
    return values.get("labelled_tested", values["labelled_extracted"])


def _of_accepted(number: Number) -> Number:
    return lambda v: number(v) * v["accepted"]


def _slots(values: Values) -> float:
    """Return the number of tested entities in all readable changed sentences."""
    return values["sentences"] * values["tested"]


def _nulls(place: Place, records: Sequence[VerdictRecord], group: str) -> Iterator[Metric]:
    """Yield how often null extractors are accepted on the sentences with a test that can fail."""
    prefix = f"{group}, " if group else ""
    for value, name in NAMES.items():
        played = [r for r in records if value in r.values]
        if played:
            mean = _mean(place, played)
            yield mean("null_acceptance_rate", _value(value), prefix + name)
            yield mean("null_faithful_rate", _value(f"{value}_faithful"), prefix + name)


def _is_faithful(values: Values) -> float:
    return float(values["accepted"] and not values["linear_not_faithful"])


def _a_rate(values: Values) -> float:
    return values["combinations_passed"] / values["combinations"]


def _mean(place: Place, records: Sequence[VerdictRecord]) -> Callable[[str, Number, str], Metric]:
    """Return a function for the mean over sentences with its interval, which accounts for clusters."""
    clusters = [r.cluster for r in records]

    def row(name: str, number: Number, group: str) -> Metric:
        numbers = [number(r.values) for r in records]
        value = math.fsum(numbers) / len(numbers)
        low: float | None = None
        high: float | None = None
        if all(0 <= n <= 1 for n in numbers):
            low, high, _ = mean_interval(numbers, clusters)
        return Metric(*place, name, value, len(numbers), group, low, high, DIRECTIONS[name])

    return row


def _share(
    place: Place, name: str, records: Sequence[VerdictRecord], part: Number, whole: Number, group: str = ""
) -> Iterator[Metric]:
    """Yield a share of units, such as entities. Its interval is over clusters, whose units are not independent.

    :param part: units of a sentence that are counted, out of ``whole``.
    """
    yield from _share_of(
        place, name, [(int(part(r.values)), int(whole(r.values)), r.cluster) for r in records], group
    )


def _share_of(
    place: Place, name: str, units: Sequence[tuple[int, int, str]], group: str = ""
) -> Iterator[Metric]:
    """Yield a share of units.

    :param units: counted units, all units and cluster of each sentence.
    """
    if total := sum(n for _, n, _ in units):
        scores = [score for hits, n, _ in units for score in (*[1.0] * hits, *[0.0] * (n - hits))]
        low, high, _ = mean_interval(scores, [cluster for _, n, cluster in units for _ in range(n)])
        value = sum(hits for hits, _, _ in units) / total
        yield Metric(*place, name, value, total, group, low, high, DIRECTIONS.get(name, "none"))


def _correlations(place: Place, group: str, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield Spearman's rank correlations (table 1), except if one of the two values does not vary."""
    prefix = f"{group}, " if group else ""
    rows = {"a_test": _value("tests_passed"), "a_rate": _a_rate, "entities": _value("entities")}
    columns = {name: _value(name) for name in ("con_o", "con_rs", "entities")}
    if len(values) < 3:
        return
    from scipy.stats import spearmanr

    for row, first in rows.items():
        for column, second in columns.items():
            a, b = [first(v) for v in values], [second(v) for v in values]
            if row != column and len(set(a)) > 1 and len(set(b)) > 1:
                rho = float(spearmanr(a, b).statistic)
                yield Metric(*place, "spearman", rho, len(values), f"{prefix}{row} ~ {column}")


def null_remarks(values: Sequence[Values]) -> Iterator[str]:
    """Yield what is accepted of the model and of null extractors on the same sentences."""
    names = {value: name for value, name in NAMES.items() if value != "null_nothing"}
    played = [v for v in values if names.keys() <= v.keys() and not v.get("no_informative_test")]
    if played:
        nulls = [
            f"{name} {_percent(played, value)} ({_percent(played, f'{value}_faithful')})"
            for value, name in names.items()
        ]
        model = sum(map(_is_faithful, played)) / len(played)
        yield (
            f"sentences: {_percent(played, 'accepted')} accepted ({model:.1%} also faithful); of null extractors on the"
            f" same {len(played)} sentences: {', '.join(nulls)}"
        )


def completeness_remarks(values: Sequence[Values]) -> Iterator[str]:
    """Yield how many entities are extracted, which faithfulness does not tell, and a warning if it is often none.

    :param values: of the sentences with a readable answer.
    """
    empty = [v for v in values if v.get("no_entities")]
    if 2 * len(empty) > len(values):
        wrong = sum(v.get("null_nothing") == 0 for v in empty)
        untested = sum("null_nothing" not in v for v in empty)
        yield (
            f"warning: the answer is that there are no entities for {len(empty)} of {len(values)} sentences"
            f" ({wrong} wrong, {untested} cannot be judged)"
        )
    if not values:
        return
    if whole := sum(v.get("labelled", 0) for v in values):
        extracted = sum(v["labelled_extracted"] for v in values if v.get("labelled"))
        text = f"completeness: {extracted / whole:.1%} of {whole:.0f} labelled entities are extracted"
    else:
        text = (
            "completeness is not measured: no entity is labelled; a report on several models compares theirs"
        )
    if tested := [v for v in values if v.get("tests") and not v.get("no_informative_test")]:
        faithful = sum(map(_is_faithful, tested)) / len(tested)
        text += f" ({faithful:.1%} of {len(tested)} sentences are linear and faithful)"
    yield text


def _percent(values: Sequence[Values], name: str) -> str:
    return f"{sum(v[name] for v in values) / len(values):.1%}"
