"""Items with the status ``untested``: counted apart, in no denominator, in no pair, and no error."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.runs.pairs import IN_ERROR, pair_items, pairs_of
from pytest_llmprops.runs.summary import summary_rows
from tests.support.records import verdict


def test_untested_items_are_in_no_denominator() -> None:
    """The accuracy is over the answered items; the counts add up to the samples."""
    statuses: tuple[RecordStatus, ...] = ("correct", "wrong", "untested", "untested", "error")
    [row] = summary_rows([verdict("t", n, status=status) for n, status in enumerate(statuses)])
    assert (row.items, row.answered, row.accuracy) == (5, 2, 0.5)
    assert (row.correct, row.wrong, row.untested, row.errors) == (1, 1, 2, 1)


def test_untested_items_are_in_no_pair() -> None:
    """An item that one run could not decide is left out; only an error is a fault."""
    before = [verdict("t", n, status="correct") for n in range(4)]
    statuses: tuple[RecordStatus, ...] = ("wrong", "untested", "error", "correct")
    after = [replace(record, status=status) for record, status in zip(before, statuses, strict=True)]
    items = pair_items(before, after)
    assert [(pair.key.id, pair.baseline, pair.candidate) for pair in pairs_of(items)] == [
        (before[0].id, 1.0, 0.0), (before[3].id, 1.0, 1.0),
    ]  # fmt: skip
    assert {item.key.id: item.fault for item in items if item.fault} == {before[2].id: IN_ERROR}
