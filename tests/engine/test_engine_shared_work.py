"""Work that equal requests share."""

from __future__ import annotations

import asyncio

import pytest

from pytest_llmprops.engine.queues import SharedWork


def test_a_cancelled_request_does_not_end_the_work_of_others() -> None:
    """Work begins once per key, and goes on if one of those who wait for it is cancelled."""
    begun = []

    async def slow() -> str:
        begun.append(1)
        await asyncio.sleep(0.01)
        return "done"

    async def work() -> list[str]:
        shared: SharedWork[str] = SharedWork()
        first, *others = [asyncio.ensure_future(shared.result("k", slow)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        assert "k" in shared
        results = await asyncio.gather(*others)
        assert "k" not in shared
        return [*results, await shared.result("k", slow)]

    assert asyncio.run(work()) == ["done"] * 3
    assert len(begun) == 2


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit])
def test_all_get_the_exception(kind: type[BaseException]) -> None:
    """An exception of the work is that of all who wait; the key is free again."""

    async def failing() -> str:
        raise kind("no")

    async def work() -> None:
        shared: SharedWork[str] = SharedWork()
        texts = []

        async def wait() -> None:
            try:
                await shared.result("k", failing)
            except BaseException as error:
                texts.append(str(error))

        await asyncio.gather(wait(), wait())
        assert texts == ["no", "no"]
        assert "k" not in shared

    asyncio.run(work())


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_closing_ends_all_waits(steps: int) -> None:
    """Closing cancels those who wait, also for work that has not begun."""

    async def work() -> None:
        shared: SharedWork[str] = SharedWork()

        async def endless() -> str:
            await asyncio.sleep(60)
            return ""

        waiting = asyncio.ensure_future(shared.result("k", endless))
        for _ in range(steps):
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(shared.close())
        if steps:
            await asyncio.wait_for(asyncio.gather(waiting, closing, return_exceptions=True), 5)
            assert waiting.cancelled()
        else:
            waiting.cancel()
            await closing

    asyncio.run(work())
