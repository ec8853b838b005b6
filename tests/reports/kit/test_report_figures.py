"""Plots: text stays text, colours follow the page and labels do not overlap."""

from __future__ import annotations

import itertools
import re

import pytest

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
