"""Model texts in reports: everything is shown and nothing is executed or rendered."""

from __future__ import annotations

import html

import pytest

from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.reports.kit.blocks import joined
from pytest_llmprops.reports.page.items import pack
from pytest_llmprops.reports.page.markdown import code, plain
from tests.support.report_items import unpacked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x00\x7f\x9b", "␀␡[U+009B]"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("\u2066x\u2069", "[U+2066]x[U+2069]"),
        ("a\u2028b\ufeff", "a[U+2028]b[U+FEFF]"),
        ("\ud800", "[U+D800]"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("one\rtwo", "one␍two"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    """Characters that control a terminal or reorder a line are escaped; line ends and tabs are kept."""
    assert shown == visible(text)


@pytest.mark.parametrize("text", ["می‌خواهم", "க்‍ஷ", "篮子", "‏حمراء‎", "👩‍🚀"])
def test_joiners_and_direction_marks_are_kept(text: str) -> None:
    """Joiners and direction marks that Persian, Tamil, Arabic and emoji need are kept."""
    assert text == visible(text)


def test_a_line_is_cut_with_a_mark() -> None:
    """A long text is cut to the requested length and ends in an ellipsis."""
    assert one_line("a\n b") == "a b"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_a_list_in_words() -> None:
    """The last two parts are joined by "and"."""
    assert [joined([]), joined(["a"]), joined(["a", "b", "c"])] == ["", "a", "a, b and c"]


@pytest.mark.parametrize(
    "text",
    ["</script><script>alert(1)</script>", "<!-- <script>", "]]>", "a\u2028b\u2029c", "&lt;", "{{ 7 * 7 }}"],
)
def test_data_in_a_script_element_is_only_data(text: str) -> None:
    """No text can close the element, open a comment or end a line, and the data reads back unchanged."""
    written = pack([text])
    assert written.isascii()
    assert written.rstrip("=").replace("+", "").replace("/", "").isalnum()
    assert unpacked(written) == [text]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a\\|b"),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("![i](u)", "\\!\\[i\\](u)"),
        ("`code` *b* _i_ ~~s~~", "\\`code\\` \\*b\\* \\_i\\_ \\~\\~s\\~\\~"),
        ("https://a.b www.c.d :smile:", "https\\://a.b www\\.c.d \\:smile:"),
        ("# h", "\\# h"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("$x$ @user", "\\$x\\$ \\@user"),
        ("a: b, k = 4 (c)", "a: b, k = 4 (c)"),
        ("one\ntwo", "one two"),
    ],
)
def test_markdown_is_escaped(text: str, written: str) -> None:
    """Formatting, links, images, HTML, tables and mentions are escaped; plain prose is unchanged."""
    assert written == plain(text)


@pytest.mark.parametrize("text", ["`", "a``b", "``` x ```", "plain", " padded", "a|b", "<b>"])
def test_a_code_span_holds_any_text(text: str) -> None:
    """The fence is longer than any run of backticks inside, and a vertical bar does not end the cell."""
    span = code(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    inner = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    assert fence not in inner
    assert html.unescape(inner.replace("\\|", "|")).strip() == " ".join(text.split())
    assert code("") == ""
