"""One line of ``requests.jsonl``: a request to a model and its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.core.requests import Reply, Request, Usage, request_to_json
from pytest_llmprops.core.strict_json import JSON


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One line of ``requests.jsonl``, with all messages in full.

    :param key: the request's key (see :func:`~pytest_llmprops.core.requests.request_key`).
    :param role: ``subject`` for the model under test, otherwise the role of the helper.
    :param request: the request's fields without ``kind``; messages as ``[role, content]``.
    :param reply: the text of the reply; empty if the reply is not text.
    :param reply_value: a reply that is not text, as JSON; None otherwise.
    :param note: why the reply is not recorded; empty if it is.
    :param cached: whether the reply came from the store.
    :param seconds: duration of the call when it was made.
    :param via: as in :class:`~pytest_llmprops.core.requests.Reply`.
    """

    key: str
    role: str
    kind: str
    request: Mapping[str, Any]
    reply: str = ""
    reply_value: JSON = None
    logprobs: Sequence[Mapping[str, JSON]] | None = None
    note: str = ""
    finish_reason: str = ""
    served_model: str = ""
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    seconds: float = 0.0
    via: str = ""

    @classmethod
    def of(cls, role: str, request: Request, reply: Reply, *, note: str = "") -> RequestRecord:
        """Return the record of a request that was answered.

        :param note: why the reply is left out of the record; empty to include it.
        """
        fields = request_to_json(request)
        kind = fields.pop("kind")
        return cls(
            reply.key,
            role,
            kind,
            fields,
            reply="" if note else reply.text,
            reply_value=None if note else reply.value,
            logprobs=None if note else reply.logprobs,
            note=note,
            finish_reason=reply.finish_reason,
            served_model=reply.served_model,
            usage=reply.usage,
            cached=reply.cached,
            seconds=round(reply.seconds, 6),
            via=reply.via,
        )

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The role and content of each message; empty if the request is not a chat."""
        return [(role, content) for role, content in self.request.get("messages", ())]

    @classmethod
    def from_json(cls, line: Mapping[str, Any], prefixes: Mapping[str, str] | None = None) -> RequestRecord:
        """Read a line.

        :param prefixes: the texts of the lines with a ``prefix_id`` before this one, by that id.
        :raises ValueError: naming what is missing or of the wrong type.
        """
        for name in ("key", "request"):
            if name not in line:
                raise ValueError(f"has no '{name}'")
        for name, kinds in _KINDS.items():
            if name in line and not isinstance(line[name], kinds):
                raise ValueError(f"has a '{name}' of the wrong type ({type(line[name]).__name__})")
        reply, usage = line.get("reply", {}), line.get("usage", {})
        request = line["request"]
        if "messages" in request:
            request = {**request, "messages": _full_messages(request["messages"], prefixes or {})}
        return cls(
            line["key"],
            line.get("role", ""),
            line.get("kind", ""),
            request,
            reply=str(reply.get("text") or ""),
            reply_value=reply.get("value"),
            logprobs=reply.get("logprobs"),
            note=str(reply.get("note") or ""),
            finish_reason=line.get("finish_reason", ""),
            served_model=line.get("served_model", ""),
            usage=Usage(**{name: usage.get(name, 0) for name in Usage.__slots__}),
            cached=line.get("cached", False),
            seconds=line.get("seconds", 0.0),
            via=line.get("via", ""),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the line as it is written, before long prefixes are replaced."""
        reply: dict[str, Any] = {"text": self.reply}
        if self.reply_value is not None:
            reply["value"] = self.reply_value
        if self.logprobs is not None:
            reply["logprobs"] = list(self.logprobs)
        if self.note:
            reply["note"] = self.note
        line = {
            "key": self.key,
            "role": self.role,
            "kind": self.kind,
            "request": dict(self.request),
            "reply": reply,
            "finish_reason": self.finish_reason,
            "served_model": self.served_model,
            "usage": {name: getattr(self.usage, name) for name in Usage.__slots__},
            "cached": self.cached,
            "seconds": self.seconds,
        }
        return line | {"via": self.via} if self.via else line


_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("key", "role", "kind", "finish_reason", "served_model", "via"), str),
    **dict.fromkeys(("request", "reply", "usage"), dict),
    "cached": bool,
    "seconds": (int, float),
}


def _full_messages(messages: object, prefixes: Mapping[str, str]) -> list[list[str]]:
    """Return messages as ``[role, content]`` with the shared prefixes put back."""
    try:
        return [
            [
                str(role),
                content if isinstance(content, str) else prefixes[content["prefix"]] + content["rest"],
            ]
            for role, content in messages  # type: ignore[attr-defined]
        ]
    except LookupError:
        raise ValueError("has a prefix that no earlier line defines") from None
    except (TypeError, ValueError):
        raise ValueError("has messages that are not pairs of role and content") from None
