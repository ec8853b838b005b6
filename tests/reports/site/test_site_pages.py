"""The page of a site in headless Chromium, opened from disk and from a server under a sub-path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.texts import visible
from pytest_llmprops.reports.site.build import write_site
from tests.support.browser import Open, accessibility_problems, cut_off, served, unfold, visits
from tests.support.team_runs import HOSTILE, team

HEADLINE = "drifting dropped 20 points on Homophones on 21 January"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of the team, with the reports that the leaderboard names."""
    folder = tmp_path_factory.mktemp("team")
    write_site([team(folder / "runs")], folder / "public" / "team" / "site")
    return folder / "public" / "team" / "site"


@pytest.fixture
def show(browser_page: Any, site: Path) -> Iterator[Open]:
    """Open the page from the disk, or from a server."""
    with visits(browser_page, site.as_uri(), "http://127.0.0.1", ready="main") as go:
        yield lambda base="": go(f"{base or site.as_uri()}/index.html")


def test_the_page_at_every_width(show: Open, browser_page: Any) -> None:
    """The page has a title and its landmarks, is accessible and fits in width; hostile texts are text."""
    root = "document.documentElement"
    page = show()
    unfold(page)
    assert page.locator("h1").inner_text() == f"{HEADLINE}."
    assert page.title() == f"{HEADLINE} · llmprops"
    links = page.get_by_role("navigation", name="Sections").get_by_role("link").all_inner_texts()
    assert links == ["Changes", "Homophones", "Decisions", "Runs"]
    assert page.locator("main script, main img").count() == 0
    assert visible(HOSTILE) in page.locator("main").inner_text()
    for width in (1440, 800, 390):
        browser_page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(f"() => {root}.scrollWidth <= {root}.clientWidth")
    assert cut_off(page, ".scroll:not(.plot), nav") == []
    assert not accessibility_problems(page)


def test_the_leaderboard_is_sorted_and_links_to_reports(show: Open, site: Path) -> None:
    """Accuracies are sorted by key; a model leads to its report, also under a sub-path of a server."""
    page = show()
    table = page.locator(".board table").first
    names = [text.split("\n")[0] for text in table.locator("tbody").first.locator("th").all_inner_texts()]
    assert names == ["◆ steady", "■ close", "▲ drifting", "▼ poor*"]
    heading = table.get_by_role("columnheader", name="Accuracy").get_by_role("button")
    heading.focus()
    page.keyboard.press("Enter")
    assert table.locator("tbody").first.locator("th").first.inner_text().startswith("▼ poor*")
    assert "GPT-4" in table.locator("tbody.printed").inner_text()
    with served(site.parent.parent) as address:
        base = f"{address}/team/site"
        show(base).locator(".board").first.get_by_role("link", name="drifting").click()
        page.wait_for_selector("[data-ready=items]", state="attached")
        assert page.url.startswith(f"{base}/runs/drifting-1-")
        page.goto("about:blank")


def test_changes_decisions_and_runs(show: Open) -> None:
    """A change has its day, interval and served models; a decision its reason; every run its accuracy."""
    page = show()
    change = page.locator("#changes li").inner_text()
    said = ("2026-01-21", "worse", "drifting dropped 20 points on Homophones", "95% interval −29.2 to −11.2")
    for part in (*said, "since drifting-0 of 2026-01-11", "served as drifting-0613 → drifting-1106"):
        assert part in change
    assert (
        "steady is 12.0 points worse on homophones (margin 5)" in page.locator("#decisions li").inner_text()
    )
    row = page.locator("#runs tr", has_text="smoke")
    cells = [text.strip() for text in row.locator("td").all_inner_texts()]
    assert cells[:2] == ["2026-02-04", "steady Homophones 100.0% (47.8 to 100.0)"]
    assert page.get_by_role("img", name="Homophones, accuracy by date: 11 runs of 5 models").count() == 1
