"""Models that think before they answer: their thoughts are split off, and get tokens of their own.

A reply that its token limit cut before any answer is not an answer. The limit of the model is then raised, in steps and
for all later calls, up to ``llm_max_thinking``. What is cut there, too, is an error of its item.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.reasoning import Parts, answer_of, is_cut
from pytest_llmprops.core.requests import Chat, Reply, Request

#: the kind of the error of a reply that was cut before its answer
KIND = "thinking"
#: tokens added to the limits of a model's requests, one step after the other; the last step is ``llm_max_thinking``
STEPS = (4096, 16_384)
#: tokens of a request without a limit that is sent with one
_UNLIMITED = 4096
_LIMITS = ("max_completion_tokens", "max_tokens")
#: how thoughts begin that have no tags; other texts are not followed further than the first step
_BEGINS_A_THOUGHT = re.compile(
    r"\s*(?:ok(?:ay)?\b|alright|hmm|wait|let(?:'s| us| me)\b|we (?:need|have|are)\b|i (?:need|have|should)\b|so\b"
    r"|first\b|the (?:user|question|task)\b|to (?:solve|determine|answer)\b|嗯|好的|首先|用户)",
    re.IGNORECASE,
)
Send = Callable[[Sequence[Request]], Awaitable[Sequence[Reply] | BackendError]]


class ThinkingBudget:
    """The tokens that one model gets beyond the limit of a request.

    :param most: the value of ``llm_max_thinking``.
    :param probes: a reply that was cut, and looks like any text, may be a thought without tags: find out with one
        longer call. For models in this process, it would take minutes; their templates say it.
    :param discard: called with the replies that are paid for and not used.
    """

    def __init__(self, most: int, *, probes: bool, discard: Callable[[Sequence[Reply]], None]) -> None:
        self._discard = discard
        self.extra = 0
        self._steps = [*(step for step in STEPS if step < most), *([most] if most else [])]
        self._option = most
        #: replies have thoughts without an opening tag; None until it is known
        self._lacks_opening: bool | None = None
        self._probes = probes and bool(self._steps)
        self._probe: asyncio.Future[None] | None = None

    def request(self, request: Request, extra: int | None = None) -> Request:
        """Return a request with the tokens for thoughts added to its limit."""
        extra = self.extra if extra is None else extra
        if not extra or not isinstance(request, Chat):
            return request
        own = dict(request.extra)
        for name in _LIMITS:
            if isinstance(own.get(name), int):
                own[name] += extra
                return replace(request, extra=tuple(own.items()))
        return replace(request, max_tokens=(request.max_tokens or _UNLIMITED) + extra)

    def raised_from(self, extra: int) -> bool:
        """Return True if a request that was cut with these extra tokens is worth sending again, with more."""
        if extra >= self.extra:
            self.extra = next((step for step in self._steps if step > extra), extra)
        return extra < self.extra

    def is_cut(self, reply: Reply, parts: Parts) -> bool:
        """Return True if a reply, without its thoughts, was cut before any answer."""
        # A thought without tags that was cut has neither of them.
        is_open = self._lacks_opening and reply.finish_reason == "length" and parts.text == reply.text
        return bool(is_open) or is_cut(reply, parts)

    def error(self) -> BackendError:
        """Return the error of a reply that was cut before any answer."""
        more = f"allow more than {self._option:,} tokens" if self._option else "allow it tokens for that"
        if self.extra < self._option:
            more = "the server accepts no higher limit; choose a server with a longer context instead of raising it"
        return BackendError(
            f"the reply was cut while the model was thinking, before any answer; {more} (llm_max_thinking)",
            kind=KIND,
        )

    async def replies(self, requests: Sequence[Request], send: Send) -> Sequence[Reply] | BackendError:
        """Return the replies of one call, with the thoughts split off.

        :param send: makes a call.
        """
        if not isinstance(requests[0], Chat):
            return await send(requests)
        extra, refused = self.extra, 0
        while True:
            results = await send(
                [self.request(request, extra) for request in requests] if extra else requests
            )
            if isinstance(results, BackendError):
                if results.kind != "request" or not extra or refused:
                    return results
                # The limit may be the reason: ask once with the step below.
                refused = extra
                extra = max((step for step in self._steps if step < extra), default=0)
                continue
            if refused:
                self._forget(refused)
            answers = [answer_of(reply) for reply in results]
            if not self._lacks_opening:
                await self._look(requests[0], answers, send)
            if not any(self.is_cut(reply, parts) for reply, (_, parts) in zip(results, answers, strict=True)):
                return [reply for reply, _ in answers]
            self._discard(results)
            if refused or not self.raised_from(extra):
                return self.error()
            extra = self.extra

    def _forget(self, refused: int) -> None:
        """Go back to the step below one that a server refuses, for good."""
        self._steps = [step for step in self._steps if step < refused]
        self.extra = min(self.extra, self._steps[-1] if self._steps else 0)

    async def _look(self, request: Request, answers: Sequence[tuple[Reply, Parts]], send: Send) -> None:
        """Find out whether replies have thoughts without an opening tag, as far as these replies show it."""
        if any(parts.lacks_opening for _, parts in answers):
            self._lacks_opening = True
        elif any(reply.reasoning or parts.is_cut for reply, parts in answers):
            self._lacks_opening = False
        elif self._lacks_opening is None and self._probes and any(map(_may_be_thought, answers)):
            if self._probe is None:
                self._probe = asyncio.ensure_future(self._ask_longer(request, send))
            await asyncio.shield(self._probe)

    async def _ask_longer(self, request: Request, send: Send) -> None:
        for step in self._steps:
            results = await send([self.request(request, step)])
            if isinstance(results, BackendError):
                break
            self._discard(results)
            _, parts = answer_of(results[0])
            if parts.lacks_opening:
                self._lacks_opening = True
                self.raised_from(0)
                return
            if results[0].finish_reason != "length" or not _BEGINS_A_THOUGHT.match(results[0].text):
                break
        else:
            # It begins as a thought and never ends: better an error than an answer read in it.
            self._lacks_opening = True
        if self._lacks_opening is None:
            self._lacks_opening = False

    def phrases(self) -> tuple[str, ...]:
        """Return the deviation that the tokens for thoughts are, if the model got any."""
        return (f"token budget raised by {self.extra}",) if self.extra else ()


def _may_be_thought(answer: tuple[Reply, Parts]) -> bool:
    reply, _ = answer
    return reply.finish_reason == "length" and bool(reply.text.strip())
