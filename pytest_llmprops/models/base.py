"""The interface of models: attributes that say how to call a model, and one method per kind of request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_llmprops.core.errors import BackendError, ContractError
from pytest_llmprops.core.faults import fault_text, type_name
from pytest_llmprops.core.requests import KINDS, Chat, Kind, Parse, Reply, Request
from pytest_llmprops.core.strict_json import json_problem

Result = Reply | BackendError
Results = Iterable[Result] | Awaitable[Sequence[Result]]


class Model(Protocol):
    """The part that all models share. A model serves the kinds of request whose methods it has.

    Each method takes a batch of 1 to ``max_batch`` requests and returns one result per request, in order: a
    :class:`Reply` or a :class:`BackendError` (returned, not raised). The methods of a ``blocking`` model are plain
    functions and run in one thread, one batch at a time. Those of other models are coroutines and run concurrently.
    Batches for a blocking model are sorted by prompt, because neighbours then share a prefix. Its methods may be
    generators: each result is stored as soon as it is yielded, so that a run that ends then keeps it.

    =============== ========================================================================================
    method          what a reply has
    =============== ========================================================================================
    ``chat``        ``text``: the next turn of the conversation
    ``completion``  ``text``: the continuation by a base model
    ``likelihood``  ``value``: that of :func:`scored`, for the given continuations
    ``segment``     ``value``: the list of words
    ``sentiment``   ``value``: ``{"positive": p, "log_odds": ln(p / (1 - p)) in 64 bits}``
    ``translate``   ``text``: the translation
    ``fill_mask``   ``value``: candidate -> its probability
    ``embed``       ``value``: a vector, or ``{"tokens": [...], "spans": [...], "vectors": [[...], ...]}``; spans are
                    character offsets [start, end), vectors may be an array of the shape (tokens, size)
    ``parse``       ``value``: see :mod:`pytest_llmprops.models.parsers.base`
    =============== ========================================================================================

    A local model may set ``stored = False`` if its replies (vectors) are deterministic and cheaper to compute than to
    store. Such replies are neither stored nor logged and may hold numpy arrays. They do not count as calls: they are
    computed whatever ``--llm-cache`` says and use no budget.
    """

    #: everything that determines the output: backend, name, revision or file hash, base URL, headers without a
    #: credential; part of every store key
    identity: Mapping[str, Any]
    #: whether the identity names an exact revision, so that a stored reply never becomes outdated
    pinned: bool
    max_batch: int
    blocking: bool

    def deviations(self) -> Sequence[str]:
        """Return one short phrase per change to the requests that the backend forced."""
        ...

    def close(self) -> None:
        """Free the model's resources. If the model has a coroutine ``aclose``, it is awaited instead."""
        ...


class ChatModel(Model, Protocol):
    """A model that continues conversations."""

    def chat(self, requests: Sequence[Chat]) -> Results: ...


#: the deviation of a base model, which tables mark
AS_TEXT = "prompts are texts to be continued, because it is a base model"


def scored(options: Iterable[tuple[float, int]]) -> dict[str, Any]:
    """Return the value of the reply to a :class:`~pytest_llmprops.core.requests.Likelihood`.

    :param options: (log-likelihood as a natural logarithm, number of tokens) of each option.
    """
    return {"options": [{"logprob": logprob, "tokens": tokens} for logprob, tokens in options]}


class SampleModel(ChatModel, Protocol):
    """A network chat model that can return several replies to one prompt per call."""

    @property
    def most_samples(self) -> int:
        """The maximum replies per call; 1 as soon as the server turns out to return only one."""
        ...

    def samples(self, request: Chat, count: int) -> Awaitable[Sequence[Reply] | BackendError]:
        """Return up to ``count`` replies to ``request`` from one call; an empty list if the server refuses several."""
        ...

    def notes(self) -> Sequence[str]:
        """Return notes for the summary that, unlike ``deviations``, do not affect replies."""
        ...


class ParseModel(Model, Protocol):
    """A parser."""

    def parse(self, requests: Sequence[Parse]) -> Results: ...


#: the method that serves each kind of request
METHODS: Mapping[Kind, str] = {kind: kind.replace("-", "_") for kind in KINDS}


def kinds_of(model: Model) -> frozenset[Kind]:
    """Return the kinds of request that ``model`` has a method for."""
    return frozenset(kind for kind, method in METHODS.items() if hasattr(model, method))


def serve(model: Model, requests: Sequence[Request]) -> Results:
    """Call the model's method for the kind of ``requests``, which all have the same kind."""
    kind = requests[0].kind
    method = getattr(model, METHODS[kind], None)
    if method is None:
        return [BackendError(f"the model does not serve {kind} requests", kind="model")] * len(requests)
    results: Results = method(requests)
    return results


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The command-line options for calls.

    :param base_url: the value of ``--llm-base-url``.
    :param timeout: timeout of one call, in seconds.
    :param concurrency: maximum number of calls in flight, over all models.
    :param prices: the file of ``llm_prices``.
    :param device: ``cuda`` or ``cpu`` for models that have the choice and do not state it, because they run on other
        machines; empty to choose by this machine.
    :param cpus: number of CPU cores that a model may use; 0 for the model's own default.
    :param headers: headers of each call over a network; no message and no record may show their values.
    """

    base_url: str | None = None
    timeout: float = 120.0
    concurrency: int = 64
    prices: str | None = None
    device: str = ""
    cpus: int = 0
    # Its values may be keys.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def header_hashes(self) -> dict[str, str]:
        """Name -> hash of the value of each header without a credential; part of the identity of a remote model.

        A gateway may choose the model by such a header. A key changes no reply, so another key is the same model.
        """
        return {
            name.lower(): hashlib.sha256(value.encode()).hexdigest()[:16]
            for name, value in sorted(self.headers.items())
            if not (_CREDENTIAL_NAME.search(name) or _CREDENTIAL.match(value))
        }


_CREDENTIAL_NAME = re.compile(
    r"auth|cookie|credential|passw|secret|signature|token|(?:^|[-_.])(?:api|app)?key$", re.IGNORECASE
)
_CREDENTIAL = re.compile(r"(?:Bearer|Basic)\s", re.IGNORECASE)

_REQUIRED = ("identity", "pinned", "max_batch", "blocking", "deviations", "close")


def checked_model(model: Any) -> Model:
    """Return a model that has all attributes of :class:`~pytest_llmprops.models.base.Model`.

    :raises ContractError: with the first problem; nothing was paid for so far.
    """
    problem = _model_problem(model)
    if problem:
        raise ContractError(f"the model that its factory returned {problem}; see docs/models.md")
    checked: Model = model
    return checked


def _model_problem(model: Any) -> str:
    if model is None:
        return "is None"
    name = type_name(model)
    missing = [attribute for attribute in _REQUIRED if not hasattr(model, attribute)]
    if missing:
        return f"({name}) has no {', '.join(missing)}"
    if not any(hasattr(model, method) for method in METHODS.values()):
        return f"({name}) has no method {', '.join(METHODS.values())}"
    problem = json_problem(model.identity)
    if problem:
        return f"({name}) is not usable: identity{problem}"
    if not isinstance(model.max_batch, int) or model.max_batch < 1:
        return f"({name}) has a max_batch that is not a whole number of at least 1"
    deviations = model.deviations()
    if isinstance(deviations, str) or not isinstance(deviations, Sequence):
        return f"({name}) has a method deviations that returned {type_name(deviations)} instead of a list of strings"
    return ""


def checked_results(results: object, count: int) -> list[Result]:
    """Return the results of a model, one per request.

    A value that is neither a reply nor an error becomes the error of its request.
    """
    if not isinstance(results, list):
        if not isinstance(results, Iterable) or isinstance(results, str | Mapping):
            return [
                BackendError(f"the model returned {type_name(results)} instead of a list of Reply")
            ] * count
        results = list(results)
    if len(results) != count:
        return [BackendError(f"the model returned {len(results)} results for {count} requests")] * count
    return [checked_result(result) for result in results]


def checked_result(result: object) -> Result:
    """Return a result of a model; a value that is neither a reply nor an error becomes an error."""
    if isinstance(result, Reply):
        problem = result.problem()
        return BackendError(f"the model returned a Reply whose {problem}") if problem else result
    if isinstance(result, BackendError):
        return result
    return BackendError(f"the model returned {type_name(result)} instead of a Reply")


def unexpected(error: BaseException) -> BackendError:
    """Return the error of the requests in which a model raised an unexpected exception."""
    name = type(error).__name__
    text = fault_text(error)
    return BackendError(text if text.startswith(name) else f"{name}: {text}")
