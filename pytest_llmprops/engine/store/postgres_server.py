"""The connection to a PostgreSQL server, and the tables of the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmprops.core.errors import MissingExtra, StoreError, UsageError
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.engine.store.base import VERSION

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
#: seconds before each further attempt after the connection is lost
RECONNECT_WAITS = (0.2, 1.0, 3.0)
#: libpq's settings where the URL has none: a server that is gone is noticed within half a minute
_DEFAULTS = {
    "application_name": "llmprops",
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
#: statements that bring the tables from each version to the next
_MIGRATIONS = (
    """
    CREATE TABLE llmprops_replies (
        key text PRIMARY KEY, stored float8 NOT NULL, model text NOT NULL, reply text NOT NULL
    );
    CREATE INDEX llmprops_replies_model ON llmprops_replies (model);
    CREATE TABLE llmprops_servers (url text PRIMARY KEY, models text NOT NULL, since float8 NOT NULL);
    CREATE TABLE llmprops_processes (
        id text PRIMARY KEY, host text NOT NULL, pid bigint NOT NULL, beat timestamptz NOT NULL
    );
    CREATE TABLE llmprops_claims (key text PRIMARY KEY, owner text NOT NULL);
    CREATE TABLE llmprops_store (version integer NOT NULL);
    INSERT INTO llmprops_store VALUES (1);
    """,
)
_EXISTS = "SELECT 1 FROM pg_class WHERE relname = 'llmprops_store' AND pg_table_is_visible(oid)"
#: any number, which other programs are unlikely to lock
_MIGRATION_LOCK = 0x6C6C6D7072


class Server:
    """One connection, which is opened again if it is lost.

    :param url: ``postgresql://...``. :param place: the URL without its password.
    :param read_only: do not create or migrate the tables.
    :raises MissingExtra: if psycopg is not installed.
    :raises StoreError: if the server does not accept the connection, or the tables cannot be used.
    """

    def __init__(self, url: str, place: str, *, read_only: bool) -> None:
        try:
            import psycopg
            from psycopg import conninfo
        except ImportError:
            raise MissingExtra(f"--llm-store {place}", package="psycopg", extra="postgres") from None
        self._psycopg = psycopg
        self._place = place
        try:
            given = conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # libpq's message may quote a part of the password.
            raise UsageError(f"--llm-store {place}: libpq cannot read this URL") from None
        self._password = str(given.get("password") or "")
        self._settings: dict[str, Any] = {**_DEFAULTS, **given}
        self._db: psycopg.Connection[Any] | None = None
        #: why the server cannot be used any more; None while it can
        self._failure: StoreError | None = None
        try:
            self._db = self._connect()
        except psycopg.Error as error:
            raise self._error(error) from None
        try:
            self.version = self._checked_version(read_only=read_only)
        except BaseException:
            self.close()
            raise

    def _checked_version(self, *, read_only: bool) -> int:
        """Return the version of the tables, which are created or migrated if necessary."""
        version = self._version()
        if version < VERSION and not read_only:
            version = self._migrated()
        if version > VERSION:
            raise StoreError(
                f"reply store {self._place}: has version {version} of the tables, and this package knows {VERSION};"
                " upgrade pytest-llmprops, or use another database"
            )
        if version == 0:
            raise StoreError(f"reply store {self._place}: has no tables; run once without --llm-cache only")
        return version

    def _connect(self) -> psycopg.Connection[Any]:
        # No prepared statements: poolers such as PgBouncer may give each statement another connection.
        return self._psycopg.connect(autocommit=True, prepare_threshold=None, **self._settings)

    def _error(self, error: Exception) -> StoreError:
        text = terminal_line(" ".join(str(error).split())) or type(error).__name__
        if self._password:
            text = text.replace(self._password, "***")
        return StoreError(f"reply store {self._place}: {text}")

    def run(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Return the result of ``work``, which is repeated if the connection is lost.

        :raises StoreError: if the server does not come back, or refuses a statement.
        """
        if self._failure is not None:
            raise self._failure
        psycopg = self._psycopg
        first: Exception | None = None
        for wait in (*RECONNECT_WAITS, None):
            try:
                if self._db is None:
                    self._db = self._connect()
                return work(self._db)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                # The first message says more than those of the attempts to connect again.
                first = first or error
                self.close()
                if wait is not None:
                    time.sleep(wait)
            except psycopg.Error as error:
                raise self._error(error) from None
        assert first is not None
        self._failure = self._error(first)
        raise self._failure

    def _version(self) -> int:
        """Return the version of the tables; 0 if there are none."""
        # to_regclass() may answer from a cache that does not know what another run has just created.
        found = self.run(lambda db: db.execute(_EXISTS).fetchall())
        if not found:
            return 0
        rows = self.run(lambda db: db.execute("SELECT version FROM llmprops_store").fetchall())
        return int(rows[0][0]) if rows else 0

    def _migrated(self) -> int:
        """Create or migrate the tables, and return their version."""

        def work(db: psycopg.Connection[Any]) -> None:
            with db.transaction():
                # Several runs may begin with an empty database at the same time.
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
                for number in range(self._version(), VERSION):
                    db.execute(_MIGRATIONS[number])

        try:
            self.run(work)
        except StoreError as error:
            raise StoreError(
                f"{error}; the owner of the database creates the tables: llmprops store info URL"
            ) from None
        return self._version()

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            db, self._db = self._db, None
            db.close()
