"""A scripted model for the tests of benchmarks, which needs no broker or backend and keeps every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.benchmarks.eras.benchmark import Eras
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.engine.evaluation.evaluator import Outcome
from tests.support.scripted import measured


@dataclass
class Measured:
    """One evaluated item: its outcome, and the (role, request) pairs it sent."""

    outcome: Outcome
    calls: list[tuple[str, Any]]

    @property
    def verdict(self) -> Verdict:
        assert self.outcome.verdict is not None
        return self.outcome.verdict

    @property
    def record(self) -> VerdictRecord:
        return self.outcome.record()

    @property
    def prompt(self) -> str:
        """The text of the only call."""
        ((_, request),) = self.calls
        (message,) = request.messages
        assert message.role == "user"
        return str(message.content)


Measure = Callable[..., Measured]


@pytest.fixture
def measure() -> Measure:
    """``measure(benchmark, item, context, *replies, protocol=..., helpers=..., **settings)``.

    A reply is a text or a Reply; they are given in order, and all must be asked for. A fault in the benchmark
    is raised.
    """

    def run(
        benchmark: Benchmark,
        item: Item,
        context: Any,
        *replies: str | Reply,
        helpers: tuple[str, ...] = ("reader",),
        **settings: Any,
    ) -> Measured:
        left = list(replies)

        def answer(request: Request) -> str | Reply:
            assert isinstance(request, Chat)
            assert left, "a request that the test did not expect"
            return left.pop(0)

        outcome, calls = measured(
            benchmark, item, context, answer, helpers=dict.fromkeys(helpers, answer), **settings
        )
        if outcome.error is None:
            assert not left, "a reply was not asked for"
        return Measured(outcome, calls)

    return run


@pytest.fixture(scope="module")
def part() -> Any:
    """The built-in ERAS items with their context."""
    return loaded(Eras(), DataFolder(builtin_data(), "builtin", find_registration("eras").tools))
