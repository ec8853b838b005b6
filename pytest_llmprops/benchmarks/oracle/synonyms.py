"""The synonym generator ``syn`` of the linearity test (section 3.1, appendix A.2), with guards (A.3, type 3).

Named entities of the pool's classes are replaced by a name of the pool, other named entities by prompt 3, all
others by prompt 4; prompts 3 and 4 are put several times, and the valid candidate that most replies offer is
taken. Whether an entity is named is decided by rules, and by a vote over prompt 2 where they do not decide.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.oracle.entities import Entity
from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.list_reply import LONGEST_READ, list_lines
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.benchmarks.oracle.synonym_rules import Pool, SynonymRules, form
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.seeds import generator

#: where a synonym comes from; ``none``: nothing that was offered passed the guards
How = Literal["pool", "replace", "synonyms", "none"]

_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]")
_LABEL = re.compile(r"(?:synonym|entity|replacement)\s*\d*\s*:\s*", re.I)
_REMARK = re.compile(r"\s*[(\[].*|\s+[-–—]+\s.*|:\s.*")
_MARKS = " \t*_`\"“”„'‘’"
_ARTICLE = re.compile(r"an?\s+(?=\S)", re.I)


@dataclass(frozen=True, slots=True)
class Synonym:
    """What is put in place of one entity.

    :param entity: with ``named`` decided. :param text: the replacement; "" where there is none.
    :param decided_by: the rule, or the vote, that called the entity named or not.
    :param votes: replies that offered it; 0 for the pool.
    :param rejected: candidates that the guards refused before it was found, with the reason.
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


@dataclass(frozen=True, slots=True)
class Generator:
    """The synonym generator of one sentence.

    :param seed: decides the pool's order for each entity, together with its name: an entity gets the same name
        whatever else was extracted, as far as the guards allow.
    :param votes: askings of prompts 3 and 4. :param named_votes: askings of prompt 2.
    """

    sentence: str
    oracle: Oracle
    rules: SynonymRules
    pool: Pool
    seed: int = 0
    votes: int = 7
    named_votes: int = 11

    async def synonyms(self, entities: Sequence[Entity]) -> tuple[Synonym, ...]:
        """One for each entity that has mentions of its own, in order; all questions are put at once.

        :raises BackendError: a call could not be made.
        """
        own = [entity for entity in entities if entity.spans]
        offers = await asyncio.gather(*(self._offer(entity) for entity in own))
        chosen: list[Synonym] = []
        for offer in offers:
            taken = [synonym.key for synonym in chosen if synonym.text]
            found = self._chosen(offer, entities, taken)
            if not found.text and offer.how != "replace":
                # Nothing of the pool fits, or no synonym exists: another entity of the same type (prompt 3).
                more = await self._asked(found.entity, "replace", found.decided_by)
                second = self._chosen(more, entities, taken)
                found = replace(second, rejected=found.rejected + second.rejected)
            chosen.append(found)
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
        return await self._asked(entity, "replace" if named else "synonyms", decided_by)

    async def _vote(self, entity: Entity) -> tuple[bool, str]:
        """Prompt 2; named where more than half of the readable replies say so."""
        prompt = fill(self.rules.prompts["named"], entity=entity.name, text=self.sentence)
        replies = await asyncio.gather(*(self.oracle(prompt, sample=k) for k in range(self.named_votes)))
        said = [answer for answer in map(read_named, replies) if answer is not None]
        return 2 * sum(said) > len(said), f"vote: {sum(said)} of {len(said)} say named"

    async def _asked(self, entity: Entity, how: Literal["replace", "synonyms"], decided_by: str) -> _Offer:
        prompt = fill(
            self.rules.prompts[how],
            entity=entity.name,
            text=self.sentence,
            entity_type=entity.kind or "entity",
        )
        replies = await asyncio.gather(*(self.oracle(prompt, sample=k) for k in range(self.votes)))
        return _Offer(entity, how, decided_by, tuple(counted(replies, entity, self._starts(entity))))

    def _from_pool(self, entity: Entity, cls: str) -> list[str]:
        """The class's names in an order of chance, those with as many words first: "Bella" is no full name."""
        names = list(self.pool.names.get(cls, ()))
        if cls in self.rules.same_form:
            names = [name for name in names if form(name) == form(entity.name)]
        generator(self.seed, entity.key).shuffle(names)
        words = len(entity.name.split())
        return sorted(names, key=lambda name: len(name.split()) != words)

    def _chosen(self, offer: _Offer, entities: Sequence[Entity], taken: Sequence[str]) -> Synonym:
        rejected: list[tuple[str, str]] = []
        for text, votes in offer.candidates:
            why = objection(text, offer.entity, self.sentence, entities, taken, self.rules)
            if not why:
                return Synonym(offer.entity, text, offer.how, offer.decided_by, votes, tuple(rejected))
            rejected.append((text, why))
        return Synonym(offer.entity, "", "none", offer.decided_by, 0, tuple(rejected))

    def _starts(self, entity: Entity) -> bool:
        """Whether all its mentions are the sentence's beginning, so that its capital says nothing."""
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
    """A reply to prompt 2: what stands in its last double brackets, else the one of the two that it names."""
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
    """The candidates of several replies to prompt 3 or 4 with the number of replies that offer each, most first.

    Among equals the one that stands higher in its lists, then the one that came first.
    """
    votes: Counter[str] = Counter()
    written: dict[str, str] = {}
    place: Counter[str] = Counter()
    for reply in replies:
        offered: dict[str, int] = {}
        for position, text in enumerate(_candidates(reply.text)):
            clean = cleaned(text, entity, at_start)
            key = normalised(clean)
            written.setdefault(key, clean)
            offered.setdefault(key, position)
        votes.update(offered.keys())
        place.update(offered)
    order = sorted(written, key=lambda key: (-votes[key], place[key] / votes[key]))
    return [(written[key], votes[key]) for key in order]


def _candidates(text: str) -> list[str]:
    text = text[:LONGEST_READ]
    lines = list_lines(text, unmarked=False)
    # One line of words between commas is a list, too.
    if not lines and "\n" not in text.strip() and text.count(",") >= 2:
        lines = text.partition(":")[2].split(",") if ":" in text else text.split(",")
    return lines


def cleaned(candidate: str, entity: Entity, at_start: bool = False) -> str:
    """A candidate as it can stand in the sentence: without label, remark, quotes and indefinite article.

    The capital that lists begin their lines with goes where the entity itself has none.
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
    """Why a candidate cannot stand in the entity's place, in one phrase; "" when it can (appendix A.3, type 3).

    :param entities: all of the answer, those not in the vectors included.
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
    where = normalised(sentence)
    if contains_words(where, key):
        return "already in the sentence"
    if len(words) > max(rules.longest_words, len(entity.key.split()) + 2):
        return "too long"
    around = re.sub(rf"(?<!\w){re.escape(entity.key)}(?!\w)", "\0", where)
    size = rules.longest_repeat
    if any(contains_words(around, " ".join(words[i : i + size])) for i in range(len(words) - size + 1)):
        return "repeats the sentence"
    number = rules.class_of(entity.kind) in rules.number_classes or not entity.named
    if number and rules.is_number(key) != rules.is_number(entity.key):
        return "a number for a word, or a word for a number"
    if not entity.named and rules.is_plural(key) != rules.is_plural(entity.key):
        return "changes the grammatical number"
    return ""
