"""From a decision to the replies: the tabs of two runs, addresses, keys and the word diff, in headless Chromium."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.reports.page.build import write_report
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.readings import read_reviews
from tests.support.browser import (
    Open,
    accessibility_problems,
    listed,
    unfold,
    visits,
    wait_for_storage,
    without_png,
)
from tests.support.records import exchange, recorded, verdict

HOSTILE = "<img src=x onerror=alert(1)> </script><script>alert(2)</script> \u202egnp.exe \x1b[31m ${alert(3)}"
OLD_REPLY = "The word is owl , because it rhymes with growl."
NEW_REPLY = "The word is bowl , because it rhymes with growl!"
PRICE = {"price": {"input": 2.0, "output": 10.0, "source": "2026-01-01"}}


def mixed(folder: Path, model: str, seed: int) -> Path:
    """Return a run with repeats, errors, items that the other run lacks, and a price."""
    chosen = random.Random(seed)
    statuses: list[RecordStatus] = ["correct", "wrong", "refused", "error"]
    records = [
        verdict(task, n, chosen.choices(statuses, [6, 3, 1, 2])[0], model=model, sample=sample)
        for task in ("add", "take")
        for n in range(30)
        for sample in range(3)
        if (model, n) not in (("new", 7), ("old", 9))
    ]
    return recorded(folder, records)


def told(folder: Path, model: str) -> Path:
    """Return a run whose replies are read: a flip, a hostile reply, and items that are right or wrong in both."""
    statuses: list[RecordStatus] = ["correct", "wrong", "correct", "refused"]
    reply = OLD_REPLY
    if model == "new":
        statuses, reply = ["wrong", "wrong", "correct", "correct"], NEW_REPLY
    records, requests = [], []
    for n, status in enumerate(statuses):
        hostile = {HOSTILE: 1} if n == 3 else {}
        values = {"digits": n, "is_short": n % 2, **hostile}
        evidence = {"read_by": "last line", "other_reading": HOSTILE}
        more: dict[str, Any] = {"requests": [f"k{n}"], "reason": f"reason {n}", "evidence": evidence}
        records.append(verdict("rhyme", n, status, model=model, values=values, **more))
        replied = {"text": HOSTILE if n == 3 else reply, "reasoning": f"Perhaps {n}: {HOSTILE}"}
        used: dict[str, Any] = {"usage": {"prompt_tokens": 1000, "completion_tokens": 100}, "seconds": 1.25}
        requests.append(exchange(f"k{n}", f"Which word rhymes with {n}?", "", reply=replied, **used))
    options = {"command": ["suites", "--model", model, "-n", "8", "--llm-seed=3"]}
    models = {model: {"spec": model, **PRICE}}
    return recorded(folder, records, requests=requests, models=models, options=options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Return the runs of each page."""
    base = tmp_path_factory.mktemp("upgrade")
    return {
        "mixed": [mixed(base / f"mixed-{m}", m, seed) for seed, m in enumerate(("old", "new", "third"))],
        "told": [told(base / f"told-{m}", m) for m in ("old", "new")],
    }


@pytest.fixture(scope="module")
def pages(folders: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages under test."""
    out = tmp_path_factory.mktemp("pages")
    with without_png():
        return {name: write_report(runs, out / name)[0] for name, runs in folders.items()}


@pytest.fixture
def show(browser_page: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Open a page at an address."""
    addresses = {name: path.as_uri() for name, path in pages.items()}
    with visits(browser_page, *addresses.values()) as go:
        yield lambda name="told", address="": go(addresses[name] + address)


def counts_of(page: Any) -> dict[str, int]:
    """Return the numbers in the tabs."""
    tabs = page.locator("#tabs button").all()
    return {tab.get_attribute("data-tab"): int(tab.locator("b").inner_text()) for tab in tabs}


def compared(runs: list[Path]) -> dict[str, int]:
    """Return the numbers of ``llmprops compare`` by tab; it does not tell items right in both from wrong in both."""
    [contrast] = compare([read_run(folder) for folder in runs]).contrasts
    tasks = [change for change in contrast.changes if change.task_key is not None]
    apart = sum(change.only_baseline + change.only_candidate + change.errors for change in tasks)
    flips = {"lost": len(contrast.lost), "gained": len(contrast.gained), "apart": apart}
    return {**flips, "same": sum(change.pairs for change in tasks) - flips["lost"] - flips["gained"]}


def count(page: Any, number: int) -> None:
    """Wait until the list shows this number of matching items."""
    page.locator("#count").filter(has_text=re.compile(f"^{number:,} of ")).wait_for()


def test_tabs_count_what_compare_counts(show: Open, folders: dict[str, list[Path]]) -> None:
    """With repeats, errors and missing items, every choice of two of three runs has the counts of ``compare``."""
    page = show("mixed")
    for one, other in ((0, 1), (2, 1), (1, 0)):
        page.locator("select[data-side=from]").select_option(str(one))
        page.locator("select[data-side=to]").select_option(str(other))
        expected = compared([folders["mixed"][one], folders["mixed"][other]])
        tabs = counts_of(page)
        tabs["same"] = tabs["wrong"] + tabs["right"]
        assert {name: tabs[name] for name in expected} == expected
        assert min(expected["lost"], expected["gained"], expected["apart"]) >= 2
    page.get_by_role("tab", name="Not comparable").click()
    count(page, counts_of(page)["apart"])
    assert "from=2&to=1" in page.url


def test_a_number_in_a_table_opens_its_tab(show: Open) -> None:
    """The numbers of lost and gained items in the comparison open them, and Back returns; arrows choose a tab.

    In the search, to which ``/`` goes, the keys of the list are text.
    """
    page = show()
    row = page.get_by_role("region", name="Comparison, table").locator("tbody tr", has_text="rhyme")
    row.get_by_role("button").nth(2).click()
    count(page, 1)
    assert listed(page) == ["sums/en/rhyme/0000"]
    assert page.get_by_role("tab", selected=True).inner_text() == "Lost 1"
    assert page.locator("#panel").get_attribute("aria-labelledby") == "tab-lost"
    # The list is on the screen, and each row shows the end of the question.
    page.wait_for_function(
        "() => [...document.querySelectorAll('#tabs, #list tbody tr')].every(part => {"
        " const { top, bottom } = part.getBoundingClientRect(); return top > 0 && bottom < innerHeight; })"
    )
    assert page.locator("#list tbody th .excerpt").inner_text() == "Which word rhymes with 0?"
    page.go_back()
    count(page, 8)
    tab = page.get_by_role("tab", selected=True)
    assert tab.inner_text() == "All 8"
    tab.focus()
    page.keyboard.press("ArrowRight")
    assert tab.get_attribute("data-tab") == "lost"
    page.keyboard.press("/")
    page.keyboard.type("jk")
    assert page.locator("#search").input_value() == "jk"


def test_two_replies_side_by_side_with_their_different_words(show: Open) -> None:
    """Both replies are shown in full, different words marked, each with tokens, seconds, cost and a command."""
    page = show(address="#items?tab=lost&item=sums/en/rhyme/0000")
    old, new = page.locator("#item .side").all()
    assert [side.locator("pre").first.inner_text() for side in (old, new)] == [OLD_REPLY, NEW_REPLY]
    # The correct reply of the baseline is not red.
    marks = [side.locator("mark").all_inner_texts() for side in (old, new)]
    assert marks == [["owl", "."], ["bowl", "!"]]
    assert (old.locator("mark.bad").count(), new.locator("mark.good").count()) == (0, 0)
    assert new.locator(".usage").inner_text() == "1,000 + 100 tokens · 1.25 s · 0.00300 USD"
    command = "pytest suites --llm-seed=3 --model=new --llm-cache=refresh -k 'sums/en/rhyme/0000'"
    assert new.locator(".again code").inner_text() == command
    assert "Baseline: old ✓ correct" in old.inner_text()
    assert "Candidate: new ✗ wrong" in new.inner_text()


def test_heat_map_selects_into_the_list(show: Open) -> None:
    """Combinations of results come by disagreement and add up to all items; the picture and a button list the items."""
    page = show("mixed")
    buttons = page.locator("#heat-patterns button")
    labels = [button.get_attribute("aria-label") or "" for button in buttons.all()]
    numbers = [int(label.split(": ")[1].split()[0]) for label in labels]
    assert sum(numbers) == 60
    agree = [
        n
        for n, label in enumerate(labels)
        if label.count(" not right") in (0, 3) and "no verdict" not in label
    ]
    assert agree
    assert agree[0] > 2
    buttons.nth(1).click()
    page.locator("#selected", has_text=labels[1].split(":")[0]).wait_for()
    assert len({name.split(" #")[0] for name in listed(page)}) == numbers[1]
    canvas = page.locator("#heat canvas")
    canvas.click(position={"x": 2, "y": 5})
    page.locator("#selected", has_text=labels[0].split(":")[0]).wait_for()
    page.get_by_role("button", name="Show all").click()
    page.locator("#selected:empty").wait_for(state="attached")


DIFFS = [
    ("", ""), ("same", "same"), ("", "all new"), ("x " * 4000, "y " * 4000), ("a  b\n\nc", "a b\nc"),
    ("篮子和蓝子", "篮子与蓝子"), ("a b c d e", "c d x e f"),
]  # fmt: skip


def test_a_word_diff_keeps_both_texts(show: Open) -> None:
    """The parts of a diff put together are the texts, and what is not marked is the same in both."""
    differs = show().evaluate("(pairs) => pairs.map(([a, b]) => wordDiff(a, b))", DIFFS)
    for parts, texts in zip(differs, DIFFS, strict=True):
        assert tuple("".join(text for text, _ in side) for side in parts) == texts
        kept = ["".join(text for text, is_different in side if not is_different) for side in parts]
        assert kept[0] == kept[1]
    *_, chinese, letters = differs
    assert [[text for text, is_different in side if is_different] for side in chinese] == [["和"], ["与"]]
    assert "".join(text for text, is_different in letters[0] if not is_different).split() == ["c", "d", "e"]


def test_address_and_back(show: Open) -> None:
    """Tab, filters, sort and opened item are in the address; Back undoes each, and a copied address restores all."""
    page = show()
    page.get_by_role("tab", name="Both wrong").click()
    count(page, 1)
    page.get_by_role("button", name="sums/en/rhyme/0001").click()
    page.locator("#item").wait_for()
    assert page.url.endswith("#items?tab=wrong&item=sums/en/rhyme/0001")
    page.go_back()
    page.locator("#item").wait_for(state="hidden")
    page.go_back()
    count(page, 8)
    page.go_forward()
    count(page, 1)
    again = show(address="#items?q=rhymes&status=wrong&model=2&sort=-id")
    count(again, 2)
    assert listed(again) == ["sums/en/rhyme/0001", "sums/en/rhyme/0000"]
    assert again.locator("#search").input_value() == "rhymes"
    assert again.locator("#list thead .id").get_attribute("aria-sort") == "descending"
    # Between slashes is a regular expression; one that is not finished is a text.
    for text, found in (("/rhyme.0000$/", 1), ("rhyme.0000", 0), ("/rhyme[/", 0), ("RHYME/0000", 1)):
        again.locator("#search").fill(text)
        count(again, found)
    # Unknown values are ignored.
    other = show(
        address="#items?tab=x&sort=constructor&model=99&page=-3&selected=zz&status=no&item=%E0%A4&from=0&to=a"
    )
    count(other, 8)
    assert other.get_by_role("tab", selected=True).get_attribute("data-tab") == "all"


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_an_item_is_beside_the_list_or_below_it(
    show: Open, browser_page: Any, width: int, height: int
) -> None:
    """Enter and a click go into the panel, in which keys and buttons step; ``Esc`` goes back to the row."""
    browser_page.set_viewport_size({"width": width, "height": height})
    # A smooth scroll to the focused row would go on after the item is opened.
    browser_page.emulate_media(reduced_motion="reduce")
    page = show(address="#items?sort=id")
    panel, place = page.locator("#item"), page.locator("#item-place")
    page.locator("#list .open").nth(4).press("Enter")
    page.get_by_role("region", name="sums/en/rhyme/0002").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "item"
    box, row = (page.locator(part).bounding_box() for part in ("#item", "#list tr:has([aria-current])"))
    assert min(row["y"], box["y"]) > 50
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    if width < 900:
        assert row["y"] + row["height"] <= box["y"]
        assert (box["y"] + box["height"], box["height"] <= 0.6 * height) == (pytest.approx(height), True)
    else:
        assert row["x"] + row["width"] <= box["x"]
        assert box["y"] + box["height"] <= height
    text = panel.locator(".answer").inner_text()
    reading = "Read by\nlast line; the other rule reads: <img"
    for part in ("Verdict\n✓ correct", "Model\nold", "Reason\nreason 2", reading):
        assert part in text
    assert panel.locator("img, script").count() == 0
    # What is unfolded in one item, is in the next.
    panel.locator(".thoughts summary").press("Enter")
    assert panel.locator(".thoughts pre").inner_text().startswith("Perhaps 2: <img src=x onerror=alert(1)>")
    page.keyboard.press("j")
    place.filter(has_text="6 of 8").wait_for()
    assert panel.locator(".thoughts pre").is_visible()
    page.keyboard.press("k")
    place.filter(has_text="5 of 8").wait_for()
    page.keyboard.press("j")
    place.filter(has_text="6 of 8").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "item"
    panel.get_by_role("button", name="Next item").click()
    place.filter(has_text="7 of 8").wait_for()
    assert panel.locator("#item-title").inner_text() == "sums/en/rhyme/0003"
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    assert page.evaluate("() => document.activeElement.dataset.key").startswith("sums/en/rhyme/0003")
    # A click anywhere in a row.
    page.locator("#list tbody tr").nth(7).locator("td").last.click()
    place.filter(has_text="8 of 8").wait_for()
    assert panel.get_by_role("button", name="Next item").is_disabled()
    panel.get_by_role("button", name="Close item").click()
    panel.wait_for(state="hidden")


def test_columns_are_chosen_and_remembered(show: Open) -> None:
    """A column that is unchecked is away, also after a reload; the box shows what a narrow list hides."""
    page = show()
    page.get_by_text("Columns", exact=True).click()
    box = page.get_by_role("group", name="Columns")
    box.get_by_label("Question").wait_for()
    assert box.inner_text().split() == [
        "Question",
        "Model",
        "Task",
        "Language",
        "Expected",
        "Given",
        "Reason",
    ]
    assert not box.get_by_label("Reason").is_checked()
    for name in ("Reason", "Language"):
        box.get_by_label(name).click()
    box.get_by_label("Question").uncheck()
    wait_for_storage(page)
    page = show(address="#items?sort=id")
    titles = ["Status", "Item", "Model", "Task", "Expected", "Given", "Reason"]
    assert page.locator("#list thead th").all_inner_texts() == titles
    assert page.locator("#list tbody .reason").all_inner_texts()[:3] == ["reason 0", "reason 0", "reason 1"]
    assert page.locator("#list tbody .id .excerpt").count() == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_text("Columns", exact=True).click()
    box.get_by_label("Model").wait_for()  # the boxes are made when the list opens
    checked = "(boxes) => boxes.filter((box) => box.checked).map((box) => box.parentNode.innerText.trim())"
    assert page.locator("#columns input").evaluate_all(checked) == ["Model", "Given", "Reason"]
    box.get_by_label("Task").check()
    assert page.locator("#list tbody .task").first.is_visible()
    # Storage that is blocked or has something else does no harm.
    page.evaluate("() => localStorage.setItem('llmprops-columns', '[3')")
    wait_for_storage(page)
    assert show().locator("#list thead th").all_inner_texts()[-1] == "Given"


def test_filter_by_a_value(show: Open) -> None:
    """Bounds of a number, and yes or no, combine with the search; they are in the address and a column."""
    page = show()
    values = page.locator("#value")
    spelled = HOSTILE.replace("\u202e", "[U+202E]").replace("\x1b", "␛")
    assert values.locator("option").all_inner_texts()[1:3] == [spelled, "digits"]
    values.select_option("digits")
    count(page, 8)
    page.get_by_label("At least").fill("1")
    count(page, 6)
    page.get_by_label("At most").fill("2")
    count(page, 4)
    page.locator("#search").fill("/rhyme.000[13]$/")
    count(page, 2)
    assert page.locator("#list tbody .value").all_inner_texts() == ["1", "1"]
    assert page.url.endswith("q=%2Frhyme.000%5B13%5D%24%2F&value=digits&least=1&most=2".replace("%2F", "/"))
    values.select_option("is_short")
    page.locator("#search").fill("")
    page.locator("#flag").select_option("no")
    count(page, 4)
    assert "most=0" in page.url
    page.get_by_role("tab", name="Lost").click()
    count(page, 1)
    assert page.locator("#list tbody .value").inner_text() == "0 → 0"
    again = show(address="#items?value=digits&least=0&most=1&sort=-value&status=wrong")
    count(again, 3)
    assert again.locator("#list tbody .value").all_inner_texts() == ["1", "1", "0"]
    assert [again.get_by_label(f"At {end}").input_value() for end in ("least", "most")] == ["0", "1"]
    again.get_by_role("button", name="Show all").click()
    count(again, 8)
    assert (again.locator("#value").input_value(), again.locator("#list .value").count()) == ("", 0)
    count(show(address="#items?value=constructor&least=x"), 8)


def test_copy_buttons(show: Open) -> None:
    """Prompt, reply, command and link are copied as they are, and a status line says so."""
    page = show(address="#items?tab=gained&item=sums/en/rhyme/0003")
    page.evaluate(
        "() => { window.copies = []; navigator.clipboard.writeText = async (text) => copies.push(text); }"
    )
    side = page.locator("#item .side").nth(1)
    for name in ("prompt", "reply", "link", "command"):
        side.get_by_role("button", name=f"Copy {name}").click()
    page.locator("#said", has_text="Command copied").wait_for(state="attached")
    prompt, reply, link, command = page.evaluate("() => copies")
    assert prompt == "Which word rhymes with 3?"
    assert "<img src=x onerror=alert(1)>" in reply
    assert not set("\u202e\x1b") & set(page.content())
    assert link == page.url
    assert command.endswith("-k 'sums/en/rhyme/0003'")


def test_review_marks_are_kept_exported_and_imported(show: Open, browser_page: Any, tmp_path: Path) -> None:
    """A mark survives a reload, is exported as a line of review.jsonl, and is there again after an import."""
    address = "#items?tab=lost&item=sums/en/rhyme/0000"
    page = show(address=address)
    side = page.locator("#item .side").nth(1)
    side.get_by_label("Judgement").select_option("should be correct")
    side.get_by_label("Note").fill("bowl is right, too")
    side.get_by_label("Note").press("Enter")
    wait_for_storage(page)
    page = show(address=address)
    fields = [side.get_by_label(name).input_value() for name in ("Judgement", "Note")]
    assert fields == ["correct", "bowl is right, too"]
    assert page.locator("#list .badge").inner_text() == "✎ judged wrongly"
    with page.expect_download() as download:
        page.get_by_role("button", name="Export review.jsonl").click()
    assert download.value.suggested_filename == "review.jsonl"
    download.value.save_as(tmp_path / "review.jsonl")
    [mark] = read_reviews(tmp_path, "told-new").values()
    assert (mark.model, mark.id, mark.note) == ("new", "sums/en/rhyme/0000", "bowl is right, too")
    page.evaluate("() => localStorage.clear()")
    wait_for_storage(page)
    again = show()
    assert again.locator("#reviewed").inner_text() == "0 review marks"
    again.get_by_label("Import").set_input_files(tmp_path / "review.jsonl")
    again.locator("#reviewed", has_text="1 review mark").wait_for()
    assert again.locator("#imported").inner_text() == "1 of 1 lines of the file are marks on these runs."


def test_the_report_is_accessible(show: Open) -> None:
    """Axe finds nothing, with an opened item of two models; nothing is wider than the window."""
    page = show(address="#items?tab=lost&value=digits&most=1&item=sums/en/rhyme/0000")
    page.locator("#item").wait_for()
    unfold(page)
    assert accessibility_problems(page, ("dark",)) == []
    for width in (390, 800, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_paper_has_intervals_and_whole_tables(show: Open, browser_page: Any) -> None:
    """In print, no table or figure is wider than the page, intervals are lines of an SVG, and the items that are
    shown are printed.
    """
    # The printable width of A4 at 96 pixels per inch.
    browser_page.set_viewport_size({"width": 718, "height": 1047})
    page = show(address="#items?tab=lost&item=sums/en/rhyme/0000")
    page.emulate_media(media="print")
    wide = (
        "(parts) => parts.filter((part) => part.scrollWidth > 718).map((part) => part.outerHTML.slice(0, 80))"
    )
    assert page.locator(".scroll, table, pre, svg").evaluate_all(wide) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 718
    interval = page.locator(".bar line:not(.axis)").first
    assert interval.evaluate("(line) => line.getBBox().width") > 5
    assert interval.evaluate("(line) => getComputedStyle(line).stroke") != "none"
    assert page.locator("#item .side").all_inner_texts()[0].startswith("Baseline: old")
    assert not page.locator(".tools").first.is_visible()
    # Without a chosen tab, the first of all items are not printed.
    page = show(address="#items?tab=all")
    page.emulate_media(media="print")
    assert not page.locator("#list").is_visible()
    assert page.pdf(format="A4").count(b"/Type /Page\n") <= 8
