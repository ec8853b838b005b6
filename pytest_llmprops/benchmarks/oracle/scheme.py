"""The oracle-checker scheme in general (Zeng, Wang & Ibbetson, section 2), and a checker as a benchmark.

An *oracle* claims to compute a function. A *checker* asks it further questions and accepts or rejects its answer.

To write your own checker, define a class with a ``name`` and an ``async check(x, oracle, rng)``. It asks ``oracle``,
takes every random choice from ``rng``, and returns an :class:`Acceptance`. It does no I/O and reads no clock. As the
checker of a :class:`CheckerBenchmark` it has cases, records, gates and reports like any benchmark.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, TypeVar

from pytest_llmprops.core.benchmark import Ask, Benchmark
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import Protocol as MeasuredBy
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import Status, Verdict

#: a prompt that asks for JSON, without which OpenAI's API refuses to enforce it
_ASKS_JSON = re.compile(r"\boutput (?:one )?JSON\b", re.I)
X = TypeVar("X", contravariant=True)

#: sends a chat to a model: the ``ask`` of a benchmark, or any async function of a chat
AskChat = Callable[[Chat], Awaitable[Reply]]
#: one user turn, or all turns of a conversation
Prompt = str | Sequence[Message]


@dataclass(slots=True, eq=False)
class Oracle:
    """A model that answers prompts.

    :param ask: async function that sends a :class:`~pytest_llmprops.core.requests.Chat` to the model. A
        :class:`~pytest_llmprops.core.errors.BackendError` is not caught, because it is not an answer.
    :param temperature: temperature of every question; None: the server's default.
    :param max_tokens: maximum length of a reply; None: no limit.
    :param json: whether the server shall enforce JSON in replies to prompts that ask for it.
    """

    ask: AskChat
    _: KW_ONLY
    temperature: float | None = None
    max_tokens: int | None = None
    json: bool = False

    async def __call__(self, prompt: Prompt, *, sample: int = 0) -> Reply:
        """Ask one question and return the reply.

        The reply's ``text`` is untrusted. Its ``finish_reason`` is ``length`` if it was cut off, and
        ``content_filter`` if it was filtered.

        :param sample: distinguishes repeated questions with the same prompt.
        :raises BackendError: if the call could not be made.
        """
        messages = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        asks = any(_ASKS_JSON.search(message.content) for message in messages)
        form = "json_object" if self.json and asks else ""
        chat = Chat(
            messages,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            sample=sample,
            response_format=form,
        )
        return await self.ask(chat)

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

    def value(found: re.Match[str]) -> str:
        return str(fields.get(found[1].replace("-", "_"), found[0]))

    return re.sub(r"\{([^{}]*)\}", value, template)


#: the status of outcomes with nothing to accept or reject; any other outcome that is not accepted is ``wrong``
UNDECIDED: Mapping[str, Status] = {
    "refused": "refused",
    "unparsed": "unparsed",
    "unreadable": "unparsed",
    "unmeasurable": "untested",
    "untested": "untested",
}


class CheckerBenchmark(Benchmark):
    """Base class of benchmarks that are checkers. Subclasses set ``name`` and define ``load`` and ``checker``.

    If the protocol has settings named ``temperature`` and ``max_tokens``, they apply to every question.

    This checker knows no river's length, but the answers must form an order:

    ```python
    import asyncio

    import pytest

    from pytest_llmprops import Acceptance, Bound, CheckerBenchmark, Item


    class Order:
        name = "order"

        async def check(self, x, oracle, rng):
            names = rng.sample(x["names"], len(x["names"]))
            triples = list(zip(names[::3], names[1::3], names[2::3]))
            pairs = [pair for a, b, c in triples for pair in ((a, b), (b, c), (c, a))]
            replies = await asyncio.gather(*(oracle(f"Name the longer river: {a} or {b}?") for a, b in pairs))
            chosen = [[name for name in pair if name in r.text] for pair, r in zip(pairs, replies)]
            if any(len(found) != 1 for found in chosen):
                return Acceptance(False, "unreadable", "a reply names none of the two, or both")
            # a over b, b over c, c over a: three questions, three different answers
            cycles = [t for n, t in enumerate(triples) if len({f[0] for f in chosen[3 * n : 3 * n + 3]}) == 3]
            why = f"{len(cycles)} of {len(triples)} triples are cycles"
            bound = Bound("a fair coin has no cycle in a triple with probability 3/4", probability=0.75 ** len(triples))
            return Acceptance(not cycles, "rejected" if cycles else "accepted", why, {"cycles": f"{cycles}"}, bound)


    class Rivers(CheckerBenchmark):
        name = "rivers"

        def load(self, files):
            names = ("Nile", "Rhine", "Ebro", "Volga", "Indus", "Congo", "Thames", "Amur", "Tagus")
            return [Item("rivers/0001", "length", "en", fields={"names": names})]

        def checker(self, item, context, ask, settings):
            return Order()


    @pytest.mark.llmprops(benchmark=Rivers)
    def test_rivers(verdict):
        assert verdict
    ```
    """

    judges_filtered = True

    def checker(self, item: Item, context: Any, ask: Ask, settings: Any) -> Checker[Any]:
        """Return the checker of ``item``.

        :param ask: sends requests to helper models, by role.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define checker(item, context, ask, settings): what has a name and an"
            " async check(x, oracle, rng)"
        )

    def subject(self, item: Item) -> Any:
        """Return the argument ``x`` of the checker. Default: the item."""
        return item

    async def evaluate(self, item: Item, context: Any, ask: Ask, protocol: MeasuredBy[Any]) -> Verdict:
        """Run the checker on the item, with the random generator of the item."""
        settings = protocol.settings
        oracle = Oracle(
            ask,
            temperature=getattr(settings, "temperature", None),
            max_tokens=getattr(settings, "max_tokens", None),
        )
        checker = self.checker(item, context, ask, settings)
        acceptance = await checker.check(self.subject(item), oracle, protocol.rng(item.id))
        return verdict_of(acceptance)


def verdict_of(acceptance: Acceptance) -> Verdict:
    """Return a checker's decision as a verdict. A rejected answer is ``wrong``; its opposite is never accepted."""
    status: Status = "correct" if acceptance.accepted else UNDECIDED.get(acceptance.outcome, "wrong")
    evidence = dict(acceptance.evidence)
    if acceptance.bound is not None:
        evidence["bound"] = acceptance.bound.text
    return Verdict(
        status,
        "accepted",
        acceptance.outcome,
        acceptance.why,
        float(acceptance.accepted),
        dict(acceptance.values),
        evidence,
    )
