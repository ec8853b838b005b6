"""The reply store in a PostgreSQL database, for the runs of several machines (extra ``postgres``)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence
from typing import Any, LiteralString

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store.base import (
    LEASE_SECONDS,
    ModelReplies,
    Row,
    StoreInfo,
    replies_of,
    safe_key,
    safe_label,
    statements,
)
from pytest_llmprops.engine.store.owners import Owner
from pytest_llmprops.engine.store.postgres_server import Server

_GET: LiteralString = "SELECT key, reply FROM llmprops_replies WHERE key = ANY(%s)"
# One statement, so that no other run sees a request without its claim and without its reply.
_PUT = """
WITH given AS (SELECT * FROM unnest(%s::text[], %s::float8[], %s::text[], %s::text[])),
ended AS (DELETE FROM llmprops_claims WHERE owner = %s AND key = ANY(%s))
INSERT INTO llmprops_replies AS old (key, stored, model, reply) SELECT * FROM given
ON CONFLICT (key) DO UPDATE SET stored = excluded.stored, model = excluded.model, reply = excluded.reply
"""
_ONLY_NEWER = "WHERE excluded.stored > old.stored"
# The first condition keeps a run that waits from locking the rows of the others.
_CLAIM = """
INSERT INTO llmprops_claims AS old (key, owner) SELECT key, %(me)s FROM unnest(%(keys)s::text[]) AS given (key)
WHERE NOT EXISTS (
    SELECT FROM llmprops_claims JOIN llmprops_processes ON id = owner
    WHERE llmprops_claims.key = given.key AND owner != %(me)s AND beat > clock_timestamp() - %(lease)s * interval '1 s'
)
ORDER BY key
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner WHERE old.owner = excluded.owner OR NOT EXISTS (
    SELECT FROM llmprops_processes WHERE id = old.owner AND beat > clock_timestamp() - %(lease)s * interval '1 s'
)
RETURNING key
"""
_RELEASE = "DELETE FROM llmprops_claims WHERE owner = %s AND key = ANY(%s)"
_BEAT = """
INSERT INTO llmprops_processes (id, host, pid, beat) VALUES (%s, %s, %s, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET beat = excluded.beat
"""
_OTHERS = """
SELECT id, host, pid, beat < clock_timestamp() - %s * interval '1 s' FROM llmprops_processes WHERE id != %s
"""
_MODELS = """
SELECT model, count(*), min(stored), max(stored) FROM llmprops_replies GROUP BY model ORDER BY model COLLATE "C"
"""
_SIZE = "SELECT pg_total_relation_size('llmprops_replies')"
_CLAIMS = "SELECT count(DISTINCT owner), count(*) FROM llmprops_claims JOIN llmprops_processes ON id = owner"
_PAGE = """
SELECT key, stored, model, reply FROM llmprops_replies WHERE key > %s ORDER BY key LIMIT %s
"""
_PRUNE = "DELETE FROM llmprops_replies WHERE stored < %s AND (%s::text IS NULL OR model = %s)"


class PostgresStore:
    """A :class:`~pytest_llmprops.engine.store.base.Store` on a server, through one connection.

    A lost connection is opened again a few times. Leases are measured by the clock of the server.

    :param url: ``postgresql://...``; what it leaves out comes from libpq's environment variables and files.
    :param place: the URL without its password. :param read_only: use the tables as they are.
    :raises MissingExtra: if psycopg is not installed.
    :raises StoreError: if the server does not accept the connection, or the tables cannot be used.
    """

    def __init__(self, url: str, place: str, *, read_only: bool = False) -> None:
        self.notes: list[str] = []
        self.place = place
        self._owner = Owner()
        self._has_claimed = False
        self._server = Server(url, place, read_only=read_only)

    def _run(self, query: LiteralString, values: Any = None) -> list[tuple[Any, ...]]:
        return self._server.run(lambda db: db.execute(query, values).fetchall())

    def _change(self, query: LiteralString, values: Any = None) -> int:
        """Return the number of rows that a statement changed."""
        return self._server.run(lambda db: db.execute(query, values).rowcount)

    def get_many(self, keys: Collection[str]) -> dict[str, Reply]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        names = {safe_key(key): key for key in keys}
        texts = ((name, text) for part in statements(names) for name, text in self._run(_GET, (part,)))
        return replies_of(texts, names, self.place, self.notes)

    def state(self) -> object:
        """See :class:`~pytest_llmprops.engine.store.base.Store`; a server does not tell."""
        return object()

    def put_many(self, rows: Collection[Row], *, only_newer: bool = False) -> int:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        # A statement takes each key once. The order of the keys keeps two runs from waiting for each other.
        last = {row.key: row for row in (row._replace(key=safe_key(row.key)) for row in rows)}
        stored = 0
        for part in statements([last[key] for key in sorted(last)]):
            columns = [list(column) for column in zip(*part, strict=True)]
            query = f"{_PUT}{_ONLY_NEWER}" if only_newer else _PUT
            stored += self._change(query, (*columns, self._owner.id, columns[0]))
        return stored

    def claim(self, keys: Collection[str]) -> set[str]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        if not self._has_claimed:
            self._has_claimed = True
            self.beat()
        names = {safe_key(key): key for key in keys}
        values = {"me": self._owner.id, "lease": LEASE_SECONDS}
        return {
            names[name]
            for part in statements(sorted(names))
            for [name] in self._run(_CLAIM, {**values, "keys": part})
        }

    def release(self, keys: Collection[str]) -> None:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        if self._has_claimed:
            self._change(_RELEASE, (self._owner.id, [safe_key(key) for key in keys]))

    def beat(self) -> None:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        if not self._has_claimed:
            return
        owner = self._owner
        self._change(_BEAT, (owner.id, owner.host, owner.pid))
        ended = [
            id_
            for id_, host, pid, is_late in self._run(_OTHERS, (LEASE_SECONDS, owner.id))
            if is_late or owner.knows_ended(host, pid)
        ]
        if ended:
            self._change("DELETE FROM llmprops_claims WHERE owner = ANY(%s)", (ended,))
            self._change("DELETE FROM llmprops_processes WHERE id = ANY(%s)", (ended,))

    def listed_since(self, url: str, models: str) -> float:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        found = self._run("SELECT models, since FROM llmprops_servers WHERE url = %s", (url,))
        if found and found[0][0] == models:
            return float(found[0][1])
        since = time.time() if found else 0.0
        self._change(
            "INSERT INTO llmprops_servers (url, models, since) VALUES (%s, %s, %s)"
            " ON CONFLICT (url) DO UPDATE SET models = excluded.models, since = excluded.since",
            (url, models, since),
        )
        return since

    def holds_replies(self, model: str) -> bool:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        query = "SELECT 1 FROM llmprops_replies WHERE model = %s LIMIT 1"
        return bool(self._run(query, (safe_label(model),)))

    def info(self) -> StoreInfo:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        models = [ModelReplies(*row) for row in self._run(_MODELS)]
        [[size]], [[runs, claims]] = self._run(_SIZE), self._run(_CLAIMS)
        return StoreInfo(self._server.version, size, models, runs, claims)

    def page(self, after: str, rows: int) -> Sequence[Row]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return [Row(*row) for row in self._run(_PAGE, (after, rows))]

    def prune(self, *, before: float, model: str | None) -> int:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        label = None if model is None else safe_label(model)
        return self._change(_PRUNE, (before, label, label))

    def close(self) -> None:
        """End all claims and close the connection."""
        if self._has_claimed:
            with contextlib.suppress(StoreError):
                self._change("DELETE FROM llmprops_claims WHERE owner = %s", (self._owner.id,))
                self._change("DELETE FROM llmprops_processes WHERE id = %s", (self._owner.id,))
        self._server.close()
