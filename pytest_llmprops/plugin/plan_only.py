"""The run of ``--llm-plan``: prints the plan and runs no tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_llmprops.core.benchmark_checks import checked_search_calls
from pytest_llmprops.core.errors import ContractError
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.engine.planning import plan
from pytest_llmprops.models.prices import FREE
from pytest_llmprops.plugin.markers import searched_by
from pytest_llmprops.plugin.plan import plan_lines, plan_remarks, prices_of, without_calls
from pytest_llmprops.plugin.session import LLMSession
from pytest_llmprops.reports.tables import terminal_width, wrapped


class PlanOnly:
    """Prints the plan instead of running the tests."""

    def __init__(self, session: LLMSession) -> None:
        self._session = session

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

    def _lines(self, items: Sequence[pytest.Item]) -> tuple[list[str], list[ContractError]]:
        """Return the plan, and what is wrong with what benchmarks say about it."""
        collection = self._session.collection
        cases = [case for item in items for case in collection.cases_of(item)]
        in_process = self._session.evaluation.in_process_labels
        rows = [*plan(c for c in cases if c.model not in in_process), *without_calls(cases, in_process)]
        prices = prices_of(self._session.cases) | dict.fromkeys(in_process, FREE)
        lines = plan_lines(rows, prices, self._session.settings)
        remarks, problems = plan_remarks(cases)
        lines += remarks
        searches = [
            (case, searched_by(item)) for item in items if (case := collection.searched_by(item)) is not None
        ]
        if searches:
            keys = {case.key for case, _ in searches}
            limits: set[int] = set()
            # One call per property, so that a mistake has one line.
            for (_, name), case in {(c.benchmark.name, name): c for c, name in searches}.items():
                try:
                    limit = checked_search_calls(case.benchmark, case.protocol.settings, name)
                except ContractError as error:
                    problems.append(error)
                    continue
                if limit is not None:
                    limits.add(limit)
            known = ", ".join(f"{limit:,}" for limit in sorted(limits))
            most = f" and take at most {known} requests each" if known else ""
            lines.append(
                f"  not included: the searches of {len(keys)} items, which depend on their verdicts{most}"
            )
        return lines, problems
