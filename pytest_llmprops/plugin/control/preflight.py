"""What comes before the first call: checks of folder, keys, prices, calls and cost; or the plan instead of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NoReturn

import pytest

from pytest_llmprops.core.contracts import calling, checked, checked_remarks
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.numbers import count, counted
from pytest_llmprops.core.requests import Price
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.engine.evaluation.evaluator import Case
from pytest_llmprops.engine.evaluation.planning import SECONDS_PER_CALL, Planned, cost, plan
from pytest_llmprops.engine.store.location import holds_replies
from pytest_llmprops.models.api.prices import FREE
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.cases.cases import Cases
from pytest_llmprops.plugin.cases.light_items import SEARCHED, UNIT, cases_in
from pytest_llmprops.plugin.cases.markers import searched_by
from pytest_llmprops.plugin.control.controller import Controller
from pytest_llmprops.plugin.control.estimate import Forecast, forecast_of, price_note, prices_of
from pytest_llmprops.plugin.control.terminal import answer_of, can_ask, write_lines
from pytest_llmprops.plugin.evaluation import Evaluation
from pytest_llmprops.plugin.options import RunOptions, project_folder, shown_only
from pytest_llmprops.reports.tables import fitted, terminal_width, without, wrapped
from pytest_llmprops.runs.record import check_run_folder


class Preflight:
    """The checks of the controller before the first call."""

    def __init__(self, config: pytest.Config, controller: Controller) -> None:
        self._config, self._controller = config, controller
        self._session = controller.session
        self._chosen = self._session.cases.chosen_specs()
        #: the models that are called over a network
        self._remote = [label for label, spec in self._chosen.items() if find_backend(spec.backend).remote]

    def check(self) -> None:
        """Check what is known before collection.

        :raises pytest.UsageError: if the run's folder cannot be used, or a key or a price is missing.
        """
        settings = self._session.settings
        if shown_only(self._config.option, settings):
            return
        try:
            if self._session.earlier is None:
                check_run_folder(settings.run, project_folder(self._config))
            if settings.max_cost is not None:
                self._check_prices()
            self._check_keys()
        except LLMPropsError as error:
            raise pytest.UsageError(str(error)) from None

    def _check_prices(self) -> None:
        known = prices_of(self._session.cases).keys() | self._session.evaluation.in_process_labels
        unpriced = [label for label in self._chosen if label not in known]
        if not unpriced:
            return
        names = ", ".join(unpriced)
        how = "add ?price_in=X&price_out=Y (USD per million tokens) to the model, or name a file: -o llm_prices=FILE"
        max_calls = self._session.settings.max_calls
        if max_calls is None:
            raise UsageError(
                f"--llm-max-cost needs a price, and {names} has none; {how}, or limit the calls with --llm-max-calls N"
            )
        self._controller.recording.notes.append(
            f"{names} has no price, so --llm-max-cost leaves out its calls; --llm-max-calls {max_calls} limits them;"
            f" for a limit in USD, {how}"
        )

    def _check_keys(self) -> None:
        evaluation, cache = self._session.evaluation, self._session.settings.cache
        if cache == "only" or not self._remote:
            return
        config = evaluation.broker_config()
        options = config.calls
        for label in self._remote:
            missing = find_backend(self._chosen[label].backend).missing(self._chosen[label], options)
            # A run whose replies are all stored needs no key. If one is missing, the call before the run says so.
            if missing and not (cache == "reuse" and holds_replies(config.store, label)):
                raise UsageError(missing)

    # Last, to print after "collected"; the controller, which opens the record, is registered later and comes later.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        collection = self._session.collection
        if self._controller.is_distributed or not self.is_needed:
            return
        if not collection.remaining or collection.only_collects(session):
            return
        self._controller.start_broker()
        try:
            forecast = forecast_of(collection, self._session.evaluation, self._session.evaluation.engine)
        except LLMPropsError as error:
            # The store, or the cluster of --llm-engine ray, cannot be used.
            raise pytest.UsageError(str(error)) from None
        self.decide(forecast)

    @property
    def is_needed(self) -> bool:
        """True if the run has a limit, or may call a model over a network."""
        settings = self._session.settings
        has_limit = settings.max_calls is not None or settings.max_cost is not None
        return has_limit or (bool(self._remote) and settings.cache != "only")

    def decide(self, forecast: Forecast) -> None:
        """Print the calls and the cost; refuse the run, or make one call to each model and ask for a confirmation."""
        calls = sum(own.calls for own in forecast.values())
        stored = sum(own.stored for own in forecast.values())
        known = f"{stored:,} already stored" if stored else "none stored yet"
        remote = [label for label in self._remote if label in forecast]
        usd, cost = self._cost_of(forecast)
        if remote:
            write_lines(self._config, [f"llmprops: plan: {calls:,} calls ({known}), {cost}"])
        self._check_limits(calls, known, usd)
        if not remote:
            return
        doubt = self._doubt(calls, usd, cost)
        if doubt and not can_ask(self._config):
            # Before anything is sent.
            raise pytest.UsageError(doubt)
        self._try(forecast, remote)
        thoughts = [
            f"{label} (about {own.thinking_tokens:,} tokens before each reply)"
            for label, own in forecast.items()
            if own.thinking_tokens
        ]
        if thoughts:
            usd, cost = self._cost_of(forecast)
            self._check_limits(calls, known, usd)
            cost += f", with the thoughts of {', '.join(thoughts)}"
            write_lines(self._config, [f"llmprops: plan: {calls:,} calls, {cost}"])
            doubt = self._doubt(calls, usd, cost)
        if not doubt:
            return
        answer = answer_of(self._config, "llmprops: continue? [y/N] ")
        if answer is None:
            raise pytest.UsageError(doubt)
        if answer.strip().lower() not in ("y", "yes"):
            self._end("not confirmed; at most one call per model was sent, and no run was recorded")

    def _cost_of(self, forecast: Forecast) -> tuple[float | None, str]:
        """Return the cost in USD, None if a price is unknown; and as a phrase, with where the prices are from."""
        prices = prices_of(self._session.cases)
        called = {label: own for label, own in forecast.items() if own.calls}
        unpriced = [label for label in called if label not in prices]
        if unpriced:
            return None, f"no price of {', '.join(unpriced)}"
        usd = sum(own.cost(prices[label]) for label, own in called.items())
        note = price_note(prices)
        return usd, f"about {usd:.2f} USD{f' ({note})' if usd and note else ''}"

    def _check_limits(self, calls: int, known: str, usd: float | None) -> None:
        """End the session as a stopped run ends, if the plan is above a limit of the user."""
        settings, reason = self._session.settings, ""
        if settings.max_calls is not None and calls > settings.max_calls:
            reason = f"the plan needs {calls} calls ({known}), above --llm-max-calls {settings.max_calls}"
        elif settings.max_cost is not None and usd is not None and usd > settings.max_cost:
            reason = f"the plan costs about {usd:.4f} USD, above --llm-max-cost {settings.max_cost:g}"
        if reason:
            self._end(
                f"refused to start: {reason}; raise the limit, or select fewer items with --llm-limit N; no run was"
                " recorded"
            )

    def _end(self, reason: str) -> NoReturn:
        self._controller.ended = reason
        pytest.exit(f"llmprops: {reason}", returncode=pytest.ExitCode.INTERRUPTED)

    def _doubt(self, calls: int, usd: float | None, cost: str) -> str:
        """Return why the run needs a confirmation, and what to do; empty if it needs none, or an option confirms it.

        A run needs one above the limits of ``llm_confirm``, and if even an unchanged model would seldom pass its gate.
        """
        settings, gating = self._session.settings, self._session.gating
        limits, needed = settings.confirm, f"this run needs a confirmation: {calls:,} calls, {cost}"
        if settings.yes or not calls:
            return ""
        is_costly = settings.max_cost is None and None not in (usd, limits.usd) and usd > limits.usd  # type: ignore[operator]
        is_long = settings.max_calls is None and limits.calls is not None and calls > limits.calls
        if is_costly or is_long:
            return (
                f"{needed}, above llm_confirm = {limits}; confirm with --llm-yes, or measure fewer items with"
                " --llm-size small or --llm-limit N"
            )
        if (limits.usd, limits.calls) == (None, None) or gating is None or gating.is_likely:
            return ""
        return (
            f"{needed}, and {gating.chances}; confirm with --llm-yes, or give a larger max_drop, more items or"
            " --llm-repeats (llmprops gate --plan shows what is enough)"
        )

    def _try(self, forecast: Forecast, remote: list[str]) -> None:
        """Make one call to each model, with its shortest prompt without a stored reply; the run does not repeat it.

        The forecast then has the tokens of its thoughts.
        """
        requests = {label: trials for label in remote if (trials := forecast[label].trials)}
        if not requests or self._session.settings.engine == "batch":
            # A batch of an earlier run may have the request; a refused batch ends the run, too.
            return
        try:
            for label, tokens in self._controller.broker.engine.trials(requests).items():
                forecast[label].thinking_tokens = tokens
        except LLMPropsError as error:
            reason = self._controller.broker.failure() or str(error)
            raise pytest.UsageError(terminal_line(reason)) from None


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


class PlanOnly:
    """Prints the plan instead of running the tests."""

    def __init__(self, cases: Cases, evaluation: Evaluation) -> None:
        self._cases, self._evaluation = cases, evaluation

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            # The plan of an incomplete collection would mislead.
            return False
        lines, problems = self._lines(session.items)
        session.testsfailed += len(problems)
        write_lines(session.config, [part for line in lines for part in wrapped(line, terminal_width())])
        write_lines(session.config, [f"ERROR: {problem}" for problem in problems], red=True)
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
        shown: dict[str, dict[str, Case]] = {}
        for case in cases:
            shown.setdefault(case.benchmark.name, {})[case.item.id] = case
        for name, by_id in shown.items():
            own = [case.item for case in by_id.values()]
            first = next(iter(by_id.values()))
            remarks, wrong = checked_remarks(first.benchmark, "plan_remarks", own, first.protocol.settings)
            lines += [f"  {name}: {text}" for text in remarks]
            problems += wrong
        # One call per property, so that a mistake has one line.
        searched: dict[tuple[str, str], list[Case]] = {}
        for item in items:
            if (case_of_search := item.stash.get(SEARCHED, None)) is not None:
                key = (case_of_search.benchmark.name, searched_by(item))
                searched.setdefault(key, []).append(case_of_search)
        calls: int | None = 0
        for (_, searched_property), members in searched.items():
            benchmark, settings = members[0].benchmark, members[0].protocol.settings
            try:
                with calling(benchmark, "search_calls"):
                    found = benchmark.search_calls(settings, searched_property)
                limit: int | None = checked(benchmark, "search_calls", found)
            except LLMPropsError as error:
                problems.append(error)
                continue
            calls = None if calls is None or limit is None else calls + limit * len(members)
        if searched:
            searches = counted(sum(map(len, searched.values())), "search", "searches")
            most = (
                "an unknown number of calls" if calls is None else f"at most {counted(calls, 'further call')}"
            )
            lines.append(
                f"  {searches} for counterexamples to accepted answers: {most}, and those that repeat a counterexample"
            )
        return lines, problems
