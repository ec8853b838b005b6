"""Models whose replies are not stored: computed once per run, no calls, arrays sent over the socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Embed, Reply
from pytest_llmprops.engine import client
from pytest_llmprops.engine.broker import Broker
from tests.support.engine_models import MakeBroker, ask_all


class Vectors:
    """A blocking model of vectors; texts in ``bad`` fail with errors of ``kind``."""

    blocking, pinned, stored, max_batch = True, True, False, 8

    def __init__(self, bad: Sequence[str] = (), *, fatal: bool = False, kind: str = "model") -> None:
        self.identity = {"backend": "vectors"}
        self.asked: list[str] = []
        self._bad, self._fatal, self._kind = bad, fatal, kind

    def embed(self, requests: Sequence[Embed]) -> list[Any]:
        """Return one row per character."""
        self.asked += [request.text for request in requests]
        return [self._one(request.text) for request in requests]

    def _one(self, text: str) -> Any:
        if text in self._bad:
            return BackendError("no vector", kind=self._kind, fatal=self._fatal)
        rows = np.array([[ord(c), 0.1] for c in text], dtype=np.float32)
        return Reply(value={"vectors": rows}, served_model="vectors")

    def deviations(self) -> Sequence[str]:
        """Return no deviations."""
        return ()

    def close(self) -> None:
        """Do nothing."""


def one_by_one(broker: Broker, texts: Sequence[str]) -> list[Any]:
    """Send requests in turn, and close the broker."""

    async def work() -> list[Any]:
        results: list[Any] = []
        for text in texts:
            try:
                results.append(await broker.ask("m", "embed", Embed(text, tokens=True)))
            except (BackendError, RunStopped) as error:
                results.append(error)
        await broker.close()
        return results

    return asyncio.run(work())


@pytest.mark.parametrize("cache", ["reuse", "refresh", "off", "only"])
def test_computed_once_per_run_with_any_cache_setting(make_broker: MakeBroker, cache: str) -> None:
    """Each run computes each text once, with every setting of the store, and counts no call."""
    for _ in range(2):
        model = Vectors()
        broker = make_broker(model, cache=cache, max_calls=0)
        replies = one_by_one(broker, ["a", "b", "a"])
        assert [reply.value["vectors"][0][0] for reply in replies] == [ord("a"), ord("b"), ord("a")]
        assert replies[0].key == replies[2].key != replies[1].key
        assert model.asked == ["a", "b"]
        counters = broker.counters
        assert (counters.requests, counters.sent, counters.cache_hits, counters.joined) == (0, 0, 0, 0)
        assert broker.report()["models"]["m"]["served_as"] == ["vectors"]


def test_replies_are_not_stored(make_broker: MakeBroker, tmp_path: Path) -> None:
    """The store stays empty; the log has the request once, with a note instead of its reply."""
    run = tmp_path / "run"
    run.mkdir()
    broker = make_broker(Vectors(), run_dir=str(run))
    one_by_one(broker, ["a", "a"])
    [line] = [json.loads(line) for line in (run / "requests.jsonl").read_text().splitlines()]
    assert line["request"] == {"text": "a", "tokens": True}
    assert line["reply"] == {"text": "", "note": "computed in each run, not kept"}
    assert b"vectors" not in (tmp_path / "replies.sqlite").read_bytes()


def test_equal_requests_in_flight_are_computed_once(make_broker: MakeBroker) -> None:
    model = Vectors()
    asked = ask_all(make_broker(model), [Embed("a"), Embed("a"), Embed("b")])
    assert len(asked.results) == 3
    assert all(isinstance(r, Reply) for r in asked.results)
    assert sorted(model.asked) == ["a", "b"]


def test_memory_is_bounded(make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit, the least recently used reply is forgotten and computed again."""
    monkeypatch.setattr("pytest_llmprops.engine.queues.REMEMBERED", 2)
    model = Vectors()
    one_by_one(make_broker(model), ["a", "b", "a", "c", "a", "b"])
    assert model.asked == ["a", "b", "c", "b"]


def test_errors_are_not_remembered(make_broker: MakeBroker) -> None:
    """A failing text is computed again; a model that cannot be used ends the run."""
    model = Vectors(bad=["x"])
    first, good, again = one_by_one(make_broker(model), ["x", "a", "x"])
    assert isinstance(first, BackendError)
    assert isinstance(again, BackendError)
    assert isinstance(good, Reply)
    assert model.asked == ["x", "a", "x"]
    broker = make_broker(Vectors(bad=["x"], fatal=True))
    stopped, after = one_by_one(broker, ["x", "a"])
    assert isinstance(stopped, RunStopped)
    assert isinstance(after, RunStopped)
    assert broker.stopped == "m: no vector"


@pytest.mark.parametrize(("kind", "ends"), [("request", False), ("backend", True)])
def test_texts_that_are_too_long_end_no_run(make_broker: MakeBroker, kind: str, ends: bool) -> None:
    """Many overlong texts in a row do not stop the run; a model that fails on all texts does."""
    results = one_by_one(make_broker(Vectors(bad=["x"], kind=kind)), ["x"] * 40 + ["a"])
    assert all(isinstance(error, BackendError) for error in results[:10])
    assert isinstance(results[-1], RunStopped if ends else Reply)


def test_a_plan_needs_no_calls_for_them(make_broker: MakeBroker) -> None:
    """Computed replies are not calls of the plan, and the plan computes nothing."""
    model = Vectors()
    broker = make_broker(model)

    async def work() -> list[bool]:
        known = await broker.are_known([("m", Embed("a")), ("m", Embed("b"))])
        await broker.close()
        return known

    assert asyncio.run(work()) == [True, True]
    assert model.asked == []


def read(line: bytes) -> Any:
    async def work() -> Any:
        reader = asyncio.StreamReader(limit=client.LINE_LIMIT)
        reader.feed_data(line)
        reader.feed_eof()
        return await client.read_message(reader)

    return asyncio.run(work())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_arrays_cross_the_socket(dtype: str) -> None:
    """An array arrives unchanged, with its shape and type, among plain values."""
    array = np.random.default_rng(1).normal(size=(3, 5)).astype(dtype)
    message = {"id": 1, "reply": {"value": {"vectors": array, "spans": [[0, 1]], "empty": array[:0]}}}
    results = read(client.encode_message(message))["reply"]["value"]
    assert results["vectors"].dtype == array.dtype
    np.testing.assert_array_equal(results["vectors"], array)
    assert results["empty"].shape == (0, 5)
    assert results["spans"] == [[0, 1]]


def test_text_that_looks_like_an_array() -> None:
    """A reply containing the array marker arrives as text; non-numeric arrays are refused."""
    text = '{"__array__": "AAAA", "type": "<f4", "shape": [1]}'
    assert read(client.encode_message({"id": 1, "text": text})) == {"id": 1, "text": text}
    with pytest.raises(TypeError, match="not a JSON value"):
        client.encode_message({"x": np.array(["a"])})
    with pytest.raises(TypeError, match="not a JSON value"):
        client.encode_message({"x": object()})
