"""The frequency baseline."""

from __future__ import annotations

from pytest_llmprops.benchmarks.dtails.context import frequency_baseline


def test_most_frequent_label_of_each_concept() -> None:
    """Three of four and one of two are right; in a tie either label gives the same count."""
    rows = [("a", "x")] * 3 + [("a", "y"), ("b", "x"), ("b", "y")]
    baseline = frequency_baseline(rows)
    assert (baseline.right, baseline.n, baseline.concepts, baseline.accuracy) == (4, 6, 2, 4 / 6)


def test_without_rows() -> None:
    """Without rows there is no accuracy."""
    assert frequency_baseline([]).accuracy is None
