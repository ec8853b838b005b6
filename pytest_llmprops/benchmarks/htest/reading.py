"""Read which label or option a reply chooses by the rules of the published results.

They treat the labels differently: a word with an "a" is read as A, so "Answer: A" is read and "Answer: B" is not.
`core.reading.stated`, this project's rule, treats all options alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Label = Literal["A", "B"]
LABELS: tuple[Label, Label] = ("A", "B")


def read_label(reply: str) -> Label | None:
    """Return A, B or None, by the rule for the published results.

    The reply is stripped and lower-cased. It is A if it contains an "a" and no "b", or "label: a", or "is a"
    without "or b". Otherwise the same rule is applied for B.
    """
    text = reply.strip().lower()
    if ("a" in text and "b" not in text) or "label: a" in text or ("is a" in text and "or b" not in text):
        return "A"
    if ("b" in text and "a" not in text) or "label: b" in text or ("is b" in text and "or a" not in text):
        return "B"
    return None


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that equals the stripped reply (Letter Geometry, published code)."""
    text = reply.strip()
    return options.index(text) if text in options else None
