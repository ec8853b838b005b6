"""Items measured on scripted models without pytest or a broker: one case, or a recorded run of many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Kind, Reply, Request, request_key
from pytest_llmprops.engine.broker.request_log import RequestLog
from pytest_llmprops.engine.evaluation.evaluator import Case, Outcome, evaluate
from pytest_llmprops.records.files import plain
from pytest_llmprops.runs.summary import remarks_on
from tests.support.records import recorded

#: a scripted model: what it replies to a request
Answer = Callable[[Any], str | Reply | BackendError]
CHAT: frozenset[Kind] = frozenset({"chat"})


class Plain:
    """What scripted models have in common."""

    blocking, pinned, max_batch = True, True, 1
    identity: Mapping[str, Any] = {"backend": "plain"}

    def deviations(self) -> Sequence[str]:
        """Return no deviations."""
        return ()

    def close(self) -> None:
        """Do nothing."""


def replied(answer: Answer, request: Request) -> Reply:
    """Return the reply of a scripted model.

    :raises BackendError: if that is its answer.
    """
    reply = answer(request)
    if isinstance(reply, BackendError):
        raise reply
    return Reply(reply) if isinstance(reply, str) else reply


def measured(
    benchmark: Benchmark,
    item: Item,
    context: Any,
    answer: Answer,
    *,
    helpers: Mapping[str, Answer] | None = None,
    kinds: frozenset[Kind] = CHAT,
    protocol: str = "quick",
    seed: int = 0,
    **settings: object,
) -> tuple[Outcome, list[tuple[str, Request]]]:
    """Measure one item on a model that replies with ``answer``; return the outcome and (role, request) in order.

    A fault in the benchmark is raised.

    :param settings: of the protocol.
    """
    answers = {"subject": answer, **(helpers or {})}
    calls: list[tuple[str, Request]] = []

    async def ask(label: str, role: str, request: Request) -> Reply:
        assert label == ("m" if role == "subject" else f"helper:{role}")
        calls.append((role, request))
        return replied(answers[role], request)

    overrides = {name: str(value) for name, value in settings.items()}
    rule = resolve(benchmark.name, benchmark.protocols, protocol, overrides, seed)
    labels = {role: f"helper:{role}" for role in helpers or ()}
    outcome = asyncio.run(
        evaluate(Case(benchmark, item, context, rule, "m", helpers=labels, kinds=kinds), ask)
    )
    if outcome.fault is not None:
        raise outcome.fault
    return outcome, calls


def recorded_run(folder: Path, cases: Iterable[tuple[Case, Answer]]) -> Path:
    """Record a run of cases of one benchmark and protocol, each with its own model, in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    log, records = RequestLog(folder), []
    # In a thread, because an open browser already has an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        for case, answer in cases:

            async def ask(model: str, role: str, request: Request, answer: Answer = answer) -> Reply:
                key = request_key({"model": model}, request)
                kept = replace(replied(answer, request), served_model=model, key=key)
                log.add(role, request, kept)
                return kept

            outcome = pool.submit(asyncio.run, evaluate(case, ask)).result()
            assert outcome.fault is None, outcome.fault
            records.append(outcome.record())
    log.close()
    benchmark, rule = case.benchmark, case.protocol
    by_model = {r.model: [other for other in records if other.model == r.model] for r in records}
    return recorded(
        folder,
        records,
        metrics=[
            plain(m.row(k, benchmark.name)) for k, own in by_model.items() for m in benchmark.metrics(own)
        ],
        remarks=[plain(remark) for remark in remarks_on(records, {benchmark.name: benchmark})[0]],
        protocols={benchmark.name: {"name": rule.name, "settings": asdict(rule.settings), "seed": rule.seed}},
    )
