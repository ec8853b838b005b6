"""DTAiLS in the report: figure 2, positions (figures 5 and 6), notes, and concepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.report import rules_name
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Kind, Reply, Request
from pytest_llmprops.reports.page.markdown import to_markdown
from pytest_llmprops.runs.reader import read_run
from tests.support.dtails_runs import items, knows, measure, takes, with_rules
from tests.support.report_sections import Shown

TRANSLATOR: frozenset[Kind] = frozenset({"translate"})
#: figure 2
TITLE = "Accuracy by language, model and rules (figure 2)"


#: two languages, with two and three variations; the most common label is right in 4 of 6 and in 2 of 3
AF = items("know", ("weet", "ken"), ["weet", "ken", "weet"]) + items(
    "when", ("toe", "wanneer"), ["toe", "wanneer", "toe"]
)
FA = items("date", ("خرما", "رطب", "خارک"), ["خرما", "رطب", "خرما"], language="fa")
MANY = items("know", ("weet", "ken"), ["weet", "ken"] * 12) + items(
    "date", ("خرما", "رطب", "خارک"), ["خرما", "رطب", "خارک"] * 8, language="fa"
)
BOTH = items("know", ("weet", "ken"), ["weet", "ken", "weet"], tasks=("select", "translate"))


def rows_of(shown: Shown) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of figure 2's table by model and rules."""
    return {(row["Model"], row["Rules"]): row for row in shown.table(TITLE)}


def figure(shown: Shown, name: str) -> Any:
    """Draw a plot of the section and return it."""
    [one] = shown.figures(name)
    return one.draw()


def test_equal_translations_are_shown_once(tmp_path: Path) -> None:
    """Equal translations from runs with different rules are shown once, different ones separately."""
    runs = [
        measure(tmp_path / rules, BOTH, {"m": with_rules(knows(BOTH))}, rules=rules)
        for rules in ("none", "self", "x.json")
    ]
    assert [row["Rules"] for row in Shown(*runs).table(TITLE)].count("translates") == 1
    verdicts = runs[2] / "verdicts.jsonl"
    text = verdicts.read_text(encoding="utf-8").replace('"given":"weet"', '"given":"x"')
    verdicts.write_text(text, encoding="utf-8")
    assert [row["Rules"] for row in Shown(*runs).table(TITLE)].count("translates") == 2


def test_the_headline_counts_choices_only(tmp_path: Path) -> None:
    """The headline covers choices only, or translations if there are no choices, and has no baseline."""
    right = knows(BOTH)

    def half(request: Request) -> str | Reply | BackendError:
        return right(request) if "```answer```" in getattr(request, "prompt", "") else "Niks nie."

    content = Shown(measure(tmp_path / "chat", BOTH, {"gpt": half}))
    assert content.report.title.startswith("gpt answers 100.0% of DTAiLS items")
    assert content.report.table is not None
    [[_, accuracy, number, guessing, best, _]] = content.report.table.rows
    assert (accuracy.value, number.value, guessing.text, best.text) == (1.0, 3, "–", "")
    only = Shown(measure(tmp_path / "system", BOTH, {"nllb": lambda r: "Ek weet."}, kinds=TRANSLATOR))
    assert only.report.title.startswith("nllb answers 66.7% of DTAiLS items")


def test_unreadable_rules_are_reported(tmp_path: Path) -> None:
    """A model with unreadable rules is named together with the number of items affected."""
    broken = Shown(measure(tmp_path / "run", AF, {"m": with_rules(knows(AF), "")}, rules="self"))
    [said] = [text for text in broken.notes if "could not" in text]
    assert said.startswith("m (self rules): its own rules could not be read for 2 concepts. 6 of 6 items")
    fine = Shown(measure(tmp_path / "fine", FA, {"m": with_rules(knows(FA))}, rules="self"))
    assert not any("could not be read" in text for text in fine.notes)
    assert "Too few choices to test whether the order matters: m (self rules)." in fine.notes


def test_figure_2_in_the_papers_form(tmp_path: Path) -> None:
    """Every model and rules setting is a row and a bar, languages are columns in the paper's order; gains are by rules.

    The best model that selects is compared with the best translation system; a chat model's translations are not one.
    """
    asked = FA + BOTH
    choices = [item for item in asked if item.task == "select"]
    runs = [
        measure(tmp_path / "none", asked, {"m": takes(1), "n": takes(2)}, runs=2),
        measure(tmp_path / "self", choices, {"m": with_rules(knows(asked))}, rules="self", runs=2),
        measure(tmp_path / "system", BOTH, {"nllb": lambda request: "Ek weet."}, kinds=TRANSLATOR),
    ]
    content = Shown(*runs)
    rows = rows_of(content)
    assert list(rows) == [
        ("m", "no rules"), ("m", "self rules"), ("n", "no rules"), ("m", "translates"), ("n", "translates"),
        ("nllb", "translates"), ("frequency baseline", ""),
    ]  # fmt: skip
    assert list(rows["m", "no rules"]) == ["Model", "Rules", "Afrikaans", "Farsi"]
    assert rows["m", "self rules"]["Afrikaans"] == "100.0 ± 0.0"
    assert rows["nllb", "translates"]["Afrikaans"] == "66.7"
    assert rows["nllb", "translates"]["Farsi"] == ""
    assert [rows["frequency baseline", ""][code] for code in ("Afrikaans", "Farsi")] == ["66.7", "66.7"]
    # m and n take different positions of the same two, in two orders, so each is right in one of two runs.
    # The shares of the two runs are 2/3 and 1/3; their sample deviation is a third divided by the root of two.
    deviation = 1 / 18**0.5
    assert rows["m", "no rules"]["Afrikaans"] == f"50.0 ± {100 * deviation:.1f}"
    gains = {row["Gain"]: row for row in content.table("Gains in percentage points (section 4)")}
    assert {name: row["Afrikaans"] for name, row in gains.items()} == {
        "best model that selects, less best translation system": "+33.3", "m (self rules), less no rules": "+50.0",
    }  # fmt: skip
    assert gains["best model that selects, less best translation system"]["Farsi"] == ""
    plot = figure(content, "dtails-figure-2")
    assert [axes.get_title(loc="left") for axes in plot.axes] == ["Afrikaans", "Farsi"]
    assert [len(axes.patches) for axes in plot.axes] == [6, 3]
    assert [bar.get_height() for bar in plot.axes[0].patches][:2] == pytest.approx([0.5, 1.0])
    # Several runs have their deviation, a single run has its interval.
    limits = [list(line.get_ydata()) for line in plot.axes[0].lines if line.get_linestyle() == "-"]
    [single] = read_run(runs[2]).facts.summary
    assert limits[0] == pytest.approx([0.5 - deviation, 0.5 + deviation])
    assert limits[-1] == pytest.approx([single.ci_low, single.ci_high])
    assert [bool(bar.get_hatch()) for bar in plot.axes[0].patches][:3] == [False, True, False]
    for axes in plot.axes:
        dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert [line.get_ydata()[0] for line in dashed] == pytest.approx([2 / 3], abs=1e-5)
    assert "frequency baseline, in-sample" in [text.get_text() for text in plot.legends[0].get_texts()]


def test_order_dependent_models_are_named(tmp_path: Path) -> None:
    """Each order-dependent model has a sentence with share, interval, even share and p; report.md has all tables.

    Each concept has its number of sentences and the mean score of every line.
    """
    models = {"first": takes(1), "good": knows(MANY), "n": lambda request: "Well."}
    content = Shown(measure(tmp_path / "run", MANY, models, runs=2))
    [said] = [text for text in content.notes if "is not order-invariant" in text]
    assert said.startswith(
        "first (no rules) is not order-invariant: of 2 variations it chooses number 1 in 100.0% (92.6 to 100.0) of 48"
        " choices, instead of 50.0% (p < 0.001); of 3 variations it chooses number 1 in 100.0%"
    )
    assert "Not shown to depend on the order: good (no rules)." in content.notes
    assert rows_of(content)["n", "no rules"]["Afrikaans"].startswith("0.0")
    text = to_markdown(content.report)
    for part in (f"### {TITLE}", "### Positions chosen of 2 variations (figure 5)", "dtails-figure-2.svg",
                 "dtails-figure-6.svg", "### Concepts", "| know | Afrikaans | builtin | 24 |"):  # fmt: skip
        assert part in text
    concepts = [
        (row["Concept"], row["good (no rules)"], row["n (no rules)"]) for row in content.table("Concepts")
    ]
    assert concepts == [("know", "100.0%", "0.0%"), ("date", "100.0%", "0.0%")]


def test_figures_5_and_6_count_the_papers_languages(tmp_path: Path) -> None:
    """Figures 5 and 6 in the paper's form count Afrikaans, Latvian and Japanese, or all languages if a run has none."""
    japanese = items("wear", ("着る", "履く"), ["着る", "履く"] * 3, language="ja")
    folder = measure(tmp_path / "run", [*MANY, *japanese], {"m": takes(2)}, runs=3)
    content = Shown(folder)
    [two] = content.table("Positions chosen of 2 variations (figure 5)")
    assert (two["Languages"], two["Choices"], two["Rules"]) == ("Afrikaans and Japanese", "90", "no rules")
    assert two["Position 2"] == "100.0% (96.0 to 100.0)"
    [three] = content.table("Positions chosen of 3 variations (figure 6)")
    assert (three["Languages"], three["Choices"]) == ("Farsi", "72")
    [axes] = figure(content, "dtails-figure-6").axes
    assert [bar.get_height() for bar in axes.patches] == [0.0, 1.0, 0.0]
    [uniform] = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
    assert uniform == pytest.approx(1 / 3)


def test_names_of_rules() -> None:
    """No folder is shown, and files with the command's default name are labelled by their model."""
    for setting, name in (
        ("self", "own"), (None, "none"), ("rules.json", "rules"), ("a/b/own.json", "own.json"), ("helper", "helper"),
        ("C:\\me\\rules-af-gpt-4o.json", "gpt-4o"), ("rules-af-a.json,rules-fa-b.json", "rules-af-a and 1 more"),
        ("x/rules-af-a.json, y/rules-fa-a.json", "a"), ("a.json,b.json,c.json", "a and 2 more"),
    ):  # fmt: skip
        assert rules_name(setting) == name
