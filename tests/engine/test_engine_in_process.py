"""Models served inside the process: batches, attribution of errors, and reasons to stop a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark, NoSettings, Serve
from pytest_llmprops.core.errors import BackendError, ContractError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol
from pytest_llmprops.core.requests import Reply, Segment
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.broker.in_process import InProcess
from pytest_llmprops.engine.evaluation.evaluator import Case, Outcome
from pytest_llmprops.models import registry
from pytest_llmprops.models.base import CallOptions
from tests.support.scripted import Plain


class Cutter(Plain):
    """A segmenter into characters that records its batches; ``!`` fails, and ``fatal`` is a fatal error."""

    identity: Mapping[str, Any] = {"backend": "cutter"}
    max_batch = 4

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.closed = False

    def segment(self, requests: Sequence[Segment]) -> list[Any]:
        """Segment one batch."""
        self.batches.append(len(requests))
        if any(r.text == "raise" for r in requests):
            raise RuntimeError("two\nlines")
        if any(r.text == "short" for r in requests):
            return []
        return [self._one(r.text) for r in requests]

    def _one(self, text: str) -> Any:
        if text == "fatal":
            return BackendError("no dictionary", kind="model", fatal=True)
        return BackendError("no !") if text == "!" else Reply(value=list(text), served_model="cutter 1")

    def close(self) -> None:
        """Record that the model is closed."""
        self.closed = True


class Cuts(Benchmark):
    """Checks whether the segmenter returns the text's characters; the context selects special behaviour."""

    name = "cuts"

    def evaluate_all(
        self, items: Sequence[Item], context: Any, serve: Serve, protocol: Protocol[Any]
    ) -> list[Verdict | BackendError] | None:
        if isinstance(context, Exception):
            raise context
        if context == "one by one":
            return None
        replies = serve([Segment(item["text"]) for item in items])
        outcomes: list[Verdict | BackendError] = [
            r if isinstance(r, BackendError) else Verdict.check(True, expected="", given="".join(r.value))
            for r in replies
        ]
        return outcomes[:-1] if context == "one short" else outcomes


@pytest.fixture
def cutter(monkeypatch: pytest.MonkeyPatch) -> Cutter:
    """Return the model behind ``cutter:x``."""
    monkeypatch.setattr(registry, "registered", {})
    model = Cutter()
    registry.register_model("cutter", lambda spec, options: model, kinds=["segment"])
    return model


@pytest.fixture
def here(cutter: Cutter) -> InProcess:
    """Return a session with that model as ``m``."""
    return InProcess({"m": registry.parse_spec("cutter")}, CallOptions())


def cases(*texts: str, context: Any = None, benchmark: Benchmark | None = None) -> list[Case]:
    """Return one case per text."""
    protocol, own = Protocol("quick", NoSettings()), benchmark or Cuts()
    items = [Item(f"c/{n}", "cut", "zh", fields={"text": t}) for n, t in enumerate(texts)]
    return [Case(own, item, context, protocol, "m") for item in items]


def judged(session: InProcess, *texts: str, context: Any = None) -> list[Outcome]:
    """Return the outcomes of these texts, which the benchmark judges at once."""
    outcomes = session.evaluate(cases(*texts, context=context))
    assert outcomes is not None
    return outcomes


def test_outcomes_come_in_order_and_batches_fit(here: InProcess, cutter: Cutter) -> None:
    """Each item has its own outcome, and no batch exceeds the model's batch size."""
    outcomes = judged(here, *(f"t{n}" for n in range(10)))
    assert [o.verdict.given for o in outcomes if o.verdict] == [f"t{n}" for n in range(10)]
    assert cutter.batches == [4, 4, 2]
    assert here.use()["m"].requests == 10
    assert here.use()["m"].served_as == ("cutter 1",)


def test_items_of_two_sources_keep_their_context(here: InProcess) -> None:
    """Cases with different contexts are judged separately."""
    faulty = KeyError("context")
    outcomes = here.evaluate([*cases("a"), *cases("b", context=faulty), *cases("c")])
    assert outcomes is not None
    assert [o.fault for o in outcomes] == [None, faulty, None]


def test_error_of_one_item_affects_no_other(here: InProcess) -> None:
    """A failure at one sentence affects no other and stops nothing."""
    outcomes = judged(here, "a", "!", "b")
    assert [o.error is None for o in outcomes] == [True, False, True]
    assert here.stopped is None


@pytest.mark.parametrize(
    ("text", "message"), [("raise", "RuntimeError: two lines"), ("short", "0 results for")]
)
def test_a_backends_exception_is_an_error_of_its_batch(here: InProcess, text: str, message: str) -> None:
    """A model's exception, or a missing result, is a one-line error of that batch."""
    outcomes = judged(here, "a", "b", "c", text, "d")
    assert [o.error is not None for o in outcomes] == [True, True, True, True, False]
    assert outcomes[0].error is not None
    assert message in outcomes[0].error.message


@pytest.mark.parametrize(
    ("context", "fault"), [("one short", ContractError), (ValueError("mine"), ValueError)]
)
def test_a_benchmarks_exception_is_a_fault(here: InProcess, context: Any, fault: type[Exception]) -> None:
    """A benchmark that raises, or returns too few results, is reported as faulty, not the model."""
    assert all(isinstance(o.fault, fault) for o in judged(here, "a", "b", context=context))


def test_a_model_that_cannot_be_loaded_stops_all(here: InProcess) -> None:
    """After a fatal error nothing more is served, in a batch or singly."""
    assert [o.stopped for o in judged(here, "a", "fatal")] == ["m: no dictionary"] * 2
    assert here.stopped == "m: no dictionary"
    with pytest.raises(RunStopped, match="m: no dictionary"):
        asyncio.run(here.ask("m", "subject", Segment("a")))


def test_declined_items_are_evaluated_singly(here: InProcess, cutter: Cutter) -> None:
    """None from a benchmark is passed on as None, and a benchmark without the method gets no batches."""
    assert here.evaluate(cases("a", context="one by one")) is None
    [plain] = cases("a", benchmark=Benchmark())
    assert not here.takes_batches(plain)
    assert here.takes_batches(cases("a")[0])
    assert cutter.batches == []


def test_single_requests_are_batched_and_counted(here: InProcess, cutter: Cutter) -> None:
    """Requests of items that are judged singly reach the model together."""

    async def ask_all() -> list[Any]:
        texts = ["a", "b", "!", "c", "d"]
        return await asyncio.gather(
            *(here.ask("m", "subject", Segment(t)) for t in texts), return_exceptions=True
        )

    outcomes = asyncio.run(ask_all())
    assert [type(r) for r in outcomes] == [Reply, Reply, BackendError, Reply, Reply]
    assert cutter.batches == [4, 1]
    assert here.use()["m"].requests == 5


def test_closing_frees_the_models(here: InProcess, cutter: Cutter) -> None:
    """A used model is closed; an unused one is never loaded."""
    here.close()
    assert not cutter.closed
    here.evaluate(cases("a"))
    here.close()
    assert cutter.closed


def test_fault_at_every_item_of_a_batch_stops_the_run(here: InProcess) -> None:
    """An exception of evaluate_all is the fault of 20 items; the others are not evaluated."""
    outcomes = judged(here, *(f"i{n}" for n in range(30)), context=ValueError("mine"))
    assert [o.fault is not None for o in outcomes] == [True] * 20 + [False] * 10
    assert "20 items of" in str(here.stopped)
    assert judged(here, "a")[0].stopped == here.stopped
