"""Reading JSON Lines files of a run record, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from pytest_llmprops.core.errors import DataError

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
                    raise ValueError("is no object")
                record = self._read(row)
            except ValueError as error:
                raise self._error(number, str(error)) from None
            yield record
        self.is_truncated = bool(damaged)

    def _error(self, number: int, problem: str) -> DataError:
        return DataError(f"{self._path}: line {number} {problem}; restore the file or delete the line")
