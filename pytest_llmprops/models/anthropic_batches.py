"""Anthropic's Message Batches, as the official SDK sends them.

A batch is created in one request and keeps no mark of its creator. After a crash between the creation and the note of
its id, it is recognised by its size, its time and, as soon as it has results, by their custom ids.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import IO, Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models import errors
from pytest_llmprops.models.anthropic_format import chat_answer, message_params
from pytest_llmprops.models.batches import CLOCKS, BatchState, Intent, LineResult, Status
from pytest_llmprops.models.chat_batches import FILE_SECONDS, PER_PAGE, ChatBatches, encoded

_NOT_RUN = ("expired", "canceled")
#: the status of a call with the same error
_STATUS = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicBatches(ChatBatches):
    """The batches of one model; the client is an ``anthropic.AsyncAnthropic``."""

    most_lines = 100_000
    # The API takes 256 MB. A batch is built in memory, with several times the size of its lines.
    most_bytes = 64_000_000

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        """Return one request of a batch; see :class:`~pytest_llmprops.models.batches.BatchApi`."""
        params = message_params(self._body(request, count), self._calls.deviations)
        return encoded({"custom_id": custom_id, "params": params})

    async def upload(self, lines: IO[bytes]) -> list[Any]:
        """Return the requests; nothing is sent before the batch is created."""
        return [json.loads(line) for line in lines]

    async def create(self, uploaded: list[Any], mark: str) -> BatchState:
        """Create a batch. The API keeps no ``mark``."""
        created = self._client.messages.batches.create(requests=uploaded, timeout=FILE_SECONDS)
        return self._state(await self._result(created))

    async def find(self, intents: Sequence[Intent], known: Collection[str]) -> dict[str, BatchState]:
        """Return the batches of these intents that exist, by mark.

        A batch that is over belongs to the intent with its custom ids. Of those without results, one of the intent's
        size that was created after it is taken: if it is another program's, its results have no known custom id, and
        the requests go into another batch.
        """
        since = min(intent.created for intent in intents) - CLOCKS
        open_intents, found = list(intents), dict[str, BatchState]()
        async for state, created in self._listed(since):
            if state.id in known or not open_intents:
                continue
            first = await self._first_id(state) if state.is_over else None
            for intent in open_intents:
                is_possible = state.lines == intent.lines and created >= intent.created - CLOCKS
                if first in intent.custom_ids() if first is not None else is_possible:
                    found[intent.mark] = state
                    open_intents.remove(intent)
                    break
        return found

    async def _listed(self, since: float) -> AsyncIterator[tuple[BatchState, float]]:
        """Yield the batches that were created after a Unix time, and when, newest first."""
        batches = aiter(self._client.messages.batches.list(limit=PER_PAGE))
        while (batch := await self._result(anext(batches, None))) is not None:
            created = _seconds(batch.created_at)
            if created < since:
                return
            yield self._state(batch), created

    async def _first_id(self, state: BatchState) -> str | None:
        if state.output_file is None:
            return None
        async for line in self.lines(state.output_file):
            result = self.read(line)
            if result is not None:
                return result.custom_id
        return None

    async def state(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        return self._state(await self._result(self._client.messages.batches.retrieve(batch)))

    async def cancel(self, batch: str) -> BatchState:
        """Cancel a batch."""
        return self._state(await self._result(self._client.messages.batches.cancel(batch)))

    def lines(self, file: str) -> AsyncIterator[str]:
        """Yield the results of a batch.

        :param file: the id of the batch.
        """
        batches = self._client.messages.batches
        return self._lines(batches.with_streaming_response.results(file, timeout=FILE_SECONDS))

    def read(self, line: str) -> LineResult | None:
        """Return the result in a line."""
        try:
            data = parsed_json(line)
        except ValueError:
            return None
        custom_id = data.get("custom_id") if isinstance(data, dict) else None
        result = data.get("result") if isinstance(data, dict) else None
        if not isinstance(custom_id, str) or not isinstance(result, Mapping):
            return None
        kind, message = result.get("type"), result.get("message")
        if kind == "succeeded" and isinstance(message, Mapping):
            return LineResult(custom_id, chat_answer(message))
        if kind in _NOT_RUN:
            text = f"the batch ended before this request, which is {kind}"
            return LineResult(
                custom_id, error=BackendError(text, kind="batch", transient=True), was_run=False
            )
        return self._failed(custom_id, result.get("error"))

    def _failed(self, custom_id: str, error: Any) -> LineResult:
        inner = error.get("error") if isinstance(error, Mapping) else None
        name = inner.get("type") if isinstance(inner, Mapping) else None
        if not isinstance(name, str):
            failure = BackendError("the batch has no answer to this request", kind="batch", transient=True)
            return LineResult(custom_id, error=failure)
        status, calls = _STATUS.get(name, 400), self._calls
        if errors.is_filtered(status, error):
            return LineResult(custom_id, is_filtered=True)
        failure = errors.from_status(status, {}, error, url=calls.url, model=calls.name, hidden=calls.hidden)
        return LineResult(custom_id, error=failure)

    def _state(self, batch: Any) -> BatchState:
        counts = batch.request_counts
        done = counts.succeeded + counts.errored
        lines = done + counts.processing + counts.canceled + counts.expired
        status: Status
        if batch.processing_status == "ended":
            # A batch that was cancelled too late is complete.
            status = "cancelled" if counts.canceled else "expired" if counts.expired else "completed"
        else:
            status = "cancelling" if batch.processing_status == "canceling" else "in_progress"
        return BatchState(
            str(batch.id),
            status,
            output_file=str(batch.id) if batch.results_url else None,
            lines=lines,
            done=done,
            expires=_seconds(batch.expires_at),
        )


def _seconds(time: Any) -> float:
    """Return the Unix time of a server's time; 0 if it has none."""
    return time.timestamp() if isinstance(time, datetime) else 0.0
