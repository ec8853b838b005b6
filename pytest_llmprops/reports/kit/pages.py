"""What additional pages of a section have in common: their files, their neighbours, and the words for outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_llmprops.reports.kit.blocks import Page
from pytest_llmprops.reports.kit.text import file_name

#: Maximum number of additional pages of a section.
MOST_PAGES = 400
_GLYPHS = {"correct": "✓", "wrong": "✗", "refused": "⊘", "unparsed": "?", "error": "!"}
_WORDS = {"correct": "right"}


def linked_pages(
    folder: str, template: str, contents: Iterable[tuple[str, str, Any]], most: int = MOST_PAGES
) -> list[Page | None]:
    """Return a page for each content, in order, with links to its neighbours; None after the first ``most``.

    A page's file name has only characters that are safe on every file system and in addresses. Names that differ only
    in case or in other characters get different files.

    :param folder: ASCII letters, digits, ``_`` and ``-``.
    :param template: as in :class:`Page`.
    :param contents: (name, title, content) of each page.
    """
    entries = [(title, content, name) for name, title, content in contents]
    taken: set[str] = set()
    files: list[str] = []
    for _, _, name in entries[:most]:
        stem = file_name(name)[:80]
        number, candidate = 1, stem
        while candidate.casefold() in taken:
            number += 1
            candidate = f"{stem}-{number}"
        taken.add(candidate.casefold())
        files.append(f"{candidate}.html")
    around = ["", *files, ""]
    pages: list[Page | None] = [
        Page(f"{folder}/{file}", title, template, content, around[n], around[n + 2])
        for n, (file, (title, content, _)) in enumerate(zip(files, entries, strict=False))
    ]
    return pages + [None] * (len(entries) - len(files))


def outcome_label(status: str) -> str:
    """Return the status of a verdict as a sign and a word, ``✗ wrong``, which say the same as its colour."""
    return f"{_GLYPHS.get(status, '?')} {_WORDS.get(status, status)}"


def cut_text(text: str, most: int) -> str:
    """Return ``text`` cut to ``most`` characters; a cut text says how many more it has."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"
