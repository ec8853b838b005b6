"""The metrics of the linearity test (Zeng et al., section 5.1), and the lines of the summary about sentences.

The unit of a rate is a sentence, an entity, a changed sentence or a combination of replies. Units of a sentence, and
sentences of a document, are not independent: intervals are over clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from pytest_llmprops.benchmarks.oracle.items import RULES
from pytest_llmprops.benchmarks.oracle.metric_names import DIRECTIONS
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings, bound_of
from pytest_llmprops.core.metrics import Metric, Place
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import mean_interval

Values = Mapping[str, float]
_Number = Callable[[Values], float]
#: the two sides of each rank correlation (table 1)
_ROWS, _COLUMNS = ("a_test", "a_rate", "entities"), ("con_o", "con_rs", "entities")


def domain_of(record: VerdictRecord) -> str:
    """Return the second part of the item's id: ``general``, ``technical`` …"""
    return record.id.split("/")[1]


def sentence_metrics(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of the sentences of one place, in total and by domain if there are several."""
    read = [r for r in members if "entities" in r.values]
    domains = dict.fromkeys(map(domain_of, read))
    groups = {"": read}
    if len(domains) > 1:
        groups |= {name: [r for r in read if domain_of(r) == name] for name in domains}
    for group, records in groups.items():
        yield from _ratio(place, "no_entities_rate", group, records, lambda v: v.get("no_entities", 0.0))
        labelled = [r for r in records if r.values.get("labelled")]
        overlap = "labelled_extracted", "labelled"
        yield from _ratio(place, "label_overlap", group, labelled, *map(_value, overlap), by_unit=True)
        yield from _tested(place, group, [r for r in records if r.values.get("tests")])


def _tested(place: Place, group: str, records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of sentences with something to test."""
    labelled = [r for r in records if r.values.get("labelled")]
    accepted = [r for r in records if r.values["accepted"]]
    prefix = f"{group}, " if group else ""
    yield from _ratio(place, "acceptance_rate", group, records, _value("accepted"))
    yield from _ratio(place, "faithful_acceptance_rate", group, records, _value("faithful"))
    for name, some, whole in (
        (group, records, "tested"), (f"{prefix}labelled", labelled, "labelled_tested"),
    ):  # fmt: skip
        hits = _product("accepted", whole)
        yield from _ratio(place, "entity_acceptance_rate", name, some, hits, _value(whole), by_unit=True)
    yield from _ratio(place, "a_rate", group, records, a_rate)
    yield from _ratio(place, "a_rate", f"{prefix}accepted", accepted, a_rate)
    shares = (
        ("identity_rate", group, "identity", "changed"), ("named_share", group, "named", "tested"),
        ("named_share", f"{prefix}by vote", "named_by_vote", "tested"),
    )  # fmt: skip
    for name, shown, part, every in shares:
        yield from _ratio(place, name, shown, records, _value(part), _value(every), by_unit=True)
    yield from _correlations(place, prefix, [r.values for r in records])


def _value(name: str) -> _Number:
    return lambda values: values[name]


def _product(one: str, other: str) -> _Number:
    return lambda values: values[one] * values[other]


def _one(values: Values) -> float:
    return 1.0


def a_rate(values: Values) -> float:
    """Return the share of combinations of samples that pass."""
    return values["combinations_passed"] / values["combinations"]


def a_test(values: Values) -> float:
    """Return the share of tests that pass."""
    return values["tests_passed"] / values["tests"]


def _ratio(
    place: Place,
    name: str,
    group: str,
    records: Sequence[VerdictRecord],
    part: _Number,
    whole: _Number = _one,
    *,
    by_unit: bool = False,
) -> Iterator[Metric]:
    """Yield the sum of ``part`` over the sum of ``whole``, if there is any, with its interval over clusters.

    :param by_unit: whether ``part`` counts units, such as entities, out of ``whole``; otherwise it is a share.
    """
    units = [(part(r.values), int(whole(r.values)), r.cluster) for r in records]
    total = sum(n for _, n, _ in units)
    if not total:
        return
    scores, clusters = [part for part, _, _ in units], [cluster for _, _, cluster in units]
    if by_unit:
        scores = [score for hits, n, _ in units for score in (*[1.0] * int(hits), *[0.0] * (n - int(hits)))]
        clusters = [cluster for _, n, cluster in units for _ in range(n)]
    low, high, _ = mean_interval(scores, clusters)
    value = math.fsum(scores) / total
    yield Metric(*place, name, value, total, group, low, high, DIRECTIONS[name])


def _correlations(place: Place, prefix: str, values: Sequence[Values]) -> Iterator[Metric]:
    """Yield Spearman's rank correlations (table 1), except if one of the two values does not vary."""
    if len(values) < 3:
        return
    from scipy.stats import spearmanr

    columns = {name: [v[name] for v in values] for name in _COLUMNS}
    columns |= {"a_test": list(map(a_test, values)), "a_rate": list(map(a_rate, values))}
    for row, column in ((row, column) for row in _ROWS for column in _COLUMNS if row != column):
        first, second = columns[row], columns[column]
        if len(set(first)) > 1 and len(set(second)) > 1:
            rho = float(spearmanr(first, second).statistic)
            yield Metric(*place, "spearman", rho, len(values), f"{prefix}{row} ~ {column}")


def linearity_remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield what an acceptance means, and how many entities are extracted, which faithfulness does not tell."""
    values = [r.values for r in records if "entities" in r.values]
    tested = [v for v in values if v.get("tests")]
    for text in dict.fromkeys(bound_of(_settings_of(v)).text for v in tested):
        yield f"accepted sentences: {text}"
    if tested:
        accepted, faithful = (sum(v[name] for v in tested) for name in ("accepted", "faithful"))
        yield (
            f"sentences: {accepted:.0f} of {len(tested)} are accepted as in the paper; of these, {faithful:.0f} are"
            " also faithful, which makes them correct"
        )
    empty = [v for v in values if v.get("no_entities")]
    if 2 * len(empty) > len(values):
        yield f"warning: the answer is that there are no entities for {len(empty)} of {len(values)} sentences"
    if whole := sum(v.get("labelled", 0) for v in values):
        extracted = sum(v.get("labelled_extracted", 0) for v in values)
        yield f"completeness: {extracted / whole:.1%} of {whole:.0f} labelled entities are extracted"
    elif values:
        yield "completeness is not measured: no entity is labelled"


def _settings_of(values: Values) -> OracleSettings:
    """Return the settings that the bound of a tested sentence depends on, from its values."""
    samples, rule = int(values["samples"]), RULES[int(values["rule"])]
    return OracleSettings(samples=samples, tests=int(values["tests"]), rule=rule)
