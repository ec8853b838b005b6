"""Models served inside this process (``in_worker``: segmenters), without the broker and the store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.faults import fault_line, not_closed
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.broker.remote import RemoteBroker
from pytest_llmprops.engine.calls.queues import BatchQueue, Send, ThreadWorker, queue_of, served_batch
from pytest_llmprops.engine.event_loop import is_cancellation
from pytest_llmprops.models.base import CallOptions, Model, Result
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.records.messages import InProcessUse


@dataclass(slots=True)
class InProcessModel:
    """A model in use. :param seconds: time in its thread, for a blocking model."""

    model: Model
    requests: int = 0
    seconds: float = 0.0
    served_as: set[str] = field(default_factory=set)

    def queue(self) -> Send:
        """Return the function that sends one request to the model."""
        if not self.model.blocking:
            return queue_of(self.model)
        return BatchQueue(self.model.max_batch, [ThreadWorker(lambda requests: [self._serve(requests)])]).send

    def _serve(self, requests: Sequence[Request]) -> list[Result]:
        start_time = time.perf_counter()
        results = served_batch(self.model, requests)
        self.seconds += time.perf_counter() - start_time
        return results


class InProcess:
    """The models of a session that are served in this process; each is loaded at its first request.

    :param specs: specifications by label. :param broker: answers for all other labels.
    """

    def __init__(
        self, specs: Mapping[str, ModelSpec], options: CallOptions, broker: LocalBroker | RemoteBroker
    ) -> None:
        self._specs, self._options, self._broker = specs, options, broker
        self._served: dict[str, InProcessModel] = {}
        self._queues: dict[str, Send] = {}
        #: why no request can succeed: a model cannot be loaded
        self.stopped: str | None = None

    def _load(self, label: str) -> None:
        spec = self._specs[label]
        try:
            model = find_backend(spec.backend).factory(spec, self._options)
        except BaseException as fault:
            if is_cancellation(fault):
                raise
            raise self._stop(label, fault_line(fault)) from None
        served = self._served[label] = InProcessModel(model)
        self._queues[label] = served.queue()

    def _stop(self, label: str, reason: str) -> RunStopped:
        if self.stopped is None:
            self.stopped = " ".join(f"{label}: {reason}".split())
        return RunStopped(self.stopped)

    async def ask(self, label: str, role: str, request: Request) -> Reply:
        """Return the reply of a model of this process, or else of the broker.

        :raises BackendError: if the model fails.
        :raises RunStopped: if the model cannot be loaded.
        """
        if label not in self._specs:
            return await self._broker.ask(label, role, request)
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if label not in self._served:
            self._load(label)
        served = self._served[label]
        served.requests += 1
        result = await self._queues[label](request)
        if isinstance(result, BackendError):
            if result.fatal:
                raise self._stop(label, result.message)
            raise result
        served.served_as.update(filter(None, (result.served_model,)))
        return result

    def use(self) -> dict[str, InProcessUse]:
        """Return the use of each model so far, by label."""
        return {
            label: InProcessUse(
                requests=served.requests,
                seconds=served.seconds,
                served_as=tuple(sorted(served.served_as)),
                deviations=tuple(served.model.deviations()),
                identity=dict(served.model.identity),
                pinned=served.model.pinned,
            )
            for label, served in self._served.items()
        }

    def close(self) -> list[str]:
        """Free the models. Return one line per model that could not be closed."""
        problems = []
        for label, served in self._served.items():
            # Everything is recorded, whatever a model raises.
            try:
                served.model.close()
            except BaseException as fault:
                problems.append(not_closed(label, fault))
        self._served.clear()
        self._queues.clear()
        return problems
