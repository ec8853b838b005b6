"""The lines of ``requests.jsonl``: a request to a model and its reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_llmprops.core.field_types import Flag, FreeObject, Name, Number, ReplyText, Text
from pytest_llmprops.core.requests import Reply, Request, Usage, request_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidReply:
    """What each reply has that the run paid for.

    :param via: as in :class:`~pytest_llmprops.core.requests.Reply`. :param request_id: likewise.
    :param service_tier: likewise.
    :param model: the label of the model or helper that replied.
    :param cost_usd: what the run paid for the reply; None if the price is unknown, or the reply is from the store.
    """

    usage: Usage = field(default_factory=Usage)
    via: Name = ""
    request_id: Name = ""
    service_tier: Name = ""
    model: Name = ""
    cost_usd: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedReply(PaidReply):
    """A reply that the run paid for and does not use, such as one cut while the model was thinking."""

    discarded: Flag = True


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text with which later requests begin, so that the file has it once."""

    prefix_id: Name
    text: ReplyText


@dataclass(frozen=True, slots=True)
class LoggedReply:
    """The reply of a line.

    :param text: empty if the reply is not text. :param reasoning: the model's thoughts before it.
    :param value: a reply that is not text, as JSON; None otherwise.
    :param note: why the reply is not recorded; empty if it is.
    """

    text: ReplyText = ""
    reasoning: ReplyText = ""
    value: Any = None
    logprobs: tuple[FreeObject, ...] | None = None
    note: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord(PaidReply):
    """A line with a request.

    :param key: the request's key (see :func:`~pytest_llmprops.core.requests.request_key`).
    :param role: ``subject`` for the model under test, otherwise the role of the helper.
    :param request: the request's fields without ``kind``; messages as ``[role, content]``. In the file, a content or a
        ``text`` may be ``{"prefix": id, "rest": text}``; see :meth:`in_full`.
    :param cached: whether the reply came from the store.
    :param seconds: duration of the call when it was made.
    """

    key: Name
    role: Name = ""
    kind: Name = ""
    request: FreeObject
    reply: LoggedReply = field(default_factory=LoggedReply)
    # A server sends these. No limit is below that of its replies.
    finish_reason: ReplyText = ""
    served_model: ReplyText = ""
    cached: Flag = False
    seconds: Number = 0.0

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The role and content of each message; empty if the request is not a chat."""
        request: Mapping[str, Any] = self.request
        return [(role, content) for role, content in request.get("messages", ())]

    def in_full(self, prefixes: Mapping[str, str]) -> RequestRecord:
        """Return the record with whole texts.

        :param prefixes: the texts of the prefixes in the lines before this one, by id.
        :raises ValueError: with a phrase that completes "line 7 …", if a text is none or its prefix is not defined.
        """
        request: dict[str, Any] = dict(self.request)
        try:
            if "messages" in request:
                request["messages"] = [
                    [_text(role, {}), _text(content, prefixes)] for role, content in request["messages"]
                ]
            if "text" in request:
                request["text"] = _text(request["text"], prefixes)
        except LookupError:
            raise ValueError("has a prefix that no earlier line defines") from None
        except (TypeError, ValueError):
            raise ValueError("has a 'request' whose messages or text are not those of a request") from None
        return replace(self, request=request)


def _text(content: Any, prefixes: Mapping[str, str]) -> str:
    if isinstance(content, dict):
        content = prefixes[content.get("prefix", "")] + content.get("rest", "")
    if not isinstance(content, str):
        raise TypeError
    return content


def record_of(
    role: str,
    request: Request,
    reply: Reply,
    *,
    note: str = "",
    model: str = "",
    cost: float | None = None,
    shorten: Callable[[str], Any] = str,
) -> RequestRecord:
    """Return the record of a request that was answered.

    :param shorten: returns what the line has in place of a text.
    :param note: why the reply is left out of the record; empty to include it.
    :param model: the label of the model. :param cost: what the run paid, in USD; None if it is unknown or not paid.
    """
    fields = request_to_json(request)
    kind = fields.pop("kind")
    if "messages" in fields:
        fields["messages"] = [[of, shorten(content)] for of, content in fields["messages"]]
    if "text" in fields:
        fields["text"] = shorten(fields["text"])
    logprobs = None if reply.logprobs is None else tuple(reply.logprobs)
    logged = LoggedReply(reply.text, reply.reasoning, reply.value, logprobs)
    return RequestRecord(
        key=reply.key,
        role=role,
        kind=kind,
        request=fields,
        reply=LoggedReply(note=note) if note else logged,
        finish_reason=reply.finish_reason,
        served_model=reply.served_model,
        cached=reply.cached,
        seconds=round(reply.seconds, 6),
        **_paid(reply, model, cost),
    )


def discarded(reply: Reply, model: str, cost: float | None) -> DiscardedReply:
    """Return the line of a reply that the run paid for and does not use.

    :param model: the label of the model. :param cost: what the run paid, in USD; None if it is unknown.
    """
    return DiscardedReply(**_paid(reply, model, cost))


def _paid(reply: Reply, model: str, cost: float | None) -> dict[str, Any]:
    """Return the fields of a :class:`PaidReply`."""
    names = ("usage", "via", "request_id", "service_tier")
    return {name: getattr(reply, name) for name in names} | {"model": model, "cost_usd": cost}
