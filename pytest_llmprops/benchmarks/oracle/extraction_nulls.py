"""Null extractors: how often linearity is accepted of extractors that are not, or only partly, good.

They get the tests of the same sentence, with the entities and synonyms of the model's answer, in process and without a
call. Values of a verdict, 1 accepted and 0 not, and the same with ``_faithful`` if also faithful:

- ``null_empty``: extracts nothing
- ``null_list``: always returns the entities of the original sentence
- ``null_drop10``, ``null_drop30``, ``null_coin``: extracts each entity that is there with probability 90%, 70%, 50%,
  independently each time
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import compress

from pytest_llmprops.benchmarks.oracle.extraction import PROMPT
from pytest_llmprops.benchmarks.oracle.linear_runs import run_in_turn, run_tests
from pytest_llmprops.benchmarks.oracle.linear_tests import Replies, Subject
from pytest_llmprops.benchmarks.oracle.linearity_settings import LinearitySettings
from pytest_llmprops.benchmarks.oracle.linearity_values import measured_values
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, Prompt, fill
from pytest_llmprops.core.requests import Chat, Reply

#: value -> name in tables
NAMES = {
    "null_empty": "empty",
    "null_list": "constant list",
    "null_drop10": "drop 10%",
    "null_drop30": "drop 30%",
    "null_coin": "coin",
}
#: returns the bits of the entities that are extracted from R(x)
Kept = Callable[[], Sequence[bool]]


async def extraction_null_values(
    subject: Subject, settings: LinearitySettings, pairs: Sequence[tuple[int, int]], rng: random.Random
) -> dict[str, float]:
    """Return the values of the null extractors for the tests of a sentence.

    :param pairs: x and y of the tests, in the order in which they are run.
    """
    vectors = {z for x, y in pairs for z in (0, x, y, x ^ y)}
    prompts = {fill(PROMPT, text=subject.transformed(z).text): z for z in vectors}

    def dropping(share: float) -> Kept:
        return lambda: [rng.random() >= share for _ in range(subject.m)]

    kept: dict[str, Kept] = {
        "null_empty": lambda: [False] * subject.m,
        "null_list": lambda: [True] * subject.m,
        "null_drop10": dropping(0.1),
        "null_drop30": dropping(0.3),
        "null_coin": dropping(0.5),
    }
    run = run_tests if settings.target is None else run_in_turn
    values = {}
    for name, drawn in kept.items():
        oracle = _Extractor(subject, prompts, drawn, fixed=name == "null_list")
        by_rule, by_any = await run(pairs, Replies(subject, oracle, settings.samples), settings.rule)
        measured = measured_values(by_rule, by_any, subject, settings.rule)
        values[name] = float(measured["accepted"])
        values[f"{name}_faithful"] = float(measured["accepted"] and not measured["linear_not_faithful"])
    return values


class _Extractor(Oracle):
    """An oracle that lists the kept entities of R(x), or with ``fixed`` those of the original sentence.

    Samples take no task each: with the settings of the paper, a sentence has 825 of these replies.
    """

    __slots__ = ("_fixed", "_kept", "_prompts", "_subject")

    def __init__(self, subject: Subject, prompts: dict[str, int], kept: Kept, *, fixed: bool) -> None:
        super().__init__(self._reply)
        self._subject, self._prompts, self._kept, self._fixed = subject, prompts, kept, fixed

    async def samples(self, prompt: Prompt, numbers: Iterable[int]) -> list[Reply]:
        assert isinstance(prompt, str)
        x = 0 if self._fixed else self._prompts[prompt]
        names = [s.text if x >> i & 1 else s.entity.name for i, s in enumerate(self._subject.synonyms)]
        kept = [tuple(self._kept()) for _ in numbers]
        # Few lists differ, and making a reply takes longer than drawing its list.
        replies = {drawn: Reply(_list([*compress(names, drawn)])) for drawn in set(kept)}
        return [replies[drawn] for drawn in kept]

    async def _reply(self, chat: Chat) -> Reply:
        [reply] = await self.samples(chat.prompt, [chat.sample])
        return reply


def _list(names: Sequence[str]) -> str:
    lines = [f"{number}. entity: {name}" for number, name in enumerate(names, 1)]
    return "\n".join(lines) or "There are no entities."
