"""DTAiLS in the report: figure 2, positions (figures 5 and 6), notes, and the page for each concept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.report import concepts as dtails_concepts
from pytest_llmprops.benchmarks.dtails.report.figures import (
    Estimate,
    Panel,
    Positions,
    Row,
    accuracy_panels,
    middle,
    position_panels,
    rules_name,
)
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Kind, Reply, Request
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Figure,
    Fold,
    ItemData,
    Note,
    Page,
    Report,
    Section,
    Table,
)
from pytest_llmprops.reports.kit.figures import STYLE
from pytest_llmprops.reports.page.build import write_report
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.page.html import pages_html
from pytest_llmprops.reports.page.markdown import to_markdown
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.dtails_cases import prompt_of
from tests.support.dtails_runs import items, knows, measure, takes, with_rules
from tests.support.records import as_schema_1

TRANSLATOR: frozenset[Kind] = frozenset({"translate"})


#: two languages, with two and three variations; the most common label is right in 4 of 6 and in 2 of 3
AF = items("know", ("weet", "ken"), ["weet", "ken", "weet"]) + items(
    "when", ("toe", "wanneer"), ["toe", "wanneer", "toe"]
)


FA = items("date", ("خرما", "رطب", "خارک"), ["خرما", "رطب", "خرما"], language="fa")


ASKED = AF + FA


BOTH = items("know", ("weet", "ken"), ["weet", "ken", "weet"], tasks=("select", "translate"))


def report(*folders: Path) -> Report:
    """Return the report on these runs."""
    runs = [read_run(folder) for folder in folders]
    return report_on(runs, {id(run): read_requests(run.folder) for run in runs})


def blocks(nested: Sequence[Block]) -> list[Block]:
    """Return all blocks, including collapsed ones."""
    return [x for b in nested for x in ([b, *blocks(b.blocks)] if isinstance(b, Fold) else [b])]


def table(content: Report, title: str) -> list[dict[str, str]]:
    """Return the rows of a table as dictionaries from heading to text."""
    [one] = [b for b in blocks(content.sections[0].blocks) if isinstance(b, Table) and b.title == title]
    names = [name for name, _ in one.columns]
    return [dict(zip(names, [cell.text for cell in row], strict=True)) for row in one.rows]


def accuracies(content: Report) -> list[dict[str, str]]:
    """Return the table behind figure 2."""
    return table(content, "Accuracy by language")


def notes(content: Report) -> list[str]:
    """Return all paragraphs of the section."""
    return [b.text for b in blocks(content.sections[0].blocks) if isinstance(b, Note)]


def figure(content: Report, name: str) -> Any:
    """Draw a plot of the section and return it."""
    [one] = [b for b in blocks(content.sections[0].blocks) if isinstance(b, Figure) and b.name == name]
    return one.draw()


def test_every_language_model_and_rules_setting_has_a_row(tmp_path: Path) -> None:
    """Runs are listed by rules setting: none, the model's own, and those of a file by its name."""
    model = {"m": with_rules(knows(ASKED))}
    folders = [
        measure(tmp_path / str(n), ASKED, model, rules=rules)
        for n, rules in enumerate(["/home/me/rules-af-gpt-4o.json,x/rules-fa-gpt-4o.json", "none", "self"])
    ]
    rows = accuracies(report(*folders))
    assert [(row["Language"], row["Rules"]) for row in rows] == [
        (language, rules) for language in ("Afrikaans", "Farsi") for rules in ("none", "own", "gpt-4o")
    ]
    assert {row["Model"] for row in rows} == {"m"}
    assert {row["Accuracy (95% interval)"].split()[0] for row in rows} == {"100.0%"}
    assert report(*folders).series == (
        "m · rules rules-af-gpt-4o.json and 1 more",
        "m · rules none",
        "m · rules self",
    )


def test_baselines_are_in_sample_and_the_languages_own(tmp_path: Path) -> None:
    """Each language has its own frequency baseline, as a table column and as a line in its panel."""
    content = report(measure(tmp_path / "run", ASKED, {"m": takes(1)}))
    shown = [(row["Language"], row["Frequency baseline, in-sample"]) for row in accuracies(content)]
    assert shown == [("Afrikaans", "66.7%"), ("Farsi", "66.7%")]
    plot = figure(content, "dtails-accuracy")
    for axes in plot.axes:
        dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert [line.get_xdata()[0] for line in dashed] == pytest.approx([2 / 3], abs=1e-5)
    assert "frequency baseline, in-sample" in [text.get_text() for text in plot.legends[0].get_texts()]


def test_several_runs_have_mean_and_deviation(tmp_path: Path) -> None:
    """Several runs have a mean and sample standard deviation; a single run has neither column nor band."""
    once = report(measure(tmp_path / "once", AF, {"m": takes(1)}))
    assert "Mean ± deviation over runs" not in accuracies(once)[0]
    folder = measure(tmp_path / "often", MANY[:24], {"m": takes(1)}, runs=4)
    values = [record.values for record in read_run(folder).records]
    shares = [sum(v[f"run{n}_right"] for v in values) / len(values) for n in range(1, 5)]
    mean = sum(shares) / 4
    strict = sum(sum(v[f"run{n}_right"] for n in range(1, 5)) > 2 for v in values) / len(values)
    assert strict != pytest.approx(mean), "otherwise the test could not distinguish them"
    deviation = (sum((share - mean) ** 2 for share in shares) / 3) ** 0.5
    often = report(folder)
    [row] = accuracies(often)
    assert row["Accuracy (95% interval)"].startswith(f"{100 * strict:.1f}%")
    assert row["Mean ± deviation over runs"] == f"{100 * mean:.1f}% ± {100 * deviation:.1f} (4 runs)"
    [axes] = figure(often, "dtails-accuracy").axes
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert marks == pytest.approx([mean])
    assert any(
        list(line.get_xdata()) == pytest.approx([mean - deviation, mean + deviation]) for line in axes.lines
    )


def test_translation_systems_and_chat_models_are_in_one_table(tmp_path: Path) -> None:
    """Choices come before translations, and a system that only translates has no choice and no rules."""
    chat = measure(tmp_path / "chat", BOTH, {"gpt": knows(BOTH)})
    system = measure(tmp_path / "system", BOTH, {"nllb": lambda request: "Ek weet."}, kinds=TRANSLATOR)
    content = report(chat, system)
    rows = accuracies(content)
    assert [tuple(row[name] for name in ("Task", "Model", "Rules")) for row in rows] == [
        ("Selects from a list", "gpt", "none"), ("Translates", "gpt", ""), ("Translates", "nllb", "")
    ]  # fmt: skip
    assert [row["Accuracy (95% interval)"].split()[0] for row in rows] == ["100.0%", "100.0%", "66.7%"]
    [axes] = figure(content, "dtails-accuracy").axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["gpt (no rules)", "gpt", "nllb"]
    assert {"Selects from a list", "Translates"} <= {text.get_text() for text in axes.texts}


def test_equal_translations_are_shown_once(tmp_path: Path) -> None:
    """Equal translations from runs with different rules are shown once, different ones separately."""
    runs = [
        measure(tmp_path / rules, BOTH, {"m": with_rules(knows(BOTH))}, rules=rules)
        for rules in ("none", "self", "x.json")
    ]
    assert [row["Task"] for row in accuracies(report(*runs))].count("Translates") == 1
    verdicts = runs[2] / "verdicts.jsonl"
    text = verdicts.read_text(encoding="utf-8").replace('"given": "weet"', '"given": "x"')
    verdicts.write_text(text, encoding="utf-8")
    assert [row["Task"] for row in accuracies(report(*runs))].count("Translates") == 2


def test_the_headline_counts_choices_only(tmp_path: Path) -> None:
    """The headline covers choices only, or translations if there are no choices, and has no baseline."""
    right = knows(BOTH)

    def half(request: Request) -> str | Reply | BackendError:
        return right(request) if "```answer```" in getattr(request, "prompt", "") else "Niks nie."

    content = report(measure(tmp_path / "chat", BOTH, {"gpt": half}))
    assert content.title.startswith("gpt answers 100.0% of DTAiLS items")
    [card] = content.overview
    assert (card.value, card.n, card.chance, card.best) == (1.0, 3, None, None)
    only = report(measure(tmp_path / "system", BOTH, {"nllb": lambda r: "Ek weet."}, kinds=TRANSLATOR))
    assert only.title.startswith("nllb answers 66.7% of DTAiLS items")


def test_unreadable_rules_are_reported(tmp_path: Path) -> None:
    """A model with unreadable rules is named together with the number of items affected."""
    broken = report(measure(tmp_path / "run", AF, {"m": with_rules(knows(AF), "")}, rules="self"))
    [said] = [text for text in notes(broken) if "could not" in text]
    assert said.startswith("m (own rules): its own rules could not be read for 2 concepts. 6 of 6 items")
    fine = report(measure(tmp_path / "fine", AF, {"m": with_rules(knows(AF))}, rules="self"))
    assert not any("could not be read" in text for text in notes(fine))


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
    content = report(*runs)
    title = "Accuracy by language, model and rules (figure 2)"
    rows = {(row["Model"], row["Rules"]): row for row in table(content, title)}
    assert list(rows) == [
        ("m", "no rules"), ("m", "self rules"), ("n", "no rules"), ("m", "translates"), ("n", "translates"),
        ("nllb", "translates"), ("frequency baseline", ""),
    ]  # fmt: skip
    assert list(rows["m", "no rules"]) == ["Model", "Rules", "Afrikaans", "Farsi"]
    assert (rows["m", "self rules"]["Afrikaans"], rows["nllb", "translates"]["Afrikaans"]) == (
        "100.0 ± 0.0",
        "66.7",
    )
    assert (rows["nllb", "translates"]["Farsi"], rows["frequency baseline", ""]["Farsi"]) == ("", "66.7")
    # m and n take different positions of the same two, in two orders, so each is right in one of two runs.
    assert rows["m", "no rules"]["Afrikaans"].startswith("50.0 ± ")
    gains = {row["Gain"]: row for row in table(content, "Gains in percentage points (section 4)")}
    assert {name: row["Afrikaans"] for name, row in gains.items()} == {
        "best model that selects, less best translation system": "+33.3", "m (own rules), less no rules": "+50.0",
    }  # fmt: skip
    assert gains["best model that selects, less best translation system"]["Farsi"] == ""
    plot = figure(content, "dtails-figure-2")
    assert [axes.get_title(loc="left") for axes in plot.axes] == ["Afrikaans", "Farsi"]
    assert [len(axes.patches) for axes in plot.axes] == [6, 3]
    assert [bar.get_height() for bar in plot.axes[0].patches][:2] == pytest.approx([0.5, 1.0])
    assert [bool(bar.get_hatch()) for bar in plot.axes[0].patches][:3] == [False, True, False]


def test_rules_of_a_helper_are_named(tmp_path: Path) -> None:
    """Rules that a helper writes have the helper's name in tables."""
    folder = measure(tmp_path / "run", AF, {"m": takes(1)}, rules="x.json")
    file = folder / "run.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    data["protocols"]["dtails"]["settings"]["rules"] = "helper"
    data["helpers"] = {"rules": {"spec": "gpt-4o"}}
    file.write_text(json.dumps(data), encoding="utf-8")
    assert {row["Rules"] for row in accuracies(report(folder))} == {"gpt-4o"}
    assert rules_name("helper") == "helper"


MANY = items("know", ("weet", "ken"), ["weet", "ken"] * 12) + items(
    "date", ("خرما", "رطب", "خارک"), ["خرما", "رطب", "خارک"] * 8, language="fa"
)


def test_order_dependent_models_are_named(tmp_path: Path) -> None:
    """Each order-dependent model has a sentence with share, interval, even share and p; report.md has all tables."""
    content = report(measure(tmp_path / "run", MANY, {"first": takes(1), "good": knows(MANY)}, runs=2))
    [said] = [text for text in notes(content) if "is not order-invariant" in text]
    assert said.startswith(
        "first (no rules) is not order-invariant: of 2 variations it chooses the first in 100.0% (92.6 to 100.0) of 48"
        " choices, instead of 50.0% (p < 0.001); of 3 variations it chooses the first in 100.0%"
    )
    assert "Not shown to depend on the order: good (no rules)." in notes(content)
    rows = {(row["Model"], row["Variations"]): row for row in table(content, "Positions chosen")}
    assert rows.keys() == {(model, size) for model in ("first", "good") for size in ("2", "3")}
    places = [rows["first", "2"][f"Position {n}"] for n in (1, 2, 3)]
    assert places == ["100.0% (92.6 to 100.0)", "0.0% (0.0 to 7.4)", ""]
    assert [rows[model, "3"]["Depends on the order"] for model in ("first", "good")] == ["yes", "not shown"]
    assert rows["first", "3"]["p"] == "< 0.001"
    assert float(rows["good", "3"]["p"]) > 0.05
    text = to_markdown(content)
    for part in ("### Accuracy by language", "### Positions chosen", "dtails-accuracy.svg", "dtails-positions.svg",
                 "### Concepts", "| [know](dtails/af-know.html) | Afrikaans | 2 | 24 |"):  # fmt: skip
        assert part in text


def test_positions_are_those_of_the_metrics(tmp_path: Path) -> None:
    """Every mark and interval of figures 5 and 6 is a row of position_rate over all languages."""
    folder = measure(tmp_path / "run", MANY, {"m": takes(2)}, runs=2)
    metrics = json.loads((folder / "run.json").read_text(encoding="utf-8"))["metrics"]
    plot = figure(report(folder), "dtails-positions")
    assert [axes.get_title(loc="left") for axes in plot.axes] == ["2 variations", "3 variations"]
    for size, axes in zip((2, 3), plot.axes, strict=True):
        expected = [m for m in metrics if m["name"] == "position_rate" and m["group"].endswith(f"of{size}")]
        expected = [m for m in expected if m["language"] == "all"]
        [marks] = [line.get_ydata() for line in axes.lines if line.get_marker() == "o"]
        assert list(marks) == [m["value"] for m in expected]
        limits = [tuple(line.get_ydata()) for line in axes.lines if len(set(line.get_xdata())) == 1]
        assert limits == [(m["ci_low"], m["ci_high"]) for m in expected]
        [uniform] = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
        assert uniform == pytest.approx(1 / size)


def test_figures_5_and_6_count_the_papers_languages(tmp_path: Path) -> None:
    """Figures 5 and 6 in the paper's form count Afrikaans, Latvian and Japanese, or all languages if a run has none."""
    japanese = items("wear", ("着る", "履く"), ["着る", "履く"] * 3, language="ja")
    folder = measure(tmp_path / "run", [*MANY, *japanese], {"m": takes(2)}, runs=3)
    content = report(folder)
    [two] = table(content, "Positions chosen of 2 variations (figure 5)")
    assert (two["Languages"], two["Choices"], two["Rules"]) == ("Afrikaans, Japanese", "90", "no rules")
    assert two["Position 2"] == "100.0% (96.0 to 100.0)"
    [three] = table(content, "Positions chosen of 3 variations (figure 6)")
    assert (three["Languages"], three["Choices"]) == ("Farsi", "72")
    [axes] = figure(content, "dtails-figure-6").axes
    assert [bar.get_height() for bar in axes.patches] == [0.0, 1.0, 0.0]
    [uniform] = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
    assert uniform == pytest.approx(1 / 3)


def test_report_says_that_choices_are_too_few(tmp_path: Path) -> None:
    """With fewer than five choices per position of three no test is made, and the report says so."""
    content = report(measure(tmp_path / "run", FA, {"m": takes(1)}))
    assert "Too few choices to test whether the order matters: m (no rules)." in notes(content)
    [row] = table(content, "Positions chosen")
    assert (row["p"], row["Depends on the order"]) == ("–", "–")


def test_no_position_figure_without_choices(tmp_path: Path) -> None:
    """Without any choice the report has no figure of positions but still shows the accuracy."""
    content = report(measure(tmp_path / "run", AF, {"m": lambda request: "Well."}))
    names = [b.name for b in blocks(content.sections[0].blocks) if isinstance(b, Figure)]
    assert names == ["dtails-accuracy", "dtails-figure-2"]
    assert accuracies(content)[0]["Accuracy (95% interval)"].startswith("0.0%")


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("none", "none"), ("self", "own"), (None, "none"), ("rules.json", "rules"), ("a/b/own.json", "own.json"),
        ("C:\\me\\rules-af-gpt-4o.json", "gpt-4o"), ("rules-af-a.json,rules-fa-b.json", "rules-af-a and 1 more"),
        ("x/rules-af-a.json, y/rules-fa-a.json", "a"), ("a.json,b.json,c.json", "a and 2 more"),
    ],
)  # fmt: skip
def test_names_of_rules(setting: object, name: str) -> None:
    """No folder is shown, and files with the command's default name are labelled by their model."""
    assert rules_name(setting) == name


def test_long_names_keep_their_ends() -> None:
    """Long names keep their ends, where models of a family differ."""
    assert middle("short") == "short"
    assert middle("a" * 30 + "-7b") == "aaaaaaaaaa…aaaaaaaa-7b"
    assert len(middle("x" * 99)) == 22


def laid_out(plot: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the figure in the report's style and a renderer that measures its texts."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(STYLE):
        figure = plot()
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        return figure, canvas.get_renderer()


@pytest.mark.parametrize(("languages", "rows"), [(1, 1), (9, 12)])
def test_figure_2_has_room_for_all_names(languages: int, rows: int) -> None:
    """No name leaves the figure or overlaps a panel, with one language and nine, one row and twelve."""
    headings = ["Selects from a list", *[""] * (rows - 1)]
    lines = [Row(f"some-model-{n:010d} (own rules)", n, heading) for n, heading in enumerate(headings)]
    values = tuple(Estimate(0.0 if n % 2 else 1.0, 0.0, 1.0, 0.1, 3) for n in range(rows))
    panels = [Panel(f"Language {n}", values, (0.5,)) for n in range(languages)]
    plot, renderer = laid_out(lambda: accuracy_panels(panels, lines))
    whole = plot.bbox
    assert len(plot.axes) == languages
    for axes in plot.axes:
        for label in axes.get_yticklabels():
            box = label.get_window_extent(renderer)
            assert not label.get_text() or (box.x0 >= whole.x0 and box.x1 < axes.get_window_extent().x0)
    legend = plot.legends[0].get_window_extent(renderer)
    assert legend.x1 <= whole.x1
    assert all(legend.y0 > axes.get_window_extent().y1 for axes in plot.axes)


def test_positions_of_many_models_and_long_lists() -> None:
    """With twelve series and lists of two to seven, no panel leaves the figure or overlaps another."""
    lines = [Row(f"some-model-{n:010d} (own rules)", n) for n in range(12)]
    panels = [
        Positions(f"{size} variations", size, (tuple((1 / size, 0.1, 0.9) for _ in range(size)),) * 12)
        for size in (2, 3, 4, 7)
    ]
    plot, renderer = laid_out(lambda: position_panels(panels, lines))
    boxes = [axes.get_window_extent() for axes in plot.axes]
    boxes.append(plot.legends[0].get_window_extent(renderer))
    assert len(boxes) == 5
    assert boxes[0].y0 == boxes[1].y0 > boxes[2].y0 > boxes[3].y0
    for n, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= plot.bbox.x1 + 1
        assert box.y0 >= 0
        assert not any(box.overlaps(other) for other in boxes[n + 1 :])


KNOW = items("know", ("weet", "ken"), ["weet", "ken", "weet"], tasks=("select", "translate"))


CHOICES = [item for item in KNOW if item.task == "select"]


DATE = items("date", ("خرما", "رطب", "خارک"), ["خرما", "رطب"], language="fa")


SENTENCES = {"dtails/af/know": {"weet": ("I know that.", "They know."), "ken": ()}}


HOSTILE = "</script><img src=x onerror=alert(1)> {{ 7 * 7 }} \x1b[31m \u202egnp"


def pages_in(out: Path) -> dict[str, str]:
    """Return the concept pages of a report by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((out / "dtails").iterdir())}


def pages(out: Path, *folders: Path) -> dict[str, str]:
    """Write the report on these runs and return its concept pages by file name."""
    write_report(folders, out)
    return pages_in(out)


def know_page(out: Path, *folders: Path) -> str:
    return pages(out, *folders)["af-know.html"]


def words(page: str) -> str:
    """Return the visible text of a page on one line."""
    body = re.sub(r"<(style|title)>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def sentence(page: str, number: int) -> str:
    """Return the visible text of one sentence."""
    return words(page.split('<div class="block sentence">')[number])


def test_report_and_pages_link_to_each_other(tmp_path: Path) -> None:
    """Every concept in the table has a page that only links to the section and the neighbouring concepts."""
    out = tmp_path / "out"
    written = write_report([measure(tmp_path / "run", KNOW + DATE, {"m": takes(1)})], out)
    assert [path.name for path in written if path.suffix == ""] == ["dtails"], "the folder is listed once"
    assert not [path for path in written if path.parent.name == "dtails"]
    concept_pages = pages_in(out)
    report = (out / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r'href="(dtails/[^"]+)"', report)) == {f"dtails/{name}" for name in concept_pages}
    links = {name: re.findall(r'href="([^#"][^"]*)"', page) for name, page in concept_pages.items()}
    assert links == {
        "af-know.html": ["../report.html#1-section", "fa-date.html"],
        "fa-date.html": ["../report.html#1-section", "af-know.html"],
    }
    assert 'id="1-section"' in report
    assert not re.search(r"\w+://|url\(|@import|<link|src=", "".join(concept_pages.values()))


def test_a_page_has_every_choice_in_the_order_shown(tmp_path: Path) -> None:
    """A page shows the sentence, the right variation and, per run, list, position and outcome."""
    concept_pages = pages(tmp_path / "out", measure(tmp_path / "run", DATE, {"m": takes(2)}, runs=3))
    page = concept_pages["fa-date.html"]
    assert words(page).count("Sentence 1 on date") == 1
    assert "Right: خرما · dtails/fa/date/01" in sentence(page, 1)
    lists = re.findall(r'<ol class="shown">(.*?)</ol>', page)
    assert len(lists) == 2 * 3
    for shown in lists:
        assert set(re.findall(r"<bdi[^>]*>(.*?)</bdi>", shown)) == {"خرما", "رطب", "خارک"}
        assert [n for n, one in enumerate(shown.split("<li")[1:], 1) if 'class="took"' in one] == [2]
    outcomes = re.findall(r"([✓✗]) (right|wrong), position 2", words(page))
    assert len(outcomes) == 6
    assert ("✗", "wrong") in outcomes
    assert page.count('lang="fa"') > 10
    assert "خرما right in 1 sentence" in words(page)
    assert "خارک right in 0 sentences" in words(page)


def test_models_and_settings_are_shown_together(tmp_path: Path) -> None:
    """Each sentence lists every model and rules setting, and each translation with its reading."""
    model = {"m": with_rules(knows(KNOW))}
    runs = [measure(tmp_path / rules, KNOW, model, rules=rules) for rules in ("none", "self")]
    runs.append(measure(tmp_path / "nllb", KNOW, {"nllb": lambda r: "Ek weett dit."}, kinds=TRANSLATOR))
    page = know_page(tmp_path / "out", *runs)
    first, second = sentence(page, 1), sentence(page, 2)
    assert first.index("m (no rules)") < first.index("m (own rules)") < first.index("nllb translates")
    assert "Ek weett dit. ✓ right translated with weet" in first
    assert "Ek weett dit. ✗ wrong translated with weet" in second


def test_rules_with_their_number_of_sentences(tmp_path: Path) -> None:
    """A page shows each distinct set of rules once, with the number of sentences behind each rule."""
    model = {"a": with_rules(knows(KNOW)), "b": with_rules(takes(1))}
    own = measure(tmp_path / "own", CHOICES, model, rules="self", sentences=SENTENCES)
    from_file = measure(tmp_path / "file", CHOICES, {"a": knows(KNOW)}, rules="x/rules-af-gpt-4o.json")
    bare = measure(tmp_path / "none", CHOICES, model, rules="self")
    text = words(know_page(tmp_path / "out", own, from_file))
    for said in (
        "Own rules of a and b sentences: 2 weet 2 sentences when it is weet ken 0 sentences when it is ken",
        "Rules of gpt-4o, given to a sentences: 14 weet 7 sentences by hand: weet ken 7 sentences by hand: ken",
    ):
        assert said in text
    assert "Own rules of a and b sentences: 0 (no examples" in words(know_page(tmp_path / "out2", bare))


def test_rules_that_the_record_lacks_are_counted(tmp_path: Path) -> None:
    """The page says that the record has no rules for variations that were neither right nor chosen."""
    run = measure(tmp_path / "run", DATE, {"m": with_rules(knows(DATE))}, rules="self")
    text = words(pages(tmp_path / "out", run)["fa-date.html"])
    assert "The record does not have 1 rule for variations that were neither right nor chosen." in text
    assert "when it is خرما" in text
    assert "when it is خارک" not in text


def test_rules_that_could_not_be_read(tmp_path: Path) -> None:
    """The page says why there are no rules and that the sentences were not sent to the model."""
    run = measure(tmp_path / "run", CHOICES, {"m": with_rules(knows(KNOW), "")}, rules="self")
    page = know_page(tmp_path / "out", run)
    assert words(page).count("could not be read in 3 tries") == 1 + len(CHOICES)
    assert "? unparsed its rules" in sentence(page, 1)
    assert "the record has no evidence" not in words(page)


def test_a_page_needs_no_requests(tmp_path: Path) -> None:
    """Without requests.jsonl the page is the same, because all of it comes from the verdicts."""
    model = {"m": with_rules(takes(1))}
    first, second = (
        know_page(
            tmp_path / f"out-{kept}", measure(tmp_path / str(kept), KNOW, model, rules="self", replies=kept)
        )
        for kept in (True, False)
    )
    assert 'class="shown"' in first
    assert first == second


def test_page_of_a_schema_1_record_says_what_is_missing(tmp_path: Path) -> None:
    """For schema 1 the page shows positions and outcomes, and says that the sentence is missing."""
    model = {"m": with_rules(takes(1))}
    run = as_schema_1(measure(tmp_path / "run", CHOICES, model, rules="self", runs=2))
    page = know_page(tmp_path / "out", run)
    assert "m (own rules): the record has no evidence for 3 items" in words(page)
    for missing in ("Sentence 1 on know", "when it is", 'class="shown"'):
        assert missing not in page
    assert "The record does not have this sentence." in sentence(page, 1)
    assert re.search(r"[✓✗] (right|wrong), position 1", sentence(page, 1))
    assert "Chose " in sentence(page, 1)


def test_sentence_is_taken_from_another_run(tmp_path: Path) -> None:
    """If one of two runs has evidence, the page shows the sentence for both."""
    cut = as_schema_1(measure(tmp_path / "cut", CHOICES, {"a": takes(1)}))
    page = know_page(tmp_path / "out", cut, measure(tmp_path / "whole", CHOICES, {"b": takes(1)}))
    assert "Sentence 1 on know." in sentence(page, 1)
    assert "a (no rules): the record has no evidence" in words(page)
    assert "b (no rules): the record has no evidence" not in words(page)


def test_errors_and_refusals_are_shown(tmp_path: Path) -> None:
    """A failed call and a refusal are shown with their reasons."""
    answers: dict[str, str | BackendError] = {
        "Sentence 1": BackendError("timed out <b>twice</b>", kind="timeout"),
        "Sentence 2": "I cannot help with that.",
    }

    def answer(request: Request) -> str | BackendError:
        return next((a for t, a in answers.items() if t in prompt_of(request)), "Well.")

    page = know_page(tmp_path / "out", measure(tmp_path / "run", CHOICES, {"m": answer}))
    assert "! error timed out <b>twice</b>" in sentence(page, 1)
    assert "no choice read, after a retry" in sentence(page, 2)
    assert "declined" in sentence(page, 2)
    assert "after one retry" in sentence(page, 3)


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    """Sentences, variations, rules, translations, reasons and model names are escaped in the page."""
    hostile = [
        replace(item, fields={**item.fields, "concept": HOSTILE})
        for item in items("know", ("weet", HOSTILE), [HOSTILE, "weet"], tasks=("select", "translate"))
    ]
    model = {f"m{HOSTILE}": with_rules(lambda request: HOSTILE, HOSTILE + "{}")}
    [page] = pages(tmp_path / "out", measure(tmp_path / "run", hostile, model, rules="self")).values()
    for text in ("<img", "<script", "\x1b", "\u202e", "script-src"):
        assert text not in page
    for text in ("{{ 7 * 7 }}", "␛[31m", "[U+202E]", "default-src 'none'"):
        assert text in page
    assert words(page).count("<img src=x onerror=alert(1)>") > 8


def test_pages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of pages, sentences per page and characters per text are limited, and the page says so."""
    monkeypatch.setattr(dtails_concepts, "MOST_PAGES", 1)
    monkeypatch.setattr(dtails_concepts, "MOST_SENTENCES", 2)
    monkeypatch.setattr(dtails_concepts, "LONGEST", 10)
    [page] = pages(tmp_path / "out", measure(tmp_path / "run", KNOW + DATE, {"m": takes(1)})).values()
    assert page.count('<div class="block sentence">') == 2
    assert "1 further sentence in the runs' records" in words(page)
    assert "Sentence 1… (" in sentence(page, 1)
    assert not re.search(r'rel="next"', page)
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "1 concept without a page" in report
    assert "| date | Farsi" in report


def test_concepts_that_would_share_a_file(tmp_path: Path) -> None:
    """Names that differ only in case or special characters get separate files."""
    same = [
        item
        for name in ("know", "Know", "kn/ow", "kn-ow", "../know")
        for item in items(name, ("weet", "ken"), ["weet"])
    ]
    concept_pages = pages(tmp_path / "out", measure(tmp_path / "run", same, {"m": takes(1)}))
    assert len(concept_pages) == len({name.casefold() for name in concept_pages}) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize(
    "path", ["../x.html", "a/b/c.html", "x.html", "a/x.htm", "a/ü.html", "/a/x.html", "a/..html"]
)
def test_a_page_stays_in_a_folder_of_the_report(path: str) -> None:
    """A benchmark's section cannot write outside the report folder."""
    section = Section((), (Page(path, "t", dtails_concepts.TEMPLATE, None),))
    with pytest.raises(ValueError, match="FOLDER/NAME"):
        pages_html(Report("t", (), (), (), (), (), (), (section,), (), ItemData("", (), {})))


def test_file_with_the_name_of_the_page_folder(tmp_path: Path) -> None:
    """If a file has the name of the folder, a one-line message says so."""
    run, file = measure(tmp_path / "run", KNOW, {"m": takes(1)}), tmp_path / "out" / "dtails"
    file.parent.mkdir()
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="--out"):
        write_report([run], file.parent)
    assert file.read_text(encoding="utf-8") == "mine"
