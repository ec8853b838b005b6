"""Full-width digits and letters as ASCII, one character for one character."""

from __future__ import annotations

# U+FF10 to U+FF19, U+FF21 to U+FF3A and U+FF41 to U+FF5A are ASCII digits and letters plus 0xFEE0. NFKC folds them to
# the same characters, but also changes punctuation and the number of characters.
_FOLDED = {
    wide: wide - 0xFEE0
    for first, last in ((0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A))
    for wide in range(first, last + 1)
}


def fold_width(text: str) -> str:
    """Return ``text`` with full-width digits and Latin letters replaced by ASCII; its length does not change.

    Corpora differ in this: the People's Daily has １９９８年, the test files of the second SIGHAN bakeoff 2001年.
    """
    return text.translate(_FOLDED)
