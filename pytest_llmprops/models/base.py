"""What a model must be for the broker: attributes that say how to call it, and one method per kind."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import (
    Chat,
    Embed,
    FillMask,
    Kind,
    Parse,
    Reply,
    Request,
    Segment,
    Sentiment,
    Translate,
)

Result = Reply | BackendError
Results = Sequence[Result] | Awaitable[Sequence[Result]]


class Model(Protocol):
    """The common part of every model. A model serves the kinds whose methods it has.

    Each method takes a batch of 1 to ``max_batch`` requests and gives one result per request, in
    order: a :class:`Reply`, or a :class:`BackendError` as a value. Plain methods of a ``blocking``
    model run in one thread, one batch at a time; methods of other models are coroutines, called
    concurrently. Batches reach a blocking model sorted by prompt, so that neighbours share a prefix.

    A local model may say ``stored = False``: its replies (vectors) are cheaper to compute than to keep, and the same
    each time. They are neither stored nor logged, may hold numpy arrays, and are no calls: they are computed whatever
    ``--llm-cache`` says and count for no budget.
    """

    #: all that pins the output: backend, name, revision or file hash, base URL. Part of every store key.
    identity: Mapping[str, Any]
    #: the identity names an exact revision, so that a stored reply never goes stale
    pinned: bool
    max_batch: int
    blocking: bool

    def deviations(self) -> Sequence[str]:
        """Departures from the request that the backend forced, each in one short phrase."""
        ...

    def close(self) -> None:
        """Free what the model holds. A model with a coroutine ``aclose`` has that awaited instead."""
        ...


class ChatModel(Model, Protocol):
    """Continues conversations."""

    def chat(self, requests: Sequence[Chat]) -> Results: ...


class SampleModel(ChatModel, Protocol):
    """A chat model over a network of which one call can ask for several replies to one prompt."""

    @property
    def most_samples(self) -> int:
        """Replies that one call may ask for; 1 from the moment when the server is found to give no more."""
        ...

    def samples(self, request: Chat, count: int) -> Awaitable[Sequence[Reply] | BackendError]:
        """Up to ``count`` replies to ``request``, by one call; none where the server refuses several at once."""
        ...

    def notes(self) -> Sequence[str]:
        """What the user should read in the summary, beside ``deviations``: it changes no reply."""
        ...


class SegmentModel(Model, Protocol):
    """Cuts sentences into words; ``Reply.value`` is the list of words."""

    def segment(self, requests: Sequence[Segment]) -> Results: ...


class SentimentModel(Model, Protocol):
    """``Reply.value`` is ``{"positive": probability, "log_odds": ln(p / (1 - p)) in 64 bits}``."""

    def sentiment(self, requests: Sequence[Sentiment]) -> Results: ...


class TranslateModel(Model, Protocol):
    """``Reply.text`` is the translation."""

    def translate(self, requests: Sequence[Translate]) -> Results: ...


class FillMaskModel(Model, Protocol):
    """``Reply.value`` maps each candidate to its probability."""

    def fill_mask(self, requests: Sequence[FillMask]) -> Results: ...


class EmbedModel(Model, Protocol):
    """``Reply.value`` is a vector, or ``{"tokens": [...], "spans": [...], "vectors": [[...], ...]}``.

    ``spans`` are characters [start, end) of the text. The vectors may be a numpy array (tokens, size).
    """

    def embed(self, requests: Sequence[Embed]) -> Results: ...


class ParseModel(Model, Protocol):
    """``Reply.value`` is the analysis as nested lists."""

    def parse(self, requests: Sequence[Parse]) -> Results: ...


METHODS: Mapping[Kind, str] = {
    "chat": "chat",
    "segment": "segment",
    "sentiment": "sentiment",
    "translate": "translate",
    "fill-mask": "fill_mask",
    "embed": "embed",
    "parse": "parse",
}


def kinds_of(model: Model) -> frozenset[Kind]:
    """The kinds whose method ``model`` has."""
    return frozenset(kind for kind, method in METHODS.items() if hasattr(model, method))


def serve(model: Model, requests: Sequence[Request]) -> Results:
    """Put a batch of requests of one kind to the model's method for that kind."""
    kind = requests[0].kind
    method = getattr(model, METHODS[kind], None)
    if method is None:
        return [BackendError(f"the model does not serve {kind} requests", kind="model")] * len(requests)
    results: Results = method(requests)
    return results


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of the command line for calls.

    :param base_url: the value of ``--llm-base-url``.
    :param timeout: timeout of one call, in seconds.
    :param concurrency: maximum number of calls in flight, over all models.
    """

    base_url: str | None = None
    timeout: float = 120.0
    concurrency: int = 64
