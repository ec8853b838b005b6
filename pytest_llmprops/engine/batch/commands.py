"""What ``llmprops batch`` does with the batches of a reply store, outside of a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.batch.ledger import Entry, Ledger, ledger_path, moment
from pytest_llmprops.engine.batch.pending import VIA, collect, ignored_lines
from pytest_llmprops.engine.store.base import row_of
from pytest_llmprops.engine.store.location import open_store
from pytest_llmprops.models.api.batches import BatchApi, BatchModel
from pytest_llmprops.models.api.openai import normalised_url
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.models.secrets import Secrets

_KEY_LENGTH = 64


class BatchCommands:
    """The open batches of one reply store, inside ``async with``; all methods return lines to print.

    :param base_url: the address of the models' server, with the user and password that the ledger does not have.
    :raises StoreError: if the store or the ledger cannot be used.
    """

    def __init__(self, store: str, base_url: str = "") -> None:
        self._base_url = base_url
        self._secrets = Secrets.of_run({}, [base_url] if base_url else [])
        self._store = open_store(store)
        self._ledger = Ledger(ledger_path(store))
        self._models: dict[tuple[str, str], Any] = {}
        self._closing = AsyncExitStack()
        self.stored = 0

    async def __aenter__(self) -> BatchCommands:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, BackendError):
            self._secrets.error(error)
        await self._closing.aclose()
        self._store.close()
        self._ledger.close()

    def _api(self, spec: str, base_url: str) -> BatchApi:
        """Return the batches of a model.

        :raises UsageError: if it has none. :raises BackendError: if its key is missing or wrong.
        """
        if self._base_url and base_url == normalised_url(self._base_url):
            base_url = self._base_url
        known = self._models.get((spec, base_url))
        if known is None:
            parsed = parse_spec(spec)
            backend = find_backend(parsed.backend)
            if not backend.batches:
                raise UsageError(f"--model {spec}: has no batches")
            model: Any = backend.factory(parsed, BackendOptions(base_url or None))
            self._closing.push_async_callback(model.aclose)
            known = self._models[spec, base_url] = cast("BatchModel", model).batches()
        return cast("BatchApi", known)

    def _entries(self) -> list[Entry]:
        return self._ledger.open_batches()

    async def status(self) -> list[str]:
        """Ask for the state of each open batch."""
        lines = []
        for entry in self._entries():
            if entry.state == "submitted":
                with suppress(BackendError):
                    state = await self._api(entry.spec, entry.base_url).state(entry.batch)
                    self._ledger.progress(entry.mark, state.status, state.done, state.expires)
                    entry = replace(entry, status=state.status, done=state.done, expires=state.expires)
            lines.append(_line(entry))
        return lines or ["no open batches"]

    async def collect(self) -> list[str]:
        """Store the replies of all batches that are over."""
        lines = []
        for entry in self._entries():
            if entry.state != "submitted":
                lines.append(_line(entry))
                continue
            api = self._api(entry.spec, entry.base_url)
            state = await api.state(entry.batch)
            self._ledger.progress(entry.mark, state.status, state.done, state.expires)
            if not state.is_over:
                lines.append(_line(replace(entry, status=state.status, done=state.done)))
                continue
            before = self.stored
            lines += await collect(api, self._ledger, entry, state, self)
            lines.append(
                f"{entry.batch} {entry.label}: {state.status}, {self.stored - before:,} replies stored"
            )
        return lines or ["no open batches"]

    async def cancel(self) -> list[str]:
        """Cancel all open batches; the replies so far can be collected when the provider has ended them."""
        lines = []
        for entry in self._entries():
            if entry.state == "submitted":
                state = await self._api(entry.spec, entry.base_url).cancel(entry.batch)
                self._ledger.progress(entry.mark, state.status, state.done, state.expires)
                lines.append(_line(replace(entry, status=state.status, done=state.done)))
        return lines or ["no open batches"]

    def read(self, files: Iterable[Path], spec: str) -> list[str]:
        """Store the replies in output files that were downloaded, whose custom ids are keys of the store.

        The lines that are ignored are counted.
        Of several samples in a line, only the first has the key.
        """
        api, label = self._api(spec, self._base_url), parse_spec(spec).label
        lines = []
        for path in files:
            rows = []
            unreadable = unknown = failed = 0
            with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
                for line in file:
                    result = api.read(line)
                    if result is None:
                        unreadable += bool(line.strip())
                        continue
                    if not _is_key(result.custom_id):
                        unknown += 1
                        continue
                    replies = None if result.answer is None else api.replies(result.answer, 1)
                    if replies is None or isinstance(replies, BackendError):
                        failed += 1
                    else:
                        rows.append((result.custom_id, replace(replies[0], via=VIA)))
            self._put(label, rows)
            ignored = ignored_lines(unreadable=unreadable, unknown=unknown, failed=failed)
            lines.append(f"{path}: {len(rows):,} replies stored{ignored and f'; {ignored}'}")
        return lines

    def _put(self, label: str, replies: Sequence[tuple[str, Reply]]) -> None:
        now = time.time()
        clean = [(key, self._secrets.reply(reply)) for key, reply in replies]
        self._store.put_many([row_of(key, label, replace(reply, stored=now)) for key, reply in clean])
        self.stored += len(replies)

    # ---- results of a batch

    async def answered(self, entry: Entry, replies: Sequence[tuple[str, Reply]]) -> None:
        """Store replies."""
        self._put(entry.label, replies)

    def failed(self, entry: Entry, keys: Sequence[str], error: BackendError) -> None:
        """Leave a failed request to the next run."""

    def discarded(self, entry: Entry, replies: Sequence[Reply]) -> None:
        """Count nothing: no run waits for these replies."""

    def cut(self, entry: Entry, keys: Sequence[str]) -> None:
        """Leave a request whose reply was cut to the next run, which asks with more tokens."""

    def left(self, entry: Entry, keys: Sequence[str], reason: str, *, was_run: bool) -> None:
        """Leave a request without a result to the next run."""


def _is_key(text: str) -> bool:
    return len(text) == _KEY_LENGTH and all(character in "0123456789abcdef" for character in text)


def _line(entry: Entry) -> str:
    if entry.state == "intent":
        return f"(being submitted) {entry.label}: {entry.lines:,} lines, since {moment(entry.created)}"
    expires = f", expires {moment(entry.expires)}" if entry.expires else ""
    return (
        f"{entry.batch} {entry.label}: {entry.status}, {entry.done:,} of {entry.lines:,} lines done{expires}"
    )
