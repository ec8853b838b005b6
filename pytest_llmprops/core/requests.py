"""Requests to models, one frozen class per kind, and their replies."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.faults import type_name
from pytest_llmprops.core.field_types import Count, Flag, Name, Number

Kind = Literal[
    "chat", "completion", "likelihood", "segment", "sentiment", "translate", "fill-mask", "embed", "parse"
]
#: default of ``llm_max_thinking``, in tokens
MAX_THINKING = 32_768
#: ``Reply.key`` of the empty replies that ``--llm-plan`` uses to count requests
PLANNED = "planned"
#: the requests of repeat r have the samples ``r * REPEAT_STRIDE + sample``
REPEAT_STRIDE = 1_000_000
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    :param role: ``system``, ``user`` or ``assistant``.
    """

    role: str
    content: str


def without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages whose first user message begins with the text of the system messages."""
    system = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    place = next((n for n, message in enumerate(others) if message.role == "user"), None)
    if place is None:
        return (Message("user", "\n\n".join(system)), *others)
    others[place] = Message("user", "\n\n".join([*system, others[place].content]))
    return tuple(others)


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat request: a conversation that the model continues with one reply.

    :param temperature: None means the server's default.
    :param max_tokens: maximum length of the reply; None means no limit.
    :param logprobs: number of alternatives to return per token (0: no log probabilities).
    :param response_format: ``json_object`` if the server shall enforce JSON, which the prompt must ask for, too; left
        out where a server refuses it. Models on this machine ignore it.
    :param sample: distinguishes repeated requests with the same prompt; below ``REPEAT_STRIDE`` in a benchmark.
    :param extra: further parameters of the server, from ``--llm-param``.
    """

    kind: ClassVar[Kind] = "chat"
    messages: tuple[Message, ...]
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    sample: int = 0
    extra: tuple[tuple[str, Any], ...] = ()
    response_format: str = ""

    @classmethod
    def user(cls, content: str, **settings: Any) -> Chat:
        """Return a conversation with a single user message.

        :param settings: the other fields, such as ``temperature``.
        """
        return cls((Message("user", content),), **settings)

    def then(self, reply: str, content: str) -> Chat:
        """Return the conversation continued with ``reply`` and another user message."""
        turns = (Message("assistant", reply), Message("user", content))
        return replace(self, messages=self.messages + turns)

    @property
    def prompt(self) -> str:
        """All messages as one text. Sorting by it groups requests with a common prefix."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n".join(m.content for m in self.messages)


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that a base model continues; ``Reply.text`` is the continuation. The fields are those of :class:`Chat`."""

    kind: ClassVar[Kind] = "completion"
    text: str
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sample: int = 0
    extra: tuple[tuple[str, Any], ...] = ()

    @property
    def prompt(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A text and its possible continuations; the reply has the log-likelihood of each of them.

    A base model reads the text and the option as one text. A chat model reads the text as a message of the user and the
    option as its reply. ``Reply.value`` is ``{"options": [{"logprob": natural logarithm of the probability of all its
    tokens, "tokens": number of tokens}, ...]}``, in the order of ``options``.

    :param options: the continuations; each begins with a space if a word would.
    """

    kind: ClassVar[Kind] = "likelihood"
    text: str
    options: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The text. Requests with a common prefix are neighbours when sorted by it."""
        return self.text


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence to be split into words."""

    kind: ClassVar[Kind] = "segment"
    text: str


@dataclass(frozen=True, slots=True)
class Sentiment:
    """A sentence; the reply is the probability that its sentiment is positive."""

    kind: ClassVar[Kind] = "sentiment"
    text: str


@dataclass(frozen=True, slots=True)
class Translate:
    """A sentence to be translated; languages are two-letter codes."""

    kind: ClassVar[Kind] = "translate"
    text: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class FillMask:
    """A text with one ``[MASK]``; the reply has the probability of each candidate word."""

    kind: ClassVar[Kind] = "fill-mask"
    text: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Embed:
    """A text; the reply is one vector, or with ``tokens`` one vector per token."""

    kind: ClassVar[Kind] = "embed"
    text: str
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Parse:
    """A sentence to be parsed.

    :param analysis: ``constituency`` or ``dependency``.
    """

    kind: ClassVar[Kind] = "parse"
    text: str
    language: str = "en"
    analysis: str = "constituency"


Request = Chat | Completion | Likelihood | Segment | Sentiment | Translate | FillMask | Embed | Parse
#: the classes of requests, for ``isinstance``
REQUESTS: tuple[type[Any], ...] = get_args(Request)
#: the requests that have a text as their reply, with ``temperature``, ``max_tokens``, ``sample`` and ``extra``
GENERATED = (Chat, Completion)
_CLASSES: dict[str, type[Any]] = {c.kind: c for c in REQUESTS}
#: the price of a reply from a provider's batch relative to a call
BATCH_DISCOUNT = 0.5
_encoded = json.JSONEncoder(ensure_ascii=False).encode
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def is_base(kinds: Collection[Kind]) -> bool:
    """Return True for the kinds of a base model, which continues texts and reads no messages."""
    return not {"completion", "likelihood"}.isdisjoint(kinds) and "chat" not in kinds


def continued(chat: Chat) -> Completion:
    """Return a chat with one message of the user as a text that a base model continues.

    :raises BackendError: if the chat has other messages, which have no form in a text.
    """
    if [message.role for message in chat.messages] != ["user"]:
        roles = ", ".join(message.role for message in chat.messages)
        raise BackendError(
            f"a base model continues one text, and a chat of {roles} has several; choose a chat model",
            kind="request",
        )
    return Completion(chat.prompt, chat.temperature, chat.max_tokens, chat.stop, chat.sample, chat.extra)


def sizes(request: Request) -> tuple[int, int]:
    """Return (characters of all prompts, maximum tokens of the reply) of a request; zeros if it generates nothing."""
    if isinstance(request, Likelihood):
        # A server computes the text once, and again with each option.
        texts = ("", *request.options)
        return sum(len(request.text) + len(option) for option in texts), len(texts)
    if isinstance(request, GENERATED):
        return len(request.prompt), request.max_tokens or 0
    return 0, 0


def of_repeat(request: Request, repeat: int) -> Request:
    """Return the request as repeat number ``repeat`` of an item sends it; repeat 0 sends it unchanged.

    The samples of different repeats never coincide, so each repeat has its own replies in the store. Only the replies
    to a :class:`Chat` and a :class:`Completion` may differ; other requests do not change.

    :raises ValueError: if the benchmark's own sample is not below ``REPEAT_STRIDE``.
    """
    if not repeat or not isinstance(request, GENERATED):
        return request
    if not 0 <= request.sample < REPEAT_STRIDE:
        raise ValueError(f"a request's sample must be from 0 to {REPEAT_STRIDE - 1}, not {request.sample}")
    return replace(request, sample=repeat * REPEAT_STRIDE + request.sample)


def request_to_json(request: Request) -> dict[str, Any]:
    """Return the request as plain values; the inverse of :func:`request_from_json`."""
    data: dict[str, Any] = {"kind": request.kind}
    for name in request.__slots__:
        value = getattr(request, name)
        if name == "messages":
            value = [[m.role, m.content] for m in value]
        elif name == "extra":
            value = dict(value)
        elif name == "response_format" and not value:
            # The keys of requests without it stay the same.
            continue
        data[name] = value
    return data


def request_from_json(data: Mapping[str, Any]) -> Request:
    """Return the request from the values of :func:`request_to_json`."""
    fields = {k: v for k, v in data.items() if k != "kind"}
    if "messages" in fields:
        fields["messages"] = tuple(Message(role, content) for role, content in fields["messages"])
    if "extra" in fields:
        fields["extra"] = tuple(sorted(fields["extra"].items()))
    for name in ("stop", "candidates", "options"):
        if name in fields:
            fields[name] = tuple(fields[name])
    request: Request = _CLASSES[data["kind"]](**fields)
    return request


def request_key(identity: Mapping[str, Any], request: Request) -> str:
    """Return the sha256 of everything that can change the output: the model's ``identity`` and the request."""
    return key_with(canonical_identity(identity), request)


def canonical_identity(identity: Mapping[str, Any]) -> str:
    """Return the text of a model's identity that :func:`key_with` takes."""
    return _canonical(identity)


def key_with(identity: str, request: Request) -> str:
    """Return the :func:`request_key` of a request to the model with this :func:`canonical_identity`."""
    canonical = f"[{identity},{_canonical(request_to_json(request))}]"
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has: one for 4 letters, and three for 4 Chinese characters of 12 bytes."""
    return round(len(text.encode("utf-8", "replace")) / 4)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call.

    :param reasoning_tokens: the hidden part of ``completion_tokens``.
    :param cached_tokens: the part of ``prompt_tokens`` that the provider read from its cache of prompts.
    :param cache_write_tokens: the part of ``prompt_tokens`` that the provider wrote into its cache.
    :param estimated: the server reported no tokens, so that they are estimated from the characters.
    """

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    reasoning_tokens: Count = 0
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    estimated: Flag = False

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of tokens by name."""
        return {name: getattr(self, name) for name in self.__slots__[:-1]}


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in USD per million tokens.

    :param input: of the prompt. :param output: of the reply, with hidden reasoning tokens.
    :param source: where the price is from, with its date or version.
    :param cached: of prompt tokens that the provider read from its cache. :param written: of those that it wrote into
        its cache. None if it is unknown: they then have the price of other prompt tokens.
    """

    input: Number
    output: Number
    source: Name
    cached: Number | None = None
    written: Number | None = None

    def of(self, usage: Usage) -> float:
        """Return the price of one call in USD."""
        cost = usage.prompt_tokens * self.input + usage.completion_tokens * self.output
        if self.cached is not None:
            cost += usage.cached_tokens * (self.cached - self.input)
        if self.written is not None:
            cost += usage.cache_write_tokens * (self.written - self.input)
        return cost / 1e6

    def scaled(self, factor: float) -> Price:
        """Return the price times ``factor``."""
        cached, written = (None if price is None else price * factor for price in (self.cached, self.written))
        return Price(self.input * factor, self.output * factor, self.source, cached, written)


def is_finite(value: Any) -> bool:
    """Return True for a number that is finite; a bool is not a number."""
    try:
        return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)
    except OverflowError:
        # An integer that is too large for a float.
        return False


def is_logprob(entry: Any) -> bool:
    """Return True for an entry of ``Reply.logprobs``. A logarithm may be minus infinity."""
    try:
        return all(
            isinstance(pair["token"], str)
            and isinstance(pair["logprob"], int | float)
            # False for not-a-number, too.
            and pair["logprob"] < math.inf
            for pair in (entry, *(entry.get("top") or ()))
        )
    except (TypeError, KeyError, AttributeError):
        return False


#: the fields that every stored reply has, besides its usage, and those that it has if they are not empty
_STORED = ("text", "finish_reason", "served_model", "seconds", "stored")
_OPTIONAL = (
    "value", "logprobs", "cost_usd", "deviations", "via", "reasoning", "request_id", "service_tier",
)  # fmt: skip
_TEXTS = ("text", "reasoning", "finish_reason", "served_model", "via", "key", "request_id", "service_tier")


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one request.

    :param text: the answer of a chat model; untrusted.
    :param reasoning: the model's thoughts, which no benchmark reads (:mod:`~pytest_llmprops.core.reasoning`).
    :param value: the reply of other kinds, as JSON: the words of a segmentation, a probability, a parse. Vectors may
        be arrays if the model's replies are not stored.
    :param finish_reason: ``stop``, ``length`` or ``content_filter``.
    :param served_model: the model that the server reports.
    :param logprobs: one entry per token: ``{"token", "logprob", "top"}``.
    :param deviations: changes to requests that the API had forced so far.
    :param seconds: duration of the call when it was made.
    :param stored: Unix time at which the call was made.
    :param via: ``batch`` if the reply came in a provider's batch, at half the price; ``ray`` if a replica in a Ray
        cluster computed it; empty otherwise.
    :param cached: whether the reply comes from the store.
    :param request_id: the id that the server gave to the call (``x-request-id``); empty if it gave none.
    :param service_tier: the provider's tier that answered, if it has a price of its own: ``flex``, ``priority``.
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
    via: str = ""
    cached: bool = False
    key: str = ""
    reasoning: str = ""
    request_id: str = ""
    service_tier: str = ""

    @property
    def thinking_tokens(self) -> int:
        """The tokens of the model's thoughts: what is left beside the text, if the server does not count them."""
        if self.usage.reasoning_tokens or not self.reasoning:
            return self.usage.reasoning_tokens
        return max(0, self.usage.completion_tokens - estimated_tokens(self.text))

    def to_text(self) -> str:
        """Return the fields that are stored, as JSON."""
        return _encoded(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are stored, as plain values."""
        usage = list(self.usage.counts.values())
        extra = {name: getattr(self, name) for name in _OPTIONAL}
        if any(usage[3:]) or self.usage.estimated:
            usage.append(self.usage.estimated)
        else:
            usage = usage[:3]
        return {
            **{name: getattr(self, name) for name in _STORED},
            "usage": usage,
            **{
                name: list(value) if isinstance(value, tuple) else value
                for name, value in extra.items()
                if value is not None and (name in ("value", "logprobs") or value not in ("", ()))
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, key: str = "", cached: bool = False) -> Reply:
        """Return the reply that :meth:`to_json` was called on.

        :raises KeyError: if a field is missing. :raises TypeError: if there is no reply in ``data``.
        :raises ValueError: if a field has a wrong type.
        """
        fields = {name: data[name] for name in _STORED}
        fields |= {name: data[name] for name in _OPTIONAL if name in data}
        for name in ("logprobs", "deviations"):
            if name in fields:
                fields[name] = tuple(fields[name])
        reply = cls(**fields, usage=Usage(*data["usage"]), key=key, cached=cached)
        problem = reply.problem()
        if problem:
            raise ValueError(f"a reply whose {problem}")
        return reply

    def problem(self) -> str:
        """Return the first field with a wrong type, as a phrase; empty if there is none. ``value`` may be anything."""
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                return f"{name} is {type_name(getattr(self, name))} instead of a string"
        usage: Any = self.usage
        if not isinstance(usage, Usage):
            return f"usage is {type_name(usage)} instead of Usage"
        for tokens in usage.counts.values():
            if type(tokens) is not int or tokens < 0:
                return "usage is not numbers of tokens"
        if not (is_finite(self.seconds) and is_finite(self.stored)):
            return "time is not a number"
        if self.cost_usd is not None and not (is_finite(self.cost_usd) and self.cost_usd >= 0):
            return f"cost_usd is {type_name(self.cost_usd)} instead of a number from 0"
        if not all(isinstance(deviation, str) for deviation in self.deviations):
            return "deviations are not strings"
        if self.logprobs is not None and not all(map(is_logprob, self.logprobs)):
            return "logprobs are not entries with a token and its logprob"
        return ""


@dataclass(frozen=True, slots=True)
class Scores:
    """The log-likelihoods of the options of a :class:`Likelihood`, as lm-evaluation-harness compares them.

    :param logprobs: the log-likelihood of each option, as a natural logarithm.
    :param characters: the number of characters of each option, without white space around it.
    """

    logprobs: tuple[float, ...] = ()
    characters: tuple[int, ...] = ()

    @classmethod
    def of(cls, request: Likelihood, reply: Reply) -> Scores:
        """Return the scores in a reply; none in the empty replies of ``--llm-plan``.

        :raises BackendError: if the reply does not have a log-likelihood for each option.
        """
        if reply.key == PLANNED:
            return cls()
        try:
            logprobs = tuple(float(option["logprob"]) for option in reply.value["options"])
        except (TypeError, KeyError, ValueError):
            logprobs = ()
        if len(logprobs) != len(request.options) or not all(map(math.isfinite, logprobs)):
            raise BackendError("the model did not return the log-likelihood of each option", kind="response")
        return cls(logprobs, tuple(len(option.strip()) for option in request.options))

    @property
    def best(self) -> int | None:
        """The index of the most likely option; None if several are equally likely (metric ``acc`` of the harness)."""
        return _highest(self.logprobs)

    @property
    def best_normalised(self) -> int | None:
        """The index of the highest log-likelihood per character; None if several are equal (metric ``acc_norm``)."""
        return _highest([p / n for p, n in zip(self.logprobs, self.characters, strict=True)])

    def values(self, right: int, prefix: str = "") -> dict[str, float]:
        """Return the values of a verdict: ``logprob1``, ``characters1`` and so on, and ``normalised_right``.

        :param right: the index of the correct option.
        """
        values = {f"{prefix}normalised_right": float(self.best_normalised == right)}
        for n, (logprob, characters) in enumerate(zip(self.logprobs, self.characters, strict=True), 1):
            values[f"{prefix}logprob{n}"] = round(logprob, 6)
            values[f"{prefix}characters{n}"] = float(characters)
        return values


def _highest(numbers: Sequence[float]) -> int | None:
    best = max(numbers, default=0.0)
    places = [place for place, number in enumerate(numbers) if number == best]
    return places[0] if len(places) == 1 else None
