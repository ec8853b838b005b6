"""Texts from models and files, made safe and short for display.

The terminal, error lines, reports, Markdown and Allure have one policy: a control character is neither printed nor
dropped but replaced by a visible symbol. ESC becomes ``␛``, a right-to-left override ``[U+202E]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: C0 and C1 controls except tab and line feed, DEL, line and paragraph separator, the bidirectional
#: embeddings, overrides and isolates (they reorder the text around them), tags, BOM and lone surrogates.
#: Zero-width joiners and direction marks are kept: Persian, Tamil and Arabic text needs them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Replace every control character except tabs and line feeds by a visible symbol; CR LF becomes a line feed."""
    return _UNSEEN.sub(_spelled, text.replace("\r\n", "\n"))


def terminal_line(text: str) -> str:
    """Replace every control character by a visible symbol, including tabs and line feeds."""
    return visible(text).replace("\t", "␉").replace("\n", "␊")


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def shortened(text: str, most: int) -> str:
    """Return ``text`` cut to at most ``most`` characters; a cut text ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def first_names(names: Iterable[str], most: int = 3) -> str:
    """Return the first ``most`` names, with an ellipsis if there are more."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


def one_line(text: str, most: int | None = None) -> str:
    """Return :func:`visible` text with whitespace collapsed to single spaces, cut to ``most`` characters."""
    flat = " ".join(visible(text).split())
    return flat if most is None else shortened(flat, most)
