"""Models served inside this process (``in_worker``: segmenters), without the broker and the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from pytest_llmprops.core.benchmark import Benchmark, Serve
from pytest_llmprops.core.contracts import checked_verdict, returned
from pytest_llmprops.core.errors import BackendError, ContractError, RunStopped
from pytest_llmprops.core.faults import fault_line, not_closed, type_name
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.broker.remote import RemoteBroker
from pytest_llmprops.engine.calls.queues import BatchQueue, Send, ThreadWorker, queue_of, served_batch
from pytest_llmprops.engine.evaluation.evaluator import Case, Faults, Outcome, as_exception
from pytest_llmprops.engine.event_loop import is_interruption
from pytest_llmprops.models.base import CallOptions, Model, Result
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.records.messages import InProcessUse


@dataclass(slots=True)
class InProcessModel:
    """A model in use. A lock serializes batches from pytest's thread and single calls from the event loop."""

    model: Model
    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: int = 0
    seconds: float = 0.0
    served_as: set[str] = field(default_factory=set)

    def serve(self, requests: Sequence[Request]) -> list[Result]:
        """Return one result per request, in order, in batches of the model's size; errors are results."""
        results: list[Result] = []
        with self.lock:
            start_time = time.perf_counter()
            for start in range(0, len(requests), self.model.max_batch):
                results += served_batch(self.model, requests[start : start + self.model.max_batch])
            self.requests += len(requests)
            self.seconds += time.perf_counter() - start_time
        self.served_as.update({r.served_model for r in results if isinstance(r, Reply) and r.served_model})
        return results


class InProcess:
    """The models of a session that are served in this process; each is loaded at its first request.

    :param specs: specifications by label.
    """

    def __init__(self, specs: Mapping[str, ModelSpec], options: CallOptions) -> None:
        self._specs = dict(specs)
        self._options = options
        self._served: dict[str, InProcessModel] = {}
        self._queues: dict[str, Send] = {}
        self._loading = threading.Lock()
        self._faults = Faults()
        #: answers for all other labels
        self.broker: LocalBroker | RemoteBroker | None = None
        #: why no request can succeed: a model cannot be loaded, or the benchmark fails at every item
        self.stopped: str | None = None

    def _of(self, label: str) -> InProcessModel:
        with self._loading:
            if label not in self._served:
                spec = self._specs[label]
                try:
                    model = find_backend(spec.backend).factory(spec, self._options)
                except BaseException as fault:
                    if is_interruption(fault):
                        raise
                    raise self._stop(label, fault_line(fault)) from None
                self._served[label] = InProcessModel(model)
            return self._served[label]

    def _stop(self, label: str, reason: str) -> RunStopped:
        if self.stopped is None:
            self.stopped = " ".join(f"{label}: {reason}".split())
        return RunStopped(self.stopped)

    async def ask(self, label: str, role: str, request: Request) -> Reply:
        """Return one reply, for a benchmark that judges item by item.

        :raises BackendError: if the model fails.
        :raises RunStopped: if the model cannot be loaded.
        """
        if label not in self._specs:
            assert self.broker is not None
            return await self.broker.ask(label, role, request)
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        served = self._of(label)
        if label not in self._queues:
            model = served.model
            # The queue shares the model's lock and counters with other threads.
            workers = [ThreadWorker(lambda requests: [served.serve(requests)])]
            self._queues[label] = (
                BatchQueue(model.max_batch, workers).send if model.blocking else queue_of(model)
            )
        result = await self._queues[label](request)
        if isinstance(result, BackendError):
            if result.fatal:
                raise self._stop(label, result.message)
            raise result
        if not served.model.blocking:
            served.requests += 1
            served.served_as.update(filter(None, (result.served_model,)))
        return result

    def takes_batches(self, case: Case) -> bool:
        """Return True if the case's model is served here and its benchmark can judge many items at once."""
        return case.model in self._specs and type(case.benchmark).evaluate_all is not Benchmark.evaluate_all

    def evaluate(self, cases: Sequence[Case]) -> list[Outcome] | None:
        """Judge many cases of one benchmark and model at once, in the calling thread.

        Return None if the benchmark judges these item by item.
        """
        outcomes: list[Outcome] = []
        try:
            if self.stopped is not None:
                raise RunStopped(self.stopped)
            if not self._of(cases[0].model).model.blocking:
                return None
            # Each source of items has its own context.
            for _, part in groupby(cases, key=lambda case: id(case.context)):
                part_outcomes = _evaluate_all(list(part), partial(self._serve_all, cases[0].model))
                if part_outcomes is None:
                    return None
                outcomes += part_outcomes
        except RunStopped as stop:
            return [Outcome(case, stopped=str(stop)) for case in cases]
        for number, outcome in enumerate(outcomes):
            if self.stopped is not None:
                # The faults of the benchmark before it have stopped the run.
                outcomes[number] = Outcome(outcome.case, stopped=self.stopped)
            else:
                self.stopped = self._faults.add(outcome.case.benchmark.name, outcome.failure)
        return outcomes

    def _serve_all(self, label: str, requests: Sequence[Request]) -> list[Result]:
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        results = self._of(label).serve(requests)
        for result in results:
            if isinstance(result, BackendError) and result.fatal:
                raise self._stop(label, result.message)
        return results

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


def _evaluate_all(cases: Sequence[Case], serve_all: Serve) -> list[Outcome] | None:
    first, method = cases[0], "evaluate_all"
    benchmark = first.benchmark
    try:
        results: object = benchmark.evaluate_all(
            [case.item for case in cases], first.context, serve_all, first.protocol
        )
        if results is None:
            return None
        if not isinstance(results, Sequence):
            raise returned(benchmark, method, f"{type_name(results)}; return a list, one Verdict per item")
        if len(results) != len(cases):
            raise returned(benchmark, method, f"{len(results)} results for {len(cases)} items")
    except BackendError as error:
        results = [error] * len(cases)
    except (RunStopped, KeyboardInterrupt):
        raise
    except BaseException as fault:
        exception = as_exception(benchmark, method, fault)
        return [Outcome(case, fault=exception) for case in cases]
    outcomes = []
    for case, result in zip(cases, results, strict=True):
        try:
            if isinstance(result, BackendError):
                outcomes.append(Outcome(case, error=result))
            else:
                tasks = (*benchmark.tasks_by_answer, case.item.task)
                outcomes.append(Outcome(case, checked_verdict(benchmark, method, result, tasks)))
        except ContractError as fault:
            outcomes.append(Outcome(case, fault=fault))
    return outcomes
