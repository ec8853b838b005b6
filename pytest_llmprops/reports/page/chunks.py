"""The texts of the page's items in compressed chunks; a prefix that prompts of a chunk share is stored once."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.reports.kit.text import visible

#: maximum characters of one text on the page
MOST = 20_000
#: minimum length of a shared prefix that is stored once
SHORTEST_PREFIX = 120

#: the group in which prompts share prefixes, the row's texts, and its calls with tokens, seconds and cost
Texts = tuple[tuple[Any, ...], list[Any], list[tuple[RequestRecord, list[Any]]]]


def pack(value: Any) -> str:
    """Return JSON, compressed (zlib) and in base64; the page decodes it with ``DecompressionStream``."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 6)).decode("ascii")


def packed_rows(rows: Iterable[Texts], size: int) -> Iterator[str]:
    """Yield chunks of ``size`` rows: ``{"prefixes": […], "rows": [[expected, given, reason, values, calls left out,
    calls], …]}``.
    """
    waiting = iter(rows)
    while chunk := list(islice(waiting, size)):
        prefixes = _Prefixes()
        packed = [
            [*texts, [_call(call, usage, group, prefixes) for call, usage in calls]]
            for group, texts, calls in chunk
        ]
        yield pack({"prefixes": prefixes.finish(), "rows": packed})


def cut(text: str) -> str:
    """Return a text for the page: control characters spelled out, a long text cut with a note."""
    if len(text) <= MOST:
        return visible(text)
    return f"{visible(text[:MOST])}… ({len(text) - MOST:,} characters more in the run record)"


class _Prefixes:
    """Stores the common prefix of texts of the same kind (few-shot examples) once."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], list[list[Any]]] = {}

    def hold(self, text: str, group: tuple[Any, ...]) -> list[Any]:
        """Add a text; return a list that :meth:`finish` turns into ``[number of the prefix or -1, rest]``."""
        held = [-1, cut(text)]
        self._groups.setdefault(group, []).append(held)
        return held

    def finish(self) -> list[str]:
        """Remove the common prefixes from the texts, and return the prefixes."""
        stored: dict[str, int] = {}
        for held in self._groups.values():
            texts = [text for _, text in held]
            common = os.path.commonprefix((min(texts), max(texts)))  # noqa: RUF071 - characters are meant
            common = common[: common.rfind("\n") + 1]
            if len(common) < SHORTEST_PREFIX or len(held) < 2:
                continue
            number = stored.setdefault(common, len(stored))
            for one in held:
                one[:] = [number, one[1][len(common) :]]
        return list(stored)


def _call(call: RequestRecord, usage: list[Any], place: tuple[Any, ...], prefixes: _Prefixes) -> list[Any]:
    """Return ``[role, [[speaker, text], …], reply, remarks, usage]``; a request other than a chat is shown as JSON."""
    messages = call.messages
    if "messages" not in call.request:
        fields = {name: value for name, value in call.request.items() if value not in (None, [], {})}
        messages = [(call.kind, _plain(fields))]
    texts = [
        [speaker, prefixes.hold(text, (*place, call.role, number))]
        for number, (speaker, text) in enumerate(messages)
    ]
    reply = call.reply or ("" if call.reply_value is None else _plain(call.reply_value))
    remarks = []
    if call.finish_reason not in ("", "stop"):
        remarks.append(f"ended by {call.finish_reason}")
    if call.cached:
        remarks.append("from the store")
    return [call.role, texts, cut(reply), ", ".join(map(visible, remarks)), usage]


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
