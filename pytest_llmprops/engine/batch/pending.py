"""Requests that wait for a reply from a batch."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.batch.ledger import account_of
from pytest_llmprops.engine.calls import Served
from pytest_llmprops.engine.planning import CHARACTERS_PER_TOKEN
from pytest_llmprops.engine.samples import prompt_key
from pytest_llmprops.models.batches import BatchApi
from pytest_llmprops.models.prices import Price


@dataclass(slots=True, eq=False)
class Pending:
    """A request that waits.

    :param mark: the open batch that it is in; None if it is in none.
    :param attempts: how often it was run without a usable result.
    """

    lane: Lane
    key: str
    request: Chat
    future: asyncio.Future[Reply]
    mark: str | None = None
    attempts: int = 0


@dataclass(slots=True, eq=False)
class Lane:
    """A model whose requests go into batches."""

    label: str
    served: Served
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


class Waiting:
    """All requests that wait, by key, and how many askers wait for each."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._askers: Counter[str] = Counter()
        #: number of askers that wait
        self.askers = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[Pending]:
        return iter(list(self._pending.values()))

    def get(self, key: str) -> Pending | None:
        """Return the request with this key; None if it does not wait."""
        return self._pending.get(key)

    @property
    def is_complete(self) -> bool:
        """Whether every request that an asker waits for was added."""
        return len(self._askers) == len(self._pending)

    def join(self, key: str) -> None:
        """Count one more asker that waits for ``key``."""
        self._askers[key] += 1
        self.askers += 1

    def add(self, pending: Pending) -> None:
        """Add a request."""
        self._pending[pending.key] = pending

    def settle(self, pending: Pending, result: Reply | Exception) -> None:
        """End the wait for a request."""
        if self._pending.pop(pending.key, None) is None:
            return
        self.askers -= self._askers.pop(pending.key, 0)
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
                unsent.setdefault(one.lane.label, []).append(one)
        return unsent

    def open_cost(self) -> float:
        """Return the estimated cost in USD of the requests that wait for open batches."""
        lanes: dict[Lane, list[Pending]] = {}
        for one in self._pending.values():
            if one.mark is not None:
                lanes.setdefault(one.lane, []).append(one)
        return sum(lane.cost(lane.groups(members)) for lane, members in lanes.items())

    def mark(self, owners: Mapping[str, str]) -> None:
        """Note which requests are in which batch, by key."""
        for key, mark in owners.items():
            if key in self._pending:
                self._pending[key].mark = mark
