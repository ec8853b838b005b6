"""The store on a server: tables, rights, lost connections; TLS, passwords and a pooler between them."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.engine.store import postgres as postgres_server
from pytest_llmprops.engine.store.base import VERSION, Store
from pytest_llmprops.engine.store.location import open_store, without_hidden_password, without_password
from pytest_llmprops.engine.store.postgres import PostgresStore
from tests.support.postgres import START_SECONDS, PostgresServer
from tests.support.runs import ROOT
from tests.support.servers import free_port
from tests.support.stores import REPLY, change, get, put


def code_of(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a page in a language."""
    parts = page.read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    return [part.split("```")[0] for part in parts]


def test_runs_that_begin_together_create_the_tables_once(database: str) -> None:
    """Several processes may open an empty database at the same time."""
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(open_store(database))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.info().version for store in stores] == [VERSION] * 5
    for store in stores:
        store.close()


def test_tables_of_a_later_version_are_refused(database: str) -> None:
    """Unknown tables, and no tables for a store that is only read, are one line that says what to do."""
    with pytest.raises(StoreError, match="has no tables; run once without --llm-cache only"):
        open_store(database, read_only=True)
    open_store(database).close()
    change(database, "UPDATE llmprops_store SET version = 99")
    with pytest.raises(StoreError, match=r"has version 99 of the tables.*upgrade pytest-llmprops"):
        open_store(database)


def test_texts_of_all_languages_are_kept(postgres: PostgresServer) -> None:
    """A database of a server in the C locale has the encoding SQL_ASCII, and keeps every text.

    One that cannot is refused in a line that names the encoding and the fix.
    """
    name = "in_sql_ascii"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    reply = replace(REPLY, text="中 é \x00 \ud800")
    with closing(open_store(postgres.url(name))) as store:
        put(store, "键", reply, model="模型")
        found = get(store, "键")
        assert found is not None
        assert found.text == reply.text
        assert [one.model for one in store.info().models] == ["模型"]
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(StoreError, match=r"has the encoding LATIN1.*ENCODING 'UTF8'"):
        open_store(postgres.url("latin"))


def test_statements_are_not_prepared(database: str) -> None:
    """A pooler of transactions, such as PgBouncer, may give each statement another connection."""
    with closing(PostgresStore(database, database, read_only=False, timeout=5.0)) as store:
        db = store._db  # noqa: SLF001
        assert db is not None
        assert (db.prepare_threshold, db.autocommit) == (None, True)


def test_a_lost_connection_is_opened_again(
    database: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on after the server ended its connection."""
    monkeypatch.setattr(postgres_server, "RECONNECT_WAITS", (0.01, 0.05))
    with closing(open_store(database)) as store:
        put(store, "k", REPLY)
        name = database.rpartition("/test_")[2].partition("?")[0]
        postgres.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test_{name}'"
        )
        assert get(store, "k") == REPLY


def test_the_grants_of_the_documentation_suffice(postgres: PostgresServer) -> None:
    """With the documented rights, users can run, readers can replay, and neither can change the tables."""
    roles, grants = code_of(ROOT / "docs" / "scale.md", "sql")
    name = postgres.new_database()
    roles = roles.replace("DATABASE llmprops", f"DATABASE {name}")
    statements = [line for line in roles.splitlines() if not line.startswith(("CREATE DATABASE", r"\c"))]
    postgres.execute("".join(statements), database=name)
    open_store(postgres.url(name, user="llmprops_owner")).close()
    postgres.execute(grants, database=name)
    user = postgres.url(name, user="alice")
    with closing(open_store(user)) as store:
        put(store, "k", REPLY)
        with pytest.raises(StoreError, match="permission denied"):
            store.prune(before=1e12, model=None)
    for statement in (
        "DROP TABLE llmprops_replies",
        "TRUNCATE llmprops_replies",
        "CREATE TABLE mine (a int)",
    ):
        with pytest.raises(Exception, match=r"permission denied|must be owner"):
            change(user, statement)
    with closing(open_store(postgres.url(name, user="dashboard"), read_only=True)) as store:
        assert get(store, "k") == REPLY
        with pytest.raises(StoreError, match="permission denied"):
            put(store, "k", REPLY)


def test_a_user_who_may_not_create_tables_is_told(postgres: PostgresServer) -> None:
    """An empty database without the right to create tables is one line that says who does."""
    name = postgres.new_database()
    postgres.execute("CREATE ROLE plain LOGIN", "REVOKE CREATE ON SCHEMA public FROM public", database=name)
    with pytest.raises(StoreError, match=r"permission denied for schema public.*llmprops store URL"):
        open_store(postgres.url(name, user="plain"))


PASSWORD = "s3cret/pass word"
IN_URL = "s3cret%2Fpass%20word"


class Remote(NamedTuple):
    """A server that accepts only TLS with a password, and the file of the authority that signed its certificate."""

    server: PostgresServer
    authority: Path

    def url(self, password: str = IN_URL, **settings: str) -> str:
        """Return the URL of the database over TCP."""
        more = "".join(f"&{name}={value}" for name, value in settings.items())
        return (
            f"postgresql://alice:{password}@localhost:{self.server.port}/shared?hostaddr=127.0.0.1&sslmode=verify-full"
            f"&sslrootcert={self.authority}{more}"
        )


@pytest.fixture(scope="module")
def remote(start_postgres: Callable[..., PostgresServer], tmp_path_factory: pytest.TempPathFactory) -> Remote:
    """Start a server that accepts only TLS with a password."""
    import trustme

    folder = tmp_path_factory.mktemp("tls")
    authority, other = folder / "authority.pem", trustme.CA()
    other.cert_pem.write_to_path(str(authority))
    certificate = other.issue_cert("localhost")
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(free_port()),
        "password_encryption": "scram-sha-256",
    }
    server = start_postgres(settings, "hostssl all all 127.0.0.1/32 scram-sha-256")
    data = server.folder / "data"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(data / "server.pem"))
    (data / "server.pem").chmod(0o600)
    if os.geteuid() == 0:
        shutil.chown(data / "server.pem", server.user)
    server.execute(
        *(f"ALTER SYSTEM SET {name} = 'server.pem'" for name in ("ssl_cert_file", "ssl_key_file")),
        "ALTER SYSTEM SET ssl = on",
        "SELECT pg_reload_conf()",
        f"CREATE ROLE alice LOGIN PASSWORD '{PASSWORD}'",
        "CREATE DATABASE shared OWNER alice",
    )
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            open_store(Remote(server, authority).url()).close()
        except StoreError:
            time.sleep(0.05)  # the server reads its settings when it has time
        else:
            break
    return Remote(server, authority)


def test_a_recorded_url_works_with_the_password_elsewhere(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL of a record has no password; libpq takes it from PGPASSWORD or from the file of PGPASSFILE."""
    url = without_hidden_password(without_password(remote.url()))
    assert url.startswith("postgresql://alice@localhost")
    with pytest.raises(StoreError, match="no password supplied"):
        open_store(url)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with closing(open_store(url)) as store:
        put(store, "over-tls", REPLY)
        assert get(store, "over-tls") is not None
    monkeypatch.delenv("PGPASSWORD")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"localhost:*:shared:alice:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    open_store(url).close()


def test_a_wrong_password_is_one_line_without_it(remote: Remote) -> None:
    """The message shows neither the given password nor a traceback."""
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        open_store(remote.url("wr0ng-password"))
    assert "wr0ng" not in str(caught.value)
    assert "\n" not in str(caught.value)
