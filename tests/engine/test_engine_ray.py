"""Replicas on two machines of a Ray cluster give the verdicts of a local run, also when machines are lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.ray_cluster import ADDER, RayMachines
from tests.support.runs import Finished, Runner

ITEMS = 60
#: two replicas, with a batch each
IN_FLIGHT = 2 * 4
SLOW = "adder?delay=0.05"
RAY = ("--llm-engine", "ray")


@pytest.fixture
def adding(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Return a runner with sums and their model."""
    run.sums(ITEMS)
    run.write("conftest.py", ADDER)
    monkeypatch.setenv("ADDER_LOG", str(tmp_path / "log"))
    return run


@pytest.fixture
def machines(ray_machines: RayMachines, monkeypatch: pytest.MonkeyPatch) -> RayMachines:
    """Return the cluster, which runs find."""
    monkeypatch.setenv("RAY_ADDRESS", ray_machines.address)
    ray_machines.log.unlink(missing_ok=True)
    return ray_machines


def during(work: Callable[[], Finished], action: Callable[[], object]) -> Finished:
    """Return the result of a run, during which an action is done."""
    with ThreadPoolExecutor(1) as thread:
        future: Future[Finished] = thread.submit(work)
        action()
        return future.result()


def given(done: Finished) -> dict[str, tuple[str, str]]:
    """Return the status and the answer of each verdict."""
    return {name: (line["status"], line["given"]) for name, line in done.verdicts.items()}


def test_lost_machine(adding: Runner, machines: RayMachines) -> None:
    """A machine is killed: verdicts and identity are those of a local run, which then needs no further call."""
    machines.have(2)
    # On a slow machine, one replica would answer everything before the other one has started.
    machines.log.with_name("together").write_text("2")

    def kill() -> None:
        machines.wait_for(16)
        machines.kill()

    done = during(lambda: adding("--model", f"{SLOW}&replicas=2", *RAY), kill)
    assert done.code == 1, done.output
    assert sorted({*machines.asked}) == [*range(ITEMS)]
    assert len(machines.asked) <= ITEMS + IN_FLIGHT
    assert "2 of 2 replicas answered, each with 1 CPU, in the Ray cluster at" in done.output
    assert "lost replicas: 1; the replica on" in done.output
    assert "(raylet)" not in done.output
    assert {line["via"] for line in done.requests} == {"ray"}
    local = adding("--model", SLOW)
    assert local.run["calls"]["cache_hits"] == ITEMS
    assert local.run["models"] == done.run["models"]
    assert given(done) == given(local)
    # The model is wrong about every fifth sum.
    assert {answer for _, answer in given(done).values()} == {
        str(n + 1 if n % 5 else n) for n in range(ITEMS)
    }
    assert [status for status, _ in given(done).values()].count("wrong") == ITEMS // 5


def test_client(adding: Runner, machines: RayMachines) -> None:
    """A run reaches the cluster through Ray Client, too."""
    pytest.importorskip("grpc", reason="needs the extra ray")
    machines.have(1)
    done = adding("--model", "adder", "--llm-engine", machines.client, "-n", "2")
    assert done.code == 1, done.output
    assert len(done.verdicts) == ITEMS
    assert f"in the Ray cluster at {machines.client}" in done.output
    assert len(machines.asked) == ITEMS


def test_own_cluster_ends_with_the_run(adding: Runner, tmp_path: Path) -> None:
    """Without a cluster, the run starts one. After Ctrl-C, it is gone and the record is valid."""
    pytest.importorskip("ray", reason="needs the extra ray")
    command = adding.command("--model", f"{SLOW}&cpus=1&replicas=1", *RAY)
    environment = adding.environment() | {"RAY_ADDRESS": "local"}
    process = subprocess.Popen(
        command, cwd=adding.folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    log = tmp_path / "log"
    while not log.exists() or len(log.read_text().splitlines()) < 8:
        assert process.poll() is None
        time.sleep(0.05)
    replica = int(log.read_text().split()[0])
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "INCOMPLETE" in output
    assert not Path(f"/proc/{replica}").exists()
    left = [p for p in Path("/proc").glob("[0-9]*/stat") if f" {process.pid} {process.pid} " in p.read_text()]
    assert not left


def test_cluster_that_cannot_be_reached(adding: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends at once with one line that has the address; here, before its calls are counted."""
    pytest.importorskip("ray", reason="needs the extra ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    done = adding("--model", "adder", *RAY, "--llm-max-calls", "100")
    done.refused("--llm-engine ray: the Ray cluster cannot be used: 127.0.0.1:1 cannot be reached")
