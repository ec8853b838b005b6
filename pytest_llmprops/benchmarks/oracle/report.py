"""The oracle-checker's section of a report: each figure and table of Zeng et al. for the run's models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.oracle.equivalence import left_over
from pytest_llmprops.benchmarks.oracle.items import CONSISTENCY, LINEARITY, NO, OWN, PAIRS, RANDOM, YES
from pytest_llmprops.benchmarks.oracle.metrics import a_rate, a_test, by_domain
from pytest_llmprops.benchmarks.oracle.settings import RULES
from pytest_llmprops.benchmarks.oracle.trust import CATEGORIES
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.core.texts import one_line, unicode_words, visible
from pytest_llmprops.core.verdicts import VerdictRecord, flag_in, object_in, objects_in, text_in
from pytest_llmprops.data.published_results import find
from pytest_llmprops.reports.kit import generic
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Section,
    Table,
    file_name,
    joined,
    percent,
)
from pytest_llmprops.reports.kit.figures import LINE, SERIES, WIDTH, colour, margins, new_figure
from pytest_llmprops.reports.kit.generic import detailed, fine_print, metric_cell, share_cell
from pytest_llmprops.reports.kit.series import Measured, Series, place_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

Row = tuple[Cell, ...]
Values = Mapping[str, float]
DASH = Cell("–")
#: maximum figures of sentences that are not folded, cases per kind and model, and characters of one text
_OPEN, MOST, _LONG = 2, 5, 1600
PHI = {"or": "φ_or", "and": "φ_and"}
CORPORA = ("DOCRED", "RISC-V")
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
    groups = [
        group for place in measured.places if place[0] == LINEARITY for group in _groups(measured, place)
    ]
    if groups:
        blocks += [linearity_table(groups), *profile_figures(groups)]
        blocks += [correlation_table(groups), *sentence_cases(measured)]
    blocks += [pair_table(measured, spec) for spec in PAIR_TABLES if spec.tasks & tasks]
    return Section((*blocks, *pair_cases(measured), *detailed(measured), *fine_print(measured)))


def _remarks(measured: Measured) -> list[Block]:
    """Return the remarks of the runs, with their models if not all models have the remark."""
    remarks: dict[str, list[str]] = {}
    for s in measured.series:
        for row in measured.remarks(s):
            # OUTCOMES says what a rejected answer is.
            if "a rejected answer" not in row.text:
                remarks.setdefault(visible(row.text), []).append(s.label)
    all_labels = [s.label for s in measured.series]
    return [
        Note(f"{text[:1].upper()}{text[1:]}." if labels == all_labels else f"{joined(labels)}: {text}.")
        for text, labels in remarks.items()
    ]


def headings(texts: Sequence[str], numbers: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns of a table: texts, then numbers."""
    return (*((name, False) for name in texts), *((name, True) for name in numbers))


@dataclass(frozen=True)
class Group:
    """The readable sentences of a series from one place, or of one of its domains."""

    measured: Measured
    series: Series
    place: Place
    domain: str
    records: Sequence[VerdictRecord]

    @property
    def title(self) -> str:
        """The source of the sentences, with their domain if there are several."""
        name = {"p": "published"}.get(self.domain, self.domain)
        return visible(f"{self.place[2]}, {name}" if name else self.place[2])

    @property
    def tested(self) -> list[Values]:
        """The values of the sentences with something to test."""
        return [r.values for r in self.records if r.values.get("tests")]

    @property
    def rule(self) -> str:
        """The rule by which they were tested."""
        codes = sorted({int(v["rule"]) for v in self.tested if 0 <= v.get("rule", -1) < len(RULES)})
        return ", ".join(RULES[code] for code in codes) or "–"


def _groups(measured: Measured, place: Place) -> list[Group]:
    """Return the groups of sentences of a place: those of all domains, if there are several, otherwise one."""
    groups: list[Group] = []
    for s in measured.series:
        every = measured.first_samples(s, [LINEARITY])
        records = [r for r in every if place_of(r) == place and "entities" in r.values]
        groups += [
            Group(measured, s, place, domain, members)
            for domain, members in (by_domain(records) or {"": records}).items()
        ]
    return groups


#: what a column has of a metric: the share, 1 minus the share, the number of observations, share and number, or a
#: correlation
_SHARE, _REST, _NUMBER, _OF, _RHO = "share", "rest", "number", "of", "rho"
#: heading, kind, task, metric, group, and the table, metric and setting of the printed number; "{}" is the corpus
_Column = tuple[str, str, str, str, str, tuple[str, str, str] | None]
_LINEARITY_COLUMNS: tuple[_Column, ...] = tuple(
    (heading, _SHARE, LINEARITY, metric, group, (table, paper, setting) if table else None)
    for heading, metric, group, table, paper, setting in (
        ("Accepted", "acceptance_rate", "", "section 5.1", "acceptance_rate", "{}"),
        ("Linear and faithful", "faithful_acceptance_rate", "", "", "", ""),
        ("Overlap with labels", "label_overlap", "", "section 5.1", "label_overlap_rate", "{}"),
        ("Entities in accepted", "entity_acceptance_rate", "", "section 5.1", "entity_acceptance_rate", "{}"),
        (
            "Labelled in accepted", "entity_acceptance_rate", "labelled", "section 5.1", "entity_acceptance_rate",
            "{}; labelled entities",
        ),
        ("A_rate", "a_rate", "", "", "", ""),
        ("A_rate, accepted", "a_rate", "accepted", "section 5.1", "combination_pass_rate", "{}"),
        ("Identity", "identity_rate", "", "", "", ""),
        ("Named", "named_share", "", "appendix A.4", "named_entity_rate", "{}"),
        ("By vote", "named_share", "by vote", "appendix A.2", "named_entity_undecided_rate", "{}"),
    )
)  # fmt: skip
_CORRELATION_COLUMNS: tuple[_Column, ...] = tuple(
    (
        f"{row} ~ {column}", _RHO, LINEARITY, "spearman", f"{row} ~ {column}".lower().replace("#e", "entities"),
        ("1", "spearman_correlation", f"{{}}; {row} and {column}"),
    )
    for row in ("A_test", "A_rate", "#E")
    for column in ("Con_o", "Con_rs", "#E")
    if row != column
)  # fmt: skip


def linearity_table(groups: Sequence[Group]) -> Table:
    """Return the table of acceptances, by source and domain (section 5.1, figure 6)."""
    note = (
        "Sentences with something to test. Accepted: all tests pass by the rule, as in the paper. Correct: the inserted"
        " names are found, too (linear and faithful). Acceptances by different rules cannot be compared:"
        " any, the paper's, takes the best combination of samples and has no power against noise. Entities in accepted"
        " sentences are those that were tested; the paper counts all. A_rate: combinations of samples that pass."
        " Identity: changed sentences from which exactly the inserted names are extracted. By vote: no rule decided"
        " whether the entity is named. The hardware sentences replace the paper's RISC-V sentences."
    )
    return _sentence_table("Linearity of entity extraction", groups, _LINEARITY_COLUMNS, note)


def correlation_table(groups: Sequence[Group]) -> Table:
    """Return table 1: Spearman's rank correlations over sentences."""
    note = (
        "Con_o: samples of the sentence with its most frequent answer; Con_rs: the lowest such number over the"
        " transformed sentences; #E: entities. A dash: one of the two does not vary."
    )
    return _sentence_table("Correlations (Table 1)", groups, _CORRELATION_COLUMNS, note)


def _sentence_table(title: str, groups: Sequence[Group], columns: Sequence[_Column], note: str) -> Table:
    rows = []
    for g in groups:
        texts = map(Cell, (g.series.starred, g.title, g.rule))
        cells = (_cell(g.measured, g.series, column, g.place[1:], g.domain) for column in columns)
        rows.append((*texts, _count_cell(len(g.tested)), *cells))
    for corpus in CORPORA:
        [accepted] = find(paper="oracle", table="section 5.1", metric="acceptance_rate", setting=corpus)
        texts = map(Cell, (accepted.model, f"the paper, {corpus}", "any"))
        cells = (_printed_cell(column, corpus) for column in columns)
        rows.append((*texts, _count_cell(accepted.n), *cells))
    numbers = ("Sentences", *(heading for heading, *_ in columns))
    return Table(title, headings(("Model", "Sentences from", "Rule"), numbers), tuple(rows), note)


#: height of a panel of figure 10, in inches
_PANEL = 0.85
#: maximum sentences in figure 10; of more, an evenly spaced selection is drawn
MOST_DRAWN = 800
#: groups of equal answers with a colour, the most frequent answer first
_LAYERS = 5


def profile_figures(groups: Sequence[Group]) -> list[Block]:
    """Return figure 10 of each group; folded if there are many."""
    figures: list[Block] = []
    for g in (g for g in groups if g.tested):
        count = len(g.tested)
        selection = f" {MOST_DRAWN:,} of {count:,} are drawn." if count > MOST_DRAWN else ""
        figures.append(
            Figure(
                f"oracle-sentences-{len(figures)}-{file_name(g.title)}",
                f"Sentence by sentence (figure 10): {g.series.starred}, {g.title}",
                f"A_test, A_rate, number of entities and Con_o of {count:,} sentences of {g.title} for"
                f" {g.series.starred}, the most consistent first.",
                partial(profile_plot, g.tested, g.series.index),
                "Each column is a sentence, the most consistent first. A_test: tests passed; A_rate: combinations of"
                " samples that pass; #E: entities; Con_o: samples of the original sentence with its most frequent"
                f" answer, and above it the sizes of the groups of other answers.{selection}",
            )
        )
    return [Fold("Sentence by sentence (figure 10)", tuple(figures))] if len(figures) > _OPEN else figures


def _group_sizes(values: Values) -> list[float]:
    """Return the shares of the samples with the same answer about the original sentence, the largest first (Con_o)."""
    names = ["con_o", *(f"con_o_{place}" for place in range(2, _LAYERS + 1))]
    return [values.get(name, 0.0) / values["samples"] for name in names]


def selected(sentences: Sequence[Values]) -> list[Values]:
    """Return at most :data:`MOST_DRAWN` sentences, evenly spaced, the highest Con_o first."""
    order = sorted(sentences, key=lambda v: (-v["con_o"] / v["samples"], -a_rate(v), v["entities"]))
    if len(order) <= MOST_DRAWN:
        return order
    return [order[int((n + 0.5) * len(order) / MOST_DRAWN)] for n in range(MOST_DRAWN)]


def profile_plot(sentences: Sequence[Values], series: int) -> Plot:
    """Draw four bar charts over the same sentences, in the order of :func:`selected`."""
    from itertools import accumulate

    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    shown, gap, top = selected(sentences), 0.2, 0.42
    shades = [colour(series), *(SERIES[(series + n) % len(SERIES)] for n in range(1, _LAYERS))]
    figure = new_figure(WIDTH, top + 4 * (_PANEL + gap) + 0.35)
    height = figure.get_size_inches()[1]
    # The groups are stacked, so the last one is drawn first.
    stacked = [list(accumulate(_group_sizes(v))) for v in shown]
    charts = {
        "A_test": [list(map(a_test, shown))],
        "A_rate": [list(map(a_rate, shown))],
        "#E": [[v["entities"] for v in shown]],
        "Con_o": [[sizes[n] for sizes in stacked] for n in range(_LAYERS)],
    }
    for number, (name, layers) in enumerate(charts.items()):
        up = top + number * (_PANEL + gap)
        axes = figure.add_axes(margins(figure, left=0.75, right=0.15, top=up, bottom=height - up - _PANEL))
        for n, values in reversed([*enumerate(layers)]):
            axes.stairs(values, fill=True, color=shades[n], linewidth=0)
        if name == "#E":
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        else:
            axes.set_ylim(0, 1)
            axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
        axes.set_ylabel(name, fontsize=8.5)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlim(0, len(shown))
        axes.set_xticks([])
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    axes.set_xlabel(f"{len(shown):,} sentences, by Con_o", fontsize=8, labelpad=3)
    names = ("most frequent answer", "second", "third", "fourth", "fifth")
    handles = [Patch(facecolor=shade, label=name) for name, shade in zip(names, shades, strict=True)]
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.995), ncols=_LAYERS, frameon=False, fontsize=8.5,
        handlelength=1.2, columnspacing=1.4, borderaxespad=0.2, borderpad=0,
    )  # fmt: skip
    return figure


def _text(text: str) -> Cell:
    # The texts come from models and data, so they are untrusted.
    return Cell(one_line(text, _LONG) or "–")


def _examples(title: str, heads: Sequence[str], rows: Sequence[Row], note: str) -> Table:
    """Return a table of examples, which begins with item and model."""
    return Table(title, headings(("Item", "Model", *heads), ()), tuple(rows), note)


def _case(s: Series, record: VerdictRecord) -> Row:
    return Cell(visible(record.id)), Cell(s.starred)


def sentence_cases(measured: Measured) -> list[Block]:
    """Return the entities at fault in some rejected sentences of each model, with their counts (appendix A.3)."""
    rows: list[Row] = []
    for s in measured.series:
        rejected = [r for r in measured.first_samples(s, [LINEARITY]) if r.status == "wrong"]
        for record in rejected[: 2 * MOST]:
            for culprit in objects_in(record.evidence, "culprits") or [{"why": record.reason}]:
                texts = (text_in(culprit, key) for key in ("name", "synonym", "why"))
                rows.append((*_case(s, record), *map(_text, (text_in(record.evidence, "sentence"), *texts))))
    title, heads = (
        "Entities at fault (figures 8 and 9, Tables 6 to 8)",
        ("Sentence", "Entity", "Replacement", "Why"),
    )
    note = (
        "Some rejected sentences. The paper sorts them by hand: an entity that is found as another form (figure 8,"
        " Table 8), in some replies only (figure 9), unless it is replaced (Table 6), or by what else is replaced"
        " (Table 7)."
    )
    return [Fold("Some rejected sentences", (_examples(title, heads, rows, note),))] if rows else []


_MANY = "one sentence has more than twice as many words of its own as the other one"
#: title -> further columns and note of a table of pairs
_CASE_TABLES = {
    "Answers that differ from the label (Tables 9 to 11)": (
        (
            "Sentence 1",
            "Sentence 2",
            "Answer",
            "Words of one sentence only",
            "The model's explanation",
            "Checker",
        ),
        f"One sentence adds words if {_MANY}. The paper sorts its seven examples by hand; this rule sorts them alike.",
    ),
    "Proofs (Table 13)": (
        ("Sentence 1", "Sentence 2", "Phrases that the model calls equivalent"),
        "Accepted answers of yes. Phrases with the same words are not listed if the model was not asked about them.",
    ),
    "Leftover words (Table 12)": (
        ("Sentence 1", "Sentence 2", "Not covered by an alignment"),
        "Rejected answers of yes.",
    ),
    "Triangular evidence (Table 15)": (
        ("Sentence 1", "Sentence 2", "Paraphrase, said to be equivalent to both", "Indifferentiable"),
        "Rejected answers of no: the model calls its own paraphrase of one sentence equivalent to both.",
    ),
    "Own paraphrases that the model denies (Table 14)": (
        (
            "Sentence",
            "The model's paraphrase",
            "Proof that they are equivalent",
            "Answer of no",
            "Explanation",
        ),
        (
            "The model's first answer is that its own paraphrase is not equivalent to the sentence. The proof is for"
            " reference: it could only accept a yes. The answer of no is tested like that on any pair, but never with"
            " the same paraphrase."
        ),
    ),
}
_LABEL, _PROOF, _LEFTOVER, _TRIANGLE, _OWN_DENIED = _CASE_TABLES


def pair_cases(measured: Measured) -> list[Block]:
    """Return disagreements with the labels, proofs, failed proofs, rejected answers of no and denied paraphrases."""
    tables: dict[str, list[Row]] = {title: [] for title in _CASE_TABLES}
    for s in measured.series:
        records = measured.first_samples(s, [YES, NO, OWN])
        cases: dict[str, list[tuple[Any, Row]]] = {title: [] for title in _CASE_TABLES}
        for record in (r for r in records if r.evidence):
            for title, order, cells in (_own_case if record.task == OWN else _cases_of)(record):
                cases[title].append((order, (*_case(s, record), *map(_text, cells))))
        for title, found in cases.items():
            tables[title] += [row for _, row in sorted(found, key=lambda case: case[0])[: 2 * MOST]]
    shown = [
        _examples(title, heads, rows, note)
        for title, (heads, note) in _CASE_TABLES.items()
        if (rows := tables[title])
    ]
    return [Fold("Some cases", tuple(shown))] if shown else []


def _cases_of(record: VerdictRecord) -> Iterator[tuple[str, Any, Sequence[str]]]:
    """Yield the tables that show a pair, with its place in the order of the table and its further cells."""
    evidence = record.evidence
    first, second = sentences = (text_in(evidence, "sentence_1"), text_in(evidence, "sentence_2"))
    said, label = (record.values.get(name, -1) for name in ("said_yes", "label"))
    if said >= 0 and label >= 0 and said != label and record.status in ("correct", "wrong"):
        parts = enumerate(own_words(first, second), start=1)
        words = ", ".join(f"s{number}: {{ {' '.join(words)} }}" for number, words in parts if words)
        answer = f"{'yes, labelled no' if said else 'no, labelled yes'}: "
        answer += "one sentence adds words" if adds_words(first, second) else "both differ"
        yield _LABEL, answer, (*sentences, answer, words, text_in(evidence, "explanation"), record.given)
    if record.task == YES and "proof" in evidence:
        proof = object_in(evidence, "proof")
        phrases = objects_in(proof, "phrases")
        if record.status == "correct":
            confirmed = [p for p in phrases if p.get("equivalent") and flag_in(p, "asked") is not False]
            # Phrases with the same words prove little, so proofs with more different phrases come first.
            weight = sum(text_in(p, "first").casefold() != text_in(p, "second").casefold() for p in confirmed)
            if confirmed:
                yield _PROOF, -weight, (*sentences, "; ".join(_phrase(p, "=") for p in confirmed))
        elif record.status == "wrong" and not text_in(proof, "missing"):
            text = "; ".join(
                (left_over(proof), *(_phrase(p, "≠") for p in phrases if not p.get("equivalent")))
            )
            yield _LEFTOVER, (len(text), record.id), (*sentences, text)
    triangles = [t for t in objects_in(evidence, "tests") if text_in(t, "outcome") == "triangular"]
    if record.status == "wrong" and triangles:
        category = text_in(evidence, "category")
        seen = ("yes" if category in ("AI", "ĀI") else "no") if category else "not searched for"
        paraphrase = f"of sentence {triangles[0].get('source')}: {text_in(triangles[0], 'paraphrase')}"
        yield _TRIANGLE, 0, (*sentences, paraphrase, seen)


def _phrase(pair: Mapping[str, Any], sign: str) -> str:
    return f"“{text_in(pair, 'first')}” {sign} “{text_in(pair, 'second')}”"


def own_words(first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the words that each of two texts has more often than the other, folded, in their order.

    The paper sorts its examples by where the "major differences in wording" are (appendix B.2). Here words are counted,
    which puts each of the seven where the paper has it.
    """
    one, two = unicode_words(first), unicode_words(second)
    return _more_often(one, two), _more_often(two, one)


def _more_often(words: Sequence[str], others: Sequence[str]) -> list[str]:
    left, kept = Counter(others), []
    for word in words:
        if left[word]:
            left[word] -= 1
        else:
            kept.append(word)
    return kept


def adds_words(first: str, second: str) -> bool:
    """Return True if one text has more than twice as many words of its own as the other one."""
    few, many = sorted(map(len, own_words(first, second)))
    return 2 * few < many


_TRUST = {
    "accepted": "accepted",
    "triangular": "rejected: triangular evidence",
    "inconsistent": "rejected: contradicts its paraphrase",
    "unreadable": "an answer cannot be read",
    "untested": "no paraphrase to test it with",
}


def _own_case(record: VerdictRecord) -> Iterator[tuple[str, Any, Sequence[str]]]:
    """Yield the row of an own paraphrase that the model denies, with the attempt to prove the opposite (B.3.3)."""
    evidence, values = record.evidence, record.values
    if values.get("said_yes") != 0:
        return
    proved = [name for phi, name in PHI.items() if values.get(f"phi_{phi}")]
    proof = object_in(evidence, "proof")
    missing = text_in(proof, "missing") or left_over(proof)
    answer = _TRUST.get(text_in(evidence, "trust"), "not tested")
    for test in objects_in(evidence, "tests"):
        paraphrase, other, own = (text_in(test, key) for key in ("paraphrase", "other", "own"))
        answer += f"; “{paraphrase}”: {other} to the other sentence, {own} to its own"
    sentence, paraphrase, explanation = (
        text_in(evidence, key) for key in ("sentence", "paraphrase", "explanation")
    )
    result = f"proved: {', '.join(proved)}" if proved else f"not proved: {missing}"
    yield _OWN_DENIED, 0, (sentence, paraphrase, result, answer, explanation)


@dataclass(frozen=True)
class PairTable:
    """A table on pairs: the models' numbers above those of the paper."""

    title: str
    columns: tuple[_Column, ...]
    note: str = ""

    @property
    def tasks(self) -> set[str]:
        """The tasks that it is about."""
        named = {task for _, _, task, *_ in self.columns}
        return named - {PAIRS} | ({YES, NO} if PAIRS in named else set())


#: category of table 5 -> the paper's setting
_CATEGORY = {"AI": "A and I", "ĀI": "not A, I", "AĪ": "A, not I", "ĀĪ": "not A, not I"}
PAIR_TABLES = (
    PairTable(
        "Answers by label (Table 2)",
        (
            *(
                column
                for label in ("yes", "no")
                for heading, group in [(f"Labelled {label}", f"label {label}")]
                for column in (
                    (heading, _NUMBER, PAIRS, "yes_rate", group, ("2", "yes_rate", heading.lower())),
                    (f"{heading}: says yes", _SHARE, PAIRS, "yes_rate", group, ("2", "yes_rate", heading.lower())),
                    (f"{heading}: says no", _REST, PAIRS, "yes_rate", group, ("2", "no_rate", heading.lower())),
                )
            ),
            ("Agrees", _SHARE, PAIRS, "label_agreement", "", ("2", "label_agreement", "MSRP pairs")),
        ),
        "Agreement with the labels is not a verdict. Only the checker decides whether an answer is accepted.",
    ),
    PairTable(
        "Provable pairs (Table 3)",
        (
            *(
                (
                    f"{name}: {group.replace('label', 'labelled').replace('answer', 'says')}", _SHARE, PAIRS,
                    "provable_rate", f"{phi}, {group}", ("3", "acceptance_rate", f"phi_{phi}; {setting}"),
                )
                for phi, name in PHI.items()
                for group, setting in (
                    ("label yes", "labelled yes"), ("label no", "labelled no"), ("answer yes", "GPT3.5 yes"),
                    ("answer no", "GPT3.5 no"),
                )
            ),
            ("Aligned before asking: labelled yes", _SHARE, PAIRS, "potential_rate", "label yes", None),
            ("Aligned before asking: labelled no", _SHARE, PAIRS, "potential_rate", "label no", None),
        ),
        "A proof can only accept the answer yes. The other columns are for reference and need the protocol paper. No"
        " model can prove more pairs than are aligned before it is asked.",
    ),
    PairTable(
        "Answers of no that are accepted (Table 5)",
        tuple(
            (
                f"{name}: {category}", _OF, NO, "acceptance_rate_paper", f"{category} {phi}",
                ("5", "acceptance_rate", f"phi_{phi}; {_CATEGORY[category]}"),
            )
            for phi, name in PHI.items()
            for category in CATEGORIES.values()
        ),
        "A: the sentences are aligned. I: a paraphrase exists that can be aligned with both (indifferentiable), and the"
        " test asks about it; otherwise about any paraphrase. Accepted of tested answers, as in the paper: only"
        " triangular evidence rejects.",
    ),
    PairTable(
        "Own paraphrases (Table 4)",
        (
            ("Paraphrases", _NUMBER, OWN, "yes_rate", "", ("4", "yes_count", "own paraphrases")),
            ("Says yes", _SHARE, OWN, "yes_rate", "", ("4", "yes_count", "own paraphrases")),
            *(
                (
                    f"Says {answer}: provable, {name}", _SHARE, OWN, "provable_rate", f"{phi}, answer {answer}",
                    ("4", "acceptance_rate", f"own paraphrases; phi_{phi}; GPT3.5 {answer}"),
                )
                for answer in ("yes", "no")
                for phi, name in PHI.items()
            ),
            *(
                (
                    f"Says no: accepted, {name}", _SHARE, OWN, "acceptance_rate_paper", f"{phi}, answer no",
                    ("appendix B.3.3", "acceptance_rate", "own paraphrases"),
                )
                for phi, name in PHI.items()
            ),
        ),
        "Answers of no are accepted by the paper's rule: unless there is triangular evidence (appendix B.3.3).",
    ),
    PairTable(
        "Sanity checks (section 5.2.1)",
        tuple(
            (heading, kind, task, metric, group, ("section 5.2.1", paper, setting))
            for heading, kind, task, metric, group, paper, setting in (
                (
                    "Asked again: inconsistent", _REST, CONSISTENCY, "consistency_rate", "", "inconsistency_rate",
                    "MSRP pairs",
                ),
                (
                    "Own paraphrase: inconsistent", _REST, OWN, "consistency_rate", "", "inconsistency_rate",
                    "own paraphrases",
                ),
                ("Random pairs: says no", _REST, RANDOM, "yes_rate", "", "no_rate", "random pairs"),
                ("Proved, φ_or", _SHARE, RANDOM, "provable_rate", "or", "acceptance_rate", "random pairs; phi_or"),
                ("No accepted", _SHARE, RANDOM, "acceptance_rate", "answer no", "acceptance_rate", "random pairs"),
            )
        ),
    ),
)  # fmt: skip


def pair_table(measured: Measured, spec: PairTable) -> Table:
    """Return a table on pairs."""
    rows: list[Row] = []
    for where in dict.fromkeys(place[1:] for place in measured.places):
        for s in measured.series:
            cells = [_cell(measured, s, column, where) for column in spec.columns]
            if any(cell != DASH for cell in cells):
                rows.append((Cell(s.starred), Cell(visible(where[1])), *cells))
    rows.append((Cell("GPT3.5"), Cell("the paper"), *map(_printed_cell, spec.columns)))
    heads = headings(("Model", "Pairs from"), (name for name, *_ in spec.columns))
    return Table(spec.title, heads, tuple(rows), spec.note)


def _cell(measured: Measured, s: Series, column: _Column, where: tuple[str, str], domain: str = "") -> Cell:
    """Return the cell of a series' metric; the column's group follows the domain."""
    _, kind, task, name, group, _ = column
    row = measured.metric(s, name, (task, *where), ", ".join(filter(None, (domain, group))))
    if row is None or row.value is None:
        return DASH
    if kind == _REST:
        low, high = (None if limit is None else 1 - limit for limit in (row.ci_high, row.ci_low))
        return share_cell(replace(row, value=1 - row.value, ci_low=low, ci_high=high))
    if kind == _OF:
        return Cell(f"{percent(row.value)} of {row.n:,}", row.value)
    return metric_cell(measured, s, row) if kind == _SHARE else _number_cell(kind, row.value, row.n)


def _printed_cell(column: _Column, corpus: str = "") -> Cell:
    """Return the cell of a number that the paper prints; a dash if it prints none."""
    _, kind, *_, paper = column
    if paper is None:
        return DASH
    table, metric, setting = paper
    results = find(paper="oracle", table=table, metric=metric, setting=setting.format(corpus))
    if not results:
        return DASH
    value, n = results[0].value, results[0].n
    if kind in (_NUMBER, _RHO):
        return _number_cell(kind, value, n)
    share = value / n if metric.endswith("_count") and n else value
    # At most two decimals, as the paper prints shares.
    text = f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"
    return Cell(f"{text} of {n:,}" if kind == _OF else text, share)


def _number_cell(kind: str, value: float, n: int | None) -> Cell:
    """Return the cell of a correlation, or of a number of observations."""
    return Cell(f"{value:.3f}".replace("-", "−"), value) if kind == _RHO else _count_cell(n)


def _count_cell(number: int | None) -> Cell:
    return DASH if number is None else Cell(f"{number:,}", number)
