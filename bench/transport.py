"""Measure the CPU and wall time of one chat call with different clients: ``python bench/transport.py``.

64 calls are in flight against the stub server with almost no delay; the prompts are as long as an H-TEST item with 14
examples. CPU is that of this process, the minimum of the rounds; the server runs on the same cores. The second table
has the CPU time of the imports that each client needs, each in a separate process.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.process import ROOT, parsed
from bench.stub_server import running_stub

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


def main() -> None:
    """Print both tables."""
    options = parsed(__doc__, count=(256, "calls per round"), rounds=3)
    import openai

    print(
        f"openai {openai.__version__}, {IN_FLIGHT} calls in flight" + " " * 25 + "CPU ms  wall ms  (per call)"
    )
    with running_stub(delay=0.001) as stub:
        asyncio.run(_all(stub.url, options.count, options.rounds))
    import_times()


if __name__ == "__main__":
    main()
