"""The store in a file: it is private, and never emptied."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store.base import VERSION, row_of
from pytest_llmprops.engine.store.location import default_store, holds_replies
from pytest_llmprops.engine.store.sqlite import SQLiteStore
from tests.support.programs import UNSHARE
from tests.support.stores import REPLY, get, put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store path in a folder that does not exist yet."""
    return tmp_path / "cache" / "replies.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    """Yield an empty store."""
    opened = SQLiteStore(path)
    yield opened
    opened.close()


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def _aside(path: Path) -> Path:
    """Return the one file that a damaged store was moved to."""
    [aside] = [
        p for p in path.parent.iterdir() if ".damaged-" in p.name and not p.name.endswith(("-wal", "-shm"))
    ]
    return aside


def test_the_file_is_private_from_its_first_byte(path: Path) -> None:
    """For any umask, only the owner can read the store and the files that SQLite creates next to it."""
    before = os.umask(0)
    try:
        store = SQLiteStore(path)
        put(store, "k", REPLY)
        modes = {p.name: _mode(p) for p in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {path.name + suffix: 0o600 for suffix in ("", "-wal", "-shm")}


def test_a_damaged_store_is_moved_aside(path: Path) -> None:
    """A damaged file is moved aside unchanged and reported in one line, and a new store is created.

    A damaged file that may not be written stays where it is.
    """
    path.parent.mkdir()
    damaged = b"\0" * 4096 + b"precious, but no database\n" * 1000
    for content in (b"", damaged):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="reply store"):
            SQLiteStore(path, read_only=True)
        assert [path] == list(path.parent.iterdir())
    store = SQLiteStore(path)
    put(store, "k", REPLY)
    assert get(store, "k") == REPLY
    store.close()
    assert _aside(path).read_bytes() == damaged
    [note] = store.notes
    assert str(path) in note
    assert _aside(path).name in note
    assert "\n" not in note


def test_another_file_is_refused(tmp_path: Path) -> None:
    """A file that is not a SQLite file, a pipe and a device are refused, and stay as they are."""
    notes, pipe, zero = tmp_path / "notes.txt", tmp_path / "pipe", tmp_path / "zero"
    notes.write_text("precious, but no database\n")
    notes.chmod(0o644)
    os.mkfifo(pipe, 0o644)
    others = [notes, pipe]
    # Only root may make a device; that of the machine must not be risked.
    with suppress(PermissionError):
        os.mknod(zero, 0o644 | stat.S_IFCHR, os.makedev(1, 5))
        others.append(zero)
    link = tmp_path / "link"
    link.symlink_to(notes)

    def state() -> list[tuple[int, int, int]]:
        # Not the time of the last access, which reading a file may change.
        return [(s.st_mode, s.st_size, s.st_mtime_ns) for s in (file.stat() for file in others)]

    before = state()
    for file in (*others, link):
        with pytest.raises(StoreError, match=r"(not a SQLite file|not a regular file); .*--llm-store FILE"):
            SQLiteStore(file)
    assert state() == before
    assert sorted(tmp_path.iterdir()) == sorted((*others, link))


def test_store_damaged_while_reading_is_moved_aside(path: Path) -> None:
    """Damage beyond an intact start is detected when a reply is read, and the damaged file is kept."""
    store = SQLiteStore(path)
    # The index of so few short keys is one page at the start.
    for number in range(200):
        put(store, f"{number:04}", Reply("x" * 400, stored=1.0))
    store.close()
    whole = path.read_bytes()
    damaged = whole[: len(whole) // 2] + b"\xff" * (len(whole) - len(whole) // 2)
    path.write_bytes(damaged)
    store = SQLiteStore(path)
    assert store.notes == []
    assert get(store, "0000") is not None
    assert get(store, "0199") is None
    assert len(store.notes) == 1
    assert _aside(path).read_bytes() == damaged
    put(store, "0199", REPLY)
    assert get(store, "0199") is not None
    store.close()


def test_unreadable_entry_is_requested_again(store: SQLiteStore, path: Path) -> None:
    """One broken entry costs one call and one note; the others remain valid."""
    put(store, "bad", REPLY)
    put(store, "good", REPLY)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE replies SET reply = ? WHERE key = 'bad'", ("[" * 100_000,))
    raw.close()
    assert get(store, "bad") is None
    assert get(store, "good") is not None
    [note] = store.notes
    assert "bad" in note
    assert "is unreadable and is asked again" in note


@pytest.mark.parametrize("where", ["", "file/below", "a" * 300])
def test_a_store_that_cannot_be_opened_names_the_option(tmp_path: Path, where: str) -> None:
    """A folder, a path below a file, or a name that is too long is a one-line error that names --llm-store."""
    (tmp_path / "file").write_text("x")
    assert not holds_replies(str(tmp_path / where), "m")
    with pytest.raises(StoreError) as caught:
        SQLiteStore(tmp_path / where)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "--llm-store" in message
    assert "\n" not in message


def test_a_read_only_store_is_not_written(store: SQLiteStore, path: Path) -> None:
    """A store opened for reading gives its replies, and its folder keeps no other file than before."""
    put(store, "k", REPLY)
    store.close()
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    reading = SQLiteStore(path, read_only=True)
    assert get(reading, "k") == REPLY
    assert get(reading, "other") is None
    with pytest.raises(StoreError, match="readonly"):
        put(reading, "other", REPLY)
    reading.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.skipif(not Path("/sys/kernel").is_dir() or os.geteuid() != 0, reason="needs root to mount")
@UNSHARE.needed
def test_a_store_on_a_read_only_disk_can_be_read(store: SQLiteStore, path: Path) -> None:
    """A store on a disk that is mounted read-only, where SQLite cannot create its shared memory, is read."""
    put(store, "k", REPLY)
    store.close()
    script = (
        'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77\n'
        'exec "$2" -c "import sys; from pathlib import Path;'
        " from pytest_llmprops.engine.store.sqlite import SQLiteStore;"
        " print(SQLiteStore(Path(sys.argv[1]), read_only=True).get_many(['k'])['k'].text)\" \"$3\""
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(path.parent), sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine does not allow a mount")
    assert done.stdout.strip() == REPLY.text, done.stderr


def test_no_home_directory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home directory is told what to set."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(
        StoreError, match="no home directory; set HOME or XDG_CACHE_HOME, or give --llm-store FILE"
    ):
        default_store()


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """Another program's SQLite file is refused with its tables, and is neither renamed nor changed."""
    path = tmp_path / "places.sqlite"
    for sql in ("CREATE TABLE bookmarks (url TEXT)", "CREATE TABLE replies (post INTEGER, body TEXT)"):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(sql)
        path.chmod(0o644)
        before = path.read_bytes()
        with pytest.raises(StoreError, match=r"another program \(tables bookmarks.*--llm-store"):
            SQLiteStore(path)
        assert path.read_bytes() == before
        assert path.stat().st_mode & 0o777 == 0o644
        assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_whose_creation_was_killed_is_used(path: Path, tmp_path: Path, read_only: bool) -> None:
    """What SQLite writes before a transaction ends is undone, and the replies before it are there."""
    path.parent.mkdir()
    with closing(sqlite3.connect(tmp_path / "alive.sqlite", isolation_level=None)) as db:
        db.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, stored REAL, model TEXT, reply TEXT)")
        db.execute("INSERT INTO replies VALUES (?, ?, ?, ?)", row_of("k", "m", REPLY))
        # With so few pages in memory, the transaction is written to the file before it ends.
        db.execute("PRAGMA cache_size=2")
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM replies")
        db.executemany("INSERT INTO replies VALUES (?, 0, '', '')", ((f"{n:0500d}",) for n in range(500)))
        for suffix in ("", "-journal"):
            shutil.copy(tmp_path / f"alive.sqlite{suffix}", f"{path}{suffix}")
    store = SQLiteStore(path, read_only=read_only)
    assert get(store, "k") == REPLY
    store.close()


def test_a_store_of_a_later_version_is_refused(store: SQLiteStore, path: Path) -> None:
    """A file with unknown tables is one line that says what to do, and stays as it is."""
    store.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=f"version {VERSION + 1} of the tables.*upgrade pytest-llmprops"):
            SQLiteStore(path, read_only=read_only)
    assert path.read_bytes() == before
