"""Replicas: where they run, which of them are used, and what happens to the batches of lost ones; without Ray."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.calls.queues import MOST_LOSSES, BatchQueue, Deliver, ThreadWorker, WorkerLost
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.replicas import fleets as fleets_module
from pytest_llmprops.engine.replicas.cluster import Node, Placement, Replica, place
from pytest_llmprops.engine.replicas.fleets import MOST_LOST, Fleet
from pytest_llmprops.models import registry
from pytest_llmprops.models.spec import ModelSpec, Replicas, split_replicas
from tests.support.engine_models import Local, ask_all, config_of, kinds

ONE = Placement(1, 0, 1)


class Reference:
    """What a call of an actor returns at once."""

    def __init__(self, future: Future[Any]) -> None:
        self.future = lambda: future


class Method:
    """A method of an actor, which runs in a thread."""

    def __init__(self, thread: ThreadPoolExecutor, call: Callable[..., Any]) -> None:
        self.remote = lambda *args: Reference(thread.submit(call, *args))


class Actor:
    """A replica in a thread; the calls of ``serve`` after ``lives`` fail as those of a lost actor do."""

    def __init__(self, lives: float) -> None:
        self._replica, self._lives = Replica(), lives
        thread = ThreadPoolExecutor(1)
        self.introduce, self.serve = Method(thread, self._replica.introduce), Method(thread, self._serve)

    def _serve(self, requests: Sequence[Chat]) -> Any:
        self._lives -= 1
        if self._lives < 0:
            raise ConnectionError("gone\nwith advice")
        return self._replica.serve(requests)


class Machines:
    """A cluster of threads. :param lives: number of batches that each actor serves before it is lost."""

    where = "a test"

    def __init__(self, *lives: float, then: float = float("inf"), cores: float = 4) -> None:
        self._lives, self._then, self.cores = list(lives), then, cores
        self.started = 0

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def connect(self) -> None:
        pass

    close = connect

    def nodes(self) -> list[Node]:
        return [Node(self.cores, 0)]

    def start(self, placement: Placement) -> Any:
        self.started += 1
        if self.started > 1 and not self.cores:
            # Ray starts an actor when there is room.
            return SimpleNamespace(introduce=SimpleNamespace(remote=lambda *args: Reference(Future())))
        return Actor(self._lives.pop(0) if self._lives else self._then)

    def end(self, actor: Any) -> None:
        pass


def served(
    machines: Machines,
    requests: int,
    *,
    placement: Placement = ONE,
    there: Callable[[], Local] = Local,
    timeout: float = 60,
) -> tuple[list[Any], list[str]]:
    """Return the results of prompts "0", "1", ... and the notes of the fleet."""
    registry.registered["own"] = (registry.Backend(lambda *_: there, registry.always("chat")), "")

    async def work() -> tuple[list[Any], list[str]]:
        config = config_of({"m": ModelSpec("own", "own", "own")}, timeout=timeout)
        fleet = Fleet(machines, placement, config, "m", Local())  # type: ignore[arg-type]
        fleet.start(placement.count)

        async def watch() -> None:
            while True:
                await asyncio.sleep(0.01)
                fleet.look(machines.nodes())

        watching = asyncio.create_task(watch())
        sent = asyncio.gather(*(fleet.send(Chat.user(str(n))) for n in range(requests)))
        results = await asyncio.wait_for(sent, 60)
        notes = fleet.notes()
        watching.cancel()
        await fleet.close()
        return list(results), notes

    return asyncio.run(work())


@pytest.fixture(autouse=True)
def _own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", {})
    monkeypatch.setattr(fleets_module, "LOOK_SECONDS", 0.01)


def texts(results: Sequence[Any]) -> list[str]:
    """Return the texts of replies, and the messages of errors."""
    return [result.text if isinstance(result, Reply) else str(result) for result in results]


def test_replies_say_that_a_replica_computed_them() -> None:
    """Replies come back in order with their thoughts, marked with their engine."""

    def thinking() -> Local:
        return Local(serve=lambda prompts: [Reply(prompt, reasoning=f"so {prompt}") for prompt in prompts])

    results, notes = served(Machines(), 10, placement=Placement(3, 0, 1), there=thinking)
    assert texts(results) == [str(n) for n in range(10)]
    assert [result.reasoning for result in results] == [f"so {n}" for n in range(10)]
    assert {result.via for result in results} == {"ray"}
    # Some may answer after all requests are served.
    assert " of 3 replicas answered, each with 1 CPU, in a test, on " in notes[0]


def test_lost_batch_is_asked_again() -> None:
    """The batch of a lost replica goes to another one, which takes its place."""
    machines = Machines(1)
    results, notes = served(machines, 12)
    assert texts(results) == [str(n) for n in range(12)]
    assert machines.started == 2
    assert "lost replicas: 1; the replica on " in notes[1]
    assert notes[1].endswith("was lost: gone; requests that were asked again: 4")


def test_no_room_for_another_replica() -> None:
    """If no machine is left, all requests fail with one line that ends the run."""
    machines = Machines(1, cores=0)
    results, _ = served(machines, 12)
    assert texts(results[:4]) == ["0", "1", "10", "11"] or len({*texts(results)}) == 5
    errors = [result for result in results if isinstance(result, BackendError)]
    assert len(errors) == 8
    assert all(e.fatal and e.message.startswith("no replica is left; the replica on") for e in errors)


def test_request_that_ends_replicas_is_an_error() -> None:
    """A request is asked a few times; then it is an error of its item, and the others go on."""
    results, _ = served(Machines(0, 0, 0), 8)
    errors = [result for result in results if isinstance(result, BackendError)]
    assert 0 < len(errors) <= 4
    assert not errors[0].fatal
    assert errors[0].message.startswith(
        f"{MOST_LOSSES} replicas ended while they served this request; the replica"
    )


def test_replicas_that_always_end_are_not_replaced_forever() -> None:
    """After some replicas in a row that served nothing, the run ends."""
    machines = Machines(then=0)
    results, _ = served(machines, 100)
    assert machines.started == MOST_LOST + 1
    assert any(result.fatal for result in results)


def test_slow_batch_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that does not answer in time is lost."""
    monkeypatch.setattr(fleets_module, "REPLICA_START_SECONDS", 0.2)

    def slow() -> Local:
        def serve(prompts: list[str]) -> list[Reply]:
            time.sleep(2)
            return [Reply(prompt) for prompt in prompts]

        return Local(serve=serve)

    results, notes = served(Machines(), 1, there=slow, timeout=0.01)
    assert "ended while they served this request" in results[0].message
    assert "no answer within 0 s (--llm-timeout for each request)" in notes[1]


class Other(Local):
    """A model with other files."""

    identity = {"backend": "local", "files_sha256": "b" * 64}


def lacking() -> Local:
    """Fail as on a machine without the model's file."""
    raise UsageError("no such file:\nx.gguf")


def test_unusable_replica_is_refused() -> None:
    """A replica with another identity, or that cannot create its model, gets no request; one line says why."""
    other = f"files_sha256 is {'b' * 64} there and none here; install the same files and versions"
    makers: list[tuple[Callable[[], Local], str]] = [(Other, other), (lacking, "no such file: x.gguf")]
    for there, said in makers:
        results, [line] = served(Machines(), 2, there=there)
        assert line.endswith(f"was refused: {said}")
        assert texts(results) == [line] * 2
        assert results[0].fatal


def test_head_node_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that no longer answers ends the run, although its replicas still run."""
    monkeypatch.setattr(fleets_module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(fleets_module, "ANSWER_SECONDS", 0.05)

    class Headless(Machines):
        """Answers once, when the run starts."""

        looks = 0

        async def run(self, function: Callable[..., Any], *args: Any) -> Any:
            self.looks += function == self.nodes
            return await asyncio.sleep(60) if self.looks > 1 else function(*args)

    def slow(prompts: list[str]) -> list[Reply]:
        time.sleep(0.2)
        return [Reply(prompt) for prompt in prompts]

    monkeypatch.setattr(fleets_module, "Cluster", lambda address: Headless())
    monkeypatch.setattr(fleets_module, "CLOSE_SECONDS", 0.05)
    registry.register_model("own", lambda spec, options: Local(serve=slow))
    models = {"m": registry.parse_spec("own")}
    broker = LocalBroker(BrokerConfig(models, cache="off", engine="ray", replicas={"m": Replicas(1)}))
    asked = ask_all(broker, map(str, range(40)))
    assert kinds([asked.results[0], asked.results[39]]) == ["reply", "stopped"]
    assert asked.broker.stopped == "m: the Ray cluster does not answer: its head node may be lost"


def test_cancelled_requests_of_a_lost_batch_are_dropped() -> None:
    """Requests that nobody waits for are not asked again."""
    other = Local()

    class Ending:
        async def serve(self, requests: Sequence[Any], deliver: Deliver) -> None:
            await asyncio.sleep(0.02)
            raise WorkerLost("gone")

    async def work() -> None:
        lane = BatchQueue(8, [Ending()])
        tasks = [asyncio.create_task(lane.send(Chat.user(str(n)))) for n in range(2)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        lane.open(ThreadWorker(lambda requests: [other.chat(requests)]))  # type: ignore[arg-type]
        assert (await tasks[1]).text == "1"  # type: ignore[union-attr]

    asyncio.run(work())
    assert other.batches == [["1"]]


GPUS = [Node(16, 8), Node(16, 0)]


@pytest.mark.parametrize(
    ("wanted", "nodes", "has_gpu", "expected"),
    [
        (Replicas(), GPUS, True, Placement(8, 1, 1)),
        (Replicas(), GPUS, False, Placement(8, 0, 4)),
        (Replicas(gpus=0.5), GPUS, False, Placement(16, 0.5, 1)),
        (Replicas(count=2, gpus=4), GPUS, True, Placement(2, 4, 1)),
        (Replicas(), [Node(0, 0), Node(2, 0)], True, Placement(1, 0, 2)),
        # More than fit: they start when there is room.
        (Replicas(count=9), [Node(2, 0)], True, Placement(9, 0, 2)),
    ],
)
def test_placement(wanted: Replicas, nodes: list[Node], has_gpu: bool, expected: Placement) -> None:
    """One replica per GPU, otherwise as many as the cores allow; what the user states is kept."""
    assert place(wanted, nodes, models=1, has_gpu=has_gpu) == expected


def test_no_room() -> None:
    """A replica that fits nowhere is one line, before it is started."""
    for wanted, models, message in (
        (Replicas(cpus=17), 1, "up to 16 CPU and 8 GPU"),
        (Replicas(), 9, "9 models need replicas with 1 GPU and 1 CPU, and the cluster has room for 8"),
    ):
        with pytest.raises(UsageError, match=message):
            place(wanted, GPUS, models=models, has_gpu=True)


def test_parameters_of_replicas_are_no_part_of_the_model() -> None:
    """The rest of the specification, its label and its parameters are those without replicas."""
    spec, replicas = split_replicas(registry.parse_spec("hf:models/x?gpus=0.5&dtype=auto&replicas=3&cpus=2"))
    assert spec == registry.parse_spec("hf:models/x?dtype=auto")
    assert replicas == Replicas(3, 0.5, 2)
    assert split_replicas(registry.parse_spec("smollm2?replicas=1"))[0] == registry.parse_spec("smollm2")
    assert split_replicas(spec) == (spec, None)
    for wrong in ("replicas=1.5", "gpus=-1", "cpus=nan"):
        with pytest.raises(UsageError, match=f"smollm2.*{wrong.partition('=')[0]} must be"):
            split_replicas(registry.parse_spec(f"smollm2?{wrong}"))
