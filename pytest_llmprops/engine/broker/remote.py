"""A worker's connection to the broker process."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.requests import Reply, Request, request_to_json
from pytest_llmprops.core.strict_json import parsed_json

# The protocol of the broker's socket: one JSON object per line; answers come in any order and have the ``id`` of their
# message. JSON cannot hold arrays of numbers. Each of them is null in the object, and ``arrays`` has its
# place, data type, shape and bytes. Nothing inside the data marks an array, because the data may be a server's.

#: Maximum length of a line in bytes; a long prompt or reply is a few hundred kilobytes.
LINE_LIMIT = 256 * 1024 * 1024
_ARRAYS = "arrays"


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line. Escapes preserve lone surrogates; numpy arrays of numbers are preserved too.

    :raises TypeError: if a value is neither JSON nor an array. :raises ValueError: if the line is too long.
    """
    try:
        text = _encode_json(message)
    except TypeError:
        arrays: list[Any] = []
        plain = _without_arrays(message, [], arrays)
        text = _encode_json({**plain, _ARRAYS: arrays})
    data = text.encode()
    if len(data) >= LINE_LIMIT:
        raise ValueError(f"the message has {len(data):,} bytes; the limit is {LINE_LIMIT:,}")
    return data + b"\n"


_encode_json = json.JSONEncoder(separators=(",", ":")).encode


def _without_arrays(value: Any, path: list[str | int], arrays: list[Any]) -> Any:
    """Return a value with null for each array, which is added to ``arrays`` with its path."""
    if isinstance(value, Mapping):
        return {key: _without_arrays(member, [*path, key], arrays) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(member, [*path, place], arrays) for place, member in enumerate(value)]
    if not hasattr(value, "tobytes"):
        if value is None or isinstance(value, str | int | float):
            return value
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    if value.dtype.kind not in "fiu":
        raise TypeError(f"an array of {value.dtype} is not a JSON value")
    arrays.append([path, value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()])
    return None


def _insert_arrays(message: dict[str, Any]) -> None:
    import numpy as np

    for path, dtype, shape, data in message.pop(_ARRAYS):
        parent: Any = message
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = np.frombuffer(base64.b64decode(data), dtype=np.dtype(dtype)).reshape(shape)


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message, or None at the end of the stream.

    :raises ValueError: if the message is not JSON, or too long; the stream cannot be read any further.
    """
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    if not line.endswith(b"\n"):
        return None
    message: Any = parsed_json(line)
    if not isinstance(message, dict):
        raise ValueError("a message is not a JSON object")
    if _ARRAYS in message:
        _insert_arrays(message)
    return message


GONE = "the broker process ended; the summary says why, and llmprops run --resume RUN resumes the run"


class RemoteBroker:
    """Client of the broker's socket; connects at the first use. If the broker ends, its open requests are errors."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._ids = itertools.count()
        #: who waits for the answer to each message
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._lines: list[bytes] = []
        #: why there is no connection any more
        self._gone = GONE
        self.writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def _read(self) -> None:
        try:
            reader, self.writer = await asyncio.open_unix_connection(self._path, limit=LINE_LIMIT)
            self._flush()
            while (message := await read_message(reader)) is not None:
                if "closed" in message:
                    raise ValueError(message["closed"])
                future = self._open.pop(message["id"], None)
                if future is not None and not future.done():
                    future.set_result(message)
        except OSError:
            # The process has ended.
            pass
        except Exception as fault:
            self._gone = f"the connection to the broker process ended: {fault_text(fault)}; run again"
        finally:
            # Whatever ended the reader: a request without a reader would wait for ever.
            if self.writer is not None:
                self.writer.close()
                self.writer = None
            for future in self._open.values():
                if not future.done():
                    future.set_exception(BackendError(self._gone, kind="broker"))
            self._open.clear()

    async def send(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return the broker's answer.

        :raises BackendError: if the message cannot be sent, the broker answers with an error, or it has ended.
        :raises RunStopped: if the run is stopped.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        if self._reading.done():
            raise BackendError(self._gone, kind="broker")
        number = next(self._ids)
        try:
            line = encode_message({"id": number, **message})
        except (TypeError, ValueError, RecursionError) as fault:
            raise BackendError(f"the request cannot be sent: {fault_text(fault)}", kind="request") from None
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[number] = future
        self._write(line)
        answer: dict[str, Any] = await future
        if "error" in answer:
            raise BackendError.from_json(answer["error"])
        if "stopped" in answer:
            raise RunStopped(answer["stopped"])
        return answer

    def _write(self, line: bytes) -> None:
        """Write the messages of one iteration of the event loop together.

        The samples of a prompt then reach the broker at the same time, also on a busy machine.
        """
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(line)

    def _flush(self) -> None:
        # Without a connection so far, they are written when there is one.
        if self._lines and self.writer is not None:
            self.writer.write(b"".join(self._lines))
            self._lines.clear()

    async def ask(self, label: str, role: str, request: Request) -> Reply:
        """See :meth:`pytest_llmprops.engine.broker.local.LocalBroker.ask`."""
        answer = await self.send(
            {"op": "ask", "model": label, "role": role, "request": request_to_json(request)}
        )
        return Reply.from_json(answer["reply"], key=answer["key"], cached=answer["cached"])

    async def report(self) -> dict[str, Any]:
        """See :meth:`pytest_llmprops.engine.broker.local.LocalBroker.report`."""
        report: dict[str, Any] = (await self.send({"op": "report"}))["report"]
        return report

    async def trial(self, label: str, requests: Sequence[Request]) -> int:
        """See :meth:`pytest_llmprops.engine.broker.local.LocalBroker.trial`."""
        message = {"op": "trial", "model": label, "requests": [*map(request_to_json, requests)]}
        return int((await self.send(message))["thinking_tokens"])

    async def are_known(self, asked: Sequence[tuple[str, Request]]) -> list[bool]:
        """Return False for each: only the broker's process can tell."""
        return [False] * len(asked)

    def flush(self) -> None:
        """Do nothing: the broker's process writes its log before it answers."""

    async def stop(self, reason: str) -> None:
        """Stop the run for all clients."""
        await self.send({"op": "stop", "reason": reason})

    async def close(self) -> list[str]:
        """Close the connection."""
        self._flush()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        return []
