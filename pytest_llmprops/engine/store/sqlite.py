"""The reply store in one SQLite file, for the runs of one machine: created, opened and set aside here."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.engine.store.base import (
    VERSION,
    ModelReplies,
    Row,
    StoreInfo,
    replies_of,
    safe_key,
    safe_label,
    statements,
)

#: Another run holds the write lock during a commit; a minute is enough even on a stalled disk.
BUSY_SECONDS = 60.0
_COLUMNS = {"key", "stored", "model", "reply"}
#: the first bytes of a SQLite file
_HEADER = b"SQLite format 3\0"
#: Keys are random, so replies that were sorted by them would each change a page of their own. Here they are appended,
#: and only the index, which is much smaller, is changed everywhere.
_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY NOT NULL, stored REAL NOT NULL, model TEXT NOT NULL, reply TEXT NOT NULL
)
"""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection to the store, which is created if necessary.

    :raises StoreError: if the file cannot be used.
    :raises sqlite3.DatabaseError: if it is damaged or locked.
    """
    try:
        _check_own(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Create the file before SQLite does, so that it is private from the start.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StoreError(
            f"reply store {path}: {error.strerror}; give a writable file with --llm-store FILE"
        ) from None
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        # NORMAL does not fsync each commit: a killed process loses nothing, a power failure the last commits.
        db.execute("PRAGMA synchronous=NORMAL")
        # In pages of 4 kB, ten times the default: keys are random, so each commit changes a page of the index per
        # reply, and the same pages are changed again before they are copied to the file.
        db.execute("PRAGMA wal_autocheckpoint=10000")
        if _version(path, db) < VERSION:
            db.execute(_TABLE)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("SELECT key, stored, model, reply FROM replies LIMIT 1").fetchone()
    except (sqlite3.Error, StoreError):
        db.close()
        raise
    return db


def set_aside(path: Path) -> Path:
    """Rename the file of a store and what SQLite keeps next to it, and return the new path."""
    # To the nanosecond, so that it replaces no other file.
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d')}-{time.time_ns()}")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        extra = path.with_name(path.name + suffix)
        if extra.exists():
            extra.replace(aside.with_name(aside.name + suffix))
    return aside


def _version(path: Path, db: sqlite3.Connection) -> int:
    """Return the version of the store."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(
            f"reply store {path}: has version {version} of the tables, and this package knows {VERSION};"
            " upgrade pytest-llmprops, or name another file with --llm-store FILE"
        )
    return version


def _roll_back(path: Path) -> None:
    """Undo the transaction of a process that was killed; with what it left, SQLite refuses to only read the file."""
    if os.path.exists(f"{path}-journal"):  # noqa: PTH110 - Path.exists raises an exception for a name that is too long
        uri = f"{path.resolve().as_uri()}?mode=rw"
        with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as db:
            db.execute("SELECT name FROM sqlite_master").fetchone()


def _check_own(path: Path) -> None:
    """Raise StoreError if the file is not a store, before it is changed in any way."""
    if not path.exists():
        return
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise StoreError(f"reply store {path}: is {kind}; name a file with --llm-store FILE")
    with path.open("rb") as file:
        begins = file.read(len(_HEADER))
    # A file system may leave zeros behind where a store was being written.
    if begins.strip(b"\0") and begins != _HEADER:
        raise StoreError(
            f"reply store {path}: is not a SQLite file; name another file with --llm-store FILE, or move this one away"
        )
    _roll_back(path)
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {row[1] for row in db.execute("PRAGMA table_info(replies)")}
    if tables and not columns >= _COLUMNS:
        raise StoreError(
            f"reply store {path}: is the database of another program (tables {first_names(tables)});"
            " name another file with --llm-store FILE"
        )


def open_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write.

    :raises StoreError: if the store is from a later version of this package.
    :raises sqlite3.DatabaseError: if the file cannot be read.
    """
    _roll_back(path)
    # On a read-only disk, SQLite can read a file with a write-ahead log only if it is said not to change.
    for more in ("", "&immutable=1"):
        uri = f"{path.resolve().as_uri()}?mode=ro{more}"
        db = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("SELECT key, stored, model, reply FROM replies LIMIT 1").fetchone()
            _version(path, db)
        except StoreError:
            db.close()
            raise
        except sqlite3.Error:
            db.close()
            if more:
                raise
        else:
            return db
    raise AssertionError("unreachable")  # pragma: no cover


def is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Return True if the error means that the file is not a whole store."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "no such column" in str(error)


class SQLiteStore:
    """A :class:`~pytest_llmprops.engine.store.base.Store` in one file.

    A damaged file is renamed and reported in ``notes``; it is never emptied. The database of another program is refused
    and not changed.

    :param read_only: open an existing file without writing to it, so that it may be on a read-only disk.
    :raises StoreError: if the file cannot be opened.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.notes: list[str] = []
        self._read_only = read_only and path.is_file()
        self._db = self._open()

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self.path)

    def _open(self) -> sqlite3.Connection:
        open_file = open_read_only if self._read_only else open_for_writing
        try:
            return open_file(self.path)
        except sqlite3.DatabaseError as error:
            if self._read_only or not is_damaged(error):
                raise StoreError(
                    f"reply store {self.path}: {error}; give another with --llm-store FILE"
                ) from None
            return self._replaced(error)

    def _replaced(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Rename the damaged file and return a new store."""
        aside = set_aside(self.path)
        self.notes.append(
            f"reply store {self.path} is damaged ({error}); set aside as {aside.name}, a new one is used"
        )
        return open_for_writing(self.path)

    def _error(self, error: Exception) -> StoreError:
        return StoreError(f"reply store {self.path}: {error}")

    def get_many(self, keys: Collection[str]) -> dict[str, Reply]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        names = {safe_key(key): key for key in keys}
        texts: dict[str, str] = {}
        try:
            for part in statements(names):
                texts.update(
                    self._db.execute(
                        _with_keys("SELECT key, reply FROM replies WHERE key IN (KEYS)", part), part
                    )
                )
        except sqlite3.DatabaseError as error:
            if self._read_only or not is_damaged(error):
                raise self._error(error) from None
            self._db.close()
            self._db = self._replaced(error)
            return {}
        return replies_of(texts.items(), names, self.path, self.notes)

    def put_many(self, rows: Collection[Row]) -> None:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        safe = [row if (name := safe_key(row.key)) == row.key else row._replace(key=name) for row in rows]
        try:
            with self._db as db:
                db.execute("BEGIN IMMEDIATE")
                db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", safe)
        except sqlite3.DatabaseError as error:
            raise self._error(error) from None

    def holds_replies(self, model: str) -> bool:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        row = self._read("SELECT 1 FROM replies WHERE model = ? LIMIT 1", safe_label(model))
        return bool(row)

    def info(self) -> StoreInfo:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        models = self._read(
            "SELECT model, count(*), min(stored), max(stored) FROM replies GROUP BY model ORDER BY model"
        )
        [[version]] = self._read("PRAGMA user_version")
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        return StoreInfo(version, size, [ModelReplies(*row) for row in models])

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._error(error) from None

    def prune(self, *, before: float, model: str | None) -> int:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        label = None if model is None else safe_label(model)
        try:
            deleted = self._db.execute(
                "DELETE FROM replies WHERE stored < ? AND (? IS NULL OR model = ?)", (before, label, label)
            ).rowcount
            # Another run may use the file; SQLite then reuses the space later.
            with suppress(sqlite3.OperationalError):
                self._db.execute("VACUUM")
        except sqlite3.DatabaseError as error:
            raise self._error(error) from None
        return deleted

    def close(self) -> None:
        """Close the file. SQLite merges the write-ahead log if no other run uses the file."""
        self._db.close()


def _with_keys(query: str, keys: Sequence[str]) -> str:
    """Return a query with a placeholder for each key."""
    return query.replace("KEYS", ", ".join("?" * len(keys)))
