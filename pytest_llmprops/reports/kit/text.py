"""Texts and numbers for readers; the numbers are those of :mod:`pytest_llmprops.core.numbers`.

Replies are untrusted: :func:`visible` spells out invisible characters.
"""

from __future__ import annotations

import re

from pytest_llmprops.core.numbers import counted as counted
from pytest_llmprops.core.numbers import interval as interval
from pytest_llmprops.core.numbers import percent as percent
from pytest_llmprops.core.numbers import point_range as point_range
from pytest_llmprops.core.numbers import points as points
from pytest_llmprops.core.numbers import with_interval as with_interval
from pytest_llmprops.core.texts import visible as visible


def words(name: str) -> str:
    """Return a task's name as words: ``end_punctuation`` as ``end punctuation``."""
    return visible(name).replace("_", " ")


def file_name(name: str) -> str:
    """Return ``name`` as part of a file name, with ASCII letters, digits, ``_`` and ``-`` only."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)


def file_names(value: str) -> list[str]:
    """Return the names in a comma-separated list of files, without folders: paths are private."""
    return [re.split(r"[\\/]", part.strip())[-1] for part in value.split(",")]


def joined(parts: list[str]) -> str:
    """Return a list in words: ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fa": "Farsi",
    "fr": "French", "gl": "Galician", "hi": "Hindi", "hy": "Armenian", "ja": "Japanese", "lv": "Latvian",
    "ta": "Tamil", "te": "Telugu", "zh": "Chinese",
}  # fmt: skip


def language(code: str) -> str:
    """Return the English name of a language code, or the code itself."""
    return LANGUAGES.get(code, visible(code))
