"""Review marks of people on the verdicts of a run: ``review.jsonl`` beside the run's record."""

from __future__ import annotations

import contextlib
import json
import os
from functools import partial
from pathlib import Path
from typing import IO, Any

from pytest_llmprops.core.texts import visible
from pytest_llmprops.core.verdicts import VerdictKey
from pytest_llmprops.records.files import from_plain, line, plain
from pytest_llmprops.records.rows import Review
from pytest_llmprops.runs.json_lines import JsonLines, open_record_file

FILE = "review.jsonl"


def shown_review(review: Review) -> dict[str, Any]:
    """Return a mark as pages have it: control characters in its texts are spelled out."""
    return {k: visible(v) if isinstance(v, str) else v for k, v in plain(review).items()}


def read_reviews(folder: Path, run_id: str) -> dict[VerdictKey, Review]:
    """Return the marks on a run by verdict; empty without ``review.jsonl``.

    Lines on other runs are ignored, and so is a truncated last line. A mark without opinion and note deletes an
    earlier one.

    :raises DataError: for a damaged line that is not the last.
    """
    latest = {
        review.key: review
        for review in JsonLines(folder / FILE, partial(from_plain, Review))
        if review.run == run_id
    }
    return {key: review for key, review in latest.items() if review.says_status or review.note}


def append_review(folder: Path, review: Review) -> None:
    """Append a mark to ``review.jsonl`` beside a run, and return when it is on the disk.

    Several processes may append. If a process was killed while it wrote, its incomplete last line is removed.

    :raises OSError: if the mark cannot be written, for example on a full disk. The file then has its earlier lines.
        Also if the file is a link or is not a regular file.
    """
    path = folder / FILE
    is_new = not path.exists()
    raw = line(review)
    with open_record_file(path, "a+b", buffering=0) as file:
        _lock(file)
        size = _end_of_lines(file)
        try:
            written = 0
            while written < len(raw):
                written += file.write(raw[written:]) or 0
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise
    if is_new:
        _sync_folder(folder)


def _lock(file: IO[bytes]) -> None:
    """Lock ``file`` until it is closed; without file locks, do nothing."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)


def _end_of_lines(file: IO[bytes]) -> int:
    """Make the file end with a complete line, and return its size."""
    file.seek(0)
    text = file.read()
    last = text[text.rfind(b"\n") + 1 :]
    if not last:
        return len(text)
    try:
        json.loads(last)
    except ValueError:
        return file.truncate(len(text) - len(last))
    # A person wrote the last line without a line end.
    file.write(b"\n")
    return len(text) + 1


def _sync_folder(folder: Path) -> None:
    """Write a new name in ``folder`` to the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
