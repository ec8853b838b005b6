"""The interface of a provider's batch protocol: requests in a file, answered within a day at half the price.

``models/api/openai.py`` implements it for OpenAI's files and batches, and ``models/api/anthropic.py`` for
Anthropic's Message Batches. Another protocol needs a class with these methods, and ``batches`` in its
:class:`~pytest_llmprops.models.registry.Backend`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Chat, Price, Reply
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.client import ApiModel
from pytest_llmprops.models.api.deviations import chat_body
from pytest_llmprops.models.api.http import HttpClient

#: batches per page of a list
PER_PAGE = 100


def encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line of a batch with its newline.

    :raises BackendError: if a text cannot be encoded.
    """
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        raise BackendError("the prompt has characters that UTF-8 cannot encode", kind="request") from None


Status = Literal[
    "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
]
_OVER = ("completed", "failed", "expired", "cancelled")
#: a batch may be older than its intent by the clocks of two machines, in seconds
CLOCKS = 3600.0


@dataclass(frozen=True, slots=True)
class BatchState:
    """What a provider says about a batch.

    :param mark: the text under which it was created, see :meth:`BatchApi.create`; empty if there is none.
    :param lines: number of its lines; 0 until it is known. :param done: those with a result.
    :param expires: Unix time at which its open lines are given up; 0 if it is unknown.
    :param code: for a failed batch, the provider's code of the first problem. :param problem: all of them, one line.
    """

    id: str
    status: Status
    mark: str = ""
    output_file: str | None = None
    error_file: str | None = None
    lines: int = 0
    done: int = 0
    expires: float = 0.0
    code: str = ""
    problem: str = ""

    @property
    def is_over(self) -> bool:
        """True if the provider will not change it any more."""
        return self.status in _OVER

    @property
    def is_too_large(self) -> bool:
        """True if it was refused because too many tokens wait in batches; nothing of it was run."""
        return self.status == "failed" and "token_limit_exceeded" in self.code


#: The answer to the request of a line, or why there is none; None if a content filter refused the prompt.
Answer = Mapping[str, Any] | BackendError | None
#: the answer to a line that the batch ended before
NOT_RUN = BackendError("the batch ended before this line", kind="batch", transient=True)


class BatchApi:
    """A model's batches. Every coroutine raises :class:`BackendError` if its call fails.

    :param client: of the provider. :param calls: the model's calls, whose deviations the lines share.
    """

    #: maximum number of lines and bytes of one batch
    most_lines: int
    most_bytes: int

    def __init__(self, client: HttpClient, calls: ApiModel) -> None:
        self._client, self._calls = client, calls

    def _body(self, request: Chat, count: int) -> dict[str, Any]:
        """Return the body of a line in OpenAI's chat format."""
        try:
            return self._calls.forced.apply(chat_body(self._calls.name, request, count))
        except UsageError as error:
            raise BackendError(str(error), kind="request", fatal=True) from None

    async def _object(self, call: Awaitable[tuple[bytes, Mapping[str, str]]]) -> Mapping[str, Any]:
        """Return the object in the answer to a call."""
        calls = self._calls
        try:
            answer = calls.parsed(*await call)
        except Exception as error:
            raise errors.from_exception(error, url=calls.url, model=calls.name) from None
        if isinstance(answer, BackendError):
            raise answer
        return answer

    async def _listed(self, path: str, after: str) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the objects of a list, page by page.

        :param after: the name of the parameter with the id of the last one of the page before.
        """
        query: dict[str, str | int] = {"limit": PER_PAGE}
        while True:
            page = await self._object(self._client.request("GET", path, query=query))
            listed = objects(page, "data")
            for one in listed:
                yield one
            if not (page.get("has_more") and listed):
                return
            query = {"limit": PER_PAGE, after: str(listed[-1].get("id"))}

    async def _lines(self, path: str) -> AsyncGenerator[str]:
        """Yield the lines of a file of the provider."""
        calls = self._calls
        try:
            async for line in self._client.lines(path):
                yield line
        except Exception as error:
            raise errors.from_exception(error, url=calls.url, model=calls.name) from None

    def read(self, line: str) -> tuple[str, Answer] | None:
        """Return the custom id and the answer in a line; None if it cannot be read."""
        try:
            data = parsed_json(line)
        except ValueError:
            return None
        custom_id = data.get("custom_id") if isinstance(data, dict) else None
        return (custom_id, self._answer_of(data)) if isinstance(custom_id, str) else None

    def _unknown(self, batch: Any, status: Any) -> BackendError:
        """Return the error for a batch without an id, or with a status that is none."""
        text = f"{self._calls.url}: the batch {batch} has the unknown status '{status}'"
        return BackendError(errors.clean(text), kind="response")

    def _refused(self, status: int, body: Any) -> BackendError | None:
        """Return the answer in a line that has the error of a call with this status."""
        if errors.is_filtered(status, body):
            return None
        calls = self._calls
        return errors.from_status(status, {}, body, url=calls.url, model=calls.name)

    @property
    def price(self) -> Price | None:
        """The price of a line; None if it is unknown."""
        return None if self._calls.price is None else self._calls.price.scaled(BATCH_DISCOUNT)

    def replies(self, answer: Answer, count: int) -> Sequence[Reply] | BackendError:
        """Return the first ``count`` replies of an answer, or fewer if it has fewer."""
        if answer is None:
            return [Reply(finish_reason="content_filter", cost_usd=0.0)] * count
        if isinstance(answer, BackendError):
            return answer
        return self._calls.read(answer, count, self.price, 0.0)

    # A provider has a subclass with these methods.

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        """Return the line that asks for ``count`` replies to ``request``, with its newline.

        :raises BackendError: if the request cannot be sent.
        """
        raise NotImplementedError

    async def create(self, lines: IO[bytes], mark: str) -> BatchState:
        """Create a batch of these lines that :meth:`find` recognises, by ``mark`` if the provider keeps it."""
        raise NotImplementedError

    async def find(
        self, mark: str, created: float, custom_ids: Collection[str], known: Collection[str]
    ) -> BatchState | None:
        """Return a batch that may have been created by a process that was killed; None if it was not.

        :param mark: see :meth:`create`. :param created: Unix time before its creation.
        :param known: the ids of other batches.
        """
        raise NotImplementedError

    async def state(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        raise NotImplementedError

    async def cancel(self, batch: str) -> BatchState:
        """Cancel a batch; lines that were already run are paid for."""
        raise NotImplementedError

    def lines(self, file: str) -> AsyncGenerator[str]:
        """Yield the lines of a result file."""
        raise NotImplementedError

    def _answer_of(self, data: Mapping[str, Any]) -> Answer:
        raise NotImplementedError


def objects(values: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of a server's object; none if it is missing."""
    found = values.get(name) if isinstance(values, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def number(values: Any, name: str) -> float:
    """Return a number of a server's object; 0 if it is missing."""
    value = values.get(name) if isinstance(values, Mapping) else None
    return float(value) if isinstance(value, int | float) else 0.0
