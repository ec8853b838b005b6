"""Opening the files of a run record, and reading JSON Lines files line by line."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Generic, Literal, NamedTuple, TypeVar, overload

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.field_types import DEEPEST
from pytest_llmprops.records.files import FILES, File, is_too_deep

_FLAGS = {
    "rb": os.O_RDONLY,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT,
}
#: no link, and no waiting for the other end of a pipe
_SAFELY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
_LINK = "links are not followed in the folder of a run; put the file itself there"
_NOT_REGULAR = "only regular files are read and written in the folder of a run; remove this one"


@overload
def open_record_file(path: Path, mode: Literal["rb"] = ...) -> BufferedReader: ...
@overload
def open_record_file(path: Path, mode: Literal["ab", "a+b"], *, buffering: int = ...) -> IO[bytes]: ...
def open_record_file(path: Path, mode: str = "rb", *, buffering: int = -1) -> IO[bytes]:
    """Open a file in the folder of a run, which another person may have made. The folder itself may be a link.

    :raises OSError: if it is a link, is not a regular file (a pipe would block, and a device may have no end), or is
        larger than :data:`~pytest_llmprops.records.files.FILES` says; ``strerror`` says so.
    """
    try:
        descriptor = os.open(path, _FLAGS[mode] | _SAFELY, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise OSError(errno.ELOOP, _LINK, str(path)) from None
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise OSError(error.errno, _NOT_REGULAR, str(path)) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))
        most = _limits(path).most
        if status.st_size > most:
            raise OSError(
                errno.EFBIG, f"the file has {status.st_size:,} bytes; the limit is {most:,}", str(path)
            )
        return os.fdopen(descriptor, mode, buffering)
    except BaseException:
        os.close(descriptor)
        raise


def lock_file(file: IO[bytes], *, shared: bool = False, seconds: float = 0.1) -> bool:
    """Lock a file until it is closed or this process ends; return False if another process has locked it.

    :param shared: only ask whether a process writes the file. Such a process holds its lock for an instant, so a
        writer tries again for some ``seconds``.
    :returns: also True without file locks: on Windows, and on some network file systems.
    """
    try:
        import fcntl
    except ImportError:
        return True
    kind, end = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if shared or time.monotonic() >= end:
                return False
            time.sleep(0.01)
            continue
        except OSError:
            pass
        return True


def append_whole(file: IO[bytes], raw: bytes, size: int) -> None:
    """Append complete lines to an unbuffered file, and after an error cut it to its earlier ``size``.

    A part of a line would be damage once another line follows it.

    :raises OSError: for example on a full disk.
    """
    try:
        # A disk that is nearly full takes a part.
        while (written := file.write(raw)) < len(raw):
            raw = raw[written:]
    except OSError:
        with suppress(OSError):
            file.truncate(size)
        raise


def read_record_file(path: Path) -> bytes:
    """Return the content of a small file in the folder of a run.

    :raises OSError: as :func:`open_record_file`.
    """
    with open_record_file(path) as file:
        return file.read()


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
            file = open_record_file(self._path)
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
        longest = _limits(self._path).line
        while len(raw) >= most and b"\n" not in raw and (more := file.read(most)):
            raw += more
            if len(raw) > longest:
                raise OSError(errno.EFBIG, f"a line {_too_long(longest)}", str(self._path))
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


def _limits(path: Path) -> File:
    """Return what limits a file; one that is not of a record has the limits of ``run.json``."""
    return FILES.get(path.name, FILES["run.json"])


def _too_long(longest: int) -> str:
    return f"has more than {longest:,} bytes"


TOO_DEEP = f"has more than {DEEPEST} lists and objects in each other"


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
            with open_record_file(self._path) as file:
                yield from self._records(file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise DataError(f"{self._path}: {error.strerror}") from None

    def _records(self, file: IO[bytes]) -> Iterator[T]:
        end, damaged, longest = 0, 0, _limits(self._path).line
        for number, line in enumerate(iter(partial(file.readline, longest + 1), b""), 1):
            self.offset, end = end, end + len(line)
            if len(line) > longest:
                raise self._error(number, _too_long(longest))
            if not line.strip():
                continue
            if damaged:
                raise self._error(damaged, "is damaged (not JSON)")
            if is_too_deep(line):
                raise self._error(number, TOO_DEEP)
            try:
                row = json.loads(line.decode())
            except ValueError:
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
