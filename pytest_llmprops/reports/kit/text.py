"""Texts and numbers for readers. Replies are untrusted: :func:`visible` spells out invisible characters."""

from __future__ import annotations

import re

from pytest_llmprops.core.texts import visible as visible


def percent(value: float | None) -> str:
    """Return a share as a percentage with one decimal; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}%"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """Return a share with its interval in whole percent: ``90.0% (84 to 94)``."""
    if value is None:
        return "–"
    if low is None or high is None:
        return percent(value)
    return f"{percent(value)} ({interval(low, high)})"


def interval(low: float, high: float) -> str:
    """Return an interval of shares in whole percent: ``84 to 94``."""
    return f"{100 * low:.0f} to {100 * high:.0f}"


def points(value: float) -> str:
    """Return a difference of shares in percentage points, always with a sign: ``+24.0``."""
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(100 * value, 1) + 0.0:+.1f}".replace("-", "−")


def point_range(low: float, high: float) -> str:
    """Return an interval of differences in whole points: ``+30 to +44``."""
    return f"{100 * low:+.0f} to {100 * high:+.0f}".replace("-", "−")


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


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: ``1 item``, ``1,004 items``.

    :param plural: the plural, if it is not the noun with an s.
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fa": "Farsi",
    "fr": "French", "gl": "Galician", "hi": "Hindi", "hy": "Armenian", "ja": "Japanese", "lv": "Latvian",
    "ta": "Tamil", "te": "Telugu", "zh": "Chinese",
}  # fmt: skip


def language(code: str) -> str:
    """Return the English name of a language code, or the code itself."""
    return LANGUAGES.get(code, visible(code))
