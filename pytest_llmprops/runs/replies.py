"""``requests.jsonl`` of a run record read back: what was asked and what came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.runs.reader import json_lines


def read_requests(folder: Path) -> dict[str, dict[str, Any]]:
    """Logged requests by key, each with its messages in full as ``[role, content]``.

    Empty when the run kept no requests. A torn last line is left out.

    :raises DataError: for a damaged line that is not the last.
    """
    path = folder / "requests.jsonl"
    prefixes: dict[str, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for number, row in json_lines(path, dict[str, Any])[0]:
        try:
            if "prefix_id" in row:
                prefixes[row["prefix_id"]] = row["text"]
                continue
            request = row["request"]
            if "messages" in request:
                messages = full_messages(request, prefixes)
                row["request"] = {**request, "messages": [list(message) for message in messages]}
            found[row["key"]] = row
        except (LookupError, TypeError, AttributeError, ValueError):
            raise DataError(f"{path}: line {number} is no logged request; restore the file") from None
    return found


def full_messages(request: Mapping[str, Any], prefixes: Mapping[str, str]) -> list[tuple[str, str]]:
    """The messages of a logged request as (role, content), prefixes put back.

    :raises KeyError: for a prefix that was not defined.
    """
    return [
        (role, content if isinstance(content, str) else prefixes[content["prefix"]] + content["rest"])
        for role, content in request.get("messages", ())
    ]


def reply_of(record: VerdictRecord, requests: Mapping[str, Mapping[str, Any]]) -> str:
    """What the model said about the record's item: its last reply in full, else the answer read from it.

    Replies of helpers (a reader of the model's reasoning) are not the model's own.
    """
    logged = [requests[key] for key in record.requests if key in requests]
    own = [row for row in logged if row.get("role") == "subject"] or logged
    if own:
        reply = own[-1].get("reply")
        if isinstance(reply, Mapping):
            text, value = reply.get("text"), reply.get("value")
            if isinstance(text, str) and text:
                return text
            if value is not None:
                return json.dumps(value, ensure_ascii=False)
    return record.given
