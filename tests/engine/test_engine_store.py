"""The reply store: no reply is lost, and no damaged file is emptied."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.core.requests import Reply, Usage
from pytest_llmprops.engine import store as store_module
from pytest_llmprops.engine.store import ReplyStore, default_store

REPLY = Reply(
    "tëxt 中",
    value={"words": ["a", "b"]},
    finish_reason="length",
    served_model="m-1",
    usage=Usage(3, 4, 1),
    logprobs=({"token": "a", "logprob": -0.5, "top": {}},),
    cost_usd=0.25,
    deviations=("temperature",),
    seconds=1.5,
    stored=1000.0,
    cached=True,
    key="k",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store path in a folder that does not exist yet."""
    return tmp_path / "cache" / "replies.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[ReplyStore]:
    """Yield an empty store."""
    opened = ReplyStore(path)
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


def test_stored_reply_is_complete(store: ReplyStore) -> None:
    """Every part of a reply is stored; the next request gets it, marked as cached."""
    store.put("k", "m", REPLY)
    assert store.get("k") == REPLY
    assert store.get("other") is None


def test_replies_persist_after_the_process(store: ReplyStore, path: Path) -> None:
    """Another connection can read a stored reply before the first one is closed."""
    store.put("k", "m", REPLY)
    again = ReplyStore(path)
    assert again.get("k") == REPLY
    again.close()


def test_lone_surrogates_are_replayed_unchanged(store: ReplyStore) -> None:
    """A reply that is not valid Unicode is judged the same when replayed."""
    store.put("k", "m", Reply("\ud800 x", stored=1.0))
    reply = store.get("k")
    assert reply is not None
    assert reply.text == "\ud800 x"


def test_a_newer_reply_replaces_the_older(store: ReplyStore) -> None:
    """The last reply under a key is the one returned."""
    store.put("k", "m", Reply("old", stored=1.0))
    store.put("k", "m", Reply("new", stored=2.0))
    reply = store.get("k")
    assert reply is not None
    assert reply.text == "new"


def test_old_replies_are_ignored_on_request(store: ReplyStore) -> None:
    """A reply from before ``not_before`` is ignored; one from exactly that time is used."""
    store.put("k", "m", REPLY)
    assert store.get("k", not_before=1000.0) is not None
    assert store.get("k", not_before=1000.1) is None
    assert store.get("k") is not None


def test_the_file_is_private_from_its_first_byte(path: Path) -> None:
    """For any umask, only the owner can read the store and the files that SQLite creates next to it."""
    before = os.umask(0)
    try:
        store = ReplyStore(path)
        store.put("k", "m", REPLY)
        modes = {p.name: _mode(p) for p in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {path.name + suffix: 0o600 for suffix in ("", "-wal", "-shm")}


def test_several_runs_share_one_file(store: ReplyStore, path: Path) -> None:
    """Two connections write in turn and read each other's replies, in WAL mode."""
    other = ReplyStore(path)
    for number in range(20):
        (store, other)[number % 2].put(f"k{number}", "m", Reply(str(number), stored=1.0))
    for connection in (store, other):
        texts = [r.text for n in range(20) if (r := connection.get(f"k{n}"))]
        assert texts == [str(n) for n in range(20)]
        assert connection.notes == []
    other.close()
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()


def test_file_that_is_not_a_store_is_moved_aside(path: Path) -> None:
    """An invalid file is moved aside unchanged and reported in one line, and a new store is created."""
    path.parent.mkdir()
    garbage = b"precious, but no database\n" * 1000
    path.write_bytes(garbage)
    store = ReplyStore(path)
    store.put("k", "m", REPLY)
    assert store.get("k") == REPLY
    store.close()
    assert _aside(path).read_bytes() == garbage
    [note] = store.notes
    assert str(path) in note
    assert _aside(path).name in note
    assert "\n" not in note


def test_store_damaged_while_reading_is_moved_aside(path: Path) -> None:
    """Damage beyond an intact start is detected when a reply is read, and the damaged file is kept."""
    store = ReplyStore(path)
    for number in range(400):
        store.put(f"{number:04}", "m", Reply("x" * 200, stored=1.0))
    store.close()
    whole = path.read_bytes()
    damaged = whole[: len(whole) // 2] + b"\xff" * (len(whole) - len(whole) // 2)
    path.write_bytes(damaged)
    store = ReplyStore(path)
    assert store.notes == []
    assert store.get("0000") is not None
    assert store.get("0399") is None
    assert len(store.notes) == 1
    assert _aside(path).read_bytes() == damaged
    store.put("0399", "m", REPLY)
    assert store.get("0399") is not None
    store.close()


def test_unreadable_entry_is_requested_again(store: ReplyStore, path: Path) -> None:
    """One broken entry costs one call and one note; the others remain valid."""
    store.put("bad", "m", REPLY)
    store.put("good", "m", REPLY)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE replies SET reply = '{\"text\": ' WHERE key = 'bad'")
    raw.close()
    assert store.get("bad") is None
    assert store.get("good") is not None
    assert len(store.notes) == 1
    assert "bad" in store.notes[0]


def test_a_locked_store_is_noted_once(store: ReplyStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies that cannot be written cause one note and do not end the run; later ones are stored again."""
    store.close()
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.02)
    store = ReplyStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.put("a", "m", REPLY)
    store.put("b", "m", REPLY)
    other.execute("COMMIT")
    other.close()
    store.put("c", "m", REPLY)
    assert len(store.notes) == 1
    assert "locked" in store.notes[0]
    assert [store.get(k) is not None for k in "abc"] == [False, False, True]
    store.close()


def test_a_full_disk_is_noted_once(path: Path) -> None:
    """If the disk is full, the run continues with one note, and stored replies stay readable."""
    code = """
import resource, sys
from pathlib import Path
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.engine.store import ReplyStore, default_store
store = ReplyStore(Path(sys.argv[1]))
store.put("first", "m", Reply("kept", stored=1.0))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
for number in range(40):
    store.put(str(number), "m", Reply("x" * 20_000, stored=1.0))
print(len(store.notes), store.get("first").text, store.get("0") is not None, store.get("39"))
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "kept", "True", "None"]


@pytest.mark.parametrize("where", ["", "file/below"])
def test_a_store_that_cannot_be_opened_names_the_option(tmp_path: Path, where: str) -> None:
    """A path that is a folder, or lies below a file, is a one-line error that names it and --llm-store."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError) as caught:
        ReplyStore(tmp_path / where)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "--llm-store" in message
    assert "\n" not in message


def test_a_deeply_nested_entry_is_requested_again(store: ReplyStore, path: Path) -> None:
    """An entry that no JSON parser can read is noted like every unreadable one."""
    store.put("k", "m", REPLY)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE replies SET reply = ?", ("[" * 100_000,))
    assert store.get("k") is None
    assert "is unreadable and is asked again" in store.notes[0]


def test_a_read_only_store_is_not_written(store: ReplyStore, path: Path) -> None:
    """A store opened for reading gives its replies, and its folder keeps no other file than before."""
    store.put("k", "m", REPLY)
    store.close()
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    reading = ReplyStore(path, read_only=True)
    assert reading.get("k") == REPLY
    assert reading.get("other") is None
    reading.put("other", "m", REPLY)
    assert "readonly" in reading.notes[0]
    reading.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.skipif(not Path("/sys/kernel").is_dir() or os.geteuid() != 0, reason="needs root to mount")
def test_a_store_on_a_read_only_disk_can_be_read(store: ReplyStore, path: Path) -> None:
    """A store on a disk that is mounted read-only, where SQLite cannot create its shared memory, is read."""
    store.put("k", "m", REPLY)
    store.close()
    script = (
        'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77\n'
        'exec "$2" -c "import sys; from pathlib import Path; from pytest_llmprops.engine.store import ReplyStore;'
        ' print(ReplyStore(Path(sys.argv[1]), read_only=True).get(\'k\').text)" "$3"'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(path.parent), sys.executable, str(path)]
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine does not allow a mount")
    assert done.stdout.strip() == REPLY.text, done.stderr


@pytest.mark.parametrize("content", [b"x" * 5000, b""])
def test_a_damaged_read_only_store_is_left_alone(path: Path, content: bytes) -> None:
    """A damaged file that may not be written is one line, and stays where it is."""
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match="reply store"):
        ReplyStore(path, read_only=True)
    assert [path] == list(path.parent.iterdir())


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
            ReplyStore(path)
        assert path.read_bytes() == before
        assert path.stat().st_mode & 0o777 == 0o644
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
