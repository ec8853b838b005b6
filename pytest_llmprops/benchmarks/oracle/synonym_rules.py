"""What the synonym generator knows without asking (appendix A.2), from ``data/oracle/synonym_rules.json`` and the
pool of names ``data/oracle/pool.json``. Both are data: a user's own files may stand in for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.oracle.extraction import normalised
from pytest_llmprops.core.errors import DataError

RULES_FILE = "oracle/synonym_rules.json"
POOL_FILE = "oracle/pool.json"
RULES_FORMAT = "oracle-synonym-rules 1"
POOL_FORMAT = "oracle-pool 1"

#: prompt -> the fields that it must have
PROMPTS: Mapping[str, tuple[str, ...]] = {
    "named": ("{entity}", "{text}"),
    "replace": ("{entity}", "{entity-type}", "{text}"),
    "synonyms": ("{entity}", "{text}"),
    "paraphrase": ("{entities}", "{text}"),
}
_LISTS = ("pool_classes", "same_form", "number_classes", "irregular_plurals", "not_plurals", "number_words")
_COUNTS = ("longest_words", "longest_repeat")
_HEAD_ENDS = re.compile(r"\s(?:of|in|for|with|from|to|on|at|by|between|that|which)\s", re.I)


@dataclass(frozen=True, slots=True)
class NamedRule:
    """One rule on whether an entity is named.

    :param classes: canonical classes it is for; empty: any. :param pattern: fits the whole shape of the name.
    :param text: fits the name itself; None: any.
    """

    name: str
    classes: frozenset[str]
    pattern: re.Pattern[str]
    text: re.Pattern[str] | None
    named: bool


@dataclass(frozen=True, slots=True)
class SynonymRules:
    """The rules file.

    :param prompts: prompts 2 (``named``), 3 (``replace``) and 4 (``synonyms``), and ``paraphrase``.
    :param aliases: a model's word for a class -> the canonical class.
    :param pool_classes: classes whose named entities are replaced from the pool.
    :param same_form: classes where only a name of the same form fits ("in 1872" takes a year, not a day).
    :param number_classes: classes where a name with a number is replaced by one with a number, and one without by one
        without. :param number_words: words that are numbers, beside what has a digit.
    :param longest_words: longest replacement, in words (two more than the entity's own where that is longer).
    :param longest_repeat: so many words of the sentence in a row are a repetition of it.
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
        """The canonical class of a model's word: itself an alias, or its last word, or either without a plural s."""
        kind = " ".join(kind.lower().replace("_", " ").split())
        for text in (kind, kind.rpartition(" ")[2]):
            for form in (text, text.removesuffix("s"), text.removesuffix("ies") + "y"):
                if form in self.aliases:
                    return self.aliases[form]
        return kind

    def named(self, name: str, kind: str, *, at_start: bool) -> tuple[bool | None, str]:
        """Whether the rules call the entity named, and by which rule; (None, "") where none fits.

        :param at_start: the name is the sentence's beginning, so that its first capital says nothing.
        """
        cls, looks = self.class_of(kind), shape(name, at_start=at_start)
        for rule in self.rules:
            if rule.classes and cls not in rule.classes:
                continue
            if rule.pattern.fullmatch(looks) and (rule.text is None or rule.text.fullmatch(name)):
                return rule.named, rule.name
        return None, ""

    def is_number(self, phrase: str) -> bool:
        """Whether a normalised phrase has a number in it, in digits or in words."""
        words = re.split(r"[\s-]+", phrase)
        return any(letter.isdigit() for letter in phrase) or not self.number_words.isdisjoint(words)

    def is_plural(self, phrase: str) -> bool:
        """Whether an English noun phrase is plural, by the ending of its head: no parser, so a rule of thumb."""
        words = _HEAD_ENDS.split(normalised(phrase))[0].split()
        head = words[-1].rpartition("-")[2] if words else ""
        if head in self.irregular_plurals:
            return True
        return head.endswith("s") and not head.endswith(("ss", "'s")) and head not in self.not_plurals


@dataclass(frozen=True, slots=True)
class Pool:
    """Names to put in place of others: ``names`` of each canonical class, in file order."""

    names: Mapping[str, tuple[str, ...]]


def shape(name: str, *, at_start: bool = False) -> str:
    """``X`` for an upper-case letter, ``x`` for a lower-case one, ``c`` for one of a script without case, ``9`` for a
    digit; the rest as it is.

    An upper-case first letter at the start of the sentence is ``^``: it may be a capital for that reason alone.
    """
    looks = "".join(map(_sort, name))
    return "^" + looks[1:] if at_start and looks.startswith("X") else looks


def _sort(letter: str) -> str:
    if letter.isdigit():
        return "9"
    if not letter.isalpha():
        return letter
    return "X" if letter.isupper() else "x" if letter.islower() else "c"


def form(name: str) -> str:
    """How a date or number is written: ``March 14, 1931`` is ``X 9, 9999``. One or two digits are 9, more are 9999."""
    looks = re.sub(r"9{3,}", "#", re.sub("[‐‑‒–—]", "-", shape(name)))
    looks = re.sub(r"9+", "9", re.sub(r"X[Xx]*", "X", re.sub(r"(?<!X)x+", "x", looks)))
    return looks.replace("#", "9999")


def parse_rules(document: object, where: str = RULES_FILE) -> SynonymRules:
    """The rules of a parsed JSON document.

    :param where: the file's name, for messages.
    :raises DataError: naming what is missing or wrong, and where.
    """
    data = _object(document, where, f"an object with the format {RULES_FORMAT!r}")
    if data.get("format") != RULES_FORMAT:
        _fail(where, f"format is {data.get('format')!r}", f"this version reads {RULES_FORMAT!r}")
    prompts = _object(data.get("prompts"), f"{where}: prompts", "an object of texts")
    for name, wanted in PROMPTS.items():
        text = prompts.get(name)
        if not isinstance(text, str) or not all(part in text for part in wanted):
            _fail(
                f"{where}: prompt {name!r}",
                "it is missing or lacks a field",
                f"write {', '.join(wanted)} in it",
            )
    classes = _object(data.get("classes"), f"{where}: classes", "an object of lists")
    aliases: dict[str, str] = {}
    for name, others in classes.items():
        for alias in (name, *_texts(others, f"{where}: class {name!r}")):
            if aliases.setdefault(alias.lower(), name) != name:
                what = f"{alias!r} stands for {aliases[alias.lower()]!r} and for {name!r}"
                _fail(f"{where}: classes", what, "keep it in one")
    entries = data.get("rules")
    if not isinstance(entries, list):
        _fail(f"{where}: rules", "not a list", "write a list of rules")
    lists = {name: frozenset(_texts(data.get(name), f"{where}: {name}")) for name in _LISTS}
    for name in _LISTS[:3]:
        if unknown := sorted(lists[name] - set(classes)):
            _fail(f"{where}: {name}", f"{unknown[0]!r} is no class", "use those of 'classes'")
    counts = {name: data.get(name) for name in _COUNTS}
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            _fail(f"{where}: {name}", f"it is {count!r}", "write a whole number from 1")
    rules = tuple(_rule(entry, f"{where}: rule {n}", classes) for n, entry in enumerate(entries, 1))
    named: Any = {**lists, **counts}
    return SynonymRules({name: prompts[name] for name in PROMPTS}, aliases, rules, **named)


def parse_pool(document: object, rules: SynonymRules, where: str = POOL_FILE) -> Pool:
    """The pool of a parsed JSON document.

    :raises DataError: another format, a class that the rules do not know, one of theirs that is missing or empty, a
        name that stands twice or holds no letter and no digit.
    """
    data = _object(document, where, f"an object with the format {POOL_FORMAT!r}")
    if data.get("format") != POOL_FORMAT:
        _fail(where, f"format is {data.get('format')!r}", f"this version reads {POOL_FORMAT!r}")
    classes = _object(data.get("classes"), f"{where}: classes", "an object of lists of names")
    names: dict[str, tuple[str, ...]] = {}
    for cls, entries in classes.items():
        place = f"{where}: class {cls!r}"
        if rules.aliases.get(cls) != cls:
            _fail(place, "the rules have no such class", "add it to their 'classes'")
        names[cls] = tuple(_texts(entries, place))
        keys = [normalised(name) for name in names[cls]]
        if "" in keys:
            _fail(place, f"{names[cls][keys.index('')]!r} is no name", "drop it")
        if again := next((key for place_, key in enumerate(keys) if key in keys[:place_]), ""):
            _fail(place, f"{again!r} stands twice", "drop one")
    for cls in sorted(rules.pool_classes):
        if not names.get(cls):
            _fail(f"{where}: class {cls!r}", "no names, though the rules take names from it", "write some")
    return Pool(names)


def _rule(entry: object, where: str, classes: Mapping[str, Any]) -> NamedRule:
    data = _object(entry, where, "an object with name, class, pattern and named")
    name, named = data.get("name"), data.get("named")
    if not isinstance(name, str) or not name.strip() or not isinstance(named, bool):
        _fail(where, "no name, or 'named' is not true or false", "write both")
    where = f"{where} ({name})"
    wanted = _texts(data.get("class"), f"{where}: class")
    if unknown := [cls for cls in wanted if cls not in classes]:
        _fail(where, f"{unknown[0]!r} is no class", "use those of 'classes'")
    patterns = []
    for key in ("pattern", "text"):
        source = data.get(key, ".*" if key == "text" else None)
        if not isinstance(source, str):
            _fail(where, f"{key!r} is not a text", "write a regular expression")
        try:
            patterns.append(re.compile(source))
        except (re.error, OverflowError, RecursionError) as error:
            _fail(where, f"{key!r} is not a regular expression: {error}", "correct it")
    return NamedRule(name, frozenset(wanted), patterns[0], patterns[1] if "text" in data else None, named)


def _object(value: object, where: str, wanted: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _fail(where, "not a JSON object", f"write {wanted}")
    return value


def _texts(value: object, where: str) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        _fail(where, "not a list of texts", "write one")
    return value


def _fail(where: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{where}: {what}; {fix}")
