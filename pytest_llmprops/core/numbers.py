"""Numbers for readers: counts, percentages, differences, costs. The terminal, gates, pages and Allure all use these.

A missing number is ``–``. Only differences have a sign. The minus sign is ``−`` (U+2212).
"""

from __future__ import annotations

MISSING = "–"


def count(n: int) -> str:
    """Return a whole number with thousands separators: ``4,003``."""
    return f"{n:,}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: ``1 item``, ``1,004 items``.

    :param plural: plural of the noun, if it is not the noun and ``s``.
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def number(value: float | None) -> str:
    """Return a number with three significant digits, or all digits before the point: ``0.342``, ``12,345``."""
    if value is None:
        return MISSING
    text = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return _signed("0" if text == "-0" else text)


def percent(share: float | None) -> str:
    """Return a fraction in percent: ``64.1%``.

    There are more decimals where one would show a fraction between 0 and 1 as 0.0% or 100.0%: ``99.98%``.
    """
    if share is None:
        return MISSING
    digits = 1
    while (
        0 < share < 1
        and digits < 6
        and f"{100 * share:.{digits}f}" in (f"{0:.{digits}f}", f"{100:.{digits}f}")
    ):
        digits += 1
    return f"{100 * share:.{digits}f}%"


def interval(low: float, high: float) -> str:
    """Return an interval of fractions in percent: ``48.7 to 77.0``."""
    return f"{_in_points(low)} to {_in_points(high)}"


def with_interval(share: float | None, low: float | None, high: float | None) -> str:
    """Return a fraction in percent with its interval: ``64.1% (48.7 to 77.0)``."""
    if share is None or low is None or high is None:
        return percent(share)
    return f"{percent(share)} ({interval(low, high)})"


def points(difference: float) -> str:
    """Return a difference of fractions in percentage points, with a sign: ``+24.0``, ``−3.5``, ``0.0``."""
    text = _in_points(difference)
    return text if text == "0.0" or difference < 0 else f"+{text}"


def point_range(low: float, high: float) -> str:
    """Return an interval of differences in percentage points: ``−1.2 to +0.4``."""
    return f"{points(low)} to {points(high)}"


def size_in_points(size: float) -> str:
    """Return the size of a difference, such as a limit, without a sign: ``10.0 points``."""
    return f"{100 * abs(size):.1f} points"


def p_value(p: float) -> str:
    """Return a p-value: ``0.012``, ``<0.001``."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def usd(amount: float) -> str:
    """Return a cost: ``12.40 USD``; below 1 USD with four decimals: ``0.0123 USD``."""
    if 0 < amount < 0.0001:
        return "<0.0001 USD"
    return f"{amount:,.{2 if amount >= 1 or not amount else 4}f} USD"


def cost(calls: int, amount: float | None) -> str:
    """Return what calls cost: ``no calls``, ``cost unknown``, ``0.0123 USD``.

    :param amount: in USD; None if it is unknown.
    """
    if not calls:
        return "no calls"
    return "cost unknown" if amount is None else usd(amount)


def duration(seconds: float) -> str:
    """Return seconds in the largest unit of which there is at least one: ``42 s``, ``1.5 minutes``."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _in_points(fraction: float) -> str:
    text = f"{100 * fraction:.1f}"
    return "0.0" if text == "-0.0" else _signed(text)


def _signed(text: str) -> str:
    return text.replace("-", "−")
