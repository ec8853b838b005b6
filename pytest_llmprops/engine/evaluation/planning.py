"""The plan of a run: its calls and cost without sending anything, and the cases of each worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from pytest_llmprops.core.requests import GENERATED, PLANNED, Chat, Price, Reply, Request, Usage, sizes
from pytest_llmprops.engine.calls.queues import prompt_key
from pytest_llmprops.engine.evaluation.evaluator import Case, evaluate
from pytest_llmprops.engine.event_loop import LoopThread
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN

#: Assumed seconds per call, to estimate the time of a run.
SECONDS_PER_CALL = 1.0
#: how long the plan waits for tasks of benchmarks that it cancels
CANCEL_SECONDS = 1.0


def batch_of(position: int, cases: int, workers: int) -> int:
    """Return the batch, 0 to ``workers`` - 1, of the case at ``position`` of ``cases``.

    Batches are contiguous and have nearly equal sizes. The scheduler of a distributed run and a worker that evaluates
    its batch ahead both use this function and so agree.
    """
    return position * workers // cases


@dataclass(slots=True)
class Planned:
    """Calls that the cases of one benchmark and model would make.

    ``calls`` counts the calls if every reply is empty, which is exact for benchmarks that ask once. It counts each
    sample of a prompt, because only the first answer of an API shows whether one call can return several. ``prompts``
    counts the calls if one call returns all samples of a prompt.
    """

    benchmark: str
    model: str
    items: int = 0
    repeats: int = 1
    calls: int = 0
    prompts: int = 0
    prompt_characters: int = 0
    completion_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """The number of prompt tokens, estimated from characters."""
        return round(self.prompt_characters / CHARACTERS_PER_TOKEN)


def plan(
    cases: Iterable[Case], on_request: Callable[[str, Request], None] = lambda label, request: None
) -> list[Planned]:
    """Evaluate ``cases`` with a model that returns empty replies, and count the requests; equal ones count once.

    :param on_request: called with the model's label and each counted request.
    """
    rows: dict[tuple[str, str], Planned] = {}
    # As in the run, SystemExit in a task of a benchmark ends nothing, and KeyboardInterrupt in this thread is Ctrl-C.
    thread = LoopThread()
    try:
        thread.call(_plan(cases, rows, on_request))
    finally:
        thread.close()
    return list(rows.values())


async def _plan(
    cases: Iterable[Case],
    rows: dict[tuple[str, str], Planned],
    on_request: Callable[[str, Request], None],
) -> None:
    known: dict[tuple[str, str, str, Hashable], set[int]] = {}
    for case in cases:
        row = rows.setdefault((case.benchmark.name, case.model), Planned(case.benchmark.name, case.model))
        row.items += case.sample == 0
        row.repeats = max(row.repeats, case.sample + 1)

        async def ask(label: str, role: str, request: Request, row: Planned = row) -> Reply:
            prompt, sample = _prompt_and_sample(request)
            samples = known.setdefault((row.benchmark, row.model, label, prompt), set())
            if sample not in samples:
                row.prompts += not samples
                samples.add(sample)
                row.calls += 1
                on_request(label, request)
                characters, tokens = sizes(request)
                row.prompt_characters += characters
                row.completion_tokens += tokens
            return Reply(key=PLANNED)

        # A task of the benchmark may raise GeneratorExit: Python then closes the coroutines that await the task.
        with contextlib.suppress(GeneratorExit):
            await evaluate(case, ask)
    await _cancel_others()


async def _cancel_others() -> None:
    """Cancel the tasks that benchmarks have left."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CANCEL_SECONDS)


def _prompt_and_sample(request: Request) -> tuple[Hashable, int]:
    """Return a value that is equal for samples of the same prompt, and the number of the sample.

    There are up to 100,000 requests, and ``request_key`` takes ten times as long.
    """
    if not isinstance(request, GENERATED):
        return repr(request), 0
    if isinstance(request, Chat):
        return prompt_key(request), request.sample
    settings = (request.temperature, request.max_tokens, request.stop, request.extra)
    return (request.text, repr(settings)), request.sample


def cost(row: Planned, prices: Mapping[str, Price]) -> float | None:
    """Return the estimated cost in USD; None if the price is unknown.

    :param prices: model label -> price.
    """
    if row.model not in prices:
        return None
    return prices[row.model].of(Usage(row.prompt_tokens, row.completion_tokens))
