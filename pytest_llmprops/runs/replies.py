"""Reading ``requests.jsonl`` of a run record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.requests import DiscardedReply, Prefix, RequestRecord
from pytest_llmprops.runs.json_lines import JsonLines, open_record_file


class Requests(Mapping[str, RequestRecord]):
    """The logged requests of a run by key, in the order of the file; of several with one key, the last.

    Only the places of the lines and the long prefixes are in memory. Each access reads its line from the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._prefixes: dict[str, str] = {}
        self._places: dict[str, int] = {}
        lines = JsonLines(path, self._scan)
        for record in lines:
            if record is not None:
                self._places.pop(record.key, None)
                self._places[record.key] = lines.offset

    def _scan(self, row: dict[str, Any]) -> RequestRecord | None:
        if "discarded" in row:
            from_plain(DiscardedReply, row)
            return None
        if "prefix_id" not in row:
            return from_plain(RequestRecord, row).in_full(self._prefixes)
        prefix = from_plain(Prefix, row)
        self._prefixes[prefix.prefix_id] = prefix.text
        return None

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __getitem__(self, key: str) -> RequestRecord:
        [record] = self._at([self._places[key]])
        return record

    def _at(self, offsets: Iterable[int]) -> Iterator[RequestRecord]:
        with open_record_file(self._path) as file:
            for offset in offsets:
                file.seek(offset)
                yield from_plain(RequestRecord, json.loads(file.readline())).in_full(self._prefixes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def each(self) -> Iterator[RequestRecord]:
        """Yield the requests in the order of the file."""
        return self._at(self._places.values()) if len(self) else iter(())

    def __len__(self) -> int:
        return len(self._places)


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
