"""The synonym generator ``syn`` of the linearity test (section 3.1, appendix A.2), with guards (A.3, type 3).

Named entities of the pool's classes get a name from the pool, other named entities get one by prompt 3, and all other
entities by prompt 4. Prompts 3 and 4 are sent several times; the valid candidate in most replies is used. Rules decide
whether an entity is named. If no rule fits, a vote over replies to prompt 2 decides.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import LONGEST_READ, contains_words, normalised
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.benchmarks.oracle.settings import PAPER, OracleSettings
from pytest_llmprops.benchmarks.oracle.synonym_rules import Pool, SynonymRules, form
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.reading import listed
from pytest_llmprops.core.requests import Reply

#: where a synonym comes from; ``none``: no candidate passed the guards
How = Literal["pool", "replace", "synonyms", "none"]

_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]")
_LABEL = re.compile(r"(?:synonym|entity|replacement)\s*\d*\s*:\s*", re.I)
_REMARK = re.compile(r"\s*[(\[].*|\s+[-–—]+\s.*|:\s.*")
_MARKS = " \t*_`\"“”„'‘’"
_ARTICLE = re.compile(r"an?\s+(?=\S)", re.I)
#: how ``Synonym.decided_by`` begins if the oracle voted
_VOTE = "vote: "


@dataclass(frozen=True, slots=True)
class Synonym:
    """The replacement of one entity.

    :param entity: with ``named`` decided.
    :param text: the replacement; "" if there is none.
    :param decided_by: the rule or the vote that decided whether the entity is named.
    :param votes: number of replies with this candidate; 0 for the pool.
    :param rejected: candidates that the guards rejected before this one, with the reason.
    """

    entity: Entity
    text: str
    how: How
    decided_by: str
    votes: int = 0
    rejected: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The normalised replacement."""
        return normalised(self.text)

    @property
    def is_voted(self) -> bool:
        """True if no rule decided whether the entity is named, so that the oracle voted."""
        return self.decided_by.startswith(_VOTE)


@dataclass(frozen=True, slots=True)
class Generator:
    """The synonym generator of one sentence.

    :param seed: decides the order of the pool, together with the entity's name. An entity therefore gets the same
        name whatever else was extracted, unless the guards reject it.
    :param settings: ``samples`` of prompt 2, and ``synonym_votes`` of prompts 3 and 4.
    """

    sentence: str
    oracle: Oracle
    rules: SynonymRules
    pool: Pool
    seed: int = 0
    settings: OracleSettings = PAPER

    async def synonyms(self, entities: Sequence[Entity]) -> tuple[Synonym, ...]:
        """Return one synonym for each entity with its own mentions, in order. All questions are asked at once.

        :raises BackendError: if a call could not be made.
        """
        own = [entity for entity in entities if entity.spans]
        offers = await asyncio.gather(*(self._offer(entity) for entity in own))
        chosen: list[Synonym] = []
        for offer in offers:
            taken = [synonym.key for synonym in chosen if synonym.text]
            synonym = self._choose(offer, entities, taken)
            if not synonym.text and offer.how != "replace":
                # No name of the pool fits, or no synonym exists: ask for another entity of the same type (prompt 3).
                second_offer = await self._ask(synonym.entity, "replace", synonym.decided_by)
                second = self._choose(second_offer, entities, taken)
                synonym = replace(second, rejected=synonym.rejected + second.rejected)
            chosen.append(synonym)
        return tuple(chosen)

    async def _offer(self, entity: Entity) -> _Offer:
        named, rule = self.rules.named(entity.name, entity.kind, at_start=self._starts(entity))
        decided_by = f"rule: {rule}"
        if named is None:
            named, decided_by = await self._vote(entity)
        entity = replace(entity, named=named)
        cls = self.rules.class_of(entity.kind)
        if named and cls in self.rules.pool_classes:
            names = self._from_pool(entity, cls)
            if names:
                return _Offer(entity, "pool", decided_by, tuple((name, 0) for name in names))
        return await self._ask(entity, "replace" if named else "synonyms", decided_by)

    async def _vote(self, entity: Entity) -> tuple[bool, str]:
        """Ask prompt 2. The entity is named if more than half of the readable replies say so."""
        prompt = fill(self.rules.prompts["named"], entity=entity.name, text=self.sentence)
        replies = await self.oracle.samples(prompt, range(self.settings.samples))
        said = [answer for answer in map(read_named, replies) if answer is not None]
        return 2 * sum(said) > len(said), f"{_VOTE}{sum(said)} of {len(said)} say named"

    async def _ask(self, entity: Entity, how: Literal["replace", "synonyms"], decided_by: str) -> _Offer:
        prompt = fill(
            self.rules.prompts[how],
            entity=entity.name,
            text=self.sentence,
            entity_type=entity.kind or "entity",
        )
        replies = await self.oracle.samples(prompt, range(self.settings.synonym_votes))
        return _Offer(entity, how, decided_by, tuple(counted(replies, entity, self._starts(entity))))

    def _from_pool(self, entity: Entity, cls: str) -> list[str]:
        """Return the names of the class in random order, those with as many words first: "Bella" is not a full name."""
        names = list(self.pool.names.get(cls, ()))
        if cls in self.rules.same_form:
            names = [name for name in names if form(name) == form(entity.name)]
        generator(self.seed, entity.key).shuffle(names)
        words = len(entity.name.split())
        return sorted(names, key=lambda name: len(name.split()) != words)

    def _choose(self, offer: _Offer, entities: Sequence[Entity], taken: Sequence[str]) -> Synonym:
        rejected: list[tuple[str, str]] = []
        for text, votes in offer.candidates:
            why = objection(text, offer.entity, self.sentence, entities, taken, self.rules)
            if not why:
                return Synonym(offer.entity, text, offer.how, offer.decided_by, votes, tuple(rejected))
            rejected.append((text, why))
        return Synonym(offer.entity, "", "none", offer.decided_by, 0, tuple(rejected))

    def _starts(self, entity: Entity) -> bool:
        """Return True if its only mention is the start of the sentence, so that a capital means nothing."""
        first = next((place for place, letter in enumerate(self.sentence) if letter.isalnum()), 0)
        return all(start == first for start, _ in entity.spans)


@dataclass(frozen=True, slots=True)
class _Offer:
    """Candidates for one entity with their votes, best first."""

    entity: Entity
    how: How
    decided_by: str
    candidates: tuple[tuple[str, int], ...]


def read_named(reply: Reply) -> bool | None:
    """Read a reply to prompt 2: its last double brackets, or the one of the two answers that it contains."""
    text = reply.text[:LONGEST_READ].casefold()
    bracketed = _BRACKETED.findall(text)
    if bracketed:
        text = bracketed[-1]
        named, normal = "named" in text, "normal" in text
        # "[[non-named entity]]"
        if re.search(r"\b(?:not|non|un)[\s-]?(?:a )?named", text):
            named, normal = False, True
    else:
        named, normal = "named entity" in text, "normal entity" in text
    return named if named != normal else None


def counted(replies: Sequence[Reply], entity: Entity, at_start: bool) -> list[tuple[str, int]]:
    """Return the candidates of several replies to prompt 3 or 4 with their number of replies, most first.

    Ties go to the candidate that is higher in the lists on average, then to the first one.
    """
    votes: Counter[str] = Counter()
    texts: dict[str, str] = {}
    position_sums: Counter[str] = Counter()
    for reply in replies:
        positions: dict[str, int] = {}
        for position, candidate in enumerate(_candidates(reply.text)):
            text = cleaned(candidate, entity, at_start)
            key = normalised(text)
            texts.setdefault(key, text)
            positions.setdefault(key, position)
        votes.update(positions.keys())
        position_sums.update(positions)
    order = sorted(texts, key=lambda key: (-votes[key], position_sums[key] / votes[key]))
    return [(texts[key], votes[key]) for key in order]


def _candidates(text: str) -> list[str]:
    text = text[:LONGEST_READ]
    lines = listed(text) or []
    # A single line with commas is a list too.
    if not lines and "\n" not in text.strip() and text.count(",") >= 2:
        lines = text.partition(":")[2].split(",") if ":" in text else text.split(",")
    return lines


def cleaned(candidate: str, entity: Entity, at_start: bool = False) -> str:
    """Return a candidate as it fits into the sentence: without label, remark, quotes and indefinite article.

    If the entity begins in lower case, so does the candidate, because lists begin their lines with a capital.
    """
    text = _LABEL.sub("", " ".join(candidate.split()), count=1)
    text = _REMARK.sub("", text, count=1).strip(_MARKS).rstrip(",;:!?").strip(_MARKS)
    text = text[:-1] if text.endswith(".") and text.count(".") == 1 else text
    text = " ".join(_ARTICLE.sub("", text, count=1).split() if _ARTICLE.match(text) else text.split())
    own = entity.name[1:] if at_start and not entity.named else entity.name
    if own == own.lower() and text[1:] == text[1:].lower():
        text = text[:1].lower() + text[1:]
    return text


def objection(
    candidate: str,
    entity: Entity,
    sentence: str,
    entities: Sequence[Entity],
    taken: Sequence[str],
    rules: SynonymRules,
) -> str:
    """Return why a candidate cannot replace the entity, in one phrase; "" if it can (appendix A.3, type 3).

    :param entities: all entities of the answer, including those not in the vectors.
    :param taken: normalised synonyms of other entities of the sentence.
    """
    key = normalised(candidate)
    words = key.split()
    if not any(letter.isalnum() for letter in key):
        return "empty"
    if key == entity.key:
        return "the entity itself"
    for other in (e.key for e in entities):
        if contains_words(key, other) or contains_words(other, key):
            return f"contains or is contained in the entity {other!r}"
    if any(contains_words(key, other) or contains_words(other, key) for other in taken):
        return "clashes with another entity's synonym"
    whole = normalised(sentence)
    if contains_words(whole, key):
        return "already in the sentence"
    if len(words) > max(rules.longest_words, len(entity.key.split()) + 2):
        return "too long"
    rest = re.sub(rf"(?<!\w){re.escape(entity.key)}(?!\w)", "\0", whole)
    size = rules.longest_repeat
    if any(contains_words(rest, " ".join(words[i : i + size])) for i in range(len(words) - size + 1)):
        return "repeats the sentence"
    number = rules.class_of(entity.kind) in rules.number_classes or not entity.named
    if number and rules.is_number(key) != rules.is_number(entity.key):
        return "a number for a word, or a word for a number"
    if not entity.named and rules.is_plural(key) != rules.is_plural(entity.key):
        return "changes the grammatical number"
    return ""
