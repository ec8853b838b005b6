"""The number of calls of a run and their cost, before the first call: for ``--llm-plan`` and for the confirmation."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from pytest_llmprops.core.contracts import calling, checked, checked_remarks
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.faults import fault_line
from pytest_llmprops.core.numbers import count, counted
from pytest_llmprops.core.requests import (
    BATCH_DISCOUNT,
    Chat,
    Completion,
    Likelihood,
    Request,
    Usage,
    request_from_json,
    request_to_json,
    sizes,
)
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.engine.evaluation.evaluator import Case
from pytest_llmprops.engine.evaluation.planning import SECONDS_PER_CALL, Planned, cost, plan
from pytest_llmprops.engine.session import Engine
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN, FREE, Price, price
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.cases.cases import HELPER, Cases
from pytest_llmprops.plugin.cases.light_items import SEARCHED, UNIT, cases_in
from pytest_llmprops.plugin.cases.markers import searched_by
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.reports.tables import fitted, terminal_width, without, wrapped

K = TypeVar("K", bound=Hashable)


def prices_of(cases: Cases) -> dict[str, Price]:
    """Return the known prices by label; helpers that are not called over a network are free."""
    prices, factor = {}, BATCH_DISCOUNT if cases.settings.engine == "batch" else 1.0
    for label, spec in cases.model_specs().items():
        backend = find_backend(spec.backend)
        if (listed := price(spec.name, spec.params, cases.settings.prices)) is not None:
            prices[label] = listed.scaled(factor)
        elif backend.is_free or (label.startswith(HELPER) and not backend.remote):
            prices[label] = FREE
    return prices


def price_note(prices: Mapping[str, Price]) -> str:
    """Return where the prices are from, with their date; empty if nothing has a price."""
    sources = dict.fromkeys(known.source for known in prices.values() if known.source)
    return f"prices: {', '.join(sources)}" if sources else ""


def plan_lines(rows: Sequence[Planned], prices: Mapping[str, Price], settings: RunOptions) -> list[str]:
    """Return the plan as a table: calls, tokens, cost and time per benchmark and model."""
    has_batches = settings.engine == "batch"
    table: list[tuple[str, ...]] = [
        ("benchmark", "model", "items", "calls", "prompt tokens", "reply tokens", "USD", "minutes")
    ]
    for row in rows:
        amount = cost(row, prices)
        minutes = row.calls * SECONDS_PER_CALL / settings.concurrency / 60
        items = count(row.items) if row.repeats == 1 else f"{count(row.items)} x {row.repeats}"
        tokens = f"<= {count(row.completion_tokens)}" if row.completion_tokens else "?"
        usd = "unknown" if amount is None else f"~{amount:.4f}"
        time = "?" if has_batches else f"~{minutes:.1f}"
        calls = count(row.calls)
        table.append(
            (row.benchmark, row.model, items, calls, f"~{count(row.prompt_tokens)}", tokens, usd, time)
        )
    total, prompts = sum(row.calls for row in rows), sum(row.prompts for row in rows)
    calls = counted(total, "call")
    if prompts < total:
        calls += f" ({count(prompts)} if the API returns all samples of a prompt in one call)"
    duration = f"time estimated at {SECONDS_PER_CALL:g} s per call, {settings.concurrency} calls in parallel"
    if has_batches:
        duration = "each wave takes up to 24 hours"
    width = terminal_width()
    short, models = without(table, ("model",))
    shown = fitted(width, table, short, table) if models else fitted(width, table)
    note = (
        f"  {calls}, fewer if replies are stored; tokens estimated at 4 characters per token, without the thoughts of"
        f" models that think; {duration}"
    )
    dated = [f"  {known}" for known in filter(None, [price_note(prices)])]
    return ["llmprops plan: no call is made", *shown, note, *dated]


#: prompts of which one must have a reply before the run begins: a gateway may block one of them
TRIALS = 3
#: a request that one call checks a model with
Trial = Chat | Completion | Likelihood


@dataclass(slots=True)
class ModelCalls:
    """The calls to one model.

    :param stored: number of requests that stored replies answer.
    :param completion_tokens: the most tokens that the replies may have, without thoughts.
    :param thinking_tokens: tokens of the thoughts before each reply, as in the call before the run.
    :param trials: the shortest different prompts without a stored reply, for the call before the run.
    """

    calls: int = 0
    stored: int = 0
    prompt_characters: int = 0
    completion_tokens: int = 0
    thinking_tokens: int = 0
    trials: list[Trial] = field(default_factory=list)

    def add(self, request: Request) -> None:
        """Count a request that needs a call."""
        self.calls += 1
        characters, tokens = sizes(request)
        self.prompt_characters += characters
        self.completion_tokens += tokens
        if isinstance(request, Trial) and all(request.prompt != other.prompt for other in self.trials):
            self.trials = sorted([*self.trials, request], key=_cost_of_trial)[:TRIALS]

    def cost(self, price: Price) -> float:
        """Return the estimated cost in USD."""
        tokens = round(self.prompt_characters / CHARACTERS_PER_TOKEN)
        return price.of(Usage(tokens, self.completion_tokens + self.calls * self.thinking_tokens))

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with which a worker tells its controller."""
        return {**dataclasses.asdict(self), "trials": [request_to_json(trial) for trial in self.trials]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelCalls:
        """Read the values that :meth:`to_json` returns."""
        return cls(**{**data, "trials": [request_from_json(trial) for trial in data["trials"]]})


#: number of requests that are looked up in the store at once; their prompts are in memory
_COUNTED = 1_000
#: model label -> its calls
Forecast = Mapping[str, ModelCalls]


def _cost_of_trial(request: Trial) -> tuple[bool, int]:
    """Return what to minimize. One sample of a prompt at a temperature leaves the others to a second call."""
    return not isinstance(request, Likelihood) and request.temperature != 0, len(request.prompt)


def forecast_of(collection: Collection, evaluation: Evaluation, engine: Engine) -> Forecast:
    """Return the calls of the collected cases that are still to be measured."""
    calls: dict[str, ModelCalls] = {}
    asked: list[tuple[str, Request]] = []

    def add(label: str, request: Request) -> None:
        asked.append((label, request))
        if len(asked) == _COUNTED:
            look_up()

    def look_up() -> None:
        for (label, request), is_known in zip(asked, engine.are_known(asked), strict=True):
            own = calls.setdefault(label, ModelCalls())
            if is_known:
                own.stored += 1
            else:
                own.add(request)
        asked.clear()

    in_process = evaluation.in_process_labels
    plan((case for case in collection.remaining if case.model not in in_process), add)
    look_up()
    return calls


def forecast_in_worker(collection: Collection, evaluation: Evaluation) -> Forecast:
    """Return the calls of a run with workers, all of which collect the same cases.

    :raises LLMPropsError: if the calls cannot be counted.
    """
    config = dataclasses.replace(evaluation.broker_config(), run_dir=None, engine="local")
    engine = Engine(config=config, window=1)
    try:
        return forecast_of(collection, evaluation, engine)
    except LLMPropsError:
        raise
    except Exception as fault:
        raise UsageError(f"the calls of the run could not be counted: {fault_line(fault)}") from None
    finally:
        engine.close()


class PlanOnly:
    """Prints the plan instead of running the tests."""

    def __init__(self, cases: Cases, evaluation: Evaluation) -> None:
        self._cases, self._evaluation = cases, evaluation

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            # The plan of an incomplete collection would mislead.
            return False
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        lines, problems = self._lines(session.items)
        session.testsfailed += len(problems)
        if reporter is not None:
            reporter.ensure_newline()
            for line in lines:
                for part in wrapped(line, terminal_width()):
                    reporter.write_line(part)
            for problem in problems:
                reporter.write_line(f"ERROR: {terminal_line(str(problem))}", red=True)
        return True

    def _lines(self, items: Sequence[pytest.Item]) -> tuple[list[str], list[LLMPropsError]]:
        """Return the plan, and what is wrong with what benchmarks say about it."""
        cases = [case for item in items for case in cases_in(item.stash.get(UNIT, None))]
        in_process = self._evaluation.in_process_labels
        rows = plan(case for case in cases if case.model not in in_process)
        served_here = Counter(
            (case.benchmark.name, case.model)
            for case in cases
            if case.model in in_process and not case.sample
        )
        rows += [Planned(benchmark, model, items=n) for (benchmark, model), n in served_here.items()]
        prices = prices_of(self._cases) | dict.fromkeys(in_process, FREE)
        lines, problems = plan_lines(rows, prices, self._cases.settings), list[LLMPropsError]()
        # Remarks are on one sample of each item and any model.
        shown = {(case.benchmark.name, case.item.id): case for case in cases}
        for name, members in _grouped((name, case) for (name, _), case in shown.items()).items():
            benchmark, settings = members[0].benchmark, members[0].protocol.settings
            own = [case.item for case in members]
            remarks, wrong = checked_remarks(benchmark, "plan_remarks", own, settings)
            lines += [f"  {name}: {text}" for text in remarks]
            problems += wrong
        calls, is_known, searches = 0, True, 0
        # One call per property, so that a mistake has one line.
        searched = ((item, case) for item in items if (case := item.stash.get(SEARCHED, None)) is not None)
        by_property = _grouped(((case.benchmark.name, searched_by(item)), case) for item, case in searched)
        for (_, searched_property), members in by_property.items():
            benchmark, settings = members[0].benchmark, members[0].protocol.settings
            searches += len(members)
            try:
                with calling(benchmark, "search_calls"):
                    found = benchmark.search_calls(settings, searched_property)
                limit: int | None = checked(benchmark, "search_calls", found)
            except LLMPropsError as error:
                problems.append(error)
                continue
            calls, is_known = calls + (limit or 0) * len(members), is_known and limit is not None
        if searches:
            most = f"at most {counted(calls, 'further call')}" if is_known else "an unknown number of calls"
            lines.append(
                f"  {counted(searches, 'search', 'searches')} for counterexamples to accepted answers: {most},"
                " and those that repeat a counterexample"
            )
        return lines, problems


def _grouped(pairs: Iterable[tuple[K, Case]]) -> dict[K, list[Case]]:
    groups: dict[K, list[Case]] = {}
    for key, case in pairs:
        groups.setdefault(key, []).append(case)
    return groups
