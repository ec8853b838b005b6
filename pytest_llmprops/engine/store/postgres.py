"""The reply store in a PostgreSQL database, for the runs of several machines (extra ``postgres``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

from pytest_llmprops.core.errors import MissingExtra, StoreError, UsageError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.texts import terminal_line
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

if TYPE_CHECKING:
    import psycopg


T = TypeVar("T")
#: seconds before each further attempt after the connection is lost; the last one also before those that follow
RECONNECT_WAITS = (0.2, 1.0, 3.0)
#: seconds to wait for a lost server outside of a run
RECONNECT_SECONDS = 5.0
#: the encodings of a database that can hold every text; SQL_ASCII, of a server in the C locale, keeps any bytes
_ENCODINGS = ("UTF8", "SQL_ASCII")
#: libpq's settings where the URL has none: a server that is gone is noticed within half a minute
_DEFAULTS = {
    "application_name": "llmprops",
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_TABLES = """
CREATE TABLE llmprops_replies (key text PRIMARY KEY, stored float8 NOT NULL, model text NOT NULL, reply text NOT NULL);
CREATE INDEX llmprops_replies_model ON llmprops_replies (model);
CREATE TABLE llmprops_store (version integer NOT NULL);
INSERT INTO llmprops_store VALUES (1);
"""
_EXISTS: LiteralString = (
    "SELECT 1 FROM pg_class WHERE relname = 'llmprops_store' AND pg_table_is_visible(oid)"
)
#: any number, which other programs are unlikely to lock
_CREATION_LOCK = 0x6C6C6D7072


_GET: LiteralString = "SELECT key, reply FROM llmprops_replies WHERE key = ANY(%s)"
_PUT = """
INSERT INTO llmprops_replies (key, stored, model, reply)
SELECT * FROM unnest(%s::text[], %s::float8[], %s::text[], %s::text[])
ON CONFLICT (key) DO UPDATE SET stored = excluded.stored, model = excluded.model, reply = excluded.reply
"""
_MODELS = """
SELECT model, count(*), min(stored), max(stored) FROM llmprops_replies GROUP BY model ORDER BY model COLLATE "C"
"""
_SIZE = "SELECT pg_total_relation_size('llmprops_replies')"
_PRUNE = "DELETE FROM llmprops_replies WHERE stored < %s AND (%s::text IS NULL OR model = %s)"


class PostgresStore:
    """A :class:`~pytest_llmprops.engine.store.base.Store` on a server, through one connection.

    A lost connection is opened again.

    :param url: ``postgresql://...``; what it leaves out comes from libpq's environment variables and files.
    :param place: the URL without its password. :param read_only: use the tables as they are.
    :param timeout: seconds to wait for a server that is lost; all methods then raise StoreError.
    :raises MissingExtra: if psycopg is not installed.
    :raises StoreError: if the server does not accept the connection, or the tables cannot be used.
    """

    def __init__(self, url: str, place: str, *, read_only: bool, timeout: float) -> None:
        try:
            import psycopg
            from psycopg import conninfo
        except ImportError:
            raise MissingExtra(f"--llm-store {place}", package="psycopg", extra="postgres") from None
        self.notes: list[str] = []
        self._psycopg = psycopg
        self.place = place
        try:
            given = conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # libpq's message may quote a part of the password.
            raise UsageError(f"--llm-store {place}: libpq cannot read this URL") from None
        self._password = str(given.get("password") or "")
        # In the encoding of an SQL_ASCII database, psycopg returns bytes for texts.
        self._settings: dict[str, Any] = {**_DEFAULTS, **given, "client_encoding": "utf8"}
        self._timeout = timeout
        self._db: psycopg.Connection[Any] | None = None
        #: why the server cannot be used any more; None while it can
        self._failure: StoreError | None = None
        try:
            self._db = self._connect()
        except psycopg.Error as error:
            raise self._error(error) from None
        try:
            self._check_encoding()
            self._tables_version = self._checked_version(read_only=read_only)
        except BaseException:
            self.close()
            raise

    def _check_encoding(self) -> None:
        [[encoding]] = self._query("SHOW server_encoding")
        if encoding not in _ENCODINGS:
            raise StoreError(
                f"reply store {self.place}: the database has the encoding {encoding}, which cannot hold every reply;"
                " create one with ENCODING 'UTF8' TEMPLATE template0"
            )

    def _checked_version(self, *, read_only: bool) -> int:
        """Return the version of the tables, which are created if necessary."""
        version = self._version()
        if not version and not read_only:
            self._create()
            version = self._version()
        if version > VERSION:
            raise StoreError(
                f"reply store {self.place}: has version {version} of the tables, and this package knows {VERSION};"
                " upgrade pytest-llmprops, or use another database"
            )
        if version == 0:
            raise StoreError(f"reply store {self.place}: has no tables; run once without --llm-cache only")
        return version

    def _connect(self) -> psycopg.Connection[Any]:
        # No prepared statements: poolers such as PgBouncer may give each statement another connection.
        return self._psycopg.connect(autocommit=True, prepare_threshold=None, **self._settings)

    def _error(self, error: Exception) -> StoreError:
        text = terminal_line(" ".join(str(error).split())) or type(error).__name__
        if self._password:
            text = text.replace(self._password, "***")
        return StoreError(f"reply store {self.place}: {text}")

    def _run(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Return the result of ``work``, which is repeated if the connection is lost.

        :raises StoreError: if it refuses a statement, or does not come back in time; later calls then fail at once.
        """
        if self._failure is not None:
            raise self._failure
        psycopg = self._psycopg
        first: Exception | None = None
        until = 0.0
        for wait in chain(RECONNECT_WAITS, repeat(RECONNECT_WAITS[-1])):
            try:
                if self._db is None:
                    self._db = self._connect()
                return work(self._db)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                if first is None:
                    # Its message says more than those of the attempts to connect again.
                    first, until = error, time.monotonic() + self._timeout
                if time.monotonic() >= until:
                    break
                time.sleep(min(wait, max(0.0, until - time.monotonic())))
            except psycopg.Error as error:
                raise self._error(error) from None
        assert first is not None
        self._failure = self._error(first)
        raise self._failure

    def _version(self) -> int:
        """Return the version of the tables; 0 if there are none."""
        # to_regclass() may answer from a cache that does not know what another run has just created.
        found = self._query(_EXISTS)
        if not found:
            return 0
        rows = self._query("SELECT version FROM llmprops_store")
        return int(rows[0][0]) if rows else 0

    def _create(self) -> None:
        def work(db: psycopg.Connection[Any]) -> None:
            with db.transaction():
                # Several runs may begin with an empty database at the same time.
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
                if not self._version():
                    db.execute(_TABLES)

        try:
            self._run(work)
        except StoreError as error:
            raise StoreError(
                f"{error}; the owner of the database creates the tables: llmprops store URL"
            ) from None

    def _query(self, query: LiteralString, values: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self._run(lambda db: db.execute(query, values).fetchall())

    def _change(self, query: LiteralString, values: Any = None) -> int:
        """Return the number of rows that a statement changed."""
        return self._run(lambda db: db.execute(query, values).rowcount)

    def get_many(self, keys: Collection[str]) -> dict[str, Reply]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        names = {safe_key(key): key for key in keys}
        texts = ((name, text) for part in statements(names) for name, text in self._query(_GET, (part,)))
        return replies_of(texts, names, self.place, self.notes)

    def put_many(self, rows: Collection[Row]) -> None:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        # A statement takes each key once. The order of the keys keeps two runs from waiting for each other.
        last = {row.key: row for row in (row._replace(key=safe_key(row.key)) for row in rows)}
        for part in statements([last[key] for key in sorted(last)]):
            columns = [list(column) for column in zip(*part, strict=True)]
            self._change(_PUT, columns)

    def holds_replies(self, model: str) -> bool:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        query = "SELECT 1 FROM llmprops_replies WHERE model = %s LIMIT 1"
        return bool(self._query(query, (safe_label(model),)))

    def info(self) -> StoreInfo:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        models = [ModelReplies(*row) for row in self._query(_MODELS)]
        [[size]] = self._query(_SIZE)
        return StoreInfo(self._tables_version, size, models)

    def prune(self, *, before: float, model: str | None) -> int:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        label = None if model is None else safe_label(model)
        return self._change(_PRUNE, (before, label, label))

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            db, self._db = self._db, None
            db.close()
