"""One line of ``requests.jsonl``: a request to a model and its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.core.record_schema import REQUEST, check
from pytest_llmprops.core.requests import Chat, Reply, Request, Usage, request_to_json
from pytest_llmprops.core.strict_json import JSON, encoded, number, string


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One line of ``requests.jsonl``, with all messages in full.

    :param key: the request's key (see :func:`~pytest_llmprops.core.requests.request_key`).
    :param role: ``subject`` for the model under test, otherwise the role of the helper.
    :param request: the request's fields without ``kind``; messages as ``[role, content]``.
    :param reply: the text of the reply; empty if the reply is not text.
    :param reasoning: the model's thoughts before the reply.
    :param reply_value: a reply that is not text, as JSON; None otherwise.
    :param note: why the reply is not recorded; empty if it is.
    :param cached: whether the reply came from the store.
    :param seconds: duration of the call when it was made.
    :param via: as in :class:`~pytest_llmprops.core.requests.Reply`. :param request_id: likewise.
    :param service_tier: likewise.
    :param model: the label of the model or helper that replied.
    :param cost_usd: what the run paid for the reply; None if the price is unknown, or the reply is from the store.
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
    reasoning: str = ""
    request_id: str = ""
    service_tier: str = ""
    model: str = ""
    cost_usd: float | None = None

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
        check(line, REQUEST)
        reply, usage = line.get("reply", {}), line.get("usage", {})
        request = line["request"]
        if "messages" in request:
            request = {**request, "messages": _full_messages(request["messages"], prefixes or {})}
        elif isinstance(request.get("text"), dict):
            [[_, text]] = _full_messages([["", request["text"]]], prefixes or {})
            request = {**request, "text": text}
        return cls(
            line["key"],
            line.get("role", ""),
            line.get("kind", ""),
            request,
            reply=reply.get("text") or "",
            reply_value=reply.get("value"),
            logprobs=reply.get("logprobs"),
            note=reply.get("note") or "",
            finish_reason=line.get("finish_reason", ""),
            served_model=line.get("served_model", ""),
            usage=Usage.from_json(usage),
            cached=line.get("cached", False),
            seconds=line.get("seconds", 0.0),
            via=line.get("via", ""),
            reasoning=reply.get("reasoning") or "",
            request_id=line.get("request_id", ""),
            service_tier=line.get("service_tier", ""),
            model=line.get("model", ""),
            cost_usd=line.get("cost_usd"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the line that was read, with whole prefixes and all fields."""
        reply = _kept(self.reply, self.reply_value, self.logprobs, self.reasoning)
        line = {
            "key": self.key,
            "role": self.role,
            "kind": self.kind,
            "request": dict(self.request),
            "reply": reply | {"note": self.note} if self.note else reply,
            "finish_reason": self.finish_reason,
            "served_model": self.served_model,
            "usage": self.usage.to_json(),
            "cached": self.cached,
            "seconds": self.seconds,
        }
        return line | _optional(self, self.model, self.cost_usd)


def line_of(
    role: str, request: Request, reply: Reply, *, note: str = "", model: str = "", cost: float | None = None
) -> dict[str, Any]:
    """Return the line of a request that was answered, as it is written, before long prefixes are replaced.

    :param note: why the reply is left out of the record; empty to include it.
    :param model: the label of the model. :param cost: what the run paid, in USD; None if it is unknown or not paid.
    """
    fields = request_to_json(request)
    kind = fields.pop("kind")
    line = {
        "key": reply.key,
        "role": role,
        "kind": kind,
        "request": fields,
        "reply": _written(reply, note),
        "finish_reason": reply.finish_reason,
        "served_model": reply.served_model,
        "usage": reply.usage.to_json(),
        "cached": reply.cached,
        "seconds": round(reply.seconds, 6),
    }
    return line | _optional(reply, model, cost)


def _optional(reply: Reply | RequestRecord, model: str, cost: float | None) -> dict[str, Any]:
    """Return the fields that not all lines have."""
    texts = {
        "via": reply.via,
        "request_id": reply.request_id,
        "service_tier": reply.service_tier,
        "model": model,
    }
    fields: dict[str, Any] = {name: text for name, text in texts.items() if text}
    return fields if cost is None else fields | {"cost_usd": cost}


def discarded_line(reply: Reply, model: str, cost: float | None) -> dict[str, Any]:
    """Return the line of a reply that the run paid for and does not use, such as one cut while the model was thinking.

    :param model: the label of the model. :param cost: what the run paid, in USD; None if it is unknown.
    """
    usage = {"discarded": True, "usage": reply.usage.to_json()}
    return usage | _optional(reply, model, cost)


def chat_line(
    role: str,
    request: Chat,
    reply: Reply,
    contents: Sequence[str],
    *,
    note: str = "",
    model: str = "",
    cost: float | None = None,
) -> str:
    """Return the JSON of :func:`line_of` for a chat.

    :param contents: the JSON of the content of each message.
    """
    messages = ", ".join(
        [f"[{string(m.role)}, {content}]" for m, content in zip(request.messages, contents, strict=True)]
    )
    if note or reply.value is not None or reply.logprobs is not None or reply.reasoning:
        kept = encoded(_written(reply, note))
    else:
        kept = f'{{"text": {string(reply.text)}}}'
    usage = reply.usage
    tokens = (
        f'{{"prompt_tokens": {number(usage.prompt_tokens)}, "completion_tokens": {number(usage.completion_tokens)},'
        f' "reasoning_tokens": {number(usage.reasoning_tokens)}}}'
        if usage.has_plain_json
        else encoded(usage.to_json())
    )
    others = "".join(
        f', "{name}": {number(value) if name == "cost_usd" else string(value)}'
        for name, value in _optional(reply, model, cost).items()
    )
    extra = encoded(dict(request.extra)) if request.extra else "{}"
    form = f', "response_format": {string(request.response_format)}' if request.response_format else ""
    # A third of the time of the encoder.
    return (
        f'{{"key": {string(reply.key)}, "role": {string(role)}, "kind": "chat", "request": {{"messages": [{messages}],'
        f' "temperature": {number(request.temperature)}, "max_tokens": {number(request.max_tokens)},'
        f' "stop": {encoded(request.stop) if request.stop else "[]"}, "logprobs": {number(request.logprobs)},'
        f' "sample": {number(request.sample)}, "extra": {extra}{form}}},'
        f' "reply": {kept}, "finish_reason": {string(reply.finish_reason)},'
        f' "served_model": {string(reply.served_model)}, "usage": {tokens},'
        f' "cached": {"true" if reply.cached else "false"}, "seconds": {number(round(reply.seconds, 6))}{others}}}'
    )


def _written(reply: Reply, note: str) -> dict[str, Any]:
    if note:
        return {"text": "", "note": note}
    return _kept(reply.text, reply.value, reply.logprobs, reply.reasoning)


def _kept(
    text: str, value: JSON, logprobs: Sequence[Mapping[str, JSON]] | None, reasoning: str
) -> dict[str, Any]:
    reply: dict[str, Any] = {"text": text}
    if reasoning:
        reply["reasoning"] = reasoning
    if value is not None:
        reply["value"] = value
    if logprobs is not None:
        reply["logprobs"] = list(logprobs)
    return reply


def _full_messages(messages: Any, prefixes: Mapping[str, str]) -> list[list[str]]:
    """Return messages as ``[role, content]`` with the shared prefixes put back."""
    try:
        return [
            [role, content if isinstance(content, str) else prefixes[content["prefix"]] + content["rest"]]
            for role, content in messages
        ]
    except LookupError:
        raise ValueError("has a prefix that no earlier line defines") from None
