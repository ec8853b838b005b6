"""Samples of one item: variance components, ``pass@k``, ``majority`` and the mean of metrics over repeats."""

from __future__ import annotations

import itertools

import pytest

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.metrics import (
    ItemSamples,
    Metric,
    items_of,
    mean_metrics,
    pass_at_k,
    repeat_metrics,
    variance_of,
)
from pytest_llmprops.core.verdicts import VerdictRecord
from tests.support.records import verdict


def record(item: str, status: RecordStatus = "correct", *, sample: int) -> VerdictRecord:
    return verdict("t", 0, status, id=item, cluster=item, sample=sample)


def items(*answers: str) -> list[ItemSamples]:
    return [ItemSamples(str(n), tuple(a == "1" for a in text)) for n, text in enumerate(answers)]


def test_errors_are_no_samples_and_items_keep_their_order() -> None:
    """An item whose samples are all errors has no answered sample; the others have theirs."""
    rows = [record("b", sample=0), record("a", "error", sample=0), record("b", "wrong", sample=1)]
    assert items_of(rows) == [ItemSamples("b", (True, False)), ItemSamples("a", ())]


def test_variance_agrees_with_the_analysis_of_variance() -> None:
    """With equal numbers of samples: within = MSW and between = (MSB - MSW) / m, computed here from their sums.

    One sample per item, or one item, says nothing about the two parts.
    """
    table = ["11110", "10000", "11111", "00000", "01011"]
    shares = [text.count("1") / 5 for text in table]
    mean = sum(shares) / 5
    msb = 5 * sum((share - mean) ** 2 for share in shares) / 4
    msw = sum(5 * share * (1 - share) for share in shares) / 20
    assert variance_of(items(*table)) == pytest.approx(((msb - msw) / 5, msw))
    assert (
        variance_of(items("1", "0", "1"))
        is variance_of(items("1101"))
        is variance_of(items("11", ""))
        is None
    )


def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample() -> None:
    """The closed form equals counting all subsets of k samples."""
    for samples in range(1, 7):
        for correct, k in itertools.product(range(samples + 1), range(1, samples + 1)):
            answers = [True] * correct + [False] * (samples - correct)
            subsets = list(itertools.combinations(answers, k))
            assert pass_at_k(correct, samples, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    for arguments in ((1, 2, 3), (3, 2, 1), (-1, 2, 1), (0, 2, 0)):
        with pytest.raises(ValueError, match="pass@k needs"):
            pass_at_k(*arguments)


def test_repeat_metrics_are_means_over_items() -> None:
    """pass@k and majority of three items with four samples; half of the samples correct counts one half.

    There are none without repeats or for excluded tasks; an item with too few answers is not in pass@k.
    """
    rows = [
        record(name, "correct" if answer == "1" else "wrong", sample=n)
        for name, text in {"a": "1100", "b": "1110", "c": "0000"}.items()
        for n, answer in enumerate(text)
    ]
    metrics = {(m.name, m.group): m for m in repeat_metrics(rows)}
    assert list(metrics) == [("pass@k", "k=2"), ("pass@k", "k=3"), ("pass@k", "k=4"), ("majority", "")]
    assert metrics["pass@k", "k=2"].value == pytest.approx((1 - 1 / 6 + 1 + 0) / 3)
    assert metrics["majority", ""].value == pytest.approx(1.5 / 3)
    assert {m.n for m in metrics.values()} == {3}
    assert repeat_metrics(rows[::4]) == repeat_metrics(rows, without=[rows[0].task]) == []
    rows[0] = record("a", "error", sample=0)
    by_group = {m.group: m.n for m in repeat_metrics(rows) if m.name == "pass@k"}
    assert by_group == {"k=2": 3, "k=3": 3, "k=4": 2}


def test_the_mean_of_metrics_has_the_interval_of_one_repeat() -> None:
    """Values and limits are averaged; a value that one repeat lacks is left out; n does not grow."""
    place = ("t", "en", "builtin")
    first = [Metric(*place, "rate", 0.4, 10, "", 0.2, 0.6, "higher"), Metric(*place, "odd", None, 0)]
    second = [Metric(*place, "rate", 0.6, 9, "", 0.3, 0.9, "higher"), Metric(*place, "odd", 2.0, 3)]
    rate, odd = mean_metrics([first, second])
    assert (rate.value, rate.n, rate.ci_low, rate.ci_high) == pytest.approx((0.5, 10, 0.25, 0.75))
    assert (odd.value, odd.n, odd.ci_low) == (2.0, 3, None)
