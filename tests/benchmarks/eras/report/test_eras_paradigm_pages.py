"""The page for each ERAS paradigm next to the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.report import paradigm_pages as module
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.page.build import write_report
from tests.support.browser import accessibility_problems
from tests.support.eras_records import explicit, implicit, write

HOSTILE = "</script><img src=x onerror=alert(1)> {{ 7 * 7 }} \x1b[31m \u202egnp"
SENTENCES = {"test": "学生留心机处理", "control": "学生留计谋处理"}


def pages(tmp_path: Path, records: Sequence[VerdictRecord]) -> dict[str, str]:
    """Return the paradigms' pages of a report on these verdicts by file name."""
    write_report([write(tmp_path / "run", records)], tmp_path / "out")
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted((tmp_path / "out" / "eras").iterdir())
    }


def words(page: str) -> str:
    """Return the visible text of a page on one line."""
    body = re.sub(r"<(style|title)>.*?</\1>", "", page, flags=re.DOTALL)
    body = re.sub(r'</?u>|<span class="edge">(.)</span>', r"\1", body)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def pair(page: str, number: int) -> str:
    """Return the visible text of the ``number``-th pair of a page."""
    return words(page.split('<div class="block sentence">')[number].partition("</table>")[0])


def cut(number: int, given: str, *, wrong: bool, **more: Any) -> VerdictRecord:
    """Return the verdict on a segmentation of a right-branching pair whose site starts at character 2."""
    base = explicit(2, number, float(not wrong), 1.0)
    return replace(base, given=f"{given} / 学生|留|计谋|处理", **more)


WRONG = "学生|【留心】|机|处理"
RIGHT = "学生|留|心机|处理"


def test_report_and_pages_link_to_each_other(tmp_path: Path) -> None:
    """Each paradigm in the table has a page, which links back and to its neighbours."""
    found = pages(tmp_path, [explicit(1, 0, 1, 1), cut(0, WRONG, wrong=True)])
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'href="(eras/[^"]+)"', report) == ["eras/01.html", "eras/02.html"]
    links = {name: re.findall(r'href="([^#"][^"]*)"', page) for name, page in found.items()}
    assert links == {
        "01.html": ["../report.html#1-section", "02.html"],
        "02.html": ["../report.html#1-section", "01.html"],
    }


def test_the_page_is_accessible(browser_page: Any, tmp_path: Path) -> None:
    """Axe finds nothing."""
    other = cut(0, RIGHT, wrong=False, model="other")
    pages(tmp_path, [cut(0, WRONG, wrong=True), other, implicit(2, 0.9, 0.1)])
    browser_page.goto((tmp_path / "out" / "eras" / "02.html").as_uri())
    assert accessibility_problems(browser_page) == []


def test_page_has_every_models_cuts(tmp_path: Path) -> None:
    """Both sentences have their word boundaries, without the brackets of the verdict, and an underlined site."""
    other = cut(0, RIGHT, wrong=False, model="other")
    scored = replace(implicit(2, 0.9, 0.1), model="classifier", status="wrong")
    page = pages(tmp_path, [cut(0, WRONG, wrong=True), other, scored])["02.html"]
    # The scores of the same pair are in one table with the cuts; a record without evidence has no sentence.
    assert page.count('<div class="block sentence">') == 1
    assert pair(page, 1) == (
        "Pair 00000 Model Test sentence Control sentence Outcome"
        " ● model 学生|留心|机|处理 学生|留|计谋|处理 ✗ wrong"
        " ■ other 学生|留|心机|处理 学生|留|计谋|处理 ✓ right"
        " ▲ classifier 0.9000 0.1000 ✗ wrong"
    )
    assert "<u>留心</u>" in page
    assert "<u>心机</u>" in page
    assert (
        "Right-branching: the true word is the last two characters. Sentiment of true and canary word: -/+"
        in words(page)
    )
    assert re.search(r"<h1[^>]*>留心机</h1>", page)


def test_cuts_are_counted_over_all_pairs(tmp_path: Path) -> None:
    """Each way to cut the site has each model's share over all samples; … is a word that goes on outside the site."""
    records = [
        cut(0, WRONG, wrong=True), cut(1, WRONG, wrong=True), cut(2, RIGHT, wrong=False),
        cut(2, "学生【留心】|机处理", wrong=True, sample=1), cut(0, RIGHT, wrong=False, model="other"),
        cut(1, "学|生|留|心|机|处|理", wrong=True, model="other"),
    ]  # fmt: skip
    page = pages(tmp_path, records)["02.html"]
    rows = [words(row) for row in page.partition('id="cuts"')[2].partition("</table>")[0].split("<tr>")[2:]]
    assert rows == [
        "留心|机 ✗ the canary word is a word 50.0 0.0",
        "留|心机 ✓ the canary word is not cut out 25.0 50.0",
        "…留心|机… ✗ the canary word is inside a longer word 25.0 0.0",
        "留|心|机 ✗ the canary word is not cut out, in a degenerate segmentation 0.0 50.0",
    ]
    assert "● model 4 25.0 100.0" in words(page)
    assert pair(page, 3).count("model") == 1


def test_models_are_summarized(tmp_path: Path) -> None:
    """A model's row has its shares of right sentences, and the replies without a segmentation."""
    unread = replace(explicit(2, 2, 0, 0), status="unparsed", given="no / no", reason="not the sentence")
    unread = replace(unread, values={**unread.values, "canary_token": 0.0})
    failed = replace(
        explicit(2, 3, 0, 0), status="error", values={}, given="", reason="timed out", score=None
    )
    page = pages(tmp_path, [cut(0, WRONG, wrong=True), cut(1, RIGHT, wrong=False), unread, failed])["02.html"]
    assert "● model 3 33.3 66.7 33.3 33.3 0.0 1 unparsed, 1 error" in words(page)
    assert "no no ? unparsed not the sentence" in words(page)
    assert "! error timed out" in words(page)


def test_pairs_that_most_models_get_wrong_come_first(tmp_path: Path) -> None:
    """A pair that is wrong only in the test sentence comes before one whose control is wrong too."""
    both = replace(explicit(2, 0, 0, 0), given=f"{WRONG} / 学生|留计|谋|处理")
    records = [
        both, cut(1, RIGHT, wrong=False), cut(2, WRONG, wrong=True), cut(3, WRONG, wrong=True),
        cut(3, WRONG, wrong=True, model="other"),
    ]  # fmt: skip
    page = pages(tmp_path, records)["02.html"]
    assert re.findall(r"Pair (\d{5})<", page) == ["00003", "00002", "00000", "00001"]
    assert "✗ wrong control wrong" in pair(page, 3)


def test_sentiment_is_shown_with_its_sentences(tmp_path: Path) -> None:
    """A classifier's pair has both sentences and probabilities; the paradigm has accuracy, difference and GPER."""
    hit = {"occluded_test": 0.5, "occluded_control": 0.5}
    first = replace(implicit(1, 0.25, 0.75, **hit), status="wrong", evidence=SENTENCES)
    second = replace(implicit(1, 0.5, 0.5), id="eras/implicit/01/00001", evidence=SENTENCES)
    page = pages(tmp_path, [first, second])["01.html"]
    assert "● model 2 50.0 25.0 50.0 –" in words(page)
    assert "● model 学生留心机处理 0.2500 学生留计谋处理 0.7500 ✗ wrong" in pair(page, 1)
    assert "Segmenters" not in page


def test_a_page_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, pairs, cuts and characters are limited, and the page says what is missing."""
    monkeypatch.setattr(module, "MOST_PAIRS", 2)
    monkeypatch.setattr(module, "MOST_CUTS", 1)
    monkeypatch.setattr(module, "MOST_PAGES", 1)
    records = [cut(n, WRONG if n % 2 else RIGHT, wrong=bool(n % 2)) for n in range(6)]
    # A paradigm of other data is another paradigm.
    records.append(explicit(2, 0, 1, 1, source="published-templates"))
    [(name, page)] = pages(tmp_path, records).items()
    assert name == "02-builtin.html"
    assert page.count('<div class="block sentence">') == 2
    for text in ("4 further pairs in the runs' records.", "1 further cut in the runs' records.", "6 pairs"):
        assert text in words(page)
    assert "1 paradigm without a page" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    """A reply of a megabyte does not make a page of a megabyte."""
    long = cut(0, "学|" * 400_000, wrong=True)
    unread = replace(explicit(2, 1, 0, 0), status="unparsed", given="x" * 900_000, reason="y" * 900_000)
    page = pages(tmp_path, [long, unread])["02.html"]
    assert len(page) < 60_000
    assert "more characters" in page


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    """Sentences, replies, reasons, ids and model names are escaped; control characters are spelled out."""
    records = [
        cut(0, f"学生|{HOSTILE}|机", wrong=True, model=f"m{HOSTILE}", expected=HOSTILE),
        replace(
            explicit(2, 1, 0, 0),
            status="unparsed",
            given=HOSTILE,
            reason=HOSTILE,
            id=f"eras/explicit/02/{HOSTILE}",
        ),
        replace(implicit(2, 0.9, 0.1), status="wrong", evidence={"test": HOSTILE, "control": [HOSTILE]}),
    ]
    page = pages(tmp_path, records)["02.html"]
    assert not re.search(r"<img|<script|\x1b|\u202e|\w+://|url\(|@import|<link|src=x[^ ]", page)
    assert "{{ 7 * 7 }}" in page
    assert "␛[31m" in page
    assert "[U+202E]" in page
    assert "default-src 'none'" in page
    assert "script-src" not in page


@pytest.mark.parametrize("start", [99.0, -1.0, 1e99])
def test_damaged_values_leave_the_page(tmp_path: Path, start: float) -> None:
    """A verdict whose site is outside its sentence is shown, but its cut is not counted."""
    record = cut(0, WRONG, wrong=True)
    damaged = replace(record, values={**record.values, "start": start})
    page = pages(tmp_path, [cut(1, RIGHT, wrong=False), damaged])["02.html"]
    assert "学生|留心|机|处理" in words(page)
    assert "留心|机 ✗" not in words(page)
