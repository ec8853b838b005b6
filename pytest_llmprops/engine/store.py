"""The reply store: one SQLite file, so that no reply is paid for twice."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.core.texts import first_names

CacheMode = Literal["reuse", "refresh", "off", "only"]
#: Another run holds the write lock during a commit; a minute is enough even on a stalled disk.
BUSY_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, stored REAL NOT NULL, model TEXT NOT NULL, reply TEXT NOT NULL
) WITHOUT ROWID
"""

_COLUMNS = {"key", "stored", "model", "reply"}
_SERVERS = """
CREATE TABLE IF NOT EXISTS servers (url TEXT PRIMARY KEY, models TEXT NOT NULL, since REAL NOT NULL) WITHOUT ROWID
"""


def default_store() -> Path:
    """Return ``replies.sqlite`` in the user's cache directory.

    :raises StoreError: if the user has no home directory.
    """
    from platformdirs import user_cache_path

    try:
        return user_cache_path("pytest-llmprops") / "replies.sqlite"
    except RuntimeError:
        raise StoreError(
            "reply store: the user has no home directory; set HOME or XDG_CACHE_HOME, or give --llm-store FILE"
        ) from None


class ReplyStore:
    """Replies by request key (:func:`~pytest_llmprops.core.requests.request_key`).

    Several runs may share one file. A damaged file is renamed and reported in
    ``notes``; it is never emptied. The database of another program is refused and not changed. Errors of models are not
    stored.

    :param read_only: open an existing file without writing to it, so that it may be on a read-only disk.
    :raises StoreError: if the file cannot be opened.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.notes: list[str] = []
        self._full = False
        self._read_only = read_only and path.is_file()
        try:
            self._db = self._open()
        except sqlite3.DatabaseError as error:
            if self._read_only or not _damaged(error):
                raise StoreError(f"reply store {path}: {error}; give another with --llm-store FILE") from None
            self._set_aside(error)
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        if self._read_only:
            return _open_read_only(self.path)
        _check_own(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Create the file before SQLite does, so that it is private from the start.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self.path.chmod(0o600)
        except OSError as error:
            raise StoreError(
                f"reply store {self.path}: {error.strerror}; give a writable file with --llm-store FILE"
            ) from None
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            # NORMAL does not fsync each commit: a killed process loses nothing, a power failure the last commits.
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(_SCHEMA)
            db.execute(_SERVERS)
            db.execute("SELECT key, stored, model, reply FROM replies LIMIT 1").fetchone()
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _set_aside(self, error: Exception) -> None:
        stamp = f"{self.path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}"
        aside = self.path.with_name(stamp)
        for number in itertools.count(2):
            if not aside.exists():
                break
            aside = self.path.with_name(f"{stamp}-{number}")
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            extra = self.path.with_name(self.path.name + suffix)
            if extra.exists():
                extra.replace(aside.with_name(aside.name + suffix))
        self.notes.append(
            f"reply store {self.path} is damaged ({error}); set aside as {aside.name}, a new one is used"
        )

    def get(self, key: str, *, not_before: float = 0.0) -> Reply | None:
        """Return the stored reply; None if there is none, or if it is older than the Unix time ``not_before``."""
        try:
            row = self._db.execute("SELECT reply, stored FROM replies WHERE key = ?", (key,)).fetchone()
        except sqlite3.DatabaseError as error:
            if self._read_only or not _damaged(error):
                raise StoreError(f"reply store {self.path}: {error}") from None
            self._db.close()
            self._set_aside(error)
            self._db = self._open()
            return None
        if row is None or row[1] < not_before:
            return None
        try:
            return Reply.from_json(parsed_json(row[0]), key=key, cached=True)
        except (ValueError, KeyError, TypeError):
            self.notes.append(
                f"reply store {self.path}: the entry {key[:12]} is unreadable and is asked again"
            )
            return None

    def put(self, key: str, model: str, reply: Reply) -> None:
        """Store ``reply``. A full disk is noted once and does not stop the run, which still has the reply."""
        data = json.dumps(reply.to_json(), ensure_ascii=False)
        if not _is_utf8(data):
            # Lone surrogates of an untrusted reply: escapes preserve them.
            data = json.dumps(reply.to_json())
        try:
            self._db.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (key, reply.stored, model, data)
            )
        except sqlite3.DatabaseError as error:
            if not self._full:
                self._full = True
                self.notes.append(
                    f"reply store {self.path}: {error}; later replies of this run may not be kept"
                )

    def listed_since(self, url: str, models: str) -> float:
        """Return the Unix time since which a server lists these models, as far as runs with this store know.

        0 if this is the first list of the server, or the store cannot tell.

        :param models: a hash of the list, which is kept for later runs.
        """
        try:
            row = self._db.execute("SELECT models, since FROM servers WHERE url = ?", (url,)).fetchone()
            if row is not None and row[0] == models:
                return float(row[1])
            since = time.time() if row is not None else 0.0
            self._db.execute("INSERT OR REPLACE INTO servers VALUES (?, ?, ?)", (url, models, since))
        except sqlite3.DatabaseError:
            # The replies decide whether a store can be used.
            return 0.0
        return since

    def close(self) -> None:
        """Close the file. SQLite merges the write-ahead log if no other run uses the file."""
        self._db.close()


def _check_own(path: Path) -> None:
    """Raise StoreError if the file is a database without replies, before it is changed in any way."""
    if not path.is_file():
        return
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {row[1] for row in db.execute("PRAGMA table_info(replies)")}
    if tables and not columns >= _COLUMNS:
        raise StoreError(
            f"reply store {path}: is the database of another program (tables {first_names(tables)});"
            " name another file with --llm-store FILE"
        )


def _open_read_only(path: Path) -> sqlite3.Connection:
    # On a read-only disk, SQLite can read a file with a write-ahead log only if it is said not to change.
    for more in ("", "&immutable=1"):
        uri = f"{path.resolve().as_uri()}?mode=ro{more}"
        db = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("SELECT key, stored, model, reply FROM replies LIMIT 1").fetchone()
        except sqlite3.Error:
            db.close()
            if more:
                raise
        else:
            return db
    raise AssertionError("unreachable")  # pragma: no cover


def holds_replies(path: Path, model: str) -> bool:
    """Return whether the store file has any reply of ``model``; False if it cannot be read."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return (
                db.execute("SELECT 1 FROM replies WHERE model = ? LIMIT 1", (model,)).fetchone() is not None
            )
    except sqlite3.Error:
        return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _damaged(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "no such column" in str(error)
