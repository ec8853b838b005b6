"""The schedule of cases over workers, and the start of workers where there are more than processors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops.plugin.control.workers import ShareScheduling
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


def test_each_worker_gets_a_contiguous_share() -> None:
    """The shares cover all cases, and the tests are finished once each worker has at most its last case."""
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"] * 3)
    scheduling, nodes = ShareScheduling(config), [Worker(n) for n in range(3)]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, [f"test_a.py::test_a[{n}]" for n in range(10)])
    scheduling.schedule()
    assert [node.sent for node in nodes] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    for node in nodes:
        for case in node.sent[:-1]:
            assert not scheduling.tests_finished
            scheduling.mark_test_complete(node, case)
    assert scheduling.tests_finished
    assert scheduling.has_pending
    for node in nodes:
        scheduling.mark_test_complete(node, node.sent[-1])
        # a test that is run again ends twice
        scheduling.mark_test_complete(node, node.sent[-1])
    assert not scheduling.has_pending


def test_a_worker_with_other_cases_is_refused() -> None:
    """If the workers collect different cases, none is sent, and one line names each function and the fix."""
    reports: list[pytest.CollectReport] = []
    config: Any = SimpleNamespace(
        getvalue=lambda name: ["popen"] * 2,
        hook=SimpleNamespace(pytest_collectreport=lambda report: reports.append(report)),
    )
    scheduling, nodes = ShareScheduling(config), [Worker(n) for n in range(2)]
    for number, node in enumerate(nodes):
        scheduling.add_node(node)
        ordered = ["c::c[1]", "c::c[2]"][:: 1 - 2 * number]
        scheduling.add_node_collection(node, ["a::a[1]", f"b::b[{number}]", *ordered, "d"])
    scheduling.schedule()
    assert [node.sent for node in nodes] == [[], []]
    assert [report.nodeid for report in reports] == ["b::b", "c::c"]
    assert "load of a benchmark must return the same items in the same order" in str(reports[0].longrepr)


TWO_PROCESSORS = """
import pytest_llmprops.plugin.control.workers as distributed
distributed.usable_processors = lambda: 2
"""


def test_more_workers_than_processors_are_not_started(run: Runner) -> None:
    """Cases wait for the model, not for a processor; one line says how many workers start."""
    run.sums(12)
    run.write("conftest.py", TWO_PROCESSORS)
    done = run("--model", run.adder, "-n", "3")
    assert len(done.verdicts) == 12, done.output
    assert "llmprops: -n 3: starts 2 workers, one per processor; cases wait for the model" in done.output
    assert "2 workers [12 items]" in done.output
    assert "llmprops: -n" not in run("--model", run.adder, "-n", "2").output


LOST = """
import os

def pytest_collection_modifyitems(config):
    if getattr(config, "workerinput", {}).get("workerid") == "gw0":
        os._exit(3)
"""


def test_worker_that_is_lost_before_the_calls_are_counted_ends_the_run(run: Runner) -> None:
    """Nothing is sent, and one line says why."""
    run.sums(4)
    run.write("conftest.py", LOST)
    done = run("--model", run.adder, "-n", "2", "--llm-max-calls", "9")
    assert done.code == 4
    assert "ERROR: the calls of the run could not be counted: the worker was lost" in done.output
    assert not (done.folder / "run.json").exists()
