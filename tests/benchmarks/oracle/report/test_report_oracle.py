"""The oracle-checker section of the report: figures 6 and 10, tables 1 to 5, cases and bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairEvidence
from pytest_llmprops.benchmarks.oracle.report.figures import (
    MOST_DRAWN,
    Bar,
    Bars,
    Profile,
    acceptance_plot,
    profile_plot,
    selected,
)
from pytest_llmprops.benchmarks.oracle.trees import Parsed
from pytest_llmprops.core.items import Item
from pytest_llmprops.reports.kit.blocks import Block, Figure, Fold, Note, Report, Table
from pytest_llmprops.reports.kit.figures import STYLE, draw
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.page.html import to_html
from pytest_llmprops.reports.page.markdown import to_markdown
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.oracle_runs import Subject, capitalised, control, measure, pair, sentence, tree_of
from tests.support.records import as_schema_1, recorded, verdict
from tests.support.runs import Runner

TOWNS = "Then Oslo wrote to Lima about Quito."
TWO = [
    sentence(TOWNS, 1, ["Oslo", "Quito", "Peru"]),
    sentence("Long ago Oslo was near Cairo.", 2, ["Oslo", "Cairo"], "technical"),
    sentence("Nothing of note is here.", 3),
]
DOGS = "red dogs barked loudly last night."
#: the same phrases in another order, which an alignment covers
MOVED = "last night red dogs barked loudly."
TURNED = "barked loudly last night red dogs."
#: one phrase is another
CATS = "red dogs barked loudly near cats."
MOVED_CATS = "near cats red dogs barked loudly."
PROVED, UNPROVED, DENIED = pair(DOGS, MOVED, 1), pair(DOGS, CATS, 2), pair(MOVED, CATS, 3, label=False)


def tied(text: str, sample: int) -> list[str]:
    """An extractor that finds the replacement of Lima only when Oslo is in the sentence; linear after ``Long ago``."""
    names = capitalised(text)
    complete = "Oslo" in text or "Lima" in text or text.startswith("Long ago")
    return names if complete else names[:1] + names[2:]


def paraphrases(text: str) -> list[str]:
    """Paraphrases that have the same phrases in another order."""
    known = {DOGS: [TURNED], MOVED: [TURNED, DOGS], CATS: [MOVED_CATS]}
    return known.get(text, ["quite another thing is said."])


def denies(*pairs: tuple[str, str]) -> Subject:
    """A model that calls all pairs equivalent except these."""
    return Subject(tied, lambda first, second: (first, second) not in pairs, paraphrases)


SURE = denies((MOVED, CATS))


def report(*folders: Path) -> Report:
    """The report on these runs."""
    runs = [read_run(folder) for folder in folders]
    return report_on(runs, {id(run): read_requests(run.folder) for run in runs})


def blocks(result: Sequence[Block]) -> list[Block]:
    """All blocks, including folded ones."""
    return [x for b in result for x in ([b, *blocks(b.blocks)] if isinstance(b, Fold) else [b])]


def every(oracle_report: Report, kind: type[Block]) -> list[Any]:
    """All blocks of one kind."""
    return [b for b in blocks(oracle_report.sections[0].blocks) if isinstance(b, kind)]


def table(oracle_report: Report, title: str) -> list[dict[str, str]]:
    """The rows of a table as heading -> text."""
    [one] = [b for b in every(oracle_report, Table) if b.title == title]
    names = [name for name, _ in one.columns]
    assert all(len(row) == len(names) for row in one.rows)
    return [dict(zip(names, [c.text for c in row], strict=True)) for row in one.rows]


def html(oracle_report: Report) -> str:
    """The page."""
    return to_html(oracle_report, {f.name: draw(f.draw)[0] for f in every(oracle_report, Figure)}).decode(
        "utf-8"
    )


def titles(oracle_report: Report) -> set[str]:
    """The titles of all tables."""
    return {b.title for b in every(oracle_report, Table)}


def notes(oracle_report: Report) -> list[str]:
    """All paragraphs."""
    return [b.text for b in every(oracle_report, Note)]


# ---- linearity


def test_accepted_shares_are_shown_above_the_published_ones(tmp_path: Path) -> None:
    """Each domain has a row of metrics, followed by a row of printed numbers for each corpus of the paper."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}))
    rows = {row["Sentences from"]: row for row in table(oracle_report, "Linearity of entity extraction")}
    assert list(rows) == [
        "builtin",
        "builtin, general",
        "builtin, technical",
        "the paper, DOCRED",
        "the paper, RISC-V",
    ]
    assert {name: rows[name]["Sentences"] for name in rows} == {
        "builtin": "2", "builtin, general": "1", "builtin, technical": "1", "the paper, DOCRED": "5,000",
        "the paper, RISC-V": "500",
    }  # fmt: skip
    assert rows["builtin"]["Accepted"].startswith("50.0% (")
    assert rows["builtin"]["Linear and faithful"].startswith("50.0% (")
    assert rows["builtin"]["Entities in accepted"].startswith("40.0% (")
    assert rows["builtin"]["Labelled in accepted"].startswith("50.0% (")
    assert rows["builtin"]["Overlap with labels"].startswith("80.0% (")
    assert rows["builtin, technical"]["Identity"].startswith("100.0% (")
    assert [row["Rule"] for row in rows.values()] == ["majority"] * 3 + ["any"] * 2
    assert rows["builtin, technical"]["A_rate, accepted"].startswith("100.0%")
    assert rows["builtin, general"]["A_rate, accepted"] == "–"
    printed = rows["the paper, DOCRED"]
    assert [printed[name] for name in ("Model", "Accepted", "Entities in accepted", "Labelled in accepted")] == [
        "GPT3.5", "79.54%", "71.2%", "78.99%",
    ]  # fmt: skip
    assert [printed[name] for name in ("Overlap with labels", "A_rate", "A_rate, accepted", "Named")] == [
        "70%", "–", "38.48%", "76%",
    ]  # fmt: skip
    assert [rows["the paper, RISC-V"][n] for n in ("Accepted", "Entities in accepted", "Named")] == [
        "48.4%",
        "34%",
        "36%",
    ]


def test_figure_6_has_three_bars_per_model(tmp_path: Path) -> None:
    """Each model has three bars (sentences, extracted and labelled entities), above the paper's bars."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}))
    [figure] = [f for f in every(oracle_report, Figure) if f.name == "oracle-acceptance"]
    assert "Builtin, general" in figure.alt
    assert "DOCRED" in figure.alt
    axes = figure.draw().axes[0]
    counts = [text.get_text() for text in axes.texts]
    assert counts[:4] == [
        "Builtin, general (rule majority)",
        "0.0% of 1",
        "0.0% of 3",
        "0.0% of 3",
    ]
    assert counts[4:8] == ["Builtin, technical (rule majority)", "100.0% of 1", "100.0% of 2", "100.0% of 2"]
    assert counts[8:12] == [
        "GPT3.5: the paper, DOCRED",
        "79.5% of 5,000",
        "71.2% of 18,636",
        "55.4% of 15,931",
    ]
    assert counts[12:] == ["GPT3.5: the paper, RISC-V", "48.4% of 500", "34.0%"]


def test_bars_add_up() -> None:
    """The accepted, rejected and remaining parts of a bar add up to 1, in this order."""
    bars = Bars("m", 0, (Bar("labelled", 0.5, 0.2, 10),))
    drawn: list[Any] = list(acceptance_plot([bars]).axes[0].patches)
    patches = sorted((p.get_x(), p.get_width()) for p in drawn)
    assert [x for x, _ in patches] == pytest.approx([0, 0.5, 0.7])
    assert [width for _, width in patches] == pytest.approx([0.5, 0.2, 0.3])


def test_figure_10_is_sorted_by_con_o() -> None:
    """Sentences are sorted by the size of their most frequent answer, and a long list is sampled evenly."""
    many = [Profile(1.0, 0.5, 2.0, ((n % 100 + 1) / 100,)) for n in range(5 * MOST_DRAWN)]
    shown = selected(many)
    assert len(shown) == MOST_DRAWN
    sizes = [p.groups[0] for p in shown]
    assert sizes == sorted(sizes, reverse=True)
    assert {min(sizes), max(sizes)} == {0.01, 1.0}
    assert selected(many[:7]) == sorted(many[:7], key=lambda p: -p.groups[0])


def test_figure_10_stacks_the_groups_of_answers() -> None:
    """The Con_o chart stacks the most frequent answer, then the other groups, then unreadable replies."""
    import matplotlib

    profiles = [Profile(1.0, 1.0, 3.0, (0.5, 0.25)), Profile(0.4, 0.1, 2.0, (0.75, 0.25))]
    with matplotlib.rc_context(STYLE):
        plot = profile_plot(profiles, 0)
    charts: list[Any] = plot.axes
    assert [axes.get_ylabel() for axes in charts] == ["A_test", "A_rate", "#E", "Con_o"]
    tops = [list(patch.get_data().values) for patch in charts[3].patches]
    assert tops == [[0.75, 0.5], [1.0, 0.75], [1.0, 1.0]]
    from_below = [list(patch.get_data().baseline) for patch in charts[3].patches]
    assert from_below == [[0.0, 0.0], *tops[:2]]
    assert [list(axes.patches[0].get_data().values) for axes in charts[:3]] == [
        [0.4, 1.0],
        [0.1, 1.0],
        [2.0, 3.0],
    ]
    assert [text.get_text() for text in plot.legends[0].get_texts()] == [
        "most frequent answer",
        "second",
        "unreadable",
    ]
    many = [Profile(1.0, 1.0, 3.0, tuple([1 / 11] * 11))]
    assert "others" in [text.get_text() for text in profile_plot(many, 5).legends[0].get_texts()]


def test_every_domain_has_its_figure_10(tmp_path: Path) -> None:
    """General and technical sentences have separate charts, like the paper's two corpora."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}))
    named = [f.title for f in every(oracle_report, Figure) if f.name.startswith("oracle-sentences")]
    assert named == [
        "Sentence by sentence (figure 10): m, builtin, general",
        "Sentence by sentence (figure 10): m, builtin, technical",
    ]
    for figure in every(oracle_report, Figure):
        svg, png = draw(figure.draw)
        assert svg.count("<svg") == 1
        assert png.startswith(b"\x89PNG")


def test_correlations_are_shown_with_table_1(tmp_path: Path) -> None:
    """Table 1 shows the run's Spearman coefficients next to the printed ones, and a dash for a
    constant side.
    """
    values = [
        {"accepted": 1.0, "tests": 5.0, "tests_passed": float(n), "combinations": 10.0, "entities": 3.0,
         "combinations_passed": float(5 - n), "con_o": float(n), "con_rs": float(-n), "samples": 5.0,
         "linear_not_faithful": 0.0, "identity": 1.0, "changed": 1.0, "sentences": 1.0, "named": 1.0, "tested": 3.0,
         "lost": 0.0, "both": 0.0, "extra": 0.0}
        for n in (1, 2, 3, 4)
    ]  # fmt: skip
    oracle_report = report(hand_made(tmp_path / "run", values))
    rows = {row["Sentences from"]: row for row in table(oracle_report, "Correlations (Table 1)")}
    own = rows["builtin"]
    assert (own["A_test ~ Con_o"], own["A_test ~ Con_rs"], own["A_rate ~ Con_o"]) == (
        "1.000",
        "−1.000",
        "−1.000",
    )
    assert own["A_test ~ #E"] == own["#E ~ Con_o"] == "–"
    assert (own["Rule"], rows["the paper, DOCRED"]["Rule"]) == ("–", "any")
    assert list(rows["the paper, DOCRED"].values())[4:] == [
        "0.447", "0.422", "−0.399", "0.789", "0.859", "−0.414", "−0.264", "−0.302",
    ]  # fmt: skip
    assert rows["the paper, RISC-V"]["A_rate ~ #E"] == "−0.651"


def hand_made(folder: Path, values: Sequence[dict[str, float]]) -> Path:
    """A run of sentences with these values."""
    from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker

    records = [
        verdict("linearity", n, benchmark="oracle", id=f"oracle/general/{n:03d}", values=v)
        for n, v in enumerate(values)
    ]
    return recorded(
        folder,
        records,
        metrics=[m.row("model", "oracle").to_json() for m in OracleChecker().metrics(records)],
    )


def test_documents_are_shown_with_their_bounds(tmp_path: Path) -> None:
    """With tests until a bound, each document has a row; without them, there is no table."""
    accepted, rejected = "Long ago Oslo was near Cairo.", TOWNS
    asked = [
        replace(sentence(text, number), cluster=f"oracle/p/{document}")
        for number, (text, document) in enumerate(
            [
                (accepted, "one"),
                ("Long ago Lima was near Quito and Bonn.", "one"),
                (accepted, "two"),
                (rejected, "two"),
            ]
        )
    ]
    shown = report(measure(tmp_path / "run", asked, {"m": SURE}, epsilon=0.1, delta=0.05))
    rows = {row["Document"]: row for row in table(shown, "Linearity by document")}
    assert [(row["Accepted"], row["Sentences accepted"]) for row in rows.values()] == [
        ("yes", "2 of 2"),
        ("no", "1 of 2"),
    ]
    assert rows["oracle/p/one"]["Tests"] == "5"
    assert rows["oracle/p/one"]["Accepted if ε-far, at most"] == "ε 0.1: 0.029"
    assert rows["oracle/p/one"]["Mean distance excluded"] == "0.002 (δ 0.05)"
    assert rows["oracle/p/two"]["Mean distance excluded"] == "–"
    plain = report(measure(tmp_path / "plain", asked, {"m": SURE}))
    assert "Linearity by document" not in titles(plain)


def test_culprits_are_counted_and_named(tmp_path: Path) -> None:
    """A rejected sentence is shown with its text and culprits, and the kinds of culprits are counted."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}, tests=20))
    [row] = table(oracle_report, "Rejected sentences")
    assert (row["Item"], row["Sentence"]) == ("oracle/general/001", TOWNS)
    assert "culprits: " in row["Why"]
    assert '"Lima"' in row["Why"]
    [kinds] = table(oracle_report, "Why sentences are rejected")
    assert kinds["Rejected sentences"] == "1"
    assert kinds["Synonym fault"] == "1"
    assert kinds["Multi-form"] == "0"


@pytest.mark.parametrize("rule", ["any", "majority", "single"])
def test_report_states_the_bound(tmp_path: Path, rule: str) -> None:
    """The section starts with the bound: none for "any", and that of Theorem 3.1 for the other rules."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}, rule=rule, samples=11))
    said = " ".join(notes(oracle_report)[:2])
    assert ("no bound: best of 1,331 combinations" in said) == (rule == "any")
    assert ("an extractor 0.1-far from linear would have been rejected" in said) == (rule != "any")


# ---- pairs


ASKED = [PROVED, UNPROVED, DENIED]


def test_model_is_shown_between_null_extractors(tmp_path: Path) -> None:
    """The table has the model and each null extractor, accepted and faithful, with intervals and by domain."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}))
    shown = table(oracle_report, "Floor and ceiling of extraction")
    assert [row["Decision"] for row in shown[:2]] == ["accepted", "linear and faithful"]
    assert len({row["Sentences from"] for row in shown}) == 3
    for row in shown:
        constant = "100.0%" if row["Decision"] == "accepted" else "0.0%"
        assert row["Constant list"].startswith(f"{constant} (")
        assert all("(" in row[name] for name in ("The model", "Empty", "Drop 10%", "Drop 30%", "Coin"))


def test_noise_and_dependence_are_shown(tmp_path: Path) -> None:
    """The report has the shares of the outcomes, and a map of each rejected sentence that has one."""
    oracle_report = report(measure(tmp_path / "run", TWO, {"m": SURE}, tests=10, samples=9))
    row = table(oracle_report, "Noise or dependence")[0]
    assert row["Dependent"].split(" ")[0] not in ("0.0%", "–")
    # SURE is linear after "Long ago", so there is one map.
    [figure] = [f for f in every(oracle_report, Figure) if f.name.startswith("oracle-losses")]
    svg, _ = draw(figure.draw)
    for text in ("Oslo", "Lima", "Quito", "dependent, p = 0.", "+"):
        assert text in svg


def test_report_explains_a_rejection(tmp_path: Path) -> None:
    """The section explains once what a rejection means and what a passed test of a "no" is worth."""
    oracle_report = report(measure(tmp_path / "run", ASKED, {"m": denies((MOVED, CATS), (TURNED, CATS))}))
    said = [text for text in notes(oracle_report) if "never turned into its opposite" in text]
    assert len(said) == 1
    assert any("passes 1 test with probability at most 0.5" in text for text in notes(oracle_report))


def test_tables_2_and_3(tmp_path: Path) -> None:
    """Answers by label and provable pairs are shown above the paper's; no proof of a "no" is tried without
    the reference.
    """
    oracle_report = report(measure(tmp_path / "run", ASKED, {"m": SURE}))
    own, printed = table(oracle_report, "Answers by label (Table 2)")
    assert (own["Labelled yes"], own["Labelled no"]) == ("2", "1")
    assert own["Labelled yes: says yes"].startswith("100.0% (")
    assert own["Labelled yes: says no"] == "0.0%"
    assert own["Labelled no: says no"] == "100.0%"
    assert own["Agrees"].startswith("100.0%")
    assert list(printed.values()) == [
        "GPT3.5", "the paper", "3,454", "77.65%", "22.35%", "1,546", "31.44%", "68.56%", "74.84%",
    ]  # fmt: skip
    own, printed = table(oracle_report, "Provable pairs (Table 3)")
    assert own["φ_or: says yes"].startswith("50.0% (")
    assert own["φ_or: says no"] == "–"
    assert list(printed.values())[2:] == [
        "53.97%", "25.86%", "57.02%", "24.45%", "31.77%", "9.66%", "32.7%", "11.2%",
    ]  # fmt: skip
    full = report(measure(tmp_path / "full", ASKED, {"m": SURE}, reference=True))
    assert table(full, "Provable pairs (Table 3)")[0]["φ_or: says no"].startswith("0.0% (")


def test_table_5_has_both_rules(tmp_path: Path) -> None:
    """Table 5 shows accepted "no" answers by category under both rules, above the printed numbers."""
    oracle_report = report(measure(tmp_path / "run", ASKED, {"m": SURE}))
    ours, papers, printed = table(oracle_report, "Answers of no that are accepted (Table 5)")
    assert (ours["Accepted on"], papers["Accepted on"]) == (
        "no, then yes",
        "no triangular evidence (the paper's)",
    )
    assert ours["φ_or: ĀĪ"] == papers["φ_or: ĀĪ"] == "0.0% of 1"
    assert ours["φ_or: AI"] == "–"
    assert (printed["φ_or: AI"], printed["φ_and: ĀĪ"]) == ("29.2% of 383", "71% of 1,409")
    # Our rule alone rejects an oracle whose contradiction is not triangular evidence.
    calls_all_different = Subject(same=lambda first, second: False, paraphrases=paraphrases)
    oracle_report = report(measure(tmp_path / "other", [DENIED], {"m": calls_all_different}))
    ours, papers, _ = table(oracle_report, "Answers of no that are accepted (Table 5)")
    assert (ours["φ_or: ĀĪ"], papers["φ_or: ĀĪ"]) == ("0.0% of 1", "100.0% of 1")


def test_sanity_checks_and_table_4(tmp_path: Path) -> None:
    """Own paraphrases and the three sanity checks are shown above the paper's numbers."""
    random = Item("oracle/random/0001", "random_pair", "en", "builtin", "", {**DENIED.fields, "label": False})
    asked = [PROVED, control(PROVED, "own_paraphrase"), control(PROVED, "consistency"), random]
    oracle_report = report(measure(tmp_path / "run", asked, {"m": SURE}))
    own, printed = table(oracle_report, "Own paraphrases (Table 4)")
    assert own["Paraphrases"] == "1"
    assert own["Says yes"].startswith("100.0%")
    assert own["Says yes: provable, φ_or"].startswith("100.0%")
    assert own["Says no: provable, φ_or"] == "–"
    assert list(printed.values())[2:] == ["500", "99%", "62.5%", "45.34%", "60%", "60%"]
    own, printed = table(oracle_report, "Sanity checks (section 5.2.1)")
    assert [own[n].split(" ")[0] for n in list(own)[2:]] == ["0.0%", "0.0%", "100.0%", "0.0%", "0.0%"]
    assert list(printed.values())[2:] == ["11.8%", "0.8%", "100%", "0%", "100%"]


def test_acceptance_is_shown_between_floor_and_ceiling(tmp_path: Path) -> None:
    """The acceptance of pairs is next to that of the null oracles and of a perfect judge on the same pairs."""
    [row] = table(report(measure(tmp_path / "run", ASKED, {"m": SURE})), "Floor and ceiling of pairs")
    shares = {name: cell.split(" ")[0] for name, cell in row.items()}
    assert shares["Constant no"] == "0.0%"
    assert float(shares["Constant yes"].rstrip("%")) <= float(shares["Perfect judge"].rstrip("%"))
    assert shares["Aligned with itself"] == "100.0%"
    assert {"Coin", "Word overlap", "Alignable, labelled yes", "Alignable, labelled no"} <= set(row)


def test_a_proof_is_shown_as_its_phrases(tmp_path: Path) -> None:
    """An accepted "yes" is shown with its confirmed phrase pairs, and a rejected one with its
    leftover words.
    """
    run = measure(
        tmp_path / "run", ASKED, {"m": SURE}, ask_identical=True, alignment="printed", whole="allow"
    )
    oracle_report = report(run)
    [proof] = table(oracle_report, "Proofs (Table 13)")
    assert (proof["Item"], proof["Sentence 1"], proof["Sentence 2"]) == (PROVED.id, DOGS, MOVED)
    pairs = proof["Phrases that the model calls equivalent"].split("; ")
    assert sorted(pairs) == [
        "“barked loudly” = “barked loudly”",
        "“last night” = “last night”",
        "“red dogs” = “red dogs”",
    ]
    [left] = table(oracle_report, "Leftover words (Table 12)")
    assert (left["Item"], left["Sentence 2"]) == (UNPROVED.id, CATS)
    assert left["Not covered by an alignment"] == "s1: { last night }, s2: { near cats }"


def test_refused_phrases_are_shown(tmp_path: Path) -> None:
    """A proof that fails because the model refuses a phrase pair shows that pair."""
    refuses = Subject(same=lambda first, second: (first, second) != ("last night", "last night"))
    oracle_report = report(measure(tmp_path / "run", [PROVED], {"m": refuses}, ask_identical=True))
    [left] = table(oracle_report, "Leftover words (Table 12)")
    assert left["Not covered by an alignment"].endswith("; “last night” ≠ “last night”")
    assert "Proofs (Table 13)" not in titles(oracle_report)


def test_triangular_evidence_is_shown(tmp_path: Path) -> None:
    """A rejected "no" shows both sentences and the paraphrase that the model calls equivalent to both."""
    oracle_report = report(measure(tmp_path / "run", ASKED, {"m": SURE}))
    [row] = table(oracle_report, "Triangular evidence (Table 15)")
    assert (row["Item"], row["Sentence 1"], row["Sentence 2"]) == (DENIED.id, MOVED, CATS)
    shown = row["Paraphrase, said to be equivalent to both"]
    assert shown in {f"of sentence 1: {p}" for p in paraphrases(MOVED)} | {f"of sentence 2: {MOVED_CATS}"}
    assert row["Indifferentiable"] == "no"
    close = pair(DOGS, MOVED, 4)
    oracle_report = report(measure(tmp_path / "close", [close], {"m": denies((DOGS, MOVED))}))
    [row] = table(oracle_report, "Triangular evidence (Table 15)")
    assert row["Indifferentiable"] == "yes"


def test_only_triangular_evidence_is_shown(tmp_path: Path) -> None:
    """A "no" rejected for another contradiction has no row, and the record keeps its answers."""
    run = measure(tmp_path / "run", [DENIED], {"m": denies((MOVED, CATS), (MOVED_CATS, CATS))}, no_tests=20)
    tests = PairEvidence.from_json(read_run(run).records[0].evidence).tests
    assert len(tests) == 20
    assert {(t.source, t.other, t.own, t.outcome) for t in tests} == {
        (1, "yes", "yes", "triangular"),
        (2, "yes", "no", "inconsistent"),
    }
    contrary = Subject(same=lambda first, second: False, paraphrases=paraphrases)
    assert "Triangular evidence (Table 15)" not in titles(
        report(measure(tmp_path / "other", [DENIED], {"m": contrary}))
    )
    honest = denies((MOVED, CATS), (TURNED, CATS), (DOGS, CATS), (MOVED_CATS, MOVED))
    run = measure(tmp_path / "third", [DENIED], {"m": honest})
    [test] = PairEvidence.from_json(read_run(run).records[0].evidence).tests
    assert (test.other, test.own, test.outcome) == ("no", "yes", "accepted")


#: two paraphrases of the first sentence; one of them is aligned to the second in one direction only
ONE_WAY, BOTH_WAYS = "quiet dogs barked again.", "loud dogs barked twice."


def with_two_series(folder: Path, phi: str, *triangular: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run by ``phi`` on pairs whose tests draw from two paraphrases by "or", and from one of them by "and".

    :param triangular: the paraphrases that the model calls equivalent to both sentences; others to none.
    """
    known = {ONE_WAY: "or", BOTH_WAYS: "and"}

    class Table15:
        def __init__(self, *_: object) -> None:
            pass

        async def __call__(self, first: str, second: str) -> Alignments:
            one, two = (Parsed.of(text, tree_of(text)) for text in (first, second))
            whole = (NodeMapping((0, len(one.tree.tokens)), (0, len(two.tree.tokens))),)
            kind = known.get(first)
            return Alignments(one, two, whole if kind else (), whole if kind == "and" else ())

    monkeypatch.setattr("pytest_llmprops.benchmarks.oracle.evaluation.Aligner", Table15)
    model = Subject(
        same=lambda first, second: first in triangular,
        paraphrases=lambda text: list(known) if text == DOGS else [],
    )
    asked = [pair(DOGS, CATS, n, label=False) for n in range(1, 7)]
    return measure(folder, asked, {"m": model}, phi=phi)


def drawn_by_or(run: Path) -> dict[str, str]:
    """The paraphrase that each item's test by "or" draws, derived from the values alone."""
    return {
        r.id: ONE_WAY if r.values["trust_or"] != r.values["trust_and"] else BOTH_WAYS
        for r in read_run(run).records
    }


def test_only_the_deciding_triangular_tests_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the tests that decide the run are shown, with their paraphrase and category."""
    run = with_two_series(tmp_path / "one", "or", ONE_WAY, monkeypatch=monkeypatch)
    chosen = drawn_by_or(run)
    assert set(chosen.values()) == {ONE_WAY, BOTH_WAYS}, "both are drawn by some item"
    shown = table(report(run), "Triangular evidence (Table 15)")
    of_one_way = {item for item, text in chosen.items() if text == ONE_WAY}
    assert {row["Item"] for row in shown} == of_one_way
    assert {row["Paraphrase, said to be equivalent to both"] for row in shown} == {
        f"of sentence 1: {ONE_WAY}"
    }
    # By "and", the same answers are inconsistent but are not triangular evidence.
    by_and = report(with_two_series(tmp_path / "two", "and", ONE_WAY, monkeypatch=monkeypatch))
    assert "Triangular evidence (Table 15)" not in titles(by_and)
    shown = table(
        report(with_two_series(tmp_path / "alone", "and", BOTH_WAYS, monkeypatch=monkeypatch)),
        "Triangular evidence (Table 15)",
    )
    assert list(chosen.values()).count(BOTH_WAYS) < len(shown) == 5, "also where the test by or was another"
    both = with_two_series(tmp_path / "three", "and", ONE_WAY, BOTH_WAYS, monkeypatch=monkeypatch)
    shown = table(report(both), "Triangular evidence (Table 15)")
    assert len(shown) == 5, "of six only so many are shown"
    texts = {row["Paraphrase, said to be equivalent to both"] for row in shown}
    assert texts == {f"of sentence 1: {BOTH_WAYS}"}
    both = with_two_series(tmp_path / "four", "or", ONE_WAY, BOTH_WAYS, monkeypatch=monkeypatch)
    for row in table(report(both), "Triangular evidence (Table 15)"):
        text = chosen[row["Item"]]
        assert row["Paraphrase, said to be equivalent to both"] == f"of sentence 1: {text}"


def test_a_denied_paraphrase_in_the_report(tmp_path: Path) -> None:
    """A model that denies each own paraphrase fails the check and is consistent in the paper's numbers."""
    asked = [PROVED, control(PROVED, "own_paraphrase")]
    run = measure(tmp_path / "run", asked, {"m": Subject(same=lambda *_: False, paraphrases=paraphrases)})
    [denied] = [r for r in read_run(run).records if r.task == "own_paraphrase"]
    assert (denied.status, denied.given) == ("wrong", "denied")
    oracle_report = report(run)
    [own, _] = table(oracle_report, "Sanity checks (section 5.2.1)")
    assert own["Own paraphrase: inconsistent"].startswith("0.0%")
    [own, _] = table(oracle_report, "Own paraphrases (Table 4)")
    assert own["Says yes"].startswith("0.0%")
    assert own["Paraphrases"] == "1"


@pytest.mark.parametrize("place", [0, 1])
def test_a_sentence_that_looks_like_the_prompt_is_shown(tmp_path: Path, place: int) -> None:
    """A sentence that contains the separator of the prompt is shown unchanged."""
    texts = [MOVED, CATS]
    texts[place] = "red dogs said ' 2. ' and barked."
    asked = pair(texts[0], texts[1], 1, label=False)
    answers = iter([False])
    model = Subject(same=lambda *_: next(answers, True), paraphrases=paraphrases)
    [row] = table(report(measure(tmp_path / "run", [asked], {"m": model})), "Triangular evidence (Table 15)")
    assert [row["Sentence 1"], row["Sentence 2"]] == texts


CASES = {
    "Proofs (Table 13)",
    "Leftover words (Table 12)",
    "Triangular evidence (Table 15)",
    "Rejected sentences",
}


def test_cases_are_shown_without_requests(tmp_path: Path) -> None:
    """The same cases are shown without requests.jsonl, because the verdicts contain all of it."""
    first, second = (
        report(
            measure(
                tmp_path / str(kept), [*ASKED, *TWO], {"m": SURE}, replies=kept, tests=20, ask_identical=True
            )
        )
        for kept in (True, False)
    )
    assert titles(first) >= CASES
    for title in CASES:
        assert table(first, title) == table(second, title)


def test_report_of_a_schema_1_record_says_what_is_missing(tmp_path: Path) -> None:
    """A schema 1 record has no evidence: numbers and reasons are shown, and a line says what is missing."""
    oracle_report = report(as_schema_1(measure(tmp_path / "run", [*ASKED, *TWO], {"m": SURE}, tests=20)))
    assert any(
        text.startswith("m: the record lacks the evidence of 3 pairs") for text in notes(oracle_report)
    )
    assert not titles(oracle_report) & (CASES - {"Rejected sentences"})
    [row] = table(oracle_report, "Rejected sentences")
    assert row["Sentence"] == "–"
    assert "culprits: " in row["Why"]
    [kinds] = table(oracle_report, "Why sentences are rejected")
    assert (kinds["Rejected sentences"], kinds["Multi-form"]) == ("1", "–")


def test_repaired_answer_counts(tmp_path: Path) -> None:
    """The second reading of a repaired reply is the one that counts."""
    replies = iter(["what?", '{"answer": "no", "explanation": "other cats"}'])
    said = Subject(same=lambda first, second: next(replies, True), paraphrases=paraphrases)
    [record] = read_run(measure(tmp_path / "run", [DENIED], {"m": said})).records
    evidence = PairEvidence.from_json(record.evidence)
    assert (evidence.first, evidence.second, evidence.answer) == (MOVED, CATS, "no")
    assert (evidence.explanation, evidence.trust) == ("other cats", "triangular")


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_whole_run_of_pytest(run: Runner, workers: tuple[str, ...]) -> None:
    """After a run through pytest, the section shows the sentences and culprits kept in the verdicts."""
    run.write(
        "model.py",
        "from tests.support.oracle_runs import Subject, capitalised\n"
        "reply = Subject(lambda text, sample: capitalised(text)[: len(text) % 3 + 1])\n",
    )
    done = run(
        str(Path(__file__).parents[4] / "suites" / "test_oracle.py"), "--rootdir", str(run.folder),
        "--model", f"fake:call?file={run.folder / 'model.py'}", "-k", "oracle/general and not search",
        "--llm-limit", "12", "--llm-set", "oracle.search=none", *workers,
    )  # fmt: skip
    records = {r.id: r for r in read_run(done.folder).records}
    assert len(records) > 3, done.output
    for record in records.values():
        evidence = SentenceEvidence.from_json(record.evidence)
        assert evidence.sentence
        assert len(evidence.tests) == record.values.get("tests", 0)
        assert bool(evidence.culprits) == ("culprits: " in record.reason)
    rows = table(report(done.folder), "Rejected sentences")
    assert rows
    for row in rows:
        assert row["Sentence"] == records[row["Item"]].evidence["sentence"]


# ---- the whole page


def test_the_headline_and_the_page(tmp_path: Path) -> None:
    """The headline counts accepted answers without sanity checks; page and Markdown are written."""
    asked = [*ASKED, *TWO, control(PROVED, "consistency")]
    oracle_report = report(measure(tmp_path / "run", asked, {"m": SURE}))
    # Accepted: one pair and two sentences. The third sentence has nothing to test.
    assert oracle_report.title.startswith("m has an accepted answer to 50.0% of oracle cases (")
    assert oracle_report.sections[0].title == "Oracle-checker"
    text = to_markdown(oracle_report)
    assert "Triangular evidence" in text
    assert "79.54%" in text
    assert "Triangular evidence" in html(oracle_report)


def test_replies_are_shown_as_text(tmp_path: Path) -> None:
    """Control characters of a paraphrase are spelled out and markup is escaped."""
    evil = "red dogs <img src=x onerror=alert(1)> \x1b[2J barked loudly."
    model = Subject(
        same=lambda first, second: (first, second) != (MOVED, CATS), paraphrases=lambda text: [evil + text]
    )
    oracle_report = report(measure(tmp_path / "run", [DENIED], {"m": model}))
    [row] = table(oracle_report, "Triangular evidence (Table 15)")
    assert "\x1b" not in json.dumps(row)
    assert "␛[2J" in row["Paraphrase, said to be equivalent to both"]
    assert "<img src=x" not in html(oracle_report).split("<script")[0]


def test_two_models_share_the_tables(tmp_path: Path) -> None:
    """Every table has one row per model, and a remark about one model names it."""
    other = Subject(same=lambda first, second: True, paraphrases=paraphrases)
    oracle_report = report(measure(tmp_path / "run", [*ASKED, *TWO], {"a": SURE, "b": other}))
    assert [row["Model"] for row in table(oracle_report, "Answers by label (Table 2)")] == [
        "a",
        "b",
        "GPT3.5",
    ]
    assert any(text.startswith("a: accepted no: ") for text in notes(oracle_report))
    [figure] = [f for f in every(oracle_report, Figure) if f.name == "oracle-acceptance"]
    assert "a: builtin, general" in figure.alt
    assert "b: builtin, general" in figure.alt
