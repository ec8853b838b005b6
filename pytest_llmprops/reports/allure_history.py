"""The file in which Allure keeps the results of earlier reports, one line of JSON per report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_llmprops.core.texts import shortened
from pytest_llmprops.data.whole_files import write_text

#: maximum number of runs in the history and in the page's trends
RUNS_KEPT = 10
#: Maximum size of the file. The last report is kept even if it is larger.
MOST_BYTES = 50_000_000
#: the labels that the page's charts group earlier results by
_LABELS = {"epic", "feature", "story", "severity"}
_MESSAGE = 300


def forget(history: Path, name: str) -> None:
    """Remove a report from the history, so that a report that is built twice is one point of the trends."""
    if not history.is_file():
        return
    lines = history.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if _entry(line).get("name") != name]
    if len(kept) < len(lines):
        write_text(history, "".join(kept))


def reduce(history: Path) -> None:
    """Reduce the last report's entry to what the page shows, and remove the oldest reports above ``MOST_BYTES``."""
    if not history.is_file():
        return
    lines = history.read_text(encoding="utf-8").splitlines()
    entry = _entry(lines[-1]) if lines else {}
    for result in entry.get("testResults", {}).values():
        result["labels"] = [label for label in result.get("labels", ()) if label.get("name") in _LABELS]
        for name in {"message", "trace"} & result.keys():
            result[name] = shortened(result[name], _MESSAGE)
    if entry:
        lines[-1] = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line.encode()) + 1
        if kept and size > MOST_BYTES:
            break
        kept.insert(0, line)
    write_text(history, "".join(f"{line}\n" for line in kept))


def _entry(line: str) -> dict[str, Any]:
    """Return a report's entry; empty for a line that is not one."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
