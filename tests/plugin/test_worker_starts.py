"""The start of workers where there are more workers than processors."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops.core.worker_messages import CollectionMetadata
from pytest_llmprops.plugin.collection import report_collection, take_collection
from pytest_llmprops.plugin.distributed import WorkerStarts
from tests.support.runs import Runner

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


class Node:
    """A pytest-xdist node whose worker has been started."""

    def __init__(self, number: int) -> None:
        self.workerinput = {"workerid": f"gw{number}"}
        self.is_closed = False
        self.channel = SimpleNamespace(isclosed=lambda: self.is_closed)


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
        self.join(5)
        return not self.is_alive()


@pytest.mark.parametrize("end", ["collected", "refused", "lost", "taken"])
def test_a_worker_starts_when_an_earlier_one_has_collected_or_ended(end: str, tmp_path: Path) -> None:
    """The third of three workers waits for one of two, which collects, refuses to start, or is lost."""
    starts, [one, two, three] = WorkerStarts(2), [Node(n) for n in range(3)]
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
    assert Start(starts, Node(3), tmp_path).waits


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
