"""Calls to models that reply at once."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.store.base import Row
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models.api.prices import Price
from pytest_llmprops.models.fake import FakeModel
from tests.support.backends import make
from tests.support.engine_models import MakeBroker, ask_all, kinds
from tests.support.stores import fill


def _slow_store(monkeypatch: pytest.MonkeyPatch) -> None:
    put_many = SQLiteStore.put_many

    def slowly(self: SQLiteStore, rows: Collection[Row]) -> None:
        time.sleep(0.05)
        put_many(self, rows)

    monkeypatch.setattr(SQLiteStore, "put_many", slowly)


MODELS = {
    "list": (FakeModel(["a"]), True),
    "rules": (FakeModel({"a": "b"}), True),
    "function": (FakeModel(lambda chat: "a"), False),
    "delay": (FakeModel(["a"], delay=0.1), False),
    "failures": (FakeModel(["a"], fail=0.1), False),
    "price": (FakeModel(["a"], price=Price(1e6, 1e6)), False),
    "echo": ("fake:echo", True),
    "constant": ("fake:constant?text=B", True),
    "random": ("fake:random", True),
    "slow": ("fake:echo?delay=0.1", False),
    "file": ("fake:call?file=FILE", False),
}


@pytest.mark.parametrize(("model", "expected"), MODELS.values(), ids=MODELS)
def test_only_models_that_never_wait_are_immediate(model: Any, expected: bool, tmp_path: Path) -> None:
    """A function of the user may call an API; a delay, failures and a price stand for those of one."""
    (tmp_path / "reply.py").write_text("def reply(chat): return 'a'", encoding="utf-8")
    if isinstance(model, str):
        model = make(model.replace("FILE", str(tmp_path / "reply.py")))
    assert model.immediate == expected


def test_a_reply_does_not_wait_for_the_store(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reply is there before it is stored; ``settled`` and ``close`` wait for the store."""
    _slow_store(monkeypatch)

    def stored() -> int:
        with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db:
            return int(db.execute("SELECT count(*) FROM replies").fetchone()[0])

    async def work() -> list[int]:
        broker = make_broker(FakeModel({"": "x"}))
        await broker.ask("m", "subject", Chat.user("a"))
        counts = [stored()]
        await broker.settled()
        counts.append(stored())
        await broker.ask("m", "subject", Chat.user("b"))
        await broker.close()
        return [*counts, stored()]

    assert asyncio.run(work()) == [0, 1, 2]


@pytest.mark.parametrize("cache", ["reuse", "refresh", "off"])
def test_equal_requests_are_one_call(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    """Requests at the same time, and before the first reply is stored, share one call; later ones use the store."""
    _slow_store(monkeypatch)
    model = FakeModel({"": "x"})

    async def work() -> list[Reply]:
        broker = make_broker(model, cache=cache)
        first = await asyncio.gather(*(broker.ask("m", "subject", Chat.user("q")) for _ in range(5)))
        second = await broker.ask("m", "subject", Chat.user("q"))
        assert (broker.counters.sent, broker.counters.joined) == (1, 5)
        await broker.settled()
        third = await broker.ask("m", "subject", Chat.user("q"))
        assert (broker.counters.sent, broker.counters.requests) == (1, 7)
        assert broker.counters.cache_hits == (cache != "off")
        await broker.close()
        return [*first, second, third]

    assert [reply.text for reply in asyncio.run(work())] == ["x"] * 7
    assert len(model.requests) == 1


def test_limits_hold(make_broker: MakeBroker) -> None:
    """The budget of calls, and the stop after empty replies."""
    model = FakeModel({"": "x"})
    asked = ask_all(make_broker(model, max_calls=3, cache="off"), [str(n) for n in range(9)])
    assert kinds(asked.results).count("reply") == len(model.requests) == 3
    assert asked.broker.stopped == "--llm-max-calls 3 is spent"
    asked = ask_all(make_broker(FakeModel({"": ""})), [f"empty {n}" for n in range(40)])
    assert str(asked.broker.stopped).startswith("m: 20 empty replies in a row")


def test_errors_are_retried(make_broker: MakeBroker) -> None:
    """An error of the first attempt is worth the same retries as that of any other model."""
    model = FakeModel({"": BackendError("busy", kind="status 500", transient=True)})
    asked = ask_all(make_broker(model, retries=2), ["q", "q"])
    assert kinds(asked.results) == ["error", "error"]
    assert (asked.counters.sent, asked.counters.retries, asked.counters.failed) == (3, 2, 1)


def test_a_rate_spaces_the_calls(make_broker: MakeBroker) -> None:
    """``llm_rpm`` also holds for a model that replies at once."""
    start = time.monotonic()
    ask_all(make_broker(FakeModel({"": "x"}), rpm=1200), ["a", "b", "c"])
    assert time.monotonic() - start >= 0.1


def test_a_store_that_takes_no_reply_stops_the_run(make_broker: MakeBroker, tmp_path: Path) -> None:
    """The replies so far reach their cases; the run then stops, and a note counts what is not stored."""
    broker = make_broker(FakeModel({"": "x"}))
    fill(tmp_path / "replies.sqlite")

    async def work() -> list[str]:
        await asyncio.gather(*(broker.ask("m", "subject", Chat.user(text)) for text in "ab"))
        await broker.settled()
        with pytest.raises(
            RunStopped, match="disk is full; the replies so far are kept; llmprops run --resume"
        ):
            await broker.ask("m", "subject", Chat.user("c"))
        await broker.close()
        return broker.notes()

    assert asyncio.run(work()) == ["2 replies are not stored; another run pays for them again"]
