"""The report's page in headless Chromium, opened from disk as a user opens it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.reports.page.build import write_report
from tests.support.browser import (
    Open,
    accessibility_problems,
    cut_off,
    listed,
    unfold,
    visits,
    wait_for_storage,
    without_png,
)
from tests.support.records import exchange, recorded, verdict, verdicts

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)></script>]]>--> "
    "{{constructor.constructor('alert(4)')()}} ${alert(5)} \x1b[31mred \u202egnp.exe javascript:alert(6)"
)
REPLIES = {
    "zh": "“蓝子”应当是“篮子”，即用竹子编成的容器。",
    "ta": "சரியான சொல் ‘பள்ளி’. அவன் பள்ளியில் படித்தான்.",
    "ar": "الكلمة الصحيحة هي «حمراء»، أي ذات اللون الأحمر.",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages under test: one run with all features, and five suites of two and of four models."""
    folder = tmp_path_factory.mktemp("report")
    status: dict[int, RecordStatus] = {3: "wrong", 4: "refused", 5: "error"}
    records = [
        verdict("add", n, status.get(n, "correct"), requests=[f"k{n}"], values={"digits": n})
        for n in range(8)
    ]
    records += verdicts("take", 70, 30)
    records += [
        verdict("asked", 0, "wrong", benchmark="homophones", language=code, given=text, requests=[code])
        for code, text in REPLIES.items()
    ]
    texts = dict.fromkeys(("given", "expected", "reason"), HOSTILE)
    records.append(verdict("asked", 1, "wrong", benchmark="homophones", requests=["x"], **texts))
    requests = [exchange(f"k{n}", f"What is {n} + 1?", f"The sum of {n} and one") for n in range(8)]
    requests += [exchange(code, "what is meant?", text) for code, text in REPLIES.items()]
    thought = {"text": HOSTILE, "reasoning": f"So {HOSTILE}"}
    requests.append(exchange("x", HOSTILE, "", reply=thought))
    one = recorded(folder / "one", records, requests=requests)
    suites = [(f"task {n}", f"suite {n // 10}") for n in range(50)]
    five = [
        recorded(
            folder / f"{m}-five",
            [v for task, suite in suites for v in verdicts(task, n, 20 - n, benchmark=suite, model=m)],
        )
        for m, n in (("old", 16), ("new", 14), ("third", 12), ("fourth", 18))
    ]
    gate = folder / "gate.toml"
    gate.write_text("".join(f'[[rule]]\nbenchmark = "suite {n}"\nmax_drop = 0.05\n' for n in range(5)))
    with without_png():
        return {
            "one": write_report([one], folder / "page-one")[0],
            "five": write_report(five[:2], folder / "page-five", five[0], gate)[0],
            "four models": write_report(five, folder / "page-models", five[0], gate)[0],
        }


@pytest.fixture
def show(browser_page: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Open one of the pages."""
    addresses = {name: path.as_uri() for name, path in pages.items()}
    with visits(browser_page, *addresses.values()) as go:
        yield lambda name="one": go(addresses[name])


def count(page: Any, text: str) -> None:
    """Wait until the list shows this number of matching items."""
    page.locator("#count").filter(has_text=re.compile(f"^{re.escape(text)} items$")).wait_for()


def picker(page: Any, name: str) -> Any:
    """Return one of the list's filters."""
    return page.locator("#filters").get_by_label(name)


def test_the_finding_is_the_heading(show: Open) -> None:
    """The only main heading is the finding, and every part of the page is in a landmark."""
    page = show()
    assert page.locator("h1").inner_text().startswith("model answers ")
    for role, name in (("banner", None), ("main", None), ("navigation", "Sections"), ("search", "Items")):
        assert page.get_by_role(role, **({"name": name} if name else {})).count() == 1
    for link in page.get_by_role("navigation", name="Sections").get_by_role("link").all():
        assert page.locator(f"[id='{link.get_attribute('href')[1:]}']").count() == 1


def test_five_suites_are_a_few_screens(show: Open, browser_page: Any) -> None:
    """The decision, or the table of several models, is on the first of at most 12 screens; 8 sheets are printed."""
    browser_page.set_viewport_size({"width": 1440, "height": 900})
    for name, first in (("five", "Decision"), ("four models", "Models, table")):
        page = show(name)
        box = page.get_by_role("region", name=first).bounding_box()
        assert box["y"] + box["height"] <= 900
        assert page.evaluate("() => document.documentElement.scrollHeight") <= 12 * 900
        assert page.pdf(format="A4").count(b"/Type /Page\n") <= 8


def test_a_table_is_sorted_by_click_and_by_key(show: Open) -> None:
    """A heading sorts by number in both directions; the state is announced, other headings are reset."""
    page = show()
    unfold(page)
    table = page.get_by_role("region", name="Results, table").filter(has_text="take")
    heading = table.get_by_role("columnheader", name="Accuracy")

    def column() -> list[float]:
        cells = table.locator("tbody tr td:nth-child(5)")
        return [float(cell.get_attribute("data-v")) for cell in cells.all()]

    before = column()
    assert before != sorted(before)
    heading.get_by_role("button").click()
    assert (heading.get_attribute("aria-sort"), column()) == ("ascending", sorted(before))
    heading.get_by_role("button").press("Enter")
    assert (heading.get_attribute("aria-sort"), column()) == ("descending", sorted(before, reverse=True))
    table.get_by_role("columnheader", name="Language").get_by_role("button").press("Space")
    assert heading.get_attribute("aria-sort") == "none"


def test_search_and_filters_narrow_the_list(show: Open) -> None:
    """Typing narrows the list to items whose id, prompt, reply or answer has the text; filters combine.

    One button clears all filters.
    """
    page = show()
    count(page, "112 of 112")
    search = page.get_by_label("Search")
    for text, item in (
        ("SUM OF 3", "sums/en/add/0003"),
        ("what is 4 +", "sums/en/add/0004"),
        ("竹子", "homophones/zh/asked/0000"),
    ):
        search.fill(text)
        page.get_by_role("button", name=item).wait_for()
        count(page, "1 of 112")
        assert listed(page) == [item]
    search.fill("nowhere")
    count(page, "0 of 112")
    search.fill("")
    page.get_by_role("button", name=re.compile("wrong")).and_(page.locator(".chip")).click()
    count(page, "35 of 112")
    picker(page, "Benchmark").select_option("homophones")
    count(page, "4 of 112")
    picker(page, "Language").select_option("ta")
    count(page, "1 of 112")
    assert page.locator(".chip.wrong b").inner_text() == "1"
    page.get_by_role("button", name="Show all").click()
    count(page, "112 of 112")
    assert page.locator(".chip[aria-pressed='true']").count() == 0
    picker(page, "Task").select_option("take")
    count(page, "100 of 112")


def test_failures_come_first_on_pages_of_fifteen(show: Open) -> None:
    """Errors come before wrong answers and wrong before correct ones; each heading sorts the whole list."""
    page = show()
    assert page.locator("#list .mark").first.inner_text() == "! error"
    assert len(listed(page)) == 15
    assert page.get_by_role("button", name="Previous").is_disabled()
    for _ in range(7):
        page.get_by_role("button", name="Next").click()
    assert (len(listed(page)), page.locator("#page").inner_text()) == (7, "Page 8 of 8")
    assert page.get_by_role("button", name="Next").is_disabled()
    heading = page.locator("#list").get_by_role("columnheader", name="Item")
    for first in ("homophones/ar", "sums/en/take/0099"):
        heading.get_by_role("button").press("Enter")
        assert listed(page)[0].startswith(first)


def test_reply_is_shown_as_text(show: Open) -> None:
    """Markup, handlers, templates, escapes and overrides are plain characters; thoughts open with a click."""
    page = show()
    before = page.evaluate("() => document.querySelectorAll('script, img, svg, iframe').length")
    page.get_by_label("Search").fill("onerror")
    count(page, "1 of 112")
    page.locator("#list .open").click()
    assert page.evaluate("() => document.querySelectorAll('script, img, svg, iframe').length") == before
    shown = page.locator("#item").inner_text()
    for part in (
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        "]]>-->",
        "{{constructor",
        "${alert(5)}",
    ):
        assert shown.count(part) >= 3, part
    assert "␛[31mred [U+202E]gnp.exe" in shown
    assert not set("\x1b\u202e") & set(page.content())
    assert page.locator("a[href^='javascript']").count() == 0
    thoughts = page.locator("#item details.thoughts")
    assert thoughts.locator("summary").inner_text() == f"Thoughts ({len(HOSTILE) + 3} characters)"
    assert not thoughts.locator("pre").is_visible()
    assert "So <script>" not in shown
    thoughts.locator("summary").click()
    assert thoughts.locator("pre").inner_text().startswith("So <script>alert(1)</script><img")
    assert not page.locator("#item .reply pre").inner_text().startswith("So")


def test_replies_are_readable_in_their_script(show: Open) -> None:
    """Chinese, Tamil and Arabic are shown whole, with enough line height, Arabic right to left."""
    page = show()
    for language, text in REPLIES.items():
        picker(page, "Language").select_option(language)
        count(page, "1 of 112")
        page.locator("#list .open").click()
        reply = page.locator("#item .reply pre")
        assert reply.inner_text() == text
        style = reply.evaluate("(e) => ({ ...getComputedStyle(e) })")
        size, line = (float(style[name].removesuffix("px")) for name in ("fontSize", "lineHeight"))
        assert (style["direction"], style["textAlign"]) == ("rtl" if language == "ar" else "ltr", "start")
        assert line >= 1.6 * size >= 1.6 * 15


def _luminance(page: Any, selector: str, name: str) -> float:
    colour = page.locator(selector).first.evaluate(f"(e) => getComputedStyle(e)['{name}']")
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3])


def test_the_theme_follows_the_system_and_the_button(show: Open, browser_page: Any) -> None:
    """Page and plots follow the system theme; the button switches both, which is remembered; paper is white."""

    def is_dark(page: Any) -> bool:
        is_dark = _luminance(page, "body", "backgroundColor") < 200
        assert is_dark == (_luminance(page, "body", "color") > 500)
        assert is_dark == (_luminance(page, ".plot text", "fill") > 400)
        assert page.locator("#theme").get_attribute("aria-pressed") == str(is_dark).lower()
        return is_dark

    browser_page.emulate_media(color_scheme="light")
    assert not is_dark(show())
    browser_page.emulate_media(color_scheme="dark")
    page = show()
    assert is_dark(page)
    button = page.get_by_role("button", name="Dark colours")
    button.press("Enter")
    assert not is_dark(page)
    wait_for_storage(page)
    page = show()
    assert not is_dark(page)
    button.click()
    assert is_dark(page)
    page.emulate_media(media="print")
    assert _luminance(page, "body", "color") < 200
    assert not page.locator("#filters").is_visible()


def test_a_phone_never_scrolls_sideways(show: Open, browser_page: Any) -> None:
    """At 375 pixels the page fits the window, even with opened items; filters are folded, and no table is cut."""
    browser_page.set_viewport_size({"width": 375, "height": 800})
    page = show()
    assert not page.get_by_label("Search").is_visible()
    unfold(page)
    page.locator("#list .open").first.click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    assert cut_off(page, ".scroll, .tabs, nav") == []
    given_cell = page.locator("#list tbody .given").first.bounding_box()
    assert given_cell["x"] + given_cell["width"] > 300


def test_everything_is_reached_by_keyboard(show: Open) -> None:
    """The first tab stop skips to the findings, the focus is always visible, and axe finds nothing when all is open."""
    page = show()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the findings"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    page.get_by_role("button", name="Dark colours").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('button, input, select')].filter((e) => !e.textContent.trim() "
        "&& !e.labels?.length && !e.ariaLabel).length"
    )
    assert unnamed == 0
    page.locator("#list .open").first.click()
    unfold(page)
    assert accessibility_problems(page, ("light",)) == []
