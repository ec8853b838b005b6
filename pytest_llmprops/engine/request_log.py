"""``requests.jsonl`` of a run record: every request and reply, long common prefixes stored once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pytest_llmprops.core.requests import Reply, Request, request_to_json

#: stands in the place of a reply that no record keeps
NOT_KEPT = "computed in each run, not kept"
#: A shared beginning shorter than this is not worth a line of its own.
MIN_PREFIX = 256


class RequestLog:
    """Appends one line a request, flushed at once, so that a killed run keeps what it has.

    Lines with ``prefix_id`` define a text; in later requests a message content
    ``{"prefix": id, "rest": text}`` stands for that text followed by ``rest``. Read back by
    ``runs/replies.py``.
    """

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / "requests.jsonl", "a", encoding="utf-8", errors="replace")
        self._written: set[str] = set()
        self._prefixes: list[tuple[str, str]] = []
        self._last = ""

    def add(self, role: str, request: Request, reply: Reply, *, kept: bool = True) -> None:
        """Append the pair; a key already written in this run is not repeated.

        :param kept: write the reply, too; without it stands a note.
        :raises OSError: on a full disk.
        """
        if reply.key in self._written:
            return
        self._written.add(reply.key)
        asked = request_to_json(request)
        lines = []
        if "messages" in asked:
            for message in asked["messages"]:
                message[1], definition = self._shorten(message[1])
                if definition:
                    lines.append(definition)
        answer = reply.to_json()
        shown = {k: answer[k] for k in ("text", "value", "logprobs") if k in answer}
        line = {
            "key": reply.key,
            "role": role,
            "kind": asked.pop("kind"),
            "request": asked,
            "reply": shown if kept else {"text": "", "note": NOT_KEPT},
            "finish_reason": reply.finish_reason,
            "served_model": reply.served_model,
            "usage": dict(
                zip(("prompt_tokens", "completion_tokens", "reasoning_tokens"), answer["usage"], strict=True)
            ),
            "cached": reply.cached,
            "seconds": round(reply.seconds, 6),
        }
        lines.append(line)
        self._file.write("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines))
        self._file.flush()

    def _shorten(self, content: str) -> tuple[Any, dict[str, str] | None]:
        for prefix_id, prefix in self._prefixes:
            if content.startswith(prefix):
                return {"prefix": prefix_id, "rest": content[len(prefix) :]}, None
        common = os.path.commonprefix((content, self._last))  # noqa: RUF071 - characters are meant
        self._last = content
        common = common[: common.rfind("\n") + 1]
        if len(common) < MIN_PREFIX:
            return content, None
        prefix_id = hashlib.sha256(common.encode("utf-8", "replace")).hexdigest()[:16]
        self._prefixes.insert(0, (prefix_id, common))
        return (
            {"prefix": prefix_id, "rest": content[len(common) :]},
            {"prefix_id": prefix_id, "text": common},
        )

    def close(self) -> None:
        """Close the file. What a full disk refused was reported when it was added."""
        with contextlib.suppress(OSError):
            self._file.close()
