"""The synonym generator ``syn`` of the linearity test (section 3.1, appendix A.2), its rules and its pool of names.

Named entities of the pool's classes get a name from the pool, other named entities get one by prompt 3, and all other
entities by prompt 4. Prompts 3 and 4 are sent several times; the valid candidate in most replies is used. Rules decide
whether an entity is named. If no rule fits, a vote over replies to prompt 2 decides. Guards refuse replacements that
would change more than the entity (appendix A.3, type 3).

The pool of a class has the labelled entities of the run, as in the paper. A class with fewer than three gets the names
of ``oracle/pool.json``, which a user's file of this name replaces. The rules are data, too
(``oracle/synonym_rules.json``).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pytest_llmprops.benchmarks.oracle.extraction import (
    LONGEST_READ,
    Entity,
    beginning,
    contains_words,
    normalised,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.benchmarks.oracle.settings import PAPER, OracleSettings
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.reading import listed
from pytest_llmprops.core.requests import Reply

RULES_FILE = "oracle/synonym_rules.json"
POOL_FILE = "oracle/pool.json"
#: canonical class -> replacement names
Pool = Mapping[str, tuple[str, ...]]
#: fewest entities of a class in a run that are its pool
FEWEST = 3
_HEAD_ENDS = re.compile(r"\s(?:of|in|for|with|from|to|on|at|by|between|that|which)\s", re.I)


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule that decides whether an entity is named.

    :param classes: canonical classes that it applies to; empty: all.
    :param pattern: must match the whole shape of the name; see :func:`shape`.
    :param text: must match the whole name; None: any name.
    """

    name: str
    classes: frozenset[str]
    pattern: re.Pattern[str]
    text: re.Pattern[str] | None
    named: bool


@dataclass(frozen=True, slots=True)
class SynonymRules:
    """The rules of appendix A.2.

    :param prompts: prompts 2 (``named``), 3 (``replace``) and 4 (``synonyms``).
    :param aliases: a model's word for a class -> the canonical class.
    :param pool_classes: classes whose named entities are replaced from the pool.
    :param same_form: classes where only a name of the same form fits ("in 1872" needs a year, not a day).
    :param number_classes: classes where either both the name and its replacement have a number, or neither has.
    :param number_words: words that are numbers, in addition to words with a digit.
    :param longest_words: maximum length of a replacement, in words, or two more than the entity if that is longer.
    :param longest_repeat: a candidate with this many consecutive words of the sentence repeats the sentence.
    """

    prompts: Mapping[str, str]
    aliases: Mapping[str, str]
    rules: tuple[NamedRule, ...]
    pool_classes: frozenset[str]
    same_form: frozenset[str]
    number_classes: frozenset[str]
    longest_words: int
    longest_repeat: int
    irregular_plurals: frozenset[str]
    not_plurals: frozenset[str]
    number_words: frozenset[str]

    def class_of(self, kind: str) -> str:
        """Return the canonical class of a model's word, from the word, its last word, or a singular of either."""
        kind = " ".join(kind.lower().replace("_", " ").split())
        for text in (kind, kind.rpartition(" ")[2]):
            for form in (text, text.removesuffix("s"), text.removesuffix("ies") + "y"):
                if form in self.aliases:
                    return self.aliases[form]
        return kind

    def named(self, name: str, kind: str, *, at_start: bool) -> tuple[bool | None, str]:
        """Return whether the entity is named, and the name of the rule; (None, "") if no rule fits.

        :param at_start: whether the name is the start of the sentence, so that its first capital means nothing.
        """
        cls, looks = self.class_of(kind), shape(name, at_start=at_start)
        for rule in self.rules:
            if rule.classes and cls not in rule.classes:
                continue
            if rule.pattern.fullmatch(looks) and (rule.text is None or rule.text.fullmatch(name)):
                return rule.named, rule.name
        return None, ""

    def is_number(self, phrase: str) -> bool:
        """Return True if a normalised phrase contains a number, in digits or in words."""
        words = re.split(r"[\s-]+", phrase)
        return any(letter.isdigit() for letter in phrase) or not self.number_words.isdisjoint(words)

    def is_plural(self, phrase: str) -> bool:
        """Return True if an English noun phrase is plural, by the ending of its head. A heuristic without a parser."""
        words = _HEAD_ENDS.split(normalised(phrase))[0].split()
        head = words[-1].rpartition("-")[2] if words else ""
        if head in self.irregular_plurals:
            return True
        return head.endswith("s") and not head.endswith(("ss", "'s")) and head not in self.not_plurals


def shape(name: str, *, at_start: bool = False) -> str:
    """Return the shape of a name, one character per letter.

    ``X`` is an upper-case letter, ``x`` a lower-case one, ``c`` a letter without case, ``9`` a digit; other characters
    stay. An upper-case first letter at the start of the sentence is ``^``, because any word has a capital there.
    """
    letters = "".join(map(_letter_shape, name))
    return "^" + letters[1:] if at_start and letters.startswith("X") else letters


def _letter_shape(letter: str) -> str:
    if letter.isdigit():
        return "9"
    if not letter.isalpha():
        return letter
    return "X" if letter.isupper() else "x" if letter.islower() else "c"


def form(name: str) -> str:
    """Return the form of a date or number. ``March 14, 1931`` is ``X 9, 9999``: 9999 is three or more digits."""
    letters = re.sub(r"9{3,}", "#", re.sub("[‐‑‒–—]", "-", shape(name)))
    letters = re.sub(r"9+", "9", re.sub(r"X[Xx]*", "X", re.sub(r"(?<!X)x+", "x", letters)))
    return letters.replace("#", "9999")


@dataclass(frozen=True, slots=True)
class Context:
    """The rules of the synonym generator, and its pool: canonical class -> names."""

    rules: SynonymRules
    pool: Pool


def read_rules(document: Mapping[str, Any]) -> SynonymRules:
    """Return the rules of the built-in file."""
    rules = [
        NamedRule(
            rule["name"],
            frozenset(rule["class"]),
            re.compile(rule["pattern"]),
            re.compile(rule["text"]) if "text" in rule else None,
            rule["named"],
        )
        for rule in document["rules"]
    ]
    aliases = {alias: cls for cls, others in document["classes"].items() for alias in (cls, *others)}
    counts = {name: document[name] for name in ("longest_words", "longest_repeat")}
    names = (
        "pool_classes", "same_form", "number_classes", "irregular_plurals", "not_plurals", "number_words",
    )  # fmt: skip
    lists: Any = {name: frozenset(document[name]) for name in names}
    return SynonymRules(document["prompts"], aliases, tuple(rules), **lists, **counts)


def read_pool(document: object) -> Pool:
    """Return the names of a pool file.

    :raises DataError: if it does not have a list of names for each class.
    """
    classes = document.get("classes") if isinstance(document, dict) else None
    lists = classes.values() if isinstance(classes, dict) else [None]
    if not all(isinstance(names, list) and all(type(name) is str for name in names) for names in lists):
        raise DataError(
            f'{POOL_FILE}: not lists of names by class; write {{"classes": {{"city": ["Oslo"]}}}}'
        )
    return {cls: tuple(names) for cls, names in classes.items()}  # type: ignore[union-attr]


def pool_of(entities: Iterable[tuple[str, str]], written: Pool, rules: SynonymRules) -> Pool:
    """Return the names of each class: those among ``entities`` (name, kind), or the written ones if they are few."""
    names: dict[str, dict[str, str]] = {}
    for name, kind in entities:
        if rules.named(name, kind, at_start=False)[0]:
            names.setdefault(rules.class_of(kind), {}).setdefault(normalised(name), name)
    pool = dict(written)
    for cls, own in names.items():
        if len(own) >= FEWEST:
            # Few of these classes have the form of another name.
            pool[cls] = (*own.values(), *(written.get(cls, ()) if cls in rules.same_form else ()))
    return pool


#: where a synonym comes from; ``none``: no candidate passed the guards
How = Literal["pool", "replace", "synonyms", "none"]

_BRACKETED = re.compile(r"\[\[([^\[\]]*)\]\]")
_LABEL = re.compile(r"(?:synonym|entity|replacement)\s*\d*\s*:\s*", re.I)
_REMARK = re.compile(r"\s*[(\[].*|\s+[-–—]+\s.*|:\s.*")
_MARKS = " \t*_`\"“”„'‘’"
_ARTICLE = re.compile(r"\Aan?\s+(?=\S)", re.I)
#: how ``Synonym.decided_by`` begins if the oracle voted
_VOTE = "vote: "


@dataclass(frozen=True, slots=True)
class Synonym:
    """The replacement of one entity.

    :param entity: with ``named`` decided.
    :param text: the replacement; "" if there is none.
    :param decided_by: the rule or the vote that decided whether the entity is named.
    :param votes: number of replies with this candidate; 0 for the pool.
    """

    entity: Entity
    text: str
    how: How
    decided_by: str
    votes: int = 0

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
                synonym = self._choose(second_offer, entities, taken)
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
        names = list(self.pool.get(cls, ()))
        if cls in self.rules.same_form:
            names = [name for name in names if form(name) == form(entity.name)]
        generator(self.seed, entity.key).shuffle(names)
        words = len(entity.name.split())
        return sorted(names, key=lambda name: len(name.split()) != words)

    def _choose(self, offer: _Offer, entities: Sequence[Entity], taken: Sequence[str]) -> Synonym:
        for text, votes in offer.candidates:
            if fits(text, offer.entity, self.sentence, entities, taken, self.rules):
                return Synonym(offer.entity, text, offer.how, offer.decided_by, votes)
        return Synonym(offer.entity, "", "none", offer.decided_by)

    def _starts(self, entity: Entity) -> bool:
        """Return True if its only mention is the start of the sentence, so that a capital means nothing."""
        return all(start == beginning(self.sentence) for start, _ in entity.spans)


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
        lines = (text.partition(":")[2] or text).split(",")
    return lines


def cleaned(candidate: str, entity: Entity, at_start: bool = False) -> str:
    """Return a candidate as it fits into the sentence: without label, remark, quotes and indefinite article.

    If the entity begins in lower case, so does the candidate, because lists begin their lines with a capital.
    """
    text = _LABEL.sub("", " ".join(candidate.split()), count=1)
    text = _REMARK.sub("", text, count=1).strip(_MARKS).rstrip(",;:!?").strip(_MARKS)
    text = text[:-1] if text.endswith(".") and text.count(".") == 1 else text
    text = " ".join(_ARTICLE.sub("", text).split())
    own = entity.name[1:] if at_start and not entity.named else entity.name
    if own == own.lower() and text[1:] == text[1:].lower():
        text = text[:1].lower() + text[1:]
    return text


def fits(
    candidate: str,
    entity: Entity,
    sentence: str,
    entities: Sequence[Entity],
    taken: Sequence[str],
    rules: SynonymRules,
) -> bool:
    """Return True if a candidate can replace the entity without changing more than it (appendix A.3, type 3).

    It shares no words with an entity or another synonym, and repeats no part of the sentence. It has a fitting length,
    a number only in place of a number, and an entity's grammatical number.

    :param entities: all entities of the answer, including those not in the vectors.
    :param taken: normalised synonyms of other entities of the sentence.
    """
    key = normalised(candidate)
    words = key.split()
    others = [*(e.key for e in entities), *taken]
    if not any(map(str.isalnum, key)) or len(words) > max(rules.longest_words, len(entity.key.split()) + 2):
        return False
    if any(contains_words(key, other) or contains_words(other, key) for other in others):
        return False
    whole = normalised(sentence)
    rest = re.sub(rf"(?<!\w){re.escape(entity.key)}(?!\w)", "\0", whole)
    runs = (words[i : i + rules.longest_repeat] for i in range(len(words) - rules.longest_repeat + 1))
    if contains_words(whole, key) or any(contains_words(rest, " ".join(run)) for run in runs):
        return False
    number = rules.class_of(entity.kind) in rules.number_classes or not entity.named
    if number and rules.is_number(key) != rules.is_number(entity.key):
        return False
    return bool(entity.named) or rules.is_plural(key) == rules.is_plural(entity.key)
