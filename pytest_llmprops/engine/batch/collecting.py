"""Read the results of a batch that is over: replies, failed lines, and lines that were not run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.batch.ledger import Entry, Ledger
from pytest_llmprops.models.batches import BatchApi, BatchState, LineResult

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
            replies = [Reply(finish_reason="content_filter")] * len(keys)
        elif result.answer is None:
            assert result.error is not None
            replies = result.error
        elif self._api.lacks_tokens(result.answer, self._entry.extra_tokens):
            # As after a call, it is asked once more with a higher limit.
            replies = BackendError("all tokens were spent on hidden reasoning", kind="batch", transient=True)
        else:
            replies = self._api.replies(result.answer, len(keys))
        if isinstance(replies, BackendError):
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
