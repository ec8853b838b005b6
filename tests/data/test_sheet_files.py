"""Sheet files: spreadsheet formats, formulas and atomic writes."""

from __future__ import annotations

import codecs
import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.sheet_files import (
    escaped,
    numbered_lines,
    read_table,
    sheet_text,
    unescaped,
    write_new,
)
from pytest_llmprops.data.whole_files import write_text

COLUMNS = ("question", "sentence", "choice")
TEXTS = ("1", 'Sag "ja", bitte; ஆம், はい, بله\u200cها', "2")
CELLS = dict(zip(COLUMNS, TEXTS, strict=True))


def test_spreadsheets_read_the_file_as_utf8(tmp_path: Path) -> None:
    """The file starts with a byte-order mark and has RFC 4180 line ends, so spreadsheets read it as UTF-8."""
    write_text(tmp_path / "a.csv", sheet_text(COLUMNS, [CELLS]))
    raw = (tmp_path / "a.csv").read_bytes()
    assert raw.startswith(codecs.BOM_UTF8 + b"question,")
    assert raw.endswith(b"\r\n")
    assert raw.count(b"\n") == 2


def as_saved(delimiter: str = ",", end: str = "\r\n", start: str = "\ufeff", quote: bool = False) -> bytes:
    """Return the table as a spreadsheet program saves it."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(
        buffer, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL
    )
    writer.writerows([COLUMNS, TEXTS])
    return (start + buffer.getvalue()).encode()


def test_files_of_spreadsheets_are_read(tmp_path: Path) -> None:
    """A sheet has the same cells after Excel or LibreOffice has saved it.

    Excel omits empty cells at the end of a line; columns added by a user are kept in place.
    """
    path = tmp_path / "a.csv"
    for raw in (
        as_saved(),
        as_saved(";"),
        as_saved("\t", start=""),
        as_saved(start="", end="\n"),
        as_saved(";", start="", end="\n", quote=True),
        as_saved(end="\r"),
        as_saved(";", start="\ufeffsep=;\r\n"),
        # without a line end, with empty columns and lines, and with blank lines
        as_saved().rstrip(),
        as_saved(end=",,\r\n") + b",,,,\r\n,,,,\r\n",
        as_saved(end="\r\n\r\n"),
    ):
        path.write_bytes(raw)
        assert [record.cells for record in read_table(path, "question").records] == [CELLS], raw
    path.write_text("question,note,choice\n1,hm\n2\n", encoding="utf-8")
    table = read_table(path, "question")
    assert [(record.line, *record.cells.values()) for record in table.records] == [
        (2, "1", "hm", ""),
        (3, "2", "", ""),
    ]
    assert table.columns == ("question", "note", "choice")


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    """The error is one line with the file, the line and the fix; so is that of a missing file, or of a folder."""
    for raw, says in (
        (b"", "line 1: no column 'question'"),
        (b"nr,sentence\n1,x\n", "line 1: no column 'question'; keep the header"),
        (b"question,a,a\n1,x,y\n", "line 1: column 'a' is there twice"),
        (b"question,,a\n1,x,y\n", "line 1: a column has no name"),
        (b"question,a\n1,x\n2,y,z\n", "line 3: 3 cells, the header has 2"),
        (b'question,a\n1,"x" y\n', "line 2: "),
        (b'question,a\n1,x\n2,"y\n', "line 3: "),
        ("question,a\n1,é\n".encode("latin-1"), "not UTF-8"),
        ("question,a\n1,x\n".encode("utf-16"), "in a spreadsheet as 'CSV UTF-8'"),
    ):
        path = tmp_path / "a.csv"
        path.write_bytes(raw)
        with pytest.raises(DataError, match=f"^{path}: [^\n]*{says}[^\n]*$") as caught:
            read_table(path, "question")
        assert "; " in str(caught.value)
    with pytest.raises(DataError, match=r"b\.csv: No such file or directory; put it back"):
        read_table(tmp_path / "b.csv", "question")
    with pytest.raises(DataError, match="directory"):
        read_table(tmp_path, "question")


def test_every_line_of_a_filled_sheet_is_there_once(tmp_path: Path) -> None:
    """Lines may have any order; an unknown or repeated number, a missing line and a missing column are one line."""
    path = tmp_path / "a.csv"
    path.write_text("nr,word\n2,x\n 1 , y\n", encoding="utf-8")
    lines = list(numbered_lines(path, "nr", 2, ["word"]))
    assert [(number, cells["word"]) for _, number, cells in lines] == [(2, "x"), (1, "y")]
    for text, message in (
        ("nr,word\n1,x\n1,y\n", r"line 3: nr 1 is not one of 1 to 3, or is there twice; restore its number"),
        ("nr,word\n4,x\n", r"line 2: nr 4 is not one of 1 to 3"),
        ("nr,word\n2,x\n", r"nr 1 is missing \(2 in all\); restore its line"),
        ("nr,text\n1,x\n", "no column 'word'; restore the header"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=f"a.csv: {message}"):
            list(numbered_lines(path, "nr", 3, ["word"]))


def test_formulas_are_text() -> None:
    """A cell that a spreadsheet would run gets an apostrophe and is read back unchanged; other texts get none."""
    for text in ("=1+1", "+1", "-You mean this?", "@SUM(A1)", "\t=1", "＝1+1", "'=1", "''-"):
        assert escaped(text) == f"'{text}"
        assert unescaped(escaped(text)) == text
    for other in ("", "'tis", "a=b", "it's -1", "'", "1-2"):
        assert escaped(other) == other == unescaped(other)


@given(
    st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3), max_size=5)
)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    """Cells of any characters are read back unchanged, and none begins as a formula does."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    texts = [[f"x{text}".strip() if place == 2 else text for place, text in enumerate(row)] for row in rows]
    write_text(path, sheet_text(COLUMNS, [dict(zip(COLUMNS, row, strict=True)) for row in texts], ";"))
    table = read_table(path, "question")
    assert [list(record.cells.values()) for record in table.records] == texts
    assert not any(escaped(cell).startswith(tuple("=+-@\t\r")) for row in texts for cell in row)


def test_sheets_are_never_overwritten(tmp_path: Path) -> None:
    """A folder with sheets is refused, and so is one that cannot be written to."""
    write_new(tmp_path / "new" / "deep", {"a_1.csv": "x"}, taken=("a_*.csv",))
    with pytest.raises(UsageError, match="has sheets already"):
        write_new(tmp_path / "new" / "deep", {"b": "y"}, taken=("a_*.csv",))
    with pytest.raises(UsageError, match="cannot be written"):
        write_new(tmp_path / "new" / "deep" / "a_1.csv", {"b": "y"}, taken=())
