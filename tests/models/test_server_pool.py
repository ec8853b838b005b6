"""Several servers of one model: dispatch, servers that are down, and the model's identity."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from bench.stub_server import running_stub
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.models.api.http import ServerPool, StatusError
from pytest_llmprops.models.api.openai import BACKEND
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import parse_spec
from tests.support.runs import ROOT, Runner


def down(status: int = 0) -> Exception:
    """Return the error for a status, or for a server that cannot be reached."""
    return StatusError(status, {}, "") if status else aiohttp.ServerDisconnectedError()


class Client:
    """Answers with its name after ``delay`` seconds, or fails."""

    def __init__(self, name: str, delay: float = 0.0, error: Exception | None = None) -> None:
        self.name, self.delay, self.error = name, delay, error
        self.calls = self.most = self.in_flight = 0

    async def post(self, body: Mapping[str, Any], path: str = "") -> tuple[bytes, Mapping[str, str]]:
        """Answer, and count the calls."""
        self.calls += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.in_flight -= 1
        if self.error is not None:
            raise self.error
        return self.name.encode(), {}

    async def aclose(self) -> None:
        """Do nothing."""


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def pool(*clients: Client, clock: Clock | None = None) -> ServerPool:
    """Return a pool of these clients."""
    return ServerPool({client.name: client for client in clients}, clock or Clock())


def test_calls_go_to_the_server_with_the_fewest_in_flight() -> None:
    """A server that is three times as fast answers about three times as many calls."""
    slow, fast = Client("slow", 0.06), Client("fast", 0.02)

    async def calls() -> None:
        servers, gate = pool(slow, fast), asyncio.Semaphore(8)

        async def call() -> None:
            async with gate:
                await servers.post({})

        await asyncio.gather(*(call() for _ in range(80)))

    asyncio.run(calls())
    assert slow.calls + fast.calls == 80
    assert fast.calls > 1.8 * slow.calls
    assert max(slow.most, fast.most) <= 5


@pytest.mark.parametrize("status", [0, 504])
def test_a_call_that_finds_its_server_down_goes_to_another(status: int) -> None:
    """The other server answers; the first gets no further calls until its pause is over, then one at a time."""
    clock = Clock()
    one, other = Client("one", error=down(status)), Client("other")
    servers = pool(one, other, clock=clock)

    async def calls(count: int) -> None:
        answers = await asyncio.gather(*(servers.post({}) for _ in range(count)))
        assert {body for body, _ in answers} <= {b"one", b"other"}

    asyncio.run(calls(10))
    first = one.calls
    assert first <= 5
    asyncio.run(calls(10))
    assert one.calls == first
    clock.now += 1.0
    asyncio.run(calls(10))
    assert one.calls == first + 1
    # The second pause is twice as long.
    clock.now += 1.5
    asyncio.run(calls(10))
    assert one.calls == first + 1
    clock.now += 1.0
    one.error = None
    asyncio.run(calls(1))
    asyncio.run(calls(10))
    assert one.calls > first + 5
    assert servers.notes() == [f"one: {first + 1} calls failed there and were sent elsewhere"]


@pytest.mark.parametrize(
    "error", [down(401), down(429), BackendError("compressed with 'br'", kind="response")]
)
def test_other_errors_are_those_of_the_call(error: Exception) -> None:
    """A refused request, a rate limit and a refused answer are not sent elsewhere: the retry policy decides."""
    one, other = Client("one", error=error), Client("other")
    with pytest.raises(type(error)):
        asyncio.run(pool(one, other).post({}))
    assert other.calls == 0


def test_a_stalled_server_gets_no_calls_after_a_deadline() -> None:
    """A cancelled call counts as a failure of its server."""
    stalled, other = Client("stalled", 60.0), Client("other")
    servers = pool(stalled, other)

    async def calls() -> bytes:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(servers.post({}), 0.01)
        return (await servers.post({}))[0]

    assert asyncio.run(calls()) == b"other"
    assert stalled.in_flight == 0


def test_identity_names_the_servers_or_the_name_of_as() -> None:
    """Replies of several servers are stored once, whatever their order; ``as`` makes them independent of addresses."""

    def identity(spec: str, url: str | None = None) -> object:
        return BACKEND.factory(parse_spec(spec, base_url=url), CallOptions(url)).identity["base_url"]

    assert identity("m", "http://b/v1,http://a/v1/") == identity("m", "http://a/v1, http://b/v1")
    assert identity("m", "http://a/v1") == "http://a/v1"
    named = identity("m?as=fleet", "http://a/v1,http://b/v1")
    assert named == identity("openai:m?as=fleet&base_url=http://c/v1") == "as fleet"
    assert parse_spec("m?as=fleet", base_url="http://a/v1").label == "m"
    for spec, url in (("m?as=", "http://a/v1"), ("m", "http://a/v1,ftp://b"), ("m", "http://a/v1,")):
        with pytest.raises(UsageError):
            identity(spec, url)


def test_a_run_goes_on_when_a_server_dies(run: Runner) -> None:
    """With two servers, of which one dies after its first answers, no item is an error; a note names the server."""
    with running_stub(delay=0.02) as one, running_stub(delay=0.02) as other:
        url = f"{one.url},{other.url}"
        run.write(
            "conftest.py",
            "import os, signal, pytest\n"
            "@pytest.fixture(autouse=True)\n"
            "def killer(verdict, pytestconfig):\n"
            "    yield\n"
            f"    if os.path.exists('/proc/{one.pid}'):\n"
            "        try:\n"
            f"            os.kill({one.pid}, signal.SIGKILL)\n"
            "        except OSError:\n"
            "            pass\n",
        )
        suite = run.write("test_htest.py", (ROOT / "suites" / "test_htest.py").read_text(encoding="utf-8"))
        done = run(
            str(suite), "--model", "m", "--llm-base-url", url, "-k", "rhyme",
            "--llm-concurrency", "4", "-n", "2", env={"OPENAI_API_KEY": "sk-test"},
        )  # fmt: skip
        assert done.code == 1, done.output
        assert {row["errors"] for row in done.run["summary"]} == {0}
        assert done.run["summary"][0]["items"] == 200
        assert other.stats()["requests"] >= 100
        assert f"{one.url}: " in done.output
        assert "calls failed there and were sent elsewhere" in done.output
