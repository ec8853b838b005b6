"""The broker behind its socket: many clients, every kind of answer, and no hang."""

from __future__ import annotations

import asyncio
import socket
import stat
import subprocess
import tempfile
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.engine.broker import process as process_module
from pytest_llmprops.engine.broker import remote
from pytest_llmprops.engine.broker.process import BrokerProcess, start_server
from pytest_llmprops.engine.broker.remote import RemoteBroker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.fake import FakeModel
from pytest_llmprops.models.registry import parse_spec
from tests.support.engine_models import MakeBroker, served, transient


def ask(client: RemoteBroker, prompt: str) -> Awaitable[Reply]:
    """Send one prompt to the model."""
    return client.ask("m", "subject", Chat.user(prompt))


def test_concurrent_requests_get_their_own_answers(make_broker: MakeBroker, path: str) -> None:
    """Answers in any order reach their requests; two clients share the broker and its calls."""
    now = peak = 0

    async def respond(chat: Chat) -> str:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await asyncio.sleep((40 - int(chat.prompt)) / 2000)
        now -= 1
        return f"<{chat.prompt}>"

    model = FakeModel(respond)

    async def work(one: RemoteBroker, two: RemoteBroker) -> list[Reply]:
        return await asyncio.gather(*(ask(client, str(n)) for n in range(40) for client in (one, two)))

    replies = served(path, make_broker(model), work)
    assert [r.text for r in replies] == [f"<{n}>" for n in range(40) for _ in range(2)]
    assert len(model.requests) == 40
    assert peak == 40


def test_reply_is_transferred_completely(make_broker: MakeBroker, path: str) -> None:
    """Key, origin, values with the names that messages use, and invalid Unicode text arrive unchanged."""
    text = "\ud800 \u2028 \n 中" + "x" * 200_000
    value = {"arrays": [[["id"], "<f8", [1], "AAAA"]], "closed": "x", "id": 1}
    model = FakeModel(lambda chat: Reply(text, value=value, usage=Usage(1, 2, 3), reasoning="r"))

    async def work(one: RemoteBroker, two: RemoteBroker) -> list[Reply]:
        return [await ask(one, "\ud800 q"), await ask(two, "\ud800 q")]

    first, again = served(path, make_broker(model), work)
    assert (first.text, first.value, first.usage) == (text, value, Usage(1, 2, 3))
    assert first.reasoning == again.reasoning == "r"
    assert first.key == again.key != ""
    assert (first.cached, again.cached) == (False, True)
    assert (again.text, again.value) == (text, value)


def test_a_call_before_the_run_and_a_stop_reach_every_client(make_broker: MakeBroker, path: str) -> None:
    """A call that one client makes before the run answers another's request; any client can read the counters.

    If one client stops the run, the next requests of the others fail with the reason and are not sent.
    """

    async def work(one: RemoteBroker, two: RemoteBroker) -> dict[str, Any]:
        await one.trial("m", [Chat.user("a")])
        await ask(two, "a")
        await one.stop("enough")
        for client in (one, two):
            with pytest.raises(RunStopped, match=r"^enough$"):
                await ask(client, "q")
        return await two.report()

    model = FakeModel(lambda chat: "x")
    report = served(path, make_broker(model), work)
    assert (report["counters"]["answered"], report["stopped"]) == (1, "enough")
    assert len(model.requests) == 1


def test_a_process_that_is_killed_early_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that ends before it has its configuration or serves a client is an error like one that ends later."""

    def killed(listening: socket.socket, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        process = start_server(listening, errors)
        process.kill()
        process.wait()
        return process

    config = BrokerConfig({}, store=str(tmp_path / "s.sqlite"))
    waiting = BrokerProcess(config)
    monkeypatch.setattr(process_module, "start_server", killed)

    async def work() -> list[Any]:
        client = RemoteBroker(waiting.socket)
        asked = asyncio.gather(ask(client, "a"), ask(client, "b"), return_exceptions=True)
        await asyncio.sleep(0)
        waiting.process.kill()
        return list(await asyncio.wait_for(asked, 60))

    with closing(waiting), closing(BrokerProcess(config)) as process:
        assert [str(result) for result in asyncio.run(work())] == [remote.GONE] * 2
        with pytest.raises(BackendError, match="process ended"):
            asyncio.run(RemoteBroker(process.socket).report())
        waiting.process.wait(60)
        assert waiting.failure() == process.failure() == "the broker process was killed (out of memory?)"
    assert not Path(process.socket).parent.exists()


@pytest.mark.parametrize(
    "answer",
    [None, b'{"id": 0, "repl', b"{}\n", b"[]\n", b"\xff" * 20 + b"\n"],
    ids=["nothing", "cut off", "object", "list", "no UTF-8"],
)
def test_a_killed_server_or_a_damaged_answer_fails_every_open_request(
    path: str, answer: bytes | None
) -> None:
    """A worker that cannot read on knows that no answer can come: open and later requests fail with one line."""
    is_whole = answer is not None and answer.endswith(b"\n")

    async def damage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await remote.read_message(reader)
        writer.write(answer or b"")
        if is_whole:
            # Until the worker closes the connection.
            await reader.read()
        writer.close()

    async def work() -> list[Any]:
        listening = await asyncio.start_unix_server(damage, path)
        client = RemoteBroker(path)
        asked = asyncio.gather(ask(client, "a"), ask(client, "b"), return_exceptions=True)
        first = await asyncio.wait_for(asked, 60)
        later = await asyncio.wait_for(asyncio.gather(ask(client, "c"), return_exceptions=True), 60)
        await client.close()
        listening.close()
        await asyncio.sleep(0.05)
        return [*first, *later]

    results = asyncio.run(work())
    assert [type(r) for r in results] == [BackendError] * 3
    [line] = {str(r) for r in results}
    assert (
        line.startswith("the connection to the broker process ended: ") if is_whole else line == remote.GONE
    )


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Reply("x", value={1, 2}), "set is not a JSON value"),
        (Reply("x", cost_usd="abc"), "cost_usd is str instead of a number from 0"),  # type: ignore[arg-type]
        (BackendError("busy", kind=object()), "busy"),  # type: ignore[arg-type]
        (transient("status 500", retry_after=400.0), "transient status 500"),
    ],
)
def test_a_reply_that_cannot_be_sent_is_an_error_of_its_request(
    make_broker: MakeBroker, path: str, result: Any, said: str
) -> None:
    """A model may return anything: its request gets one line, and the connection stays usable."""
    model = FakeModel(lambda chat: result if chat.prompt == "bad" else "fine")

    async def work(one: RemoteBroker, two: RemoteBroker) -> str:
        with pytest.raises(BackendError, match=said) as caught:
            await ask(one, "bad")
        if isinstance(result, BackendError) and isinstance(result.kind, str):
            assert caught.value.to_json() == result.to_json()
        return (await ask(one, "good")).text

    assert served(path, make_broker(model, cache="off", retries=0), work) == "fine"


def test_the_process_is_private_and_ends_with_its_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker process listens on a socket that only its owner may use, and leaves no files behind.

    A socket's path has about a hundred bytes at most: with a longer TMPDIR, the socket is elsewhere.
    """
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    process = BrokerProcess(
        BrokerConfig({"m": parse_spec("fake:constant?text=A")}, store=str(tmp_path / "s.sqlite"))
    )

    async def work() -> str:
        client = RemoteBroker(process.socket)
        reply = await ask(client, "q")
        await client.close()
        return reply.text

    with closing(process):
        assert asyncio.run(work()) == "A"
        assert len(process.socket) <= 100
        assert stat.S_IMODE(Path(process.socket).stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(process.socket).parent.stat().st_mode) == 0o700
        assert process.failure() is None
    assert process.process.returncode == 0
    assert not Path(process.socket).parent.exists()
