"""Reading what was appended to a JSON Lines file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.runs.json_lines import AppendedLines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file that is not there yet."""
    return tmp_path / "verdicts.jsonl"


def add(path: Path, text: str) -> None:
    """Append to the file."""
    with path.open("a") as file:
        file.write(text)


def test_only_new_complete_lines_are_returned(path: Path) -> None:
    """Every line comes once; an incomplete last line comes when its end was written."""
    lines = AppendedLines(path)
    assert lines.read(100) == ([], False, False)
    add(path, "one\ntw")
    assert lines.read(100).lines == [b"one"]
    assert lines.read(100) == ([], False, False)
    add(path, "o\nthree\n")
    assert lines.read(100) == ([b"two", b"three"], False, False)


def test_a_read_is_limited_but_a_long_line_is_read(path: Path) -> None:
    """A large file comes in parts, and a line above the limit is returned whole."""
    lines = AppendedLines(path)
    add(path, "a\nb\n" + "x" * 1000 + "\nc\n")
    assert lines.read(4) == ([b"a", b"b"], False, True)
    assert lines.read(4).lines[0] == b"x" * 1000
    assert lines.read(4).lines in ([b"c"], [])
    assert lines.offset == path.stat().st_size


@pytest.mark.parametrize("how", ["another file", "the same size", "cut", "deleted"])
def test_another_content_begins_again(path: Path, how: str) -> None:
    """A file that was replaced, written anew in place, cut or deleted is read from its beginning, and this is said."""
    lines = AppendedLines(path)
    add(path, "one\ntwo\n")
    lines.read(100)
    if how == "another file":
        other = path.with_name("other")
        add(other, "one\ntwo\nthree\n")
        other.replace(path)
    elif how == "the same size":
        path.write_text("ONE\nTWO\nTHREE\n")
    elif how == "cut":
        path.write_text("one\n")
    else:
        path.unlink()
    expected = {
        "another file": [b"one", b"two", b"three"],
        "the same size": [b"ONE", b"TWO", b"THREE"],
        "cut": [b"one"],
    }
    assert lines.read(100)[:2] == (expected.get(how, []), True)
    add(path, "new\n")
    assert lines.read(100) == ([b"new"], False, False)
