"""A stub OpenAI-compatible server with a fixed delay, deterministic answers and injected faults.

    python bench/stub_server.py '{"port": 8000, "delay": 0.2}'

prints its base URL (ending in ``/v1``) in the first line and serves until its standard input closes. In a test::

    with running_stub(delay=0.01) as stub:
        ... stub.url ... stub.stats()

It shares the cores with the program that it measures, so it is a plain asyncio protocol: standard library only, about
0.1 ms of CPU time per request.

The model's name chooses a scenario: ``reasoner…`` (refuses temperature and max_tokens, uses hidden tokens), ``missing``
(404 model_not_found), ``quota``, ``too-long``, ``filtered`` (Azure's 400), ``filtered-reply``, ``refusing``,
``finish-REASON`` (any finish reason), ``html``, ``not-json``, ``status-503`` (any status), ``limited-seconds``,
``limited-date``, ``limited-ms`` (429 at the first attempt, with three forms of Retry-After), ``hang`` (no answer). For
several choices in one answer (``n``): ``no-n`` refuses ``n`` without a reason, ``one-of-n`` returns one choice,
``few-of-n`` every other one, ``filtered-second`` withholds the second one.
The key ``wrong`` gets a 401, ``forbidden`` a 403.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

REASONING_TOKENS = 200
_HTML = b"<!DOCTYPE html><html><head><title>Welcome</title></head><body>It works!</body></html>"
Answer = tuple[int, Any, dict[str, str]]
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(slots=True)
class StubOptions:
    """The server's options, which its command line has as JSON.

    :param delay: seconds from request to answer, also for faults.
    :param always_500: prompts with one of these texts, separated by ``|``, always get a 500.
    :param limit: a limit of the account, ``NUMBER:SECONDS`` of calls (:class:`Window`); empty for none.
    :param fail_all: every call gets a 500.
    :param answer: ``hash`` (A or B by the last user message), ``echo``, ``empty``, ``control`` (escape sequences),
        ``huge`` (2 MB), ``sample`` (the choice's number), ``sum`` (of "N + 1", wrong for every fifth N) or
        ``constant:TEXT``.
    """

    port: int = 0
    delay: float = 0.2
    always_500: str = ""
    limit: str = ""
    fail_all: bool = False
    answer: str = "hash"


@dataclass(slots=True)
class Refusal:
    """A call refused because of a limit.

    :param seconds: the exact wait; None if the server does not say it.
    """

    status: int
    seconds: float | None = None

    def answer(self) -> Answer:
        """Return the answer of OpenAI: whole seconds in ``Retry-After``, or the wait in the text and in a reset."""
        if self.seconds is None:
            return _error(self.status, "Too many requests.", None, error_type="requests")
        if self.seconds == int(self.seconds):
            return _limited(retry_after=f"{self.seconds:.0f}")
        wait = f"{self.seconds:.2f}s"
        message = f"Rate limit reached for requests. Please try again in {wait}."
        return _error(429, message, "rate_limit_exceeded", x_ratelimit_reset_requests=wait)


@dataclass(slots=True)
class TokenBucket:
    """Tokens that fill evenly, as OpenAI's. It states the wait in whole seconds."""

    per_minute: float
    burst: float
    says: bool = True
    tokens: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def refusal(self, now: float, cost: int) -> Refusal | None:
        """Return the refusal of a call of ``cost`` tokens; None if it is served."""
        rate = self.per_minute / 60
        self.tokens, self.at = min(self.burst, self.tokens + (now - self.at) * rate), now
        if self.tokens >= cost:
            self.tokens -= cost
            return None
        return Refusal(429, float(math.ceil((cost - self.tokens) / rate)) if self.says else None)

    def least_seconds(self, calls: int, tokens: int) -> float:
        """Return how long this limit makes so many calls take, at least."""
        return max(0.0, (tokens - self.burst) / self.per_minute * 60)


@dataclass(slots=True)
class Window:
    """A number of calls per window of time. It states the rest of the window (``try again in 16.17s``)."""

    calls: float
    seconds: float
    begun: float = -math.inf
    used: int = 0

    def refusal(self, now: float, cost: int) -> Refusal | None:
        """Return the refusal of a call; None if it is served."""
        if now >= self.begun + self.seconds:
            self.begun, self.used = now, 0
        self.used += 1
        return None if self.used <= self.calls else Refusal(429, self.begun + self.seconds - now)

    def least_seconds(self, calls: int, tokens: int) -> float:
        """Return how long this limit makes so many calls take, at least."""
        return (calls - 1) // self.calls * self.seconds


@dataclass(slots=True)
class EvenlySpaced:
    """nginx's ``limit_req`` without a burst: it refuses a call that follows another too closely, and states no wait."""

    per_second: float
    status: int = 503
    last: float = -math.inf

    def refusal(self, now: float, cost: int) -> Refusal | None:
        """Return the refusal of a call; None if it is served."""
        if now - self.last < 1 / self.per_second:
            return Refusal(self.status)
        self.last = now
        return None

    def least_seconds(self, calls: int, tokens: int) -> float:
        """Return how long this limit makes so many calls take, at least."""
        return calls / self.per_second


def _share(*parts: Any) -> float:
    """Return a number in [0, 1) that depends only on ``parts``."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def answer_text(rule: str, prompt: str, sample: int = 0) -> str:
    """Return the stub's answer to the last user message ``prompt``."""
    if rule == "hash":
        return "AB"[_share("answer", prompt, sample) >= 0.5]
    if rule == "sum":
        number = int(prompt.split()[0])
        return str(number + 1 if number % 5 else number)
    if rule.startswith("constant:"):
        return rule.removeprefix("constant:")
    texts = {"echo": prompt, "empty": "", "sample": str(sample), "huge": "A" + " very" * 400_000}
    return {**texts, "control": "A\x1b[31mred\x1b[0m\x00\x07\u202e"}[rule]


@dataclass(slots=True)
class Counts:
    """The calls that the server has received so far."""

    requests: int = 0
    answered: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    #: of the answers to prompts
    statuses: Counter[int] = field(default_factory=Counter)
    attempts: Counter[bytes] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "requests": self.requests,
            "answered": self.answered,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "distinct": len(self.attempts),
            "statuses": {str(k): v for k, v in sorted(self.statuses.items())},
        }


def _error(
    status: int,
    message: str,
    code: str | None,
    *,
    error_type: str = "invalid_request_error",
    param: str | None = None,
    **headers: str,
) -> Answer:
    body = {"error": {"message": message, "type": error_type, "param": param, "code": code}}
    return status, body, {k.replace("_", "-"): v for k, v in headers.items()}


def _limited(**headers: str) -> Answer:
    return _error(429, "Rate limit reached.", "rate_limit_exceeded", error_type="requests", **headers)


class Stub:
    """Decides the answers, independent of sockets."""

    def __init__(self, options: StubOptions) -> None:
        self.options = options
        self.counts = Counts()
        calls, _, seconds = options.limit.partition(":")
        self.limit = Window(float(calls), float(seconds)) if calls else None
        self._failing = options.always_500.split("|") if options.always_500 else []

    def answer(self, body: bytes, authorization: str) -> Answer:
        """Return the answer to one call."""
        try:
            data = json.loads(body)
            messages, model = data["messages"], data["model"]
        except (ValueError, KeyError, TypeError):
            return _error(400, "We could not parse the JSON body of your request.", None)
        turns = json.dumps([model, messages], ensure_ascii=False).encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(turns, digest_size=12).digest()
        self.counts.attempts[key] += 1
        prompt = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
        return self._fault(data, model, key, prompt, authorization) or self._reply(data, model, prompt)

    def _fault(self, data: dict[str, Any], model: str, key: bytes, prompt: str, auth: str) -> Answer | None:
        options, attempt = self.options, self.counts.attempts[key]
        refusal = None if self.limit is None else self.limit.refusal(time.monotonic(), 0)
        if refusal is not None:
            return refusal.answer()
        if model == "html":
            return 200, _HTML, {"content-type": "text/html; charset=utf-8"}
        if auth.endswith(" wrong"):
            shown = f"Incorrect API key provided: {auth.rsplit(' ', 1)[-1]}."
            return _error(401, shown, "invalid_api_key")
        if auth.endswith(" forbidden"):
            return _error(403, "You are not allowed to sample from this model.", None)
        failed = _error(500, "The server had an error.", None, error_type="server_error")
        if options.fail_all or any(part in prompt for part in self._failing):
            return failed
        return _scenario(model, data, attempt)

    def _reply(self, data: dict[str, Any], model: str, prompt: str) -> Answer:
        limit = data.get("max_completion_tokens", data.get("max_tokens"))
        reasoning = REASONING_TOKENS if model.startswith("reasoner") else 0
        choices, completion = [], 0
        indices = range(data.get("n") or 1)
        if model.endswith("-of-n"):
            indices = indices[:1] if model == "one-of-n" else indices[::2]
        for index in indices:
            text, finish = answer_text(self.options.answer, prompt, index), "stop"
            room = None if limit is None else max(0, limit - reasoning)
            tokens = text.split(" ")
            if room is not None and len(tokens) > room:
                tokens, finish = tokens[:room], "length"
                text = " ".join(tokens)
            completion += len(tokens) + min(reasoning, limit if limit is not None else reasoning)
            message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
            if model == "filtered-reply" or (model == "filtered-second" and index == 1):
                message["content"], finish = None, "content_filter"
            if model == "refusing":
                message["content"], message["refusal"] = (None, "I cannot help with that.")
            if model.startswith("finish-"):
                finish = model.removeprefix("finish-")
            choices.append({"index": index, "message": message, "finish_reason": finish, "logprobs": None})
            if data.get("logprobs") and model != "no-logprobs":
                choices[-1]["logprobs"] = {"content": _logprobs(tokens[:5], data.get("top_logprobs", 0))}
        sent = sum(len(m["content"]) for m in data["messages"]) // 4
        usage: dict[str, Any] = {"prompt_tokens": sent, "completion_tokens": completion}
        usage["total_tokens"] = sent + completion
        usage["completion_tokens_details"] = {"reasoning_tokens": min(reasoning, completion)}
        facts = {"id": "chatcmpl-stub", "object": "chat.completion", "created": 1700000000}
        return 200, {**facts, "model": f"{model}-0001", "choices": choices, "usage": usage}, {}


def _logprobs(tokens: list[str], top: int) -> list[dict[str, Any]]:
    entries = []
    for token in tokens:
        best = [{"token": token, "logprob": -0.25, "bytes": None}]
        best += [{"token": f"{token}{i}", "logprob": -2.0 - i, "bytes": None} for i in range(1, top)]
        entries.append({**best[0], "top_logprobs": best[:top]})
    return entries


_MISSING = "The model `missing` does not exist or you do not have access to it."
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_LONG = "This model's maximum context length is 8 tokens.\nHowever, you sent more."
_FILTER = "The response was filtered due to the prompt triggering the content management policy."
#: by the model's name
_REFUSALS: dict[str, Answer] = {
    "missing": _error(404, _MISSING, "model_not_found"),
    "quota": _error(429, _QUOTA, "insufficient_quota", error_type="insufficient_quota"),
    "too-long": _error(400, _LONG, "context_length_exceeded", param="messages"),
    "filtered": _error(400, _FILTER, "content_filter", param="prompt"),
}


def _scenario(model: str, data: dict[str, Any], attempt: int) -> Answer | None:
    """Return the fault of the scenario that the model's name chooses."""
    if model.startswith("reasoner"):
        if data.get("temperature", 1) != 1:
            text = f"Unsupported value: 'temperature' does not support {data['temperature']} with this model."
            text += " Only the default (1) value is supported."
            return _error(400, text, "unsupported_value", param="temperature")
        if "max_tokens" in data:
            text = "Unsupported parameter: 'max_tokens' is not supported with this model."
            text += " Use 'max_completion_tokens' instead."
            return _error(400, text, "unsupported_parameter", param="max_tokens")
    if model == "no-n" and (data.get("n") or 1) > 1:
        return _error(400, "The request cannot be served.", "invalid_request_error")
    if model == "strict" and (unknown := set(data) - {"model", "messages", "temperature", "max_tokens"}):
        return _error(400, f"Unrecognized request argument supplied: {min(unknown)}", None)
    if model in _REFUSALS:
        return _REFUSALS[model]
    if model == "not-json":
        return 200, b"upstream said: hello", {"content-type": "text/plain"}
    if model.startswith("status-"):
        return _error(int(model.removeprefix("status-")), "Something\r\nwent \x1b[31mwrong.", None)
    if model.startswith("limited-") and attempt == 1:
        date = formatdate(time.time() + 3, usegmt=True)
        waits = {
            "seconds": {"retry_after": "0.3"},
            "ms": {"retry_after_ms": "250"},
            "date": {"retry_after": date},
        }
        return _limited(**waits[model.removeprefix("limited-")])
    return None


class _Connection(asyncio.Protocol):
    """One client connection: HTTP/1.1 with Content-Length and keep-alive."""

    __slots__ = ("_buffer", "_closed", "_loop", "_pending", "_stub", "_transport")

    def __init__(self, stub: Stub, loop: asyncio.AbstractEventLoop) -> None:
        self._stub, self._loop = stub, loop
        self._buffer = b""
        self._pending: asyncio.TimerHandle | None = None
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._pending is not None:
            self._pending.cancel()
            self._stub.counts.in_flight -= 1

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._pending is None:
            self._next()

    def _next(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
        stop = end + 4 + int(headers.get("content-length", 0))
        if len(self._buffer) < stop:
            return
        body, self._buffer = self._buffer[end + 4 : stop], self._buffer[stop:]
        method, path, _ = first.split(" ", 2)
        if method == "POST" and path == "/v1/chat/completions":
            self._chat(body, headers.get("authorization", ""))
            return
        counts = self._stub.counts
        if path == "/stats":
            self._write(200, counts.to_json(), {})
        elif path == "/reset":
            self._stub.counts = Counts(in_flight=counts.in_flight)
            self._write(200, {}, {})
        else:
            self._write(*_error(404, f"Invalid URL ({method} {path})", None))

    def _chat(self, body: bytes, authorization: str) -> None:
        counts, delay = self._stub.counts, self._stub.options.delay
        counts.requests += 1
        counts.in_flight += 1
        counts.peak_in_flight = max(counts.peak_in_flight, counts.in_flight)
        status, answer, headers = self._stub.answer(body, authorization)
        if self._stub.limit is not None and status != 200:
            # A gateway refuses a call before the model sees it.
            delay = 0.0
        elif b'"hang"' in body:
            delay = 3600.0
        self._pending = self._loop.call_later(delay, self._finish, status, answer, headers)

    def _finish(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        self._pending = None
        counts = self._stub.counts
        counts.in_flight -= 1
        counts.statuses[status] += 1
        if status == 200:
            counts.answered += 1
        self._write(status, answer, headers)
        if self._buffer:
            self._next()

    def _write(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\ncontent-length: {len(body)}\r\n"
        for name, value in {"content-type": "application/json", **headers}.items():
            head += f"{name}: {value}\r\n"
        self._transport.write(head.encode() + b"\r\n" + body)


async def serve(options: StubOptions) -> None:
    """Serve until standard input closes."""
    loop = asyncio.get_running_loop()
    stub = Stub(options)
    server = await loop.create_server(
        lambda: _Connection(stub, loop), "127.0.0.1", options.port, backlog=1024
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


class RunningStub:
    """A stub server in a separate process. ``url`` is the base URL for an OpenAI client."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def get(self, path: str) -> dict[str, Any]:
        """Send a GET request for a path outside ``/v1``; return the JSON of the answer."""
        from http.client import HTTPConnection

        connection = HTTPConnection(self.url.split("/")[2], timeout=30)
        try:
            connection.request("GET", path)
            data: dict[str, Any] = json.loads(connection.getresponse().read())
            return data
        finally:
            connection.close()

    def stats(self) -> dict[str, Any]:
        """Return the counts so far."""
        return self.get("/stats")

    def reset(self) -> None:
        """Reset all counts."""
        self.get("/reset")


@contextmanager
def running_stub(**options: Any) -> Iterator[RunningStub]:
    """Run a stub server during a ``with`` block; the options are the fields of :class:`StubOptions`."""
    # -I -S: start without site-packages, which takes only about 50 ms.
    arguments = json.dumps(asdict(StubOptions(**options)))
    command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the stub server did not start; see its message on standard error")
        yield RunningStub(url, process.pid)
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(StubOptions(**json.loads(sys.argv[1]) if sys.argv[1:] else {})))
