"""The letters that pytest's terminal reporter prints for passed cases, many at once.

Pytest has no public function for this. With a version that lacks one of the private names, each case is reported alone.
"""

# ruff: noqa: SLF001

from __future__ import annotations

from typing import Any

_NAMES = (
    "_is_last_item",
    "_session",
    "_screen_width",
    "_show_progress_info",
    "_width_of_current_line",
    "_write_progress_information_if_past_edge",
)


def can_write(reporter: Any) -> bool:
    """Whether this version of pytest's terminal reporter can write letters together."""
    return type(reporter).__module__ == "_pytest.terminal" and all(hasattr(reporter, name) for name in _NAMES)


def write_letters(reporter: Any, letter: str, number: int, counted: Any) -> None:
    """Write a letter for each of ``number`` passed cases, with the lines that pytest would write.

    :param counted: pytest's number of reported cases, whose method ``count`` takes more.
    """
    # Pytest looks at the width of the line after each letter, and ends the line when only the progress fits behind it.
    progress, total = reporter._show_progress_info, reporter._session.testscollected
    length = len(f" [{total}/{total}]" if progress == "count" else " [100%]") + 1
    while number:
        room = reporter._screen_width - reporter._width_of_current_line - length
        part = min(number, max(1, room)) if progress else number
        number -= part
        counted.count(part)
        reporter.write(letter * part, green=True)
        if progress and not reporter._is_last_item:
            reporter._write_progress_information_if_past_edge()
    reporter.flush()
