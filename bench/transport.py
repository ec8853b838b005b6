"""Measure the CPU and wall time of one chat call with different clients: ``python bench/transport.py``.

64 calls are in flight against the stub server with almost no delay; the prompts are as long as an H-TEST item with 14
examples. CPU is that of this process, the minimum of the rounds; the server runs on the same cores. The second table
has the CPU time of the imports that each client needs, each in a separate process.

``--fuzz 1000000`` sends damaged messages between a worker and its broker instead. Each message must get its own reply
or an error, and no request may stay open.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.process import ROOT, parsed
from bench.stub_server import running_stub
from pytest_llmprops.core.requests import Chat, Reply, request_to_json
from pytest_llmprops.engine.client import LINE_LIMIT, BrokerClient, encode_message, read_message
from pytest_llmprops.engine.server import Server

IN_FLIGHT = 64
PROMPT = "Which of the two groups does the word belong to? " * 60
Call = Callable[[dict[str, Any]], Awaitable[str]]


def body(number: int) -> dict[str, Any]:
    """Return the body of call ``number``."""
    messages = [{"role": "user", "content": f"{PROMPT}{number}"}]
    return {"model": "m", "messages": messages, "temperature": 0.7, "max_tokens": 5}


def _text(answer: Any) -> str:
    text: str = answer["choices"][0]["message"]["content"]
    return text


async def _round(call: Call, count: int) -> None:
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        async with slots:
            await call(body(number))

    await asyncio.gather(*(one(i) for i in range(count)))


async def _measure(call: Call, count: int, rounds: int) -> tuple[float, float]:
    """Return (CPU, wall) in milliseconds per call, of the round with the least CPU time."""
    await _round(call, IN_FLIGHT)
    best = (1e9, 1e9)
    for _ in range(rounds):
        cpu, wall = time.process_time(), time.perf_counter()
        await _round(call, count)
        spent = (time.process_time() - cpu, time.perf_counter() - wall)
        best = min(best, (spent[0] / count * 1e3, spent[1] / count * 1e3))
    return best


def _named(client: Callable[..., Any], name: str) -> Any:
    """Return the SDK's client with the SDK's HTTP client called ``name``."""
    import openai

    return client(http_client=getattr(openai, name)())


async def _all(url: str, count: int, rounds: int) -> list[tuple[str, float, float]]:
    import openai

    from pytest_llmprops.models.api.server_pool import SdkClient, httpx

    rows: list[tuple[str, float, float]] = []

    async def row(name: str, call: Call) -> None:
        rows.append((name, *await _measure(call, count, rounds)))
        print(f"  {name:58s} {rows[-1][1]:8.2f} {rows[-1][2]:8.2f}", flush=True)

    def client(**settings: Any) -> Any:
        return openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0, **settings)

    def ways(sdk: Any) -> dict[str, Call]:
        async def create(b: dict[str, Any]) -> str:
            text: str = (await sdk.chat.completions.create(**b)).choices[0].message.content
            return text

        async def raw(b: dict[str, Any]) -> str:
            return _text(json.loads((await sdk.chat.completions.with_raw_response.create(**b)).content))

        async def post(b: dict[str, Any]) -> str:
            answer = await sdk.post("/chat/completions", cast_to=httpx.Response, body=b)
            return _text(json.loads(answer.content))

        return {"create": create, "with_raw_response": raw, "client.post": post}

    transports: dict[str, Callable[[], Any]] = {"SDK default": client}
    for name in ("DefaultAsyncHttpx2Client", "DefaultAioHttpClient"):
        if hasattr(openai, name):
            transports[f"SDK, {name}"] = partial(_named, client, name)
    for name, make in transports.items():
        try:
            sdk = make()
        except Exception as error:
            print(f"  {name}: {str(error).splitlines()[0]}")
            continue
        for way, call in ways(sdk).items():
            await row(f"{name}, {way}", call)
        await sdk.close()

    threads = ThreadPoolExecutor(IN_FLIGHT)
    sync = openai.OpenAI(api_key="k", base_url=url, max_retries=0)

    def in_thread(b: dict[str, Any]) -> str:
        return sync.chat.completions.create(**b).choices[0].message.content or ""

    loop = asyncio.get_running_loop()
    await row(
        "SDK, synchronous client in threads, create", lambda b: loop.run_in_executor(threads, in_thread, b)
    )
    sync.close()

    ours = SdkClient(url, "k", 60.0, IN_FLIGHT)

    async def backend(b: dict[str, Any]) -> str:
        content, _ = await ours.post(b)
        return _text(json.loads(content))

    await row("the openai backend of this project", backend)
    await ours.aclose()

    async with httpx.AsyncClient() as plain:

        async def without_sdk(b: dict[str, Any]) -> str:
            return _text((await plain.post(f"{url}/chat/completions", json=b)).json())

        await row(f"no SDK: {httpx.__name__}", without_sdk)
    try:
        import aiohttp
    except ImportError:
        return rows
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def bare_aiohttp(b: dict[str, Any]) -> str:
            async with session.post(f"{url}/chat/completions", json=b) as response:
                return _text(await response.json())

        await row("no SDK: aiohttp", bare_aiohttp)
    return rows


def import_times(rounds: int = 5) -> None:
    """Print the CPU and wall time of imports, the median of ``rounds`` processes each."""
    statements = {
        "nothing": "pass",
        "httpx2": "import httpx2",
        "aiohttp": "import aiohttp",
        "pydantic": "import pydantic",
        "openai": "import openai",
        "openai, without garbage collection": "import gc; gc.disable(); import openai",
        "openai, aiohttp": "import openai, aiohttp",
        "openai and its chat resource": "import openai.resources.chat.completions",
        "the openai backend's client": "import pytest_llmprops.models.api.openai",
    }
    print(f"\nimports, median of {rounds}" + " " * 38 + "CPU ms  wall ms  modules")
    for name, statement in statements.items():
        code = (
            "import sys\nfrom time import perf_counter as wall, process_time as cpu\n"
            f"before, c, w = len(sys.modules), cpu(), wall()\n{statement}\n"
            "print((cpu() - c) * 1e3, (wall() - w) * 1e3, len(sys.modules) - before)"
        )
        runs = []
        for _ in range(rounds):
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                runs.append([float(x) for x in done.stdout.split()])
        if runs:
            cpu, wall, modules = (statistics.median(column) for column in zip(*runs, strict=True))
            print(f"  {name:55s} {cpu:8.0f} {wall:8.0f} {modules:8.0f}")


# Damaged messages between a worker and its broker.

#: what a decoder could take for its own: markers of arrays, the fields of messages, values that are not JSON
_HOSTILE: tuple[Any, ...] = (
    {"__array__": "!!!", "type": "zz", "shape": [1]}, {"arrays": [[["id"], "<f8", [1], "AAAA"]]}, {"closed": "x"},
    {"error": {}}, {"stopped": "x"}, {"id": 0}, {"": {"": [[]]}}, [[[[None]]]], "\n", "\x00", "\ud800", '"}\n{"id": 0}',
    -1, 0, 1e308, 2**70, True, None, [], {}, "arrays",
)  # fmt: skip
_BYTES = tuple(b'"{}[]:,\\0123456789eE+-.ntf \n\x00\xff') + tuple(range(0, 256, 5))
#: seconds after which a request counts as left open
_HUNG_SECONDS = 2.0


def _damaged(line: bytes, rng: random.Random) -> bytes:
    """Return a line with one to three random changes; it may have no line break or several."""
    data = bytearray(line)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        stop = min(len(data), at + rng.choice((1, 1, 2, 5, 50)))
        change = rng.randrange(5)
        if change == 0:
            data[at:stop] = bytes(rng.choices(_BYTES, k=stop - at))
        elif change == 1:
            del data[at:stop]
        elif change == 2:
            data[at:at] = bytes(rng.choices(_BYTES, k=rng.randint(1, 8)))
        elif change == 3:
            data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randint(1, 80)]
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data) or b"\n"


def _replaced(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one part replaced by another, at any depth."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.2:
        return rng.choice(_HOSTILE)
    copy: Any = value.copy()
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(copy, dict) and rng.random() < 0.2:
        del copy[key]
    else:
        copy[key] = _replaced(copy[key], rng)
    return copy


def _line(message: dict[str, Any], rng: random.Random) -> tuple[bytes, bool]:
    """Return a damaged message, and whether its receiver can know: not if another message was sent in its place."""
    kind = rng.random()
    if kind < 0.8:
        return _damaged(encode_message(message), rng), True
    data = json.dumps(_replaced(message, rng)).encode()
    if kind < 0.9:
        data = _damaged(data, rng).replace(b"\n", b" ")
    return b"%08x%b\n" % (zlib.crc32(data), data), False


class _Written:
    """The part of ``asyncio.StreamWriter`` that both sides use."""

    def __init__(self) -> None:
        self.lines = asyncio.StreamReader(limit=LINE_LIMIT)
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.lines.feed_data(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


class _Echo:
    """A broker whose reply is the prompt."""

    waves = stopped = None

    def __getattr__(self, name: str) -> Any:
        return lambda *args: contextlib.nullcontext()

    async def ask(self, label: str, role: str, request: Any) -> Reply:
        return Reply(f"<{request.prompt}>", value=label)


async def _until(condition: Callable[[], bool]) -> bool:
    """Return True as soon as the condition is met, or False."""
    until = time.monotonic() + _HUNG_SECONDS
    for turn in range(10**9):
        if condition():
            return True
        if turn > 100 and time.monotonic() > until:
            break
        await asyncio.sleep(0 if turn < 100 else 0.01)
    return False


async def _to_worker(rng: random.Random, outcomes: Counter[str]) -> None:
    """Send three answers to a worker that waits for them, the second one damaged."""
    values = [rng.choice(_HOSTILE) for _ in range(3)]
    replies = [Reply(f"<{n} {rng.random()}>", value={"v": values[n], "arrays": [n]}) for n in range(3)]
    messages = [{"id": n, "reply": r.to_json(), "key": "k", "cached": False} for n, r in enumerate(replies)]
    damaged, is_certain = _line(messages[1], rng)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)

    async def connected(*args: Any, **settings: Any) -> Any:
        return reader, _Written()

    client = BrokerClient("")
    with mock.patch("asyncio.open_unix_connection", connected):
        asked = [asyncio.ensure_future(client.ask("m", "subject", Chat.user("q"))) for _ in replies]
        # Until all requests are open: their numbers are in this order.
        for _ in range(10):
            await asyncio.sleep(0)
    reader.feed_data(encode_message(messages[0]) + damaged + encode_message(messages[2]))
    if not is_certain:
        reader.feed_eof()
    if not await _until(lambda: all(future.done() for future in asked)):
        outcomes["hung"] += 1
    for reply, future in zip(replies, asked, strict=True):
        if not future.done():
            future.cancel()
        elif future.exception() is not None:
            outcomes["failed"] += 1
        else:
            is_right = replace(future.result(), key="") == reply or not is_certain
            outcomes["right" if is_right else "wrong"] += 1
    await client.close()


async def _to_broker(rng: random.Random, outcomes: Counter[str]) -> None:
    """Send three requests to a broker, the second one damaged."""
    prompts = [f"{n} {rng.random()}" for n in range(3)]
    messages = [
        {"id": n, "op": "ask", "model": rng.choice(("m", "{", "\n")), "role": "subject",
         "request": request_to_json(Chat.user(prompt, stop=("\n",)))}
        for n, prompt in enumerate(prompts)
    ]  # fmt: skip
    damaged, is_certain = _line(messages[1], rng)
    reader, written = asyncio.StreamReader(limit=LINE_LIMIT), _Written()
    serving = asyncio.ensure_future(Server(_Echo()).client(reader, written))  # type: ignore[arg-type]
    answers: dict[int, Any] = {}

    async def collect() -> None:
        while (answer := await read_message(written.lines)) is not None:
            if "closed" not in answer:
                answers[answer["id"]] = answer

    collecting = asyncio.ensure_future(collect())
    reader.feed_data(encode_message(messages[0]) + damaged + encode_message(messages[2]))
    if not is_certain:
        reader.feed_eof()
    if not await _until(lambda: written.is_closed or len(answers) == len(prompts)):
        outcomes["hung"] += 1
    for task in (serving, collecting):
        task.cancel()
    await asyncio.gather(serving, collecting, return_exceptions=True)
    for number, answer in answers.items():
        if "reply" not in answer:
            outcomes["failed"] += 1
        else:
            is_right = answer["reply"]["text"] == f"<{prompts[number]}>" or not is_certain
            outcomes["right" if is_right else "wrong"] += 1


def fuzz_messages(count: int, seed: int) -> Counter[str]:
    """Send ``count`` damaged messages, half of them in each direction, each between two others.

    One in five has a valid checksum: another program sent it. Its content cannot be wrong, but nothing may hang.

    :returns: how many messages got the ``right`` reply, ``failed``, got a ``wrong`` reply, or ``hung``.
    """
    outcomes: Counter[str] = Counter()

    async def work() -> None:
        rng = random.Random(seed)
        for number in range(count):
            await (_to_worker if number % 2 else _to_broker)(rng, outcomes)

    asyncio.run(work())
    return outcomes


def main() -> None:
    """Print both tables."""
    options = parsed(__doc__, count=(256, "calls per round"), rounds=3, fuzz=(0, "damaged messages"))
    if options.fuzz:
        started = time.perf_counter()
        outcomes = fuzz_messages(options.fuzz, seed=0)
        print(f"{options.fuzz:,} damaged messages in {time.perf_counter() - started:.0f} s: {dict(outcomes)}")
        return
    import openai

    print(
        f"openai {openai.__version__}, {IN_FLIGHT} calls in flight" + " " * 25 + "CPU ms  wall ms  (per call)"
    )
    with running_stub(delay=0.001) as stub:
        asyncio.run(_all(stub.url, options.count, options.rounds))
    import_times()


if __name__ == "__main__":
    main()
