"""Following a JSON Lines file while another process appends to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, NamedTuple

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
        """Return whether the bytes before the offset are those that were read."""
        file.seek(self.offset - len(self._known))
        return file.read(len(self._known)) == self._known
