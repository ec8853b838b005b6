"""The broker and the reply store: which requests are sent again, and which are replayed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.broker import Broker
from pytest_llmprops.engine.store.base import Row
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, ask_all


class Deviating(FakeModel):
    """A fake model whose API has refused parameters; ``phrases`` lists them."""

    phrases: Sequence[str] = ()

    def deviations(self) -> Sequence[str]:
        return self.phrases


def test_stored_replies_are_not_requested_again(make_broker: MakeBroker) -> None:
    """A second run is served completely from the store and reports the age of its replies."""
    model = FakeModel(lambda chat: chat.prompt.upper())
    ask_all(make_broker(model), ["a", "b"])
    asked = ask_all(make_broker(model), ["a", "b", "c"])
    assert asked.texts == ["A", "B", "C"]
    assert [r.cached for r in asked.results] == [True, True, False]
    assert [r.prompt for r in model.requests] == ["a", "b", "c"]
    assert (asked.counters.requests, asked.counters.cache_hits, asked.counters.sent) == (3, 2, 1)
    assert 0 < asked.counters.oldest_seconds < 60


def test_stored_replies_belong_to_one_model(make_broker: MakeBroker) -> None:
    """A model with another identity does not get the first one's replies."""
    ask_all(make_broker(FakeModel(["x"])), ["a"])
    assert ask_all(make_broker(FakeModel(["y"])), ["a"]).texts == ["y"]


def test_refresh_sends_each_request_once(make_broker: MakeBroker) -> None:
    """Refreshing calls for stored replies too, stores the new ones, and sends each request once per run."""
    model = FakeModel(lambda chat: str(len(model.requests)))
    ask_all(make_broker(model), ["a"])
    broker = make_broker(model, cache="refresh")

    async def twice() -> list[str]:
        first = await broker.ask("m", "subject", Chat.user("a"))
        second = await broker.ask("m", "subject", Chat.user("a"))
        await broker.close()
        return [first.text, second.text]

    assert asyncio.run(twice()) == ["2", "2"]
    assert ask_all(make_broker(model), ["a"]).texts == ["2"]


def test_off_neither_reads_nor_writes(make_broker: MakeBroker, tmp_path: Path) -> None:
    """With the store off every run sends its requests and creates no file."""
    model = FakeModel(lambda chat: "x")
    for _ in range(2):
        ask_all(make_broker(model, cache="off"), ["a"])
    assert len(model.requests) == 2
    assert not (tmp_path / "replies.sqlite").exists()


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

    def respond(chat: Chat) -> str:
        return "x"

    model = Deviating(respond)
    model.phrases = ("without temperature",)
    ask_all(make_broker(model), ["a"])
    replay = Deviating(respond)
    assert ask_all(make_broker(replay), ["b"]).broker.report()["models"]["m"]["deviations"] == []
    report = ask_all(make_broker(replay, cache="only"), ["a"]).broker.report()
    assert report["models"]["m"]["deviations"] == ["without temperature"]


def test_counting_stored_replies_sends_no_request(make_broker: MakeBroker) -> None:
    """A plan learns how many of its requests the store can answer, and no counter changes."""
    model = FakeModel(lambda chat: "x")
    ask_all(make_broker(model), ["a", "b"])

    def counted(broker: Broker, prompts: str) -> list[bool]:
        async def work() -> list[bool]:
            known = await broker.are_known([("m", Chat.user(p)) for p in prompts])
            await broker.close()
            return known

        return asyncio.run(work())

    broker = make_broker(model)
    assert counted(broker, "abcd") == [True, True, False, False]
    assert broker.counters.requests == 0
    assert counted(make_broker(model, cache="refresh"), "a") == [False]
    model.pinned = False
    assert counted(make_broker(model, not_before=time.time() + 1000), "a") == [False]
    assert len(model.requests) == 2


def test_damaged_store_is_reported(make_broker: MakeBroker, tmp_path: Path) -> None:
    """A damaged store appears in the broker's notes, and the run continues with a new one."""
    (tmp_path / "replies.sqlite").write_bytes(b"SQLite format 3\0" + b"no database at all\n" * 100)
    asked = ask_all(make_broker(FakeModel(["x"])), ["a"])
    assert asked.texts == ["x"]
    assert len(asked.broker.report()["notes"]) == 1
    assert list(tmp_path.glob("replies.sqlite.damaged-*"))


@pytest.mark.parametrize("cache", ["reuse", "off"])
def test_every_call_is_logged_under_its_key(make_broker: MakeBroker, tmp_path: Path, cache: str) -> None:
    """The run's log has one line per request, whether sent, joined or stored."""
    model = FakeModel(lambda chat: Reply("x", served_model="s"))
    ask_all(make_broker(model), ["a"])
    run = tmp_path / "run"
    run.mkdir()
    asked = ask_all(make_broker(model, cache=cache, run_dir=str(run)), ["a", "b", "b"])
    lines = [json.loads(line) for line in (run / "requests.jsonl").read_text().splitlines()]
    assert {line["key"] for line in lines} == {r.key for r in asked.results}
    assert len(lines) == 2
    assert sum(line["cached"] for line in lines) == (1 if cache == "reuse" else 0)


def one_by_one(broker: Broker, prompts: Sequence[str]) -> list[Any]:
    """Send requests one after the other, so that none is joined in flight, and close the broker."""

    async def work() -> list[Any]:
        results: list[Any] = []
        for prompt in prompts:
            try:
                results.append(await broker.ask("m", "subject", Chat.user(prompt)))
            except BackendError as error:
                results.append(error)
        await broker.close()
        return results

    return asyncio.run(work())


def test_off_remembers_within_a_run(make_broker: MakeBroker) -> None:
    """With the store off, a request repeated within a run is not sent again; it counts as joined, not as
    stored.
    """
    model = FakeModel(lambda chat: str(len(model.requests)))
    broker = make_broker(model, cache="off")
    replies = one_by_one(broker, ["a", "b", "a", "a"])
    assert [r.text for r in replies] == ["1", "2", "1", "1"]
    counters = broker.counters
    assert (counters.requests, counters.sent, counters.joined, counters.cache_hits) == (4, 2, 2, 0)
    assert not any(r.cached for r in replies)
    assert len({r.key for r in replies}) == 2
    assert counters.oldest_seconds == 0


def test_off_distinguishes_samples_and_models(make_broker: MakeBroker) -> None:
    """Remembered replies belong to one request and one model; another sample is sent."""
    model = FakeModel(lambda chat: str(len(model.requests)))
    broker = make_broker(model, cache="off")
    first, second, again = ask_all(broker, [Chat.user("a", sample=n) for n in (0, 1, 0)]).texts
    assert first == again != second
    other = make_broker(FakeModel(["other"]), cache="off")
    assert ask_all(other, ["a"]).texts == ["other"]


def test_off_remembers_no_errors(make_broker: MakeBroker) -> None:
    """A failed call is repeated for the next request."""
    model = FakeModel([BackendError("no", kind="request"), "x"])
    first, second = one_by_one(make_broker(model, cache="off"), ["a", "a"])
    assert isinstance(first, BackendError)
    assert second.text == "x"


def test_off_forgets_the_oldest(make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is limited: the oldest reply is forgotten, and its request is sent again."""
    monkeypatch.setattr("pytest_llmprops.engine.store.reply_cache.RECENT", 2)
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

    async def ask_twice() -> list[Reply]:
        replies = [await broker.ask("m", "subject", Chat.user("a")) for _ in range(2)]
        await broker.close()
        return replies

    replies = asyncio.run(ask_twice())
    assert [reply.text for reply in replies] == ["x", "x"]
    assert abs(replies[0].stored - real()) < 60
    assert broker.counters.oldest_seconds < 60


def test_a_slot_is_free_when_its_reply_is_stored(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While replies wait for a slow store, no further call is sent: a run that is killed then has paid in vain for as
    many calls as it has slots.
    """
    stored: list[str] = []
    unstored: list[int] = []
    put_many = SQLiteStore.put_many

    def slowly(self: SQLiteStore, rows: Collection[Row], **options: Any) -> int:
        time.sleep(0.02)
        count = put_many(self, rows, **options)
        stored.extend(row.key for row in rows)
        return count

    def respond(chat: Chat) -> str:
        unstored.append(len(model.requests) - len(stored))
        return "x"

    monkeypatch.setattr(SQLiteStore, "put_many", slowly)
    model = FakeModel(respond)
    ask_all(make_broker(model, concurrency=3), [str(n) for n in range(12)])
    assert len(unstored) == 12
    assert max(unstored) == 3
