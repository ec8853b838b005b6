"""The annotation page in headless Chromium, as an annotator works through a sheet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.tools.annotation.server import AnnotationPage
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import selection_rows, write_selection
from tests.support.annotation import judging, page_of, read_cells, rows_of, selection

HOSTILE = "<img src=x onerror=alert(1)> <b>bold</b> \x1b[31m \u202egnp.exe {{7*7}}"


SURE = "Absolutely sure"


Open = Callable[[Path], Any]
NEXT = re.compile("^(Next|Finish)$")


@pytest.fixture
def work(browser_page: Any) -> Iterator[Open]:
    """Open a sheet's page; afterwards check that nothing else was requested and no injected script ran."""
    with ExitStack() as stack:
        pages: list[AnnotationPage] = []

        def go(sheet: Path) -> Any:
            pages.append(stack.enter_context(page_of(sheet)))
            browser_page.server = pages[-1]
            browser_page.goto(pages[-1].url)
            browser_page.locator("h1").wait_for()
            return browser_page

        yield go
        own = tuple(page.url for page in pages)
        assert all(url.startswith(own) for url in browser_page.requests_seen)
        assert (browser_page.errors_seen, browser_page.dialogs_seen) == ([], [])


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """A selection sheet with six questions on three concepts."""
    return selection(tmp_path, {f"word{n}": [f"a{n}", f"b{n}", f"c{n}"] for n in range(3)})[0]


def saved(page: Any) -> None:
    """Wait until the page says that everything is saved in the sheet."""
    page.locator("body[data-saved=true]").wait_for()


def choose(page: Any, *answers: str) -> None:
    """Choose answers by their text."""
    for text in answers:
        page.locator("label.choice").filter(has=page.get_by_text(text, exact=True)).locator("input").check()
    saved(page)


def number(page: Any) -> int:
    """Return the number of the question shown."""
    match = re.match(r"Question (\d+) of", page.locator(".kicker").inner_text())
    assert match
    return int(match[1])


def go_to(page: Any, number: int) -> None:
    """Open a question by its address."""
    page.goto(f"{page.server.url}#{number}")
    page.locator(".kicker").get_by_text(f"Question {number} of").wait_for()


def press(page: Any, name: str | re.Pattern[str]) -> None:
    """Press a button by its exact name, or by a pattern."""
    page.get_by_role("button", name=name, exact=isinstance(name, str)).click()


def progress(page: Any, text: str) -> None:
    """Wait until the page says how many questions are answered."""
    page.locator("#count").get_by_text(text, exact=True).wait_for()


def test_one_question_at_a_time(work: Open, sheet: Path) -> None:
    """Figure 4: concept, English text, variations and confidence are shown; answers are saved at once."""
    page = work(sheet)
    first = read_cells(sheet)[0]
    assert page.locator("h1").inner_text() == f"Which is the best translation of {first['concept']} here?"
    assert page.locator("blockquote").inner_text() == first["sentence"]
    shown = page.locator("fieldset").first.locator(".word").all_inner_texts()
    assert shown == [first["option_1"], first["option_2"], first["option_3"]]
    assert page.locator("input:checked").count() == 0
    choose(page, first["option_2"])
    assert (read_cells(sheet)[0]["choice"], read_cells(sheet)[0]["confidence"]) == ("2", "")
    progress(page, "0 of 6 answered")
    choose(page, "Likely but uncertain")
    assert read_cells(sheet)[0]["confidence"] == "Likely but uncertain"
    progress(page, "1 of 6 answered")
    assert page.get_by_role("progressbar").evaluate("(e) => e.value / e.max") == pytest.approx(1 / 6)


def test_annotator_can_go_back_and_change_an_answer(work: Open, sheet: Path) -> None:
    """An annotator can go back by button, list and browser, and change an answer."""
    page = work(sheet)
    lines = read_cells(sheet)
    choose(page, lines[0]["option_1"], SURE)
    press(page, "Next")
    choose(page, lines[1]["option_3"], SURE)
    press(page, "Back")
    assert number(page) == 1
    assert page.locator("input:checked").evaluate_all("(all) => all.map((e) => e.value)") == ["1", SURE]
    choose(page, lines[0]["option_3"])
    assert [line["choice"] for line in read_cells(sheet)[:3]] == ["3", "3", ""]
    page.get_by_text("All questions").click()
    press(page, re.compile("^Question 5, .* open$"))
    assert number(page) == 5
    page.go_back()
    page.locator(".kicker").get_by_text("Question 1 of 6").wait_for()
    assert page.get_by_role("button", name=re.compile("^Question 1, .* answered$")).count() == 1


def test_reopened_page_continues(work: Open, sheet: Path) -> None:
    """A reopened page starts at the first unanswered question; at the end, one button leads to those skipped."""
    page = work(sheet)
    lines = read_cells(sheet)
    for line in lines[:2]:
        choose(page, line["option_1"], SURE)
        press(page, "Next")
    page.reload()
    page.locator("h1").wait_for()
    assert number(page) == 3
    page.goto("about:blank")
    page.goto(page.server.url)
    progress(page, "2 of 6 answered")
    assert number(page) == 3
    for _ in lines[2:]:
        press(page, NEXT)
    assert page.locator("h1").inner_text() == "4 of 6 questions are still open."
    press(page, "Next open question")
    assert number(page) == 3
    for line in lines[2:]:
        choose(page, line["option_2"], SURE)
        press(page, NEXT)
    assert "All questions are answered" in page.locator("h1").inner_text()
    progress(page, "6 of 6 answered")
    assert [line["choice"] for line in read_cells(sheet)] == ["1", "1", "2", "2", "2", "2"]


def test_everything_by_keyboard(work: Open, sheet: Path) -> None:
    """Digits choose, letters rate, Enter continues, arrows move; other layouts use key positions."""
    page = work(sheet)
    for key in ("2", "s", "Enter", "3", "l", "Enter"):
        page.keyboard.press(key)
    saved(page)
    assert number(page) == 3
    page.keyboard.press("ArrowLeft")
    assert number(page) == 2
    page.keyboard.press("ArrowRight")
    event = "([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, code, bubbles: true}))"
    for key, code in (("۱", "Digit1"), ("ن", "KeyN")):
        page.evaluate(event, [key, code])
    saved(page)
    lines = read_cells(sheet)
    assert [line["choice"] for line in lines[:4]] == ["2", "3", "1", ""]
    assert [line["confidence"] for line in lines[:3]] == [SURE, "Likely but uncertain", "No idea"]
    page.keyboard.press("Enter")
    page.locator(".kicker").get_by_text("Question 4 of 6").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    saved(page)
    assert read_cells(sheet)[3]["choice"] == "1"
    focused = page.locator(".choice:has(:focus-visible)")
    assert focused.evaluate("(e) => getComputedStyle(e).outlineStyle") == "solid"


def test_right_to_left_text(work: Open, tmp_path: Path) -> None:
    """Farsi words are laid out right to left with their joiners, and English next to them left to right."""
    rows, source = selection_rows(None, "fa")
    sheet = write_selection(tmp_path, rows, "fa", source)[0]
    page = work(sheet)
    assert "Farsi" in page.title()
    lines = list(enumerate(read_cells(sheet), 1))
    with_joiner = next(n for n, line in lines if "\u200c" in line["option_1"])
    for place, line in [*lines[:3], lines[with_joiner - 1]]:
        go_to(page, place)
        words = page.locator("fieldset").first.locator(".word")
        assert words.first.evaluate("(e) => getComputedStyle(e).direction") == "rtl"
        assert words.first.get_attribute("lang") == "fa"
        assert words.first.text_content().replace(" / ", "/") == line["option_1"]
        assert page.locator("blockquote").evaluate("(e) => getComputedStyle(e).direction") == "ltr"


def test_rules_and_words(work: Open, tmp_path: Path) -> None:
    """Figure 3: the page asks which words are missing, which do not fit, and whether each rule is right."""
    rules = {"sun": {"son": "the star", "خورشید": "خورشید (khorshid) is the star"}}
    (sheet, *_) = judging(tmp_path, rules)
    page = work(sheet)
    first = read_cells(sheet)[0]
    assert "word for sun missing?" in page.locator("h1").inner_text()
    choose(page, "Yes")
    page.get_by_label("If a word is missing").fill("zon =1")
    page.keyboard.press("Enter")
    page.locator("h1").filter(has_text="do not mean").wait_for()
    none, one, two = map(page.get_by_label, ("All of them mean it", first["option_1"], first["option_2"]))
    two.check()
    for box, answer in ((none, "none"), (two, "2"), (one, "1;2")):
        box.check()
        saved(page)
        assert read_cells(sheet)[1]["answer"] == answer
        assert none.is_checked() == (answer == "none")
    one.uncheck()
    saved(page)
    for _ in range(2):
        press(page, "Next")
        if "خورشید" in page.locator("h1").inner_text():
            assert page.locator("blockquote").evaluate("(e) => getComputedStyle(e).direction") == "ltr"
        choose(page, "No")
    assert [line["answer"] for line in read_cells(sheet)] == ["yes", "2", "no", "no"]
    assert read_cells(sheet)[0]["which"] == "zon =1"


def test_a_note_is_saved_when_the_page_is_left(work: Open, tmp_path: Path) -> None:
    """A note typed just before the page is closed is saved in the sheet."""
    (sheet, *_) = judging(tmp_path, {"sun": {"son": "x", "sol": "y"}})
    page = work(sheet)
    page.get_by_label("If a word is missing").press_sequentially("zon")
    page.goto("about:blank")
    for _ in range(50):
        if read_cells(sheet)[0]["which"]:
            break
        page.wait_for_timeout(50)
    assert read_cells(sheet)[0]["which"] == "zon"


def test_markup_is_shown_as_text(work: Open, tmp_path: Path) -> None:
    """Markup in texts is shown as characters, and control characters are shown as marks."""
    rules = {f"sun {HOSTILE}": {f"son {HOSTILE}": f"=rule {HOSTILE}", "sol": "y"}}
    (sheet, *_) = judging(tmp_path, rules)
    page = work(sheet)
    for place in range(1, 5):
        go_to(page, place)
        assert page.locator("img, main b, main script").count() == 0
        text = page.locator("main").inner_text()
        # Variations are lists of forms, which the page separates by spaces.
        assert "<img src=x onerror=alert(1)>" in text
        assert "[U+202E]gnp.exe" in text
        assert "␛[31m" in text
        assert not set("\x1b\u202e") & set(page.content())
    (sentence, *_) = write_selection(tmp_path / "s", rows_of({HOSTILE: ["a", "b"]}), "xx", "builtin")
    page = work(sentence)
    assert "<b>bold</b>" in page.locator("blockquote").inner_text()
    assert page.locator("img, main b").count() == 0


def test_two_tabs_on_one_sheet(work: Open, sheet: Path) -> None:
    """Answers from both tabs are in the sheet, and each tab soon shows the other's."""
    page = work(sheet)
    lines = read_cells(sheet)
    other = page.context.new_page()
    other.goto(page.server.url)
    other.locator("h1").wait_for()
    choose(page, lines[0]["option_2"], SURE)
    progress(other, "1 of 6 answered")
    assert other.locator("input:checked").evaluate_all("(all) => all.map((e) => e.value)") == ["2", SURE]
    other.goto(f"{page.server.url}#2")
    other.locator(".kicker").get_by_text("Question 2 of").wait_for()
    choose(other, lines[1]["option_3"], SURE)
    progress(page, "2 of 6 answered")
    choose(page, lines[0]["option_1"])
    assert [line["choice"] for line in read_cells(sheet)[:3]] == ["1", "3", ""]


def test_a_vanished_sheet(work: Open, sheet: Path) -> None:
    """If the sheet is missing, the page says why, keeps the answers and saves them once it can."""
    page = work(sheet)
    lines = read_cells(sheet)
    away = sheet.rename(sheet.with_name("away.csv"))
    page.get_by_label(lines[0]["option_2"]).check()
    trouble = page.get_by_role("alert")
    trouble.filter(has_text="not saved yet").wait_for()
    assert "No such file" in trouble.inner_text()
    assert "put it back" in trouble.inner_text()
    assert "Not saved yet: 1" in page.locator("#saved").inner_text()
    page.get_by_label(SURE).check()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download a copy").click()
    assert read_cells(Path(download.value.path()))[0]["choice"] == "2"
    away.rename(sheet)
    saved(page)
    assert trouble.is_hidden()
    assert (read_cells(sheet)[0]["choice"], read_cells(sheet)[0]["confidence"]) == ("2", SURE)


def test_page_after_the_program_has_ended(browser_page: Any, sheet: Path) -> None:
    """When the program has stopped, the page says so and disables its inputs."""
    page = browser_page
    with page_of(sheet) as server:
        page.goto(server.url)
        page.locator("h1").wait_for()
    page.get_by_label(read_cells(sheet)[0]["option_2"]).check()
    page.get_by_role("alert").filter(has_text="The program behind this page has stopped").wait_for()
    assert page.locator("main input:enabled").count() == 0
    assert "Not saved yet: 1" in page.locator("#saved").inner_text()


def test_an_answer_typed_in_a_spreadsheet(work: Open, sheet: Path) -> None:
    """An invalid answer is reported next to its question and can be corrected there."""
    text = sheet.read_text(encoding="utf-8").splitlines(keepends=True)
    text[1] = text[1].replace(",,\r\n", ",7,\r\n").replace(",,\n", ",7,\n")
    sheet.write_text("".join(text), encoding="utf-8", newline="")
    page = work(sheet)
    assert "choice is '7'; write 1 to 3" in page.locator("main .note").inner_text()
    choose(page, read_cells(sheet)[0]["option_3"])
    assert read_cells(sheet)[0]["choice"] == "3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_page_in_both_colour_schemes(work: Open, sheet: Path, browser_page: Any, scheme: str) -> None:
    """At 375 pixels nothing scrolls sideways, and text has enough contrast in both colour schemes."""
    browser_page.emulate_media(color_scheme=scheme)
    browser_page.set_viewport_size({"width": 375, "height": 700})
    page = work(sheet)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    style = "(e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    colours = page.locator("body").evaluate(style)
    ground, ink = (sum(map(float, re.findall(r"[\d.]+", colour)[:3])) for colour in colours)
    assert (ground > ink) == (scheme == "light")
    assert abs(ground - ink) > 400


def test_every_control_has_a_name(work: Open, sheet: Path) -> None:
    """Groups, choices, buttons and the question have accessible names; the heading has the focus."""
    page = work(sheet)
    assert page.get_by_role("group", name="Best translation").get_by_role("radio").count() == 3
    assert page.get_by_role("group", name=re.compile("How confident")).get_by_role("radio").count() == 3
    assert page.evaluate("() => document.activeElement.tagName") == "H1"
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('button, input')].filter((e) => !e.textContent.trim()"
        " && !e.labels?.length && !e.ariaLabel).length"
    )
    assert unnamed == 0
