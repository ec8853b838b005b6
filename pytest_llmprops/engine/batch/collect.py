"""Read the results of a batch that is over: replies, failed lines, and lines that were not run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.reasoning import answer_of, is_cut
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.batch.ledger import Entry
from pytest_llmprops.models.api.batches import BatchApi, BatchState, LineResult

#: results that are stored together
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Result:
    """What a batch returned for the requests of one line.

    :param keys: of its requests, one per sample. :param replies: those of the first samples; the others have none.
    :param error: why requests have no reply; another batch may have it if the error is transient.
    :param discarded: replies that are paid for and not used. :param is_cut: a limit cut the reply before any answer.
    :param was_run: False if the batch ended before this line.
    """

    keys: Sequence[str]
    replies: Sequence[Reply] = ()
    error: BackendError | None = None
    discarded: Sequence[Reply] = ()
    is_cut: bool = False
    was_run: bool = True


async def results(
    api: BatchApi, entry: Entry, state: BatchState, lines: Mapping[str, Sequence[str]]
) -> AsyncIterator[list[Result]]:
    """Yield the results of a batch, up to ``CHUNK`` at once, with one result for each of its lines.

    Lines of the files that cannot be read, have an unknown custom id or are there twice are ignored.

    :param lines: the keys of each line, by custom id.
    :raises BackendError: if a result file cannot be read.
    """
    chunk: list[Result] = []
    done: set[str] = set()
    for file in filter(None, (state.output_file, state.error_file)):
        async for text in api.lines(file):
            line = api.read(text)
            if line is not None and line.was_run and line.custom_id in lines and line.custom_id not in done:
                done.add(line.custom_id)
                chunk.append(_result(api, entry, line, lines[line.custom_id]))
                if len(chunk) >= CHUNK:
                    yield chunk
                    chunk = []
    text = f"the batch is {state.status} without a result for this request"
    missing = BackendError(text, kind="batch", transient=True)
    was_run = state.status == "completed"
    chunk += (
        Result(keys, error=missing, was_run=was_run) for name, keys in lines.items() if name not in done
    )
    yield chunk


def _result(api: BatchApi, entry: Entry, line: LineResult, keys: Sequence[str]) -> Result:
    if line.is_filtered:
        read: Sequence[Reply] | BackendError = [
            Reply(finish_reason="content_filter", cost_usd=0.0) for _ in keys
        ]
    elif line.answer is None:
        assert line.error is not None
        read = line.error
    else:
        read = api.replies(line.answer, len(keys))
    if isinstance(read, BackendError):
        billed = () if read.billed is None else (replace(read.billed, via="batch"),)
        return Result(keys, error=read, discarded=billed)
    read = [replace(reply, via="batch", deviations=entry.deviations) for reply in read]
    answers = [answer_of(reply) for reply in read]
    if any(is_cut(reply, parts) for reply, parts in answers):
        return Result(keys, discarded=read, is_cut=True)
    few = BackendError("the server returned fewer samples than requested", kind="batch", transient=True)
    replies = [replace(reply, key=key) for key, (reply, _) in zip(keys, answers, strict=False)]
    return Result(keys, replies, few if len(replies) < len(keys) else None)
