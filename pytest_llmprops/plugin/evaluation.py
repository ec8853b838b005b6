"""Outcomes of cases, which the engine evaluates ahead; the fixture ``verdict`` waits for them."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_llmprops.core.errors import LLMPropsError, MissingExtra, UsageError
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluation.evaluator import (
    CLOSED,
    Case,
    CaseGroup,
    GroupOutcome,
    GroupVerdict,
    Outcome,
    Unit,
    group_outcome,
)
from pytest_llmprops.models.registry import find_backend, registration_files
from pytest_llmprops.models.spec import Replicas
from pytest_llmprops.plugin.cases.cases import Cases
from pytest_llmprops.plugin.cases.light_items import OUTCOME, UNIT
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.records.messages import InProcessUse, WorkerSetup

if TYPE_CHECKING:
    from pytest_llmprops.engine.config import BrokerConfig
    from pytest_llmprops.engine.session import Engine


def properties(unit: Case | CaseGroup, verdict: Verdict | GroupVerdict) -> list[tuple[str, str]]:
    """Return the properties of a case for JUnit reports."""
    case = unit.cases[0] if isinstance(unit, CaseGroup) else unit
    rows = [
        ("llmprops.model", case.model),
        ("llmprops.benchmark", case.benchmark.name),
        ("llmprops.task", getattr(verdict, "task", "") or case.item.task),
        ("llmprops.language", case.item.language),
        ("llmprops.status", verdict.status),
        ("llmprops.score", f"{verdict.score:g}"),
    ]
    if isinstance(verdict, GroupVerdict):
        rows.append((f"llmprops.{verdict.noun}", str(verdict.total)))
        rows += [(f"llmprops.{status}", str(n)) for status, n in verdict.counts.items() if n]
    return rows


def check_replicas(settings: RunOptions, cases: Cases) -> None:
    """Check that the models fit the engine.

    :raises UsageError: if a model states replicas without the engine, or cannot have any; if Ray is not installed.
    """
    specs = cases.model_specs()
    for label in cases.replicas:
        if not settings.has_ray:
            raise UsageError(
                f"--model {specs[label].text}: ?replicas=, ?gpus= and ?cpus= need --llm-engine ray; add it, or leave"
                " them out"
            )
        if find_backend(specs[label].backend).in_worker:
            raise UsageError(
                f"--model {specs[label].text}: runs in the processes of pytest (-n N), so it has no replicas; leave"
                " out ?replicas=, ?gpus= and ?cpus="
            )
    for label in (*cases.models, *cases.replicas):
        if find_backend(specs[label].backend).remote:
            raise UsageError(
                f"--llm-engine ray: {specs[label].text} is called over a network; Ray runs replicas of models that"
                " compute themselves (hf:, llamacpp:); for several servers of one model, use --llm-base-url URL,URL"
            )
    # Ray Client needs grpc, which Ray alone does not install.
    packages = ("ray", "grpc") if settings.engine.startswith("ray:") else ("ray",)
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"--llm-engine {settings.engine}", package=package, extra="ray")


#: with a gate, maximum age in seconds of stored replies of a model whose version is not pinned
CACHE_AGE = 24 * 3600.0
#: number of cases that are evaluated at once, over all processes, with --llm-engine ray: two batches of 64 requests for
#: each of 64 replicas
RAY_CASES = 8192


class Evaluation:
    """The engine of one process, the models inside it, and the cases that they evaluate.

    :param setup: what the controller sends a worker; None outside of workers.
    """

    def __init__(self, settings: RunOptions, cases: Cases, setup: WorkerSetup | None) -> None:
        self._settings, self._cases, self._setup = settings, cases, setup
        self._engine: Engine | None = None
        self.in_process_labels: frozenset[str] = frozenset(setup.in_process if setup is not None else ())
        #: number of processes that evaluate cases; set in workers before the engine starts
        self.processes = 1
        #: set by the controller before the engine starts
        self.run_dir: Path | None = None
        #: outcomes have the calls with their prompts and replies, which Allure shows
        self.keeps_calls = False
        #: Unix time at which a resumed run began; None for a new run
        self.resumed_from = None if setup is None else setup.resumed_from
        #: labels of the models of which a resumed run has replies
        self.proven: tuple[str, ...] = ()
        #: called while a case waits; set by the controller of a run without workers
        self.on_wait: Callable[[], None] | None = None
        #: called with the outcome of each item's first sample, except for cases of several items
        self.on_outcome: Callable[[Outcome], None] | None = None
        #: why this process ended the run; None if it did not
        self.ended: str | None = None
        #: share of a worker -> its cases and groups in pytest's order
        self._units: dict[int, list[Unit]] = {}
        self._shares: dict[int, int] = {}
        self._begun: set[int] = set()

    def check_models(self) -> None:
        """Check the packages and files of every chosen model, and note the models that are served in process."""
        in_process = set()
        if self._settings.has_ray or self._cases.replicas:
            check_replicas(self._settings, self._cases)
        for label, spec in self._cases.chosen_specs().items():
            backend = find_backend(spec.backend)
            backend.check(spec, self._settings.calls)
            if backend.in_worker:
                in_process.add(label)
            elif self._settings.engine == "batch" and label in self._cases.models and not backend.batches:
                raise UsageError(
                    f"--llm-engine batch: {spec.text} has no batches; name a model of OpenAI, of Anthropic as"
                    " anthropic:NAME, or of a server with OpenAI's files and batches as openai:NAME with"
                    " --llm-base-url URL, or leave out --llm-engine"
                )
        self.in_process_labels = frozenset(in_process)

    @property
    def needs_broker(self) -> bool:
        """True if the broker may be needed: by a model under test, a named helper, or a default helper."""
        chosen = self._cases.chosen_specs()
        if not self.in_process_labels.issuperset(chosen):
            return True
        # Requests to a segmenter never need a helper.
        return bool(self._cases.helpers.defaults) and any(
            find_backend(spec.backend).kinds(spec) & {"chat", "translate"} for spec in chosen.values()
        )

    @property
    def engine(self) -> Engine:
        """The engine of this process, started when first used."""
        if self._engine is None:
            from pytest_llmprops.engine.session import Engine

            window = max(128, 2 * self._settings.concurrency)
            if self._settings.engine == "batch":
                from pytest_llmprops.engine.batch.batches import MOST_CASES

                window = max(1, MOST_CASES // self.processes)
            if self._settings.has_ray:
                window = max(window, RAY_CASES // self.processes)
            socket = self._setup.socket if self._setup is not None else None
            config = self.broker_config() if self._setup is None and self.needs_broker else None
            specs = self._cases.model_specs()
            try:
                self._engine = Engine(
                    config=config,
                    socket=socket,
                    window=window,
                    in_process={k: v for k, v in specs.items() if k in self.in_process_labels},
                    calls=self._settings.calls,
                    keeps_calls=self.keeps_calls,
                )
            except LLMPropsError as error:
                raise pytest.UsageError(str(error)) from None
        return self._engine

    def broker_config(self) -> BrokerConfig:
        """Return the broker's configuration, from the session's options."""
        from pytest_llmprops.engine.config import BrokerConfig
        from pytest_llmprops.engine.store.location import default_store

        settings = self._settings
        age, now = settings.cache_age, time.time()
        if age is None and settings.gate is not None:
            age = CACHE_AGE
            # Its replies so far are as old as its verdicts: the waves of batches may take days.
            now = min(now, self.resumed_from or now)
        return BrokerConfig(
            models=dict(self._cases.model_specs()),
            calls=settings.calls,
            rpm=settings.rpm,
            retries=settings.retries,
            cache=settings.cache,
            not_before=0.0 if age is None else now - age,
            store="" if settings.cache == "off" else str(settings.store or default_store()),
            max_calls=settings.max_calls,
            max_cost=settings.max_cost,
            run_dir=str(self.run_dir) if self.run_dir else None,
            registrations=tuple(registration_files()),
            engine=settings.engine,
            replicas=self._replicas(),
            batch_wait=settings.batch_wait,
            max_thinking=settings.max_thinking,
            proven=self.proven,
        )

    def _replicas(self) -> dict[str, Replicas]:
        """Return the models that a Ray cluster serves: those under test, and the helpers that ask for replicas."""
        if not self._settings.has_ray:
            return {}
        tested = dict.fromkeys(self._cases.models.keys() - self.in_process_labels, Replicas())
        return tested | self._cases.replicas

    @property
    def engine_started(self) -> bool:
        """True if this process has begun to evaluate cases."""
        return self._engine is not None

    def expect(self, shares: Mapping[int, Sequence[Unit]]) -> None:
        """Set the cases of each worker's share, in pytest's order."""
        self._units = {share: list(units) for share, units in shares.items()}
        if len(self._units) > 1:
            self._shares = {id(unit): share for share, units in self._units.items() for unit in units}

    def begin(self, share: int = 0) -> None:
        """Begin to evaluate a share."""
        if share not in self._begun:
            self._begun.add(share)
            units = self._units.get(share, ())
            self.engine.submit(
                case for unit in units for case in (unit.cases if isinstance(unit, CaseGroup) else (unit,))
            )

    def verdict(self, item: pytest.Item) -> Verdict | GroupVerdict:
        """Wait for the verdict on the item's case or group, in the item's setup, and return it.

        :raises BackendError: if a call failed.
        """
        unit = item.stash[UNIT]
        self.begin(self._shares.get(id(unit), 0))
        outcome = self._outcome_of_group(unit) if isinstance(unit, CaseGroup) else self._outcome(unit)
        item.stash[OUTCOME] = outcome
        if self.on_outcome is not None:
            first = outcome.samples[:1] if isinstance(outcome, GroupOutcome) else [outcome]
            for measured in first:
                self.on_outcome(measured)
        if outcome.stopped is not None:
            self.skip_rest(item, outcome.stopped)
        failure = outcome.error or outcome.fault
        if failure is not None:
            raise failure
        assert outcome.verdict is not None
        item.user_properties += properties(unit, outcome.verdict)
        return outcome.verdict

    def _outcome(self, case: Case) -> Outcome:
        """Wait for the outcome of a case."""
        while True:
            try:
                return self.engine.outcome(case, timeout=0.25)
            except TimeoutError:
                self.show_waiting()

    def _outcome_of_group(self, group: CaseGroup) -> GroupOutcome:
        """Wait for the outcome of the items or samples that one pytest case reports."""
        # All at once also if pytest runs the group again.
        self.engine.submit(group.cases)
        return group_outcome(group, map(self._outcome, group.cases))

    def show_waiting(self) -> None:
        """Update the progress line while a case of this process waits."""
        if self.on_wait is not None:
            self.on_wait()

    def end(self, reason: str) -> None:
        """End the run for a reason that other processes may not know; the broker ends the other workers."""
        if self.ended is None and reason != CLOSED:
            try:
                self.engine.stop(reason)
            except (LLMPropsError, TimeoutError):
                # A run without its broker ends anyway.
                return
            self.ended = " ".join(reason.split())

    def skip_rest(self, item: pytest.Item, reason: str) -> NoReturn:
        """Skip an item of a run that is over; end the session once all existing verdicts are reported."""
        self.end(reason)
        if not self.engine.has_verdicts():
            item.session.shouldstop = f"llmprops: {reason}"
        pytest.skip(f"not run: {reason}")

    def in_process_use(self) -> dict[str, InProcessUse]:
        """Return the use of each model inside this process, by label."""
        return self._engine.in_process.use() if self._engine is not None else {}

    def close(self) -> list[str]:
        """Cancel open work; safe to call twice. Return one line per model that could not be closed."""
        engine, self._engine = self._engine, None
        return [] if engine is None else engine.close()
