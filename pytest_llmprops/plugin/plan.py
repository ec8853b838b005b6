"""``--llm-plan`` and the budgets: what the selected cases would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence

from pytest_llmprops.core.requests import Request
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import SECONDS_PER_CALL, Planned, cost, plan, total_calls
from pytest_llmprops.models.prices import price
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.reports.terminal import aligned_table

CountStored = Callable[[Sequence[tuple[str, Request]]], int]


def prices_of(cases: Cases) -> dict[str, tuple[float, float]]:
    """Return the known prices, in USD per token of prompt and completion, by model label."""
    prices = {}
    for label, spec in cases.models.items():
        known = price(spec.name, spec.params)
        if known is not None:
            prices[label] = (known.input_per_token, known.output_per_token)
        elif spec.backend in ("llamacpp", "smollm2", "hf", "fake"):
            prices[label] = (0.0, 0.0)
    return prices


def over_budget(
    cases: Sequence[Case], settings: RunOptions, known: Cases, count_stored: CountStored
) -> str | None:
    """Why the plan of ``cases`` may not start under the session's limits; None when it may."""
    rows = plan(cases)
    asked = [pair for row in rows for pair in row.asked]
    calls = total_calls(rows)
    # With --llm-cache refresh or off, stored replies save nothing.
    stored = count_stored(asked) if settings.cache in ("reuse", "only") else 0
    if settings.max_calls is not None and calls - stored > settings.max_calls:
        return (
            f"refused to start: the plan needs {calls - stored} calls ({stored} more are stored), above"
            f" --llm-max-calls {settings.max_calls}; raise it, or take fewer items with --llm-limit N"
        )
    if settings.max_cost is None:
        return None
    prices = prices_of(known)
    share = (calls - stored) / calls if calls else 0.0
    total = 0.0
    for row in rows:
        amount = cost(row, prices)
        if amount is None:
            return (
                f"refused to start: --llm-max-cost needs a price, and {row.model} has none; add"
                " ?price_in=X&price_out=Y (USD per million tokens) to the model or install the extra 'litellm'"
            )
        total += amount * share
    if total > settings.max_cost:
        return (
            f"refused to start: the plan costs about {total:.4f} USD, above --llm-max-cost {settings.max_cost:g};"
            " raise it, or take fewer items with --llm-limit N"
        )
    return None


def without_calls(cases: Sequence[Case], here: Container[str]) -> list[Planned]:
    """The rows of models that are served inside the pytest processes."""
    counts = Counter((case.benchmark.name, case.model) for case in cases if case.model in here)
    return [Planned(benchmark, model, items=n) for (benchmark, model), n in counts.items()]


def plan_lines(
    rows: Sequence[Planned], prices: dict[str, tuple[float, float]], settings: RunOptions
) -> list[str]:
    """The plan as a table: calls, tokens, cost and time per benchmark and model."""
    table: list[tuple[str, ...]] = [
        ("benchmark", "model", "items", "calls", "prompt tokens", "reply tokens", "USD", "minutes")
    ]
    for row in rows:
        amount = cost(row, prices)
        minutes = row.calls * SECONDS_PER_CALL / settings.concurrency / 60
        table.append(
            (
                row.benchmark,
                row.model,
                str(row.items),
                str(row.calls),
                f"~{row.prompt_tokens:,}",
                f"<= {row.completion_tokens:,}" if row.completion_tokens else "?",
                "unknown" if amount is None else f"~{amount:.4f}",
                f"~{minutes:.1f}",
            )
        )
    calls, prompts = total_calls(rows), sum(row.prompts for row in rows)
    together = (
        f" ({prompts} where the API gives all samples of a prompt by one call)" if prompts < calls else ""
    )
    note = (
        f"  {calls} calls{together}, fewer where replies are stored; tokens by 4 characters a token; time at"
        f" {SECONDS_PER_CALL:g} s a call and {settings.concurrency} at once"
    )
    return ["llmprops plan: nothing is sent", *aligned_table(table), note]
