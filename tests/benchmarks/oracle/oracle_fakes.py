"""Oracles with known behaviour, as async functions of a chat; no network."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, LinearitySettings
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.synonym_rules import Pool, SynonymRules, parse_pool, parse_rules
from pytest_llmprops.core.requests import Chat, Reply

DATA = Path(__file__).parents[3] / "data" / "oracle"
RULES: SynonymRules = parse_rules(json.loads((DATA / "synonym_rules.json").read_text("utf-8")))
POOL: Pool = parse_pool(json.loads((DATA / "pool.json").read_text("utf-8")), RULES)

SENTENCE = "Last year Adriana left Lisbon for a small Kenya office of Globex and wrote Rain Season there."
#: entity, class, and the only name of that class's pool: so a fake knows what will be put in its place
ENTITIES = (
    ("Adriana", "person", "Tobias"),
    ("Lisbon", "city", "Nairobi"),
    ("Kenya", "country", "Norway"),
    ("Globex", "company", "Initech"),
    ("Rain Season", "film", "Salt Road"),
)
SMALL_POOL = Pool({kind: (synonym,) for _, kind, synonym in ENTITIES})

#: (x, sample) -> the names extracted from R(x), of a sentence with m entities
Behaviour = Callable[[int, int], Sequence[str]]


def sentence_in(chat: Chat) -> str:
    """The sentence that prompt 1 asks about."""
    text = chat.messages[-1].content
    return text[text.index('"') + 1 : text.index('"\n\nPresent')]


def listed(names: Sequence[str]) -> str:
    """A well-formed reply to prompt 1."""
    kinds = {name: kind for entity, kind, synonym in ENTITIES for name in (entity, synonym)}
    return "\n".join(f"{n}. {kinds.get(name, 'thing')}: {name}" for n, name in enumerate(names, 1)) or "None"


@dataclass
class Fake:
    """An extractor of the first ``m`` of ENTITIES that does as ``behave`` says.

    ``asked`` holds (sentence, sample) of every question in order.
    """

    behave: Behaviour
    m: int = 3
    asked: list[tuple[str, int]] = field(default_factory=list)

    def vector(self, text: str) -> int:
        """x of a transformed sentence."""
        return sum((synonym in text) << i for i, (_, _, synonym) in enumerate(ENTITIES[: self.m]))

    async def __call__(self, chat: Chat) -> Reply:
        text = sentence_in(chat)
        self.asked.append((text, chat.sample))
        await asyncio.sleep(0)
        return Reply(listed(self.behave(self.vector(text), chat.sample)))


def present(x: int, m: int = 3) -> list[str]:
    """What stands in R(x): for each entity itself or its synonym."""
    return [ENTITIES[i][2] if x >> i & 1 else ENTITIES[i][0] for i in range(m)]


def names_of(u: int, m: int) -> list[str]:
    """An answer whose vector is ``u``: the synonym where the bit is 0, else the entity."""
    return present(~u & (1 << m) - 1, m)


def check(
    ask: Any,
    seed: int = 0,
    *,
    sentence: Any = SENTENCE,
    rules: SynonymRules = RULES,
    pool: Pool = SMALL_POOL,
    **settings: Any,
) -> Acceptance:
    """One measurement, in the paper's protocol but for ``settings``."""
    checker = LinearityChecker(LinearitySettings(**settings), rules, pool)
    return asyncio.run(checker.check(sentence, Oracle(ask), random.Random(seed)))
