"""Atomic writes: a file is written under a temporary name and then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a draft next to ``path`` for the block to write; it replaces ``path`` if the block ends without an error.

    The permissions of an existing file are kept. If several processes write the same file, the last one wins.

    :param sync: write the draft to disk (fsync) before the rename, for text that a person typed.
    :raises OSError: if the draft cannot be written. ``path`` is then unchanged, and the draft is removed.
    """
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


def write_text(path: Path, text: str, *, sync: bool = False) -> None:
    """Replace the content of ``path`` with ``text``, in UTF-8, without changing line ends.

    :raises OSError: as :func:`replacing`.
    """
    with replacing(path, sync=sync) as draft:
        draft.write_text(text, encoding="utf-8", newline="")
