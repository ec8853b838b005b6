"""Lines of batches that wait for their results, and the results that come back."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.reasoning import answer_of, is_cut
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.batch.ledger import Entry, Ledger, account_of
from pytest_llmprops.engine.calls import ActiveModel
from pytest_llmprops.engine.queues import prompt_key
from pytest_llmprops.models.api.batches import BatchApi, BatchState, LineResult
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN, Price

# Read the results of a batch that is over: replies, failed lines, and lines that were not run.

#: replies that are stored together
CHUNK = 500
VIA = "batch"


class Sink(Protocol):
    """Takes the results of a batch."""

    async def answered(self, entry: Entry, replies: Sequence[tuple[str, Reply]]) -> None:
        """Store the replies, by key."""
        ...

    def failed(self, entry: Entry, keys: Sequence[str], error: BackendError) -> None:
        """Take a request that the provider refused."""
        ...

    def discarded(self, entry: Entry, replies: Sequence[Reply]) -> None:
        """Take replies that are paid for and not used."""
        ...

    def cut(self, entry: Entry, keys: Sequence[str]) -> None:
        """Take requests whose replies their limit cut before any answer."""
        ...

    def left(self, entry: Entry, keys: Sequence[str], reason: str, *, was_run: bool) -> None:
        """Take requests without a usable result, which another batch may ask again.

        :param was_run: False if the batch ended before them.
        """
        ...


async def collect(api: BatchApi, ledger: Ledger, entry: Entry, state: BatchState, sink: Sink) -> list[str]:
    """Pass the results of a batch to ``sink``, end it in the ledger, and return notes on damaged result files.

    A killed process may have collected a part; the same replies are then stored again.

    :raises BackendError: if a result file cannot be read; the batch then stays open.
    """
    reading = _Reading(api, entry, sink, ledger.members(entry.mark))
    for file in (state.output_file, state.error_file):
        if file is not None:
            async for line in api.lines(file):
                await reading.add(line)
    await reading.finish(state)
    ledger.end(entry.mark, state.status)
    return reading.notes(state)


class _Reading:
    """The lines of a batch's result files so far, in any order."""

    def __init__(self, api: BatchApi, entry: Entry, sink: Sink, members: dict[str, list[str]]) -> None:
        self._api, self._entry, self._sink = api, entry, sink
        self._members = members
        self._done: set[str] = set()
        self._errors: dict[str, BackendError] = {}
        self._chunk: list[tuple[str, Reply]] = []
        self._unreadable = self._unknown = self._repeated = 0

    async def add(self, line: str) -> None:
        """Take one line."""
        result = self._api.read(line)
        if result is None:
            self._unreadable += bool(line.strip())
        elif result.custom_id not in self._members:
            self._unknown += 1
        elif result.custom_id in self._done:
            self._repeated += 1
        elif result.was_run:
            await self._take(result)

    async def _take(self, result: LineResult) -> None:
        custom_id, keys = result.custom_id, self._members[result.custom_id]
        replies: Sequence[Reply] | BackendError
        if result.is_filtered:
            replies = [Reply(finish_reason="content_filter", cost_usd=0.0)] * len(keys)
        elif result.answer is None:
            assert result.error is not None
            replies = result.error
        else:
            replies = self._api.replies(result.answer, len(keys))
        if not isinstance(replies, BackendError):
            answers = [answer_of(reply) for reply in replies]
            if any(is_cut(reply, parts) for reply, parts in answers):
                self._discard(replies)
                self._sink.cut(self._entry, keys)
                self._done.add(custom_id)
                return
            replies = [reply for reply, _ in answers]
        if isinstance(replies, BackendError):
            if replies.billed is not None:
                self._discard([replies.billed])
            self._errors[custom_id] = replies
            return
        self._done.add(custom_id)
        made = (
            dataclasses.replace(reply, via=VIA, deviations=self._entry.deviations, key=key)
            for key, reply in zip(keys, replies, strict=False)
        )
        self._chunk += ((reply.key, reply) for reply in made)
        if len(replies) < len(keys):
            reason = "the server returned fewer samples than requested"
            self._sink.left(self._entry, keys[len(replies) :], reason, was_run=True)
        if len(self._chunk) >= CHUNK:
            await self._store()

    def _discard(self, replies: Sequence[Reply]) -> None:
        self._sink.discarded(self._entry, [dataclasses.replace(reply, via=VIA) for reply in replies])

    async def _store(self) -> None:
        await self._sink.answered(self._entry, self._chunk)
        self._chunk = []

    async def finish(self, state: BatchState) -> None:
        """Pass on the last replies, then the failed lines and those without a result."""
        await self._store()
        for custom_id, keys in self._members.items():
            if custom_id in self._done:
                continue
            error = self._errors.get(custom_id)
            if error is None:
                reason = f"the batch is {state.status} without a result for this request"
                self._sink.left(self._entry, keys, reason, was_run=state.status == "completed")
            elif error.transient:
                self._sink.left(self._entry, keys, error.message, was_run=True)
            else:
                self._sink.failed(self._entry, keys, error)

    def notes(self, state: BatchState) -> list[str]:
        """Return one line if the files had lines that cannot be used."""
        ignored = ignored_lines(unreadable=self._unreadable, unknown=self._unknown, repeated=self._repeated)
        return [f"batch {state.id}: {ignored}"] if ignored else []


def ignored_lines(*, unreadable: int, unknown: int, repeated: int = 0, failed: int = 0) -> str:
    """Return how many lines of result files were ignored, and why; empty if none were."""
    problems = [
        f"{count} {what}"
        for count, what in (
            (unreadable, "unreadable"),
            (unknown, "with an unknown custom_id"),
            (repeated, "repeated"),
            (failed, "without a reply"),
        )
        if count
    ]
    return f"lines were ignored: {', '.join(problems)}" if problems else ""


@dataclass(slots=True, eq=False)
class Pending:
    """A request that waits.

    :param mark: the open batch that it is in; None if it is in none.
    :param attempts: how often it was run without a usable result.
    """

    batched: BatchedModel
    key: str
    request: Chat
    future: asyncio.Future[Reply]
    mark: str | None = None
    attempts: int = 0


@dataclass(slots=True, eq=False)
class BatchedModel:
    """A model whose requests go into batches."""

    label: str
    served: ActiveModel
    api: BatchApi
    #: the price of a line; None if it is unknown
    price: Price | None = None
    #: the shapes of requests that the API has accepted
    accepted: set[str] = field(default_factory=set)

    @property
    def account(self) -> str:
        """The model's account in the ledger."""
        return account_of(self.served.model.identity)

    def groups(self, members: Iterable[Pending]) -> list[list[Pending]]:
        """Divide requests into those that one line can ask for: the samples of a prompt."""
        together = self.served.together
        groups: dict[object, list[Pending]] = {}
        for one in members:
            takes = together is not None and together.takes(one.request)
            groups.setdefault(prompt_key(one.request) if takes else one.key, []).append(one)
        most = together.most if together is not None else 1
        return [
            group[start : start + most] for group in groups.values() for start in range(0, len(group), most)
        ]

    def cost(self, groups: Iterable[Sequence[Pending]]) -> float:
        """Return the estimated cost of lines in USD, like that of a plan; 0 if the price is unknown."""
        if self.price is None:
            return 0.0
        prompt = completion = 0.0
        for group in groups:
            request = group[0].request
            prompt += len(request.prompt) / CHARACTERS_PER_TOKEN
            completion += (request.max_tokens or 0) * len(group)
        return self.price.of_tokens(prompt, completion)


def shape_of(group: list[Pending]) -> str:
    """Return what an API may refuse in a line, except its texts and the size of its limits."""
    request = group[0].request
    return json.dumps(
        [
            request.temperature,
            request.max_tokens is None,
            bool(request.stop),
            bool(request.logprobs),
            len(group) > 1,
            [message.role for message in request.messages if message.role == "system"],
            repr(request.extra),
        ]
    )


class PendingRequests:
    """All requests that wait, by key, and how many clients wait for each."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._clients: Counter[str] = Counter()
        #: number of clients that wait
        self.clients = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[Pending]:
        return iter(list(self._pending.values()))

    def get(self, key: str) -> Pending | None:
        """Return the request with this key; None if it does not wait."""
        return self._pending.get(key)

    @property
    def is_complete(self) -> bool:
        """True if every request that an client waits for was added."""
        return len(self._clients) == len(self._pending)

    def join(self, key: str) -> None:
        """Count one more client that waits for ``key``."""
        self._clients[key] += 1
        self.clients += 1

    def add(self, pending: Pending) -> None:
        """Add a request."""
        self._pending[pending.key] = pending

    def settle(self, pending: Pending, result: Reply | Exception) -> None:
        """End the wait for a request."""
        if self._pending.pop(pending.key, None) is None:
            return
        self.clients -= self._clients.pop(pending.key, 0)
        if pending.future.done():
            return
        if isinstance(result, Exception):
            pending.future.set_exception(result)
        else:
            pending.future.set_result(result)

    def unsent(self) -> dict[str, list[Pending]]:
        """Return the requests that are in no batch, by the model's label."""
        unsent: dict[str, list[Pending]] = {}
        for one in self._pending.values():
            if one.mark is None:
                unsent.setdefault(one.batched.label, []).append(one)
        return unsent

    def open_cost(self) -> float:
        """Return the estimated cost in USD of the requests that wait for open batches."""
        by_model: dict[BatchedModel, list[Pending]] = {}
        for one in self._pending.values():
            if one.mark is not None:
                by_model.setdefault(one.batched, []).append(one)
        return sum(batched.cost(batched.groups(members)) for batched, members in by_model.items())

    def mark(self, owners: Mapping[str, str]) -> None:
        """Note which requests are in which batch, by key."""
        for key, mark in owners.items():
            if key in self._pending:
                self._pending[key].mark = mark
