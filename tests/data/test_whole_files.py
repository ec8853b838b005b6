"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_llmprops.data.whole_files import replacing, write_text


@contextmanager
def full_disk() -> Iterator[None]:
    """Make writes beyond 64 bytes of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("sync", [False, True])
def test_file_is_written_completely_or_not_at_all(tmp_path: Path, sync: bool) -> None:
    """A full disk leaves the old file only; otherwise the file has the new text and the old mode."""
    path = tmp_path / "a.csv"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o640)
    with full_disk(), pytest.raises(OSError, match="too large"):
        write_text(path, "x" * 1000, sync=sync)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_text(path, "new\r\nlines\n", sync=sync)
    assert path.read_bytes() == b"new\r\nlines\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_interrupted_writer_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted writer leaves no draft and creates no file; a block that writes nothing is an error."""

    def write_half(error: BaseException) -> None:
        with replacing(tmp_path / "a") as draft:
            draft.write_text("half")
            raise error

    for error in (KeyboardInterrupt(), ValueError()):
        with pytest.raises(type(error)):
            write_half(error)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("old")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_text() == "old"
    monkeypatch.setattr(Path, "unlink", Mock(side_effect=OSError(errno.EROFS, "read-only")))
    with pytest.raises(OSError, match="No space"):
        write_half(OSError(errno.ENOSPC, "No space left on device"))


def test_symbolic_link_stays(tmp_path: Path) -> None:
    """A link is not replaced: the file that it names gets the new text."""
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_pipe_is_written_to(tmp_path: Path) -> None:
    """A FIFO is not replaced: its reader gets the text."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    write_text(fifo, "text")
    reader.join(60)
    assert read == ["text"]
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]


def test_device_is_written_to(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A device stays a device, also behind a link; ``/dev/stdout`` and ``-`` are standard output."""
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    for path in (Path(os.devnull), link, Path("/dev/stdout"), Path("-")):
        write_text(path, "text\n")
    assert link.is_symlink()
    assert Path(os.devnull).is_char_device()
    assert capfdbinary.readouterr().out == b"text\ntext\n"
    assert not Path("-").exists()
