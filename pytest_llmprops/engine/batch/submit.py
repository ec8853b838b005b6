"""Write the requests that wait into batches: first one call per shape of request, then their lines."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.batch.ledger import Entry, Ledger, account_of
from pytest_llmprops.engine.calls.calls import ActiveModel, Calls
from pytest_llmprops.engine.calls.queues import prompt_key
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.api.batches import BatchApi
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN, Price
from pytest_llmprops.models.spec import normalised_url


@dataclass(slots=True, eq=False)
class BatchedModel:
    """A model whose requests go into batches."""

    label: str
    served: ActiveModel
    api: BatchApi
    #: the price of a line; None if it is unknown
    price: Price | None = None
    #: the shapes of requests that the API has accepted
    accepted: set[object] = field(default_factory=set)

    @property
    def account(self) -> str:
        """The model's account in the ledger."""
        return account_of(self.served.model.identity)

    def lines(self, requests: Iterable[Pending]) -> list[list[Pending]]:
        """Divide requests into those that one line can ask for: the samples of a prompt."""
        together = self.served.together
        lines: dict[object, list[Pending]] = {}
        for one in requests:
            takes = together is not None and together.takes(one.request)
            lines.setdefault(prompt_key(one.request) if takes else one.key, []).append(one)
        most = together.most if together is not None else 1
        return [line[start : start + most] for line in lines.values() for start in range(0, len(line), most)]

    def cost(self, lines: Iterable[Sequence[Pending]]) -> float:
        """Return the estimated cost of lines in USD, like that of a plan; 0 if the price is unknown."""
        if self.price is None:
            return 0.0
        prompt = completion = 0.0
        for line in lines:
            request = line[0].request
            prompt += len(request.prompt) / CHARACTERS_PER_TOKEN
            completion += (request.max_tokens or 0) * len(line)
        return self.price.of_tokens(prompt, completion)


@dataclass(slots=True, eq=False)
class Pending:
    """A request that waits.

    :param mark: the open batch that it is in; None if it is in none.
    :param attempts: how often it was run without a usable result.
    """

    model: BatchedModel
    key: str
    request: Chat
    future: asyncio.Future[Reply]
    mark: str | None = None
    attempts: int = 0
    #: this run has counted it as sent
    is_own: bool = False


def _shape_of(line: Sequence[Pending]) -> object:
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


class Submitter:
    """Submits requests of one model at a time.

    :param settle: ends the wait for a request, with the reply to a call or with an error.
    """

    def __init__(
        self,
        config: BrokerConfig,
        calls: Calls,
        ledger: Ledger,
        settle: Callable[[Pending, Reply | BackendError], Awaitable[None]],
    ) -> None:
        self._config, self._calls, self._ledger, self._settle = config, calls, ledger, settle
        #: the marks of the batches of this run
        self.own: set[str] = set()
        #: creations in a row that failed for a reason that may pass
        self._failures = 0

    async def submit(self, model: BatchedModel, lines: list[list[Pending]]) -> bool:
        """Submit lines that are in no open batch, and return True if calls were made instead.

        :raises BackendError: if the provider refuses a batch. :raises RunStopped: if the run is stopped.
        """
        if await self._try_shapes(model, lines):
            return True
        most = self._ledger.most_lines(model.account)
        if most is not None:
            # The provider limits the tokens that wait in batches, so there is one batch at a time.
            if self._ledger.open_batches({model.account}):
                return False
            lines = lines[:most]
        while lines:
            lines = await self._batch(model, lines)
        return False

    async def _try_shapes(self, model: BatchedModel, lines: Sequence[list[Pending]]) -> bool:
        """Send lines of each new shape as calls until one succeeds; return True if there were any.

        A parameter that the API refuses is then known before a batch has it.
        """
        shapes: dict[object, list[list[Pending]]] = {}
        for line in lines:
            if (shape := _shape_of(line)) not in model.accepted:
                shapes.setdefault(shape, []).append(line)

        async def call(shape: object) -> None:
            for line in shapes[shape]:
                requests = [one.request for one in line]
                try:
                    replies = await self._calls.replies(model.label, model.served, requests)
                    if not replies:
                        # The server accepts fewer samples per call.
                        replies = await self._calls.replies(model.label, model.served, requests[:1])
                except BackendError as error:
                    for one in line:
                        await self._settle(one, error)
                else:
                    model.accepted.add(shape)
                    for one, reply in zip(line, replies, strict=False):
                        await self._settle(one, reply)
                    return

        await asyncio.gather(*map(call, shapes))
        return bool(shapes)

    async def _batch(self, model: BatchedModel, lines: Sequence[list[Pending]]) -> list[list[Pending]]:
        """Submit one batch of the first ``lines``, and return those that exceed its limits."""
        entry = self._entry(model)
        with self._ledger.draft(entry.mark) as file:
            taken, rest = await self._write(model, lines, file)
            if not taken:
                return rest
            self._calls.check_budget(len(taken))
            if not self._ledger.add(entry, {line[0].key: [one.key for one in line] for line in taken}):
                # Another run has just submitted some of them. The next look sees which.
                return []
            self.own.add(entry.mark)
            for one in (one for line in taken for one in line):
                one.mark, one.is_own = entry.mark, True
            await self._create(model, entry, file, len(taken))
        return rest

    async def _write(
        self, model: BatchedModel, lines: Sequence[list[Pending]], file: IO[bytes]
    ) -> tuple[list[list[Pending]], list[list[Pending]]]:
        """Write lines; return those that were written and those that exceed the limits of a batch."""
        taken: list[list[Pending]] = []
        size = 0
        for position, line in enumerate(lines):
            request = cast("Chat", model.served.thinking.request(line[0].request))
            try:
                text = model.api.line(line[0].key, request, len(line))
            except BackendError as error:
                for one in line:
                    await self._settle(one, error)
                continue
            if taken and (len(taken) == model.api.most_lines or size + len(text) > model.api.most_bytes):
                return taken, list(lines[position:])
            file.write(text)
            taken.append(line)
            size += len(text)
        return taken, []

    def _entry(self, model: BatchedModel) -> Entry:
        return Entry(
            mark=uuid.uuid4().hex,
            account=model.account,
            label=model.label,
            spec=self._config.models[model.label].text,
            # Without a password, which no file may have.
            base_url=normalised_url(url) if (url := self._config.calls.base_url) else "",
            created=time.time(),
            deviations=model.served.forced(),
            extra_tokens=model.served.thinking.extra,
        )

    async def _create(self, model: BatchedModel, entry: Entry, file: IO[bytes], lines: int) -> None:
        file.seek(0)
        try:
            state = await model.api.create(await model.api.upload(file), entry.mark)
        except BackendError as error:
            if not error.transient:
                self._ledger.end(entry.mark, "refused")
                raise
            # The provider may have created the batch. The next poll, or the next run, looks for it.
            self._failures += 1
            if self._failures > self._config.retries:
                text = f"{model.label}: no batch was created, {self._failures} times: {error.message}"
                raise self._calls.stop(text) from None
            return
        self._failures = 0
        self._ledger.submitted(entry.mark, state.id, state.status, state.expires)
        self._calls.counters.sent += lines
