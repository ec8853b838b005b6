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

CacheMode = Literal["reuse", "refresh", "off", "only"]
#: Another run holds the write lock during a commit; a minute is enough even on a stalled disk.
BUSY_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, stored REAL NOT NULL, model TEXT NOT NULL, reply TEXT NOT NULL
) WITHOUT ROWID
"""


def default_store() -> Path:
    """Return ``replies.sqlite`` in the user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("pytest-llmprops") / "replies.sqlite"


class ReplyStore:
    """Replies by request key (:func:`~pytest_llmprops.core.requests.request_key`).

    Several runs may share one file. A damaged file is renamed and reported in
    ``notes``; it is never emptied. Errors of models are not stored.

    :raises StoreError: if the file cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self._full = False
        try:
            self._db = self._open()
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise StoreError(f"reply store {path}: {error}; give another with --llm-store FILE") from None
            self._set_aside(error)
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
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
            if not _damaged(error):
                raise StoreError(f"reply store {self.path}: {error}") from None
            self._db.close()
            self._set_aside(error)
            self._db = self._open()
            return None
        if row is None or row[1] < not_before:
            return None
        try:
            return Reply.from_json(json.loads(row[0]), key=key, cached=True)
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

    def close(self) -> None:
        """Close the file. SQLite merges the write-ahead log if no other run uses the file."""
        self._db.close()


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
