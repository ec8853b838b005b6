"""Downloads of published data from a server started by the test."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock
from urllib.parse import unquote

import pytest

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import DataFolder, ManifestEntry
from pytest_llmprops.data.pull import BASE_URL, pull
from tests.support.servers import JsonHandler, listening

COMMIT = "c0ffee" + "0" * 34


class Upstream:
    """A small web server whose files and faults a test sets per file."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        #: (status, headers) to answer before the file itself, one per request; no status: only half of the file
        self.faults: dict[str, list[tuple[int | None, dict[str, str]]]] = {}
        self.requests: Counter[str] = Counter()
        upstream = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                file = unquote(self.path).removeprefix(f"/owner/name/{COMMIT}/data/")
                upstream.requests[file] += 1
                faults = upstream.faults.get(file)
                status, headers = faults.pop(0) if faults else (200, {})
                body = upstream.files.get(file)
                if body is None:
                    self.send_error(404)
                    return
                size = len(body)
                if status is None:
                    status, body = 200, body[: len(body) // 2]
                elif status != 200:
                    size, body = 0, b""
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(size)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        stack = ExitStack()
        port = stack.enter_context(listening(Handler))
        self.close = stack.close
        self.base_url = f"http://127.0.0.1:{port}/{{repository}}/{{commit}}/{{path}}"

    def add(self, file: str, content: bytes) -> ManifestEntry:
        """Serve a file, and return the manifest's row for it."""
        self.files[file] = content
        digest = hashlib.sha256(content).hexdigest()
        return ManifestEntry(file, "owner/name", COMMIT, f"data/{file}", len(content), digest, "MIT")


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Upstream()
    yield server
    server.close()


class Pull:
    """Calls pull() and records what it printed and how long it would have slept."""

    def __init__(self, dest: Path, upstream: Upstream, *manifest: ManifestEntry) -> None:
        self.dest, self.upstream, self.manifest = dest, upstream, manifest
        self.lines: list[str] = []
        self.slept: list[float] = []

    def __call__(self, *files: str) -> int:
        self.lines.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pytest_llmprops.data.pull.read_manifest", lambda: self.manifest)
            patch.setattr("time.sleep", self.slept.append)
            return pull(self.dest, self.lines.append, files=files, base_url=self.upstream.base_url)

    def left(self) -> list[str]:
        """Return every file under the destination."""
        return sorted(str(path.relative_to(self.dest)) for path in self.dest.rglob("*") if path.is_file())


def test_files_are_downloaded(tmp_path: Path, upstream: Upstream) -> None:
    """Every file of the manifest is written to its path, with one output line each and status 0."""
    one = upstream.add("htest/one.jsonl", b"first\n" * 50_000)
    two = upstream.add("eras/two words.json", "句子".encode())
    run = Pull(tmp_path / "new", upstream, one, two)
    assert run() == 0
    assert run.lines == ["htest/one.jsonl: pulled (300000 bytes)", "eras/two words.json: pulled (6 bytes)"]
    assert (tmp_path / "new/htest/one.jsonl").read_bytes() == b"first\n" * 50_000
    assert (tmp_path / "new/eras/two words.json").read_text("utf-8") == "句子"
    assert run.slept == []
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "new/htest/one.jsonl").stat().st_mode & 0o777 == 0o666 & ~mask


def test_second_pull_downloads_nothing(tmp_path: Path, upstream: Upstream) -> None:
    """Files that verify are not downloaded again; changed or missing ones are."""
    entries = [upstream.add(f"htest/{index}.txt", b"x" * index) for index in range(1, 4)]
    run = Pull(tmp_path, upstream, *entries)
    assert run() == 0
    (tmp_path / "htest/2.txt").write_bytes(b"yy")
    (tmp_path / "htest/3.txt").unlink()
    assert run() == 0
    assert run.lines == [
        "htest/1.txt: already there",
        "htest/2.txt: replaced, because its content differed (2 bytes)",
        "htest/3.txt: pulled (3 bytes)",
    ]
    assert upstream.requests == {"htest/1.txt": 1, "htest/2.txt": 2, "htest/3.txt": 2}


def test_wrong_content(tmp_path: Path, upstream: Upstream) -> None:
    """A file with the wrong hash is requested once, not kept, and does not replace the old file."""
    wrong = upstream.add("htest/wrong.txt", b"right")
    right = upstream.add("htest/right.txt", b"also right")
    upstream.files["htest/wrong.txt"] = b"WRONG"
    (tmp_path / "htest").mkdir()
    (tmp_path / "htest/wrong.txt").write_bytes(b"older")
    run = Pull(tmp_path, upstream, wrong, right)
    assert run() == 1
    error, done = run.lines
    assert error.startswith("error: htest/wrong.txt: http://127.0.0.1")
    assert f"wrong sha256 {hashlib.sha256(b'WRONG').hexdigest()[:12]}" in error
    assert "\n" not in error
    assert done == "htest/right.txt: pulled (10 bytes)"
    assert (tmp_path / "htest/wrong.txt").read_bytes() == b"older"
    assert run.left() == ["htest/right.txt", "htest/wrong.txt"]
    assert upstream.requests["htest/wrong.txt"] == 1
    # A download larger than the manifest says is aborted as soon as it exceeds that size.
    upstream.files["htest/wrong.txt"] = b"large" * 1000
    assert run() == 1
    assert "larger than the manifest's 5 bytes" in run.lines[0]
    assert (tmp_path / "htest/wrong.txt").read_bytes() == b"older"


def test_corpora_to_train_on(tmp_path: Path, upstream: Upstream) -> None:
    """Corpora are downloaded only if they are named, with their terms, and checked by the id of git's object."""
    items = upstream.add("eras/a.json", b"{}")
    corpus = upstream.add("training/asap/train.csv", b"hello\n")
    # `printf 'hello\n' | git hash-object --stdin`
    identity = "git:ce013625030ba8dba906f756967f9e9ca394464a"
    corpus = replace(corpus, bytes=0, sha256=identity, licence="Apache-2.0")
    run = Pull(tmp_path, upstream, items, corpus)
    assert run() == 0
    assert run.left() == ["eras/a.json"]
    assert run("training") == 0
    assert run.lines == ["terms of owner/name: Apache-2.0", "training/asap/train.csv: pulled (6 bytes)"]
    assert run("training") == 0
    assert run.lines[1:] == ["training/asap/train.csv: already there"]
    upstream.files["training/asap/train.csv"] = b"hello!\n"
    (tmp_path / corpus.file).write_bytes(b"hello?\n")
    assert run("training") == 1
    assert "wrong sha256 git:" in run.lines[1]
    assert (tmp_path / corpus.file).read_bytes() == b"hello?\n"
    folder = DataFolder(tmp_path, "published")
    folder.text(corpus.file)
    with pytest.raises(DataError, match="differs from the manifest's git:"):
        folder.verify([corpus])
    (tmp_path / corpus.file).write_bytes(b"hello\n")
    folder.text(corpus.file)
    assert folder.verify([corpus]) == []


def test_transient_failures_are_retried(tmp_path: Path, upstream: Upstream) -> None:
    """429, 503 and a cut-off download are retried after the wait that the server requested, which is bounded."""
    entry = upstream.add("htest/a.txt", b"content")
    upstream.faults[entry.file] = [(429, {"Retry-After": "17"}), (503, {}), (None, {})]
    run = Pull(tmp_path, upstream, entry)
    assert run() == 0
    assert upstream.requests[entry.file] == 4
    assert run.lines == ["htest/a.txt: pulled (7 bytes)"]
    assert run.slept[0] >= 17
    assert len(run.slept) == 3
    assert all(0 < seconds < 17 for seconds in run.slept[1:])
    other = upstream.add("htest/b.txt", b"content")
    upstream.faults["htest/b.txt"] = [(429, {"Retry-After": "86400"})]
    patient = Pull(tmp_path, upstream, other)
    assert (patient(), patient.slept) == (0, [60.0])
    # A download that is always cut off leaves no file behind.
    upstream.faults["htest/b.txt"] = [(None, {})] * 99
    cut = Pull(tmp_path / "new", upstream, other)
    assert cut() == 1
    [line] = cut.lines
    assert "cut off after 3 of 7 bytes; check the network" in line
    assert len(cut.slept) == 3
    assert cut.left() == []


def test_missing_upstream(tmp_path: Path, upstream: Upstream) -> None:
    """A file missing upstream is one error line with its status; an unreachable host is one line for all files."""
    gone, there = upstream.add("htest/gone.txt", b"x"), upstream.add("htest/there.txt", b"y")
    del upstream.files["htest/gone.txt"]
    run = Pull(tmp_path, upstream, gone, there)
    assert run() == 1
    assert "status 404; the repository or the commit may be gone" in run.lines[0]
    assert run.left() == ["htest/there.txt"]
    assert run.slept == []
    upstream.close()
    run = Pull(tmp_path / "new", upstream, gone, there)
    assert run() == 1
    (line,) = run.lines
    assert line.startswith("error: htest/gone.txt: http://127.0.0.1:")
    assert "cannot be reached" in line
    assert "Connection refused" in line
    assert len(run.slept) == 3


def test_unwritable_destination(tmp_path: Path, upstream: Upstream) -> None:
    """A destination that cannot be written to is one error line that names it."""
    (tmp_path / "file").write_bytes(b"x")
    run = Pull(tmp_path / "file", upstream, upstream.add("a/1", b"1"), upstream.add("a/2", b"2"))
    assert run() == 1
    assert len(run.lines) == 1
    assert run.lines[0].startswith(f"error: {tmp_path / 'file' / 'a' / '1'}: cannot be written (")
    assert not upstream.requests


def pulled(dest: Path, opener: Callable[[str], object]) -> int:
    """Pull one file, whose address a function opens."""
    entry = ManifestEntry("a/1", "owner/name", COMMIT, "some dir/1.csv", 8, "0" * 64, "MIT")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pytest_llmprops.data.pull.read_manifest", lambda: [entry])
        patch.setattr("pytest_llmprops.data.pull._urlopen", opener)
        patch.setattr("time.sleep", lambda seconds: None)
        return pull(dest, print)


def test_interrupt_leaves_no_half_file(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a file leaves neither that file nor a temporary one."""
    opened = MagicMock()
    opened.read.side_effect = [b"half", KeyboardInterrupt]
    with pytest.raises(KeyboardInterrupt):
        pulled(tmp_path, lambda url: opened)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_chosen_files(tmp_path: Path, upstream: Upstream) -> None:
    """Files are chosen by path, folder or pattern; no match is an error that lists folders."""
    names = ["eras/t.json", "htest/a_dev.jsonl", "htest/a_test.jsonl"]
    entries = [upstream.add(name, name.encode()) for name in names]
    for wanted, expected in (
        (["htest"], names[1:]),
        (["htest/"], names[1:]),
        (["*_test.jsonl", "eras/t.json"], [names[0], names[2]]),
        (["ht"], []),
    ):
        run = Pull(tmp_path / "-".join(wanted).replace("/", "_"), upstream, *entries)
        assert run(*wanted) == int(not expected)
        assert run.left() == expected
    assert run.lines == ["error: no file of the manifest matches 'ht'; its folders are eras, htest"]


def test_bad_base_url(tmp_path: Path) -> None:
    """A base URL without its placeholders, or that is not a web address, is an error with the default URL."""
    for base_url, said in (
        ("https://example.org/{path}", "has no {repository}"),
        ("file:///{repository}/{commit}/{path}", "is not a web address"),
    ):
        lines: list[str] = []
        assert pull(tmp_path, lines.append, base_url=base_url) == 1
        [line] = lines
        assert said in line
        assert BASE_URL in line


def test_default_address_is_pinned(tmp_path: Path) -> None:
    """The default address contains repository, commit and path, but no branch, which could move."""
    opener = MagicMock(side_effect=OSError("no network in tests"))
    assert pulled(tmp_path, opener) == 1
    opener.assert_called_with(f"https://raw.githubusercontent.com/owner/name/{COMMIT}/some%20dir/1.csv")
