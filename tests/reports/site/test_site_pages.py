"""The pages of a site in headless Chromium, opened from disk and from a server under a sub-path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.texts import visible
from pytest_llmprops.reports.site.build import write_site
from tests.support.browser import accessibility_problems, low_contrasts, served
from tests.support.team_runs import HOSTILE, team

Open = Callable[..., Any]
PAGES = ("index", "leaderboard", "trends", "items", "drift", "gates", "runs")
#: pages that read data
WITH_DATA = ("trends", "items", "gates")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of the team, with the reports that the leaderboard names."""
    folder = tmp_path_factory.mktemp("team")
    write_site([team(folder / "runs")], folder / "public" / "team" / "site")
    return folder / "public" / "team" / "site"


@pytest.fixture
def show(browser_page: Any, site: Path) -> Iterator[Open]:
    """Open a page; at the end, check that it loaded nothing from elsewhere and ran no script from a record."""
    noise: list[str] = []
    # A test that reads a canvas is told that it is slow.
    browser_page.on("console", lambda m: None if "willReadFrequently" in m.text else noise.append(m.text))

    def go(name: str, address: str = "", base: str = "") -> Any:
        browser_page.goto(f"{base or site.as_uri()}/{name}.html{address}")
        if name in WITH_DATA:
            browser_page.wait_for_selector("[data-ready]", state="attached")
        return browser_page

    yield go
    outside = [
        url for url in browser_page.requests_seen if not url.startswith((site.as_uri(), "http://127.0.0.1"))
    ]
    assert (outside, browser_page.errors_seen, browser_page.dialogs_seen, noise) == ([], [], [], [])


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (800, "light"), (1440, "dark")])
def test_every_page_at_every_width(width: int, scheme: Any, show: Open, browser_page: Any) -> None:
    """A page has a title, its landmarks and no scrolling to the side; hostile texts are text."""
    browser_page.set_viewport_size({"width": width, "height": 900})
    browser_page.emulate_media(color_scheme=scheme)
    root = "document.documentElement"
    for name in PAGES:
        page = show(name)
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.locator("h1").count() == 1
        assert page.get_by_role("navigation", name="Pages").get_by_role("link").count() == len(PAGES)
        assert page.locator("[aria-current=page]").get_attribute("href") == f"{name}.html"
        assert page.evaluate(f"() => {root}.scrollWidth <= {root}.clientWidth"), name
        assert page.locator("main script, main img").count() == 0
        if name in ("leaderboard", "runs", "trends"):
            assert visible(HOSTILE) in page.locator("main").inner_text()


def test_every_page_is_accessible(show: Open) -> None:
    """Axe finds nothing, in both themes."""
    assert {name: found for name in PAGES if (found := accessibility_problems(show(name)))} == {}


def test_texts_have_enough_contrast(show: Open, browser_page: Any) -> None:
    """The colours of the site's own marks have a contrast of 4.5 to the page in both themes."""
    marks = ".decision, .change-worse, .change-better, .standing, .printed td, .mark, .note"
    for scheme in ("light", "dark"):
        browser_page.emulate_media(color_scheme=scheme)
        for name in ("index", "leaderboard", "drift", "gates"):
            assert not low_contrasts(show(name), marks), (name, scheme)


def test_the_leaderboard_is_sorted_and_links_to_reports(show: Open) -> None:
    """Accuracies are sorted by key and by click, and a model leads to its report."""
    page = show("leaderboard")
    table = page.locator(".board table").first
    names = [text.split("\n")[0] for text in table.locator("tbody").first.locator("th").all_inner_texts()]
    assert names == ["◆ steady", "■ close", "▲ drifting", "▼ poor*"]
    heading = table.get_by_role("columnheader", name="Accuracy").get_by_role("button")
    heading.focus()
    page.keyboard.press("Enter")
    assert table.locator("tbody").first.locator("th").first.inner_text().startswith("▼ poor*")
    assert "GPT-4" in table.locator("tbody.printed").inner_text()
    table.get_by_role("link", name="drifting").click()
    page.wait_for_selector("[data-ready=items]", state="attached")
    assert "/runs/drifting-1-" in page.url


def test_the_numbers_of_a_trend(show: Open) -> None:
    """A figure has its numbers below, newest first, with a link to a run that has a report."""
    page = show("trends")
    assert page.get_by_role(
        "img", name="Homophones, accuracy by date: 11 runs of 5 models from 2026-01-01"
    ).count()
    numbers = page.locator("details.numbers").first
    numbers.locator("summary").focus()
    page.keyboard.press("Enter")
    rows = numbers.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == 11
    assert rows.nth(1).inner_text().split("\t") == [
        "2026-02-04", "steady", "100.0% (47.8 to 100.0)", "5", "smoke",
    ]  # fmt: skip
    assert rows.nth(1).get_by_role("link").get_attribute("href").endswith("/report.html")


def test_an_items_history_leads_to_the_reply(show: Open) -> None:
    """An opened item lists its runs by model; a run with a report leads to the reply to this item."""
    page = show("items")
    count = page.locator("#count")
    assert count.inner_text() == "240 of 240 items, 11 results each"
    opener = page.locator("#list .open").first
    opener.focus()
    page.keyboard.press("Enter")
    page.locator("#list .inside").wait_for()
    rows = page.locator("#list .inside tbody tr")
    cells = [row.inner_text().split("\t") for row in rows.all()]
    assert [row[:3] for row in cells if row[0] == "drifting"] == [
        ["drifting", "2026-01-21", "✗ wrong"],
        ["drifting", "2026-01-11", "✓ correct"],
    ]
    assert {row[4] for row in cells if row[3] == "other-settings"} == {"other (3)"}
    item = opener.inner_text()
    rows.filter(has_text="drifting-1").get_by_role("link").click()
    page.wait_for_selector("[data-ready=items]", state="attached")
    detail = page.locator("#item")
    detail.wait_for()
    assert page.locator("#list .open[aria-current=true]").inner_text() == item
    number = int(item.rpartition("/")[2])
    assert f"Reply to k{number} " in detail.inner_text()


def test_the_state_of_the_list_is_in_the_address(show: Open) -> None:
    """Search, sort, filters and the opened item are in the address; Back undoes a step; the link opens the item."""
    page = show("items")
    page.keyboard.press("/")
    page.keyboard.type("asked/0007")
    page.locator("#count").filter(has_text="2 of 240").wait_for()
    page.get_by_label("Items from").select_option("builtin")
    page.locator("#count").filter(has_text="1 of 240").wait_for()
    page.locator("#list .open").click()
    page.locator("#list .inside").wait_for()
    address = page.evaluate("() => location.hash")
    page.go_back()
    page.locator("#list .inside").wait_for(state="detached")
    page.go_back()
    page.locator("#count").filter(has_text="2 of 240").wait_for()
    page = show("runs")
    page = show("items", address)
    page.locator("#list .inside").wait_for()
    assert page.locator("#search").input_value() == "asked/0007"
    assert page.locator("#list .open").count() == 1


def test_keys_step_through_the_items(show: Open) -> None:
    """j and k open the next and previous item, Escape closes it and keeps the focus."""
    page = show("items")
    openers = page.locator("#list .open")
    names = openers.all_inner_texts()
    for key, opened in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        page.wait_for_function(
            "n => document.querySelectorAll('#list .open')[n].getAttribute('aria-expanded') === 'true'",
            arg=opened,
        )
    page.keyboard.press("Escape")
    page.locator("#list .inside").wait_for(state="detached")
    assert page.evaluate("() => document.activeElement.textContent") == names[1]


def test_the_strip_shows_every_run(show: Open) -> None:
    """The bars of an item differ in height by result, so that they can be told apart without colours."""
    page = show("items", "#items?q=asked%2F0001&source=builtin")
    strip = page.locator("#list canvas").first
    assert strip.get_attribute("aria-label") == "right in 8 of 10 runs, 1 change"
    heights = strip.evaluate("""canvas => {
      const brush = canvas.getContext("2d");
      const scale = canvas.width / canvas.clientWidth;
      const heights = [];
      for (let x = 1; x < canvas.clientWidth; x += 1) {
        const column = brush.getImageData(Math.round(x * scale), 0, 1, canvas.height).data;
        let tall = 0;
        for (let n = 3; n < column.length; n += 4) tall += column[n] > 128;
        if (tall) heights.push(Math.round(tall / scale));
      }
      return [...new Set(heights)].sort((a, b) => a - b);
    }""")
    assert heights == [12, 22]


def test_the_log_shows_the_rules(show: Open) -> None:
    """A decision opens to its rules with reasons; hostile notes are text."""
    page = show("gates")
    row = page.locator("table.gates tbody tr").first
    assert row.locator("td, th").all_inner_texts()[:4] == [
        "2026-01-21", "fail", "drifting\ndrifting-1", "steady-0",
    ]  # fmt: skip
    row.locator("summary").click()
    row.locator("details ul").wait_for()
    text = row.locator("details").inner_text()
    for part in (
        "at most 5 points worse",
        "−12.0 points",
        "✗ failed",
        "at most 19 points worse",
        "gate.toml",
        visible(HOSTILE),
    ):
        assert part in text


def test_drift_is_the_title(show: Open) -> None:
    """The page says which model changed; the table has the conclusion, the items and the served models."""
    page = show("drift")
    title = "drifting changed: 1 of 4 comparisons with earlier runs shows a clear difference."
    assert page.locator("h1").inner_text() == title
    row = page.get_by_role("region", name="Changes of drifting, table").locator("tbody tr").first
    assert row.inner_text().split("\t") == [
        "2026-01-11 → 2026-01-21", "Homophones", "1", "worse", "−20.0 (−29.2 to −11.2)", "20", "0",
        "served as drifting-0613 → drifting-1106",
    ]  # fmt: skip
    # Comparisons without a change are folded.
    folded = page.locator("details", has_text="3 comparisons without a change")
    assert folded.locator("tbody tr").count() == 3
    assert not folded.locator("tbody tr").first.is_visible()


def test_the_site_works_under_a_sub_path(show: Open, site: Path) -> None:
    """All links and data files are relative, so that any sub-path of a server works."""
    with served(site.parent.parent) as address:
        base = f"{address}/team/site"
        page = show("items", base=base)
        assert page.locator("#list .open").count() == 50
        page.get_by_role("link", name="Leaderboard").click()
        page.get_by_role("link", name="drifting").click()
        page.wait_for_selector("[data-ready=items]", state="attached")
        assert page.url.startswith(f"{base}/runs/drifting-1-")
        page.goto("about:blank")


def test_missing_data_is_named(site: Path, browser_page: Any) -> None:
    """If a data file is missing, the page says which one."""
    for path in (site / "data").glob("items-*.js"):
        path.rename(path.with_suffix(".gone"))
    try:
        browser_page.goto(f"{site.as_uri()}/items.html")
        browser_page.locator("#count").filter(has_text="is missing; load the page again").wait_for()
    finally:
        for path in (site / "data").glob("items-*.gone"):
            path.rename(path.with_suffix(".js"))
