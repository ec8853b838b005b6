"""Following a run that another process writes, with the writers that a run uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.records import RecordStatus
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.core.run_metadata import ModelMetadata, PriceFacts
from pytest_llmprops.engine.request_log import RequestLog
from pytest_llmprops.reports.view.following import Follower, Part
from pytest_llmprops.runs.record import RunRecord, first_facts
from tests.support.records import verdict

PRICES = {"small": PriceFacts(1.0, 10.0, "table"), "large": PriceFacts(5.0, 50.0, "table")}


class Written:
    """A run that is being written."""

    def __init__(self, folder: Path, **facts: Any) -> None:
        folder.mkdir(exist_ok=True)
        models = {name: ModelMetadata(name, price=price) for name, price in PRICES.items()}
        facts = {"models": models, "expected": 100, **facts}
        self.folder = folder
        self.record = RunRecord(folder, first_facts(folder, **facts))
        self.log = RequestLog(folder)

    def call(self, key: str, role: str = "subject", **more: Any) -> None:
        """Log a call of 1,000 prompt tokens and 100 reply tokens."""
        self.log.add(role, Chat.user(key), Reply("A", key=key, usage=Usage(1000, 100), **more))
        self.log.flush()

    def case(self, number: int, status: RecordStatus = "correct", model: str = "small", **more: Any) -> None:
        """Log a call and its verdict."""
        self.call(f"{model} {number}", **more)
        self.record.add(verdict("add", number, status, model=model, requests=(f"{model} {number}",)))

    def follower(self) -> Follower:
        """Return a follower that has read nothing yet."""
        return Follower(self.folder, self.record.facts)

    def close(self) -> None:
        """Close the files, as when the process is killed."""
        self.record.close()
        self.log.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    """Return a run of two models in which nothing has happened yet."""
    run = Written(tmp_path / "run")
    yield run
    run.close()


def test_counts_calls_and_cost_follow_the_record(written: Written) -> None:
    """Verdicts by status, calls and cost, in total and by model, are those recorded so far."""
    follower = written.follower()
    assert not follower.advance(10_000, 0.0)
    assert (follower.total.done, follower.total.usd) == (0, 0.0)
    written.case(0)
    written.case(1, "wrong", model="large")
    written.case(2, "error", model="large", cached=True)
    assert not follower.advance(10_000, 1.0)
    assert dict(follower.total.statuses) == {"correct": 1, "wrong": 1, "error": 1}
    # 1,000 * 1 + 100 * 10 USD per million for the small model, five times that for the large one.
    assert follower.total.calls == 2
    assert follower.total.usd == pytest.approx(0.012)
    small, large = follower.parts[Part("small", "sums")], follower.parts[Part("large", "sums")]
    assert [(small.done, small.calls), (large.done, large.calls)] == [(1, 1), (2, 1)]
    assert [small.cost, large.cost] == pytest.approx([0.002, 0.010])


def test_the_cost_in_total_is_that_of_the_finished_run(written: Written) -> None:
    """A batch costs half; a helper has its own price; a helper without a price makes the cost unknown."""
    helper = ModelMetadata("reader", price=PriceFacts(1.0, 0.0, "table"))
    one = Written(
        written.folder.parent / "one",
        models={"small": ModelMetadata(price=PRICES["small"])},
        helpers={"reader": helper},
    )
    follower = one.follower()
    one.call("a", via="batch")
    one.call("b", "reader")
    follower.advance(10_000, 0.0)
    assert follower.total.usd == pytest.approx(0.001 + 0.001)
    one.call("c", "parse")
    follower.advance(10_000, 0.0)
    assert (follower.total.usd, follower.total.calls) == (None, 3)
    one.close()


def test_a_verdict_that_is_recorded_again_replaces_the_first(written: Written) -> None:
    """As in the reader: of several verdicts on one item, the last counts."""
    follower = written.follower()
    written.case(0, "error")
    follower.advance(10_000, 0.0)
    written.record.add(verdict("add", 0, "correct", model="small"))
    follower.advance(10_000, 1.0)
    assert +follower.total.statuses == {"correct": 1}


def test_a_torn_line_is_read_when_it_is_complete(written: Written) -> None:
    """Half a line is neither an error nor a verdict; the whole line counts once."""
    follower = written.follower()
    line = json.dumps(verdict("add", 0, model="small").to_json()) + "\n"
    for part in (line[:40], line[40:]):
        assert follower.total.done == 0
        with (written.folder / "verdicts.jsonl").open("a") as file:
            file.write(part)
        follower.advance(10_000, 0.0)
    assert (follower.total.done, follower.damaged) == (1, 0)


def test_damaged_lines_are_counted_and_named(written: Written) -> None:
    """A line that is not JSON, or no verdict, does not end the following."""
    follower = written.follower()
    with (written.folder / "verdicts.jsonl").open("a") as file:
        file.write('{"model": 1}\nnot JSON\n[]\n')
    (written.folder / "requests.jsonl").write_text(
        '{"key": "a", "role": "subject", "usage": {"prompt_tokens": "1"}}\n'
    )
    written.record.add(verdict("add", 0, model="small"))
    follower.advance(10_000, 0.0)
    assert (follower.total.done, follower.damaged) == (1, 4)
    assert follower.problem == "has a 'model' that is not a string"


def test_a_large_record_is_read_in_parts(written: Written) -> None:
    """Each step reads at most about the given number of bytes, and says whether there is more."""
    for number in range(50):
        written.case(number)
    follower = written.follower()
    steps, done = 0, [0]
    while follower.advance(2000, 0.0):
        steps += 1
        done.append(follower.total.done)
        assert not follower.is_current
    assert steps > 5
    assert done == sorted(done)
    assert (follower.total.done, follower.total.calls, follower.is_current) == (50, 50, True)


def test_a_replaced_or_deleted_record_is_counted_again(written: Written) -> None:
    """A resumed run rewrites its verdicts; a deleted folder has none."""
    follower = written.follower()
    for number in range(5):
        written.case(number, "wrong")
    follower.advance(10_000, 0.0)
    written.record.close()
    kept = written.record.records[:2]
    written.record = RunRecord(written.folder, written.record.facts, kept)
    written.case(7)
    while follower.advance(10_000, 1.0):
        pass
    assert +follower.total.statuses == {"wrong": 2, "correct": 1}
    assert follower.total.calls == 6
    for name in ("verdicts.jsonl", "requests.jsonl"):
        (written.folder / name).unlink()
    while follower.advance(10_000, 2.0):
        pass
    assert (follower.total.done, follower.total.calls, follower.parts) == (0, 0, {})


def test_speed_and_time_left_are_those_of_the_last_seconds(written: Written) -> None:
    """What was recorded before says nothing about the speed; without progress, there is no time left."""
    for number in range(20):
        written.case(number)
    follower = written.follower()
    follower.advance(100_000, 1000.0)
    assert (follower.calls_per_second, follower.seconds_left) == (None, None)
    for second in range(1, 11):
        written.case(20 + 2 * second)
        written.case(21 + 2 * second)
        follower.advance(100_000, 1000.0 + second)
    assert follower.calls_per_second == pytest.approx(2.0)
    # 60 of the 100 cases are left.
    assert follower.seconds_left == pytest.approx(30.0)
    for second in range(11, 60):
        follower.advance(100_000, 1000.0 + second)
    assert (follower.calls_per_second, follower.seconds_left) == (0.0, None)
    assert follower.progress_at == 1010.0


def test_calls_of_several_models_are_counted_when_their_verdict_names_them(written: Written) -> None:
    """Before, it is not known whose price a call has. A verdict may also be read before its call."""
    follower = written.follower()
    written.call("a")
    follower.advance(10_000, 0.0)
    assert (follower.total.calls, follower.total.usd) == (1, 0.0)
    written.record.add(verdict("add", 0, model="large", requests=("a", "b")))
    follower.advance(10_000, 0.0)
    written.call("b")
    follower.advance(10_000, 0.0)
    assert follower.parts[Part("large", "sums")].calls == 2
    assert follower.total.usd == pytest.approx(0.020)
