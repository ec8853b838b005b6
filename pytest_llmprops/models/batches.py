"""The interface of a provider's batch protocol: requests in a file, answered within a day at half the price.

``models/openai_batches.py`` implements it for OpenAI's files and batches, and ``models/anthropic_batches.py`` for
Anthropic's Message Batches. Another protocol needs a class with these methods, and ``batches`` in its
:class:`~pytest_llmprops.models.registry.Backend`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models.base import ChatModel

Status = Literal[
    "validating",
    "in_progress",
    "finalizing",
    "completed",
    "failed",
    "expired",
    "cancelling",
    "cancelled",
]
_OVER = ("completed", "failed", "expired", "cancelled")
#: a batch may be older than its intent by the clocks of two machines, in seconds
CLOCKS = 3600.0


@dataclass(frozen=True, slots=True)
class BatchState:
    """What a provider says about a batch.

    :param mark: the text under which it was created, see :meth:`BatchApi.create`; empty if there is none.
    :param lines: number of its lines; 0 until it is known. :param done: those with a result.
    :param expires: Unix time at which its open lines are given up; 0 if it is unknown.
    :param code: for a failed batch, the provider's code of the first problem. :param problem: all of them, one line.
    """

    id: str
    status: Status
    mark: str = ""
    output_file: str | None = None
    error_file: str | None = None
    lines: int = 0
    done: int = 0
    expires: float = 0.0
    code: str = ""
    problem: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the provider will not change it any more."""
        return self.status in _OVER

    @property
    def is_too_large(self) -> bool:
        """Whether it was refused because too many tokens wait in batches; nothing of it was run."""
        return self.status == "failed" and "token_limit_exceeded" in self.code


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that may have been created by a process that was killed.

    :param created: Unix time of the intent. :param lines: number of its lines.
    :param custom_ids: returns the custom ids of its lines.
    """

    mark: str
    created: float
    lines: int
    custom_ids: Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True)
class LineResult:
    """One line of a result file.

    :param answer: the answer to the request; None if there is none.
    :param error: why there is no answer. :param is_filtered: a content filter refused the prompt.
    :param was_run: False if the batch ended before this line.
    """

    custom_id: str
    answer: Mapping[str, Any] | None = None
    error: BackendError | None = None
    is_filtered: bool = False
    was_run: bool = True


class BatchApi(Protocol):
    """A model's batches. Every coroutine raises :class:`BackendError` if its call fails."""

    #: maximum number of lines and bytes of one batch
    most_lines: int
    most_bytes: int

    def line(self, custom_id: str, request: Chat, count: int) -> bytes:
        """Return the line that asks for ``count`` replies to ``request``, with its newline.

        :raises BackendError: if the request cannot be sent.
        """
        ...

    async def upload(self, lines: IO[bytes]) -> Any:
        """Upload the lines and return what :meth:`create` takes, such as the id of a file."""
        ...

    async def create(self, uploaded: Any, mark: str) -> BatchState:
        """Create a batch that :meth:`find` recognises, by ``mark`` if the provider keeps it."""
        ...

    async def find(self, intents: Sequence[Intent], known: Collection[str]) -> dict[str, BatchState]:
        """Return the batches of these intents that exist, by mark.

        :param known: the ids of batches that do not belong to any of them.
        """
        ...

    async def state(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        ...

    def lines(self, file: str) -> AsyncIterator[str]:
        """Yield the lines of a result file."""
        ...

    def read(self, line: str) -> LineResult | None:
        """Return the result in a line; None if the line cannot be read."""
        ...

    def replies(self, answer: Mapping[str, Any], count: int) -> Sequence[Reply] | BackendError:
        """Return the first ``count`` replies in an answer, or fewer if it has fewer, with the price of a batch."""
        ...

    def lacks_tokens(self, answer: Mapping[str, Any], extra_tokens: int) -> bool:
        """Return whether to send a request again with a higher token limit, as after a call.

        :param extra_tokens: :attr:`extra_tokens` when the line was written.
        """
        ...

    @property
    def extra_tokens(self) -> int:
        """The tokens added to each request's limit, for a model that spends them on hidden reasoning."""
        ...

    async def cancel(self, batch: str) -> BatchState:
        """Cancel a batch; lines that were already run are paid for."""
        ...


class BatchModel(ChatModel, Protocol):
    """A network chat model whose provider takes batches."""

    def batches(self) -> BatchApi:
        """Return its batches.

        :raises BackendError: if its key is missing or wrong.
        """
        ...
