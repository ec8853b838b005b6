"""Where a store is: a file, or the URL of a database. Opens it, and shows it without its password."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pytest_llmprops.core.errors import LLMPropsError, StoreError, UsageError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store.base import Row, ServerLost, Store, StoreInfo

if TYPE_CHECKING:
    from pytest_llmprops.engine.store.postgres import PostgresStore

T = TypeVar("T")

_URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)(?:(?P<user>[^\s:@/?#]*)(?P<password>:[^\s:@/?#]*)?@)?"
    r"(?P<hosts>(?:\[[\da-fA-F:.%]+\]|[\w.%-]*)(?::\d*)?(?:,(?:\[[\da-fA-F:.%]+\]|[\w.%-]*)(?::\d*)?)*)"
    r"(?P<database>/[^\s?#@]*)?(?:\?(?P<parameters>\w+=[^\s#&]*(?:&\w+=[^\s#&]*)*))?"
)
_ANYWHERE = re.compile(r"postgres(?:ql)?://.*", re.DOTALL)
#: parameters of a URL that hold no secret; the values of others are not shown
_SHOWN = {
    "application_name", "channel_binding", "connect_timeout", "dbname", "gssencmode", "host", "hostaddr", "port",
    "require_auth", "service", "sslmode", "sslrootcert", "target_session_attrs", "user",
}  # fmt: skip
#: what is shown in place of a secret
_HIDDEN = "***"
_FORM = "postgresql://USER@HOST:PORT/DATABASE, with % codes for special characters"


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


def store_location(text: str) -> str:
    """Return the value of ``--llm-store``.

    :raises UsageError: if it is neither a path nor the URL of a PostgreSQL database, or has no password but ``***``.
    """
    if _ANYWHERE.match(text):
        match = _URL.fullmatch(text)
        if match is None:
            raise UsageError(f"must be {_FORM}")
        if match["password"] == f":{_HIDDEN}" or f"={_HIDDEN}" in (match["parameters"] or ""):
            raise UsageError(
                f"has {_HIDDEN} in place of a password, which is not recorded; give the whole"
                " URL, or leave the password out and set PGPASSWORD or PGPASSFILE"
            )
    elif re.match(r"\w+://", text):
        raise UsageError(f"must be a file or {_FORM}")
    return text


def is_url(location: str) -> bool:
    """Return True if a store is a database on a server."""
    return _ANYWHERE.match(location) is not None


def without_password(text: str) -> str:
    """Return a text, such as an argument of a command, without the password of the URL at its end.

    A URL that cannot be read is cut after ``postgresql://``.
    """
    return _ANYWHERE.sub(lambda match: _shown(match[0]), text)


def without_hidden_password(text: str) -> str:
    """Return a text, such as an argument of a recorded command, without the ``***`` of its URL's password.

    libpq then takes the password from PGPASSWORD, or from the file of PGPASSFILE.
    """
    return _ANYWHERE.sub(lambda match: match[0].replace(f":{_HIDDEN}@", "@", 1), text)


def _shown(url: str) -> str:
    match = _URL.fullmatch(url)
    if match is None:
        return "postgresql://…"
    user = (
        f"{match['user']}:{_HIDDEN}@" if match["password"] else f"{match['user']}@" if match["user"] else ""
    )
    pairs = [pair.partition("=") for pair in (match["parameters"] or "").split("&") if pair]
    shown = "&".join(f"{name}={value if name in _SHOWN else _HIDDEN}" for name, _, value in pairs)
    return f"{match['scheme']}{user}{match['hosts']}{match['database'] or ''}{f'?{shown}' if shown else ''}"


def open_store(
    location: str, *, read_only: bool = False, patience: float | None = None, aside: Path | None = None
) -> Store:
    """Open the store at a path or URL.

    :param read_only: read a store that exists, without writing to it.
    :param patience: seconds that a lost server is waited for; None for a few.
    :param aside: file that takes the place of a server that does not come back.
    :raises StoreError: if it cannot be opened.
    :raises MissingExtra: if the package of its database is not installed.
    """
    if is_url(location):
        from pytest_llmprops.engine.store.postgres import PATIENCE, PostgresStore

        server = PostgresStore(
            location,
            without_password(location),
            read_only=read_only,
            patience=PATIENCE if patience is None else patience,
        )
        return server if aside is None else StoreWithFile(server, aside)
    # Workers and --collect-only need only the location.
    from pytest_llmprops.engine.store.sqlite import SQLiteStore

    return SQLiteStore(Path(location), read_only=read_only)


def holds_replies(location: str, model: str) -> bool:
    """Return True if the store has any reply of the model with this label; False if it cannot be read."""
    # Not Path.is_file, which raises an exception for a name that is too long.
    if not is_url(location) and not os.path.isfile(location):  # noqa: PTH113
        return False
    try:
        store = open_store(location, read_only=True)
    except LLMPropsError:
        return False
    try:
        return store.holds_replies(model)
    except LLMPropsError:
        return False
    finally:
        store.close()


# Copy replies from one store to another, and those of a run's folder to the store that did not take them.

#: store in a run's folder for the replies that the run's store did not take
UNSAVED = "replies.sqlite"
#: replies that are copied at once
_PAGE = 500


class Copied(NamedTuple):
    """The number of replies that were copied, and of those that the target had."""

    copied: int
    known: int


def copy_replies(source: Store, target: Store) -> Copied:
    """Copy the replies that ``target`` lacks, or that are newer in ``source``.

    :raises StoreError: if one of the stores cannot be used; what was copied stays.
    """
    seen = copied = 0
    after = ""
    while rows := source.page(after, _PAGE):
        seen, after = seen + len(rows), rows[-1].key
        copied += target.put_many(rows, only_newer=True)
    return Copied(copied, seen - copied)


class StoreWithFile:
    """A :class:`~pytest_llmprops.engine.store.base.Store` on a server, in whose place a file is used if it is lost.

    The file has only what was stored since then, so that earlier requests are sent again. When the server is back, the
    replies are copied to it and the file is removed.

    :param path: of the file, which is created when it is needed.
    """

    def __init__(self, server: PostgresStore, path: Path) -> None:
        self._server, self._path = server, path
        self._file: Store | None = None
        #: why the server was lost, how many replies the file has, and how many were copied back
        self._reason = ""
        self._kept = self._copied = 0
        self.place = server.place
        self.hurry = server.hurry

    @property
    def notes(self) -> list[str]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        notes = list(self._server.notes)
        if self._copied:
            notes.append(
                f"{self._reason}; {self._copied} replies were kept in a file until the server was back"
            )
        if self._kept:
            notes.append(
                f"{self._reason}; {self._kept} replies are in {self._path} instead:"
                f" llmprops store copy {self._path} {self.place}"
            )
        return notes

    def _used(self, method: Callable[[Store], T]) -> T:
        if self._file is None:
            try:
                return method(self._server)
            except ServerLost as error:
                from pytest_llmprops.engine.store.sqlite import SQLiteStore

                self._file, self._reason = SQLiteStore(self._path), str(error)
        return method(self._file)

    def _return(self) -> None:
        """Copy the replies to the server and use it again, if it is back."""
        if self._file is None or not self._server.is_back():
            return
        try:
            copy_replies(self._file, self._server)
        except StoreError:
            # The next report tries again.
            return
        self._file.close()
        remove_store(self._path)
        self._file, self._copied, self._kept = None, self._copied + self._kept, 0

    def get_many(self, keys: Collection[str]) -> dict[str, Reply]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.get_many(keys))

    def state(self) -> object:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.state())

    def put_many(self, rows: Collection[Row], *, only_newer: bool = False) -> int:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        stored = self._used(lambda store: store.put_many(rows, only_newer=only_newer))
        if self._file is not None:
            self._kept += stored
        return stored

    def claim(self, keys: Collection[str]) -> set[str]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.claim(keys))

    def release(self, keys: Collection[str]) -> None:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        self._used(lambda store: store.release(keys))

    def beat(self) -> None:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        self._return()
        self._used(lambda store: store.beat())

    def listed_since(self, url: str, models: str) -> float:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.listed_since(url, models))

    def holds_replies(self, model: str) -> bool:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.holds_replies(model))

    def info(self) -> StoreInfo:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.info())

    def page(self, after: str, rows: int) -> Sequence[Row]:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.page(after, rows))

    def prune(self, *, before: float, model: str | None) -> int:
        """See :class:`~pytest_llmprops.engine.store.base.Store`."""
        return self._used(lambda store: store.prune(before=before, model=model))

    def close(self) -> None:
        """Copy what is left if the server is back, end all claims and close both."""
        self._return()
        if self._file is not None:
            self._file.close()
        self._server.close()


def remove_store(path: Path) -> None:
    """Remove the file of a store.

    :raises OSError: if it cannot be removed.
    """
    # A file that is still in use elsewhere has a write-ahead log.
    for file in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
        file.unlink(missing_ok=True)


def store_unsaved(run: Path, location: str) -> list[str]:
    """Store the replies that a run kept in its folder, remove their file, and return notes for the summary.

    :param run: folder of the run. :param location: of the reply store.
    :raises StoreError: if one of them cannot be stored; the file then stays as it is.
    """
    path = run / UNSAVED
    if not path.is_file() or (Path(location).exists() and path.samefile(location)):
        return []
    try:
        with closing(open_store(location)) as target, closing(open_store(str(path))) as source:
            count = copy_replies(source, target)
            notes, place = [*source.notes, *target.notes], target.place
        remove_store(path)
    except (StoreError, OSError) as error:
        raise StoreError(
            f"{error}; {path} has replies of this run that are not stored yet: repeat the command when the store can be"
            " used, or remove the file to send these requests again"
        ) from None
    known = f", which had {count.known} more" if count.known else ""
    notes.append(f"{count.copied} replies of {path} were stored in {place}{known}")
    return notes
