"""``--llm-plan`` and the budgets: what the selected cases would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Any

import pytest

from pytest_llmprops.core.requests import Request
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import SECONDS_PER_CALL, Planned, cost, plan, total_calls
from pytest_llmprops.models.prices import price
from pytest_llmprops.plugin.cases import Cases
from pytest_llmprops.plugin.options import Settings
from pytest_llmprops.reports.terminal import aligned_table

CountStored = Callable[[Sequence[tuple[str, Request]]], int]


def _prices(cases: Cases) -> dict[str, tuple[float, float]]:
    found = {}
    for label, spec in cases.models.items():
        known = price(spec.name, spec.params)
        if known is not None:
            found[label] = (known.input_per_token, known.output_per_token)
        elif spec.backend in ("llamacpp", "smollm2", "hf", "fake"):
            found[label] = (0.0, 0.0)
    return found


def over_budget(
    cases: Sequence[Case], settings: Settings, known: Cases, count_stored: CountStored
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
    prices = _prices(known)
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


class PlanOnly:
    """Prints the plan in place of running anything."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            # A plan of half a collection would mislead.
            return False
        cases = [case for item in session.items for case in self._session.cases_of(item)]
        here = self._session.evaluation.in_process_labels
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            rows = [*plan(c for c in cases if c.model not in here), *without_calls(cases, here)]
            prices = _prices(self._session.cases) | dict.fromkeys(here, (0.0, 0.0))
            for line in plan_lines(rows, prices, self._session.settings):
                reporter.write_line(line)
            searches = sum(self._session.searched_by(item) is not None for item in session.items)
            if searches:
                reporter.write_line(
                    f"  not in it: the searches of {searches} items, which depend on their verdicts"
                )
        return True


def without_calls(cases: Sequence[Case], here: Container[str]) -> list[Planned]:
    """The rows of models that are served inside the pytest processes."""
    counts = Counter((case.benchmark.name, case.model) for case in cases if case.model in here)
    return [Planned(benchmark, model, items=n) for (benchmark, model), n in counts.items()]


def plan_lines(
    rows: Sequence[Planned], prices: dict[str, tuple[float, float]], settings: Settings
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
