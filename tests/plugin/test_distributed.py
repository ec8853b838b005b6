"""The schedule of cases over workers, and the start of workers where there are more than processors."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops.core.worker_messages import CollectionMetadata
from pytest_llmprops.plugin.collection import report_collection, take_collection
from pytest_llmprops.plugin.distributed import BatchScheduling, WorkerStarts
from tests.support.runs import Runner


class Worker:
    """A pytest-xdist worker that notes the cases it is sent."""

    def __init__(self, number: int) -> None:
        self.workerinput = {"workerid": f"gw{number}"}
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.sent: list[int] = []
        self.shutting_down = self.is_closed = False
        self.channel = SimpleNamespace(isclosed=lambda: self.is_closed)

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(cases: int, workers: int) -> tuple[BatchScheduling, list[Worker]]:
    """Return a schedule whose workers have collected and been given their first cases."""
    config: Any = SimpleNamespace(
        getvalue=lambda name: ["popen"] * workers, option=SimpleNamespace(loadscopereorder=True)
    )
    scheduling, nodes = BatchScheduling(config), [Worker(n) for n in range(workers)]
    for node in nodes:
        scheduling.add_node(node)
    for node in nodes:
        scheduling.add_node_collection(node, [f"test_a.py::test_a[{n}]" for n in range(cases)])
    scheduling.schedule()
    return scheduling, nodes


def complete(scheduling: BatchScheduling, node: Worker, cases: list[int]) -> None:
    """Let a worker end cases, as pytest-xdist's controller handles its events."""
    for case in cases:
        assert not scheduling.tests_finished
        scheduling.mark_test_complete(node, case)


def test_each_worker_gets_a_contiguous_share() -> None:
    """The shares cover all cases, and the tests are finished once each worker has at most its last case."""
    scheduling, nodes = scheduled(10, 3)
    assert [node.sent for node in nodes] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    for node in nodes:
        complete(scheduling, node, node.sent[:-1])
    assert scheduling.tests_finished
    assert scheduling.has_pending
    for node in nodes:
        scheduling.mark_test_complete(node, node.sent[-1])
        # a test that is run again ends twice
        scheduling.mark_test_complete(node, node.sent[-1])
    assert not scheduling.has_pending


def test_a_lost_worker_is_replaced() -> None:
    """The cases that a lost worker has not ended go to the worker that replaces it."""
    scheduling, [one, two] = scheduled(8, 2)
    complete(scheduling, one, [0, 1])
    assert scheduling.remove_node(one) == "test_a.py::test_a[2]"
    new = Worker(2)
    scheduling.add_node(new)
    scheduling.add_node_collection(new, [f"test_a.py::test_a[{n}]" for n in range(8)])
    scheduling.schedule()
    assert new.sent == [2, 3]
    complete(scheduling, new, [2, 3])
    complete(scheduling, two, [4, 5, 6])
    assert scheduling.tests_finished


def test_a_worker_with_other_cases_is_refused() -> None:
    """If the workers collect different cases, none is sent, and one line names each function and the fix."""
    reports: list[pytest.CollectReport] = []
    config: Any = SimpleNamespace(
        getvalue=lambda name: ["popen"] * 2,
        hook=SimpleNamespace(pytest_collectreport=lambda report: reports.append(report)),
    )
    scheduling, nodes = BatchScheduling(config), [Worker(n) for n in range(2)]
    for number, node in enumerate(nodes):
        scheduling.add_node(node)
        ordered = ["c::c[1]", "c::c[2]"][:: 1 - 2 * number]
        scheduling.add_node_collection(node, ["a::a[1]", f"b::b[{number}]", *ordered, "d"])
    scheduling.schedule()
    assert [node.sent for node in nodes] == [[], []]
    assert [report.nodeid for report in reports] == ["b::b", "c::c", "gw1"]
    assert "load of a benchmark must return the same items in the same order" in str(reports[0].longrepr)


def seconds(cases: int) -> float:
    """Return the CPU time of the schedule of a whole run: four events per case."""
    begun = time.process_time()
    scheduling, nodes = scheduled(cases, 2)
    for node in nodes:
        for case in node.sent[:-1]:
            for _ in range(4):
                assert not scheduling.tests_finished
            scheduling.mark_test_complete(node, case)
    return time.process_time() - begun


def test_time_per_event_does_not_grow_with_the_cases() -> None:
    """Four times the cases take about four times the CPU time; sixteen times with pytest-xdist's own bookkeeping."""
    ratios = [seconds(12_000) / seconds(3_000) for _ in range(3)]
    assert min(ratios) < 7, f"four times the cases take {ratios} times the CPU time"


# ---- the start of workers

NOTES_PHASES = """
import json, os, pathlib, time

def note(config, phase):
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker is not None:
        with open(pathlib.Path(__file__).with_name("phases.jsonl"), "a") as file:
            file.write(json.dumps([time.monotonic(), worker, phase]) + "\\n")

def pytest_configure(config):
    note(config, "begin")

def pytest_collection_modifyitems(config):
    note(config, "end")
"""


class Start(threading.Thread):
    """Begins the start of a worker in a thread, which may wait."""

    def __init__(self, starts: WorkerStarts, node: Any, run_dir: Path) -> None:
        super().__init__(target=starts.begin, args=(node, run_dir), daemon=True)
        self.start()

    @property
    def waits(self) -> bool:
        """True if the start is still not begun after a moment."""
        self.join(0.1)
        return self.is_alive()

    @property
    def has_begun(self) -> bool:
        """True if the start begins soon."""
        self.join(60)
        return not self.is_alive()


@pytest.mark.parametrize("end", ["collected", "refused", "lost", "taken"])
def test_a_worker_starts_when_an_earlier_one_has_collected_or_ended(end: str, tmp_path: Path) -> None:
    """The third of three workers waits for one of two, which collects, refuses to start, or is lost."""
    starts, [one, two, three] = WorkerStarts(2), [Worker(n) for n in range(3)]
    starts.begin(one, tmp_path)
    starts.begin(two, tmp_path)
    third = Start(starts, three, tmp_path)
    assert third.waits
    if end == "lost":
        two.is_closed = True
    elif end == "taken":
        starts.end(two)
    else:
        facts = CollectionMetadata(cases=1, items=1) if end == "collected" else None
        report_collection(tmp_path, "gw1", facts)
    assert third.has_begun
    assert Start(starts, Worker(3), tmp_path).waits


def test_the_report_of_a_worker_that_refused_to_start_has_no_facts(tmp_path: Path) -> None:
    """The controller reads no collection from it, and removes it."""
    report_collection(tmp_path, "gw0", None)
    assert take_collection(tmp_path, "gw0") is None
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="sets the processors of a process")
def test_workers_start_one_after_another_on_one_processor(run: Runner) -> None:
    """Each of three workers begins after the one before has collected, and all cases are run."""
    run.sums(12)
    run.write("conftest.py", NOTES_PHASES)
    run.fresh = True
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        done = run("--model", run.adder, "-n", "3")
    finally:
        os.sched_setaffinity(0, processors)
    assert len(done.verdicts) == 12, done.output
    lines = (run.folder / "phases.jsonl").read_text(encoding="utf-8").splitlines()
    phases = [(worker, phase) for _, worker, phase in sorted(map(json.loads, lines))]
    assert phases == [(f"gw{n}", phase) for n in range(3) for phase in ("begin", "end")]
