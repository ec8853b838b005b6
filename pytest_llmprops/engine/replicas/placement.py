"""How many replicas a cluster gets, and what each of them reserves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.replicas import Replicas

#: CPU cores of a replica without a GPU; more of them make a small model hardly faster
CPUS = 4


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster. :param cpus: its CPU cores. :param gpus: its GPUs."""

    cpus: float
    gpus: float

    @classmethod
    def alive(cls, nodes: Sequence[Mapping[str, Any]]) -> list[Node]:
        """Return the machines that are alive from Ray's list."""
        resources = [node.get("Resources", {}) for node in nodes if node["Alive"]]
        return [cls(float(own.get("CPU", 0)), float(own.get("GPU", 0))) for own in resources]


@dataclass(frozen=True, slots=True)
class Placement:
    """The replicas of one model.

    :param count: their number. :param gpus: GPUs of each. :param cpus: CPU cores of each.
    """

    count: int
    gpus: float
    cpus: float

    def __str__(self) -> str:
        gpus = f"{self.gpus:g} GPU and " if self.gpus else ""
        return f"{gpus}{self.cpus:g} CPU"

    @property
    def device(self) -> str:
        """The device of models that have the choice."""
        return "cuda" if self.gpus else "cpu"

    def room(self, nodes: Sequence[Node]) -> int:
        """Return how many such replicas fit into empty machines."""
        return sum(self._room_on(node) for node in nodes)

    def _room_on(self, node: Node) -> int:
        by_cpus = int(node.cpus / self.cpus + 1e-9)
        return min(by_cpus, int(node.gpus / self.gpus + 1e-9)) if self.gpus else by_cpus


def place(wanted: Replicas, nodes: Sequence[Node], *, models: int, has_gpu: bool) -> Placement:
    """Return the replicas of one of ``models`` models that share a cluster.

    What the user did not state is chosen: one GPU and one core each if the cluster has GPUs and the model can use
    them, otherwise up to four cores, and as many replicas as fit.

    :raises UsageError: if no machine can take a replica, or there are more models than room.
    """
    cores, devices = max((node.cpus for node in nodes), default=0), sum(node.gpus for node in nodes)
    gpus = (1.0 if has_gpu and devices else 0.0) if wanted.gpus is None else wanted.gpus
    cpus = wanted.cpus or (1.0 if gpus else float(min(CPUS, max(1, cores))))
    one = Placement(1, gpus, cpus)
    room = one.room(nodes)
    if room < models and wanted.count is None and room:
        raise UsageError(
            f"--llm-engine ray: {models} models share a cluster with room for {room} replicas of {one}; state"
            " ?gpus= and ?cpus= of each, such as gpus=0.5"
        )
    if not room:
        most_gpus = max((node.gpus for node in nodes), default=0)
        machines = f"{len(nodes)} machines, with up to {cores:g} CPU and {most_gpus:g} GPU"
        raise UsageError(
            f"--llm-engine ray: a replica needs {one}, and no machine of the cluster has them ({machines}); state"
            " ?gpus= and ?cpus= of the model"
        )
    return Placement(wanted.count or room // models, gpus, cpus)
