"""All models of a session that a Ray cluster serves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.lanes import Send
from pytest_llmprops.engine.replicas.cluster import Cluster
from pytest_llmprops.engine.replicas.fleet import Fleet
from pytest_llmprops.engine.replicas.placement import Node, Placement, place
from pytest_llmprops.models.base import Model
from pytest_llmprops.models.registry import find_backend

#: seconds in which a cluster must end or be left
CLOSE_SECONDS = 10.0
#: seconds in which a cluster must be joined or started; Ray tries much longer to join one whose head node has ended
START_SECONDS = 120.0
#: seconds between looks at the cluster
LOOK_SECONDS = 5.0
#: seconds in which the cluster must answer; after a minute without its head node, Ray ends this process
ANSWER_SECONDS = 30.0


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
        options = dataclasses.replace(self._config.options, device="cpu")
        for label in self._config.replicas:
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
        replicas = self._config.replicas
        for label, wanted in replicas.items():
            backend = find_backend(self._config.models[label].backend)
            self._placements[label] = place(wanted, nodes, models=len(replicas), has_gpu=backend.has_gpu)

    def device(self, label: str) -> str:
        """Return the device of a model's replicas, which is part of its identity."""
        return self._placements[label].device

    def start(self, label: str, model: Model) -> Send:
        """Start the replicas of a model, and return the function that sends one request to them.

        :param model: the model as this machine has it; it never loads its weights.
        """
        spec = self._config.models[label]
        placement = self._placements[label]
        # A replica with a GPU finds it by itself, and is refused if it does not.
        options = dataclasses.replace(
            self._config.options,
            device="" if placement.gpus else "cpu",
            cpus=max(1, round(placement.cpus)),
        )
        fleet = Fleet(self._cluster, placement, spec, model, options, self._config.registrations)
        self._fleets[label] = fleet
        fleet.start()
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        return fleet.send

    async def _watch(self) -> None:
        """End the run when the cluster no longer answers, while there is time to close its record."""
        nodes: list[Node] | None = None
        while nodes is None or nodes:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                nodes = await asyncio.wait_for(self._cluster.run(self._cluster.nodes), ANSWER_SECONDS)
            except TimeoutError:
                nodes = []
        for fleet in self._fleets.values():
            fleet.fail("the Ray cluster does not answer: its head node may be lost")

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
            await asyncio.wait_for(self._close(), CLOSE_SECONDS)

    async def _close(self) -> None:
        for fleet in self._fleets.values():
            await fleet.close()
        await self._cluster.run(self._cluster.close)
