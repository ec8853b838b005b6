"""Replies for an event loop: requests share statements, and wait for each other across runs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops.core.errors import RunStopped, StoreError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.store import reply_cache, sqlite
from pytest_llmprops.engine.store.base import LEASE_SECONDS, Store, row_of
from pytest_llmprops.engine.store.reply_cache import StoreCalls
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, ask_all
from tests.support.stores import REPLY, age_claims, fill, put

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


def test_old_replies_are_ignored_on_request(opened: Open, store: Store) -> None:
    """A reply from before ``not_before`` is ignored; one from exactly that time is used."""
    put(store, "k", REPLY)

    async def work(one: StoreCalls) -> list[Reply | None]:
        times = (1000.0, 1000.1, 0.0)
        return [await one.find("k", not_before=t, claim=True) for t in times]

    assert run(opened, work) == [REPLY, None, REPLY]


def test_requests_of_one_moment_share_statements(opened: Open, location: str) -> None:
    """Requests that arrive together are one job of the thread, and the event loop is free meanwhile."""
    calls: list[tuple[str, int, bool]] = []

    async def work(one: StoreCalls) -> None:
        loop_thread = threading.get_ident()
        for name in ("get_many", "put_many", "claim"):
            method = getattr(one.store, name)

            def counted(values: Any, name: str = name, method: Any = method) -> Any:
                calls.append((name, len(values), threading.get_ident() == loop_thread))
                return method(values)

            setattr(one.store, name, counted)
        await asyncio.gather(*(one.find(f"k{n}", claim=True) for n in range(120)))
        await asyncio.gather(*(one.put(f"k{n}", "m", REPLY) for n in range(120)))

    run(opened, work)
    # SQLite tells that no other run has stored a reply before the claim.
    again = ("get_many",) if location.startswith("postgres") else ()
    assert calls == [(name, 120, False) for name in ("get_many", "claim", *again, "put_many")]


def test_a_reply_that_arrives_before_the_claim_is_used(opened: Open) -> None:
    """Another run stores the reply after this one has looked for it: no request is claimed or sent."""

    async def work(one: StoreCalls, two: StoreCalls) -> Reply | None:
        claim = two.store.claim

        def late(keys: Collection[str]) -> set[str]:
            one.store.put_many([row_of("k", "m", REPLY)])
            return claim(keys)

        two.store.claim = late  # type: ignore[method-assign]
        reply = await two.find("k", claim=True)
        # The claim is released, so that a run after ``prune`` need not wait.
        assert one.store.claim({"k"}) == {"k"}
        return reply

    assert run(opened, work, 2) == replace(REPLY, key="k")


def test_a_request_waits_for_the_run_that_sends_it(opened: Open) -> None:
    """The second run gets the reply of the first one, or the request if the first one fails."""

    async def work(one: StoreCalls, two: StoreCalls) -> list[Reply | None]:
        assert await one.find("a", claim=True) is None
        assert await one.find("b", claim=True) is None
        waiting = [asyncio.ensure_future(two.find(key, claim=True)) for key in ("a", "b", "c")]
        await asyncio.sleep(0.1)
        assert [future.done() for future in waiting] == [False, False, True]
        await one.put("a", "m", REPLY)
        one.release("b")
        results = await asyncio.gather(*waiting)
        assert (one.awaited, two.awaited) == (0, 1)
        return results

    assert run(opened, work, 2) == [replace(REPLY, key="a"), None, None]


def test_a_wait_ends_with_the_lease(opened: Open, location: str) -> None:
    """A request of a run that no longer reports is sent by the run that waits."""

    async def work(one: StoreCalls, two: StoreCalls) -> Reply | None:
        await one.find("a", claim=True)
        waiting = asyncio.ensure_future(two.find("a", claim=True))
        await asyncio.sleep(0.05)
        age_claims(location, LEASE_SECONDS + 1)
        return await waiting

    assert run(opened, work, 2) is None


def test_a_stopped_run_waits_for_no_other(opened: Open) -> None:
    """The end of a run ends its waits for other runs, and those that begin later."""

    async def work(one: StoreCalls, two: StoreCalls) -> list[Any]:
        await one.find("a", claim=True)
        waiting = asyncio.ensure_future(two.find("a", claim=True))
        await asyncio.sleep(0.05)
        two.stop_waiting(RunStopped("over"))
        later = two.find("a", claim=True)
        return [*await asyncio.gather(waiting, later, return_exceptions=True)]

    assert [str(error) for error in run(opened, work, 2)] == ["over", "over"]


def test_cancelled_requests_claim_nothing(opened: Open) -> None:
    """A request whose caller is gone is left to other runs."""

    async def work(one: StoreCalls, two: StoreCalls) -> Reply | None:
        task = asyncio.ensure_future(one.find("a", claim=True))
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.wait_for(two.find("a", claim=True), 60)

    assert run(opened, work, 2) is None


def test_two_runs_pay_once(make_broker: MakeBroker) -> None:
    """Two runs that ask the same at the same time make each call once, and get the same replies."""
    prompts = [str(n) for n in range(150)]
    sent: list[str] = []

    async def respond(chat: Chat) -> str:
        sent.append(chat.prompt)
        await asyncio.sleep(0.002)
        return f"{chat.prompt}!"

    async def work() -> list[list[Reply]]:
        brokers = [make_broker(FakeModel(respond), concurrency=8) for _ in range(2)]
        asked = ((broker.ask("m", "subject", Chat.user(p)) for p in prompts) for broker in brokers)
        results = await asyncio.gather(*(asyncio.gather(*requests) for requests in asked))
        counters = [broker.counters for broker in brokers]
        assert sum(c.sent for c in counters) == len(prompts)
        assert sum(c.cache_hits for c in counters) == len(prompts)
        notes = [note for broker in brokers for note in broker.notes()]
        assert any("replies came from another run that used the same store" in note for note in notes)
        for broker in brokers:
            await broker.close()
        return results

    one, two = asyncio.run(asyncio.wait_for(work(), 60))
    assert [r.text for r in one] == [r.text for r in two] == [f"{p}!" for p in prompts]
    assert sorted(sent) == sorted(prompts)


def test_a_run_that_was_suspended_looks_up_again(
    make_broker: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a process is suspended, other runs send what it had claimed; it then sends only what they have not sent."""
    sent: list[str] = []

    class Slow(FakeModel):
        immediate = False

        async def chat(self, requests: Sequence[Chat]) -> list[Any]:
            sent.extend(request.prompt for request in requests)
            if requests[0].prompt == "a":
                await suspended.wait()
            return await super().chat(requests)

    async def work() -> list[str]:
        prompts = [Chat.user(text) for text in "abc"]
        asked = [asyncio.ensure_future(first.ask("m", "subject", prompt)) for prompt in prompts]
        while _claims(path) < 3 or not sent:  # noqa: ASYNC110 -- a thread writes them
            await asyncio.sleep(0.01)
        # What another run does when it finds no report of the process.
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("DELETE FROM claims")
            db.execute("DELETE FROM processes")
        await other.ask("m", "subject", prompts[1])
        monkeypatch.setattr(reply_cache, "time", SimpleNamespace(time=lambda: time.time() + 1000))
        suspended.set()
        texts = [reply.text for reply in await asyncio.gather(*asked)]
        await first.close()
        await other.close()
        return texts

    suspended, path = asyncio.Event(), tmp_path / "replies.sqlite"
    model = Slow(lambda chat: chat.prompt.upper())
    first, other = make_broker(model, concurrency=1), make_broker(model)
    assert asyncio.run(asyncio.wait_for(work(), 60)) == ["A", "B", "C"]
    assert sent == ["a", "b", "c"]
    assert (first.counters.sent, first.counters.cache_hits) == (2, 1)


def _claims(path: Path) -> int:
    store = SQLiteStore(path, read_only=True)
    with closing(store):
        return store.info().claims


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
        f"reply store {path}: {why}; the replies so far are kept; llmprops retry resumes the run"
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
        " llmprops retry resumes the run"
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


def test_errors_of_the_thread_reach_the_caller(opened: Open) -> None:
    """An exception of work on the store is raised where the work was started."""

    def fail(store: Store) -> None:
        raise StoreError("no")

    async def work(one: StoreCalls) -> None:
        with pytest.raises(StoreError, match="no"):
            await one.run(fail)

    run(opened, work)
