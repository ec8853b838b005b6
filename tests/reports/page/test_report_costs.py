"""The report's section on tokens, time and cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.reports.kit.blocks import Figure, Section, Table
from pytest_llmprops.reports.page.content import percentile, report_on
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.records import exchange, recorded, verdict

HEADINGS = [
    "Task",
    "Model",
    "Calls",
    "Prompt tokens",
    "Reply tokens",
    "p50, s",
    "p95, s",
    "USD",
    "USD per 1,000 items",
]


def run(folder: Path, model: str, price: float | None) -> Path:
    """Return a run of two items with three calls: one is shared, one came in a batch at half the price."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    requests = [
        exchange("shared", "p", "r", usage=usage, seconds=1.0),
        exchange("one", "p", "r", usage=usage, seconds=2.0),
        exchange("two", "p", "r", usage=usage, seconds=4.0, via="batch"),
    ]
    records = [
        verdict("add", 0, model=model, requests=["shared", "one"]),
        verdict("add", 1, "wrong", model=model, requests=["shared", "two"]),
    ]
    known = {} if price is None else {"price": {"input": price, "output": 10 * price, "source": "2026-01-01"}}
    return recorded(folder / model, records, requests=requests, models={model: {"spec": model, **known}})


def section(*folders: Path) -> Section:
    """Return the section of the report on these runs."""
    runs = [read_run(folder) for folder in folders]
    return report_on(runs, {id(run): read_requests(run.folder) for run in runs}).sections[-1]


def test_cost_and_time_by_task(tmp_path: Path) -> None:
    """A call that items share counts once, a batch costs half, and an unknown price is a dash."""
    found = section(run(tmp_path, "a", 5.0), run(tmp_path, "b", None))
    [table] = [block for block in found.blocks if isinstance(block, Table)]
    assert [name for name, _ in table.columns] == HEADINGS
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows[0] == ["add", "a", "3", "3,000", "300", "2.00", "4.00", "0.025", "12.50"]
    assert rows[1] == ["add", "b", "3", "3,000", "300", "2.00", "4.00", "–", "–"]
    assert table.rows[0][0].items == {"benchmark": "sums", "task": "add", "series": "0"}
    assert found.about == "6 recorded calls."


def test_accuracy_against_cost_needs_two_prices(tmp_path: Path) -> None:
    """The figure has the series with a known price, if there are at least two."""
    figures = [
        [block.name for block in section(run(tmp_path / str(n), "a", 5.0), run(tmp_path / str(n), "b", price)).blocks
         if isinstance(block, Figure)]
        for n, price in enumerate((1.0, None))
    ]  # fmt: skip
    assert figures == [["sums-cost"], []]


def test_a_run_without_recorded_calls_has_no_section(tmp_path: Path) -> None:
    """An imported run shows nothing about cost."""
    assert section(recorded(tmp_path / "run", [verdict("add", 0)])).title != "Cost and time"


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.95, 4), (0.25, 1), (0.26, 2)])
def test_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    """At least this share of the values is not above the percentile."""
    assert percentile([4, 1, 3, 2], share) == expected
    assert percentile([], share) is None
