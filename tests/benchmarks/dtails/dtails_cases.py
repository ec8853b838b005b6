"""DTAiLS items of the tests' own, measured on scripted models; for the tests of the benchmark and its commands."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
from pytest_llmprops.benchmarks.dtails.context import Context
from pytest_llmprops.benchmarks.dtails.frequency import Baseline
from pytest_llmprops.core.benchmark import Loaded, loaded
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.engine.evaluator import Case, Outcome, evaluate

BENCHMARK = Dtails()
Answer = Callable[[Request], str | Reply | BackendError]
LIVE = (("leef", "lewe"), ("woon",))
CHAT: frozenset[Kind] = frozenset({"chat"})
TRANSLATOR: frozenset[Kind] = frozenset({"translate"})


def context(language: str = "af", **more: Any) -> Context:
    """A context with some baseline."""
    return Context({language: Baseline(3, 4, 1)}, **more)


def item(
    task: str = "select",
    variations: tuple[tuple[str, ...], ...] = LIVE,
    label: tuple[str, ...] | None = None,
    *,
    language: str = "af",
    number: int = 1,
    sentence: str = "They live here.",
    **more: Any,
) -> Item:
    """One item; by default the concept ``live`` whose second variation is right."""
    name = f"dtails/{language}/live/{number:02d}" + ("+translate" if task == "translate" else "")
    fields = {"concept": "live", "pos": "VERB", "sentence": sentence, "target": "Hulle woon hier.", "clue": (),
              "repeats": "", "variations": variations, "label": variations[1] if label is None else label}  # fmt: skip
    return Item(name, task, language, "builtin", f"dtails/{language}/live", fields | more)


def measured(
    subject: Item,
    answer: Answer,
    *,
    given: Context | None = None,
    kinds: frozenset[Kind] = CHAT,
    helpers: Mapping[str, Answer] | None = None,
    protocol: str = "quick",
    seed: int = 0,
    **settings: object,
) -> tuple[Outcome, list[Request]]:
    """One item, asked of a model that answers by ``answer``; the requests to it in order.

    A fault in the benchmark is raised.
    """
    asked: list[Request] = []
    answers = dict(helpers or {})

    async def ask(label: str, role: str, request: Request) -> Reply:
        if role == "subject":
            asked.append(request)
        reply = (answer if role == "subject" else answers[role])(request)
        if isinstance(reply, BackendError):
            raise reply
        return Reply(reply) if isinstance(reply, str) else reply

    overrides = {name: str(value) for name, value in settings.items()}
    rule = resolve("dtails", BENCHMARK.protocols, protocol, overrides, seed)
    case = Case(
        BENCHMARK,
        subject,
        context(subject.language) if given is None else given,
        rule,
        "m",
        helpers={role: f"helper:{role}" for role in answers},
        kinds=kinds,
    )
    outcome = asyncio.run(evaluate(case, ask))
    if outcome.fault is not None:
        raise outcome.fault
    return outcome, asked


def verdict_of(subject: Item, answer: Answer, **more: Any) -> Verdict:
    outcome, _ = measured(subject, answer, **more)
    assert outcome.verdict is not None, outcome
    return outcome.verdict


def fenced(word: str) -> str:
    """A reply that keeps to the template."""
    return f"It depends. So: ```{word}```."


def says(*replies: str | Reply) -> Answer:
    """A model that gives these replies in order, and then fails the test."""
    left = list(replies)

    def answer(request: Request) -> str | Reply:
        assert left, f"a request that the test did not expect: {request}"
        return left.pop(0)

    return answer


def prompt_of(request: Request) -> str:
    """The text of a request of one user turn."""
    assert isinstance(request, Chat)
    (message,) = request.messages
    assert message.role == "user"
    return message.content


def shown(prompt: str) -> list[str]:
    """The names of the list in a selection prompt, as they are shown."""
    found = re.findall(r"from the following list: \[(.*?)\]\. Carefully", prompt)
    assert len(found) == 1, prompt
    return [name.strip("'\"") for name in found[0].split(", ")]


def is_about_rules(request: Request) -> bool:
    """Whether rules are asked for."""
    return isinstance(request, Chat) and request.prompt.startswith("Please only return a json")


def keys_of(prompt: str) -> list[str]:
    """The keys that a prompt for rules asks for."""
    found = re.findall(r"with the following keys \[(.*?)\] and no other text", prompt)
    assert len(found) == 1, prompt
    return [name.strip("'\"") for name in found[0].split(", ")]


def rules_json(prompt: str, rule: Callable[[str], str] = "when it is {}".format) -> str:
    """The JSON that a prompt for rules asks for."""
    return json.dumps({key: rule(key) for key in keys_of(prompt)}, ensure_ascii=False)


def shown_sentences(prompt: str) -> dict[str, list[str]]:
    """The sentences in a prompt for rules, by variation; empty where there are none at all."""
    _, mark, rest = prompt.partition(" in-context to help you: ")
    found: dict[str, list[str]] = json.loads(rest) if mark else {}
    return found


def prepared(root: Path, rules: str = "none") -> Loaded:
    """The items of a folder, ready for the setting ``rules``."""
    files = DataFolder(root, "generated")
    settings = resolve("dtails", BENCHMARK.protocols, "quick", {"rules": rules}, 0).settings
    return BENCHMARK.prepared(loaded(BENCHMARK, files), files, settings)
