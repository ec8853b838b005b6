"""The oracle-checker scheme in general (Zeng, Wang & Ibbetson, section 2).

An *oracle* claims to compute a function. A *checker* asks it further questions and accepts or rejects its answer.

To write your own checker, define a class with a ``name`` and an ``async check(x, oracle, rng)``. It asks ``oracle``,
takes every random choice from ``rng``, and returns an :class:`Acceptance`. It does no I/O and reads no clock.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.core.strict_json import JSON

#: a prompt that asks for JSON, without which OpenAI's API refuses to enforce it
_ASKS_JSON = re.compile(r"\boutput (?:one )?JSON\b", re.I)
X = TypeVar("X", contravariant=True)

#: sends a chat to a model: the ``ask`` of a benchmark, or any async function of a chat
AskChat = Callable[[Chat], Awaitable[Reply]]
#: one user turn, or all turns of a conversation
Prompt = str | Sequence[Message]


class Oracle:
    """A model that answers prompts.

    ``asked`` is the number of questions so far, including repeated ones.

    :param ask: async function that sends a :class:`~pytest_llmprops.core.requests.Chat` to the model. A
        :class:`~pytest_llmprops.core.errors.BackendError` is not caught, because it is not an answer.
    :param temperature: temperature of every question; None: the server's default.
    :param max_tokens: maximum length of a reply, unless a question sets its own; None: no limit.
    :param json: whether the server shall enforce JSON in replies to prompts that ask for it.
    """

    __slots__ = ("_ask", "asked", "json", "max_tokens", "temperature")

    def __init__(
        self,
        ask: AskChat,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        json: bool = False,
    ) -> None:
        self._ask = ask
        self.json = json
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.asked = 0

    async def __call__(self, prompt: Prompt, *, sample: int = 0, max_tokens: int | None = None) -> Reply:
        """Ask one question and return the reply.

        The reply's ``text`` is untrusted. Its ``finish_reason`` is ``length`` if it was cut off, and
        ``content_filter`` if it was filtered.

        :param sample: distinguishes repeated questions with the same prompt.
        :param max_tokens: maximum length of the reply.
        :raises BackendError: if the call could not be made.
        """
        messages = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        limit = self.max_tokens if max_tokens is None else max_tokens
        asks = any(_ASKS_JSON.search(message.content) for message in messages)
        form = "json_object" if self.json and asks else ""
        self.asked += 1
        chat = Chat(
            messages, temperature=self.temperature, max_tokens=limit, sample=sample, response_format=form
        )
        return await self._ask(chat)

    async def samples(self, prompt: Prompt, numbers: Iterable[int]) -> list[Reply]:
        """Ask one question several times at once and return the replies in order.

        :param numbers: the ``sample`` of each reply.
        :raises BackendError: if a call could not be made.
        """
        return await asyncio.gather(*(self(prompt, sample=number) for number in numbers))


@dataclass(frozen=True, slots=True)
class Bound:
    """The meaning of an acceptance, as a bound on a probability.

    :param text: one sentence, as it is printed. If there is no bound, it says so and why.
    :param epsilon: the distance from the property that the bound is about, if any.
    :param probability: the probability of a rejection (or of passing, as ``text`` says); None if there is no bound.
    """

    text: str
    epsilon: float | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A checker's decision.

    :param accepted: whether the oracle's answer is accepted. A rejected answer is not trusted, but never turned into
        its opposite.
    :param outcome: the kind of decision, in one or two words that the checker documents.
    :param why: one phrase that explains the decision.
    :param evidence: a JSON object with the checker's own keys.
    :param bound: the meaning of the acceptance, if there is a bound.
    :param values: flat numbers from which every metric can be computed.
    """

    accepted: bool
    outcome: str
    why: str
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    bound: Bound | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.accepted


class Checker(Protocol[X]):
    """Decides whether an oracle's answer on ``x`` is accepted."""

    @property
    def name(self) -> str:
        """The name of the checker."""
        ...

    async def check(self, x: X, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Ask the oracle about ``x``, ask further questions, and decide.

        :param rng: the only source of random choices, seeded by the item.
        :raises BackendError: if a call could not be made; the case is then an error, not a rejection.
        """
        ...


def fill(template: str, **fields: Any) -> str:
    """Return ``template`` with each ``{name}`` of ``fields`` replaced in one pass.

    Other braces are kept, also those in the values, because sentences are not templates.
    """
    parts = template.split("{")
    done = [parts[0]]
    for part in parts[1:]:
        name, closed, rest = part.partition("}")
        key = name.replace("-", "_")
        done.append(f"{fields[key]}{rest}" if closed and key in fields else "{" + part)
    return "".join(done)
