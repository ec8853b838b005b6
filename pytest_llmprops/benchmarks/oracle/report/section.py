"""The oracle-checker's section of a report: figures 6 and 10 and tables 1 to 5 of Zeng et al. for the run's models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, RULES, YES
from pytest_llmprops.benchmarks.oracle.metric_names import CONSISTENCY, OWN, RANDOM
from pytest_llmprops.benchmarks.oracle.report.cases import (
    denied_paraphrases,
    linearity_cases,
    pair_cases,
)
from pytest_llmprops.benchmarks.oracle.report.figures import (
    MOST_DRAWN,
    Bar,
    Bars,
    Profile,
    acceptance_plot,
    profile_plot,
)
from pytest_llmprops.benchmarks.oracle.report.pair_tables import (
    accepted_table,
    answers_table,
    own_table,
    provable_table,
    prover_table,
    risk_figure,
    sanity_table,
    trust_table,
)
from pytest_llmprops.benchmarks.oracle.report.searches import pair_search_blocks, search_blocks
from pytest_llmprops.benchmarks.oracle.report.tables import (
    PAPER,
    PAPERS_RULE,
    correlation_table,
    document_blocks,
    domain_name,
    domains,
    extraction_tables,
    linear_places,
    linearity_table,
)
from pytest_llmprops.benchmarks.oracle.sentence_metrics import labelled_tested
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import Block, Figure, Fold, Note, Section, file_name, joined, visible
from pytest_llmprops.reports.kit.generic import detailed, fine_print
from pytest_llmprops.reports.kit.series import Measured, Series, place_of

#: maximum figures of sentences that are not folded
_OPEN = 2
OUTCOMES = (
    "A checker asks the model further questions and accepts its answer if the replies agree; it needs no right answers."
    " A rejected answer is not trusted, but never turned into its opposite."
)


def section(measured: Measured) -> Section:
    """Return the section: what was accepted, its bounds, the paper's numbers, and the parts of every benchmark."""
    tasks = {task for task, _, _ in measured.places}
    if not tasks & {LINEARITY, YES, NO, CONSISTENCY, OWN, RANDOM}:
        return generic.section(measured)
    blocks: list[Block] = [Note(OUTCOMES), *_remarks(measured)]
    places = linear_places(measured)
    groups = [group for place in places for group in _groups(measured, place)]
    if groups:
        blocks += [_figure(measured, groups), linearity_table(measured, places)]
        blocks += [*extraction_tables(measured, places), *document_blocks(measured, places)]
        blocks += _profiles(groups)
        blocks += [correlation_table(measured, places)]
    blocks += linearity_cases(measured)
    blocks += search_blocks(measured)
    if tasks & {YES, NO}:
        blocks += [
            answers_table(measured),
            *risk_figure(measured),
            accepted_table(measured),
            prover_table(measured),
            provable_table(measured),
            trust_table(measured),
            *pair_cases(measured),
            *pair_search_blocks(measured),
        ]
    if OWN in tasks:
        blocks += [own_table(measured), *denied_paraphrases(measured)]
    if tasks & {CONSISTENCY, OWN, RANDOM}:
        blocks.append(sanity_table(measured))
    return Section((*blocks, *detailed(measured), *fine_print(measured)))


def _remarks(measured: Measured) -> list[Block]:
    """Return the remarks of the runs, with their models if not all models have the remark."""
    remarks: dict[str, list[str]] = {}
    for s in measured.series:
        for row in s.run.facts.remarks:
            if (row.model, row.benchmark) == (s.model, measured.benchmark):
                remarks.setdefault(visible(row.text), []).append(s.label)
    all_labels = [s.label for s in measured.series]
    return [
        Note(f"{text[:1].upper()}{text[1:]}." if labels == all_labels else f"{joined(labels)}: {text}.")
        for text, labels in remarks.items()
        # OUTCOMES has this remark already.
        if not text.startswith("a rejected answer")
    ]


#: a series, the title of its sentences, and their records
DomainGroup = tuple[Series, str, list[VerdictRecord]]


def _groups(measured: Measured, place: Place) -> list[DomainGroup]:
    """Return the sentences of a place that could be read, by series and domain."""
    groups = []
    for s in measured.series:
        records = [
            r
            for r in measured.first_samples(s, [LINEARITY])
            if place_of(r) == place and "entities" in r.values
        ]
        names = domains(measured, s, place)
        for group in [name for name in names if name] or names:
            members = [r for r in records if not group or r.id.split("/")[1] == group]
            groups.append((s, domain_name(place, group), members))
    return groups


def _figure(measured: Measured, groups: Sequence[DomainGroup]) -> Figure:
    several = len(measured.series) > 1
    shown = [
        Bars(_bars_title(s, title, records, several), s.index, _bars(records)) for s, title, records in groups
    ]
    shown += [_printed("DOCRED"), _printed("RISC-V")]
    return Figure(
        "oracle-acceptance",
        "What was accepted (figure 6)",
        f"Shares of sentences, of tested and of labelled entities that were accepted, of"
        f" {joined([bars.title for bars in shown])}; the numbers are in the table below.",
        lambda: acceptance_plot(shown),
        "Sentences with something to test. Tested entities are accepted with their sentence; the paper counts all"
        " extracted ones. Acceptances by different rules cannot be compared; the paper's rule is any. Grey: the paper's"
        " GPT3.5 on the authors' sentences. Its share of labelled entities is computed from the printed numbers.",
    )


def _bars_title(s: Series, title: str, records: Sequence[VerdictRecord], several: bool) -> str:
    """Return the title of a model's bars. A rule other than the paper's is named, because it accepts less."""
    codes = {r.values.get("rule") for r in records if r.values.get("tests")}
    rules = ", ".join(rule for code, rule in enumerate(RULES) if code in codes and rule != PAPERS_RULE)
    mark = f" (rule {rules})" if rules else ""
    return (f"{s.starred}: {title}" if several else title.capitalize()) + mark


def _bars(records: Sequence[VerdictRecord]) -> tuple[Bar, ...]:
    tested = [r.values for r in records if r.values.get("tests")]
    accepted = [v for v in tested if v["accepted"]]
    bars = [_bar("Sentences", len(accepted), len(tested), len(tested))]
    entities = sum(v["tested"] for v in tested)
    bars.append(_bar("Entities tested", sum(v["tested"] for v in accepted), entities, entities))
    labels = [r.values for r in records if r.values.get("labelled")]
    labelled = sum(v["labelled"] for v in labels)
    if labelled:
        decided = [v for v in labels if v.get("tests")]
        number = sum(labelled_tested(v) for v in decided)
        kept = sum(labelled_tested(v) for v in decided if v["accepted"])
        bars.append(_bar("Entities labelled", kept, number, labelled))
    return tuple(bars)


def _bar(name: str, accepted: float, decided: float, every: float) -> Bar:
    """Return a bar. ``decided`` counts accepted and rejected."""
    return (
        Bar(name, accepted / every, (decided - accepted) / every, int(every)) if every else Bar(name, 0, 0, 0)
    )


def _printed(corpus: str) -> Bars:
    [sentences] = find(paper="oracle", table="section 5.1", metric="acceptance_rate", setting=corpus)
    [entities] = find(paper="oracle", table="section 5.1", metric="entity_acceptance_rate", setting=corpus)
    bars = [
        Bar("Sentences", sentences.value, 1 - sentences.value, sentences.n),
        Bar("Entities extracted", entities.value, 1 - entities.value, entities.n),
    ]
    both = find(paper="oracle", table="section 5.1", setting=f"{corpus}; labelled entities")
    labels = find(paper="oracle", metric="entity_count", model="human labels", setting=corpus)
    if both and both[0].n and labels:
        bars.append(_bar("Entities labelled", both[0].value * both[0].n, both[0].n, labels[0].value))
    return Bars(f"GPT3.5: {PAPER}, {corpus}", -1, tuple(bars))


def _profiles(groups: Sequence[DomainGroup]) -> list[Block]:
    figures: list[Block] = []
    for s, title, records in groups:
        profiles = [_profile(r.values) for r in records if r.values.get("tests")]
        if not profiles:
            continue
        name = f"oracle-sentences-{len(figures)}-{file_name(title)}"
        selection = f" {MOST_DRAWN:,} of {len(profiles):,} are drawn." if len(profiles) > MOST_DRAWN else ""
        figures.append(
            Figure(
                name,
                f"Sentence by sentence (figure 10): {s.starred}, {title}",
                f"A_test, A_rate, number of entities and Con_o of {len(profiles):,} sentences of {title} for"
                f" {s.starred}, the most consistent first.",
                _plot_function(profiles, s.index),
                "Each column is a sentence, the most consistent first. A_test: tests passed; A_rate: combinations of"
                " samples that pass; #E: entities; Con_o: samples of the original sentence with its most frequent"
                f" answer, and above it the sizes of the groups of other answers.{selection}",
            )
        )
    if len(figures) > _OPEN:
        return [Fold("Sentence by sentence (figure 10)", tuple(figures))]
    return figures


def _plot_function(profiles: Sequence[Profile], series: int) -> Callable[[], Any]:
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
