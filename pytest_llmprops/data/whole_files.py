"""Files that are written whole or not at all: beside their place, then renamed to it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A draft beside ``path``, for the block to write; it takes the place of ``path`` when the block ends well.

    An earlier file's permissions stay. Of several processes that write one file the last wins.

    :param sync: have the disk hold the draft before it is renamed, for what a person typed.
    :raises OSError: it cannot be written; ``path`` is as it was, and no draft is left, whatever ended the block.
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
        # The draft is gone where all went well; a full disk must not hide behind trouble with removing it.
        with contextlib.suppress(OSError):
            draft.unlink()


def write_text(path: Path, text: str, *, sync: bool = False) -> None:
    """Replace ``path`` by ``text``, in UTF-8 with the line ends that it has.

    :raises OSError: as :func:`replacing`.
    """
    with replacing(path, sync=sync) as draft:
        draft.write_text(text, encoding="utf-8", newline="")
