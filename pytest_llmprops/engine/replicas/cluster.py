"""The connection to a Ray cluster: one that exists, or one of this process's own."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, TypeVar

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.faults import fault_line
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.engine.calls.queues import served_batch
from pytest_llmprops.engine.event_loop import DaemonThread
from pytest_llmprops.models.base import CallOptions, Model, Result
from pytest_llmprops.models.registry import find_backend, import_registrations
from pytest_llmprops.models.spec import ModelSpec, Replicas

VIA = "ray"
#: the packages that compute replies or the code that calls them
_PACKAGES = ("pytest-llmprops", "torch", "transformers", "tokenizers", "xllamacpp", "stanza", "spacy")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that affect replies; "none" for those that are not installed.

    The local part of a version is left out: builds of torch for CPUs and GPUs differ in it, and the device is part of a
    model's identity.
    """
    versions = dict.fromkeys(_PACKAGES, "none")
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name).partition("+")[0]
    return versions


class Replica:
    """A model in a process of a Ray cluster, whose machines import this module. Methods are called one at a time."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def introduce(
        self, spec: ModelSpec, options: CallOptions, registrations: Sequence[str], folder: str
    ) -> tuple[str, Mapping[str, Any] | str]:
        """Create the model, without its weights. Return the machine, and what identifies the model, or why it failed.

        :param folder: the folder that relative paths of the specification begin in, if this machine has it.
        """
        node = socket.gethostname()
        with contextlib.suppress(OSError):
            os.chdir(folder)
        try:
            import_registrations(registrations)
            self._model = find_backend(spec.backend).factory(spec, options)
        except (Exception, SystemExit) as error:
            return node, fault_line(error)
        return node, {**self._model.identity, **package_versions()}

    def serve(self, requests: Sequence[Request]) -> list[Result]:
        """Return one result per request, in order."""
        assert self._model is not None
        results = served_batch(self._model, requests)
        deviations = tuple(self._model.deviations())
        return [
            replace(result, via=VIA, deviations=deviations) if isinstance(result, Reply) else result
            for result in results
        ]


#: CPU cores of a replica without a GPU; more of them make a small model hardly faster
CPUS = 4


class Node(NamedTuple):
    """A machine of the cluster, with its CPU cores and GPUs."""

    cpus: float
    gpus: float


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

    def room(self, nodes: Sequence[Node]) -> int:
        """Return how many such replicas fit into empty machines."""
        by_cpus = [int(node.cpus / self.cpus + 1e-9) for node in nodes]
        if not self.gpus:
            return sum(by_cpus)
        by_gpus = [int(node.gpus / self.gpus + 1e-9) for node in nodes]
        return sum(map(min, by_cpus, by_gpus))


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
    if room < (models if wanted.count is None else 1):
        most_gpus = max((node.gpus for node in nodes), default=0)
        raise UsageError(
            f"--llm-engine ray: {models} models need replicas with {one}, and the cluster has room for {room}"
            f" ({len(nodes)} machines, with up to {cores:g} CPU and {most_gpus:g} GPU); state ?gpus= and ?cpus= of"
            " each model, such as gpus=0.5"
        )
    return Placement(wanted.count or room // models, gpus, cpus)


T = TypeVar("T")
#: size of the object store of a cluster that a run starts; a batch of token vectors takes up to 15 MB
OBJECT_STORE = 512 * 2**20
#: seconds in which the address of a cluster must accept a connection
CONNECT_SECONDS = 10.0
_QUIET: Mapping[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}


class Cluster:
    """A Ray cluster, which all models of the session share.

    :param address: ``ray`` for the cluster that RAY_ADDRESS or Ray's files name, or else one of this process's own;
        ``ray://HOST:PORT`` for Ray Client.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        # Linux ends the processes of a cluster with the thread that started them, so one thread lives until the end.
        self._thread = DaemonThread("llmprops-ray")
        self._ray: Any = None
        #: where the cluster is, for the summary
        self.where = ""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return the result of a function that blocks, from the thread of this connection."""
        return await self._thread.run(function, *args)

    def connect(self) -> None:
        """Connect to the cluster, or start one.

        :raises UsageError: if the cluster cannot be used.
        """
        # Ray prints the errors and logs of lost machines, which it reads when it is imported.
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
        ray = importlib.import_module("ray")
        try:
            self.where, self._ray = self._connect(ray), ray
        except Exception as error:
            raise UsageError(
                f"--llm-engine {self._address}: the Ray cluster cannot be used: {reason(error)}"
            ) from None

    def _connect(self, ray: Any) -> str:
        address = os.environ.get("RAY_ADDRESS", "") if self._address == "ray" else self._address
        # After 10 MB of requests, Ray Client would advise to send fewer, with a warning that may be an error.
        importlib.import_module("ray.util.debug").disable_log_once_globally()
        if address != "local":
            _check_reachable(address)
            try:
                ray.init(address or "auto", **_QUIET)
                return f"the Ray cluster at {address}" if address else "the Ray cluster on this machine"
            except ConnectionError as error:
                if address:
                    raise ConnectionError(f"{address} does not answer: {reason(error)}") from None
        # Ray would report its use to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init("local", include_dashboard=False, object_store_memory=OBJECT_STORE, **_QUIET)
        return "a Ray cluster of this run"

    def nodes(self) -> list[Node]:
        """Return the machines that are alive; none if the cluster is lost."""
        try:
            resources = [node.get("Resources", {}) for node in self._ray.nodes() if node["Alive"]]
        except Exception:
            return []
        return [Node(float(own.get("CPU", 0)), float(own.get("GPU", 0))) for own in resources]

    def start(self, placement: Placement) -> Any:
        """Return the handle of a new actor, which starts as soon as the cluster has room."""
        options = {"num_cpus": placement.cpus, "num_gpus": placement.gpus, "max_restarts": 0}
        actor: Any = self._ray.remote(Replica).options(scheduling_strategy="SPREAD", **options)
        return actor.remote()

    def end(self, actor: Any) -> None:
        """End an actor, which may be lost, or the cluster with it."""
        with contextlib.suppress(Exception):
            self._ray.kill(actor)

    def close(self) -> None:
        """Disconnect, and end a cluster that this run started."""
        if self._ray is not None:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Check that something listens at ``[ray://]HOST:PORT``; Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"{address} cannot be reached: {error}") from None


def reason(error: Exception) -> str:
    """Return an error of Ray in one line. Its message has many, with traces and advice."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if "RayActorError" not in {cls.__name__ for cls in type(error).__mro__}:
        return one_line(lines[0], 250)
    if "creation task" in lines[0] or "failed to import" in str(error):
        return one_line(lines[-1], 250)
    return "its process or its machine ended"
