"""The oracle-checker in a report: figures 6 and 10 and tables 1 to 5 of Zeng et al. for the models at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES
from pytest_llmprops.benchmarks.oracle.metrics import CONSISTENCY, OWN, RANDOM
from pytest_llmprops.benchmarks.oracle.report.cases import linearity_cases, pair_cases
from pytest_llmprops.benchmarks.oracle.report.figures import (
    MOST_DRAWN,
    Bar,
    Bars,
    Profile,
    acceptance_plot,
    profile_plot,
)
from pytest_llmprops.benchmarks.oracle.report.pair_tables import (
    answers_table,
    own_table,
    provable_table,
    sanity_table,
    trust_table,
)
from pytest_llmprops.benchmarks.oracle.report.searches import search_blocks
from pytest_llmprops.benchmarks.oracle.report.tables import (
    PAPER,
    correlation_table,
    domain_name,
    domains,
    linear_places,
    linearity_table,
)
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import Block, Figure, Fold, Note, Section
from pytest_llmprops.reports.kit.generic import detailed, fine_print
from pytest_llmprops.reports.kit.series import Measured, Series, place_of
from pytest_llmprops.reports.kit.text import file_name, joined, visible

#: figures that stand open
_OPEN = 2
OUTCOMES = (
    "An answer is accepted when it survives further questions to the model itself; no right answers are needed. A"
    " rejected answer is not trusted; it is never turned into its opposite."
)


def section(measured: Measured) -> Section:
    """What was accepted and what that is worth, with the paper's numbers, and what every benchmark has."""
    tasks = {task for task, _, _ in measured.places}
    if not tasks & {LINEARITY, YES, NO, CONSISTENCY, OWN, RANDOM}:
        return generic.section(measured)
    blocks: list[Block] = [Note(OUTCOMES), *_remarks(measured)]
    places = linear_places(measured)
    groups = [found for place in places for found in _groups(measured, place)]
    if groups:
        blocks += [_figure(measured, groups), linearity_table(measured, places), *_profiles(groups)]
        blocks += [correlation_table(measured, places)]
    blocks += linearity_cases(measured)
    blocks += search_blocks(measured)
    if tasks & {YES, NO}:
        blocks += [
            answers_table(measured),
            provable_table(measured),
            trust_table(measured),
            *pair_cases(measured),
        ]
    if OWN in tasks:
        blocks.append(own_table(measured))
    if tasks & {CONSISTENCY, OWN, RANDOM}:
        blocks.append(sanity_table(measured))
    return Section((*blocks, *detailed(measured), *fine_print(measured)))


def _remarks(measured: Measured) -> list[Block]:
    """What each run says its acceptances are worth."""
    said: dict[str, list[str]] = {}
    for s in measured.series:
        for row in s.run.facts.remarks:
            if (row.model, row.benchmark) == (s.model, measured.benchmark):
                said.setdefault(visible(row.text), []).append(s.label)
    everyone = [s.label for s in measured.series]
    return [
        Note(f"{text[:1].upper()}{text[1:]}." if labels == everyone else f"{joined(labels)}: {text}.")
        for text, labels in said.items()
        # Said above, for all.
        if not text.startswith("a rejected answer")
    ]


#: a series, the title of its sentences, and their records
DomainGroup = tuple[Series, str, list[VerdictRecord]]


def _groups(measured: Measured, place: Place) -> list[DomainGroup]:
    """The sentences of a place that could be read, by series and domain."""
    found = []
    for s in measured.series:
        records = [
            r for r in measured.records(s, [LINEARITY]) if place_of(r) == place and "entities" in r.values
        ]
        names = domains(measured, s, place)
        for group in [name for name in names if name] or names:
            own = [r for r in records if not group or r.id.split("/")[1] == group]
            found.append((s, domain_name(place, group), own))
    return found


def _figure(measured: Measured, groups: Sequence[DomainGroup]) -> Figure:
    several = len(measured.series) > 1
    shown = [
        Bars(f"{s.starred}: {title}" if several else title.capitalize(), s.index, _bars(records))
        for s, title, records in groups
    ]
    shown += [_printed("DOCRED"), _printed("RISC-V")]
    return Figure(
        "oracle-acceptance",
        "What was accepted (figure 6)",
        f"Shares of sentences, of extracted and of labelled entities that were accepted, of"
        f" {joined([bars.title for bars in shown])}; the numbers are in the table below.",
        lambda: acceptance_plot(shown),
        "Sentences with something to test. Entities are accepted with their sentence. Grey: the paper's GPT3.5, on the"
        " authors' sentences; its share of labelled entities is derived from the printed numbers.",
    )


def _bars(records: Sequence[VerdictRecord]) -> tuple[Bar, ...]:
    tested = [r.values for r in records if r.values.get("tests")]
    accepted = [v for v in tested if v["accepted"]]
    found = [_bar("Sentences", len(accepted), len(tested), len(tested))]
    extracted = sum(v["entities"] for v in tested)
    found.append(_bar("Entities extracted", sum(v["entities"] for v in accepted), extracted, extracted))
    labels = [r.values for r in records if r.values.get("labelled")]
    labelled = sum(v["labelled"] for v in labels)
    if labelled:
        kept = sum(v["labelled_extracted"] for v in labels if v.get("tests") and v["accepted"])
        found.append(_bar("Entities labelled", kept, sum(v["labelled_extracted"] for v in labels), labelled))
    return tuple(found)


def _bar(name: str, accepted: float, decided: float, every: float) -> Bar:
    """:param decided: accepted or rejected."""
    return (
        Bar(name, accepted / every, (decided - accepted) / every, int(every)) if every else Bar(name, 0, 0, 0)
    )


def _printed(corpus: str) -> Bars:
    [sentences] = find(paper="oracle", table="section 5.1", metric="acceptance_rate", setting=corpus)
    [entities] = find(paper="oracle", table="section 5.1", metric="entity_acceptance_rate", setting=corpus)
    found = [
        Bar("Sentences", sentences.value, 1 - sentences.value, sentences.n),
        Bar("Entities extracted", entities.value, 1 - entities.value, entities.n),
    ]
    both = find(paper="oracle", table="section 5.1", setting=f"{corpus}; labelled entities")
    labels = find(paper="oracle", metric="entity_count", model="human labels", setting=corpus)
    if both and both[0].n and labels:
        found.append(_bar("Entities labelled", both[0].value * both[0].n, both[0].n, labels[0].value))
    return Bars(f"GPT3.5: {PAPER}, {corpus}", -1, tuple(found))


def _profiles(groups: Sequence[DomainGroup]) -> list[Block]:
    figures: list[Block] = []
    for s, title, records in groups:
        profiles = [_profile(r.values) for r in records if r.values.get("tests")]
        if not profiles:
            continue
        name = f"oracle-sentences-{len(figures)}-{file_name(title)}"
        drawn = f" {MOST_DRAWN:,} of {len(profiles):,} are drawn." if len(profiles) > MOST_DRAWN else ""
        figures.append(
            Figure(
                name,
                f"Sentence by sentence (figure 10): {s.starred}, {title}",
                f"A_test, A_rate, number of entities and Con_o of {len(profiles):,} sentences of {title} for"
                f" {s.starred}, the surest first.",
                _drawn(profiles, s.index),
                "A column is a sentence, the surest first. A_test: tests passed; A_rate: combinations of samples that"
                " pass; #E: entities; Con_o: samples of the sentence itself that give its most frequent answer, above"
                f" it the sizes of the groups of other answers.{drawn}",
            )
        )
    if len(figures) > _OPEN:
        return [Fold("Sentence by sentence (figure 10)", tuple(figures))]
    return figures


def _drawn(profiles: Sequence[Profile], series: int) -> Callable[[], Any]:
    return lambda: profile_plot(profiles, series)


def _profile(values: Mapping[str, float]) -> Profile:
    sizes = [values["con_o"]]
    while (size := values.get(f"con_o_{len(sizes) + 1}")) is not None:
        sizes.append(size)
    return Profile(
        values["tests_passed"] / values["tests"],
        values["combinations_passed"] / values["combinations"],
        values["entities"],
        tuple(size / values["samples"] for size in sizes),
    )
