"""The planned calls and cost of the selected cases, for ``--llm-plan`` and the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from pytest_llmprops.core.requests import Request
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import SECONDS_PER_CALL, Planned, cost, plan, total_calls
from pytest_llmprops.models.batches import BATCH_DISCOUNT
from pytest_llmprops.models.prices import FREE, Price, price
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.reports.terminal import aligned_table

CountStored = Callable[[Sequence[tuple[str, Request]]], int]


def prices_of(cases: Cases) -> dict[str, Price]:
    """Return the known prices by model label."""
    prices = {}
    for label, spec in cases.models.items():
        listed = price(spec.name, spec.params, cases.settings.prices)
        if listed is not None:
            has_batches = cases.settings.engine == "batch"
            prices[label] = listed.scaled(BATCH_DISCOUNT) if has_batches else listed
        elif spec.backend in ("llamacpp", "smollm2", "hf", "fake"):
            prices[label] = FREE
    return prices


def price_note(prices: Mapping[str, Price]) -> str:
    """Return where the prices are from, with their date; empty if nothing has a price."""
    sources = dict.fromkeys(known.source for known in prices.values() if known.source)
    return f"prices: {', '.join(sources)}" if sources else ""


def over_budget(
    cases: Sequence[Case], settings: RunOptions, session_cases: Cases, count_stored: CountStored
) -> str | None:
    """Return why ``cases`` exceed ``--llm-max-calls`` or ``--llm-max-cost``; None if they do not."""
    rows = plan(cases)
    pairs = [pair for row in rows for pair in row.asked]
    calls = total_calls(rows)
    # With --llm-cache refresh or off, stored replies are not used.
    stored = count_stored(pairs) if settings.cache in ("reuse", "only") else 0
    if settings.max_calls is not None and calls - stored > settings.max_calls:
        return (
            f"refused to start: the plan needs {calls - stored} calls ({stored} more are stored), above"
            f" --llm-max-calls {settings.max_calls}; raise the limit, or select fewer items with --llm-limit N"
        )
    if settings.max_cost is None:
        return None
    prices = prices_of(session_cases)
    share = (calls - stored) / calls if calls else 0.0
    total = 0.0
    for row in rows:
        amount = cost(row, prices)
        if amount is None:
            return (
                f"refused to start: --llm-max-cost needs a price, and {row.model} has none; add"
                " ?price_in=X&price_out=Y (USD per million tokens) to the model, or name a file with --llm-prices"
            )
        total += amount * share
    if total > settings.max_cost:
        return (
            f"refused to start: the plan costs about {total:.4f} USD ({price_note(prices)}), above --llm-max-cost"
            f" {settings.max_cost:g};"
            " raise the limit, or select fewer items with --llm-limit N"
        )
    return None


def without_calls(cases: Sequence[Case], labels: Container[str]) -> list[Planned]:
    """Return the rows of the models with these labels, which are served inside the pytest processes."""
    shown = [case for case in cases if case.model in labels and not case.sample]
    counts = Counter((case.benchmark.name, case.model) for case in shown)
    return [Planned(benchmark, model, items=n) for (benchmark, model), n in counts.items()]


def plan_remarks(cases: Iterable[Case]) -> list[str]:
    """Return the remarks of the benchmarks on their planned calls, for one sample of each item and any model."""
    shown = {(case.benchmark.name, case.item.id): case for case in cases}
    by_benchmark: dict[str, list[Case]] = {}
    for (name, _), case in shown.items():
        by_benchmark.setdefault(name, []).append(case)
    return [
        f"  {name}: {text}"
        for name, own in by_benchmark.items()
        for text in own[0].benchmark.plan_remarks([case.item for case in own], own[0].protocol.settings)
    ]


def plan_lines(rows: Sequence[Planned], prices: Mapping[str, Price], settings: RunOptions) -> list[str]:
    """Return the plan as a table: calls, tokens, cost and time per benchmark and model."""
    table: list[tuple[str, ...]] = [
        ("benchmark", "model", "items", "calls", "prompt tokens", "reply tokens", "USD", "minutes")
    ]
    has_batches = settings.engine == "batch"
    for row in rows:
        amount = cost(row, prices)
        minutes = row.calls * SECONDS_PER_CALL / settings.concurrency / 60
        table.append(
            (
                row.benchmark,
                row.model,
                f"{row.items}" if row.repeats == 1 else f"{row.items} x {row.repeats}",
                str(row.calls),
                f"~{row.prompt_tokens:,}",
                f"<= {row.completion_tokens:,}" if row.completion_tokens else "?",
                "unknown" if amount is None else f"~{amount:.4f}",
                "?" if has_batches else f"~{minutes:.1f}",
            )
        )
    calls, prompts = total_calls(rows), sum(row.prompts for row in rows)
    batched = (
        f" ({prompts} if the API returns all samples of a prompt in one call)" if prompts < calls else ""
    )
    duration = (
        "each wave takes up to 24 hours"
        if has_batches
        else f"time estimated at {SECONDS_PER_CALL:g} s per call, {settings.concurrency} calls in parallel"
    )
    note = (
        f"  {calls} calls{batched}, fewer if replies are stored; tokens estimated at 4 characters per token;"
        f" {duration}"
    )
    known = price_note(prices)
    dated = [f"  {known}"] if known else []
    return ["llmprops plan: no call is made", *aligned_table(table), note, *dated]
