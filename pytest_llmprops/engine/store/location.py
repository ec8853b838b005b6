"""Where a store is: a file, or the URL of a database. Opens it, and shows it without its password."""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from pathlib import Path

from pytest_llmprops.core.errors import LLMPropsError, StoreError, UsageError
from pytest_llmprops.engine.store.base import Store

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


def open_store(location: str, *, read_only: bool = False, timeout: float | None = None) -> Store:
    """Open the store at a path or URL.

    :param read_only: read a store that exists, without writing to it.
    :param timeout: seconds to wait for a server that is lost; None for a few.
    :raises StoreError: if it cannot be opened.
    :raises MissingExtra: if the package of its database is not installed.
    """
    if is_url(location):
        from pytest_llmprops.engine.store.postgres import RECONNECT_SECONDS, PostgresStore

        return PostgresStore(
            location,
            without_password(location),
            read_only=read_only,
            timeout=RECONNECT_SECONDS if timeout is None else timeout,
        )
    # Workers and --collect-only need only the location.
    from pytest_llmprops.engine.store.sqlite import SQLiteStore

    return SQLiteStore(Path(location), read_only=read_only)


def holds_replies(location: str, model: str) -> bool:
    """Return True if the store has any reply of the model with this label; False if it cannot be read."""
    # Not Path.is_file, which raises an exception for a name that is too long.
    if not is_url(location) and not os.path.isfile(location):  # noqa: PTH113
        return False
    with suppress(LLMPropsError), closing(open_store(location, read_only=True)) as store:
        return store.holds_replies(model)
    return False
