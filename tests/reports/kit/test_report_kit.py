"""The parts of a report: texts that are shown but not rendered, additional pages, and plots."""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path

import pytest

from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.report_kit import Page, Section, cut_text, linked_pages, outcome_label
from pytest_llmprops.reports.kit.blocks import ItemData, Report
from pytest_llmprops.reports.kit.figures import (
    INK,
    SERIES,
    ForestRow,
    Mark,
    Point,
    Spot,
    colour,
    draw,
    forest,
    inline,
    marker,
    scatter,
)
from pytest_llmprops.reports.page.html import pages_html
from pytest_llmprops.reports.page.items import pack
from pytest_llmprops.reports.page.markdown import code, plain
from tests.support.report_items import unpacked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x00\x7f\x9b", "␀␡[U+009B]"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("\u2066x\u2069", "[U+2066]x[U+2069]"),
        ("a\u2028b\ufeff", "a[U+2028]b[U+FEFF]"),
        ("\ud800", "[U+D800]"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("one\rtwo", "one␍two"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    """Characters that control a terminal or reorder a line are escaped; line ends and tabs are kept."""
    assert shown == visible(text)


@pytest.mark.parametrize("text", ["می‌خواهم", "க்‍ஷ", "篮子", "‏حمراء‎", "👩‍🚀"])
def test_joiners_and_direction_marks_are_kept(text: str) -> None:
    """Joiners and direction marks that Persian, Tamil, Arabic and emoji need are kept."""
    assert text == visible(text)


def test_a_line_is_cut_with_a_mark() -> None:
    """A long text is cut to the requested length and ends in an ellipsis."""
    assert one_line("a\n b") == "a b"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    "text",
    ["</script><script>alert(1)</script>", "<!-- <script>", "]]>", "a\u2028b\u2029c", "&lt;", "{{ 7 * 7 }}"],
)
def test_data_in_a_script_element_is_only_data(text: str) -> None:
    """No text can close the element, open a comment or end a line, and the data reads back unchanged."""
    written = pack([text])
    assert written.isascii()
    assert written.rstrip("=").replace("+", "").replace("/", "").isalnum()
    assert unpacked(written) == [text]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a\\|b"),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("![i](u)", "\\!\\[i\\](u)"),
        ("`code` *b* _i_ ~~s~~", "\\`code\\` \\*b\\* \\_i\\_ \\~\\~s\\~\\~"),
        ("https://a.b www.c.d :smile:", "https\\://a.b www\\.c.d \\:smile:"),
        ("# h", "\\# h"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("$x$ @user", "\\$x\\$ \\@user"),
        ("a: b, k = 4 (c)", "a: b, k = 4 (c)"),
        ("one\ntwo", "one two"),
    ],
)
def test_markdown_is_escaped(text: str, written: str) -> None:
    """Formatting, links, images, HTML, tables and mentions are escaped; plain prose is unchanged."""
    assert written == plain(text)


@pytest.mark.parametrize("text", ["`", "a``b", "``` x ```", "plain", " padded", "a|b", "<b>"])
def test_a_code_span_holds_any_text(text: str) -> None:
    """The fence is longer than any run of backticks inside, and a vertical bar does not end the cell."""
    span = code(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    inner = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    assert fence not in inner
    assert html.unescape(inner.replace("\\|", "|")).strip() == " ".join(text.split())
    assert code("") == ""


def report(*pages: Page) -> Report:
    """Return a report with one section of these pages."""
    return Report("t", None, (), (), (), (), (Section((), pages, "k", "T"),), (), ItemData("", (), {}))


def paths(*names: str, most: int = 9) -> list[str | None]:
    pages = linked_pages("box", "x:y", [(name, name, None) for name in names], most)
    return [page.path if page else None for page in pages]


def test_pages_link_to_their_neighbours() -> None:
    """The first page has none before it, and the last one none after it."""
    first, middle, last = linked_pages("box", "x:y", [(n, n.upper(), None) for n in "abc"])
    assert first is not None
    assert middle is not None
    assert last is not None
    assert (first.before, first.after) == ("", "b.html")
    assert (middle.before, middle.after, middle.title) == ("a.html", "c.html", "B")
    assert (last.before, last.after) == ("b.html", "")


def test_pages_have_different_safe_files() -> None:
    """Names that are equal on some file systems get different files, also if one has the other's number."""
    assert paths("a", "A", "a-2", "../a", "ü") == [
        "box/a.html", "box/A-2.html", "box/a-2-2.html", "box/_a.html", "box/_.html",
    ]  # fmt: skip


def test_pages_after_the_limit_are_left_out() -> None:
    """They are None, and the last page has no link to them."""
    assert paths("a", "b", "c", most=2) == ["box/a.html", "box/b.html", None]
    pages = linked_pages("box", "x:y", [(n, n, None) for n in "abc"], 2)
    assert pages[1]
    assert pages[1].after == ""


def test_another_package_has_a_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark from outside brings its own template; its content is escaped, and links lead to the neighbours."""
    package = tmp_path / "box_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "page.html.jinja").write_text(
        '{% extends "beside.html.jinja" %}{% block main %}<p>{{ content }}</p>{% endblock %}',
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    page = Page("box/a.html", "A", "box_package:page.html.jinja", "<b>\x1b", after="b.html")
    text = pages_html(report(page))["box/a.html"].decode()
    assert "<p>&lt;b&gt;␛</p>" in text
    assert 'href="b.html" rel="next"' in text
    assert 'rel="prev"' not in text
    assert 'href="../report.html#1-section"' in text


@pytest.mark.parametrize("template", ["none.html.jinja", "no_such_package:a", "box:../../etc/passwd"])
def test_missing_template_is_named(template: str) -> None:
    """A template that does not exist is an error with its name."""
    with pytest.raises(Exception, match=template.split("/")[0]):
        pages_html(report(Page("box/a.html", "A", template, None)))


def test_words_of_outcomes() -> None:
    """A status has a sign and a word; an unknown one is a question."""
    assert [outcome_label(s) for s in ("correct", "error", "odd")] == ["✓ right", "! error", "? odd"]


def test_cut_text_says_what_is_missing() -> None:
    """A text at the limit is whole; a longer one has the number of further characters."""
    assert cut_text("abc", 3) == "abc"
    assert cut_text("abcde", 3) == "abc… (2 more characters)"


ROWS = [
    ForestRow("rhyme", (Point(0, 0.75, 0.6, 0.9), Point(1, 0.25, 0.1, 0.4)), (Mark("GPT 4o", 0.68),), 0.5),
    ForestRow("uppercase", (Point(0, 0.5, 0.4, 0.6),)),
]


def test_a_plot_is_text_and_numbers() -> None:
    """Tasks, values, models and the best published figure are searchable text in the SVG."""
    svg, png = draw(lambda: forest(ROWS, {0: "one", 1: "two"}))
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    for text in (
        "rhyme",
        "uppercase",
        "75.0",
        "25.0",
        "50.0",
        "one",
        "two",
        "GPT 4o 68.0",
        "guessing",
        "published",
    ):
        assert text in texts
    assert png.startswith(b"\x89PNG")


def test_legend_names_only_drawn_series() -> None:
    svg, _ = draw(lambda: forest([ROWS[1]], {0: "one"}))
    assert "published" not in svg
    assert "guessing" not in svg


def test_inline_plot_uses_the_colours_of_the_page() -> None:
    """Every colour of the plot becomes a CSS variable, and the ids of two plots never clash."""
    svg, _ = draw(lambda: forest(ROWS, {0: "one", 1: "two"}))
    markup = inline(svg, "name")
    assert not [shade for shade in (*INK, *SERIES) if shade in markup]
    assert "var(--s0)" in markup
    assert "var(--s1)" in markup
    assert "var(--ink)" in markup
    assert all(name.startswith("name-") for name in re.findall(r'\bid="([^"]+)"', markup))
    assert markup.startswith("<svg")
    assert "<style" not in markup
    targets = set(re.findall(r"#(name-[\w-]+)", markup))
    assert targets <= set(re.findall(r'\bid="([^"]+)"', markup))


def _contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2 (1.4.3)."""

    def luminance(shade: str) -> float:
        parts = [int(shade[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _themes() -> list[dict[str, str]]:
    """Return the colours of the page by name: light, dark by the system, dark, and print."""
    from pytest_llmprops.reports.page.html import ASSETS

    style = (ASSETS / "page.css").read_text(encoding="utf-8")
    return [
        dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"{([^{}]*--paper:[^{}]*)}", style)
    ]


def test_colours_have_enough_contrast() -> None:
    """In both themes text and marks have a contrast of at least 4.5 to 1 with both backgrounds."""
    themes = _themes()
    assert len(themes) == 4
    assert themes[1] == themes[2]
    assert themes[0] == themes[3]
    assert [themes[0][f"--s{n}"] for n in range(len(SERIES))] == list(SERIES)
    texts = ("ink", "muted", "accent", "good", "bad", "odd", "unclear")
    names = [*(f"--{name}" for name in texts), *(f"--s{n}" for n in range(6))]
    for theme, name, ground in itertools.product(themes, names, ("--paper", "--raised")):
        assert _contrast(theme[name], theme[ground]) >= 4.5, (name, theme[name], ground)


def test_colours_of_the_heat_map_differ_in_lightness() -> None:
    """Right and not right differ by 3 to 1 from each other and from the page (WCAG 2.2, 1.4.11)."""
    for theme in _themes():
        for one, other in itertools.combinations(("--right", "--not-right", "--paper"), 2):
            assert _contrast(theme[one], theme[other]) >= 3, (one, other)


def test_series_differ_in_shape() -> None:
    """Six series have six colours and six shapes; further series reuse a colour with another shape."""
    assert len({colour(n) for n in range(6)}) == len({marker(n) for n in range(6)}) == 6
    assert len({(colour(n), marker(n)) for n in range(24)}) == 24


@pytest.mark.parametrize("many", [2, 6, 10])
def test_labels_do_not_overlap(many: int) -> None:
    """Labels of nearby points cover neither each other nor a mark, as long as there is room."""
    spots = [
        Spot(f"model {n}", Point(-1, 0.5 + n / 90, 0, 0), Point(-1, 0.4 + n / 70, 0, 0.8))
        for n in range(many)
    ]
    figure = scatter(spots, "across", "up", (0.5, 0.25))
    figure.draw_without_rendering()
    [axes] = figure.axes
    names = [text for text in axes.texts if text.get_text().startswith("model")]
    boxes = [text.get_window_extent() for text in names]
    assert len(boxes) == many
    assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    marks = axes.transData.transform([(spot.x.value, spot.y.value) for spot in spots])
    assert not [
        (name, mark) for name, box in zip(names, boxes, strict=True) for mark in marks if box.contains(*mark)
    ]


def test_every_point_of_a_scatter_plot_is_named() -> None:
    """The plot names both the measured and the published models."""
    spots = [Spot("mine", Point(0, 0.6, 0.5, 0.7), Point(0, 0.3, 0.2, 0.4), 0),
             Spot("theirs", Point(-1, 0.5, 0.5, 0.5), Point(-1, 0.4, 0.4, 0.4))]  # fmt: skip
    svg, _ = draw(lambda: scatter(spots, "across", "up", (0.5, 0.25)))
    for text in ("mine", "theirs", "across", "up", "guessing"):
        assert f">{text}</text>" in svg
