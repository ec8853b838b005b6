"""Shared values: a waiting worker gets all values, or the reason why they are missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.engine.client import BrokerClient
from pytest_llmprops.engine.server import POLL_SECONDS, Gathering
from pytest_llmprops.models.fake import FakeModel
from tests.support.engine_models import MakeBroker, served

Work = Callable[[Gathering], Awaitable[Any]]


def run(work: Work, *, stopped: Callable[[], str | None] = lambda: None, grace: float = 0.3) -> Any:
    """Return the result of ``work`` with a board; a hang is a failure."""

    async def session() -> Any:
        return await asyncio.wait_for(work(Gathering(stopped, grace=grace)), 5)

    return asyncio.run(session())


def test_gathering_returns_all_values_in_order() -> None:
    """A gathering ends when its last value arrives, and returns the values in the order of the names."""

    async def work(board: Gathering) -> Any:
        waiting = asyncio.create_task(board.gather(["a", "b", "c"]))
        await board.post("c", {"n": 3})
        await board.post("a", [])
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await board.post("b", 0)
        return await waiting

    assert run(work) == [[], 0, {"n": 3}]


def test_many_callers_wait_for_the_same_value() -> None:
    """All callers that wait for a value get it, including those that ask after it arrived."""

    async def work(board: Gathering) -> Any:
        early = [asyncio.create_task(board.gather(["a"])) for _ in range(20)]
        await asyncio.sleep(0)
        await board.post("a", 1)
        return [*await asyncio.gather(*early), await board.gather(["a"])]

    assert run(work) == [[1]] * 21


def test_gathering_no_names_returns_at_once() -> None:
    assert run(lambda board: board.gather([])) == []


def test_reading_the_board_does_not_wait() -> None:
    """Reading the board returns each posted value, and None for a missing one."""

    async def work(board: Gathering) -> Any:
        await board.post("b", [])
        return board.posted(["a", "b"])

    assert run(work) == [None, []]


def test_first_value_is_kept() -> None:
    """The first value under a name is kept, so all workers get the same one."""

    async def work(board: Gathering) -> Any:
        await board.post("a", 1)
        await board.post("a", 2)
        return await board.gather(["a"])

    assert run(work) == [1]


def test_stopped_run_ends_the_wait() -> None:
    """If the run stops, waiting workers get the reason at once; complete values are still returned."""
    reasons: list[str] = []

    async def work(board: Gathering) -> Any:
        waiting = asyncio.create_task(board.gather(["a", "b"]))
        await board.post("a", 1)
        reasons.append("the key is wrong")
        begun = asyncio.get_running_loop().time()
        with pytest.raises(RunStopped, match="the key is wrong"):
            await waiting
        assert asyncio.get_running_loop().time() - begun < 4 * POLL_SECONDS
        return await board.gather(["a"])

    assert run(work, stopped=lambda: reasons[0] if reasons else None) == [1]


def test_values_of_a_lost_worker_are_not_awaited() -> None:
    """If a worker is lost and no new value arrives, a waiting worker gets the available values."""

    async def work(board: Gathering) -> Any:
        waiting = asyncio.create_task(board.gather(["a", "lost", "b"]))
        board.lose()
        await board.post("a", 1)
        await board.post("b", 2)
        return await waiting, await board.gather(["lost", "b"])

    assert run(work) == ([1, None, 2], [None, 2])


def test_replacement_of_a_lost_worker_is_awaited() -> None:
    """While new values arrive, workers keep waiting for the replacement of a lost worker."""

    async def work(board: Gathering) -> Any:
        board.lose()
        waiting = asyncio.create_task(board.gather([f"{n}" for n in range(8)]))
        for n in range(8):
            await asyncio.sleep(0.2)
            await board.post(f"{n}", n)
        return await waiting

    assert run(work, grace=0.6) == list(range(8))


def test_slow_worker_is_not_lost() -> None:
    """If no worker is lost, a worker waits without a limit."""

    async def work(board: Gathering) -> Any:
        waiting = asyncio.create_task(board.gather(["a"]))
        await asyncio.sleep(0.9)
        assert not waiting.done()
        await board.post("a", 1)
        return await waiting

    assert run(work, grace=0.1) == [1]


@pytest.mark.parametrize("killed", [False, True])
def test_only_a_killed_worker_is_lost(make_broker: MakeBroker, path: str, killed: bool) -> None:
    """Workers gather through the broker process; a worker that exits normally does not count as lost."""

    async def work(one: BrokerClient, two: BrokerClient) -> Any:
        await one.post("a", {"x": 1})
        waiting = asyncio.create_task(two.gather(["a", "b"]))
        assert await two.gather(["a", "b"], wait=False) == [{"x": 1}, None]
        if killed:
            assert one.writer is not None
            one.writer.transport.abort()
        else:
            await one.close()
        done, _ = await asyncio.wait([waiting], timeout=1.0)
        if not killed:
            assert not done
            await two.post("b", 2)
        return await asyncio.wait_for(waiting, 3)

    gathered = served(path, make_broker(FakeModel({"": "yes"})), work, grace=0.1)
    assert gathered == [{"x": 1}, None if killed else 2]


def test_stopped_run_ends_the_wait_over_the_socket(make_broker: MakeBroker, path: str) -> None:
    """A waiting worker gets the reason why the run was stopped."""

    async def work(client: BrokerClient, _: BrokerClient) -> None:
        waiting = asyncio.create_task(client.gather(["a"]))
        await client.stop("out of credit")
        with pytest.raises(RunStopped, match="out of credit"):
            await asyncio.wait_for(waiting, 3)

    served(path, make_broker(FakeModel({"": "yes"})), work, grace=0.1)
