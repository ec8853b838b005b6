"""The rules of the synonym generator (``oracle/synonym_rules.json``) and its pool of names (``oracle/pool.json``).

See appendix A.2. Both files are data, so users can replace them with their own.
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

#: prompt -> required fields
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
    """The rules file.

    :param prompts: prompts 2 (``named``), 3 (``replace``) and 4 (``synonyms``), and ``paraphrase``.
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


@dataclass(frozen=True, slots=True)
class Pool:
    """Replacement names: canonical class -> names, in file order."""

    names: Mapping[str, tuple[str, ...]]


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
    """The rules and the pool of the synonym generator."""

    rules: SynonymRules
    pool: Pool


def parse_rules(document: object, where: str = RULES_FILE) -> SynonymRules:
    """Read the rules from a parsed JSON document.

    :param where: the name of the file, for messages.
    :raises DataError: if something is missing or wrong; the message says what and where.
    """
    data = _object(document, where, f"an object with the format {RULES_FORMAT!r}")
    if data.get("format") != RULES_FORMAT:
        _fail(where, f"format is {data.get('format')!r}", f"this version reads {RULES_FORMAT!r}")
    prompts = _object(data.get("prompts"), f"{where}: prompts", "an object of texts")
    for name, fields in PROMPTS.items():
        text = prompts.get(name)
        if not isinstance(text, str) or not all(part in text for part in fields):
            _fail(
                f"{where}: prompt {name!r}",
                "the prompt or one of its fields is missing",
                f"write a text with {', '.join(fields)}",
            )
    classes = _object(data.get("classes"), f"{where}: classes", "an object of lists")
    aliases: dict[str, str] = {}
    for name, others in classes.items():
        for alias in (name, *_texts(others, f"{where}: class {name!r}")):
            if aliases.setdefault(alias.lower(), name) != name:
                what = f"{alias!r} is an alias of {aliases[alias.lower()]!r} and of {name!r}"
                _fail(f"{where}: classes", what, "keep it in one of them")
    entries = data.get("rules")
    if not isinstance(entries, list):
        _fail(f"{where}: rules", "not a list", "write a list of rules")
    lists = {name: frozenset(_texts(data.get(name), f"{where}: {name}")) for name in _LISTS}
    for name in _LISTS[:3]:
        if unknown := sorted(lists[name] - set(classes)):
            _fail(f"{where}: {name}", f"unknown class {unknown[0]!r}", "use a class from 'classes'")
    counts = {name: data.get(name) for name in _COUNTS}
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            _fail(f"{where}: {name}", f"it is {count!r}", "write a whole number of at least 1")
    rules = tuple(_rule(entry, f"{where}: rule {n}", classes) for n, entry in enumerate(entries, 1))
    named: Any = {**lists, **counts}
    return SynonymRules({name: prompts[name] for name in PROMPTS}, aliases, rules, **named)


def parse_pool(document: object, rules: SynonymRules, where: str = POOL_FILE) -> Pool:
    """Read the pool from a parsed JSON document.

    :raises DataError: if the format is another one, a class is unknown to the rules, a class of the rules is missing
        or empty, or a name is listed twice or has neither letters nor digits.
    """
    data = _object(document, where, f"an object with the format {POOL_FORMAT!r}")
    if data.get("format") != POOL_FORMAT:
        _fail(where, f"format is {data.get('format')!r}", f"this version reads {POOL_FORMAT!r}")
    classes = _object(data.get("classes"), f"{where}: classes", "an object of lists of names")
    names: dict[str, tuple[str, ...]] = {}
    for cls, entries in classes.items():
        place = f"{where}: class {cls!r}"
        if rules.aliases.get(cls) != cls:
            _fail(place, "unknown class", f"add it to 'classes' in {RULES_FILE}")
        names[cls] = tuple(_texts(entries, place))
        keys = [normalised(name) for name in names[cls]]
        if "" in keys:
            _fail(place, f"{names[cls][keys.index('')]!r} is not a name", "remove it")
        if duplicate := next((key for index, key in enumerate(keys) if key in keys[:index]), ""):
            _fail(place, f"{duplicate!r} is listed twice", "remove one")
    for cls in sorted(rules.pool_classes):
        if not names.get(cls):
            _fail(f"{where}: class {cls!r}", "no names, but the rules list it in 'pool_classes'", "add names")
    return Pool(names)


def _rule(entry: object, where: str, classes: Mapping[str, Any]) -> NamedRule:
    data = _object(entry, where, "an object with name, class, pattern and named")
    name, named = data.get("name"), data.get("named")
    if not isinstance(name, str) or not name.strip() or not isinstance(named, bool):
        _fail(where, "'name' is missing, or 'named' is not true or false", "write both")
    where = f"{where} ({name})"
    rule_classes = _texts(data.get("class"), f"{where}: class")
    if unknown := [cls for cls in rule_classes if cls not in classes]:
        _fail(where, f"unknown class {unknown[0]!r}", "use a class from 'classes'")
    patterns = []
    for key in ("pattern", "text"):
        source = data.get(key, ".*" if key == "text" else None)
        if not isinstance(source, str):
            _fail(where, f"{key!r} is not a text", "write a regular expression")
        try:
            patterns.append(re.compile(source))
        except (re.error, OverflowError, RecursionError) as error:
            _fail(where, f"{key!r} is not a regular expression: {error}", "correct it")
    return NamedRule(
        name, frozenset(rule_classes), patterns[0], patterns[1] if "text" in data else None, named
    )


def _object(value: object, where: str, expected: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _fail(where, "not a JSON object", f"write {expected}")
    return value


def _texts(value: object, where: str) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        _fail(where, "not a list of texts", "write a list of texts")
    return value


def _fail(where: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{where}: {what}; {fix}")
