"""The batches of an epoch, and the settings of a training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.training.task import EpochBatches, Row, Settings


def rows_of(*lengths: int, source: int = 0) -> list[Row]:
    return [Row([0] * length, [0] * length, source) for length in lengths]


def test_batches_of_an_epoch() -> None:
    """Each row is in a batch, batches are full and of similar length, and depend on seed and epoch only."""
    rows = rows_of(*(5 + i % 90 for i in range(203)))

    def epoch(number: int, *, seed: int = 0, accumulate: int = 1) -> list[list[int]]:
        batches = EpochBatches(rows, batch=8, accumulate=accumulate, seed=seed)
        batches.set_epoch(number)
        assert len(list(batches)) == len(batches) == batches.steps * accumulate
        return list(batches)

    first = epoch(0)
    assert len(first) == 26
    assert {len(batch) for batch in first} == {8}
    assert set(Counter(i for batch in first for i in batch)) == set(range(203))
    spread = sorted(max(len(rows[i].ids) for i in b) - min(len(rows[i].ids) for i in b) for b in first)
    # The last batch is filled with rows of any length.
    assert spread[-2] <= 10
    assert first == epoch(0) != epoch(1)
    assert first != epoch(0, seed=1)
    halves = epoch(0, accumulate=2)
    assert [halves[i] + halves[i + 1] for i in range(0, len(halves), 2)] == first


def test_batches_of_two_sources_alternate() -> None:
    """A batch of the second source follows each batch of the first one; the second one starts again when it ends."""
    rows = [*rows_of(*([5] * 24)), *rows_of(*([5] * 8), source=1)]
    batches = EpochBatches(rows, batch=4, accumulate=2, seed=0)
    assert batches.steps == 12
    seen: Counter[int] = Counter()
    for number in range(2):
        batches.set_epoch(number)
        kinds = [{rows[i].source for i in part} for part in batches]
        assert kinds == [{0}, {0}, {1}, {1}] * 6
        seen.update(i for part in batches for i in part)
    assert {seen[i] for i in range(24)} == {2}
    assert {seen[i] for i in range(24, 32)} == {6}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch": 0}, "batch must be at least 1"),
        ({"batch": 10, "accumulate": 4}, "batch=10 cannot be divided into accumulate=4"),
        ({"epochs": float("nan")}, "epochs must be above 0"),
        ({"patience": -1}, "patience and seed must be 0 or more"),
    ],
)
def test_bad_settings(values: dict[str, Any], message: str) -> None:
    """A value that cannot be used is one line that names the setting."""
    with pytest.raises(UsageError, match=message):
        Settings(**values).checked()
