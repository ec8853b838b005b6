"""Replies for an event loop: requests that arrive together share statements."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.engine.broker import reply_cache
from pytest_llmprops.engine.broker.reply_cache import StoreCalls
from pytest_llmprops.engine.store import sqlite
from pytest_llmprops.engine.store.base import Store
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, ask_all
from tests.support.stores import REPLY, fill

Open = Callable[[], Store]


def run(opened: Open, work: Callable[..., Awaitable[Any]], runs: int = 1) -> Any:
    """Return the result of ``work`` on the replies of several runs, in one event loop; a hang is a failure."""

    async def session() -> Any:
        several = [StoreCalls(opened()) for _ in range(runs)]
        try:
            return await asyncio.wait_for(work(*several), 60)
        finally:
            for one in several:
                await one.close()

    return asyncio.run(session())


def test_requests_of_one_moment_share_statements(opened: Open) -> None:
    """Requests that arrive together are one job of the thread, and the event loop is free meanwhile."""
    calls: list[tuple[str, int, bool]] = []

    async def work(one: StoreCalls) -> None:
        loop_thread = threading.get_ident()
        for name in ("get_many", "put_many"):
            method = getattr(one.store, name)

            def counted(values: Any, name: str = name, method: Any = method) -> Any:
                calls.append((name, len(values), threading.get_ident() == loop_thread))
                return method(values)

            setattr(one.store, name, counted)
        await asyncio.gather(*(one.find(f"k{n}") for n in range(120)))
        await asyncio.gather(*(one.put(f"k{n}", "m", REPLY) for n in range(120)))

    run(opened, work)
    assert calls == [(name, 120, False) for name in ("get_many", "put_many")]


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


def test_a_store_that_does_not_answer_ends_no_loop(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits a limited time for a store that hangs."""
    monkeypatch.setattr(reply_cache, "CLOSE_SECONDS", 0.1)
    ended = threading.Event()

    async def work(one: StoreCalls) -> None:
        finding = asyncio.ensure_future(one.run(lambda store: ended.wait(60)))
        await asyncio.sleep(0)
        await one.close()
        assert not finding.done()
        ended.set()
        await finding

    run(opened, work)
