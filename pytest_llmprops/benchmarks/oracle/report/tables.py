"""The oracle-checker's numbers on sentences, and table 1, above those that Zeng et al. print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pytest_llmprops.benchmarks.oracle.items import LINEARITY
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Cell, Table
from pytest_llmprops.reports.kit.generic import share_cell
from pytest_llmprops.reports.kit.series import Measured, Series, place_of
from pytest_llmprops.reports.kit.text import visible

PAPER = "the paper"
#: our group of ``spearman`` -> the paper's setting
CORRELATIONS = {
    f"{row.lower()} ~ {column.lower()}".replace("#e", "entities"): f"{row} and {column}"
    for row in ("A_test", "A_rate", "#E")
    for column in ("Con_o", "Con_rs", "#E")
    if row != column
}
#: the letters of domains in ids that are not names
_DOMAINS = {"p": "published", "own": "own"}
DASH = Cell("–")
Row = tuple[Cell, ...]


def sources(measured: Measured) -> list[tuple[str, str]]:
    """Language and source of every task, in order of first appearance."""
    return list(dict.fromkeys((code, source) for _, code, source in measured.places))


def domains(measured: Measured, s: Series, place: Place) -> list[str]:
    """Groups in which a series' sentences are told apart: "" for all, then the domains where there are several."""
    found = [
        m.group
        for m in measured.metrics(s)
        if m.name == "acceptance_rate" and place_of(m) == place and "," not in m.group
    ]
    return list(dict.fromkeys(found))


def domain_name(place: Place, group: str) -> str:
    """Where sentences are from: the source, with the domain where there are several."""
    return f"{visible(place[2])}, {_DOMAINS.get(group, visible(group))}" if group else visible(place[2])


def own(measured: Measured, s: Series, name: str, place: Place, group: str = "") -> Cell:
    """A metric as a share with its interval, where it has one."""
    row = measured.metric(s, name, place, group)
    return DASH if row is None else share_cell(row)


def as_printed(value: float) -> str:
    """A share in the paper's form: with the decimals that it has, at most two."""
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + "%"


def printed(table: str, metric: str, setting: str, form: Callable[[float], str] = as_printed) -> Cell:
    """A number that the paper prints; a dash where it prints none."""
    found = find(paper="oracle", table=table, metric=metric, setting=setting)
    return Cell(form(found[0].value), found[0].value) if found else DASH


def headings(heading: Sequence[str], numbers: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Columns of a table: texts, then numbers."""
    return (*((name, False) for name in heading), *((name, True) for name in numbers))


def linearity_table(measured: Measured, places: list[Place]) -> Table:
    """What was accepted, and how the tests went, by source and domain (section 5.1, figure 6)."""
    rows: list[Row] = []
    for place in places:
        for s in measured.series:
            for group in domains(measured, s, place):
                tested = measured.metric(s, "acceptance_rate", place, group)
                assert tested is not None
                accepted = f"{group}, accepted" if group else "accepted"
                cells = [
                    Cell(s.starred),
                    Cell(domain_name(place, group)),
                    Cell(f"{tested.n:,}", tested.n),
                ]
                cells += [own(measured, s, name, place, group) for name in _SHARES]
                cells.insert(len(cells) - 1, own(measured, s, "a_rate", place, accepted))
                rows.append((*cells, *(own(measured, s, name, place, group) for name in _FURTHER)))
    rows += [_printed_linearity(corpus) for corpus in ("DOCRED", "RISC-V")]
    columns = (
        "Sentences", "Accepted", "Entities in accepted", "Labelled in accepted", "Overlap with labels", "A_rate",
        "A_rate, accepted", "A_test", "Identity", "Linear, not faithful", "Named",
    )  # fmt: skip
    note = (
        "Sentences with something to test; those without entities, and those that cannot be measured, are counted"
        " apart. A sentence is accepted when all its tests pass. Overlap: labelled entities that are extracted."
        " A_rate: combinations of samples that pass. Identity: changed sentences in which every synonym that was"
        " put in is found, and no other; an accepted sentence on which that does not hold is linear, but not faithful."
        " The paper's RISC-V sentences are a specification, as the technical ones are."
    )
    return Table(
        "Linearity of entity extraction", headings(("Model", "Sentences from"), columns), tuple(rows), note
    )


_SHARES = (
    "acceptance_rate", "entity_acceptance_rate", "labelled_entity_acceptance_rate", "label_overlap", "a_rate", "a_test",
)  # fmt: skip
_FURTHER = ("identity_rate", "linear_not_faithful_rate", "named_share")


def _printed_linearity(corpus: str) -> Row:
    text, labelled = "section 5.1", f"{corpus}; labelled entities"
    [accepted] = find(paper="oracle", table=text, metric="acceptance_rate", setting=corpus)
    return (
        Cell(accepted.model),
        Cell(f"{PAPER}, {corpus}"),
        Cell(f"{accepted.n:,}", accepted.n),
        printed(text, "acceptance_rate", corpus),
        printed(text, "entity_acceptance_rate", corpus),
        printed(text, "entity_acceptance_rate", labelled),
        printed(text, "label_overlap_rate", corpus),
        DASH,
        printed(text, "combination_pass_rate", corpus),
        *(DASH, DASH, DASH),
        printed("appendix A.4", "named_entity_rate", corpus),
    )


def correlation_table(measured: Measured, places: list[Place]) -> Table:
    """Table 1: Spearman's rank correlations over sentences."""
    rows: list[Row] = []
    for place in places:
        for s in measured.series:
            for group in domains(measured, s, place):
                mark = f"{group}, " if group else ""
                found = [measured.metric(s, "spearman", place, f"{mark}{name}") for name in CORRELATIONS]
                if any(found):
                    cells = [DASH if r is None else Cell(_signed(r.value), r.value) for r in found]
                    n = next(r.n for r in found if r)
                    rows.append((Cell(s.starred), Cell(domain_name(place, group)), Cell(f"{n:,}", n), *cells))
    for corpus in ("DOCRED", "RISC-V"):
        some = find(paper="oracle", table="1", setting=f"{corpus}; A_test and Con_o")[0]
        cells = [
            printed("1", "spearman_correlation", f"{corpus}; {name}", _signed)
            for name in CORRELATIONS.values()
        ]
        rows.append((Cell(some.model), Cell(f"{PAPER}, {corpus}"), Cell(f"{some.n:,}", some.n), *cells))
    columns = ("Sentences", *(name.replace(" and ", " ~ ") for name in CORRELATIONS.values()))
    note = (
        "Con_o: samples of the sentence that give its most frequent answer; Con_rs: the same of the transformed"
        " sentence on which it is least; #E: entities. A dash: one of the two does not vary."
    )
    return Table("Correlations (Table 1)", headings(("Model", "Sentences from"), columns), tuple(rows), note)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def linear_places(measured: Measured) -> list[Place]:
    """The places of sentences."""
    return [place for place in measured.places if place[0] == LINEARITY]
