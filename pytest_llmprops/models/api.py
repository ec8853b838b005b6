"""One chat call to an API, with the departures that the API forces and its errors as values.

Shared by the backends over the network; each brings its own way to send a body.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models import errors
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.departures import Departures, body_of
from pytest_llmprops.models.prices import Price
from pytest_llmprops.models.replies import chat_reply, spent_on_reasoning

#: The parsed answer to a body, or what its absence means; may raise what the SDK raises.
Post = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | BackendError]]


@dataclass(slots=True)
class ApiCalls:
    """How one model's calls are adapted and read.

    :param url: base URL as messages show it. :param hidden: texts that no message may show.
    :param price: None where nobody says what a call costs.
    """

    name: str
    url: str
    departures: Departures
    price: Price | None = None
    hidden: tuple[str, ...] = ()

    async def reply(self, request: Chat, post: Post) -> Result:
        """Ask for ``request`` until the API takes it as it is sent, or for good does not."""
        started = time.perf_counter()
        while True:
            try:
                body = self.departures.apply(body_of(self.name, request))
            except UsageError as error:
                return BackendError(str(error), kind="request", fatal=True)
            budget = self.departures.extra_tokens
            try:
                answer = await post(body)
            except UnicodeEncodeError:
                return BackendError("the prompt holds characters that UTF-8 cannot carry", kind="request")
            except Exception as error:
                refused = self._refused(error, body)
                if refused is not None and self.departures.refused(refused, body):
                    continue
                failed = self._failed(error)
                if refused in dict(request.extra) and isinstance(failed, BackendError):
                    text = errors.clean(f"the API refuses --llm-param {refused}: {failed}")
                    return BackendError(text, kind="request", fatal=True)
                return failed
            if isinstance(answer, BackendError):
                return answer
            if spent_on_reasoning(answer) and self.departures.raise_budget(body, budget):
                continue
            return chat_reply(answer, self.price, time.perf_counter() - started, self.url, self.name)

    def _refused(self, error: Exception, sent: Mapping[str, Any]) -> str | None:
        """The parameter that the call was refused for, where it was."""
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return None
        return errors.refused_parameter(status, errors.body_of(error), sent)

    def _failed(self, error: Exception) -> Result:
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and errors.is_filtered(status, errors.body_of(error)):
            return Reply(finish_reason="content_filter", stored=time.time())
        return errors.from_exception(error, url=self.url, model=self.name, hidden=self.hidden)
