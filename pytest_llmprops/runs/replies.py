"""Reading ``requests.jsonl`` of a run record."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.requests import DiscardedReply, Prefix, RequestRecord
from pytest_llmprops.runs.json_lines import JsonLines, open_record_file

#: number of long prefixes in memory
_KEPT_PREFIXES = 64


class Prefixes(Mapping[str, str]):
    """The long prefixes of a file's requests by id. Only the latest used are in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[str, int] = {}
        self._latest: dict[str, str] = {}

    def define(self, prefix_id: str, text: str, offset: int) -> None:
        """Add a prefix whose line begins at ``offset``."""
        self._offsets[prefix_id] = offset
        self._keep(prefix_id, text)

    def _keep(self, prefix_id: str, text: str) -> str:
        self._latest.pop(prefix_id, None)
        self._latest[prefix_id] = text
        if len(self._latest) > _KEPT_PREFIXES:
            del self._latest[next(iter(self._latest))]
        return text

    def __getitem__(self, prefix_id: str) -> str:
        text = self._latest.get(prefix_id)
        if text is None:
            [line] = _lines_at(self._path, [self._offsets[prefix_id]])
            text = str(line["text"])
        return self._keep(prefix_id, text)

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)


class Requests(Mapping[str, RequestRecord]):
    """The logged requests of a run by key, in the order of the file; of several with one key, the last.

    Only the places of the lines are in memory, 16 bytes per request. Each access reads its line from the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._prefixes = path, Prefixes(path)
        # Two different keys have the same hash with a probability of n²/2⁶⁵: 3e-8 for a million requests.
        hashes, offsets = array("q"), array("q")
        self._lines = JsonLines(path, self._scan)
        for record in self._lines:
            if record is not None:
                hashes.append(hash(record.key))
                offsets.append(self._lines.offset)
        order = np.argsort(np.asarray(hashes), kind="stable")
        self._hashes, self._offsets = np.asarray(hashes)[order], np.asarray(offsets)[order]
        if len(order):
            is_last = np.append(self._hashes[1:] != self._hashes[:-1], True)
            self._hashes, self._offsets = self._hashes[is_last], self._offsets[is_last]

    def _scan(self, row: dict[str, Any]) -> RequestRecord | None:
        if "discarded" in row:
            from_plain(DiscardedReply, row)
            return None
        if "prefix_id" not in row:
            return from_plain(RequestRecord, row).in_full(self._prefixes)
        prefix = from_plain(Prefix, row)
        self._prefixes.define(prefix.prefix_id, prefix.text, self._lines.offset)
        return None

    def _place(self, key: object) -> int | None:
        wanted = hash(key)
        place = int(np.searchsorted(self._hashes, wanted))
        is_present = place < len(self._hashes) and self._hashes[place] == wanted
        return int(self._offsets[place]) if is_present else None

    def __contains__(self, key: object) -> bool:
        return self._place(key) is not None

    def __getitem__(self, key: str) -> RequestRecord:
        place = self._place(key)
        if place is None:
            raise KeyError(key)
        [record] = self._at([place])
        return record

    def _at(self, offsets: Any) -> Iterator[RequestRecord]:
        for line in _lines_at(self._path, offsets):
            yield from_plain(RequestRecord, line).in_full(self._prefixes)

    def __iter__(self) -> Iterator[str]:
        return (record.key for record in self.each())

    def each(self) -> Iterator[RequestRecord]:
        """Yield the requests in the order of the file."""
        return self._at(np.sort(self._offsets)) if len(self) else iter(())

    def __len__(self) -> int:
        return len(self._offsets)


def _lines_at(path: Path, offsets: Any) -> Iterator[dict[str, Any]]:
    with open_record_file(path) as file:
        for offset in offsets:
            file.seek(int(offset))
            line: dict[str, Any] = json.loads(file.readline())
            yield line


def read_requests(folder: Path) -> Requests:
    """Return the logged requests of a run.

    Empty if the run has no ``requests.jsonl``. A truncated last line is ignored.

    :raises DataError: for a damaged line that is not the last.
    """
    return Requests(folder / "requests.jsonl")


def reply_of(record: VerdictRecord, requests: Mapping[str, RequestRecord]) -> str:
    """Return the model's last reply about the record's item, in full.

    Without a logged reply, return the answer in the record. Replies of helpers (such as the reader of a chain of
    thought) count only if the model under test has none.
    """
    logged = [requests[key] for key in record.requests if key in requests]
    own = [request for request in logged if request.role == "subject"] or logged
    if own:
        last = own[-1]
        if last.reply.text:
            return last.reply.text
        if last.reply.value is not None:
            return json.dumps(last.reply.value, ensure_ascii=False)
    return record.given
