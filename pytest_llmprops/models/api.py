"""Chat calls to an API: adapt the request to what the API accepts, and return its errors as values.

The network backends share this module. Each passes its own function to send a body.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.models import errors
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.deviations import Deviations, chat_body
from pytest_llmprops.models.prices import Price
from pytest_llmprops.models.replies import chat_replies, spent_on_reasoning, without_keys
from pytest_llmprops.models.spec import ModelSpec

#: maximum replies per call; OpenAI's own limit
MOST_SAMPLES = 128
#: seconds for the end of a cancelled call
_CANCELLED = 1.0
#: sends a body and returns the parsed answer or an error value; may raise the SDK's exceptions
Post = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | BackendError]]


@dataclass(slots=True)
class ApiCalls:
    """The chat calls of one model.

    :param url: the base URL for messages.
    :param timeout: seconds for a whole call, from the request to the last byte of the answer.
    :param hidden: texts that no message may show.
    :param echoes: keys that no reply may show, if a server repeats them.
    :param price: None if the price is unknown.
    :param most_samples: maximum replies per call; set to 1 when the API turns out to return only one.
    """

    name: str
    url: str
    deviations: Deviations
    timeout: float
    price: Price | None = None
    hidden: tuple[str, ...] = ()
    echoes: tuple[str, ...] = ()
    most_samples: int = MOST_SAMPLES
    notes: list[str] = field(default_factory=list)
    #: prompts whose calls with ``n`` were refused, possibly because of ``n``
    _refused_together: set[tuple[Message, ...]] = field(default_factory=set)

    async def reply(self, request: Chat, post: Post) -> Result:
        """Send ``request``, and adapt and resend it until the API accepts it or refuses it for good."""
        replies = await self._replies(request, 1, post)
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
        replies = await self._replies(request, count, post)
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

    async def _replies(self, request: Chat, count: int, post: Post) -> list[Reply] | BackendError:
        started = time.perf_counter()
        while True:
            try:
                body = self.deviations.apply(chat_body(self.name, request, count))
            except UsageError as error:
                return BackendError(str(error), kind="request", fatal=True)
            budget = self.deviations.extra_tokens
            try:
                answer = await self._in_time(post(body))
            except UnicodeEncodeError:
                return BackendError("the prompt has characters that UTF-8 cannot encode", kind="request")
            except Exception as error:
                refused = self._refused_parameter(error, body)
                if refused is not None and self.deviations.adapt(refused, body):
                    continue
                status = getattr(error, "status_code", None)
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
            if spent_on_reasoning(answer) and self.deviations.raise_budget(body, budget):
                continue
            seconds = time.perf_counter() - started
            return self.read(answer, count, self.price, seconds)

    def read(
        self, answer: Mapping[str, Any], count: int, price: Price | None, seconds: float
    ) -> list[Reply] | BackendError:
        """Return the replies in an answer, without the keys that a server repeats (see :func:`chat_replies`)."""
        replies = chat_replies(answer, count, price, seconds, self.url, self.name)
        if isinstance(replies, BackendError):
            return replies
        return [without_keys(reply, self.echoes) for reply in replies]

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
        return errors.refused_parameter(status, errors.error_body(error), body)

    def _failure(self, error: Exception) -> Result:
        """Return an empty reply if a content filter refused the prompt, otherwise the error."""
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and errors.is_filtered(status, errors.error_body(error)):
            return Reply(finish_reason="content_filter")
        return errors.from_exception(error, url=self.url, model=self.name, hidden=self.hidden)


def most_samples(spec: ModelSpec) -> int:
    """Return the maximum replies per call that ``?n=`` of the model specification allows; ``n=off`` allows one.

    :raises UsageError: if ``n`` is neither ``on`` nor ``off``.
    """
    value = spec.params.get("n", "on")
    if value not in ("on", "off"):
        raise UsageError(f"--model {spec.text}: write n=off to request each sample in a separate call")
    return MOST_SAMPLES if value == "on" else 1
