"""The connection to a Ray cluster: one that exists, or one of this process's own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.engine.replicas.actor import Replica
from pytest_llmprops.engine.replicas.placement import Node, Placement

T = TypeVar("T")
#: size of the object store of an own cluster; a batch of token vectors takes up to 15 MB
OBJECT_STORE = 512 * 2**20
#: seconds in which the address of a cluster must accept a connection
CONNECT_SECONDS = 10.0
#: how often a cluster that accepts connections is asked to start a client
_ATTEMPTS = 3
_QUIET: Mapping[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}


class Cluster:
    """A Ray cluster, which all models of the session share.

    :param address: ``ray`` for the cluster that RAY_ADDRESS or Ray's files name, or else one of this process's own;
        ``ray://HOST:PORT`` for Ray Client.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        # Linux ends the processes of an own cluster with the thread that started them, so one thread lives until the
        # end. It is a daemon: an executor's thread would keep this process while Ray waits for a cluster.
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="llmprops-ray", daemon=True).start()
        self._ray: Any = None
        self._is_own_connection = False
        #: where the cluster is, for the summary
        self.where = ""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return the result of a function that blocks, from the thread of this connection."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args))
                except BaseException as error:
                    future.set_exception(error)

        self._work.put(work)
        return await asyncio.wrap_future(future)

    def _serve(self) -> None:
        while True:
            self._work.get()()

    def connect(self) -> None:
        """Connect to the cluster, or start one.

        :raises UsageError: if the cluster cannot be used.
        """
        # Ray prints the errors and logs of lost machines, which it reads when it is imported.
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
        ray = importlib.import_module("ray")
        try:
            if not ray.is_initialized():
                self.where = self._connect(ray)
                self._is_own_connection = True
            self._ray = ray
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
                _join(ray, address or "auto")
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
            return Node.alive(self._ray.nodes())
        except Exception:
            return []

    def start(self, placement: Placement) -> Any:
        """Return the handle of a new actor, which starts as soon as the cluster has room."""
        options = {"num_cpus": placement.cpus, "num_gpus": placement.gpus, "max_restarts": 0}
        actor: Any = self._ray.remote(Replica).options(scheduling_strategy="SPREAD", **options)
        return actor.remote()

    def end(self, actors: Sequence[Any]) -> None:
        """End actors."""
        for actor in actors:
            # It may be lost, or the cluster with it.
            with contextlib.suppress(Exception):
                self._ray.kill(actor)

    def close(self) -> None:
        """Disconnect; an own cluster ends."""
        if self._is_own_connection:
            self._ray.shutdown()


def _join(ray: Any, address: str) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(address, **_QUIET)
        except ConnectionAbortedError:
            # Ray Client's server starts a process for each client. On a busy machine, that takes longer than it waits.
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _check_reachable(address: str) -> None:
    """Check that something listens at ``[ray://]HOST:PORT``; Ray would try for minutes.

    :raises ConnectionError: if nothing does.
    """
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
