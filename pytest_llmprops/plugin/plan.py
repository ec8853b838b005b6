"""The planned calls and cost of the selected cases, for ``--llm-plan`` and the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from pytest_llmprops.core.benchmark_checks import checked_plan_remarks
from pytest_llmprops.core.errors import ContractError
from pytest_llmprops.core.numbers import count, counted
from pytest_llmprops.core.requests import BATCH_DISCOUNT
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import SECONDS_PER_CALL, Planned, cost, total_calls
from pytest_llmprops.models.prices import FREE, Price, price
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.helpers import HELPER
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.reports.tables import fitted, terminal_width, without


def prices_of(cases: Cases) -> dict[str, Price]:
    """Return the known prices by label; helpers that are not called over a network are free."""
    prices = {}
    for label, spec in cases.model_specs().items():
        listed = price(spec.name, spec.params, cases.settings.prices)
        if listed is not None:
            has_batches = cases.settings.engine == "batch"
            prices[label] = listed.scaled(BATCH_DISCOUNT) if has_batches else listed
        elif spec.backend in ("llamacpp", "smollm2", "hf", "fake") or (
            label.startswith(HELPER) and not find_backend(spec.backend).remote
        ):
            prices[label] = FREE
    return prices


def price_note(prices: Mapping[str, Price]) -> str:
    """Return where the prices are from, with their date; empty if nothing has a price."""
    sources = dict.fromkeys(known.source for known in prices.values() if known.source)
    return f"prices: {', '.join(sources)}" if sources else ""


def without_calls(cases: Sequence[Case], labels: Container[str]) -> list[Planned]:
    """Return the rows of the models with these labels, which are served inside the pytest processes."""
    shown = [case for case in cases if case.model in labels and not case.sample]
    counts = Counter((case.benchmark.name, case.model) for case in shown)
    return [Planned(benchmark, model, items=n) for (benchmark, model), n in counts.items()]


def plan_remarks(cases: Iterable[Case]) -> tuple[list[str], list[ContractError]]:
    """Return the remarks of the benchmarks on their planned calls, and why others cannot be shown.

    They are for one sample of each item and any model.
    """
    shown = {(case.benchmark.name, case.item.id): case for case in cases}
    by_benchmark: dict[str, list[Case]] = {}
    for (name, _), case in shown.items():
        by_benchmark.setdefault(name, []).append(case)
    lines: list[str] = []
    problems: list[ContractError] = []
    for name, own in by_benchmark.items():
        benchmark, settings = own[0].benchmark, own[0].protocol.settings
        remarks, wrong = checked_plan_remarks(benchmark, [case.item for case in own], settings)
        lines += [f"  {name}: {text}" for text in remarks]
        problems += wrong
    return lines, problems


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
                count(row.items) if row.repeats == 1 else f"{count(row.items)} x {row.repeats}",
                count(row.calls),
                f"~{count(row.prompt_tokens)}",
                f"<= {count(row.completion_tokens)}" if row.completion_tokens else "?",
                "unknown" if amount is None else f"~{amount:.4f}",
                "?" if has_batches else f"~{minutes:.1f}",
            )
        )
    calls, prompts = total_calls(rows), sum(row.prompts for row in rows)
    batched = (
        f" ({count(prompts)} if the API returns all samples of a prompt in one call)"
        if prompts < calls
        else ""
    )
    duration = (
        "each wave takes up to 24 hours"
        if has_batches
        else f"time estimated at {SECONDS_PER_CALL:g} s per call, {settings.concurrency} calls in parallel"
    )
    note = (
        f"  {counted(calls, 'call')}{batched}, fewer if replies are stored; tokens estimated at 4 characters per token;"
        f" {duration}"
    )
    known = price_note(prices)
    dated = [f"  {known}"] if known else []
    width = terminal_width()
    short, models = without(table, ("model",))
    rows_shown = fitted(width, table, short, table) if models else fitted(width, table)
    title = "llmprops plan: no call is made"
    return [title, *rows_shown, note, *dated]
