"""Additional pages of a section: files, neighbours, and templates of other packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.report_kit import Page, Section, cut_text, linked_pages, outcome_label
from pytest_llmprops.reports.kit.blocks import ItemData, Report
from pytest_llmprops.reports.page.html import pages_html


def report(*pages: Page) -> Report:
    """Return a report with one section of these pages."""
    return Report("t", (), (), (), (), (), (), (Section((), pages, "k", "T"),), (), ItemData("", (), {}))


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
