"""Submit the pending requests of a model: first one call per shape of request, then batches."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.batch.ledger import Entry, Ledger, this_process
from pytest_llmprops.engine.batch.pending import Lane, Pending, Waiting, shape_of
from pytest_llmprops.engine.calls import Calls, ClaimEnded
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.openai_sdk import normalised_url

#: number of different requests of one shape that may fail before the run stops
CANARIES = 3
#: what stores and counts the reply to a call
Keep = Callable[[Pending, Reply], Awaitable[Reply]]
#: looks up a stored reply that the run may use
Find = Callable[[Pending], Awaitable[Reply | None]]


class Submitter:
    """Writes waves.

    :param keep: stores and counts the reply to a call. :param find: looks up a stored reply that the run may use.
    """

    def __init__(
        self, config: BrokerConfig, calls: Calls, ledger: Ledger, waiting: Waiting, keep: Keep, find: Find
    ) -> None:
        self._config, self._calls, self._ledger = config, calls, ledger
        self._waiting, self._keep, self._find = waiting, keep, find
        #: creations in a row that failed for a reason that may pass
        self._failures = 0

    async def submit(self, lane: Lane, unsent: Sequence[Pending]) -> bool:
        """Submit the requests of one model that no open batch has.

        :return: whether calls were made instead, whose replies let cases go on.
        :raises BackendError: if the provider refuses a batch. :raises RunStopped: if the run is stopped.
        """
        self._waiting.mark(self._ledger.owners(one.key for one in unsent))
        groups = lane.groups(one for one in unsent if one.mark is None)
        if groups and self._config.max_cost is not None:
            self._calls.check_cost(lane.cost(groups), self._waiting.open_cost(), len(groups))
        if await self._canaries(lane, groups):
            return True
        most = self._ledger.most_lines(lane.account)
        if most is not None:
            # The provider limits the tokens that wait in batches, so there is one batch at a time.
            if self._ledger.open_batches({lane.account}):
                return False
            groups = groups[:most]
        while groups:
            groups = await self._batch(lane, groups)
        return False

    # ---- canaries

    async def _canaries(self, lane: Lane, groups: Sequence[list[Pending]]) -> bool:
        """Send one request of each new shape as a call, so that a refused parameter does not cost a wave."""
        shapes: dict[str, list[list[Pending]]] = {}
        for group in groups:
            shape = shape_of(group)
            if shape not in lane.accepted:
                shapes.setdefault(shape, []).append(group)
        await asyncio.gather(*(self._canary(lane, shape, own) for shape, own in shapes.items()))
        return bool(shapes)

    async def _canary(self, lane: Lane, shape: str, groups: Sequence[list[Pending]]) -> None:
        for number, group in enumerate(groups[:CANARIES], 1):
            try:
                replies = await self._calls.replies(
                    lane.label, lane.served, [one.request for one in group]
                ) or await self._calls.replies(lane.label, lane.served, [group[0].request])
            except ClaimEnded:
                # The next look submits them.
                return
            except BackendError as error:
                for one in group:
                    self._waiting.settle(one, error)
                if number == CANARIES:
                    text = (
                        f"{lane.label}: {number} requests failed, so no batch is submitted: {error.message}"
                    )
                    raise self._calls.stop(text) from None
            else:
                lane.accepted.add(shape)
                for one, reply in zip(group, replies, strict=False):
                    self._waiting.settle(one, await self._keep(one, reply))
                return

    # ---- batches

    async def _batch(self, lane: Lane, groups: Sequence[list[Pending]]) -> list[list[Pending]]:
        """Submit one batch of the first ``groups``, and return those that do not fit into it."""
        with _temporary_file() as file:
            taken, rest = self._write(lane, groups, file)
            if not taken:
                return rest
            self._calls.check_budget(len(taken))
            entry = self._entry(lane)
            lines = {group[0].key: [one.key for one in group] for group in taken}
            others = self._ledger.claim(entry, lines)
            mine = [group for group in taken if group[0].key not in others]
            if others:
                # Another run that shares the store has just submitted them.
                keys = [one.key for group in taken for one in group]
                self._waiting.mark(self._ledger.owners(keys))
            if await self._take_stored(mine):
                # Nothing was created for this entry. The others are submitted with the next one.
                self._ledger.end(entry.mark, "stored")
                return [*filter(None, mine), *rest]
            self._waiting.mark(dict.fromkeys((one.key for group in mine for one in group), entry.mark))
            if mine:
                with _temporary_file() as wave:
                    _copy_without(file, [group[0].key in others for group in taken], wave)
                    await self._create(lane, entry, wave, len(mine))
        return rest

    async def _take_stored(self, groups: Sequence[list[Pending]]) -> bool:
        """Take the requests that are stored by now out of ``groups``, and return whether there are any.

        A batch of another run may have ended since they were looked up. It no longer owns them then; before they were
        claimed, it might have ended at any moment.
        """
        waiting = [one for group in groups for one in group]
        replies = await asyncio.gather(*map(self._find, waiting))
        stored = {one.key: reply for one, reply in zip(waiting, replies, strict=True) if reply is not None}
        for group in groups:
            for one in [one for one in group if one.key in stored]:
                group.remove(one)
                self._waiting.settle(one, stored[one.key])
        return bool(stored)

    def _write(
        self, lane: Lane, groups: Sequence[list[Pending]], file: IO[bytes]
    ) -> tuple[list[list[Pending]], list[list[Pending]]]:
        """Write one line per group; return the groups written and those that exceed the limits of a batch."""
        taken: list[list[Pending]] = []
        size = 0
        for position, group in enumerate(groups):
            try:
                line = lane.api.line(group[0].key, group[0].request, len(group))
            except BackendError as error:
                for one in group:
                    self._waiting.settle(one, error)
                continue
            if taken and (len(taken) == lane.api.most_lines or size + len(line) > lane.api.most_bytes):
                return taken, list(groups[position:])
            file.write(line)
            taken.append(group)
            size += len(line)
        return taken, []

    def _entry(self, lane: Lane) -> Entry:
        spec, model = self._config.models[lane.label], lane.served.model
        return Entry(
            mark=uuid.uuid4().hex,
            account=lane.account,
            label=lane.label,
            spec=spec.text,
            # Without a password, which no file may have.
            base_url=normalised_url(self._config.base_url) if self._config.base_url else "",
            owner=this_process(),
            created=time.time(),
            state="intent",
            lines=0,
            deviations=tuple(model.deviations()),
            extra_tokens=lane.api.extra_tokens,
        )

    async def _create(self, lane: Lane, entry: Entry, wave: IO[bytes], lines: int) -> None:
        try:
            uploaded = await self._uploaded(lane, wave)
            state = await lane.api.create(uploaded, entry.mark)
        except BackendError as error:
            if error.transient:
                # The provider may have created the batch. The next poll, or the next run, looks for it.
                self._failures += 1
                if self._failures > self._config.retries:
                    text = f"{lane.label}: no batch was created, {self._failures} times: {error.message}"
                    raise self._calls.stop(text) from None
                return
            self._ledger.end(entry.mark, "refused")
            raise
        self._failures = 0
        self._ledger.submitted(entry.mark, state.id, state.status, state.expires)
        self._calls.count_sent(lines)

    async def _uploaded(self, lane: Lane, wave: IO[bytes]) -> Any:
        async def upload() -> Any:
            wave.seek(0)
            return await lane.api.upload(wave)

        return await self._calls.retried(upload)


@contextmanager
def _temporary_file() -> Iterator[IO[bytes]]:
    """Yield an empty file in the temporary folder, which is removed at the end.

    :raises UsageError: if the folder cannot be used.
    """
    try:
        with tempfile.TemporaryFile() as file:
            yield file
    except OSError as error:
        why = error.strerror or error
        raise UsageError(
            f"temporary folder {tempfile.gettempdir()}: {why}; free disk space, or set TMPDIR to a folder on another"
            " disk, and run again"
        ) from None


def _copy_without(file: IO[bytes], left_out: Sequence[bool], target: IO[bytes]) -> None:
    """Write the lines of ``file`` that are not left out to ``target``."""
    file.seek(0)
    for line, is_out in zip(file, left_out, strict=True):
        if not is_out:
            target.write(line)
    # A full disk is noticed here, and not while the file is uploaded.
    target.flush()
