"""All models of a session that a Ray cluster serves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Request
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.engine.calls.queues import BatchQueue, Deliver, Send, WorkerLost
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.replicas.cluster import (
    Cluster,
    Node,
    Placement,
    package_versions,
    place,
    reason,
)
from pytest_llmprops.models.base import Model, Result
from pytest_llmprops.models.registry import find_backend

#: seconds until a replica must have started, and again until it must have loaded the weights and served a batch
REPLICA_START_SECONDS = 1800.0
#: number of replicas that are lost one after the other, without a batch that was served, and still replaced
MOST_LOST = 10
#: seconds in which a cluster must end or be left
CLOSE_SECONDS = 10.0
#: seconds in which a cluster must be joined or started; Ray tries much longer to join one whose head node has ended
START_SECONDS = 120.0
#: seconds between looks at the cluster
LOOK_SECONDS = 5.0
#: seconds in which the cluster must answer; after a minute without its head node, Ray ends this process
ANSWER_SECONDS = 30.0


class Fleet:
    """The replicas of one model: they are started, compared with this machine's model, and replaced when lost.

    :param label: the label of the model. :param model: the model as this machine has it, without its weights.
    """

    def __init__(
        self, cluster: Cluster, placement: Placement, config: BrokerConfig, label: str, model: Model
    ) -> None:
        self.cluster, self._placement, self.timeout = cluster, placement, config.calls.timeout
        # A replica with a GPU finds it by itself, and is refused if it does not.
        device, cpus = "" if placement.gpus else "cpu", max(1, round(placement.cpus))
        options = dataclasses.replace(config.calls, device=device, cpus=cpus)
        self._arguments = (config.models[label], options, config.registrations, str(Path.cwd()))
        self._expected = {**model.identity, **package_versions()}
        self._queue = BatchQueue(model.max_batch)
        #: sends one request to a replica
        self.send: Send = self._queue.send
        #: those that are being started, and those that answer
        self._replicas: set[_Replica] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._machines: list[str] = []
        self._refused: dict[str, None] = {}
        self._lost: list[str] = []
        self.lost_in_a_row = 0
        self._returned = 0

    def start(self, count: int) -> None:
        """Start replicas. Each of them gets batches as soon as it answers."""
        for _ in range(count):
            replica = _Replica(self)
            self._replicas.add(replica)
            task = asyncio.get_running_loop().create_task(self._introduce(replica))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _introduce(self, replica: _Replica) -> None:
        """Start an actor, and use it if its model is that of this machine."""
        try:
            replica.actor = await self.cluster.run(self.cluster.start, self._placement)
            node, found = await within(
                REPLICA_START_SECONDS, replica.actor.introduce.remote(*self._arguments)
            )
            problem = self._problem(node, found)
        except TimeoutError:
            problem = f"a replica did not start within {REPLICA_START_SECONDS:.0f} s; {self._placement} may not be free"
        except Exception as error:
            problem = f"a replica did not start: {reason(error)}"
        if not problem:
            replica.node = node
            self._machines.append(node)
            self._queue.open(replica)
            return
        # Replicas on one machine have the same problem.
        self._refused[problem] = None
        await self._end(replica)
        if not self._replicas:
            self.fail(f"no replica is left; {self._lost[-1]}" if self._lost else next(iter(self._refused)))

    def _problem(self, node: str, there: Mapping[str, Any] | str) -> str:
        """Return why a replica is not used, in one line; empty if it is."""
        who = f"the replica on {node} was refused"
        if isinstance(there, str):
            return f"{who}: {there}"
        for name in {**self._expected, **there}:
            values = [one_line(str(of.get(name, "none")), 80) for of in (there, self._expected)]
            if there.get(name) != self._expected.get(name):
                return f"{who}: {name} is {values[0]} there and {values[1]} here; install the same files and versions"
        return ""

    async def lose(self, replica: _Replica, requests: int, why: str) -> None:
        """Give up a replica, and start another one in its place as soon as there is room."""
        self._lost.append(why)
        self.lost_in_a_row += 1
        self._returned += requests
        await self._end(replica)
        if self.lost_in_a_row <= MOST_LOST:
            self.start(1)
        elif not self._replicas:
            self.fail(f"no replica is left; {why}")

    def look(self, nodes: Sequence[Node]) -> None:
        """End the run if no replica is left, and the cluster's machines have no room for one."""
        if not nodes:
            self.fail("the Ray cluster does not answer: its head node may be lost")
        elif self._lost and not self._placement.room(nodes) and not any(one.node for one in self._replicas):
            self.fail(f"no replica is left; {self._lost[-1]}")

    def fail(self, why: str) -> None:
        """End the run, except for the batches that replicas have."""
        self._queue.fail(BackendError(why, kind="replica", fatal=True))

    async def _end(self, replica: _Replica) -> None:
        self._replicas.discard(replica)
        if replica.actor is not None:
            await self.cluster.run(self.cluster.end, replica.actor)

    def notes(self) -> list[str]:
        """Return notes for the summary."""
        notes = []
        if self._machines:
            count = self._placement.count
            notes.append(
                f"{min(len(self._machines), count)} of {count} replicas answered, each with {self._placement}, in"
                f" {self.cluster.where}, on {', '.join(sorted(set(self._machines)))}"
            )
        if self._lost:
            notes.append(
                f"lost replicas: {len(self._lost)}; {self._lost[-1]}; requests that were asked again: {self._returned}"
            )
        return [*notes, *self._refused]

    async def close(self) -> None:
        """End the replicas."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self._queue.close(), return_exceptions=True)
        for replica in list(self._replicas):
            await self._end(replica)


@dataclass(slots=True, eq=False)
class _Replica:
    """An actor, as a worker of a queue."""

    fleet: Fleet
    actor: Any = None
    #: its machine, once it has answered
    node: str = ""
    has_served: bool = False

    async def serve(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """See :class:`~pytest_llmprops.engine.calls.queues.QueueWorker`."""
        # The first batch loads the weights.
        limit = self.fleet.timeout * len(requests) + (0 if self.has_served else REPLICA_START_SECONDS)
        try:
            results: Sequence[Result] = await within(limit, self.actor.serve.remote(list(requests)))
        except TimeoutError:
            why = f"no answer within {limit:.0f} s (--llm-timeout for each request)"
        except Exception as error:
            why = reason(error)
        else:
            self.has_served, self.fleet.lost_in_a_row = True, 0
            deliver(results)
            return
        why = f"the replica on {self.node} was lost: {why}"
        await self.fleet.lose(self, len(requests), why)
        raise WorkerLost(why)


async def within(seconds: float, reference: Any) -> Any:
    """Return the value of a reference of Ray.

    :raises TimeoutError: if it takes longer.
    """
    # Shielded, because Ray sets the result also after a cancellation.
    return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(reference.future())), seconds)


class Fleets:
    """The replicas of all models; the cluster is looked for at the first request to one of them."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._cluster = Cluster(config.engine)
        self._connecting: asyncio.Task[None] | None = None
        self._placements: dict[str, Placement] = {}
        self._fleets: dict[str, Fleet] = {}
        self._watching: asyncio.Task[None] | None = None

    def __contains__(self, label: str) -> bool:
        return label in self._config.replicas

    async def connect(self) -> None:
        """Connect to the cluster, once, and decide how many replicas each model gets.

        :raises UsageError: if a model cannot have replicas, or the cluster cannot be used or has no room.
        """
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        await asyncio.shield(self._connecting)

    async def _connect(self) -> None:
        # The device is known with the cluster.
        options = dataclasses.replace(self._config.calls, device="cpu")
        replicas = self._config.replicas
        for label in replicas:
            spec = self._config.models[label]
            if not find_backend(spec.backend).factory(spec, options).blocking:
                raise UsageError(
                    f"--llm-engine ray: {spec.text} is not a model that computes in a process of its own, so it has no"
                    " replicas; leave out --llm-engine; for several servers of one model, use --llm-base-url URL,URL"
                )
        try:
            await asyncio.wait_for(self._cluster.run(self._cluster.connect), START_SECONDS)
        except TimeoutError:
            raise UsageError(
                f"--llm-engine {self._config.engine}: no Ray cluster answered or started within {START_SECONDS:.0f} s;"
                " processes of one that has ended may be left: end them with 'ray stop', or set RAY_ADDRESS"
            ) from None
        nodes = await self._cluster.run(self._cluster.nodes)
        for label, wanted in replicas.items():
            backend = find_backend(self._config.models[label].backend)
            self._placements[label] = place(wanted, nodes, models=len(replicas), has_gpu=backend.has_gpu)

    def device(self, label: str) -> str:
        """Return the device of a model's replicas, which is part of its identity."""
        return "cuda" if self._placements[label].gpus else "cpu"

    def start(self, label: str, model: Model) -> Send:
        """Start the replicas of a model, and return the function that sends one request to them.

        :param model: the model as this machine has it; it never loads its weights.
        """
        placement = self._placements[label]
        fleet = self._fleets[label] = Fleet(self._cluster, placement, self._config, label, model)
        fleet.start(placement.count)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        return fleet.send

    async def _watch(self) -> None:
        """End the run when the cluster is lost, while there is time to close its record."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                nodes = await asyncio.wait_for(self._cluster.run(self._cluster.nodes), ANSWER_SECONDS)
            except TimeoutError:
                nodes = []
            for fleet in self._fleets.values():
                fleet.look(nodes)

    def notes(self) -> list[str]:
        """Return notes for the summary."""
        return [f"{label}: {note}" for label, fleet in self._fleets.items() for note in fleet.notes()]

    async def close(self) -> None:
        """End the replicas, and the cluster if this process started it."""
        if self._connecting is None:
            return
        if self._watching is not None:
            self._watching.cancel()
        # Everything is recorded; a cluster that does not answer ends with this process.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                for fleet in self._fleets.values():
                    await fleet.close()
                await self._cluster.run(self._cluster.close)
