"""What every reply store can do, and the form in which it keeps a reply."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.strict_json import parsed_json


def host_name() -> str:
    """Return a name of this machine since its last start; different for containers with other process numbers."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Owner:
    """This process, as the owner of claims."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=host_name)
    pid: int = field(default_factory=os.getpid)

    def knows_ended(self, host: str, pid: int) -> bool:
        """Return True if the process ``pid`` ran on this machine and has ended; False if this process cannot tell."""
        return host == self.host and has_ended(pid)


def has_ended(pid: int) -> bool:
    """Return True if a process of this machine has ended; False if this process cannot tell."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The number of a killed process is taken until its parent asks for its status, which the first process of a
    # container may do late or never.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    return False


T = TypeVar("T")
CacheMode = Literal["reuse", "refresh", "off", "only"]
#: maximum number of rows per statement; larger statements are hardly faster
STATEMENT_ROWS = 50
#: A claim ends if its process has not reported for this long, for example because its machine was turned off.
LEASE_SECONDS = 60.0
#: how often a process with claims reports that it runs
BEAT_SECONDS = 15.0
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
    :param models: by label. :param runs: number of processes that have claims.
    """

    version: int
    size: int
    models: Sequence[ModelReplies]
    runs: int
    claims: int


class Store(Protocol):
    """Replies by request key (:func:`~pytest_llmprops.core.requests.request_key`), shared by any number of runs.

    A run claims a request before it sends it, so that other runs wait for the reply. Errors of models are not stored.
    All methods block, and one thread at a time may call them. They raise StoreError if the store cannot be used.
    """

    @property
    def notes(self) -> list[str]:
        """Problems that a run survives, for its summary."""

    @property
    def place(self) -> str:
        """The file or the URL, without a password."""

    def get_many(self, keys: Collection[str]) -> dict[str, Reply]:
        """Return the stored replies to ``keys``; those that are missing or unreadable are left out."""

    def state(self) -> object:
        """Return a value that is the same as before only if no other process has changed the store since."""

    def put_many(self, rows: Collection[Row]) -> None:
        """Store replies and end this process's claims on them."""

    def claim(self, keys: Collection[str]) -> set[str]:
        """Return the ``keys`` that this process has claimed: those without a claim of another process that runs."""

    def release(self, keys: Collection[str]) -> None:
        """End this process's claims on ``keys``."""

    def beat(self) -> None:
        """Report that this process runs, if it has claimed anything, and remove the claims of those that ended."""

    def listed_since(self, url: str, models: str) -> float:
        """Return the Unix time since which a server lists these models, as far as runs with this store know.

        0 if this is the first list of the server, or the store cannot tell.

        :param models: a hash of the list, which is kept for later runs.
        """

    def holds_replies(self, model: str) -> bool:
        """Return True if the store has any reply of the model with this label."""

    def info(self) -> StoreInfo:
        """Return what the store holds."""

    def stop_waiting(self) -> None:
        """Do not wait for a lost server any longer; unlike the other methods, called from any thread."""

    def prune(self, *, before: float, model: str | None) -> int:
        """Delete the replies from before the Unix time ``before``, and return their number.

        :param model: only those of the model with this label.
        """

    def close(self) -> None:
        """End all claims of this process and close the store."""


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
