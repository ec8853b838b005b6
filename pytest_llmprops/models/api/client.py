"""What the models of all SDKs share: a call, the largest answer, and the deviations that an API forces.

A deviation is made once per model, applies to all later calls and is listed in the run's record. Calls that were in
flight at the first refusal are adapted and resent as well; they do not count as failures.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.core.strict_json import problem_of
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN, Price, price
from pytest_llmprops.models.api.replies import chat_replies, unknown_reasons
from pytest_llmprops.models.api.streams import CutStream, parsed_answer
from pytest_llmprops.models.api.usage import usage_of
from pytest_llmprops.models.base import CallOptions, Result
from pytest_llmprops.models.secrets import Secrets
from pytest_llmprops.models.spec import ModelSpec

#: the end of a name that is one exact model, such as ``gpt-4o-2024-05-13``
_DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


#: in bytes; a long reply with log probabilities has a few
LARGEST_ANSWER = 64 * 2**20
#: the header of a call: what :func:`limit_answer` can decompress
ENCODINGS = {"Accept-Encoding": "gzip, deflate"}
_PIECE = 2**20


async def limit_answer(response: Any) -> None:
    """Limit the body of an answer to ``LARGEST_ANSWER`` bytes, also decompressed; an event hook of ``httpx``.

    The body is decompressed in small pieces, so that a small one cannot fill the memory. The files of a batch have no
    limit, because they are read in pieces.

    :raises BackendError: if the body is said to be longer, or is compressed in a way that no call asked for.
    """
    if response.request.url.path.endswith(("/content", "/results")):
        return
    size, encoding = response.headers.get("content-length", ""), response.headers.get("content-encoding", "")
    if size.isdecimal() and int(size[:20]) > LARGEST_ANSWER:
        raise _too_large(response, f"{int(size[:20]):,}")
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        text = errors.clean(
            f"the answer of {response.url.host} is compressed with '{encoding}', not with gzip"
        )
        raise BackendError(text, kind="response")
    if encoding not in ("", "identity"):
        # The library would decompress a whole chunk at once.
        del response.headers["content-encoding"]
    library = importlib.import_module(type(response).__module__.partition(".")[0])
    response.stream = _limited_stream(library.AsyncByteStream)(response, encoding)


def http_library(sdk: Any) -> Any:
    """Return the HTTP library that an SDK uses: httpx, or its successor."""
    return importlib.import_module(sdk.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])


def http_client(sdk: Any, options: CallOptions) -> Any:
    """Return an SDK's client over aiohttp, which takes less than half the CPU time of its default client.

    It limits the size of answers, and follows no redirect: the library would send the prompt and the user's headers to
    any host.

    :param sdk: the module ``openai`` or ``anthropic``.
    :param options: its timeout is for a connection, and for the next part of an answer.
    """
    return sdk.DefaultAioHttpClient(
        timeout=options.timeout,
        headers=ENCODINGS,
        event_hooks={"response": [limit_answer]},
        follow_redirects=False,
        limits=http_library(sdk).Limits(max_connections=options.concurrency),
    )


def _too_large(response: Any, size: str) -> BackendError:
    text = f"the answer of {response.url.host} has {size} bytes; the limit is {LARGEST_ANSWER:,}"
    return BackendError(errors.clean(text), kind="response")


@cache
def _limited_stream(base: type) -> type:
    """Return the class of a limited body, which must be a subclass of the library's class of streams."""

    class Limited(base):  # type: ignore[misc]
        def __init__(self, response: Any, encoding: str) -> None:
            self._response, self._stream = response, response.stream
            self._decoder = None if encoding in ("", "identity") else zlib.decompressobj(zlib.MAX_WBITS | 32)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            received = size = 0
            async for chunk in self._stream:
                received += len(chunk)
                for piece in self._pieces(chunk):
                    size += len(piece)
                    if size > LARGEST_ANSWER:
                        break
                    yield piece
                if max(received, size) > LARGEST_ANSWER:
                    raise _too_large(self._response, f"more than {LARGEST_ANSWER:,}")

        def _pieces(self, chunk: bytes) -> Iterator[bytes]:
            if self._decoder is None:
                yield chunk
                return
            while chunk and not self._decoder.eof:
                try:
                    piece = self._decoder.decompress(chunk, _PIECE)
                except zlib.error as error:
                    raise BackendError(
                        f"the answer cannot be decompressed: {error}", kind="connection", transient=True
                    ) from None
                if piece:
                    yield piece
                chunk = self._decoder.unconsumed_tail

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Limited


_OLD, _NEW = "max_tokens", "max_completion_tokens"
#: sent in place of 0 to an API whose temperature must be positive (MiniMax, TGI)
LEAST_TEMPERATURE = 0.01
#: parameters that are left out if the API refuses them; any other refused parameter of --llm-param stops the run
_OPTIONAL = (
    "temperature",
    "top_p",
    "stop",
    "logprobs",
    "top_logprobs",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
)
_FIXED = ("model", "messages", "stream", "n")


def chat_body(model: str, request: Chat, count: int = 1) -> dict[str, Any]:
    """Return the JSON body that asks for ``count`` replies to ``request``, before any deviation.

    :raises UsageError: if ``--llm-param`` names a parameter that the plugin sets.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
    }
    if count > 1:
        body["n"] = count
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body[_OLD] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.response_format:
        body["response_format"] = {"type": request.response_format}
    if request.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = request.logprobs
    for name, value in request.extra:
        if name in _FIXED:
            raise UsageError(f"--llm-param {name}: this is set by the plugin")
        if name in (_OLD, _NEW):
            body.pop(_OLD, None)
        body[name] = value
    return body


class Deviations:
    """The parameters that one model's API refuses, and what is sent instead.

    :param completion_tokens: the API is known to take ``max_completion_tokens``, the newer name of ``max_tokens``.
        Sending that name is then not a deviation.
    :param required_limit: tokens sent as the limit of calls that have none, if the API requires one.
    """

    def __init__(self, *, completion_tokens: bool = False, required_limit: int | None = None) -> None:
        self._tokens_as = _NEW if completion_tokens else None
        self._required_limit, self._is_limited = required_limit, False
        self._refused: list[str] = []
        self._least_temperature: float | None = None
        self._has_no_system = False

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Apply all deviations so far to ``body``, in place, and return it."""
        for name in self._refused:
            if name not in (_OLD, _NEW):
                body.pop(name, None)
        if self._required_limit is not None and body.keys().isdisjoint((_OLD, _NEW)):
            body[_OLD] = self._required_limit
            self._is_limited = True
        if self._tokens_as is not None:
            for name in (_OLD, _NEW):
                if name in body:
                    body[self._tokens_as] = body.pop(name)
                    break
        temperature = body.get("temperature")
        if self._least_temperature is not None and isinstance(temperature, int | float):
            body["temperature"] = min(max(temperature, self._least_temperature), 1.0)
        if self._has_no_system and "messages" in body:
            body["messages"] = _without_system(body["messages"])
        return body

    def adapt(self, name: str, sent: Mapping[str, Any], *, is_range: bool = False) -> bool:
        """Record that the API refused ``name`` in the body ``sent``; return whether to resend the adapted call.

        :param is_range: the API takes the parameter, but not this value.
        """
        if name in (_OLD, _NEW):
            other = _NEW if name == _OLD else _OLD
            if other in self._refused:
                # The API accepts neither name. A call without a token limit could cost any amount.
                return False
            self._note(name)
            self._tokens_as = other
            return True
        if name not in _OPTIONAL or name not in sent:
            return False
        if name == "temperature" and is_range and self._least_temperature is None:
            self._least_temperature = LEAST_TEMPERATURE
            return True
        self._note(name)
        if name == "logprobs":
            self._note("top_logprobs")
        return True

    def put_system_first(self, sent: Mapping[str, Any]) -> bool:
        """Record that the model has no role for system messages; return whether to resend the adapted call."""
        has_system = any(message["role"] == "system" for message in sent.get("messages", ()))
        self._has_no_system |= has_system
        return has_system

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.append(name)

    def phrases(self) -> Sequence[str]:
        """Return one short phrase per deviation, in the order of the parameters' names."""
        texts = []
        for name in sorted(self._refused):
            if name in (_OLD, _NEW):
                texts.append(f"{name} sent as {_NEW if name == _OLD else _OLD}")
            elif name != "top_logprobs" or "logprobs" not in self._refused:
                texts.append(f"{name} left out")
        if self._is_limited:
            texts.append(f"at most {self._required_limit} tokens, because the API requires a limit")
        if self._least_temperature is not None:
            texts.append(f"temperature from {self._least_temperature:g} to 1")
        if self._has_no_system:
            texts.append("system message put before the first user message")
        return tuple(texts)


def _without_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages whose first user message begins with the text of the system messages."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    others = [dict(message) for message in messages if message["role"] != "system"]
    first = next((message for message in others if message["role"] == "user"), None)
    if first is None:
        return [{"role": "user", "content": "\n\n".join(system)}, *others]
    first["content"] = "\n\n".join([*system, first["content"]])
    return list(others)


def _prompt(body: Mapping[str, Any]) -> str:
    """Return the text of all messages, or of all prompts of ``/v1/completions``."""
    prompts = body.get("prompt", ())
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    return "\n".join([*texts, *(message["content"] for message in body.get("messages", ()))])


#: maximum replies per call; OpenAI's own limit
MOST_SAMPLES = 128
#: prompts with too few tokens after which a note says that the server may cut prompts
MANY_CUT = 5
#: seconds for the end of a cancelled call
_CANCELLED = 1.0
#: sends a body and returns the parsed answer or an error value; may raise the SDK's exceptions
Post = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | BackendError]]


@dataclass(slots=True)
class ApiCalls:
    """The chat calls of one model.

    :param url: the base URL for messages.
    :param timeout: seconds for a whole call, from the request to the last byte of the answer.
    :param hidden: what no message may show.
    :param price: None if the price is unknown.
    :param most_samples: maximum replies per call; set to 1 when the API turns out to return only one.
    """

    name: str
    url: str
    deviations: Deviations
    timeout: float
    price: Price | None = None
    hidden: Secrets | None = None
    most_samples: int = MOST_SAMPLES
    #: function from the model's name, a request and a number of replies to the body of the call
    body: Callable[[str, Any, int], dict[str, Any]] = chat_body
    #: names of the API's parameters -> those of the chat format, where they differ
    chat_names: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: prompts whose calls with ``n`` were refused, possibly because of ``n``
    _refused_together: set[tuple[Message, ...]] = field(default_factory=set)
    #: prompts in which the server counted far fewer tokens than they can have; None after the note
    _cut: set[int] | None = field(default_factory=set)

    async def reply(self, request: Chat, post: Post) -> Result:
        """Send ``request``, and adapt and resend it until the API accepts it or refuses it for good."""
        replies = await self.replies(request, 1, post)
        if isinstance(replies, BackendError):
            return replies
        if request.messages in self._refused_together:
            # The same prompt is accepted alone, so n was the reason.
            self._stop_batching("refuses several samples of a prompt in one call (n)")
        return replies[0]

    async def samples(self, request: Chat, count: int, post: Post) -> list[Reply] | BackendError:
        """Return up to ``count`` replies to ``request`` from one call; an empty list if the API refuses several.

        Some APIs refuse ``n`` without naming it. They are recognised when they accept the same request without ``n``.
        """
        replies = await self.replies(request, count, post)
        if isinstance(replies, BackendError):
            if replies.kind != "request" or replies.fatal:
                return replies
            self._refused_together.add(request.messages)
            return []
        if len(replies) == 1 < count:
            self._stop_batching("returns one sample of a prompt although n asks for several")
        return replies

    def _stop_batching(self, reason: str) -> None:
        """Request each sample in a separate call from now on."""
        if self.most_samples > 1:
            self.most_samples = 1
            self.notes.append(f"the API {reason}; each sample is requested in a separate call")
        self._refused_together.clear()

    async def replies(self, request: Any, count: int, post: Post) -> list[Reply] | BackendError:
        """Return up to ``count`` replies from one call, which is adapted and sent again until the API accepts it."""
        started = time.perf_counter()
        while True:
            try:
                body = self.deviations.apply(self.body(self.name, request, count))
            except UsageError as error:
                return BackendError(str(error), kind="request", fatal=True)
            try:
                answer = await self._in_time(post(body))
            except UnicodeEncodeError:
                return BackendError("the prompt has characters that UTF-8 cannot encode", kind="request")
            except Exception as error:
                status = getattr(error, "status_code", None)
                refused, is_range = self._refused_parameter(error, body), False
                if isinstance(status, int) and refused == "temperature":
                    is_range = errors.names_range(errors.error_body(error))
                if refused is not None and self.deviations.adapt(refused, body, is_range=is_range):
                    continue
                if errors.refuses_system(
                    status, errors.error_body(error)
                ) and self.deviations.put_system_first(body):
                    continue
                if count > 1 and status and errors.refuses_several(status, errors.error_body(error)):
                    self._stop_batching("refuses several samples of a prompt in one call (n)")
                    return []
                result = self._failure(error)
                if refused in dict(request.extra) and isinstance(result, BackendError):
                    text = errors.clean(f"the API refuses --llm-param {refused}: {result}")
                    return BackendError(text, kind="request", fatal=True)
                return result if isinstance(result, BackendError) else [result] * count
            if isinstance(answer, BackendError):
                return answer
            seconds = time.perf_counter() - started
            if self._cut is not None:
                self._look_for_cut(body.get("messages", ()), usage_of(answer).prompt_tokens)
            return self.read(answer, count, self.price, seconds, body)

    def _look_for_cut(self, messages: Sequence[Mapping[str, Any]], counted: int) -> None:
        """Add a note if the server counted too few tokens in several prompts: Ollama cuts long ones silently."""
        text = _prompt({"messages": messages})
        estimate = len(text) / CHARACTERS_PER_TOKEN
        if self._cut is None or not 0 < counted < estimate / 3:
            return
        self._cut.add(hash(text))
        if len(self._cut) >= MANY_CUT:
            self._cut = None
            self.notes.append(
                f"the server counted {counted:,} tokens in a prompt of about {estimate:,.0f}, and as few in others;"
                " it may cut long prompts silently: raise its context length (Ollama: OLLAMA_CONTEXT_LENGTH, or"
                " num_ctx in the Modelfile)"
            )

    def parsed(
        self,
        content: bytes,
        headers: Mapping[str, str],
        as_chat: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    ) -> Mapping[str, Any] | BackendError:
        """Return the answer in a body with status 200, in the chat format, or the error that it reports.

        :param as_chat: function from an answer of the API to one in the chat format.
        """
        try:
            answer = parsed_answer(content)
        except (ValueError, RecursionError) as error:
            if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
                text = content.decode("utf-8", "replace")
                if not ("json" in headers.get("content-type", "") and text.lstrip().startswith("{")):
                    return errors.not_json(self.url, text, headers)
                error = CutStream("the answer was cut off")
            is_cut = isinstance(error, CutStream)
            text = str(error) if is_cut else f"the answer cannot be read as JSON: {problem_of(error)}"
            text = errors.marked(text, errors.request_id(headers))
            return BackendError(text, kind="connection" if is_cut else "response", transient=True)
        if isinstance(answer, list) and answer and isinstance(answer[0], dict):
            # Gemini's compatible API
            answer = answer[0]
        if not isinstance(answer, dict):
            return errors.not_json(self.url, "", {})
        answer_id, failure = {"request_id": errors.request_id(headers)}, errors.in_answer(answer)
        if failure is None:
            return {**as_chat(answer), **answer_id}
        status, inner = failure
        if errors.is_filtered(status, inner):
            return {"choices": [{"finish_reason": "content_filter"}], **answer_id}
        return errors.from_status(status, headers, inner, url=self.url, model=self.name, hidden=self.hidden)

    def read(
        self,
        answer: Mapping[str, Any],
        count: int,
        price: Price | None,
        seconds: float,
        body: Mapping[str, Any] | None = None,
    ) -> list[Reply] | BackendError:
        """Return the replies in an answer (see :func:`chat_replies`).

        :param body: what was sent, if it is known.
        """
        for reason in unknown_reasons(answer):
            note = f"the finish_reason '{reason}' is unknown; replies with it are taken as complete"
            if note not in self.notes:
                self.notes.append(note)
        limits = [body[name] for name in (_OLD, _NEW) if isinstance(body.get(name), int)] if body else []
        limit, prompt = min(limits, default=None), None if body is None else _prompt(body)
        return chat_replies(answer, count, price, seconds, self.url, self.name, limit, prompt)

    async def _in_time(
        self, call: Awaitable[Mapping[str, Any] | BackendError]
    ) -> Mapping[str, Any] | BackendError:
        """Return the call's answer.

        The timeouts of HTTP libraries apply to each part of an answer, and a library behind a proxy may not react to
        its cancellation. So this waits only shortly for the end of a cancelled call, which closes its connection.

        :raises TimeoutError: after ``timeout`` seconds.
        """
        task = asyncio.ensure_future(call)
        # An exception after the deadline has no reader.
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
        try:
            await asyncio.wait({task}, timeout=self.timeout)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            await asyncio.wait({task}, timeout=_CANCELLED)
            raise TimeoutError
        return task.result()

    def _refused_parameter(self, error: Exception, body: Mapping[str, Any]) -> str | None:
        """Return the parameter that the API refuses, if that is why the call failed."""
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return None
        adaptable = [name for name in body if name not in _FIXED]
        adaptable += (name for name, chat_name in self.chat_names.items() if chat_name in body)
        refused = errors.refused_parameter(status, errors.error_body(error), adaptable)
        return None if refused is None else self.chat_names.get(refused, refused)

    def _failure(self, error: Exception) -> Result:
        """Return an empty reply if a content filter refused the prompt, otherwise the error."""
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and errors.is_filtered(status, errors.error_body(error)):
            return Reply(finish_reason="content_filter", cost_usd=0.0)
        return errors.from_exception(error, url=self.url, model=self.name, hidden=self.hidden)


def most_samples(spec: ModelSpec) -> int:
    """Return the maximum replies per call that ``?n=`` of the model specification allows; ``n=off`` allows one.

    :raises UsageError: if ``n`` is neither ``on`` nor ``off``.
    """
    value = spec.params.get("n", "on")
    if value not in ("on", "off"):
        raise UsageError(f"--model {spec.text}: write n=off to request each sample in a separate call")
    return MOST_SAMPLES if value == "on" else 1


class ApiModel:
    """The part that the models of all APIs share; calls may run concurrently.

    A subclass has ``_open``, which prepares the first call and returns why it cannot be made, and ``_post``.

    :param base_url: of the identity.
    """

    max_batch = 1
    blocking = False
    _open: Callable[[], BackendError | None]
    _post: Post

    def __init__(
        self, spec: ModelSpec, options: CallOptions, calls: ApiCalls, backend: str, base_url: str
    ) -> None:
        self._spec, self._options, self._calls = spec, options, calls
        self.identity: Mapping[str, Any] = {"backend": backend, "name": spec.name, "base_url": base_url}
        if options.header_hashes:
            self.identity = {**self.identity, "headers": options.header_hashes}
        self.pinned = bool(_DATED.search(spec.name))

    async def chat(self, requests: Sequence[Chat]) -> list[Result]:
        """Return one result per request, in order."""
        error = self._open()
        if error is not None:
            return [error] * len(requests)
        if len(requests) == 1:
            return [await self._calls.reply(requests[0], self._post)]
        return list(await asyncio.gather(*(self._calls.reply(r, self._post) for r in requests)))

    def _prepare(self) -> None:
        """Set the price, and what no message may show."""
        addresses = (self._options.base_url, self._spec.params.get("base_url"))
        self._calls.hidden = Secrets.of_run(self._options.headers, filter(None, addresses))
        self._calls.price = price(self._spec.name, self._spec.params, self._options.prices)

    def _opened(self) -> None:
        """Prepare the first call.

        :raises BackendError: if it cannot be made.
        """
        error = self._open()
        if error is not None:
            raise error

    def notes(self) -> Sequence[str]:
        """Return notes about the API that do not affect replies."""
        return self._calls.notes

    def deviations(self) -> Sequence[str]:
        """Return the parameters that had to be left out or changed so far, one phrase each."""
        return self._calls.deviations.phrases()

    def close(self) -> None:
        """Do nothing: connections can only be closed in a coroutine, ``aclose``."""


class ApiSampleModel(ApiModel):
    """A model of an API that may return several replies per call."""

    @property
    def most_samples(self) -> int:
        """The maximum replies per call; 1 with ``?n=off``, or when the API turns out to return only one."""
        return self._calls.most_samples

    async def samples(self, request: Chat, count: int) -> list[Reply] | BackendError:
        """Return up to ``count`` replies to ``request`` from one call; an empty list if the API refuses several."""
        error = self._open()
        return await self._calls.samples(request, count, self._post) if error is None else error


def check_prices(spec: ModelSpec, options: CallOptions) -> None:
    """Check the prices of a specification and of the user's file.

    :raises UsageError: if they cannot be read.
    """
    if spec.params or options.prices:
        price(spec.name, spec.params, options.prices)
