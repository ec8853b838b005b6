"""Tables 2 to 5 and the sanity checks, with the numbers that Zeng et al. print below."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.items import NO, YES
from pytest_llmprops.benchmarks.oracle.metric_names import CATEGORIES, CONSISTENCY, OWN, PAIRS, RANDOM
from pytest_llmprops.benchmarks.oracle.nulls import Pairs
from pytest_llmprops.benchmarks.oracle.report.figures import RiskLine, risk_plot
from pytest_llmprops.benchmarks.oracle.report.tables import (
    DASH,
    PAPER,
    Row,
    as_printed,
    headings,
    own,
    printed,
    sources,
)
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit.blocks import Cell, Figure, Table, percent, visible
from pytest_llmprops.reports.kit.generic import share_cell
from pytest_llmprops.reports.kit.series import Measured, Series, place_of

PHI = {"or": "φ_or", "and": "φ_and"}
#: category of table 5 -> the paper's setting
_CATEGORY = {"AI": "A and I", "ĀI": "not A, I", "AĪ": "A, not I", "ĀĪ": "not A, not I"}


def _each(measured: Measured, task: str, metric: str, group: str | None = None) -> list[tuple[Series, Place]]:
    """Return the series and places that have a metric of the task."""
    return [
        (s, (task, *where))
        for where in sources(measured)
        for s in measured.series
        if any(
            m.name == metric and place_of(m) == (task, *where) and m.value is not None
            and (group is None or m.group == group)
            for m in measured.metrics(s)
        )
    ]  # fmt: skip


def answers_table(measured: Measured) -> Table:
    """Return table 2: answers by label."""
    rows: list[Row] = []
    for s, place in _each(measured, PAIRS, "yes_rate"):
        cells = [Cell(s.starred), Cell(visible(place[2]))]
        for label in ("yes", "no"):
            row = measured.metric(s, "yes_rate", place, f"label {label}")
            no = None if row is None or row.value is None else 1 - row.value
            cells += [DASH if row is None else Cell(f"{row.n:,}", row.n)]
            cells += [DASH if row is None else share_cell(row), Cell(percent(no), no)]
        rows.append((*cells, own(measured, s, "label_agreement", place)))
    cells = []
    for label in ("yes", "no"):
        [result] = find(paper="oracle", table="2", metric="yes_rate", setting=f"labelled {label}")
        cells += [Cell(f"{result.n:,}", result.n), Cell(as_printed(result.value), result.value)]
        cells.append(printed("2", "no_rate", f"labelled {label}"))
    rows.append((Cell(result.model), Cell(PAPER), *cells, printed("2", "label_agreement", "MSRP pairs")))
    numbers = [
        f"Labelled {label}{what}" for label in ("yes", "no") for what in ("", ": says yes", ": says no")
    ]
    note = (
        "Agreement with the labels is not a verdict. Only the checker decides whether an answer is accepted."
    )
    return Table(
        "Answers by label (Table 2)",
        headings(("Model", "Pairs from"), (*numbers, "Agrees")),
        tuple(rows),
        note,
    )


def accepted_table(measured: Measured) -> Table:
    """Return what is accepted of the answers on pairs, and how much of that is right, next to other oracles."""
    rows: list[Row] = []
    for s, place in _each(measured, PAIRS, "coverage"):
        where = Cell(visible(place[2]))
        names = ("coverage", "accepted_precision", "right_acceptance_rate", "wrong_acceptance_rate")
        rows.append((Cell(s.starred), where, *(own(measured, s, name, place) for name in names)))
        for row in measured.metrics(s):
            if row.name == "null_coverage" and place_of(row) == place:
                precision = measured.metric(s, "null_precision", place, row.group)
                shares = [row.value, None if precision is None else precision.value]
                cells = [DASH if share is None else Cell(percent(share), share) for share in shares]
                rows.append((Cell(f"{s.starred}: {row.group}"), where, *cells, DASH, DASH))
    names = ("Accepted", "Right of accepted", "Accepted of right", "Accepted of wrong")
    note = (
        "An acceptance alone says little: oracles that know nothing are accepted, too. They answer the same pairs,"
        " confirm every phrase and know their own paraphrases. What is right of the accepted answers counts, and means"
        " something only where it is clearly above that of each of them at the same coverage."
    )
    return Table("Accepted answers on pairs", headings(("Oracle", "Pairs from"), names), tuple(rows), note)


def risk_figure(measured: Measured) -> list[Figure]:
    """Return the figure of risk against coverage; none without labels."""
    lines: list[RiskLine] = []
    nulls: dict[str, tuple[float, float]] = {}
    for s in measured.series:
        pairs = Pairs([r.values for r in measured.first_samples(s, [YES, NO])])
        model = pairs.model if pairs.values else None
        if model is None or model.precision is None:
            continue
        lines.append(RiskLine(s.starred, s.index, 1 - model.agrees, model.coverage, 1 - model.precision))
        nulls = nulls or {
            null.name: (null.coverage, 1 - null.precision)
            for null in pairs.nulls
            if null.precision is not None
        }
    if not lines:
        return []
    named = ", ".join(
        f"{line.name}: {percent(line.coverage)} accepted, of which {percent(line.risk)} are wrong"
        for line in lines
    )
    return [
        Figure(
            "oracle-risk",
            "Wrong among the accepted answers on pairs",
            f"Share of wrong answers among all answers and among the accepted ones. {named}.",
            lambda: risk_plot(lines, nulls),
            "Each line leads from all answers (coverage 100%) to the accepted ones; a checker that is worth something"
            " leads down. Grey: oracles that know nothing.",
        )
    ]


def prover_table(measured: Measured) -> Table:
    """Return the prover's part of an acceptance, and the model's."""
    rows: list[Row] = []
    for s, place in _each(measured, PAIRS, "potential_rate"):
        cells = [own(measured, s, "potential_rate", place, f"label {label}") for label in ("yes", "no")]
        cells += [own(measured, s, "confirmed_rate", (YES, *place[1:]))]
        rows.append((Cell(s.starred), Cell(visible(place[2])), *cells))
    names = (
        "Alignable, labelled yes",
        "Alignable, labelled no",
        "Says yes, alignable: confirmed",
    )
    note = "Alignable pairs are those for which the prover finds phrases before the model is asked."
    return Table("The prover", headings(("Model", "Pairs from"), names), tuple(rows), note)


def provable_table(measured: Measured) -> Table:
    """Return table 3: provable pairs, by label and by answer."""
    groups = ("label yes", "label no", "answer yes", "answer no")
    settings = ("labelled yes", "labelled no", "GPT3.5 yes", "GPT3.5 no")
    rows: list[Row] = []
    for s, place in _each(measured, PAIRS, "provable_rate"):
        cells = [
            own(measured, s, "provable_rate", place, f"{phi}, {group}") for phi in PHI for group in groups
        ]
        rows.append((Cell(s.starred), Cell(visible(place[2])), *cells))
    cells = [printed("3", "acceptance_rate", f"phi_{phi}; {setting}") for phi in PHI for setting in settings]
    rows.append((Cell("GPT3.5"), Cell(PAPER), *cells))
    names = [
        f"{phi}: {name}"
        for phi in PHI.values()
        for name in ("labelled yes", "labelled no", "says yes", "says no")
    ]
    note = (
        "A proof can only accept the answer yes. The other columns are for reference and need the setting"
        " oracle.reference."
    )
    return Table("Provable pairs (Table 3)", headings(("Model", "Pairs from"), names), tuple(rows), note)


def own_table(measured: Measured) -> Table:
    """Return table 4, and what is accepted of the answers of no (appendix B.3.3): the model's own paraphrases."""
    rows: list[Row] = []
    for s, place in _each(measured, OWN, "yes_rate"):
        said = measured.metric(s, "yes_rate", place)
        assert said is not None
        cells = [Cell(s.starred), Cell(visible(place[2])), Cell(f"{said.n:,}", said.n), share_cell(said)]
        cells += [
            own(measured, s, "provable_rate", place, f"{phi}, answer {answer}")
            for answer in ("yes", "no")
            for phi in PHI
        ]
        cells += [own(measured, s, "acceptance_rate_paper", place, f"{phi}, answer no") for phi in PHI]
        rows.append(tuple(cells))
    [yes] = find(paper="oracle", table="4", metric="yes_count")
    assert yes.n is not None
    share = yes.value / yes.n
    cells = [
        printed("4", "acceptance_rate", f"own paraphrases; phi_{phi}; GPT3.5 {answer}")
        for answer in ("yes", "no")
        for phi in PHI
    ]
    cells += [printed("appendix B.3.3", "acceptance_rate", "own paraphrases")] * len(PHI)
    rows.append(
        (Cell(yes.model), Cell(PAPER), Cell(f"{yes.n:,}", yes.n), Cell(as_printed(share), share), *cells)
    )
    names = [f"Says {answer}: provable, {phi}" for answer in ("yes", "no") for phi in PHI.values()]
    names += [f"Says no: accepted, {phi}" for phi in PHI.values()]
    return Table(
        "Own paraphrases (Table 4)",
        headings(("Model", "Sentences from"), ("Paraphrases", "Says yes", *names)),
        tuple(rows),
        "Answers of no are accepted by the paper's rule: unless there is triangular evidence (appendix B.3.3).",
    )


def trust_table(measured: Measured) -> Table:
    """Return table 5: accepted answers of no, by category, under our rule and under the paper's rule."""
    rules = {
        "acceptance_rate": "no, then yes",
        "acceptance_rate_paper": "no triangular evidence (the paper's)",
    }
    rows: list[Row] = []
    for s, place in _each(measured, NO, "acceptance_rate"):
        for name, rule in rules.items():
            metrics = [
                measured.metric(s, name, place, f"{c} {phi}") for phi in PHI for c in CATEGORIES.values()
            ]
            if any(metrics):
                cells = [DASH if r is None else _of(r.value, r.n) for r in metrics]
                rows.append((Cell(s.starred), Cell(visible(place[2])), Cell(rule), *cells))
    cells = []
    for phi in PHI:
        for category in CATEGORIES.values():
            [row] = find(paper="oracle", table="5", setting=f"phi_{phi}; {_CATEGORY[category]}")
            cells.append(Cell(f"{as_printed(row.value)} of {row.n:,}", row.value))
    rows.append((Cell("GPT3.5"), Cell(PAPER), Cell(rules["acceptance_rate_paper"]), *cells))
    names = [f"{phi}: {category}" for phi in PHI.values() for category in CATEGORIES.values()]
    note = (
        "A: the sentences are aligned. I: a paraphrase exists that can be aligned with both (indifferentiable), and the"
        " test asks about it; otherwise about any paraphrase. The cells are accepted of tested answers; the paper's"
        " rule leaves out tests with unreadable answers."
    )
    columns = headings(("Model", "Pairs from", "Accepted on"), names)
    return Table("Answers of no that are accepted (Table 5)", columns, tuple(rows), note)


def _of(value: float | None, n: int | None) -> Cell:
    return Cell(f"{percent(value)} of {n:,}" if n else percent(value), value)


def sanity_table(measured: Measured) -> Table:
    """Return the table of the sanity checks of section 5.2.1."""
    checks = (CONSISTENCY, OWN, RANDOM)
    rows: list[Row] = []
    for where in sources(measured):
        for s in measured.series:
            places = {task: (task, *where) for task in checks}
            if not any(measured.row(s, place) for place in places.values()):
                continue
            cells = [
                _complement(measured, s, "consistency_rate", places[task]) for task in (CONSISTENCY, OWN)
            ]
            cells += [_complement(measured, s, "yes_rate", places[RANDOM])]
            cells += [own(measured, s, "provable_rate", places[RANDOM], "or")]
            cells.append(own(measured, s, "acceptance_rate", places[RANDOM], "answer no"))
            rows.append((Cell(s.starred), Cell(visible(where[1])), *cells))
    text = "section 5.2.1"
    cells = [printed(text, "inconsistency_rate", name) for name in ("MSRP pairs", "own paraphrases")]
    cells += [printed(text, "no_rate", "random pairs")]
    cells += [printed(text, "acceptance_rate", name) for name in ("random pairs; phi_or", "random pairs")]
    rows.append((Cell("GPT3.5"), Cell(PAPER), *cells))
    columns = (
        "Asked again: inconsistent", "Own paraphrase: inconsistent", "Random pairs: says no", "Proved, φ_or",
        "No accepted",
    )  # fmt: skip
    return Table("Sanity checks (section 5.2.1)", headings(("Model", "Pairs from"), columns), tuple(rows))


def _complement(measured: Measured, s: Series, name: str, place: Place) -> Cell:
    """Return the cell of 1 minus a share, with its interval."""
    row = measured.metric(s, name, place)
    if row is None or row.value is None:
        return DASH
    low, high = (None if limit is None else 1 - limit for limit in (row.ci_high, row.ci_low))
    return share_cell(replace(row, value=1 - row.value, ci_low=low, ci_high=high))
