"""Reading ``requests.jsonl`` of a run record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.runs.reader import json_lines


def read_requests(folder: Path) -> dict[str, RequestRecord]:
    """Return the logged requests of a run by key.

    Empty if the run has no ``requests.jsonl``. A truncated last line is ignored.

    :raises DataError: for a damaged line that is not the last.
    """
    prefixes: dict[str, str] = {}

    def read(line: dict[str, Any]) -> RequestRecord | None:
        if "prefix_id" not in line:
            return RequestRecord.from_json(line, prefixes)
        if not isinstance(line["prefix_id"], str) or not isinstance(line.get("text"), str):
            raise ValueError("has no texts 'prefix_id' and 'text'")
        prefixes[line["prefix_id"]] = line["text"]
        return None

    records, _ = json_lines(folder / "requests.jsonl", read)
    return {record.key: record for _, record in records if record is not None}


def reply_of(record: VerdictRecord, requests: Mapping[str, RequestRecord]) -> str:
    """Return the model's last reply about the record's item, in full.

    Without a logged reply, return the answer in the record. Replies of helpers (such as the reader of a chain of
    thought) count only if the model under test has none.
    """
    logged = [requests[key] for key in record.requests if key in requests]
    own = [request for request in logged if request.role == "subject"] or logged
    if own:
        last = own[-1]
        if last.reply:
            return last.reply
        if last.reply_value is not None:
            return json.dumps(last.reply_value, ensure_ascii=False)
    return record.given
