"""What the page shows of all runs, what changes from step to step, and how one run is followed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.engine.broker.request_log import RequestLog
from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.reports.site.live import Follower, Part, Watch
from pytest_llmprops.runs.record import RunRecord, first_facts
from pytest_llmprops.runs.summary import summary_rows
from tests.support.records import recorded, verdict, verdicts

Begin = Callable[..., RunRecord]


@pytest.fixture
def begun() -> Iterator[Begin]:
    """Return a function that begins the record of a run in a folder; the files are closed at the end."""
    records: list[RunRecord] = []

    def begin(folder: Path, expected: int | None = 4, models: Sequence[str] = ("model",)) -> RunRecord:
        folder.mkdir()
        facts = first_facts(folder, models={m: ModelMetadata(spec=m) for m in models}, expected=expected)
        records.append(RunRecord(folder, facts))
        return records[-1]

    yield begin
    for record in records:
        record.close()


def only(watch: Watch) -> Any:
    """Take a step, and return the only row."""
    watch.step()
    [row] = watch.rows
    return row


def test_a_run_from_its_beginning_to_its_end(tmp_path: Path, begun: Begin) -> None:
    """A run appears, makes progress and finishes; one that had finished before is not followed.

    Controls do not count in the accuracy, as in the figure of the finished run.
    """
    watch = Watch([tmp_path])
    watch.step()
    assert watch.rows == []
    record = begun(tmp_path / "run")
    row = only(watch)
    assert (row["state"], row["progress"]["done"]) == ("running", "0")
    for number, status in enumerate(("correct", "error")):
        record.add(verdict("asked", number, status, benchmark="homophones"))  # type: ignore[arg-type]
    for number in range(2):
        record.add(verdict("context_only", number, "wrong", benchmark="homophones"))
    row = only(watch)
    assert row["progress"] == {
        "done": "4", "expected": "4", "share": 1.0, "calls": "0 calls", "speed": "", "left": "",
    }  # fmt: skip
    assert (row["counts"], row["cost"]) == ({"Correct": "1", "Wrong": "2", "Errors": "1"}, "no calls")
    assert [part["accuracy"] for part in row["parts"]] == ["100.0%"]
    record.finish(replace(record.facts, complete=True, summary=summary_rows(record.records)))
    row = only(watch)
    assert (row["state"], row["progress"]["done"], row["parts"][0]["accuracy"]) == ("complete", "4", "100.0%")
    later = Watch([tmp_path])
    later.step()
    assert later.rows == []


def test_a_run_that_stalls_and_is_killed_says_so_and_how_to_go_on(tmp_path: Path, begun: Begin) -> None:
    """A process that ended without the last run.json has no lock on the verdicts any more."""
    now = [0.0]
    watch = Watch([tmp_path], clock=lambda: now[0])
    record = begun(tmp_path / "run")
    record.add(verdict("add", 0))
    watch.step()
    now[0] = 90.0
    assert only(watch)["remarks"] == ["No progress for 1.5 minutes."]
    record.close()
    row = only(watch)
    assert (row["state"], row["command"]) == ("killed", f"llmprops run --resume {tmp_path / 'run'}")
    assert "Ended without finishing (killed?): 1 of 4 cases have a verdict." in row["remarks"]


def test_a_replaced_run_is_followed_anew_and_a_deleted_one_is_gone(tmp_path: Path, begun: Begin) -> None:
    """A folder of the same name with another run is another run; an unknown number of cases has no share."""
    watch = Watch([tmp_path])
    record = begun(tmp_path / "run")
    record.add(verdict("add", 0))
    watch.step()
    record.close()
    for expected, shown in ((9, "9"), (None, None), (0, None)):
        shutil.rmtree(tmp_path / "run")
        begun(tmp_path / "run", expected=expected)
        watch.step()
        progress = only(watch)["progress"]
        assert progress["done"] == "0"
        assert (progress["expected"] == "9", progress["share"]) == ((True, 0.0) if shown else (False, None))
    shutil.rmtree(tmp_path / "run")
    watch.step()
    assert watch.rows == []


def test_the_runs_of_the_page_are_those_that_ended(tmp_path: Path, begun: Begin) -> None:
    """The page is written again when the record of a run that has ended changed."""
    watch = Watch([tmp_path])
    done = recorded(tmp_path / "done", verdicts("add", 1, 0))
    begun(tmp_path / "run")
    watch.step()
    before = watch.ended
    assert before.keys() == {done}
    (done / "run.json").write_text((done / "run.json").read_text() + " ")
    watch.step()
    assert watch.ended != before or watch.ended[done] is not before[done]


def test_hostile_names_are_spelled_out_and_cut(tmp_path: Path, begun: Begin) -> None:
    """Names and texts of a record cannot hide text or reorder the page."""
    hostile = "\x1b[2J\u202e<script>alert(1)</script>" + "x" * 500
    begun(tmp_path / "\u202eevil").add(verdict("add", 0, model=hostile, benchmark=hostile))
    row = only(Watch([tmp_path]))
    texts = [row["name"], *row["remarks"], row["parts"][0]["benchmark"], row["parts"][0]["model"]]
    assert row["name"] == "[U+202E]evil"
    assert not any(set("\x1b\u202e") & set(text) or len(text) > 400 for text in texts)


def test_records_that_cannot_be_read_hide_no_other_run(tmp_path: Path, begun: Begin) -> None:
    """Neither a damaged run.json, nor fields of other types, nor a folder in place of a file ends the page."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    changes: list[dict[str, Any]] = [
        {"started": 5}, {"expected": "many"}, {"summary": [{}]}, {"gate": {"decision": 3}},
        {"finished": None, "expected": "many"}, {"finished": None, "models": {"model": {"price": 1}}},
        {"calls": {"cost_usd": 1e400}}, {"remarks": [{}]}, {"schema": 99},
    ]  # fmt: skip
    for n, change in enumerate(changes):
        damaged = recorded(tmp_path / f"damaged-{n}", verdicts("add", 1, 0))
        facts = json.loads((damaged / "run.json").read_text())
        (damaged / "run.json").write_text(json.dumps({**facts, **change}))
    begun(tmp_path / "run")
    (tmp_path / "run" / "requests.jsonl").mkdir()
    watch = Watch([tmp_path])
    watch.step()
    assert len(watch.runs) == len(changes) + 2
    assert watch.ended[tmp_path / "bad"] == (
        f"{tmp_path}/bad/run.json: is damaged (not JSON); restore it or measure again"
    )
    [row] = [row for row in watch.rows if row["name"] == "run"]
    assert row["state"] == "running"
    assert any("only regular files are read" in text for text in row["remarks"])


class Written:
    """A run that is being written."""

    def __init__(self, record: RunRecord, folder: Path) -> None:
        self.record, self.folder, self.log = record, folder, RequestLog(folder)

    def case(self, number: int, status: RecordStatus = "correct", model: str = "small", **more: Any) -> None:
        """Log a call of 0.002 USD and its verdict."""
        key, cost = f"{model} {number}", more.pop("cost", 0.002)
        reply = Reply("A", key=key, usage=Usage(1000, 100), **more)
        self.log.add("subject", Chat.user(key), reply, model=model, cost=cost)
        self.log.flush()
        self.record.add(verdict("add", number, status, model=model, requests=(key,)))

    def follower(self) -> Follower:
        """Return a follower that has read nothing yet."""
        return Follower(self.folder, self.record.facts)

    def close(self) -> None:
        """Close the files, as when the process is killed."""
        self.record.close()
        self.log.close()


@pytest.fixture
def written(tmp_path: Path, begun: Begin) -> Iterator[Written]:
    """Return a run of two models in which nothing has happened yet."""
    record = begun(tmp_path / "run", expected=100, models=("small", "large"))
    run = Written(record, tmp_path / "run")
    yield run
    run.close()


def test_counts_calls_and_cost_follow_the_record(written: Written) -> None:
    """Verdicts by status and part, and what the run paid for calls, are those recorded so far."""
    follower = written.follower()
    assert not follower.advance(10_000, 0.0)
    assert (follower.done, follower.cost_text) == (0, "no calls")
    written.case(0)
    written.case(1, "wrong", model="large", cost=0.01)
    written.case(2, "error", model="large", cached=True, cost=None)
    assert not follower.advance(10_000, 1.0)
    assert dict(follower.statuses) == {"correct": 1, "wrong": 1, "error": 1}
    assert (follower.calls, follower.cost_text) == (2, "0.0120 USD")
    assert follower.parts == {
        Part("small", "sums"): {"add": {"correct": 1}},
        Part("large", "sums"): {"add": {"wrong": 1, "error": 1}},
    }
    # A reply that is not used was paid for; an estimate is marked; without a price, the cost is unknown.
    written.log.add_discarded(Reply(usage=Usage(10, 5, estimated=True)), "small", 0.25)
    written.log.flush()
    follower.advance(10_000, 2.0)
    assert (follower.calls, follower.cost_text) == (3, "≈0.2620 USD")
    written.case(3, cost=None)
    follower.advance(10_000, 3.0)
    assert follower.cost_text == "cost unknown"


def test_replaced_and_damaged_lines(written: Written) -> None:
    """Of several verdicts on one item, the last counts; a line that is not a verdict is counted and named."""
    follower = written.follower()
    written.case(0, "error")
    follower.advance(10_000, 0.0)
    with (written.folder / "verdicts.jsonl").open("a") as file:
        file.write('{"model": 1}\nnot JSON\n[]\n')
    with (written.folder / "requests.jsonl").open("a") as file:
        file.write('{"key": "a", "role": "subject", "usage": {"prompt_tokens": "1"}}\n')
    written.record.add(verdict("add", 0, model="small"))
    follower.advance(10_000, 1.0)
    assert +follower.statuses == {"correct": 1}
    assert (follower.done, follower.damaged) == (1, 4)
    assert follower.problem == "has a 'model' that is not a string"


def test_a_large_record_is_read_in_parts(written: Written) -> None:
    """Each step reads at most about the given number of bytes, and says whether there is more."""
    for number in range(50):
        written.case(number)
    follower = written.follower()
    steps, done = 0, [0]
    while follower.advance(2000, 0.0):
        steps += 1
        done.append(follower.done)
        assert not follower.is_current
    assert steps > 5
    assert done == sorted(done)
    assert (follower.done, follower.calls, follower.is_current) == (50, 50, True)


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
    assert +follower.statuses == {"wrong": 2, "correct": 1}
    assert follower.calls == 6
    for name in ("verdicts.jsonl", "requests.jsonl"):
        (written.folder / name).unlink()
    while follower.advance(10_000, 2.0):
        pass
    assert (follower.done, follower.calls, follower.parts) == (0, 0, {})


def test_speed_and_time_left_are_those_of_the_last_seconds(written: Written) -> None:
    """What was recorded before says nothing about the speed; without progress, there is no time left."""
    for number in range(20):
        written.case(number)
    follower = written.follower()
    follower.advance(100_000, 1000.0)
    assert (follower.rates, follower.seconds_left) == (None, None)
    for second in range(1, 11):
        written.case(20 + 2 * second)
        written.case(21 + 2 * second)
        follower.advance(100_000, 1000.0 + second)
    assert follower.rates == pytest.approx((2.0, 2.0))
    # 60 of the 100 cases are left.
    assert follower.seconds_left == pytest.approx(30.0)
    for second in range(11, 60):
        follower.advance(100_000, 1000.0 + second)
    assert (follower.rates, follower.seconds_left) == ((0.0, 0.0), None)
    assert follower.progress_at == 1010.0
