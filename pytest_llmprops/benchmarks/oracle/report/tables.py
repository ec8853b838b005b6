"""The tables on sentences, including table 1, with the numbers that Zeng et al. print below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_llmprops.benchmarks.oracle.dependence import EXCLUDED, OUTCOMES
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, RULES
from pytest_llmprops.benchmarks.oracle.linearity import NAMES
from pytest_llmprops.benchmarks.oracle.sentence_metrics import (
    Document,
    documents_of,
    domain_of,
    union_overlaps,
)
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Table, visible
from pytest_llmprops.reports.kit.generic import metric_cell, share_cell
from pytest_llmprops.reports.kit.series import Measured, Series, place_of

PAPER = "the paper"
#: rule of the paper's numbers
PAPERS_RULE = "any"
#: group of our metric ``spearman`` -> the paper's setting
CORRELATIONS = {
    f"{row.lower()} ~ {column.lower()}".replace("#e", "entities"): f"{row} and {column}"
    for row in ("A_test", "A_rate", "#E")
    for column in ("Con_o", "Con_rs", "#E")
    if row != column
}
#: domain in an id -> its name, if they differ
_DOMAINS = {"p": "published", "own": "own"}
DASH = Cell("–")
Row = tuple[Cell, ...]


def sources(measured: Measured) -> list[tuple[str, str]]:
    """Return language and source of every task, in order of first appearance."""
    return list(dict.fromkeys((code, source) for _, code, source in measured.places))


def domains(measured: Measured, s: Series, place: Place) -> list[str]:
    """Return the groups of a series' judged sentences: "" for all, then the domains if there are several."""
    groups = [
        m.group
        for m in measured.metrics(s)
        if m.name in ("acceptance_rate", "decided_acceptance_rate")
        and place_of(m) == place
        and "," not in m.group
    ]
    return list(dict.fromkeys(groups))


def domain_name(place: Place, group: str) -> str:
    """Return the source of sentences, with their domain if there are several."""
    return f"{visible(place[2])}, {_DOMAINS.get(group, visible(group))}" if group else visible(place[2])


def own(measured: Measured, s: Series, name: str, place: Place, group: str = "") -> Cell:
    """Return the cell of a measured share, which may have an interval and open its items; a dash without it."""
    row = measured.metric(s, name, place, group)
    return DASH if row is None else metric_cell(measured, s, row)


def as_printed(value: float) -> str:
    """Return a share as a percentage with at most two decimals, as the paper prints it."""
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + "%"


def printed(table: str, metric: str, setting: str, form: Callable[[float], str] = as_printed) -> Cell:
    """Return the cell of a number that the paper prints; a dash if it prints none."""
    results = find(paper="oracle", table=table, metric=metric, setting=setting)
    return Cell(form(results[0].value), results[0].value) if results else DASH


def headings(heading: Sequence[str], numbers: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns of a table: texts, then numbers."""
    return (*((name, False) for name in heading), *((name, True) for name in numbers))


def rule_of(measured: Measured, s: Series, place: Place) -> str:
    """Return the rule by which a series' sentences were tested."""
    records = (r.values for r in measured.records(s, [LINEARITY]) if place_of(r) == place)
    codes = sorted(
        {int(v["rule"]) for v in records if v.get("tests") and 0 <= v.get("rule", -1) < len(RULES)}
    )
    return ", ".join(RULES[code] for code in codes) or "–"


def _each(measured: Measured, places: list[Place]) -> Iterator[tuple[Series, Place, str, str]]:
    """Yield series, place, domain and the prefix of the domain's groups."""
    for place in places:
        for s in measured.series:
            for group in domains(measured, s, place):
                prefix = f"{group}, " if group else ""
                yield s, place, group, prefix


def linearity_table(measured: Measured, places: list[Place]) -> Table:
    """Return the table of acceptances and tests, by source and domain (section 5.1, figure 6)."""
    rows: list[Row] = []
    for s, place, group, prefix in _each(measured, places):
        tested = measured.metric(s, "acceptance_rate", place, group)
        n = 0 if tested is None else tested.n
        texts = (s.starred, domain_name(place, group), rule_of(measured, s, place))
        cells = [*map(Cell, texts), Cell(f"{n:,}", n)]
        cells += [own(measured, s, name, place, group) for name in _SHARES]
        cells.insert(_COMPLETENESS, _union_overlap(measured, s, place, group))
        cells.insert(len(cells) - 1, own(measured, s, "a_rate", place, f"{prefix}accepted"))
        rows.append((*cells, *(own(measured, s, name, place, group) for name in _FURTHER)))
    rows += [_printed_linearity(corpus) for corpus in ("DOCRED", "RISC-V")]
    columns = (
        "Sentences", "Accepted", "Linear and faithful", "Overlap with labels", "Overlap with all models",
        "Entities in accepted", "Labelled in accepted", "A_rate",
        "A_rate, accepted", "A_test", "Identity", "Linear, not faithful", "Named", "By vote",
    )  # fmt: skip
    note = (
        "Sentences with something to test. Those without entities and those that cannot be measured are counted"
        " separately. A sentence is accepted if all its tests pass by the rule. Acceptances by different rules cannot"
        " be compared: any, the paper's, takes the best combination of samples and has no power against noise. Linear"
        " and faithful: the inserted synonyms of every changed sentence are extracted too, among sentences with a test"
        " that can fail. It does not tell whether entities are missing: compare the overlap with labels (labelled"
        " entities that are extracted) or with all models (of the names that any of the models extracts from sentences"
        " that all of them answered; a single model has none). Entities in accepted sentences are those that were"
        " tested. A_rate: combinations of samples that pass. Identity: changed sentences from which exactly the"
        " inserted synonyms are extracted. By vote: entities about which no rule decided whether they are named"
        " (appendix A.2; the paper counts all extracted entities). The paper's RISC-V sentences are from a"
        " specification, in the style of the hardware ones. Intervals of shares of entities are over sentences or"
        " documents, which are the clusters."
    )
    heading = ("Model", "Sentences from", "Rule")
    return Table("Linearity of entity extraction", headings(heading, columns), tuple(rows), note)


_SHARES = (
    "acceptance_rate", "faithful_acceptance_rate", "label_overlap", "entity_acceptance_rate",
    "labelled_entity_acceptance_rate", "a_rate", "a_test",
)  # fmt: skip
#: place of the overlap with all models, after three texts, the number of sentences and three shares
_COMPLETENESS = 7
_FURTHER = ("identity_rate", "linear_not_faithful_rate", "named_share", "named_by_vote_rate")


def _union_overlap(measured: Measured, s: Series, place: Place, group: str) -> Cell:
    """Return the cell of a model's overlap with all models of the report; a dash for a single model."""
    if len(measured.series) < 2:
        return DASH
    records = [
        [
            r
            for r in measured.first_samples(one, [LINEARITY])
            if place_of(r) == place and (not group or domain_of(r) == group)
        ]
        for one in measured.series
    ]
    overlap = union_overlaps(place, records)[measured.series.index(s)]
    return DASH if overlap is None else share_cell(overlap.row(s.model, measured.benchmark))


def _printed_linearity(corpus: str) -> Row:
    text, labelled = "section 5.1", f"{corpus}; labelled entities"
    [accepted] = find(paper="oracle", table=text, metric="acceptance_rate", setting=corpus)
    return (
        Cell(accepted.model),
        Cell(f"{PAPER}, {corpus}"),
        Cell(PAPERS_RULE),
        Cell(f"{accepted.n:,}", accepted.n),
        printed(text, "acceptance_rate", corpus),
        DASH,
        printed(text, "label_overlap_rate", corpus),
        DASH,
        printed(text, "entity_acceptance_rate", corpus),
        printed(text, "entity_acceptance_rate", labelled),
        DASH,
        printed(text, "combination_pass_rate", corpus),
        *(DASH, DASH, DASH),
        printed("appendix A.4", "named_entity_rate", corpus),
        printed("appendix A.2", "named_entity_undecided_rate", corpus),
    )


def correlation_table(measured: Measured, places: list[Place]) -> Table:
    """Return table 1: Spearman's rank correlations over sentences."""
    rows: list[Row] = []
    for s, place, group, prefix in _each(measured, places):
        metrics = [measured.metric(s, "spearman", place, f"{prefix}{name}") for name in CORRELATIONS]
        if any(metrics):
            cells = [DASH if r is None else Cell(_signed(r.value), r.value) for r in metrics]
            n = next(r.n for r in metrics if r)
            texts = (s.starred, domain_name(place, group), rule_of(measured, s, place))
            rows.append((*map(Cell, texts), Cell(f"{n:,}", n), *cells))
    for corpus in ("DOCRED", "RISC-V"):
        first = find(paper="oracle", table="1", setting=f"{corpus}; A_test and Con_o")[0]
        cells = [
            printed("1", "spearman_correlation", f"{corpus}; {name}", _signed)
            for name in CORRELATIONS.values()
        ]
        texts = (first.model, f"{PAPER}, {corpus}", PAPERS_RULE)
        rows.append((*map(Cell, texts), Cell(f"{first.n:,}", first.n), *cells))
    columns = ("Sentences", *(name.replace(" and ", " ~ ") for name in CORRELATIONS.values()))
    note = (
        "Con_o: samples of the sentence with its most frequent answer; Con_rs: the lowest such number over the"
        " transformed sentences; #E: entities. A dash: one of the two does not vary."
    )
    heading = ("Model", "Sentences from", "Rule")
    return Table("Correlations (Table 1)", headings(heading, columns), tuple(rows), note)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def linear_places(measured: Measured) -> list[Place]:
    """Return the places of the linearity test."""
    return [place for place in measured.places if place[0] == LINEARITY]


# Tables on extractors: the model between null extractors, and whether its losses are noise or dependence.

#: decision -> metrics of the model and of the null extractors
_DECISIONS = {
    "accepted": ("informative_acceptance_rate", "null_acceptance_rate"),
    "linear and faithful": ("faithful_acceptance_rate", "null_faithful_rate"),
    "accepted, with no entities": ("decided_acceptance_rate", "null_decided_rate"),
}


def extraction_tables(measured: Measured, places: list[Place]) -> list[Block]:
    """Return the tables whose metrics the runs have; records of earlier versions lack them."""
    floor, losses = _floor_table(measured, places), _losses_table(measured, places)
    return [table for table in (floor, losses) if table.rows]


def _floor_table(measured: Measured, places: list[Place]) -> Table:
    rows: list[Row] = []
    for s, place, group, prefix in _each(measured, places):
        for decision, (model, null) in _DECISIONS.items():
            if not any(measured.metric(s, null, place, prefix + name) for name in NAMES.values()):
                continue
            metric = measured.metric(s, model, place, group)
            count = Cell("–") if metric is None else Cell(f"{metric.n:,}", metric.n)
            texts = (s.starred, domain_name(place, group), rule_of(measured, s, place), decision)
            nulls = [own(measured, s, null, place, prefix + name) for name in NAMES.values()]
            rows.append((*map(Cell, texts), count, own(measured, s, model, place, group), *nulls))
    columns = ("Sentences", "The model", *(name.capitalize() for name in NAMES.values()))
    note = (
        "Null extractors take the tests of the same sentences, those with a test that can fail. A rate means something"
        " only above theirs. Accepted, with no entities: all sentences with an accepted or rejected answer. The answer"
        " that there are no entities is right where the labels say so, and wrong where they or the sentence have some."
        " The ceiling is 100%: an extractor that extracts every entity and every inserted synonym passes all tests. A"
        " constant list reaches it, too, but is never faithful."
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
    columns = ("Entities", "Consistent", "Inconsistent", "Varies between sentences", "Dependent", "Undecided")
    note = (
        "Tested entities by how they are lost in changed sentences. Consistent: always or never. Inconsistent: the"
        f" answer varies by itself, and a dependence of {100 * EXCLUDED:.0f} points or more on another one is excluded."
        " Varies between sentences: the losses differ between sentences more than chance explains, but no other entity"
        " was found that explains it. Dependent: the losses go with the other replaced entities, one of them, their"
        " number, or whether it is odd (permutation of sentences). Tests at 5%, Holm over the entities of a sentence."
        " Undecided: the replies or the sentences are too few to tell."
    )
    heading = ("Model", "Sentences from", "Rule")
    return Table("Noise or dependence", headings(heading, columns), tuple(rows), note)


# The table of documents whose sentences were tested for linearity until a bound was reached.

TITLE = "Linearity by document"
#: maximum rows of a table that is not folded
_OPEN = 25


def document_blocks(measured: Measured, places: Sequence[Place]) -> Iterator[Block]:
    """Yield the table of documents, folded if it is long; nothing if no sentence has a bound to reach."""
    rows = [
        (Cell(s.starred), Cell(visible(place[2])), *_cells(document))
        for place in places
        for s in measured.series
        for document in documents_of(
            r for r in measured.first_samples(s, [LINEARITY]) if place_of(r) == place
        )
    ]
    if rows:
        table = _table(rows)
        yield Fold(TITLE, (table,)) if len(rows) > _OPEN else table


def _cells(document: Document) -> Row:
    tested = len(document.records)
    cells = (
        Cell(visible(document.name)),
        Cell("yes" if document.is_accepted else "no"),
        Cell(f"{document.accepted:,} of {tested:,}", document.accepted / tested),
        Cell(f"{document.tests:,}", document.tests),
    )
    if not document.is_accepted:
        return (*cells, DASH, DASH)
    bound = document.bound()
    passes, excluded = bound.all_pass(document.epsilon), bound.epsilon(document.delta)
    return (
        *cells,
        Cell(f"ε {document.epsilon:g}: {passes:.2g}", passes),
        Cell(f"{excluded:.3f} (δ {document.delta:g})", excluded),
    )


def _table(rows: Sequence[Row]) -> Table:
    note = (
        "A document is accepted if each sentence that can be tested is accepted. Its mean distance is the mean, over"
        " these sentences, of the share of sets of replacements on which the extraction differs from the nearest linear"
        " one. Accepted if ε-far: the highest probability that all tests pass although the mean distance is ε or more,"
        " however it is distributed over the sentences. Excluded: from this mean distance on, that probability is at"
        " most δ."
    )
    heading = ("Model", "Sentences from", "Document", "Accepted")
    columns = ("Sentences accepted", "Tests", "Accepted if ε-far, at most", "Mean distance excluded")
    return Table(TITLE, headings(heading, columns), tuple(rows), note)
