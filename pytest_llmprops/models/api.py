"""One chat call to an API, with the departures that the API forces and its errors as values.

Shared by the backends over the network; each brings its own way to send a body.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.models import errors
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.departures import Departures, body_of
from pytest_llmprops.models.prices import Price
from pytest_llmprops.models.replies import chat_replies, spent_on_reasoning
from pytest_llmprops.models.spec import ModelSpec

#: most replies that are asked for by one call; OpenAI's own limit
MOST_SAMPLES = 128
#: The parsed answer to a body, or what its absence means; may raise what the SDK raises.
Post = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | BackendError]]


@dataclass(slots=True)
class ApiCalls:
    """How one model's calls are adapted and read.

    :param url: base URL as messages show it. :param hidden: texts that no message may show.
    :param price: None where nobody says what a call costs.
    :param most_samples: replies that one call may ask for; 1 once the API is found to give no more.
    """

    name: str
    url: str
    departures: Departures
    price: Price | None = None
    hidden: tuple[str, ...] = ()
    most_samples: int = MOST_SAMPLES
    notes: list[str] = field(default_factory=list)
    #: prompts whose samples were refused together, for a reason that may be ``n``
    _doubted: set[tuple[Message, ...]] = field(default_factory=set)

    async def reply(self, request: Chat, post: Post) -> Result:
        """Ask for ``request`` until the API takes it as it is sent, or for good does not."""
        replies = await self._replies(request, 1, post)
        if isinstance(replies, BackendError):
            return replies
        if request.messages in self._doubted:
            self._one_by_one("refuses several samples of a prompt in one call (n)")
        return replies[0]

    async def samples(self, request: Chat, count: int, post: Post) -> list[Reply] | BackendError:
        """Up to ``count`` replies to ``request`` by one call; none where the API refuses to give several.

        An API that refuses them without saying so is found out when it takes the same request alone.
        """
        replies = await self._replies(request, count, post)
        if isinstance(replies, BackendError):
            if replies.kind != "request" or replies.fatal:
                return replies
            self._doubted.add(request.messages)
            return []
        if len(replies) == 1 < count:
            self._one_by_one("gives one sample of a prompt in answer to n")
        return replies

    def _one_by_one(self, why: str) -> None:
        if self.most_samples > 1:
            self.most_samples = 1
            self.notes.append(f"the API {why}; each is asked for by a call of its own")
        self._doubted.clear()

    async def _replies(self, request: Chat, count: int, post: Post) -> list[Reply] | BackendError:
        started = time.perf_counter()
        while True:
            try:
                body = self.departures.apply(body_of(self.name, request, count))
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
                status = getattr(error, "status_code", None)
                if count > 1 and status and errors.refuses_several(status, errors.body_of(error)):
                    self._one_by_one("refuses several samples of a prompt in one call (n)")
                    return []
                failed = self._failed(error)
                if refused in dict(request.extra) and isinstance(failed, BackendError):
                    text = errors.clean(f"the API refuses --llm-param {refused}: {failed}")
                    return BackendError(text, kind="request", fatal=True)
                return failed if isinstance(failed, BackendError) else [failed] * count
            if isinstance(answer, BackendError):
                return answer
            if spent_on_reasoning(answer) and self.departures.raise_budget(body, budget):
                continue
            seconds = time.perf_counter() - started
            return chat_replies(answer, count, self.price, seconds, self.url, self.name)

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


def most_samples(spec: ModelSpec) -> int:
    """What ``?n=`` of the model specification allows: ``off`` makes each sample a call of its own.

    :raises UsageError: it is neither ``on`` nor ``off``.
    """
    given = spec.params.get("n", "on")
    if given not in ("on", "off"):
        raise UsageError(f"--model {spec.text}: write n=off to ask for each sample by a call of its own")
    return MOST_SAMPLES if given == "on" else 1
