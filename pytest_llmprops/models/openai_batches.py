"""Batches through OpenAI's files and batches, as the official SDK sends them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from typing import IO, Any, TypeVar, get_args

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Chat, Reply
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models import errors
from pytest_llmprops.models.api import ApiCalls
from pytest_llmprops.models.batches import CLOCKS, BatchState, Intent, LineResult, Status, split_lines
from pytest_llmprops.models.deviations import chat_body
from pytest_llmprops.models.replies import spent_on_reasoning

T = TypeVar("T")
ENDPOINT = "/v1/chat/completions"
#: the key of the mark in a batch's metadata
MARK = "llmprops"
#: seconds to wait for a part of a file of up to 200 MB
_FILE_SECONDS = 600.0
#: batches per page of a list
_PAGE = 100
#: codes of lines that were not run
_NOT_RUN = ("batch_expired", "batch_cancelled")


class OpenAIBatches:
    """The batches of one model.

    :param client: an ``openai.AsyncOpenAI``. :param calls: the model's calls, whose deviations the lines share.
    """

    most_lines = 50_000
    most_bytes = 200_000_000

    def __init__(self, client: Any, calls: ApiCalls) -> None:
        self._client, self._calls = client, calls

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        """Return a line of an input file; see :class:`~pytest_llmprops.models.batches.BatchApi`."""
        try:
            body = self._calls.deviations.apply(chat_body(self._calls.name, request, count))
        except UsageError as error:
            raise BackendError(str(error), kind="request", fatal=True) from None
        line = {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body}
        try:
            return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        except UnicodeEncodeError:
            raise BackendError("the prompt has characters that UTF-8 cannot encode", kind="request") from None

    async def _result(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except BackendError:
            raise
        except Exception as error:
            calls = self._calls
            raise errors.from_exception(error, url=calls.url, model=calls.name, hidden=calls.hidden) from None

    async def upload(self, lines: IO[bytes]) -> str:
        """Upload a file of lines and return its id."""
        sent = self._client.files.create(
            file=("llmprops.jsonl", lines), purpose="batch", timeout=_FILE_SECONDS
        )
        try:
            return str((await self._result(sent)).id)
        except BackendError as error:
            if error.kind != "url":
                raise
            text = f"{self._calls.url} takes no files for batches; leave out --llm-engine batch"
            raise BackendError(text, kind="url", fatal=True) from None

    async def create(self, uploaded: str, mark: str) -> BatchState:
        """Create a batch with ``mark`` in its metadata."""
        created = self._client.batches.create(
            completion_window="24h", endpoint=ENDPOINT, input_file_id=uploaded, metadata={MARK: mark}
        )
        return self._state(await self._result(created))

    async def find(self, intents: Sequence[Intent], known: Collection[str]) -> dict[str, BatchState]:
        """Return the batches with the marks of these intents, from the newest to those that are older than all."""
        marks = {intent.mark for intent in intents}
        since = min(intent.created for intent in intents) - CLOCKS

        async def search() -> dict[str, BatchState]:
            found: dict[str, BatchState] = {}
            async for batch in self._client.batches.list(limit=_PAGE):
                state = self._state(batch)
                if state.mark in marks:
                    found.setdefault(state.mark, state)
                if len(found) == len(marks) or _number(batch, "created_at") < since:
                    break
            return found

        return await self._result(search())

    async def state(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        return self._state(await self._result(self._client.batches.retrieve(batch)))

    async def cancel(self, batch: str) -> BatchState:
        """Cancel a batch."""
        return self._state(await self._result(self._client.batches.cancel(batch)))

    async def lines(self, file: str) -> AsyncIterator[str]:
        """Yield the lines of a result file, without holding the file in memory."""
        opened = self._client.files.with_streaming_response.content(file, timeout=_FILE_SECONDS)
        content = await self._result(opened.__aenter__())
        try:
            async for line in split_lines(content.iter_bytes(), self._result):
                yield line
        finally:
            await opened.__aexit__(None, None, None)

    def read(self, line: str) -> LineResult | None:
        """Return the result in a line of an output or error file."""
        try:
            data = parsed_json(line)
        except ValueError:
            return None
        custom_id = data.get("custom_id") if isinstance(data, dict) else None
        if not isinstance(custom_id, str):
            return None
        response, error = data.get("response"), data.get("error")
        if isinstance(response, Mapping) and isinstance(response.get("status_code"), int):
            status, body = response["status_code"], response.get("body")
            if status == 200 and isinstance(body, Mapping):
                return LineResult(custom_id, body)
            if errors.is_filtered(status, body):
                return LineResult(custom_id, is_filtered=True)
            calls = self._calls
            failure = errors.from_status(
                status, {}, body, url=calls.url, model=calls.name, hidden=calls.hidden
            )
            return LineResult(custom_id, error=failure)
        code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
        message = str(error.get("message") or "") if isinstance(error, Mapping) else ""
        text = errors.clean(f"the batch has no answer to this request: {code} {message}", self._calls.hidden)
        failure = BackendError(text, kind="batch", transient=True)
        return LineResult(custom_id, error=failure, was_run=code not in _NOT_RUN)

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

    def _state(self, batch: Any) -> BatchState:
        metadata, counts = getattr(batch, "metadata", None), getattr(batch, "request_counts", None)
        mark = metadata.get(MARK) if isinstance(metadata, Mapping) else None
        status = str(getattr(batch, "status", ""))
        if status not in get_args(Status):
            name = errors.clean(f"{self._calls.url}: the batch {batch.id} has the unknown status '{status}'")
            raise BackendError(name, kind="response")
        problems = getattr(getattr(batch, "errors", None), "data", None) or ()
        codes = [str(getattr(problem, "code", "") or "") for problem in problems]
        texts = [str(getattr(problem, "message", "") or "") for problem in problems]
        return BatchState(
            str(batch.id),
            status,  # type: ignore[arg-type]  # checked above
            mark if isinstance(mark, str) else "",
            _file(batch, "output_file_id"),
            _file(batch, "error_file_id"),
            int(_number(counts, "total")),
            int(_number(counts, "completed") + _number(counts, "failed")),
            _number(batch, "expires_at"),
            " ".join(filter(None, codes)),
            errors.clean("; ".join(filter(None, texts)), self._calls.hidden),
        )


def _file(batch: Any, name: str) -> str | None:
    value = getattr(batch, name, None)
    return value if isinstance(value, str) and value else None


def _number(values: Any, name: str) -> float:
    """Return a number of a server's object; 0 if it is missing."""
    value = getattr(values, name, None)
    return float(value) if isinstance(value, int | float) else 0.0
