"""One ERAS item measured on scripted models; for the tests of the benchmark."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pytest_llmprops.benchmarks.eras.benchmark import Eras
from pytest_llmprops.benchmarks.eras.implicit import MODEL_MASK
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request, Segment, Sentiment
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluator import Case, Outcome, evaluate

Answer = Callable[[Request], Reply]
BENCHMARK = Eras()


def first(part: Any, task: str, paradigm: str) -> Item:
    """The first item of a task and paradigm."""
    found: Item = next(i for i in part.items if i.id.startswith(f"eras/{task}/{paradigm}/"))
    return found


def measured(
    item: Item, context: Any, kind: Kind, answer: Answer, **settings: object
) -> tuple[Outcome, list[Request]]:
    """One item, asked of a model of one kind that answers by ``answer``; the requests in order."""
    asked: list[Request] = []

    async def ask(label: str, role: str, request: Request) -> Reply:
        asked.append(request)
        reply = answer(request)
        if isinstance(reply, BackendError):
            raise reply
        return reply

    overrides = {name: str(value) for name, value in settings.items()}
    protocol = resolve("eras", BENCHMARK.protocols, "quick", overrides, 0)
    case = Case(BENCHMARK, item, context, protocol, "m", kinds=frozenset({kind}))
    outcome = asyncio.run(evaluate(case, ask))
    if outcome.fault is not None:
        raise outcome.fault
    return outcome, asked


def verdict_of(item: Item, context: Any, kind: Kind, answer: Answer, **settings: object) -> Verdict:
    outcome, _ = measured(item, context, kind, answer, **settings)
    assert outcome.verdict is not None, outcome
    return outcome.verdict


def cut(text: str, *places: int) -> list[str]:
    """``text`` cut at these places."""
    edges = [0, *places, len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def cutter(item: Item, *test: int, control: Sequence[int] = ()) -> Answer:
    """A segmenter that cuts both sentences at places counted from their site's first character."""
    pair = item["pair"]

    def answer(request: Request) -> Reply:
        assert isinstance(request, Segment)
        places = test if request.text == pair.test else control
        return Reply(value=cut(request.text, *(pair.site_start + place for place in places)))

    return answer


def quick(**overrides: str) -> Any:
    return resolve("eras", BENCHMARK.protocols, "quick", overrides, 0)


#: what only the test sentence has, whichever of its characters is masked; set by the tests
TEST = [""]


def chat(text_of: Callable[[str], str], finish: str = "stop") -> Answer:
    """A chat model whose reply to a sentence is ``text_of`` it."""

    def answer(request: Request) -> Reply:
        assert isinstance(request, Chat)
        return Reply(text_of(request.prompt.splitlines()[-1]), finish_reason=finish)

    return answer


def scorer(**scores: float) -> Answer:
    """A classifier that gives log odds by the four sentences' names."""
    import math

    def answer(request: Request) -> Reply:
        assert isinstance(request, Sentiment)
        masked = "occluded_" if MODEL_MASK in request.text else ""
        name = masked + ("test" if TEST[0] in request.text.replace(MODEL_MASK, "") else "control")
        return Reply(value={"positive": 1 / (1 + math.exp(-scores[name])), "log_odds": scores[name]})

    return answer
