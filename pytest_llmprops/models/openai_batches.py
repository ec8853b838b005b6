"""Batches through OpenAI's files and batches, as the official SDK sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import IO, Any, get_args

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models import errors
from pytest_llmprops.models.batches import CLOCKS, BatchState, Intent, LineResult, Status
from pytest_llmprops.models.chat_batches import FILE_SECONDS, PER_PAGE, ChatBatches, encoded

ENDPOINT = "/v1/chat/completions"
#: the key of the mark in a batch's metadata
MARK = "llmprops"
#: codes of lines that were not run
_NOT_RUN = ("batch_expired", "batch_cancelled")


class OpenAIBatches(ChatBatches):
    """The batches of one model; the client is an ``openai.AsyncOpenAI``."""

    most_lines = 50_000
    most_bytes = 200_000_000

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        """Return a line of an input file; see :class:`~pytest_llmprops.models.batches.BatchApi`."""
        body = self._body(request, count)
        return encoded({"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body})

    async def upload(self, lines: IO[bytes]) -> str:
        """Upload a file of lines and return its id."""
        sent = self._client.files.create(
            file=("llmprops.jsonl", lines), purpose="batch", timeout=FILE_SECONDS
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
            async for batch in self._client.batches.list(limit=PER_PAGE):
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

    def lines(self, file: str) -> AsyncIterator[str]:
        """Yield the lines of a result file."""
        return self._lines(self._client.files.with_streaming_response.content(file, timeout=FILE_SECONDS))

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
