"""A server of chat completions that breaks chosen answers: the faults of ``python -m bench.faults``.

A fault is a list of steps: bytes to send, seconds to wait, and how the connection ends. They break HTTP/1.1 (RFC 9112:
status lines in section 4, fields in 5, lengths in 6, chunks in 7.1, connections in 9), content codings (RFC 9110,
section 8.4), and the object of a chat completion in OpenAI's API reference. The text of each readable answer is right.
So a verdict must be an error or that of an undisturbed run, except where a fault says otherwise (``Fault.allowed``).
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

#: what a server does in order: send bytes, wait for seconds, then ``close``, ``reset`` or nothing (keep the connection)
Step = bytes | float | str
Json = Any
#: statuses whose first line a server or a proxy may send (RFC 9110, section 15, and proxies' own)
STATUSES = (
    *range(400, 419), 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, *range(500, 512), 520, 522, 524, 529, 599,
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One way to break an answer.

    :param steps: makes the steps from the right answer.
    :param allowed: statuses that a verdict on this answer may have, besides *error* and that of an undisturbed run.
    """

    name: str
    steps: Callable[[Json], list[Step]]
    allowed: tuple[str, ...] = ()


def good_answer(text: str) -> Json:
    """Return a chat completion with every field that the client reads."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}
    facts = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "stub-0001"}
    return {**facts, "choices": [choice], "usage": usage}


def _encoded(content: Json) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def whole(content: Json, status: int = 200, *fields: str) -> bytes:
    """Return an answer with the right length."""
    body = _encoded(content)
    lines = [
        f"HTTP/1.1 {status} Reason", f"content-length: {len(body)}",
        *([] if any(f.lower().startswith("content-type") for f in fields) else ["content-type: application/json"]),
        *fields,
    ]  # fmt: skip
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def raw(head: str, body: bytes = b"") -> bytes:
    """Return an answer whose head is not checked."""
    return head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body


_HEAD = "HTTP/1.1 200 OK\ncontent-type: application/json"
_HTML = b"<!DOCTYPE html><html><head><title>Welcome</title></head><body>It works!</body></html>"
_ERROR = {"error": {"message": "Something went wrong.", "type": "server_error", "code": None}}
Make = Callable[[Json], list[Step]]


def body(content: Json, status: int = 200, *fields: str) -> Make:
    """Return the steps of an answer with another body: bytes, JSON, or a function of the right body."""
    return lambda a: [whole(content(_encoded(a)) if callable(content) else content, status, *fields)]


def framed(fields: str, change: Callable[[bytes], bytes] = bytes, *end: Step, line: str = _HEAD) -> Make:
    """Return the steps of an answer with other header fields; ``{n}`` is the length of the right body."""
    return lambda a: [
        raw(f"{line}\n{fields.replace('{n}', str(len(_encoded(a))))}", change(_encoded(a))), *end
    ]  # fmt: skip


def _cut(part: Callable[[Json], bytes], end: str) -> Make:
    return lambda a: [part(a), 0.02, end]


def _connections() -> Iterator[Fault]:
    """Yield connections that end too early, stop, or carry more than one answer."""
    for end in ("close", "reset"):
        for name, part in (
            ("before the status line", lambda a: b""),
            ("within the status line", lambda a: b"HTTP/1.1 2"),
            ("within the header", lambda a: b"HTTP/1.1 200 OK\r\ncontent-le"),
            ("after the header", lambda a: whole(a)[: -len(_encoded(a))]),
            ("within the body", lambda a: whole(a)[: -len(_encoded(a)) // 2]),
            ("before the last byte", lambda a: whole(a)[:-1]),
            ("after the answer", whole),
        ):
            yield Fault(f"{end} {name}", _cut(part, end))
    yield Fault("keep-alive, then closed", lambda a: [whole(a), 0.05, "close"])
    yield Fault("bytes after the answer", lambda a: [whole(a) + b"\x00\xffgarbage"])
    yield Fault("empty lines before the answer", lambda a: [b"\r\n\r\n" + whole(a)])
    yield Fault("no answer until the timeout", lambda a: [3600.0])
    yield Fault("stops within the header", lambda a: [whole(a)[:30], 3600.0])
    yield Fault("stops within the body", lambda a: [whole(a)[:-9], 3600.0])
    yield Fault("five bytes at a time", lambda a: _slow(whole(a), 5, 0.005))


def _slow(content: bytes, size: int, wait: float) -> list[Step]:
    parts = (content[start : start + size] for start in range(0, len(content), size))
    return [step for part in parts for step in (part, wait)]


def _messages() -> Iterator[Fault]:
    """Yield wrong status lines, header fields, lengths, chunks and content codings."""
    for name, line in {
        "status line without a version": "200 OK",
        "HTTP/9.9": "HTTP/9.9 200 OK",
        "status of four digits": "HTTP/1.1 2000 OK",
        "status of letters": "HTTP/1.1 abc OK",
        "no reason phrase": "HTTP/1.1 200",
        "not HTTP": "SSH-2.0-OpenSSH_9.6",
    }.items():
        ok = "content-type: application/json\ncontent-length: {n}"
        yield Fault(name, framed(ok, bytes, "close", line=line))
    for name, text in {
        "field without a colon": "no colon here",
        "field with a NUL": "x: a\0b",
        "field name with a space": "x y: z",
        "folded field": "x: a\n b",
        "field of 1 MB": "x: " + "a" * 2**20,
        "3,000 fields": "\n".join(f"x-{n}: {n}" for n in range(3000)),
        "field with bytes that are not ASCII": "x: \xe4\xff",
        "bare carriage return": "x: a\rb",
    }.items():
        yield Fault(name, framed(f"{text}\ncontent-length: {{n}}"))
    for name, length in {
        "content-length too small": "9",
        "content-length too large": "{n}0",
        "content-length negative": "-5",
        "content-length of letters": "many",
        "content-length 99999999999999": "99999999999999",
        "two content-lengths": "{n}\ncontent-length: 9",
        "content-length and chunked": "{n}\ntransfer-encoding: chunked",
    }.items():
        yield Fault(name, framed(f"content-length: {length}", bytes, 0.05, "close"))
    yield Fault("no length, then closed", lambda a: [raw(_HEAD, _encoded(a)), "close"])
    chunked: dict[str, Callable[[bytes], bytes]] = {
        "chunks without an end": lambda b: b"%x\r\n%s\r\n" % (len(b), b),
        "chunk size of letters": lambda b: b"zz\r\n%s\r\n0\r\n\r\n" % b,
        "chunk size negative": lambda b: b"-5\r\n%s\r\n0\r\n\r\n" % b,
        "chunk size too large": lambda b: b"%x\r\n%s\r\n0\r\n\r\n" % (len(b) + 40, b),
        "chunk size too small": lambda b: b"%x\r\n%s\r\n0\r\n\r\n" % (len(b) - 9, b),
        "chunk size of 40 digits": lambda b: b"f" * 40 + b"\r\n%s\r\n0\r\n\r\n" % b,
        "chunks of one byte": lambda b: b"".join(b"1\r\n%c\r\n" % c for c in b) + b"0\r\n\r\n",
        "no chunks at all": bytes,
    }
    for name, chunks in chunked.items():
        yield Fault(name, framed("transfer-encoding: chunked", chunks, 0.05, "close"))
    for name, coding, coded in (
        ("gzip that is not", "gzip", bytes),
        ("gzip cut in half", "gzip", lambda b: gzip.compress(b)[:40]),
        ("gzip with a wrong sum", "gzip", lambda b: gzip.compress(b)[:-8] + b"\0" * 8),
        ("gzip of 100 MB of spaces", "gzip", lambda b: _bomb()),
        ("deflate that is not", "deflate", bytes),
        ("a coding that nobody knows", "xyz", bytes),
    ):
        yield Fault(name, body(coded, 200, f"content-encoding: {coding}"))
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n"
    yield Fault("100 Continue first", lambda a: [b"HTTP/1.1 100 Continue\r\n\r\n" + whole(a)])
    yield Fault("103 Early Hints first", lambda a: [hints + whole(a)])
    for status in (204, 206, 304):
        yield Fault(f"status {status}", _only(raw(f"HTTP/1.1 {status} Reason"), "close"))
    yield Fault("redirect in a circle", body({}, 307, "location: /v1/chat/completions"))
    yield Fault("redirect to a closed port", body({}, 307, "location: http://127.0.0.1:9/v1"))


def _only(*steps: Step) -> Make:
    return lambda a: list(steps)


@cache
def _bomb() -> bytes:
    return gzip.compress(b" " * 100_000_000)


def _statuses() -> Iterator[Fault]:
    """Yield every status of an error, and bodies and waits that servers send with it."""
    for status in STATUSES:
        yield Fault(f"status {status}", body(_ERROR, status))
    for wait in ("0", "-1", "NaN", "soon", "1000000000", "Wed, 21 Oct 2015 07:28:00 GMT"):
        yield Fault(f"status 429, Retry-After: {wait}", body(_ERROR, 429, f"retry-after: {wait}"))
    bodies = {"no body": b"", "HTML": _HTML, "null": b"null", "a list": b"[]", "half JSON": b'{"error": {'}
    for name, text in bodies.items():
        yield Fault(f"status 503 with {name}", body(text, 503))


def _bodies() -> Iterator[Fault]:
    """Yield bodies that are not the JSON of a chat completion, or that write it in an odd way."""
    bodies: dict[str, bytes | Callable[[bytes], bytes]] = {
        "empty body": b"", "null": b"null", "a list": b"[]", "a string": b'"hello"', "a number": b"7", "NaN": b"NaN",
        "text": b"upstream said: hello", "bytes that are not UTF-8": b"\xff\xfe\x80", "NUL bytes": b"\0" * 64,
        "100,000 brackets": b"[" * 100_000, "server-sent events": b'data: {"choices": []}\n\ndata: [DONE]\n\n',
        "a number of 5,000 digits": b'{"choices": ' + b"9" * 5000 + b"}",
        "half JSON": lambda b: b[: len(b) // 2],
        "a byte order mark": lambda b: b"\xef\xbb\xbf" + b,
        "UTF-16": lambda b: b.decode().encode("utf-16"),
        "1 MB of spaces first": lambda b: b" " * 2**20 + b,
        "1 MB of spaces last": lambda b: b + b" " * 2**20,
        "twice": lambda b: b + b,
        "a comma too many": lambda b: b[:-1] + b",}",
        "keys twice": lambda b: b'{"choices": [], "usage": 7, ' + b[1:],
        "another key of 1 MB": lambda b: b'{"' + b"k" * 2**20 + b'": 1, ' + b[1:],
    }  # fmt: skip
    for name, content in bodies.items():
        yield Fault(f"body: {name}", body(content))
    yield Fault("body: HTML", body(_HTML, 200, "content-type: text/html"))


_MISSING = object()
#: the field whose values may leave no text: a content that is null, missing or a list of parts is an empty reply
_CONTENT = "choices.0.message.content"
_FINISH = "choices.0.finish_reason"
_SHAPES: list[tuple[str, list[Json]]] = [
    ("choices", [_MISSING, None, {}, [], "text", 7, [None], ["x"], [[]]]),
    ("choices.0.message", [_MISSING, None, [], "text", 7]),
    (_CONTENT, [_MISSING, None, 7, True, {}, [], [None], [{"type": "text"}], [{"text": 7}]]),
    ("choices.0.message.refusal", [7, [], {}]),
    ("choices.0.message.tool_calls", [7, "x", [None]]),
    ("choices.0.message.reasoning_content", [7, [], "\ud800"]),
    ("choices.0.index", [None, "0", -1, 1e30]),
    (_FINISH, [_MISSING, None, 7, [], "odd", "error", "length"]),
    ("choices.0.logprobs", [
        7, "x", {"content": "x"}, {"content": [None]}, {"content": [{"token": "a", "logprob": "x"}]},
        {"content": [{"token": "a", "logprob": float("nan"), "top_logprobs": 7}]},
        {"content": [{"token": {"__array__": "!!!", "type": "zz", "shape": [1]}, "logprob": -1.0}]},
    ]),
    ("usage", [_MISSING, None, [], "many", {}]),
    ("usage.prompt_tokens", [None, -1, "many", float("nan"), 10**30, [], True]),
    ("usage.completion_tokens", [-1, "many", float("inf"), 10**30]),
    ("usage.cost", ["abc", -1, float("nan"), {}]),
    ("model", [_MISSING, None, 7, [], "m" * 100_000, "\ud800", "\0\x1b[31m"]),
    ("id", [None, 7]),
    ("created", ["x", 10**30]),
    ("error", [{"message": "overloaded", "code": 503}, "overloaded", 7]),
]  # fmt: skip
#: values whose verdicts may be others
_OTHERS: list[tuple[str, str, tuple[str, ...]]] = [
    *((_CONTENT, text, ("wrong", "unparsed")) for text in ("\ud800", "\0", "")),
    (_FINISH, "content_filter", ("refused",)),
    (_FINISH, "tool_calls", ("unparsed",)),
]


def _shown(value: Json) -> str:
    text = "missing" if value is _MISSING else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:30]}... ({len(text):,} characters)"


def value(path: str, new: Json, allowed: tuple[str, ...] = ()) -> Fault:
    """Return the fault of a right answer with another value at ``path``."""
    *folders, last = path.split(".")

    def steps(answer: Json) -> list[Step]:
        result = place = copy.deepcopy(answer)
        for name in folders:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if new is _MISSING:
            del place[last]
        else:
            place[last] = new
        return [whole(result)]

    return Fault(f"{path} = {_shown(new)}", steps, allowed)


def _shapes() -> Iterator[Fault]:
    """Yield values of the wrong type or size at each field of a chat completion."""
    for path, values in _SHAPES:
        for new in values:
            is_empty = path == _CONTENT and (new in (_MISSING, None) or isinstance(new, list))
            yield value(path, new, ("unparsed",) if is_empty else ())
    for other in _OTHERS:
        yield value(*other)


def server_faults() -> list[Fault]:
    """Return every fault."""
    return [*_connections(), *_messages(), *_statuses(), *_bodies(), *_shapes()]


class FaultServer:
    """Adds one to numbers, except for every fifth one, and breaks the answers that ``plan`` says.

    :param plan: prompt → the fault of its answers, and whether only its first answer is broken.
    :param delay: seconds from a request to its answer.
    """

    def __init__(self, plan: Mapping[int, tuple[Fault, bool]] | None = None, delay: float = 0.0) -> None:
        self._plan, self._delay = plan or {}, delay
        self._writers: set[asyncio.StreamWriter] = set()
        self.attempts: Counter[int] = Counter()
        self.answered: set[int] = set()
        self.in_flight = self.repeats = self.peak = 0
        asyncio.run_coroutine_threadsafe(self._start(), _loop()).result(60)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def close(self) -> None:
        """Stop serving, and close every connection."""

        async def stop() -> None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(stop(), _loop()).result(60)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, ValueError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection can be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        if not body:
            writer.write(whole({"error": {"message": "not found"}}, 404))
            return True
        number = int(json.loads(body)["messages"][-1]["content"].split()[0])
        self.attempts[number] += 1
        self.repeats += number in self.answered
        fault, is_once = self._plan.get(number, (None, False))
        is_broken = fault is not None and not (is_once and self.attempts[number] > 1)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await asyncio.sleep(self._delay)
            if writer.is_closing():
                return False
            answer = good_answer(str(number + 1 if number % 5 else number))
            if fault is not None and is_broken:
                return await self._break(writer, fault.steps(answer))
            self.answered.add(number)
            writer.write(whole(answer))
            await writer.drain()
            return True
        finally:
            self.in_flight -= 1

    async def _break(self, writer: asyncio.StreamWriter, steps: list[Step]) -> bool:
        for step in steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif step == "reset":
                # RFC 9112, section 9.6: a server that closes early may reset the connection.
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            else:
                return False
        return True


_LOOPS: list[asyncio.AbstractEventLoop] = []
_LOCK = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all servers, which runs in a thread."""
    with _LOCK:
        if not _LOOPS:
            _LOOPS.append(asyncio.new_event_loop())
            threading.Thread(target=_LOOPS[0].run_forever, daemon=True).start()
        return _LOOPS[0]
