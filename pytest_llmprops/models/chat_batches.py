"""What the batches of all providers share: answers are read as those of calls, at the price of a batch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Chat, Reply
from pytest_llmprops.models import errors
from pytest_llmprops.models.api import ApiCalls
from pytest_llmprops.models.deviations import chat_body
from pytest_llmprops.models.replies import spent_on_reasoning

T = TypeVar("T")
#: seconds to wait for a part of a file of up to 200 MB
FILE_SECONDS = 600.0
#: batches per page of a list
PER_PAGE = 100


class ChatBatches:
    """A part of :class:`~pytest_llmprops.models.batches.BatchApi`, for answers in OpenAI's chat format.

    :param client: an SDK's client. :param calls: the model's calls, whose deviations the lines share.
    """

    def __init__(self, client: Any, calls: ApiCalls) -> None:
        self._client, self._calls = client, calls

    def _body(self, request: Chat, count: int) -> dict[str, Any]:
        """Return the body of a line in OpenAI's chat format.

        :raises BackendError: if ``--llm-param`` names a parameter that the plugin sets.
        """
        try:
            return self._calls.deviations.apply(chat_body(self._calls.name, request, count))
        except UsageError as error:
            raise BackendError(str(error), kind="request", fatal=True) from None

    async def _result(self, call: Awaitable[T]) -> T:
        """Return the result of a call.

        :raises BackendError: in place of the SDK's exceptions.
        """
        try:
            return await call
        except BackendError:
            raise
        except Exception as error:
            calls = self._calls
            raise errors.from_exception(error, url=calls.url, model=calls.name, hidden=calls.hidden) from None

    async def _lines(self, opened: Any) -> AsyncIterator[str]:
        """Yield the lines of a response that an SDK streams, without holding it in memory.

        The SDKs' own functions also split at characters such as U+2028 inside a JSON string.
        """
        content = await self._result(opened.__aenter__())
        try:
            parts, rest = content.iter_bytes(), b""
            while (part := await self._result(anext(parts, None))) is not None:
                *whole, rest = (rest + part).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
            if rest:
                yield rest.decode("utf-8", "replace")
        finally:
            await opened.__aexit__(None, None, None)

    def replies(self, answer: Mapping[str, Any], count: int) -> Sequence[Reply] | BackendError:
        """Return the replies in an answer, at the price of a batch."""
        calls = self._calls
        price = None if calls.price is None else calls.price.scaled(BATCH_DISCOUNT)
        return calls.read(answer, count, price, 0.0)

    @property
    def extra_tokens(self) -> int:
        """The tokens added to each request's limit."""
        return self._calls.deviations.extra_tokens

    def lacks_tokens(self, answer: Mapping[str, Any], extra_tokens: int) -> bool:
        """Return whether a reasoning model reached the limit before its first visible word, for the first time."""
        if not spent_on_reasoning(answer):
            return False
        return self._calls.deviations.raise_budget({"max_tokens": None}, extra_tokens)


def encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line of a batch with its newline.

    :raises BackendError: if a text cannot be encoded.
    """
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        raise BackendError("the prompt has characters that UTF-8 cannot encode", kind="request") from None
