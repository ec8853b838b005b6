"""``requests.jsonl`` of a run record: every request and reply, long common prefixes stored once."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.records.files import line
from pytest_llmprops.records.requests import Prefix, discarded, record_of

#: the note of a reply that no record keeps
NOT_KEPT = "computed in each run, not kept"
#: Minimum length of a common prefix that gets its own line.
MIN_PREFIX = 256
#: Each request is compared with at most this many prefixes: the latest used.
MOST_PREFIXES = 64


class RequestLog:
    """Appends one line per request. A killed run keeps the lines before the last :meth:`flush`.

    A line with ``prefix_id`` defines a text. In later requests, a text or the content of a message
    ``{"prefix": id, "rest": text}`` means that text followed by ``rest``. A line with ``discarded`` has the cost of a
    reply that is not used. ``runs/replies.py`` reads the file.
    """

    def __init__(self, folder: Path) -> None:
        # A resumed run has removed a line that was being written when it was killed.
        self._file = open(folder / "requests.jsonl", "ab")
        #: the keys of the requests that this run has written
        self._written: set[str] = set()
        #: (id, text) of the prefixes that the next request may have, the latest used first
        self._prefixes: list[tuple[str, str]] = []
        self._last = ""

    def add(
        self,
        role: str,
        request: Request,
        reply: Reply,
        *,
        kept: bool = True,
        model: str = "",
        cost: float | None = None,
    ) -> None:
        """Append a request and its reply; a key that this run has already written is not repeated.

        The line is on disk after :meth:`flush`.

        :param kept: write the reply; otherwise write a note in its place.
        :param model: the label of the model. :param cost: what the run paid, in USD; None if it is unknown or not paid.
        :raises OSError: on a full disk.
        """
        if reply.key in self._written:
            return
        self._written.add(reply.key)
        note = "" if kept else NOT_KEPT
        record = record_of(role, request, reply, note=note, model=model, cost=cost, shorten=self._content)
        self._file.write(line(record))

    def add_discarded(self, reply: Reply, model: str, cost: float | None) -> None:
        """Append what a reply cost that is not used; see :meth:`add`.

        :raises OSError: on a full disk.
        """
        self._file.write(line(discarded(reply, model, cost)))

    def flush(self) -> None:
        """Write the lines so far to the file, with one call of the system.

        :raises OSError: on a full disk.
        """
        self._file.flush()

    def _content(self, text: str) -> Any:
        """Return a text with a long prefix replaced, whose definition is written when it is first used."""
        for place, (prefix_id, prefix) in enumerate(self._prefixes):
            if text.startswith(prefix):
                self._prefixes.insert(0, self._prefixes.pop(place))
                return {"prefix": prefix_id, "rest": text[len(prefix) :]}
        last, self._last = self._last, text
        if len(text) < MIN_PREFIX or text[:MIN_PREFIX] != last[:MIN_PREFIX]:
            # Most prompts; the next function compares character by character in Python.
            return text
        common = os.path.commonprefix((text, last))  # noqa: RUF071 - characters are meant
        common = common[: common.rfind("\n") + 1]
        if len(common) < MIN_PREFIX:
            return text
        prefix_id = hashlib.sha256(common.encode("utf-8", "replace")).hexdigest()[:16]
        # A prefix that is left out here and needed again is defined again.
        self._prefixes = [(prefix_id, common), *self._prefixes[: MOST_PREFIXES - 1]]
        self._file.write(line(Prefix(prefix_id, common)))
        return {"prefix": prefix_id, "rest": text[len(common) :]}

    def close(self) -> None:
        """Close the file. A full disk is not reported again: :meth:`flush` has raised."""
        with contextlib.suppress(OSError):
            self._file.close()
