"""What every reply store can do, and the form in which it keeps a reply."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple, Protocol, TypeVar

from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.strict_json import parsed_json

T = TypeVar("T")
CacheMode = Literal["reuse", "refresh", "off", "only"]
#: maximum number of rows per statement; larger statements are hardly faster
STATEMENT_ROWS = 50
#: the version of the tables
VERSION = 1
_PLAIN_KEY = re.compile(r"[!-~]{1,200}")


class Row(NamedTuple):
    """A stored reply.

    :param stored: Unix time of the call. :param model: label of the model. :param reply: the reply as JSON.
    """

    key: str
    stored: float
    model: str
    reply: str


class ModelReplies(NamedTuple):
    """The stored replies of one model.

    :param oldest: Unix time of the oldest reply. :param newest: that of the newest one.
    """

    model: str
    replies: int
    oldest: float
    newest: float


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store holds.

    :param size: bytes of the file or the tables, indexes included.
    :param models: by label.
    """

    version: int
    size: int
    models: Sequence[ModelReplies]


class Store(Protocol):
    """Replies by request key (:func:`~pytest_llmprops.core.requests.request_key`), shared by any number of runs.

    Errors of models are not stored. All methods block, and one thread at a time may call them. They raise StoreError if
    the store cannot be used.
    """

    @property
    def notes(self) -> list[str]:
        """Problems that a run survives, for its summary."""

    @property
    def place(self) -> str:
        """The file or the URL, without a password."""

    def get_many(self, keys: Collection[str]) -> dict[str, Reply]:
        """Return the stored replies to ``keys``; those that are missing or unreadable are left out."""

    def put_many(self, rows: Collection[Row]) -> None:
        """Store replies; each replaces an earlier one under its key."""

    def holds_replies(self, model: str) -> bool:
        """Return True if the store has any reply of the model with this label."""

    def info(self) -> StoreInfo:
        """Return what the store holds."""

    def prune(self, *, before: float, model: str | None) -> int:
        """Delete the replies from before the Unix time ``before``, and return their number.

        :param model: only those of the model with this label.
        """

    def close(self) -> None:
        """Close the store."""


def row_of(key: str, model: str, reply: Reply) -> Row:
    """Return the row of a reply."""
    text = reply.to_text()
    try:
        text.encode()
    except UnicodeEncodeError:
        # Lone surrogates of an untrusted reply: escapes preserve them.
        text = json.dumps(reply.to_json())
    return Row(key, reply.stored, safe_label(model), text)


def replies_of(
    texts: Iterable[tuple[str, str]], names: Mapping[str, str], place: object, notes: list[str]
) -> dict[str, Reply]:
    """Return the replies of rows by key, without unreadable ones; add a note for each of those.

    :param texts: safe keys with replies as JSON. :param names: keys by safe key. :param place: of the store.
    """
    replies = {}
    for name, text in texts:
        key = names[name]
        try:
            replies[key] = Reply.from_json(parsed_json(text), key=key, cached=True)
        except (KeyError, TypeError, ValueError):
            notes.append(f"reply store {place}: the entry {name[:12]} is unreadable and is asked again")
    return replies


def safe_key(key: str) -> str:
    """Return the key as every database can keep it: a key that is not short printable ASCII becomes a hash."""
    # The first test is for a key of this package, and takes a third of the time of the second.
    if (len(key) == 64 and key.isalnum() and key.isascii()) or _PLAIN_KEY.fullmatch(key):
        return key
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=64)
def safe_label(label: str) -> str:
    """Return the label of a model as every database can keep it, with lone surrogates and NUL escaped."""
    return label.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def statements(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in lists of up to ``STATEMENT_ROWS``."""
    iterator = iter(values)
    while part := list(islice(iterator, STATEMENT_ROWS)):
        yield part
