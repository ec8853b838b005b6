"""The broker process: ``python -m pytest_llmprops.engine.broker.server``.

Standard output is the socket that it serves. The first line of standard input is the configuration. The process ends
when standard input is closed, so it never outlives its controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from typing import Any

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.faults import fault_line, fault_text
from pytest_llmprops.core.requests import request_from_json
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.engine.broker.remote import LINE_LIMIT, encode_message, read_message
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.engine.event_loop import is_cancellation
from pytest_llmprops.records.files import from_text


class Server:
    """Serves one broker to any number of clients on a Unix socket."""

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()
        #: the answers that are ready, by connection
        self._answers: dict[asyncio.StreamWriter, list[bytes]] = {}

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; each message is answered as soon as its answer is known."""
        try:
            while (message := await read_message(reader)) is not None:
                if not isinstance(message.get("id"), int):
                    raise ValueError("a message has no id")
                task = asyncio.create_task(self._answer(message, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except Exception as fault:
            # The worker fails its open requests, instead of waiting for answers that cannot come.
            writer.write(encode_message({"closed": fault_text(fault)}))
        finally:
            writer.close()

    async def _answer(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._handle(message)
            line = encode_message({"id": message["id"], **answer})
        except BaseException as fault:
            if is_cancellation(fault):
                raise
            # A worker that gets no answer waits for ever.
            line = _failure(message["id"], fault)
        if not self._answers:
            # In the next iteration of the loop, so that all answers of this one share a call of the system.
            asyncio.get_running_loop().call_soon(self._deliver)
        self._answers.setdefault(writer, []).append(line)

    def _deliver(self) -> None:
        answers, self._answers = self._answers, {}
        try:
            # A verdict in the record names requests that the record has, also if the run is killed.
            self._broker.flush()
        finally:
            for writer, lines in answers.items():
                if not writer.is_closing():
                    writer.write(b"".join(lines))

    async def _handle(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["op"] == "ask":
            request = request_from_json(message["request"])
            reply = await self._broker.ask(message["model"], message["role"], request)
            return {"reply": reply.to_json(), "key": reply.key, "cached": reply.cached}
        if message["op"] == "trial":
            requests = [*map(request_from_json, message["requests"])]
            return {"thinking_tokens": await self._broker.trial(message["model"], requests)}
        if message["op"] == "report":
            return {"report": await self._broker.report()}
        if message["op"] == "stop":
            await self._broker.stop(message["reason"])
            return {}
        raise ValueError(f"unknown operation {message['op']!r}")


def _failure(number: int, fault: BaseException) -> bytes:
    """Return the answer to a message that failed."""
    if isinstance(fault, RunStopped):
        return encode_message({"id": number, "stopped": str(fault)})
    error = fault if isinstance(fault, BackendError) else BackendError(f"broker: {fault_line(fault)}")
    # A model may raise an error with values that are not JSON.
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        return encode_message({"id": number, "error": error.to_json()})
    return encode_message({"id": number, "error": BackendError(fault_text(fault)).to_json()})


async def run(config: BrokerConfig, served: socket.socket) -> None:
    """Serve until standard input is closed."""
    broker = LocalBroker(config)
    listening = await asyncio.start_unix_server(Server(broker).client, sock=served, limit=LINE_LIMIT)
    try:
        # Nothing follows the configuration: this ends when the controller closes the pipe, or ends.
        await asyncio.to_thread(sys.stdin.buffer.read)
    finally:
        listening.close()
        # The controller reads them when this process has ended.
        sys.stderr.writelines(f"{line}\n" for line in await broker.close())


def main() -> None:
    """Run the broker process."""
    # These may reach all processes of a run; the controller decides when the broker ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # As in a run without workers: imports make many objects that stay.
    gc.set_threshold(200_000, 20, 20)
    served = socket.socket(fileno=os.dup(1))
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
    line = sys.stdin.buffer.readline()
    asyncio.run(run(from_text(BrokerConfig, line.decode()), served))
    # The end of the process need not look for garbage.
    gc.freeze()


if __name__ == "__main__":
    main()
