"""What is asked of a model, one frozen class per kind, and what comes back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

Kind = Literal["chat", "segment", "sentiment", "translate", "fill-mask", "embed", "parse"]
#: ``Reply.key`` of the empty replies from which a plan counts what a run would ask
PLANNED = "planned"
KINDS: tuple[Kind, ...] = ("chat", "segment", "sentiment", "translate", "fill-mask", "embed", "parse")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation to be continued by one reply.

    ``logprobs`` is the number of alternatives wanted for each reply token (0: none). ``sample`` tells
    repeated askings of one prompt apart, for the reply store and for samplers with a seed.
    ``extra`` are further parameters of the server, as given by ``--llm-param``.
    """

    kind: ClassVar[Kind] = "chat"
    messages: tuple[Message, ...]
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    sample: int = 0
    extra: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def user(cls, content: str, **settings: Any) -> Chat:
        """A fresh conversation of a single user turn."""
        return cls((Message("user", content),), **settings)

    def then(self, reply: str, content: str) -> Chat:
        """The conversation after ``reply``, with another user turn."""
        turns = (Message("assistant", reply), Message("user", content))
        return replace(self, messages=self.messages + turns)

    @property
    def prompt(self) -> str:
        """All turns as one text; calls that share a prefix sort next to each other by it."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n".join(m.content for m in self.messages)


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence to be cut into words."""

    kind: ClassVar[Kind] = "segment"
    text: str


@dataclass(frozen=True, slots=True)
class Sentiment:
    """A sentence whose probability of being positive is wanted."""

    kind: ClassVar[Kind] = "sentiment"
    text: str


@dataclass(frozen=True, slots=True)
class Translate:
    """A sentence to be translated; languages as two-letter codes."""

    kind: ClassVar[Kind] = "translate"
    text: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class FillMask:
    """A text with one ``[MASK]``, and the candidate words whose probability is wanted."""

    kind: ClassVar[Kind] = "fill-mask"
    text: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Embed:
    """A text whose token vectors (``tokens``) or single vector is wanted."""

    kind: ClassVar[Kind] = "embed"
    text: str
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Parse:
    """A sentence to be analysed; ``analysis`` names what is wanted (constituency, dependency)."""

    kind: ClassVar[Kind] = "parse"
    text: str
    language: str = "en"
    analysis: str = "constituency"


Request = Chat | Segment | Sentiment | Translate | FillMask | Embed | Parse
_CLASSES: dict[str, type[Any]] = {
    c.kind: c for c in (Chat, Segment, Sentiment, Translate, FillMask, Embed, Parse)
}


def request_to_json(request: Request) -> dict[str, Any]:
    """The request as plain values; the inverse is :func:`request_from_json`."""
    data: dict[str, Any] = {"kind": request.kind}
    for name in request.__slots__:
        value = getattr(request, name)
        if name == "messages":
            value = [[m.role, m.content] for m in value]
        elif name == "extra":
            value = dict(value)
        data[name] = value
    return data


def request_from_json(data: Mapping[str, Any]) -> Request:
    """Rebuild a request from :func:`request_to_json`'s values."""
    fields = {k: v for k, v in data.items() if k != "kind"}
    if "messages" in fields:
        fields["messages"] = tuple(Message(role, content) for role, content in fields["messages"])
    if "extra" in fields:
        fields["extra"] = tuple(sorted(fields["extra"].items()))
    for name in ("stop", "candidates"):
        if name in fields:
            fields[name] = tuple(fields[name])
    request: Request = _CLASSES[data["kind"]](**fields)
    return request


def request_key(identity: Mapping[str, Any], request: Request) -> str:
    """sha256 over all that can change the output: the model's ``identity`` and the request."""
    canonical = json.dumps(
        [identity, request_to_json(request)], sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; ``reasoning_tokens`` are the hidden part of the completion."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one request.

    ``text`` is untrusted. ``value`` holds what other kinds than chat return, as JSON values: the words
    of a segmentation, a probability, a parse; vectors may be arrays, of a model whose replies are not
    stored. ``finish_reason`` is ``stop``, ``length`` or ``content_filter``. ``logprobs`` has one entry a
    reply token: ``{"token", "logprob", "top"}``.
    ``seconds`` is the time the call took when it was made, ``stored`` the Unix time it was made at.
    ``deviations`` are the departures from the request that the API had forced by then.
    """

    text: str = ""
    value: Any = None
    finish_reason: str = "stop"
    served_model: str = ""
    usage: Usage = field(default_factory=Usage)
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    cost_usd: float | None = None
    deviations: tuple[str, ...] = ()
    seconds: float = 0.0
    stored: float = 0.0
    cached: bool = False
    key: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values of all that is worth storing."""
        data: dict[str, Any] = {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "served_model": self.served_model,
            "usage": [
                self.usage.prompt_tokens,
                self.usage.completion_tokens,
                self.usage.reasoning_tokens,
            ],
            "seconds": self.seconds,
            "stored": self.stored,
        }
        if self.value is not None:
            data["value"] = self.value
        if self.logprobs is not None:
            data["logprobs"] = list(self.logprobs)
        if self.cost_usd is not None:
            data["cost_usd"] = self.cost_usd
        if self.deviations:
            data["deviations"] = list(self.deviations)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, key: str = "", cached: bool = False) -> Reply:
        """Inverse of :meth:`to_json`."""
        logprobs = data.get("logprobs")
        return cls(
            text=data["text"],
            value=data.get("value"),
            finish_reason=data["finish_reason"],
            served_model=data["served_model"],
            usage=Usage(*data["usage"]),
            logprobs=None if logprobs is None else tuple(logprobs),
            cost_usd=data.get("cost_usd"),
            deviations=tuple(data.get("deviations", ())),
            seconds=data["seconds"],
            stored=data["stored"],
            cached=cached,
            key=key,
        )
