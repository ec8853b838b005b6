"""The report's DTAiLS section and its concept pages in headless Chromium, opened from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.reports.page.build import write_report
from tests.support.browser import accessibility_problems
from tests.support.dtails_runs import items, knows, measure, takes, with_rules

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31mred \u202egnp.exe"
DATE = items("date", ("خرما", "رطب", "خارک"), ["خرما", "رطب", "خرما"], language="fa")
KNOW = items(
    "know", ("weet", "ken", "a-very-long-variation-" * 4), ["weet", "ken"], tasks=("select", "translate")
)
PERSIAN = "این یک جملهٔ فارسی است."

Open = Callable[[], Any]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a run with own rules and a run without rules, in two languages."""
    folder = tmp_path_factory.mktemp("dtails")
    asked = DATE + KNOW
    models = {
        "good": with_rules(knows(asked), f"{HOSTILE} {PERSIAN} {{}}"),
        "a-model-with-a-very-long-name-" * 3: with_rules(takes(1)),
    }
    runs = [measure(folder / rules, asked, models, rules=rules, runs=3) for rules in ("none", "self")]
    write_report(runs, folder / "out")
    return folder / "out"


@pytest.fixture
def page(browser_page: Any, out: Path) -> Iterator[Any]:
    """Open the report; afterwards check that only its files were fetched and no script from a text ran."""
    noise: list[str] = []
    browser_page.on("console", lambda message: noise.append(message.text))
    browser_page.goto((out / "report.html").as_uri())
    browser_page.wait_for_selector("[data-ready]", state="attached")
    yield browser_page
    assert {url.split("#")[0] for url in browser_page.requests_seen} <= {
        path.as_uri() for path in [out / "report.html", *(out / "dtails").iterdir()]
    }
    assert (browser_page.errors_seen, browser_page.dialogs_seen, noise) == ([], [], [])


def open_concept(page: Any, name: str) -> None:
    """Unfold the table of concepts and open one, as a reader does."""
    page.locator("summary", has_text="Concept by concept").click()
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_selector(".choices")


def test_links_between_section_and_concept_pages(page: Any, out: Path) -> None:
    """A reader can go from the table to a page, on to the next concept, and back to the section."""
    open_concept(page, "date")
    assert page.url == (out / "dtails" / "fa-date.html").as_uri()
    assert page.locator("h1").inner_text() == "date"
    page.get_by_role("link", name="Next page").click()
    assert page.locator("h1").inner_text() == "know"
    page.get_by_role("link", name="Report: DTAiLS").click()
    page.wait_for_selector("[data-ready]", state="attached")
    assert page.url == (out / "report.html").as_uri() + "#1-section"
    assert page.locator(":target h2").first.inner_text() == "DTAiLS"


def test_the_page_of_a_concept_is_accessible(page: Any) -> None:
    """Axe finds nothing."""
    open_concept(page, "date")
    assert accessibility_problems(page) == []


def test_right_to_left_variations_are_isolated(page: Any) -> None:
    """A Persian variation is isolated from the numbers around it, and the list keeps its order."""
    open_concept(page, "date")
    word = page.locator(".shown .word").first
    assert word.evaluate("e => [getComputedStyle(e).direction, getComputedStyle(e).unicodeBidi, e.lang]") == [
        "rtl", "isolate", "fa"
    ]  # fmt: skip
    first = page.locator(".shown").first.locator("li")
    places = first.evaluate_all("all => all.map(e => e.getBoundingClientRect().left)")
    assert places == sorted(places)
    assert len(places) == 3
    assert (
        page.locator(".sentence .block-title").first.evaluate("e => getComputedStyle(e).direction") == "ltr"
    )


def test_chosen_variation_is_marked(page: Any) -> None:
    """The chosen variation is marked by position, glyph and word as well as by its frame."""
    open_concept(page, "date")
    cell = page.locator(".choices td").first
    took = cell.locator(".took")
    assert took.count() == 1
    assert took.evaluate("e => getComputedStyle(e).borderTopWidth") == "1px"
    position = cell.locator("li").evaluate_all("all => all.findIndex(e => e.className === 'took') + 1")
    assert cell.inner_text().splitlines()[-1] == f"✓ right, position {position}"


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("concept", ["date", "know"])
def test_a_page_fits_its_window(page: Any, width: int, concept: str) -> None:
    """Wide tables scroll on their own, and the page does not scroll sideways in a narrow window."""
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    open_concept(page, concept)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_page_follows_the_colour_scheme(page: Any) -> None:
    """Text and background colours follow the reader's colour scheme."""
    open_concept(page, "date")
    shades = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades == ["rgb(253, 253, 251)", "rgb(20, 23, 27)"]
