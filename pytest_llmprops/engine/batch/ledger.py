"""The ledger of batches: what is being submitted, what was submitted, and which requests are in it.

It is one SQLite file next to the reply store. A row is written before a batch is created, so that after a crash the
next run either finds the batch at the provider or knows that none was created. A request is in at most one open batch,
also if several runs share the file.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.worker_messages import OpenBatches


def described(batches: OpenBatches) -> str:
    """Return how far the open batches are, in one phrase."""
    noun = "batch" if batches.batches == 1 else "batches"
    text = f"{batches.batches} {noun} open, {batches.done:,} of {batches.lines:,} lines done"
    return f"{text}, expires {moment(batches.expires)}" if batches.expires else text


def moment(seconds: float) -> str:
    """Return a Unix time as text, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


State = Literal["intent", "submitted", "over"]
#: another run holds the write lock while it claims 50,000 lines
BUSY_SECONDS = 60.0
#: after this time, the process that prepared a batch is dead or its number belongs to another one
LONGEST_UPLOAD = 3600.0
#: how long a provider's limit on waiting tokens is remembered
TOKEN_LIMIT_SECONDS = 24 * 3600.0
TOO_LARGE = "too large"
#: SQLite's least limit on the values of one statement is 999
_PER_STATEMENT = 900
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    mark TEXT PRIMARY KEY, account TEXT NOT NULL, label TEXT NOT NULL, spec TEXT NOT NULL, base_url TEXT NOT NULL,
    owner TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL, batch TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT '', lines INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    expires REAL NOT NULL DEFAULT 0, deviations TEXT NOT NULL, extra_tokens INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lines (
    key TEXT PRIMARY KEY, custom_id TEXT NOT NULL, place INTEGER NOT NULL, mark TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lines_of_batch ON lines (mark);
"""


def has_ended(pid: int) -> bool:
    """Return True if a process of this machine has ended; False if this process cannot tell."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The number of a killed process is taken until its parent asks for its status, which the first process of a
    # container may do late or never.
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    return False


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch in the ledger.

    :param mark: its unique name, which the provider keeps with the batch.
    :param account: the identity of its model, as JSON. :param label: the model's label. :param spec: its specification.
    :param owner: the process that prepared it. :param created: Unix time of the intent.
    :param batch: the provider's id; empty until it is known.
    :param expires: Unix time at which the provider gives up its open lines; 0 if it is unknown.
    :param deviations: the changes that the API had forced when the lines were written.
    :param extra_tokens: the tokens added to each request's limit.
    """

    mark: str
    account: str
    label: str
    spec: str
    base_url: str
    owner: str
    created: float
    state: State
    lines: int
    deviations: tuple[str, ...]
    extra_tokens: int
    batch: str = ""
    status: str = ""
    done: int = 0
    expires: float = 0.0

    @property
    def is_being_prepared(self) -> bool:
        """True if a live process, or another run in this one, is about to submit it."""
        if self.state != "intent" or time.time() - self.created > LONGEST_UPLOAD:
            return False
        if self.owner == this_process():
            # In containers, the process that was killed may have had the same number.
            return self.mark in _PREPARED_HERE
        host, _, pid = self.owner.rpartition(":")
        return host != socket.gethostname() or not has_ended(int(pid))


#: marks of the batches that runs in this process are about to submit
_PREPARED_HERE: set[str] = set()


@contextmanager
def preparation(mark: str) -> Iterator[None]:
    """Note during a ``with`` block that this process is about to submit a batch."""
    _PREPARED_HERE.add(mark)
    try:
        yield
    finally:
        _PREPARED_HERE.discard(mark)


_COLUMNS = tuple(column.name for column in fields(Entry))


def account_of(identity: Mapping[str, Any]) -> str:
    """Return the account of a model: its identity as JSON."""
    return json.dumps(dict(identity), sort_keys=True, ensure_ascii=False)


def this_process() -> str:
    """Return this process as :attr:`Entry.owner`."""
    return f"{socket.gethostname()}:{os.getpid()}"


def ledger_path(store: str) -> Path:
    """Return the ledger's file for a reply store, which is a file or a URL."""
    if "://" not in store:
        return Path(f"{store}.batches")
    from hashlib import sha256

    from pytest_llmprops.engine.store.location import default_store, without_password

    name = sha256(without_password(store).encode()).hexdigest()[:16]
    return default_store().with_name(f"batches-{name}.sqlite")


class Ledger:
    """The batches of the runs that share a reply store.

    :raises StoreError: if the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Create the file before SQLite does, so that it is private from the start.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
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

    def _do(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with closing(self._db.execute(sql, values)) as rows:
                return rows.fetchall()
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def claim(self, entry: Entry, lines: Mapping[str, Sequence[str]]) -> set[str]:
        """Write the intent to submit a batch with the ``lines`` that are in no other open batch.

        :param lines: the keys of each line, by custom id.
        :return: the custom ids that are left out; if it is all of them, nothing is written.
        """
        taken: set[str] = set()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                count = 0
                owned = self.owners(key for keys in lines.values() for key in keys)
                for custom_id, keys in lines.items():
                    if not owned.keys().isdisjoint(keys):
                        taken.add(custom_id)
                        continue
                    count += 1
                    self._db.executemany(
                        "INSERT INTO lines VALUES (?, ?, ?, ?)",
                        [(key, custom_id, place, entry.mark) for place, key in enumerate(keys)],
                    )
                if count:
                    self._db.execute(
                        "INSERT INTO batches (mark, account, label, spec, base_url, owner, created, state, lines,"
                        " deviations, extra_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, 'intent', ?, ?, ?)",
                        (
                            *(
                                entry.mark,
                                entry.account,
                                entry.label,
                                entry.spec,
                                entry.base_url,
                                entry.owner,
                            ),
                            *(entry.created, count, json.dumps(entry.deviations), entry.extra_tokens),
                        ),
                    )
                self._db.execute("COMMIT")
            except BaseException:
                # On a full disk, SQLite has rolled back, and an error here would hide the first one.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failure(error) from None
        return taken

    def owners(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the mark of the open batch that each of ``keys`` is in, for those that are in one."""
        listed = list(keys)
        owners: dict[str, str] = {}
        for start in range(0, len(listed), _PER_STATEMENT):
            part = listed[start : start + _PER_STATEMENT]
            holes = ",".join("?" * len(part))
            rows = self._do(f"SELECT key, mark FROM lines WHERE key IN ({holes})", part)  # noqa: S608
            owners |= {key: mark for key, mark in rows}  # noqa: C416
        return owners

    def submitted(self, mark: str, batch: str, status: str, expires: float) -> None:
        """Note that the provider has created the batch."""
        self._do(
            "UPDATE batches SET state = 'submitted', batch = ?, status = ?, expires = ? WHERE mark = ?"
            " AND state = 'intent'",
            (batch, status, expires, mark),
        )

    def progress(self, mark: str, status: str, done: int, expires: float) -> None:
        """Note how far a batch is."""
        self._do(
            "UPDATE batches SET status = ?, done = ?, expires = ? WHERE mark = ?",
            (status, done, expires, mark),
        )

    def end(self, mark: str, status: str) -> None:
        """Note that a batch is over and its results are stored; its other requests may go into another batch."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM lines WHERE mark = ?", (mark,))
            self._db.execute("UPDATE batches SET state = 'over', status = ? WHERE mark = ?", (status, mark))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failure(error) from None

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
        rows = self._do("SELECT custom_id, key FROM lines WHERE mark = ? ORDER BY custom_id, place", (mark,))
        members: defaultdict[str, list[str]] = defaultdict(list)
        for custom_id, key in rows:
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
        """Close the file."""
        self._db.close()


def _entry(row: tuple[Any, ...]) -> Entry:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Entry(**values | {"deviations": tuple(json.loads(values["deviations"]))})
