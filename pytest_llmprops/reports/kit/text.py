"""Texts and numbers as a reader sees them. Replies are untrusted: what cannot be seen is spelled out."""

from __future__ import annotations

import re

#: C0 and C1 controls but tab and line feed, DEL, line and paragraph separator, the bidirectional
#: embeddings, overrides and isolates (they reorder the text around them), tags, BOM and lone surrogates.
#: Zero-width joiners and direction marks stay: Persian, Tamil and Arabic are written with them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """``text`` with every control character spelled out: ESC as ``␛``, U+202E as ``[U+202E]``."""
    return _UNSEEN.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def one_line(text: str, most: int = 120) -> str:
    """:func:`visible` on one line, cut to ``most`` characters with the cut marked."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}%"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """``90.0% (84 to 94)``: a share with its interval in whole percent."""
    if value is None:
        return "–"
    if low is None or high is None:
        return percent(value)
    return f"{percent(value)} ({interval(low, high)})"


def interval(low: float, high: float) -> str:
    """``84 to 94``: an interval of shares in whole percent."""
    return f"{100 * low:.0f} to {100 * high:.0f}"


def points(value: float) -> str:
    """A difference of shares in percentage points, always signed: ``+24.0``."""
    # What rounds to nothing has no sign to lose.
    return f"{round(100 * value, 1) + 0.0:+.1f}".replace("-", "−")


def point_range(low: float, high: float) -> str:
    """``+30 to +44``: an interval of differences in whole points."""
    return f"{100 * low:+.0f} to {100 * high:+.0f}".replace("-", "−")


def words(name: str) -> str:
    """A task's name as words: ``end_punctuation`` as ``end punctuation``."""
    return visible(name).replace("_", " ")


def file_name(name: str) -> str:
    """``name`` as a part of a file's name: no separators, nothing hidden."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)


def file_names(value: str) -> list[str]:
    """The names of files joined by commas, without their folders, which are nobody else's business."""
    return [re.split(r"[\\/]", part.strip())[-1] for part in value.split(",")]


def joined(parts: list[str]) -> str:
    """``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def counted(n: int, noun: str) -> str:
    """``1 item``, ``1,004 items``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fa": "Farsi",
    "fr": "French", "gl": "Galician", "hi": "Hindi", "hy": "Armenian", "ja": "Japanese", "lv": "Latvian",
    "ta": "Tamil", "te": "Telugu", "zh": "Chinese",
}  # fmt: skip


def language(code: str) -> str:
    """The English name of a language code, or the code itself."""
    return LANGUAGES.get(code, visible(code))
