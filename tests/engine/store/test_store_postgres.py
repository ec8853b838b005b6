"""The store on a server: tables, rights, and connections that are lost."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.engine.store import postgres as postgres_server
from pytest_llmprops.engine.store.base import VERSION, Store
from pytest_llmprops.engine.store.location import open_store
from tests.support.postgres import PostgresServer
from tests.support.runs import ROOT
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
    """Unknown tables are one line that says what to do."""
    open_store(database).close()
    change(database, "UPDATE llmprops_store SET version = 99")
    with pytest.raises(StoreError, match=r"has version 99 of the tables.*upgrade pytest-llmprops"):
        open_store(database)


def test_only_reads_a_database_without_tables(database: str) -> None:
    """A store that is opened for reading creates no tables."""
    with pytest.raises(StoreError, match="has no tables; run once without --llm-cache only"):
        open_store(database, read_only=True)
    open_store(database).close()
    open_store(database, read_only=True).close()


def test_a_lost_connection_is_opened_again(
    database: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on after the server ended its connection, and keeps its claims."""
    monkeypatch.setattr(postgres_server, "RECONNECT_WAITS", (0.01, 0.05))
    with closing(open_store(database)) as store, closing(open_store(database)) as other:
        put(store, "k", REPLY)
        store.claim(["a"])
        name = database.rpartition("/test_")[2].partition("?")[0]
        postgres.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test_{name}'"
        )
        assert get(store, "k") == REPLY
        assert other.claim(["a"]) == set()
        assert store.claim(["a"]) == {"a"}


def test_the_grants_of_the_documentation_suffice(postgres: PostgresServer) -> None:
    """With the documented rights, users can run, readers can replay, and neither can change the tables."""
    roles, grants = code_of(ROOT / "docs" / "store.md", "sql")
    name = postgres.new_database()
    roles = roles.replace("DATABASE llmprops", f"DATABASE {name}")
    statements = [line for line in roles.splitlines() if not line.startswith(("CREATE DATABASE", r"\c"))]
    postgres.execute("".join(statements), database=name)
    open_store(postgres.url(name, user="llmprops_owner")).close()
    postgres.execute(grants, database=name)
    user = postgres.url(name, user="alice")
    with closing(open_store(user)) as store:
        assert store.claim(["k"]) == {"k"}
        put(store, "k", REPLY)
        assert store.listed_since("http://s", "list") == 0.0
        store.beat()
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
    with pytest.raises(StoreError, match=r"permission denied for schema public.*llmprops store info URL"):
        open_store(postgres.url(name, user="plain"))
