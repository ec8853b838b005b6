"""Models served inside the process: batches, attribution of errors, and reasons to stop a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Reply, Segment
from pytest_llmprops.engine.broker.in_process import InProcess
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models import registry
from pytest_llmprops.models.base import CallOptions
from tests.support.engine_models import kinds
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
        return [self._one(r.text) for r in requests]

    def _one(self, text: str) -> Any:
        if text == "fatal":
            return BackendError("no dictionary", kind="model", fatal=True)
        return BackendError("no !") if text == "!" else Reply(value=list(text), served_model="cutter 1")

    def close(self) -> None:
        """Record that the model is closed."""
        self.closed = True


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", {})


def session_of(make: Callable[..., Any]) -> InProcess:
    """Return a session with a model as ``m``."""
    registry.register_model("own", make, kinds=["segment"])
    broker = LocalBroker(BrokerConfig({}, cache="off"))
    return InProcess({"m": registry.parse_spec("own")}, CallOptions(), broker)


def asked(session: InProcess, *texts: str) -> list[Any]:
    """Return the reply or the error of each text; all are sent at once."""

    async def work() -> list[Any]:
        replies = (session.ask("m", "subject", Segment(text)) for text in texts)
        return await asyncio.gather(*replies, return_exceptions=True)

    return asyncio.run(work())


def test_requests_are_batched_and_counted() -> None:
    """Requests reach the model in batches of its size; each has its own reply or error. A used model is closed."""
    cutter = Cutter()
    session = session_of(lambda spec, options: cutter)
    session.close()
    assert not cutter.closed
    results = asked(session, "a", "b", "!", "c", "d")
    assert kinds(results) == ["reply", "reply", "error", "reply", "reply"]
    assert [result.value for result in results if isinstance(result, Reply)] == [["a"], ["b"], ["c"], ["d"]]
    assert cutter.batches == [4, 1]
    use = session.use()["m"]
    assert (use.requests, use.served_as, use.seconds > 0) == (5, ("cutter 1",), True)
    assert session.stopped is None
    session.close()
    assert cutter.closed


def test_a_model_that_cannot_be_used_stops_all() -> None:
    """After a fatal error, or if the model cannot be made, nothing more is served; the reason is one line."""
    session = session_of(lambda spec, options: Cutter())
    assert asked(session, "fatal")[0].args == ("m: no dictionary",)
    assert session.stopped == "m: no dictionary"
    [stopped] = asked(session, "a")
    assert (type(stopped), str(stopped)) == (RunStopped, "m: no dictionary")

    def broken(spec: Any, options: Any) -> Any:
        raise OSError("no\nfile")

    [reason] = {str(result) for result in asked(session_of(broken), "a", "b")}
    assert reason.startswith("m: OSError: no file (test_engine_in_process.py, line")
