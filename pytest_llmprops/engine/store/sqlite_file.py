"""The file of a SQLite store: how it is created, opened, migrated and set aside."""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.engine.store.base import VERSION

#: Another run holds the write lock during a commit; a minute is enough even on a stalled disk.
BUSY_SECONDS = 60.0
_COLUMNS = {"key", "stored", "model", "reply"}
#: the first bytes of a SQLite file
_HEADER = b"SQLite format 3\0"
#: statements that bring a store from each version to the next; the first version has no number in the file
_MIGRATIONS = (
    # Keys are random. Replies that are sorted by them, as in older stores, each change a page of their own. Here they
    # are appended, and only the index, which is much smaller, is changed everywhere.
    """
    CREATE TABLE IF NOT EXISTS replies (
        key TEXT PRIMARY KEY NOT NULL, stored REAL NOT NULL, model TEXT NOT NULL, reply TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS servers (
        url TEXT PRIMARY KEY, models TEXT NOT NULL, since REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE processes (
        id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, beat REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
    """,
)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection to the store, which is created or migrated if necessary.

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
            _migrate(db)
        db.execute("SELECT key, stored, model, reply FROM replies LIMIT 1").fetchone()
    except (sqlite3.Error, StoreError):
        db.close()
        raise
    return db


def set_aside(path: Path) -> Path:
    """Rename the file of a store and what SQLite keeps next to it, and return the new path."""
    stamp = f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}"
    aside = path.with_name(stamp)
    for number in itertools.count(2):
        if not aside.exists():
            break
        aside = path.with_name(f"{stamp}-{number}")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        extra = path.with_name(path.name + suffix)
        if extra.exists():
            extra.replace(aside.with_name(aside.name + suffix))
    return aside


def _version(path: Path, db: sqlite3.Connection) -> int:
    """Return the version of the store.

    :raises StoreError: if it is from a later version of this package.
    """
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(
            f"reply store {path}: has version {version} of the tables, and this package knows {VERSION};"
            " upgrade pytest-llmprops, or name another file with --llm-store FILE"
        )
    return version


def _migrate(db: sqlite3.Connection) -> None:
    # Another process may do the same now; the lock comes before the version is read.
    db.execute("BEGIN IMMEDIATE")
    try:
        for number in range(db.execute("PRAGMA user_version").fetchone()[0], VERSION):
            for statement in _MIGRATIONS[number].split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


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
            f"reply store {path}: is no SQLite file; name another file with --llm-store FILE, or move this one away"
        )
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
    """Return whether the error means that the file is not a whole store."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "no such column" in str(error)
