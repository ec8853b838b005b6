"""Numbers for readers: separators, percentages, signs, costs."""

from __future__ import annotations

from pytest_llmprops.core import numbers


def test_counts_have_separators_and_a_noun() -> None:
    """Every count has thousands separators, and its noun is in the singular only for 1."""
    assert [numbers.count(4003), numbers.count(0)] == ["4,003", "0"]
    assert [numbers.counted(n, "request") for n in (1, 4003)] == ["1 request", "4,003 requests"]
    assert [numbers.counted(n, "retry", "retries") for n in (1, 2)] == ["1 retry", "2 retries"]


def test_a_share_below_one_is_never_shown_as_all() -> None:
    """A percentage has one decimal, and more where 100.0% or 0.0% would hide the only wrong or right item."""
    for share, shown in {
        None: "–", 0.0: "0.0%", 1.0: "100.0%", 0.6414: "64.1%", 0.99975: "99.98%", 0.9996: "99.96%", 0.0004: "0.04%",
    }.items():  # fmt: skip
        assert numbers.percent(share) == shown


def test_intervals_have_one_decimal() -> None:
    """An interval has one decimal in percent; a share without an interval is shown alone."""
    assert numbers.with_interval(0.641, 0.487, 0.77) == "64.1% (48.7 to 77.0)"
    assert numbers.with_interval(0.641, None, 0.77) == "64.1%"
    assert numbers.interval(-0.0001, 0.3) == "0.0 to 30.0"


def test_only_differences_have_a_sign() -> None:
    """A difference has a sign except for zero, the size of one has none; the minus is U+2212."""
    shown = [numbers.points(x) for x in (0.24, -0.035, 0.0, -0.0, 0.0001, -0.0001)]
    assert shown == ["+24.0", "−3.5", "0.0", "0.0", "0.0", "0.0"]
    assert numbers.point_range(-0.012, 0.004) == "−1.2 to +0.4"
    assert numbers.size_in_points(-0.1) == "10.0 points"


def test_numbers_have_three_digits_and_no_exponent_above_one() -> None:
    """Numbers of metrics have three significant digits, and large ones separators."""
    for value, shown in {
        None: "–", 0.34215: "0.342", 12345.6: "12,346", -0.25: "−0.25", -0.0: "0", 8.0: "8", 999.6: "1,000",
    }.items():  # fmt: skip
        assert numbers.number(value) == shown


def test_costs_and_p_values_are_not_rounded_to_zero() -> None:
    """A small cost or p-value is shown as less than the smallest number, and no calls have no cost."""
    assert [numbers.usd(x) for x in (0.0, 0.00001, 0.01234, 1234.5)] == [
        "0.00 USD", "<0.0001 USD", "0.0123 USD", "1,234.50 USD",
    ]  # fmt: skip
    assert [numbers.p_value(p) for p in (0.00001, 0.0124, 1.0)] == ["<0.001", "0.012", "1.000"]
    assert [numbers.cost(0, 0.0), numbers.cost(5, None), numbers.cost(5, 2.0)] == [
        "no calls", "cost unknown", "2.00 USD",
    ]  # fmt: skip


def test_durations_have_the_largest_unit() -> None:
    """Seconds are shown in the largest unit of which there is at least one."""
    durations = [numbers.duration(s) for s in (42, 90, 7200, 2 * 86400)]
    assert durations == ["42 s", "1.5 minutes", "2.0 hours", "2.0 days"]
