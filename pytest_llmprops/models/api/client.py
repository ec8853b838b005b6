"""What the models of all network APIs share: their calls, and how the servers of a provider are reached."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Message, Price, Reply
from pytest_llmprops.core.strict_json import problem_of
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.deviations import FIXED, NEW_LIMIT, OLD_LIMIT, Deviations, chat_body
from pytest_llmprops.models.api.http import HttpClient, ServerPool
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN, price
from pytest_llmprops.models.api.replies import chat_replies, unknown_reasons
from pytest_llmprops.models.api.streams import CutStream, parsed_answer
from pytest_llmprops.models.api.usage import usage_of
from pytest_llmprops.models.base import CallOptions, Result
from pytest_llmprops.models.spec import ModelSpec, normalised_url

#: the end of a name that is one exact model, such as ``gpt-4o-2024-05-13``
_DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


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


class ApiModel:
    """The part that the models of all APIs share: calls, which may run concurrently.

    A subclass has ``_open``, which prepares the first call and returns why it cannot be made, and ``_post``, which
    sends a body and returns the parsed answer or an error value. ``_post`` may raise the exceptions that
    :func:`errors.from_exception` reads.

    :param backend: the name of the backend.
    :param url: the base URL for messages. :param base_url: that of the identity.
    :param forced: what the API forces to change.
    """

    max_batch = 1
    blocking = False
    _open: Callable[[], BackendError | None]
    _post: Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | BackendError]]
    #: names of the API's parameters -> those of the chat format, where they differ
    chat_names: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        spec: ModelSpec,
        options: CallOptions,
        backend: str,
        url: str,
        forced: Deviations,
        *,
        base_url: str = "",
    ) -> None:
        self._spec, self._options = spec, options
        self.name, self.url, self.forced = spec.name, url, forced
        self.identity: Mapping[str, Any] = {"backend": backend, "name": spec.name, "base_url": base_url}
        if options.header_hashes:
            self.identity = {**self.identity, "headers": options.header_hashes}
        self.pinned = bool(_DATED.search(spec.name))
        #: None if the price is unknown
        self.price: Price | None = None
        self._notes: list[str] = []
        #: prompts in which the server counted far fewer tokens than they can have; None after the note
        self._cut: set[int] | None = set()

    def body(self, request: Any, count: int) -> dict[str, Any]:
        """Return the body of a call, before any deviation."""
        return chat_body(self.name, request, count)

    def notes(self) -> Sequence[str]:
        """Return notes about the API that do not affect replies."""
        return self._notes

    def deviations(self) -> Sequence[str]:
        """Return the parameters that had to be left out or changed so far, one phrase each."""
        return self.forced.phrases()

    def close(self) -> None:
        """Do nothing: connections can only be closed in a coroutine, ``aclose``."""

    def _prepare(self) -> None:
        """Set the price."""
        self.price = price(self._spec.name, self._spec.params, self._options.prices)

    async def replies(self, request: Any, count: int) -> list[Reply] | BackendError:
        """Return up to ``count`` replies from one call, which is adapted and sent again until the API accepts it.

        The list is empty if the API says that it returns only one.
        """
        if error := self._open():
            return error
        started = time.perf_counter()
        while True:
            try:
                body = self.forced.apply(self.body(request, count))
            except UsageError as error:
                return BackendError(str(error), kind="request", fatal=True)
            try:
                answer = await self._in_time(self._post(body))
            except UnicodeEncodeError:
                return BackendError("the prompt has characters that UTF-8 cannot encode", kind="request")
            except Exception as error:
                status, said = errors.status_of(error), errors.error_body(error)
                refused = self._refused_parameter(status, said, body)
                is_range = refused == "temperature" and errors.names_range(said)
                if refused is not None and self.forced.adapt(refused, body, is_range=is_range):
                    continue
                if errors.refuses_system(status, said) and self.forced.put_system_first(body):
                    continue
                if count > 1 and errors.refuses_several(status, said):
                    return []
                if errors.is_filtered(status, said):
                    return [Reply(finish_reason="content_filter", cost_usd=0.0)] * count
                failure = errors.from_exception(error, url=self.url, model=self.name)
                if refused in dict(request.extra):
                    text = errors.clean(f"the API refuses --llm-param {refused}: {failure}")
                    return BackendError(text, kind="request", fatal=True)
                return failure
            if isinstance(answer, BackendError):
                return answer
            seconds = time.perf_counter() - started
            prompt = _prompt(body)
            self._look_for_cut(prompt, usage_of(answer).prompt_tokens)
            limits = [body[name] for name in (OLD_LIMIT, NEW_LIMIT) if isinstance(body.get(name), int)]
            return self.read(answer, count, self.price, seconds, min(limits, default=None), prompt)

    def _look_for_cut(self, prompt: str, counted: int) -> None:
        """Add a note if the server counted too few tokens in several prompts: Ollama cuts long ones silently."""
        estimate = len(prompt) / CHARACTERS_PER_TOKEN
        if self._cut is None or not 0 < counted < estimate / 3:
            return
        self._cut.add(hash(prompt))
        if len(self._cut) >= MANY_CUT:
            self._cut = None
            self._notes.append(
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
        return errors.from_status(status, headers, inner, url=self.url, model=self.name)

    def read(
        self,
        answer: Mapping[str, Any],
        count: int,
        price: Price | None,
        seconds: float,
        limit: int | None = None,
        prompt: str | None = None,
    ) -> list[Reply] | BackendError:
        """Return the replies in an answer (see :func:`chat_replies`)."""
        for reason in unknown_reasons(answer):
            note = f"the finish_reason '{reason}' is unknown; replies with it are taken as complete"
            if note not in self._notes:
                self._notes.append(note)
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
            await asyncio.wait({task}, timeout=self._options.timeout)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            await asyncio.wait({task}, timeout=_CANCELLED)
            raise TimeoutError
        return task.result()

    def _refused_parameter(self, status: int, said: Any, body: Mapping[str, Any]) -> str | None:
        """Return the parameter that the API refuses, if that is why the call failed."""
        adaptable = [name for name in body if name not in FIXED]
        adaptable += (name for name, chat_name in self.chat_names.items() if chat_name in body)
        refused = errors.refused_parameter(status, said, adaptable)
        return None if refused is None else self.chat_names.get(refused, refused)


def most_samples(spec: ModelSpec) -> int:
    """Return the maximum replies per call that ``?n=`` of the model specification allows; ``n=off`` allows one.

    :raises UsageError: if ``n`` is neither ``on`` nor ``off``.
    """
    value = spec.params.get("n", "on")
    if value not in ("on", "off"):
        raise spec.error("write n=off to request each sample in a separate call")
    return MOST_SAMPLES if value == "on" else 1


class ChatApiModel(ApiModel):
    """A model that continues conversations.

    The number of replies per call is set to 1 with ``?n=off``, and when the API turns out to return only one.
    """

    def __init__(self, spec: ModelSpec, *settings: Any, **more: Any) -> None:
        super().__init__(spec, *settings, **more)
        self._most = most_samples(spec)
        #: prompts whose calls with ``n`` were refused, possibly because of ``n``
        self._refused_together: set[tuple[Message, ...]] = set()

    @property
    def most_samples(self) -> int:
        """The maximum replies per call."""
        return self._most

    async def chat(self, requests: Sequence[Chat]) -> list[Result]:
        """Return one result per request, in order."""
        if len(requests) == 1:
            return [await self._reply(requests[0])]
        return list(await asyncio.gather(*map(self._reply, requests)))

    async def _reply(self, request: Chat) -> Result:
        replies = await self.replies(request, 1)
        if isinstance(replies, BackendError):
            return replies
        if request.messages in self._refused_together:
            # The same prompt is accepted alone, so n was the reason.
            self._stop_batching("refuses several samples of a prompt in one call (n)")
        return replies[0]

    async def samples(self, request: Chat, count: int) -> list[Reply] | BackendError:
        """Return up to ``count`` replies to ``request`` from one call; an empty list if the API refuses several.

        Some APIs refuse ``n`` without naming it. They are recognised when they accept the same request without ``n``.
        """
        replies = await self.replies(request, count)
        if isinstance(replies, BackendError):
            if replies.kind != "request" or replies.fatal:
                return replies
            self._refused_together.add(request.messages)
            return []
        if not replies:
            self._stop_batching("refuses several samples of a prompt in one call (n)")
        elif len(replies) == 1 < count:
            self._stop_batching("returns one sample of a prompt although n asks for several")
        return replies

    def _stop_batching(self, reason: str) -> None:
        """Request each sample in a separate call from now on."""
        if self._most > 1:
            self._most = 1
            self._notes.append(f"the API {reason}; each sample is requested in a separate call")
        self._refused_together.clear()


@dataclass(frozen=True, slots=True)
class Provider:
    """How the models of a provider are reached.

    :param name: the name of the backend.
    :param key: the environment variable of the key.
    :param headers: function from the key to the headers of a call.
    :param url: the default base URL. :param variable: the environment variable of another one.
    :param path: where chats are sent, after the base URL.
    :param needs_key: function that returns whether a model needs the key. :param hint: what to do without one.
    """

    name: str
    key: str
    headers: Callable[[str], Mapping[str, str]]
    url: str
    variable: str
    path: str
    needs_key: Callable[[ModelSpec, CallOptions], bool] = lambda spec, options: True
    hint: str = ""

    def urls(self, spec: ModelSpec, options: CallOptions) -> list[str]:
        """Return the addresses of the servers of a model: one, or several separated by commas."""
        stated = spec.params.get("base_url") or options.base_url
        text = stated or os.environ.get(self.variable, "").strip() or self.url
        return list(dict.fromkeys(url.strip() for url in text.split(",")))

    def check(self, spec: ModelSpec, options: CallOptions) -> None:
        """Check the prices and the addresses of a model.

        :raises UsageError: with the first problem.
        """
        check_prices(spec, options)
        where = f"--model {spec.text}: base_url" if "base_url" in spec.params else "--llm-base-url"
        for url in self.urls(spec, options):
            normalised_url(url, where)

    def missing_key(self, spec: ModelSpec, options: CallOptions) -> str:
        """Return what is wrong with the key, in one line; empty if nothing is."""
        key = os.environ.get(self.key, "").strip()
        if not key and self.needs_key(spec, options):
            return f"model {spec.name} needs a key: set the environment variable {self.key}{self.hint}"
        if not (key.isascii() and key.isprintable()):
            return f"{self.key} has characters that are not allowed in a key; set it again"
        return ""


class ProviderModel(ApiModel):
    """A model of a provider, or of servers with the same API.

    :param backend: the name of the backend; default: the provider's.
    """

    def __init__(
        self,
        spec: ModelSpec,
        options: CallOptions,
        provider: Provider,
        forced: Deviations,
        *,
        backend: str = "",
    ) -> None:
        self._provider = provider
        self._urls = provider.urls(spec, options)
        urls = [normalised_url(url) for url in self._urls]
        # Several servers serve the same model.
        base_url = "" if urls == [provider.url] else ",".join(sorted(urls))
        if "as" in spec.params:
            base_url = f"as {spec.params['as']}"
        super().__init__(spec, options, backend or provider.name, ", ".join(urls), forced, base_url=base_url)
        self.path = provider.path
        self._clients: Mapping[str, HttpClient] = {}
        self.client: Any = None

    def notes(self) -> Sequence[str]:
        """Return notes about the API that do not affect replies."""
        return [*self._notes, *(() if self.client is None else self.client.notes())]

    async def aclose(self) -> None:
        """Close the connections."""
        client, self.client = self.client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> BackendError | None:
        """Create the clients at the first call; return the error if that fails."""
        if self.client is not None:
            return None
        if missing := self._provider.missing_key(self._spec, self._options):
            return BackendError(missing, kind="key", fatal=True)
        headers = self._provider.headers(os.environ.get(self._provider.key, "").strip() or "none")
        self._prepare()
        try:
            self._clients = {url: HttpClient(url, headers, self._options, self.path) for url in self._urls}
        except Exception as error:
            return errors.from_opening(error)
        self.client = ServerPool(self._clients)
        return None

    def batch_client(self) -> HttpClient:
        """Return the client for batches.

        :raises BackendError: if the key is missing or wrong, or there are several servers.
        """
        if len(self._urls) > 1:
            text = f"{self._spec.text}: a batch is sent to one server; give one address"
            raise BackendError(text, kind="url", fatal=True)
        if error := self._open():
            raise error
        return self._clients[self._urls[0]]


def check_prices(spec: ModelSpec, options: CallOptions) -> None:
    """Check the prices of a specification and of the user's file.

    :raises UsageError: if they cannot be read.
    """
    if spec.params or options.prices:
        price(spec.name, spec.params, options.prices)
