"""Atomic writes: a file is written under a temporary name and then renamed. Devices and pipes are written to."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pytest_llmprops.core.errors import UsageError


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Report an OSError of the block as one line about ``place``, which the user chose.

    :raises UsageError: instead of the OSError.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{place}: cannot be written ({error.strerror or error}); free disk space or choose another place"
        ) from None


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a draft next to ``path`` for the block to write; it replaces ``path`` if the block ends without an error.

    The permissions of an existing file are kept. If several processes write the same file, the last one wins. A
    symbolic link stays, and the file that it names is replaced. A device or pipe is written to. ``-`` is standard
    output.

    :param sync: write the draft to disk (fsync) before the rename, for text that a person typed.
    :raises OSError: if the draft cannot be written. ``path`` is then unchanged, and the draft is removed.
    """
    if is_stdout(path) or _is_stream(path):
        with tempfile.TemporaryDirectory() as folder:
            draft = Path(folder) / "draft"
            yield draft
            _copy(draft, path)
        return
    if path.is_symlink():
        path = path.resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield draft
        if sync:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        # After a success the draft no longer exists. After a failure, an error here must not hide the first one.
        with contextlib.suppress(OSError):
            draft.unlink()


def is_stdout(path: Path) -> bool:
    """Return True if ``path`` is ``-`` or ``/dev/stdout``."""
    return path in (Path("-"), Path("/dev/stdout"))


def _is_stream(path: Path) -> bool:
    """Return True if ``path`` is a device, a pipe or a socket, also as ``/dev/stderr``, perhaps a redirected file."""
    place = path.absolute()
    # other folders below /dev, such as /dev/shm, may have ordinary files
    if place.parent in (Path("/dev"), Path("/dev/fd")) or place.is_relative_to("/proc"):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _copy(draft: Path, path: Path) -> None:
    with draft.open("rb") as content:
        if is_stdout(path):
            sys.stdout.flush()
            shutil.copyfileobj(content, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        # /dev/stderr may be a file, whose earlier content stays.
        with path.open("ab") as target:
            shutil.copyfileobj(content, target)


def write_text(path: Path, text: str, *, sync: bool = False) -> None:
    """Replace the content of ``path`` with ``text``, in UTF-8, without changing line ends.

    :raises OSError: as :func:`replacing`.
    """
    with replacing(path, sync=sync) as draft:
        draft.write_text(text, encoding="utf-8", newline="")
