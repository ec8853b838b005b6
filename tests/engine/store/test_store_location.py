"""Where a store is: what --llm-store takes, and that no password is shown."""

from __future__ import annotations

import re
import sys

import pytest

from pytest_llmprops.core.errors import MissingExtra, StoreError, UsageError
from pytest_llmprops.engine.store.location import (
    open_store,
    store_location,
    without_hidden_password,
    without_password,
)

SECRET = "geheim"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("replies.sqlite", "replies.sqlite"),
        ("postgresql:///db?service=x", "postgresql:///db?service=x"),
        ("postgresql://u@h:5432/db?sslmode=verify-full", "postgresql://u@h:5432/db?sslmode=verify-full"),
        (f"postgres://u:{SECRET}@h/db", "postgres://u:***@h/db"),
        (f"postgresql://u:{SECRET}@[::1]:5,h2/db", "postgresql://u:***@[::1]:5,h2/db"),
        (f"postgresql://h/db?sslpassword={SECRET}&host=a", "postgresql://h/db?sslpassword=***&host=a"),
    ],
)
def test_a_location_is_shown_without_its_password(text: str, shown: str) -> None:
    """Files and URLs are accepted; only the password is replaced, alone or in an argument."""
    assert store_location(text) == text
    assert without_password(text) == shown
    assert without_password(f"--llm-store={text}") == f"--llm-store={shown}"


def test_a_wrong_url_shows_none_of_its_parts() -> None:
    """A URL with a character that belongs encoded is refused with the right form, and not repeated."""
    for part in (
        f"u:{SECRET}/1@h/db",
        f"u:a@{SECRET}@h/db",
        f"u:#{SECRET}@h/db",
        f"u:{SECRET}@h:port/db",
        f"h/db?{SECRET}",
    ):
        with pytest.raises(UsageError, match="must be postgresql://USER@HOST:PORT/DATABASE, with % codes"):
            store_location(f"postgresql://{part}")
        assert SECRET not in without_password(f"postgresql://{part}")


def test_a_hidden_password_is_not_used() -> None:
    """``***`` is refused as a password; a recorded argument has a form without it, if libpq can find it elsewhere."""
    one, two = "postgresql://u:***@h/db?sslmode=require", "postgresql://u:***@h/db?password=***&host=a"
    for shown in (one, two, without_hidden_password(two)):
        with pytest.raises(UsageError, match=r"in place of a password, which is not recorded; .* PGPASSWORD"):
            store_location(shown)
    known = "postgresql://u@h/db?sslmode=require"
    assert without_hidden_password(f"--llm-store={one}") == f"--llm-store={known}"
    assert store_location(known) == known


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg, one line names the extra."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra) as caught:
        open_store(f"postgresql://u:{SECRET}@h/db")
    assert str(caught.value) == (
        "--llm-store postgresql://u:***@h/db needs the package 'psycopg': pip install 'pytest-llmprops[postgres]'"
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://h/db", "must be a file or postgresql://"),
        (f"postgresql://u:{SECRET}%zz@h/db", "libpq cannot read this URL"),
        (
            f"postgresql://u:{SECRET}@/db?host=/nowhere",
            "reply store postgresql://u:***@/db?host=/nowhere: connection",
        ),
    ],
)
def test_a_place_that_cannot_be_used_is_one_line(url: str, said: str) -> None:
    """A database of another kind, a URL that libpq refuses, and a server that is not there; no password is shown."""
    pytest.importorskip("psycopg")
    with pytest.raises((UsageError, StoreError), match=re.escape(said)) as caught:
        open_store(store_location(url))
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
