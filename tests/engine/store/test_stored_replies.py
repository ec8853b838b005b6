"""Replies for an event loop: requests that arrive together share statements."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.broker import reply_cache
from pytest_llmprops.engine.broker.reply_cache import ReplyCache
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.store import sqlite
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, ask_all
from tests.support.stores import REPLY, fill


def run(location: str, work: Callable[[ReplyCache], Awaitable[Any]]) -> Any:
    """Return the result of ``work`` on the replies of a run, in an event loop; a hang is a failure."""

    async def session() -> Any:
        cache = ReplyCache(BrokerConfig({}, store=location), lambda error: pytest.fail(str(error)))
        try:
            return await asyncio.wait_for(work(cache), 60)
        finally:
            await cache.close()

    return asyncio.run(session())


def test_requests_of_one_moment_share_statements(location: str) -> None:
    """Requests that arrive together are one job of the thread, and the event loop is free meanwhile."""
    calls: list[tuple[str, int, bool]] = []

    async def work(cache: ReplyCache) -> None:
        loop_thread = threading.get_ident()
        for name in ("get_many", "put_many"):
            method = getattr(cache.store, name)

            def counted(values: Any, name: str = name, method: Any = method) -> Any:
                calls.append((name, len(values), threading.get_ident() == loop_thread))
                return method(values)

            setattr(cache.store, name, counted)
        await asyncio.gather(*(cache.stored(f"k{n}") for n in range(120)))
        await asyncio.gather(*(cache.keep("m", replace(REPLY, key=f"k{n}")) for n in range(120)))
        assert await cache.stored("k7") == replace(REPLY, key="k7")

    run(location, work)
    assert calls == [("get_many", 120, False), ("put_many", 120, False), ("get_many", 1, False)]


@pytest.mark.parametrize("problem", ["full", "locked"])
def test_a_store_that_takes_no_reply_stops_the_run(
    make_broker: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    """The call in flight gets its reply, which is not stored; then the run stops and says how to resume."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    path = tmp_path / "replies.sqlite"
    model = FakeModel(lambda chat: chat.prompt.upper())
    broker = make_broker(model)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if problem == "full":
            fill(path)
        else:
            other.execute("BEGIN IMMEDIATE")
        asked = ask_all(broker, ["a"])
    assert asked.texts == ["A"]
    why = "disk is full" if problem == "full" else "database is locked"
    assert broker.stopped == (
        f"reply store {path}: {why}; the replies so far are kept; llmprops run --resume RUN resumes the run"
    )
    assert broker.notes()[-1] == "1 replies are not stored; another run pays for them again"


def test_a_store_that_cannot_be_read_stops_the_run(make_broker: MakeBroker, tmp_path: Path) -> None:
    """A store that fails is one line that says how to resume, and no further call is made."""
    model = FakeModel(lambda chat: "x")
    broker = make_broker(model)
    with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db, db:
        db.execute("DROP TABLE replies")
    asked = ask_all(broker, ["a", "b"])
    assert {type(result) for result in asked.results} == {RunStopped}
    assert str(asked.results[0]) == (
        f"reply store {tmp_path / 'replies.sqlite'}: no such table: replies; the replies so far are kept;"
        " llmprops run --resume RUN resumes the run"
    )
    assert model.requests == []


def test_a_store_that_does_not_answer_ends_no_loop(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits a limited time for a store that hangs."""
    monkeypatch.setattr(reply_cache, "CLOSE_SECONDS", 0.1)
    ended = threading.Event()

    def hang(keys: Collection[str]) -> dict[str, Reply]:
        ended.wait(60)
        return {}

    async def work(cache: ReplyCache) -> None:
        monkeypatch.setattr(cache.store, "get_many", hang)
        finding = asyncio.ensure_future(cache.stored("k"))
        await asyncio.sleep(0.01)
        await cache.close()
        assert not finding.done()
        ended.set()
        finding.cancel()
        # Nothing else closes a store that did not answer.
        assert cache.store is not None
        cache.store.close()

    run(location, work)
