"""The ledger of batches: what is being submitted, what was submitted, and which requests are in it.

It is one SQLite file next to the reply store. A row is written before a batch is created, so that after a crash the
next run either finds the batch at the provider or knows that none was created. A request is in at most one open batch:
one process at a time submits and collects those of a model.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Literal

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.models.api.batches import BatchState
from pytest_llmprops.records.messages import OpenBatches


def described(batches: OpenBatches) -> str:
    """Return how far the open batches are, in one phrase."""
    noun = "batch" if batches.batches == 1 else "batches"
    text = f"{batches.batches} {noun} open, {batches.done:,} of {batches.lines:,} lines done"
    return f"{text}, expires {moment(batches.expires)}" if batches.expires else text


def moment(seconds: float) -> str:
    """Return a Unix time as text, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


State = Literal["intent", "submitted", "over"]
#: another run holds the write lock while it adds 50,000 lines
BUSY_SECONDS = 60.0
#: how long a provider's limit on waiting tokens is remembered
TOKEN_LIMIT_SECONDS = 24 * 3600.0
TOO_LARGE = "too large"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    mark TEXT PRIMARY KEY, account TEXT NOT NULL, label TEXT NOT NULL, spec TEXT NOT NULL, base_url TEXT NOT NULL,
    created REAL NOT NULL, deviations TEXT NOT NULL, extra_tokens INTEGER NOT NULL, lines INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'intent', batch TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT '',
    done INTEGER NOT NULL DEFAULT 0, expires REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lines (
    key TEXT PRIMARY KEY, custom_id TEXT NOT NULL, mark TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS lines_of_batch ON lines (mark);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch in the ledger.

    :param mark: its unique name, which the provider keeps with the batch.
    :param account: the identity of its model, as JSON. :param label: the model's label. :param spec: its specification.
    :param created: Unix time of the intent.
    :param deviations: the changes that the API had forced when the lines were written.
    :param extra_tokens: the tokens added to each request's limit.
    :param batch: the provider's id; empty until it is known.
    :param expires: Unix time at which the provider gives up its open lines; 0 if it is unknown.
    """

    mark: str
    account: str
    label: str
    spec: str
    base_url: str
    created: float
    deviations: tuple[str, ...]
    extra_tokens: int
    lines: int = 0
    state: State = "intent"
    batch: str = ""
    status: str = ""
    done: int = 0
    expires: float = 0.0


_COLUMNS = tuple(column.name for column in fields(Entry))


def ledger_path(store: str) -> Path:
    """Return the ledger's file for a reply store, which is a file or a URL."""
    if "://" not in store:
        return Path(f"{store}.batches")
    from pytest_llmprops.engine.store.location import default_store, without_password

    name = sha256(without_password(store).encode()).hexdigest()[:16]
    return default_store().with_name(f"batches-{name}.sqlite")


def _private(path: str | Path, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Ledger:
    """The batches of the runs that share a reply store.

    :raises StoreError: if the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: the files of the locks, which close() frees
        self._locks: list[IO[bytes]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Create the file before SQLite does, so that it is private from the start.
            os.close(_private(path, os.O_CREAT | os.O_RDWR))
            # Opened before the event loop starts, and used in its thread alone.
            self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            # Batches are paid for, so an intent must survive a power failure.
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> StoreError:
        is_full = (
            getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            or getattr(error, "errno", None) == errno.ENOSPC
        )
        fix = "; free disk space and run again" if is_full else ""
        return StoreError(f"ledger of batches {self.path}: {getattr(error, 'strerror', None) or error}{fix}")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make all changes of a ``with`` block, or none if it fails."""
        try:
            with self._db:
                yield
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def _do(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._changing():
            return self._db.execute(sql, values).fetchall()

    def lock(self, account: str) -> None:
        """Let this process alone submit and collect the batches of a model.

        :raises StoreError: if another process does, or the lock cannot be written.
        """
        name = sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        try:
            file = open(f"{self.path}.{name}", "wb", opener=_private)
            self._locks.append(file)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = "another run with this reply store uses the model's batches; wait until it has ended"
            raise StoreError(text) from None
        except OSError as error:
            raise self._failure(error) from None

    def add(self, entry: Entry, lines: Mapping[str, Sequence[str]]) -> None:
        """Write the intent to submit a batch.

        :param lines: the keys of each line, by custom id.
        """
        with self._changing():
            rows = ((key, name, entry.mark) for name, keys in lines.items() for key in keys)
            self._db.executemany("INSERT INTO lines VALUES (?, ?, ?)", rows)
            values = {**asdict(entry), "deviations": json.dumps(entry.deviations), "lines": len(lines)}
            holes = ", ".join(f":{name}" for name in _COLUMNS)
            self._db.execute(f"INSERT INTO batches ({', '.join(_COLUMNS)}) VALUES ({holes})", values)  # noqa: S608

    def open_keys(self, keys: Iterable[str]) -> set[str]:
        """Return those of ``keys`` that are in an open batch."""
        query = "SELECT key FROM lines WHERE key IN (SELECT value FROM json_each(?))"
        return {key for (key,) in self._do(query, (json.dumps(list(keys)),))}

    def submitted(self, mark: str, state: BatchState) -> None:
        """Note that the provider has created the batch."""
        self._do(
            "UPDATE batches SET state = 'submitted', batch = ?, status = ?, expires = ? WHERE mark = ?"
            " AND state = 'intent'",
            (state.id, state.status, state.expires, mark),
        )

    def progress(self, mark: str, state: BatchState) -> None:
        """Note how far a batch is."""
        self._do(
            "UPDATE batches SET status = ?, done = ?, expires = ? WHERE mark = ?",
            (state.status, state.done, state.expires, mark),
        )

    def end(self, mark: str, status: str) -> None:
        """Note that a batch is over and its results are stored; its other requests may go into another batch."""
        with self._changing():
            self._db.execute("DELETE FROM lines WHERE mark = ?", (mark,))
            self._db.execute("UPDATE batches SET state = 'over', status = ? WHERE mark = ?", (status, mark))

    def open_batches(self, accounts: Collection[str] | None = None) -> list[Entry]:
        """Return the batches that are not over, oldest first.

        :param accounts: only those of these models; None for all.
        """
        rows = self._do(
            f"SELECT {', '.join(_COLUMNS)} FROM batches WHERE state != 'over' ORDER BY created, mark"  # noqa: S608
        )
        entries = [_entry(row) for row in rows]
        return [entry for entry in entries if accounts is None or entry.account in accounts]

    def batches(self, account: str) -> set[str]:
        """Return the provider's ids of all batches of a model."""
        return {batch for (batch,) in self._do("SELECT batch FROM batches WHERE account = ?", (account,))}

    def members(self, mark: str) -> dict[str, list[str]]:
        """Return the keys of each line of a batch, in the order of its samples, by custom id."""
        members: defaultdict[str, list[str]] = defaultdict(list)
        for custom_id, key in self._do(
            "SELECT custom_id, key FROM lines WHERE mark = ? ORDER BY rowid", (mark,)
        ):
            members[custom_id].append(key)
        return dict(members)

    def most_lines(self, account: str) -> int | None:
        """Return how many lines the next batch of a model may have; None if no limit on its tokens was met."""
        [(least,)] = self._do(
            "SELECT MIN(lines) FROM batches WHERE account = ? AND status = ? AND created > ?",
            (account, TOO_LARGE, time.time() - TOKEN_LIMIT_SECONDS),
        )
        return None if least is None else max(1, least // 2)

    def close(self) -> None:
        """Close the file, and let other runs use the batches."""
        self._db.close()
        for file in self._locks:
            file.close()


def _entry(row: tuple[Any, ...]) -> Entry:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Entry(**values | {"deviations": tuple(json.loads(values["deviations"]))})
