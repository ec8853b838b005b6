"""Tables on extractors: the model between null extractors, and whether its losses are noise or dependence."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmprops.benchmarks.oracle.dependence import EXCLUDED, OUTCOMES
from pytest_llmprops.benchmarks.oracle.extraction_nulls import NAMES
from pytest_llmprops.benchmarks.oracle.report.tables import Row, domain_name, domains, headings, own, rule_of
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.reports.kit.blocks import Block, Cell, Table
from pytest_llmprops.reports.kit.series import Measured, Series

#: decision -> metrics of the model and of the null extractors
_DECISIONS = {
    "accepted": ("informative_acceptance_rate", "null_acceptance_rate"),
    "linear and faithful": ("faithful_acceptance_rate", "null_faithful_rate"),
}


def extraction_tables(measured: Measured, places: list[Place]) -> list[Block]:
    """Return the tables whose metrics the runs have; records of earlier versions lack them."""
    floor, losses = _floor_table(measured, places), _losses_table(measured, places)
    return [table for table in (floor, losses) if table.rows]


def _each(measured: Measured, places: list[Place]) -> Iterator[tuple[Series, Place, str, str]]:
    """Yield series, place, domain and the prefix of the domain's groups."""
    for place in places:
        for s in measured.series:
            for group in domains(measured, s, place):
                prefix = f"{group}, " if group else ""
                yield s, place, group, prefix


def _floor_table(measured: Measured, places: list[Place]) -> Table:
    rows: list[Row] = []
    for s, place, group, prefix in _each(measured, places):
        if not measured.metric(s, "null_acceptance_rate", place, prefix + NAMES["null_empty"]):
            continue
        for decision, (model, null) in _DECISIONS.items():
            metric = measured.metric(s, model, place, group)
            count = Cell("–") if metric is None else Cell(f"{metric.n:,}", metric.n)
            texts = (s.starred, domain_name(place, group), rule_of(measured, s, place), decision)
            nulls = [own(measured, s, null, place, prefix + name) for name in NAMES.values()]
            rows.append((*map(Cell, texts), count, own(measured, s, model, place, group), *nulls))
    columns = ("Sentences", "The model", *(name.capitalize() for name in NAMES.values()))
    note = (
        "Null extractors take the tests of the same sentences, those with a test that can fail. A rate means something"
        " only above theirs. The ceiling is 100%: an extractor that extracts every entity and every inserted synonym"
        " passes all tests. A constant list reaches it, too, but is never faithful."
    )
    heading = ("Model", "Sentences from", "Rule", "Decision")
    return Table("Floor and ceiling of extraction", headings(heading, columns), tuple(rows), note)


def _losses_table(measured: Measured, places: list[Place]) -> Table:
    rows: list[Row] = []
    for s, place, group, _ in _each(measured, places):
        metric = measured.metric(s, f"{OUTCOMES[0]}_entity_rate", place, group)
        if metric is None:
            continue
        shares = [own(measured, s, f"{outcome}_entity_rate", place, group) for outcome in OUTCOMES]
        texts = (s.starred, domain_name(place, group), rule_of(measured, s, place))
        rows.append((*map(Cell, texts), Cell(f"{metric.n:,}", metric.n), *shares))
    columns = ("Entities", *(outcome.capitalize() for outcome in OUTCOMES))
    note = (
        "Tested entities by how they are lost in changed sentences. Consistent: always or never. Inconsistent: the"
        f" answer varies by itself, and a dependence of {100 * EXCLUDED:.0f} points or more on another one is excluded."
        " Dependent: the losses differ between sentences more than chance explains (likelihood-ratio test, 5%, Holm"
        " over the entities of a sentence). Undecided: the replies are too few to tell."
    )
    heading = ("Model", "Sentences from", "Rule")
    return Table("Noise or dependence", headings(heading, columns), tuple(rows), note)
