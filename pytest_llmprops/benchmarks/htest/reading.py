"""From a reply to a label, by the rule of the authors' published code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Label = Literal["A", "B"]


def read_label(reply: str) -> Label | None:
    """A, B or neither, as the published results were read.

    After stripping and lower-casing: A when there is an "a" and no "b", or "label: a", or "is a" without
    "or b"; else B likewise; else None. The rule is generous (any word with an "a" reads as A), which is
    why obedience to the one-letter format is a metric of its own.
    """
    text = reply.strip().lower()
    if ("a" in text and "b" not in text) or "label: a" in text or ("is a" in text and "or b" not in text):
        return "A"
    if ("b" in text and "a" not in text) or "label: b" in text or ("is b" in text and "or a" not in text):
        return "B"
    return None


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """Index of the option that the stripped reply is, exactly (Letter Geometry); None for any other reply."""
    text = reply.strip()
    return options.index(text) if text in options else None


def obeys_format(reply: str) -> bool:
    """Whether the reply is one letter A or B and nothing else, as it was asked to be."""
    return reply.strip() in ("A", "B")
