"""A worker's connection to the broker process."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Reply, Request, request_to_json

# The protocol of the broker's socket: one JSON object per line; answers come in any order and carry the
# ``id``.

#: Maximum length of a line in bytes; a long prompt or reply is a few hundred kilobytes.
LINE_LIMIT = 256 * 1024 * 1024


#: key of an array of numbers in JSON: its bytes in base64; its data type and shape are next to it
_ARRAY = "__array__"
#: these bytes occur only for an array: a quotation mark inside a string is escaped
_HAS_ARRAY = f'"{_ARRAY}":'.encode()


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line. Escapes preserve lone surrogates; numpy arrays of numbers are preserved too."""
    return _encode_json(message).encode() + b"\n"


def _array_to_json(value: Any) -> dict[str, Any]:
    if not hasattr(value, "tobytes") or value.dtype.kind not in "fiu":
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    data = base64.b64encode(value.tobytes()).decode()
    return {_ARRAY: data, "type": value.dtype.str, "shape": list(value.shape)}


_encode_json = json.JSONEncoder(separators=(",", ":"), default=_array_to_json).encode


def _array_from_json(value: dict[str, Any]) -> Any:
    if value.keys() != {_ARRAY, "type", "shape"}:
        return value
    import numpy as np

    values = np.frombuffer(base64.b64decode(value[_ARRAY]), dtype=np.dtype(value["type"]))
    return values.reshape(value["shape"])


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message, or None at the end of the stream."""
    try:
        line = await reader.readline()
    except (ConnectionError, ValueError):
        return None
    if not line.endswith(b"\n"):
        return None
    hook = _array_from_json if _HAS_ARRAY in line else None
    message: dict[str, Any] = json.loads(line, object_hook=hook)
    return message


#: The broker process starts while the workers collect, which takes time on a busy machine.
CONNECT_SECONDS = 60.0
#: how long a socket may refuse connections
REFUSED_SECONDS = 1.0
GONE = "the broker process ended; see the first line it wrote to the terminal, then run again"


class BrokerClient:
    """Client of the broker's socket; connects at the first use."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._ids = itertools.count()
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._lines: list[bytes] = []
        self.writer: asyncio.StreamWriter | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def _connected(self) -> None:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        await asyncio.shield(self._connecting)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + CONNECT_SECONDS
        refused = False
        while True:
            try:
                reader, self.writer = await asyncio.open_unix_connection(self._path, limit=LINE_LIMIT)
                break
            except FileNotFoundError:
                pass
            except ConnectionRefusedError:
                # A running broker accepts connections as soon as its socket exists: this one has ended.
                if not refused:
                    refused, until = True, min(until, loop.time() + REFUSED_SECONDS)
            if loop.time() > until:
                raise BackendError(GONE, kind="broker")
            await asyncio.sleep(0.02)
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while (message := await read_message(reader)) is not None:
            future = self._open.pop(message["id"], None)
            if future is not None and not future.done():
                future.set_result(message)
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        for future in self._open.values():
            if not future.done():
                future.set_exception(BackendError(GONE, kind="broker"))

    async def send(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return the broker's answer.

        :raises BackendError: if the broker answers with an error or has ended.
        :raises RunStopped: if the run is stopped.
        """
        await self._connected()
        if self.writer is None:
            raise BackendError(GONE, kind="broker")
        number = next(self._ids)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, **message})
        answer: dict[str, Any] = await future
        if "error" in answer:
            raise BackendError.from_json(answer["error"])
        if "stopped" in answer:
            raise RunStopped(answer["stopped"])
        return answer

    def _write(self, message: dict[str, Any]) -> None:
        """Write the messages of one iteration of the event loop together.

        The samples of a prompt then reach the broker at the same time, also on a busy machine.
        """
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(encode_message(message))

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines and self.writer is not None:
            self.writer.write(b"".join(lines))

    async def ask(self, label: str, role: str, request: Request) -> Reply:
        """See :meth:`pytest_llmprops.engine.broker.Broker.ask`."""
        answer = await self.send(
            {"op": "ask", "model": label, "role": role, "request": request_to_json(request)}
        )
        return Reply.from_json(answer["reply"], key=answer["key"], cached=answer["cached"])

    async def idle(self, answers: int) -> None:
        """See :meth:`pytest_llmprops.engine.broker.Broker.idle`."""
        await self.send({"op": "idle", "answers": answers})

    async def report(self) -> dict[str, Any]:
        """See :meth:`pytest_llmprops.engine.broker.Broker.report`."""
        report: dict[str, Any] = (await self.send({"op": "report"}))["report"]
        return report

    async def trial(self, label: str, requests: Sequence[Request]) -> None:
        """See :meth:`pytest_llmprops.engine.broker.Broker.trial`."""
        await self.send({"op": "trial", "model": label, "requests": [*map(request_to_json, requests)]})

    async def post(self, name: str, value: Any) -> None:
        """Send ``value``, a plain value other than None, to all workers under ``name``; the first value is kept."""
        await self.send({"op": "post", "name": name, "value": value})

    async def gather(self, names: Sequence[str], *, wait: bool = True) -> list[Any]:
        """Return the values that workers posted under ``names``.

        :param wait: wait until all values are posted; otherwise return those that are. A missing value is None, which
            with ``wait`` occurs only after a worker was lost.
        :raises RunStopped: if the run is stopped during the wait.
        """
        answer = await self.send({"op": "gather", "names": list(names), "wait": wait})
        values: list[Any] = answer["values"]
        return values

    async def stop(self, reason: str) -> None:
        """Stop the run for all clients."""
        await self.send({"op": "stop", "reason": reason})

    async def close(self) -> None:
        """Close the connection."""
        for task in (self._connecting, self._reading):
            if task is not None:
                task.cancel()
        if self.writer is not None:
            # Tells the broker that this worker has posted all its values; a killed worker cannot send this.
            self._lines.append(encode_message({"op": "leave"}))
            self._flush()
            self.writer.close()
