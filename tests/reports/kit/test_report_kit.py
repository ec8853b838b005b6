"""The parts of a report: texts that are shown but not rendered, and plots."""

from __future__ import annotations

import html
import itertools
import re

from pytest_llmprops.core.texts import one_line, visible
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
from pytest_llmprops.reports.page.items import pack
from pytest_llmprops.reports.page.markdown import code
from pytest_llmprops.reports.tables import plain
from tests.support.report_items import unpacked


def test_control_characters_are_spelled_out() -> None:
    """What controls a terminal or reorders a line is escaped; line ends, tabs, joiners and direction marks are kept."""
    for text, shown in {
        "\x1b[31mred": "␛[31mred",
        "\x00\x7f\x9b": "␀␡[U+009B]",
        "\u202egnp.exe": "[U+202E]gnp.exe",
        "\u2066x\u2069": "[U+2066]x[U+2069]",
        "a\u2028b\ufeff": "a[U+2028]b[U+FEFF]",
        "\ud800": "[U+D800]",
        "one\r\ntwo\tthree": "one\ntwo\tthree",
        "one\rtwo": "one␍two",
    }.items():
        assert shown == visible(text)
    for text in ("می\u200cخواهم", "க்\u200dஷ", "篮子", "\u200fحمراء\u200e", "👩\u200d🚀"):
        assert text == visible(text)
    # A long text is cut with a mark.
    assert one_line("a\n b") == "a b"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_data_in_a_script_element_is_only_data() -> None:
    """No text can close the element, open a comment or end a line, and the data reads back unchanged."""
    for text in ("</script><script>alert(1)</script>", "<!-- <script>", "]]>", "a\u2028b\u2029c", "&lt;"):
        written = pack([text])
        assert re.fullmatch("[A-Za-z0-9+/]+=*", written)
        assert unpacked(written) == [text]


def test_markdown_is_escaped() -> None:
    """Formatting, links, images, HTML, tables and mentions are escaped; plain prose is unchanged."""
    for text, written in {
        "a|b": "a\\|b",
        "<img src=x>": "&lt;img src=x&gt;",
        "![i](u)": "\\!\\[i\\](u)",
        "`code` *b* _i_ ~~s~~": "\\`code\\` \\*b\\* \\_i\\_ \\~\\~s\\~\\~",
        "https://a.b www.c.d :smile:": "https\\://a.b www\\.c.d \\:smile:",
        "# h": "\\# h",
        "- item": "\\- item",
        "1. item": "1\\. item",
        "$x$ @user": "\\$x\\$ \\@user",
        "a: b, k = 4 (c)": "a: b, k = 4 (c)",
        "one\ntwo": "one two",
    }.items():
        assert written == plain(text)


def test_a_code_span_holds_any_text() -> None:
    """The fence is longer than any run of backticks inside, and a vertical bar does not end the cell."""
    for text in ("`", "a``b", "``` x ```", "plain", " padded", "a|b", "<b>"):
        span = code(text)
        fence = span[: len(span) - len(span.lstrip("`"))]
        inner = span[len(fence) : -len(fence)]
        assert span.endswith(fence)
        assert fence not in inner
        assert html.unescape(inner.replace("\\|", "|")).strip() == " ".join(text.split())
    assert code("") == ""


ROWS = [
    ForestRow("rhyme", (Point(0, 0.75, 0.6, 0.9), Point(1, 0.25, 0.1, 0.4)), (Mark("GPT 4o", 0.68),), 0.5),
    ForestRow("uppercase", (Point(0, 0.5, 0.4, 0.6),)),
]


def test_a_plot_is_text_and_numbers() -> None:
    """Tasks, values, models and the best published figure are searchable text in the SVG.

    On a page, every colour becomes a CSS variable, and the ids of two plots never clash.
    """
    svg, png = draw(lambda: forest(ROWS, {0: "one", 1: "two"}))
    shown = {
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
    }
    assert shown <= set(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert png.startswith(b"\x89PNG")
    markup = inline(svg, "name")
    assert not [shade for shade in (*INK, *SERIES) if shade in markup]
    assert not [name for name in ("s0", "s1", "ink") if f"var(--{name})" not in markup]
    ids = re.findall(r'\bid="([^"]+)"', markup)
    assert all(name.startswith("name-") for name in ids)
    assert set(re.findall(r"#(name-[\w-]+)", markup)) <= set(ids)
    assert markup.startswith("<svg")
    assert "<style" not in markup
    svg, _ = draw(lambda: forest([ROWS[1]], {0: "one"}))
    assert not [text for text in ("published", "guessing") if text in svg]


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
    """In both themes text and marks have a contrast of at least 4.5 to 1 with both backgrounds.

    In the heat map, right and not right differ by 3 to 1 from each other and from the page (WCAG 2.2, 1.4.11).
    """
    themes = _themes()
    assert [themes[n] for n in (0, 1)] == [themes[n] for n in (3, 2)]
    assert (len(themes), [themes[0][f"--s{n}"] for n in range(len(SERIES))]) == (4, list(SERIES))
    texts = ("ink", "muted", "accent", "good", "bad", "odd", "unclear", *(f"s{n}" for n in range(6)))
    readable = [(f"--{name}", ground, 4.5) for name in texts for ground in ("--paper", "--raised")]
    distinct = [(*pair, 3.0) for pair in itertools.combinations(("--right", "--not-right", "--paper"), 2)]
    for theme, (one, other, least) in itertools.product(themes, [*readable, *distinct]):
        assert _contrast(theme[one], theme[other]) >= least, (one, theme[one], other)


def test_series_differ_in_shape() -> None:
    """Six series have six colours and six shapes; further series reuse a colour with another shape."""
    assert len({colour(n) for n in range(6)}) == len({marker(n) for n in range(6)}) == 6
    assert len({(colour(n), marker(n)) for n in range(24)}) == 24


def test_labels_do_not_overlap() -> None:
    """Labels of nearby points cover neither each other nor a mark, as long as there is room; every point has one."""
    spots = [
        Spot(f"model {n}", Point(-1, 0.5 + n / 90, 0, 0), Point(-1, 0.4 + n / 70, 0, 0.8)) for n in range(10)
    ]
    spots.append(Spot("model mine", Point(0, 0.9, 0.8, 0.95), Point(0, 0.3, 0.2, 0.4), 0))
    figure = scatter(spots, "across", "up", (0.5, 0.25))
    figure.draw_without_rendering()
    [axes] = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text().startswith("model")]
    assert len(boxes) == len(spots)
    assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    marks = axes.transData.transform([(spot.x.value, spot.y.value) for spot in spots])
    assert not [mark for box in boxes for mark in marks if box.contains(*mark)]
    svg, _ = draw(lambda: scatter(spots, "across", "up", (0.5, 0.25)))
    assert not [text for text in ("model mine", "across", "up", "guessing") if f">{text}</text>" not in svg]
