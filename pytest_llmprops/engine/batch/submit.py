"""Write the requests of a model that wait into batches: first one call per shape of request, then their lines."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
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

    :param mark: the open batch that it is in; None if it is in none.
    :param attempts: how often it was run without a usable result.
    """

    key: str
    request: Chat
    future: asyncio.Future[Reply]
    mark: str | None = None
    attempts: int = 0


Line = list[Pending]


def _shape_of(line: Line) -> object:
    """Return what an API may refuse in a line, except its texts and the size of its limits."""
    one = line[0].request
    features = (
        one.max_tokens is None,
        bool(one.stop),
        bool(one.logprobs),
        len(line) > 1,
        one.response_format,
    )
    roles = sum(message.role == "system" for message in one.messages)
    return one.temperature, features, roles, repr(one.extra)


@dataclass(slots=True, eq=False)
class BatchedModel:
    """A model, its requests that wait, and how they are submitted.

    :param account: the identity of the model, as JSON. :param changed: set when a request comes or ends.
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

    def add(self, key: str, request: Chat) -> asyncio.Future[Reply]:
        """Let a request wait, and return the future of its reply."""
        one = self.pending[key] = Pending(key, request, asyncio.get_running_loop().create_future())
        self.changed.set()
        return one.future

    async def settle(self, one: Pending, result: Reply | BackendError) -> None:
        """End the wait for a request; a reply is stored first."""
        if isinstance(result, Reply):
            result = await self.keep(self.served, one.key, result)
        self.end(one, result)

    def end(self, one: Pending, result: Reply | Exception) -> None:
        """End the wait for a request with a reply that is stored, or with an error."""
        self.changed.set()
        self.pending.pop(one.key, None)
        if one.future.done():
            return
        if isinstance(result, Reply):
            one.future.set_result(result)
        else:
            one.future.set_exception(result)

    def unsent(self) -> list[Line]:
        """Return the lines of the requests that are in no open batch."""
        waiting = [one for one in self.pending.values() if one.mark is None]
        owners = self.ledger.owners(one.key for one in waiting)
        for one in waiting:
            one.mark = owners.get(one.key)
        return self._lines(one for one in waiting if one.mark is None)

    def open_cost(self) -> float:
        """Return the estimated cost of the requests that are in open batches, in USD."""
        return self.cost(self._lines(one for one in self.pending.values() if one.mark is not None))

    def _lines(self, requests: Iterable[Pending]) -> list[Line]:
        """Divide requests into those that one line can ask for: the samples of a prompt."""
        together = self.served.together
        lines: dict[object, Line] = {}
        for one in requests:
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

        :raises BackendError: if the provider refuses a batch. :raises RunStopped: if the run is stopped.
        """
        if await self._try_shapes(lines):
            return True
        most = self.ledger.most_lines(self.account)
        if most is not None:
            # The provider limits the tokens that wait in batches, so there is one batch at a time.
            if self.ledger.open_batches({self.account}):
                return False
            lines = lines[:most]
        while lines:
            lines = await self._batch(lines)
        return False

    async def _try_shapes(self, lines: Sequence[Line]) -> bool:
        """Send lines of each new shape as calls until one succeeds; return True if there were any.

        A parameter that the API refuses is then known before a batch has it.
        """
        shapes: dict[object, list[Line]] = {}
        for line in lines:
            if (shape := _shape_of(line)) not in self.accepted:
                shapes.setdefault(shape, []).append(line)

        async def call(shape: object) -> None:
            for line in shapes[shape]:
                requests = [one.request for one in line]
                try:
                    replies = await self.calls.replies(self.served, requests)
                    if not replies:
                        # The server accepts fewer samples per call.
                        replies = await self.calls.replies(self.served, requests[:1])
                except BackendError as error:
                    for one in line:
                        self.end(one, error)
                else:
                    self.accepted.add(shape)
                    for one, reply in zip(line, replies, strict=False):
                        await self.settle(one, reply)
                    return

        await asyncio.gather(*map(call, shapes))
        return bool(shapes)

    async def _batch(self, lines: list[Line]) -> list[Line]:
        """Submit one batch of the first ``lines``, and return those that exceed its limits."""
        with tempfile.TemporaryFile(dir=self.ledger.path.parent) as file:
            taken, rest = self._write(lines, file)
            if taken:
                self.calls.check_budget(len(taken))
                entry = self._entry()
                self.ledger.add(entry, {line[0].key: [one.key for one in line] for line in taken})
                self.own.add(entry.mark)
                for one in (one for line in taken for one in line):
                    one.mark = entry.mark
                await self._create(entry, file, len(taken))
        return rest

    def _write(self, lines: list[Line], file: IO[bytes]) -> tuple[list[Line], list[Line]]:
        """Write lines; return those that were written and those that exceed the limits of a batch."""
        taken: list[Line] = []
        size = 0
        for position, line in enumerate(lines):
            request = cast("Chat", self.served.thinking.request(line[0].request))
            try:
                text = self.api.line(line[0].key, request, len(line))
            except BackendError as error:
                for one in line:
                    self.end(one, error)
                continue
            if taken and (len(taken) == self.api.most_lines or size + len(text) > self.api.most_bytes):
                return taken, lines[position:]
            file.write(text)
            taken.append(line)
            size += len(text)
        return taken, []

    def _entry(self) -> Entry:
        return Entry(
            mark=uuid.uuid4().hex,
            account=self.account,
            label=self.served.label,
            spec=self.config.models[self.served.label].text,
            # Without a password, which no file may have.
            base_url=normalised_url(url) if (url := self.config.calls.base_url) else "",
            created=time.time(),
            deviations=self.served.forced(),
            extra_tokens=self.served.thinking.extra,
        )

    async def _create(self, entry: Entry, file: IO[bytes], lines: int) -> None:
        file.seek(0)
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
