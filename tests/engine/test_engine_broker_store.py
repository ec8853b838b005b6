"""The broker and the reply store: which requests are sent again, replayed, or computed in each run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Embed, Reply, Request
from pytest_llmprops.engine.broker import remote as client
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.store.base import Row, row_of
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, ask_all, kinds
from tests.support.scripted import Plain


class Deviating(FakeModel):
    """A fake model whose API has refused parameters; ``phrases`` lists them."""

    phrases: Sequence[str] = ()

    def deviations(self) -> Sequence[str]:
        return self.phrases


def one_by_one(broker: LocalBroker, requests: Sequence[str | Request]) -> list[Any]:
    """Send requests one after the other, so that none is joined in flight, and close the broker."""

    async def work() -> list[Any]:
        results: list[Any] = []
        for request in requests:
            chat = Chat.user(request) if isinstance(request, str) else request
            try:
                results.append(await broker.ask("m", "subject", chat))
            except (BackendError, RunStopped) as error:
                results.append(error)
        await broker.close()
        return results

    return asyncio.run(work())


def known(broker: LocalBroker, *requests: Request) -> list[bool]:
    """Return which requests a plan takes for answered, and close the broker."""

    async def work() -> list[bool]:
        try:
            return await broker.are_known([("m", request) for request in requests])
        finally:
            await broker.close()

    return asyncio.run(work())


def test_stored_replies_are_not_requested_again(make_broker: MakeBroker) -> None:
    """A second run is served from the store and reports the age of its replies; another model gets none of them."""
    model = FakeModel(lambda chat: chat.prompt.upper())
    ask_all(make_broker(model), ["a", "b"])
    asked = ask_all(make_broker(model), ["a", "b", "c"])
    assert asked.texts == ["A", "B", "C"]
    assert [r.cached for r in asked.results] == [True, True, False]
    assert [r.prompt for r in model.requests] == ["a", "b", "c"]
    assert (asked.counters.requests, asked.counters.cache_hits, asked.counters.sent) == (3, 2, 1)
    assert 0 < asked.counters.oldest_seconds < 60
    assert ask_all(make_broker(FakeModel(["y"])), ["a"]).texts == ["y"]


def test_stored_replies_are_read_without_their_thoughts(make_broker: MakeBroker) -> None:
    """A reply that was stored whole is split when it is read; one that was cut before its answer is sent again."""
    model = FakeModel(lambda chat: "B")
    keys = [reply.key for reply in ask_all(make_broker(model), ["a", "b"]).results]
    broker = make_broker(model)
    store = SQLiteStore(Path(broker.config.store))
    whole, cut = Reply("<think>A</think>C"), Reply("<think>A", finish_reason="length")
    store.put_many([row_of(key, "m", reply) for key, reply in zip(keys, (whole, cut), strict=True)])
    store.close()
    asked = ask_all(broker, ["a", "b"])
    assert [(r.text, r.reasoning, r.cached) for r in asked.results] == [("C", "A", True), ("B", "", False)]
    assert ask_all(make_broker(model), ["b"]).results[0].cached


def test_refresh_sends_each_request_once(make_broker: MakeBroker) -> None:
    """Refreshing calls for stored replies too, stores the new ones, and sends each request once per run."""
    model = FakeModel(lambda chat: str(len(model.requests)))
    ask_all(make_broker(model), ["a"])
    assert [reply.text for reply in one_by_one(make_broker(model, cache="refresh"), "aa")] == ["2", "2"]
    assert ask_all(make_broker(model), ["a"]).texts == ["2"]


def test_only_replays_and_names_what_is_missing(make_broker: MakeBroker) -> None:
    """``only`` serves stored replies, makes no call, and stops at the first missing request with its text."""
    model = FakeModel(lambda chat: "x")
    ask_all(make_broker(model), ["a"])
    assert ask_all(make_broker(model, cache="only"), ["a"]).texts == ["x"]
    asked = ask_all(make_broker(model, cache="only"), ["missing\nquestion"])
    assert isinstance(asked.results[0], RunStopped)
    assert str(asked.results[0]) == "--llm-cache only: no stored reply of m to 'missing question'"
    assert len(model.requests) == 1


def test_old_replies_of_unpinned_models_are_requested_again(make_broker: MakeBroker) -> None:
    """``not_before`` affects only models whose name may later refer to another model."""
    for pinned, calls in ((True, 1), (False, 2)):
        model = FakeModel([f"x{pinned}", f"y{pinned}"])
        model.pinned = pinned
        ask_all(make_broker(model), ["a"])
        ask_all(make_broker(model, not_before=time.time() + 1000), ["a"])
        assert len(model.requests) == calls


def test_deviations_are_replayed_with_the_replies(make_broker: MakeBroker) -> None:
    """A run served from the store has the same deviations as the run that made the calls."""
    model, replay = Deviating(lambda chat: "x"), Deviating(lambda chat: "x")
    model.phrases = ("without temperature",)
    ask_all(make_broker(model), ["a"])
    assert ask_all(make_broker(replay), ["b"]).broker.snapshot()["models"]["m"]["deviations"] == []
    report = ask_all(make_broker(replay, cache="only"), ["a"]).broker.snapshot()
    assert report["models"]["m"]["deviations"] == ["without temperature"]


def test_counting_stored_replies_sends_no_request(make_broker: MakeBroker) -> None:
    """A plan learns how many of its requests the store can answer or need no call, and no counter changes."""
    model = FakeModel(lambda chat: "x")
    ask_all(make_broker(model), ["a", "b"])
    broker = make_broker(model)
    assert known(broker, *map(Chat.user, "abcd")) == [True, True, False, False]
    assert broker.counters.requests == 0
    assert known(make_broker(model, cache="refresh"), Chat.user("a")) == [False]
    model.pinned = False
    assert known(make_broker(model, not_before=time.time() + 1000), Chat.user("a")) == [False]
    assert len(model.requests) == 2
    vectors = Vectors()
    assert known(make_broker(vectors), Embed("a"), Embed("b")) == [True, True]
    assert vectors.asked == []


def test_off_remembers_within_a_run(make_broker: MakeBroker, tmp_path: Path) -> None:
    """With the store off, a request repeated within a run is not sent again; it counts as joined. No file is made."""
    model = FakeModel(lambda chat: str(len(model.requests)))
    broker = make_broker(model, cache="off")
    replies = one_by_one(broker, ["a", "b", "a", "a"])
    assert [r.text for r in replies] == ["1", "2", "1", "1"]
    counters = broker.counters
    assert (counters.requests, counters.sent, counters.joined, counters.cache_hits) == (4, 2, 2, 0)
    assert not any(r.cached for r in replies)
    assert len({r.key for r in replies}) == 2
    assert counters.oldest_seconds == 0
    assert list(tmp_path.iterdir()) == []


def test_off_forgets_the_oldest(make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is limited: the oldest reply is forgotten, and its request is sent again."""
    monkeypatch.setattr("pytest_llmprops.engine.broker.reply_cache.RECENT", 2)
    model = FakeModel(lambda chat: "x")
    one_by_one(make_broker(model, cache="off"), ["a", "b", "c", "c", "b", "a"])
    assert [r.prompt for r in model.requests] == ["a", "b", "c", "a"]


def test_a_clock_that_is_set_back_makes_no_reply_old(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies of a run are as new as they are, even if somebody sets the clock back by a day during the run."""
    model = FakeModel(["x", "y", "z"])
    model.pinned = False
    broker = make_broker(model, not_before=time.time() - 60)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 86_400)
    replies = one_by_one(broker, "aa")
    assert [reply.text for reply in replies] == ["x", "x"]
    assert abs(replies[0].stored - real()) < 60
    assert broker.counters.oldest_seconds < 60


def test_a_slot_is_free_when_its_reply_is_stored(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While replies wait for a slow store, no further call is sent: a killed run has paid for its slots only."""
    stored: list[str] = []
    unstored: list[int] = []
    put_many = SQLiteStore.put_many

    def slowly(self: SQLiteStore, rows: Collection[Row]) -> None:
        time.sleep(0.02)
        put_many(self, rows)
        stored.extend(row.key for row in rows)

    def respond(chat: Chat) -> str:
        unstored.append(len(model.requests) - len(stored))
        return "x"

    monkeypatch.setattr(SQLiteStore, "put_many", slowly)
    model = FakeModel(respond)
    ask_all(make_broker(model, concurrency=3), [str(n) for n in range(12)])
    assert len(unstored) == 12
    assert max(unstored) == 3


class Vectors(Plain):
    """A blocking model of vectors; texts in ``bad`` fail with errors of ``kind``."""

    stored, max_batch = False, 8

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


def embeds(*texts: str) -> list[Embed]:
    return [Embed(text, tokens=True) for text in texts]


def test_computed_once_per_run_with_any_cache_setting(make_broker: MakeBroker) -> None:
    """Each run computes each text once, with every setting of the store, and counts no call."""
    for cache in ("reuse", "reuse", "refresh", "off", "only"):
        model = Vectors()
        broker = make_broker(model, cache=cache, max_calls=0)
        replies = one_by_one(broker, embeds("a", "b", "a"))
        assert [reply.value["vectors"][0][0] for reply in replies] == [ord("a"), ord("b"), ord("a")]
        assert replies[0].key == replies[2].key != replies[1].key
        assert model.asked == ["a", "b"]
        counters = broker.counters
        assert (counters.requests, counters.sent, counters.cache_hits, counters.joined) == (0, 0, 0, 0)
        assert broker.snapshot()["models"]["m"]["served_as"] == ["vectors"]


def test_replies_are_not_stored(make_broker: MakeBroker, tmp_path: Path) -> None:
    """The store stays empty; the log has the request once, with a note instead of its reply."""
    broker = make_broker(Vectors(), run_dir=str(tmp_path))
    one_by_one(broker, embeds("a", "a"))
    [line] = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert line["request"] == {"text": "a", "tokens": True}
    kept = {name: value for name, value in line["reply"].items() if value}
    assert kept == {"note": "computed in each run, not kept"}
    assert b"vectors" not in (tmp_path / "replies.sqlite").read_bytes()


def test_memory_is_bounded(make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit, the least recently used reply is forgotten and computed again."""
    monkeypatch.setattr("pytest_llmprops.engine.broker.local.COMPUTED", 2)
    model = Vectors()
    one_by_one(make_broker(model), embeds(*"abacab"))
    assert model.asked == ["a", "b", "c", "b"]


def test_errors_are_not_remembered(make_broker: MakeBroker) -> None:
    """A failing text is computed again; a model that cannot be used ends the run."""
    model = Vectors(bad=["x"])
    assert kinds(one_by_one(make_broker(model), embeds("x", "a", "x"))) == ["error", "reply", "error"]
    assert model.asked == ["x", "a", "x"]
    broker = make_broker(Vectors(bad=["x"], fatal=True))
    assert kinds(one_by_one(broker, embeds("x", "a"))) == ["stopped"] * 2
    assert broker.stopped == "m: no vector"

    # Many overlong texts in a row do not stop the run; a model that fails on all texts does.
    for kind, last in (("request", "reply"), ("backend", "stopped")):
        results = one_by_one(make_broker(Vectors(bad=["x"], kind=kind)), embeds(*"x" * 40, "a"))
        assert kinds([*results[:10], results[-1]]) == ["error"] * 10 + [last]


def test_arrays_cross_the_socket() -> None:
    """An array arrives unchanged, with its shape and type, among plain values; others are refused."""
    with pytest.raises(TypeError, match="an array of <U1 is not a JSON value"):
        client.encode_message({"x": np.array(["a"])})
    array = np.random.default_rng(1).normal(size=(3, 5)).astype("float32")
    message = {"id": 1, "reply": {"value": {"vectors": array, "spans": [[0, 1]], "empty": array[:0]}}}

    async def read() -> Any:
        reader = asyncio.StreamReader(limit=client.LINE_LIMIT)
        reader.feed_data(client.encode_message(message))
        reader.feed_eof()
        return await client.read_message(reader)

    results = asyncio.run(read())["reply"]["value"]
    assert results["vectors"].dtype == array.dtype
    np.testing.assert_array_equal(results["vectors"], array)
    assert results["empty"].shape == (0, 5)
    assert results["spans"] == [[0, 1]]
