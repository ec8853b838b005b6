"""Write the requests of a model that wait into batches: first one call per shape of request, then their lines."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, cast

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.engine.batch.ledger import Entry, Ledger
from pytest_llmprops.engine.calls.calls import ActiveModel, Calls
from pytest_llmprops.engine.calls.queues import prompt_key
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.api.batches import BatchApi
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN
from pytest_llmprops.models.spec import normalised_url

#: stores and counts a reply of a model, and returns it as the broker answers it
Keep = Callable[[ActiveModel, str, Reply], Awaitable[Reply]]


@dataclass(slots=True, eq=False)
class Pending:
    """A request that waits.

    :param served: the model with the label that it was sent to. :param attempts: runs without a usable result.
    """

    served: ActiveModel
    key: str
    request: Chat
    future: asyncio.Future[Reply]
    attempts: int = 0


Line = list[Pending]


def _shape_of(line: Line) -> object:
    """Return what an API may refuse in a line, except its texts and the size of its limits."""
    one = line[0].request
    features = (one.max_tokens is None, bool(one.stop), bool(one.logprobs), len(line) > 1)
    roles = sum(message.role == "system" for message in one.messages)
    return one.temperature, one.response_format, features, roles, repr(one.extra)


@dataclass(slots=True, eq=False)
class BatchedModel:
    """A model, its requests that wait, and how they are submitted.

    :param account: the identity of the model, as JSON. :param served: the model, with its first label.
    :param changed: set when a request comes or ends.
    """

    account: str
    served: ActiveModel
    api: BatchApi
    config: BrokerConfig
    calls: Calls
    ledger: Ledger
    keep: Keep
    changed: asyncio.Event
    #: the requests that wait, by key
    pending: dict[str, Pending] = field(default_factory=dict)
    #: the marks of the batches that this run has submitted
    own: set[str] = field(default_factory=set)
    #: the shapes of requests that the API has accepted
    accepted: set[object] = field(default_factory=set)
    #: creations in a row that failed for a reason that may pass
    failures: int = 0

    def add(self, served: ActiveModel, key: str, request: Chat) -> asyncio.Future[Reply]:
        """Let a request wait, and return the future of its reply."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.pending[key] = Pending(served, key, request, future)
        self.changed.set()
        return future

    async def settle(self, one: Pending, reply: Reply) -> None:
        """Store the reply to a request, and end its wait."""
        self.end(one.key, await self.keep(one.served, one.key, reply))

    def end(self, key: str, result: Reply | Exception) -> None:
        """End the wait for a request with a reply that is stored, or with an error."""
        self.changed.set()
        one = self.pending.pop(key, None)
        if one is None or one.future.done():
            return
        if isinstance(result, Reply):
            one.future.set_result(result)
        else:
            one.future.set_exception(result)

    def lines(self, *, are_open: bool) -> list[Line]:
        """Return the requests that are in open batches, or else those in none, as lines.

        A line asks for the samples of a prompt, as many as the server accepts.
        """
        open_keys, together = self.ledger.open_keys(self.pending), self.served.together
        lines: dict[object, Line] = {}
        for one in self.pending.values():
            if (one.key in open_keys) == are_open:
                takes = together is not None and together.takes(one.request)
                lines.setdefault(prompt_key(one.request) if takes else one.key, []).append(one)
        most = together.most if together is not None else 1
        return [line[start : start + most] for line in lines.values() for start in range(0, len(line), most)]

    def cost(self, lines: Iterable[Line]) -> float:
        """Return the estimated cost of lines in USD, like that of a plan; 0 if the price is unknown."""
        if self.api.price is None:
            return 0.0
        characters = completion = 0
        for line in lines:
            request = line[0].request
            characters += len(request.prompt)
            completion += (request.max_tokens or 0) * len(line)
        return self.api.price.of(Usage(round(characters / CHARACTERS_PER_TOKEN), completion))

    async def submit(self, lines: list[Line]) -> bool:
        """Submit lines, and return True if calls were made instead.

        A line of each new shape is a call first: what the API refuses is then known before a batch has it.

        :raises BackendError: if the provider refuses a batch. :raises RunStopped: if the run is stopped.
        """
        has_called = False
        while firsts := {
            shape: line for line in reversed(lines) if (shape := _shape_of(line)) not in self.accepted
        }:
            await asyncio.gather(*(self._call(shape, line) for shape, line in firsts.items()))
            lines = [line for line in lines if line[0].key in self.pending]
            has_called = True
        if has_called:
            return True
        most = self.ledger.most_lines(self.account)
        if most is not None:
            # The provider limits the tokens that wait in batches, so there is one batch at a time.
            if self.ledger.open_batches([self.account]):
                return False
            lines = lines[:most]
        while lines:
            lines = await self._batch(lines)
        return False

    async def _call(self, shape: object, line: Line) -> None:
        """Send a line as a call; its shape is accepted if the call succeeds."""
        requests = [one.request for one in line]
        try:
            # The server may accept fewer samples per call, and then returns none.
            replies = await self.calls.replies(self.served, requests)
            replies = replies or await self.calls.replies(self.served, requests[:1])
        except BackendError as error:
            for one in line:
                self.end(one.key, error)
        else:
            self.accepted.add(shape)
            for one, reply in zip(line, replies, strict=False):
                await self.settle(one, reply)

    async def _batch(self, lines: list[Line]) -> list[Line]:
        """Submit one batch of the first ``lines``, and return those that exceed its limits."""
        with tempfile.TemporaryFile(dir=self.ledger.path.parent) as file:
            taken, rest = self._write(lines, file)
            if taken:
                self.calls.check_budget(len(taken))
                url = self.config.calls.base_url
                entry = Entry(
                    mark=uuid.uuid4().hex,
                    account=self.account,
                    label=self.served.label,
                    spec=self.config.models[self.served.label].text,
                    # Without a password, which no file may have.
                    base_url=normalised_url(url) if url else "",
                    created=time.time(),
                    deviations=self.served.forced(),
                    extra_tokens=self.served.thinking.extra,
                )
                self.ledger.add(entry, {line[0].key: [one.key for one in line] for line in taken})
                self.own.add(entry.mark)
                file.seek(0)
                await self._create(entry, file, len(taken))
        return rest

    def _write(self, lines: list[Line], file: IO[bytes]) -> tuple[list[Line], list[Line]]:
        """Write lines; return those that were written and those that exceed the limits of a batch."""
        taken: list[Line] = []
        for position, line in enumerate(lines):
            request = cast("Chat", self.served.thinking.request(line[0].request))
            try:
                text = self.api.line(line[0].key, request, len(line))
            except BackendError as error:
                for one in line:
                    self.end(one.key, error)
                continue
            size = file.tell() + len(text)
            if taken and (len(taken) == self.api.most_lines or size > self.api.most_bytes):
                return taken, lines[position:]
            file.write(text)
            taken.append(line)
        return taken, []

    async def _create(self, entry: Entry, file: IO[bytes], lines: int) -> None:
        try:
            state = await self.api.create(file, entry.mark)
        except BackendError as error:
            if not error.transient:
                self.ledger.end(entry.mark, "refused")
                raise
            # The provider may have created the batch. The next poll, or the next run, looks for it.
            self.failures += 1
            if self.failures > self.config.retries:
                text = f"{self.served.label}: no batch was created, {self.failures} times: {error.message}"
                raise self.calls.stop(text) from None
            return
        self.failures = 0
        self.ledger.submitted(entry.mark, state)
        self.calls.counters.sent += lines
