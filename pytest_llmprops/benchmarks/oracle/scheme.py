"""The oracle-checker scheme in general (Zeng, Wang & Ibbetson, section 2).

An *oracle* claims to compute a function; a *checker* puts further questions to it and accepts its answer, or not.
A checker of one's own is a class with a ``name`` and an ``async check(x, oracle, rng)``: it asks ``oracle``, takes
every random choice from ``rng``, and returns an :class:`Acceptance`. It does no I/O and reads no clock.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.core.strict_json import JSON

X = TypeVar("X", contravariant=True)

#: how a chat reaches a model; a benchmark's ``ask`` is one, and so is any async function of a chat
AskChat = Callable[[Chat], Awaitable[Reply]]
#: what is asked: one user turn, or all turns of a conversation
Prompt = str | Sequence[Message]


class Oracle:
    """A model behind prompts.

    :param ask: takes a :class:`~pytest_llmprops.core.requests.Chat` to the model. Errors of a call
        (:class:`~pytest_llmprops.core.errors.BackendError`) pass through: they are no answers.
    :param temperature: of every question; None leaves it to the server.
    :param max_tokens: longest reply, unless a question sets its own; None: no limit.

    ``asked`` counts the questions so far, repeated ones included.
    """

    __slots__ = ("_ask", "asked", "max_tokens", "temperature")

    def __init__(
        self, ask: AskChat, *, temperature: float | None = None, max_tokens: int | None = None
    ) -> None:
        self._ask = ask
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.asked = 0

    async def __call__(self, prompt: Prompt, *, sample: int = 0, max_tokens: int | None = None) -> Reply:
        """Put one question; ``sample`` tells repeated askings of the same prompt apart.

        The reply's ``text`` is untrusted; ``finish_reason`` tells one that was cut off (``length``) or filtered
        (``content_filter``).

        :raises BackendError: the call could not be made.
        """
        messages = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        limit = self.max_tokens if max_tokens is None else max_tokens
        self.asked += 1
        return await self._ask(Chat(messages, temperature=self.temperature, max_tokens=limit, sample=sample))


@dataclass(frozen=True, slots=True)
class Bound:
    """What an acceptance is worth, in one sentence.

    :param text: the sentence, as it is printed; where there is no bound it says so and why.
    :param epsilon: the distance from the property that it speaks of; None where it speaks of none.
    :param probability: of a rejection (or of passing, as ``text`` says); None where there is no bound.
    """

    text: str
    epsilon: float | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A checker's decision.

    :param accepted: whether the oracle's answer is accepted. A rejected answer is not trusted; it is never turned
        into its opposite.
    :param outcome: the kind of decision in one or two words, from a list that the checker documents.
    :param why: one phrase for a person.
    :param evidence: a JSON object with the checker's own keys, for a person.
    :param bound: what the acceptance is worth; None where the decision has no bound to speak of.
    :param values: flat numbers from which every metric can be recomputed.
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
    def name(self) -> str: ...

    async def check(self, x: X, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Ask the oracle about ``x``, put further questions to it, and decide.

        :param rng: the only source of random choices, seeded by the item.
        :raises BackendError: a call could not be made; the case is an error, not a rejection.
        """
        ...


def fill(template: str, **fields: Any) -> str:
    """``template`` with each ``{name}`` of ``fields`` replaced, all at once.

    Other braces stay, and so do braces inside the values: sentences are not templates.
    """
    parts = template.split("{")
    done = [parts[0]]
    for part in parts[1:]:
        name, closed, rest = part.partition("}")
        key = name.replace("-", "_")
        done.append(f"{fields[key]}{rest}" if closed and key in fields else "{" + part)
    return "".join(done)
