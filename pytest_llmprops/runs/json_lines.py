"""Reading JSON Lines files of a run record, line by line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar

from pytest_llmprops.core.errors import DataError

#: bytes before the place of the last read that are compared, so that another file in its place is noticed
_KNOWN = 64


class Appended(NamedTuple):
    """What one read returned.

    :param lines: complete lines without their line ends.
    :param is_new: the file is another one than at the last read, or was cut or deleted: these lines are the first ones.
    :param has_more: the file has more to read.
    """

    lines: list[bytes]
    is_new: bool
    has_more: bool


class AppendedLines:
    """Reads the lines that were appended to a file since the last read. An incomplete last line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file_id: tuple[int, int] | None = None
        self._known = b""
        #: number of bytes that were read
        self.offset = 0

    def read(self, most: int) -> Appended:
        """Return the next complete lines: about ``most`` bytes, at least one line. A missing file has none.

        :raises OSError: if the file cannot be read.
        """
        try:
            file = open(self._path, "rb")
        except (FileNotFoundError, NotADirectoryError):
            was_read, self.offset = self.offset > 0, 0
            return Appended([], was_read, False)
        with file:
            status = os.fstat(file.fileno())
            file_id = (status.st_dev, status.st_ino)
            is_new = self.offset > 0 and not (file_id == self._file_id and self._is_known(file))
            if is_new:
                self.offset = 0
            self._file_id = file_id
            lines = self._next(file, most)
            return Appended(lines, is_new, bool(lines) and self.offset < status.st_size)

    def _next(self, file: IO[bytes], most: int) -> list[bytes]:
        file.seek(self.offset)
        raw = file.read(most)
        while len(raw) >= most and b"\n" not in raw and (more := file.read(most)):
            raw += more
        end = raw.rfind(b"\n") + 1
        if end:
            self.offset += end
            self._known = raw[max(0, end - _KNOWN) : end]
        return raw[:end].split(b"\n")[:-1]

    def _is_known(self, file: IO[bytes]) -> bool:
        """Return True if the bytes before the offset are those that were read."""
        file.seek(self.offset - len(self._known))
        return file.read(len(self._known)) == self._known


T = TypeVar("T")


class JsonLines(Generic[T]):
    """The records of a JSON Lines file, read while they are iterated over. A missing file has none.

    :param read: converts an object to a record; raises ValueError with a phrase that completes "line 7 …".
    """

    def __init__(self, path: Path, read: Callable[[dict[str, Any]], T]) -> None:
        self._path, self._read = path, read
        #: where the line of the last record begins, in bytes
        self.offset = 0
        #: the last line is incomplete and was ignored; known at the end
        self.is_truncated = False

    def __iter__(self) -> Iterator[T]:
        """Yield the records.

        :raises DataError: for a damaged line that is not the last, and for a last line that is JSON but not valid.
        """
        # Not as text: a reply may contain characters that str.splitlines() treats as line ends.
        try:
            with open(self._path, "rb") as file:
                yield from self._records(file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise DataError(f"{self._path}: {error.strerror}") from None

    def _records(self, lines: Iterator[bytes]) -> Iterator[T]:
        end, damaged = 0, 0
        for number, line in enumerate(lines, 1):
            self.offset, end = end, end + len(line)
            if not line.strip():
                continue
            if damaged:
                raise self._error(damaged, "is damaged (not JSON)")
            try:
                row = json.loads(line.decode())
            except (ValueError, RecursionError):
                damaged = number
                continue
            try:
                if not isinstance(row, dict):
                    raise ValueError("is not a JSON object")
                record = self._read(row)
            except ValueError as error:
                raise self._error(number, str(error)) from None
            yield record
        self.is_truncated = bool(damaged)

    def _error(self, number: int, problem: str) -> DataError:
        return DataError(f"{self._path}: line {number} {problem}; restore the file or delete the line")
