"""What a run would cost, found without sending anything; and which worker evaluates what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.core.requests import PLANNED, Chat, Reply, Request, request_key
from pytest_llmprops.engine.evaluator import Case, evaluate

#: Characters a token, for prompts in a mostly Latin script; a rough figure, printed as such.
CHARACTERS_PER_TOKEN = 4.0
#: Seconds a call is assumed to take when the time of a run is estimated.
SECONDS_PER_CALL = 1.0


def batch_of(position: int, cases: int, workers: int) -> int:
    """The batch, 0 to ``workers`` - 1, of the case at ``position`` of ``cases``.

    Batches are contiguous runs of nearly equal size: pure, and so the same for the scheduler of a
    distributed run and for the worker that evaluates a whole batch ahead.
    """
    return position * workers // cases


def turn_of(position: int, cases: int, workers: int) -> int:
    """As :func:`batch_of` where all workers take part in every stretch of cases: by turns."""
    return position % workers


@dataclass(slots=True)
class Planned:
    """Calls that cases of one benchmark and model would make.

    ``calls`` counts what an unhelpful model would cause (each first reply empty), the common case for
    benchmarks that ask once. Each sample of a prompt counts: whether an API gives several by one call, only its first
    answer tells. ``prompts`` counts the calls where it gives all that are asked for.
    """

    benchmark: str
    model: str
    items: int = 0
    calls: int = 0
    prompts: int = 0
    prompt_characters: int = 0
    completion_tokens: int = 0
    asked: list[tuple[str, Request]] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        """Estimated from characters."""
        return round(self.prompt_characters / CHARACTERS_PER_TOKEN)


def plan(cases: Iterable[Case]) -> list[Planned]:
    """Evaluate ``cases`` against a model that answers nothing, and count what is asked; the same is asked once."""
    return asyncio.run(_plan(cases))


async def _plan(cases: Iterable[Case]) -> list[Planned]:
    rows: dict[tuple[str, str], Planned] = {}
    known: set[tuple[str, str, str, str]] = set()
    known_prompts: set[tuple[str, str, str, str]] = set()
    for case in cases:
        row = rows.setdefault((case.benchmark.name, case.model), Planned(case.benchmark.name, case.model))
        row.items += 1

        async def ask(label: str, role: str, request: Request, row: Planned = row) -> Reply:
            key = (row.benchmark, row.model, label, request_key({}, request))
            if key in known:
                return Reply(key=PLANNED)
            known.add(key)
            row.calls += 1
            row.asked.append((label, request))
            row.prompts += _is_new(row, label, request, known_prompts)
            if isinstance(request, Chat):
                row.prompt_characters += len(request.prompt)
                row.completion_tokens += request.max_tokens or 0
            return Reply(key=PLANNED)

        await evaluate(case, ask)
    return list(rows.values())


def _is_new(row: Planned, label: str, request: Request, known: set[tuple[str, str, str, str]]) -> bool:
    """Whether no other sample of ``request`` is in ``known``; it is from now on."""
    if isinstance(request, Chat):
        request = replace(request, sample=0)
    key = (row.benchmark, row.model, label, request_key({}, request))
    new = key not in known
    known.add(key)
    return new


def total_calls(rows: Sequence[Planned]) -> int:
    """Calls over all rows."""
    return sum(row.calls for row in rows)


def cost(row: Planned, prices: Mapping[str, tuple[float, float]]) -> float | None:
    """Estimated USD, from (prompt, completion) USD per token by model label; None where unknown."""
    if row.model not in prices:
        return None
    prompt, completion = prices[row.model]
    return row.prompt_tokens * prompt + row.completion_tokens * completion
