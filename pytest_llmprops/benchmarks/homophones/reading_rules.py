"""The rules for reading replies, parsed from JSON (``data/homophones/reading_rules.json``)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

SECTIONS = ("echo", "ignore", "refusal", "answer", "alternatives", "list", "kept", "denied", "final")
LANGUAGES = ("en", "zh", "es")
#: These sections search folded text, so patterns without capitals need not ignore case, which doubles their time.
_FOLDED = ("refusal", "kept", "denied", "final")
_NO_CAPITAL = re.compile(r"(?:\\.|\(\?P<\w+>|[^A-Z])*")
#: Abbreviations that a rule's pattern may use. Those without letters are faster if they do not ignore case.
SHORTHANDS = {
    "{term}": r"(?-i:⟦(?![^⟦⟧\n]*<[ws]>)[^⟦⟧\n]{1,80}⟧)",
    "{gap}": r"(?-i:[^⟦⟧.;!?。；！？\n])",
    "{word}": r"(?-i:[^\W\d_][\w'-]*)",
    "{han}": "(?-i:[一-鿿])",
    # The answer, marked, with its quotes and article.
    "{answer}": r"⟦?\s?(?:(?:an?|the|to|el|la|los|las|una?|lo|al|del|your|some) )?<a>\s?⟧?"
    r"(?:\s?[(（][^()（）\n]{0,60}[)）])?",
    # Words that may be between a negation and what it denies: "does [it really refer to a] driver".
    "{link}": r"(?: (?:it(?:'s)?|this|that(?:'s)?|he|she|<w>|the|word|is|was|are|were|does|did|means?|meant|"
    r"meaning|be|been|being|refers?|referring|to|stands?|standing|for|an?|as|like|of|in|any|sort|kind|actually|"
    r"really|necessarily|literally|simply|exactly|quite|at|all|used|intended|supposed|about|homophones?|sense|here|"
    r"seem|appear|your|say|saying|call|going|suggest|suggesting|think|believe|assume|ordinary|usual|describe|"
    r"describing|denote|indicate|represent|likely|probably|talking|related|do|so|en|el|la|los|las|una?|es|sea|era|"
    r"significa|significar|refiere|referirse|trata|tratarse|decir|quiere|de|del|ser|se|palabra|homofono|"
    r"exactamente|realmente|parece|que|al?|lo|puede|podria|debe|seria|sera|fue|hay|me|refiero|creo|pienso|diria|"
    r"author|writer|speaker|much|autor|read|reading|interpret|take|taken|treat|understand|understood|consider|"
    r"would|could|can|should|must|will|have|indicates|implies|points|"
    r"tiene|sentido|refiera|signifique|equate|associate|connect|identify|link|relate|with))",
    # Text of one sentence that does not turn to something else.
    "{span}": r"(?:(?!\b(?:but|however|though|yet|pero|sino|although)\b|但|不过|而是)[^.;!?。；！？\n])",
}


@dataclass(frozen=True)
class Rule:
    """One regular expression; ``name`` appears in the reason of a verdict.

    :param source: The regular expression, with all abbreviations replaced.
    :param is_folded: It searches folded text.
    :param is_weak: A refusal that a mention of the answer outweighs ("no such word").
    """

    name: str
    language: str
    source: str
    is_folded: bool
    is_weak: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression. To compile all rules takes longer than to read all items."""
        has_no_capital = self.is_folded and _NO_CAPITAL.fullmatch(self.source)
        return re.compile(self.source, re.MULTILINE if has_no_capital else re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rules:
    """The reading rules, by section.

    :param echo: The question's own wording, which names nothing.
    :param ignore: Text to remove first (definitions of "homophone", explanations of an answer).
    :param refusal: The reply says that it cannot know, asks for context, or does not know the word.
    :param answer: The reply gives an answer, in groups named ``answer…``. Groups named ``answer_as_is…`` hold
        whole definitions, to which ``not_answers`` does not apply.
    :param alternatives: The reply offers several answers, in groups named ``answer…``, or in a group ``items``
        that is split.
    :param list: One line of a list of candidates, in groups named ``answer…``; lines are counted per reply.
    :param kept: A mention of the answer that only seems to be denied ("not only X"), in a group ``kept``.
    :param denied: A mention that the reply denies, in a group ``denied``, or cannot decide on, in a group
        ``undecided``, which ``kept`` does not keep; in a group ``other``, the candidate that must be named instead.
    :param final: The candidate on which the reply settles, in a group ``answer``; the last one counts.
    :param not_answers: Words that are never candidates ("typo", "something").
    """

    echo: tuple[Rule, ...]
    ignore: tuple[Rule, ...]
    refusal: tuple[Rule, ...]
    answer: tuple[Rule, ...]
    alternatives: tuple[Rule, ...]
    list: tuple[Rule, ...]
    kept: tuple[Rule, ...]
    denied: tuple[Rule, ...]
    final: tuple[Rule, ...]
    not_answers: frozenset[str]


def parse_rules(document: object, *, compiles: bool = True) -> Rules:
    """Return the rules of a parsed JSON document.

    :param compiles: check that all regular expressions are valid; otherwise, each is compiled when it is first used.
    :raises ValueError: naming the section, the rule and the problem.
    """
    if not isinstance(document, Mapping):
        _fail(
            f"a JSON {type(document).__name__} instead of an object with the sections {', '.join(SECTIONS)}"
        )
    known = {*SECTIONS, "not_answers", "about"}
    if unknown := sorted(map(str, set(document) - known)):
        _fail(f"unknown section {unknown[0]!r}; the sections are {', '.join(sorted(known))}")
    sections = {
        name: tuple(_rule(name, i, r, compiles) for i, r in enumerate(_list(document, name), 1))
        for name in SECTIONS
    }
    if not sections["refusal"]:
        _fail("section 'refusal' has no rule")
    words = _list(document, "not_answers")
    if bad := [word for word in words if not isinstance(word, str)]:
        _fail(f"not_answers has {bad[0]!r}, which is not a string")
    return Rules(
        **sections, not_answers=frozenset(unicodedata.normalize("NFC", word.casefold()) for word in words)
    )


def _list(document: Mapping[str, Any], section: str) -> Sequence[Any]:
    value = document.get(section)
    if not isinstance(value, list):
        _fail(
            f"section {section!r} must be a list, not {'missing' if value is None else type(value).__name__}"
        )
    return value


def _rule(section: str, number: int, rule: object, compiles: bool) -> Rule:
    where = f"rule {number} of {section!r}"
    if not isinstance(rule, Mapping):
        _fail(f"{where} is not an object with name, language, pattern and note")
    for key in ("name", "language", "pattern", "note"):
        if not isinstance(rule.get(key), str) or not rule[key].strip():
            _fail(f"{where} has no {key!r}")
    if rule["language"] not in LANGUAGES:
        _fail(f"{where} ({rule['name']}) has the language {rule['language']!r}; use {', '.join(LANGUAGES)}")
    source = rule["pattern"]
    for short, full in SHORTHANDS.items():
        source = source.replace(short, full)
    made = Rule(rule["name"], rule["language"], source, section in _FOLDED, rule.get("weak") is True)
    if compiles:
        _check_pattern(section, made, where)
    return made


def _check_pattern(section: str, rule: Rule, where: str) -> None:
    try:
        groups = rule.pattern.groupindex
    except (re.error, OverflowError, RecursionError) as error:
        _fail(f"{where} ({rule.name}) is not a regular expression: {error}")
    wanted = {"kept": ("kept",), "denied": ("denied", "undecided"), "final": ("answer",)}.get(
        section, ("answer", "items")
    )
    is_grouped = any(group.startswith(wanted) for group in groups)
    if section in ("answer", "alternatives", "list", "kept", "denied", "final") and not is_grouped:
        _fail(f"{where} ({rule.name}) has no group (?P<{wanted[0]}>...)")


def _fail(what: str) -> NoReturn:
    raise ValueError(f"reading rules: {what}")


def without_group(match: re.Match[str], group: str) -> str:
    """Return the matched text without the named group; a space if the rule has no such group."""
    if group not in match.re.groupindex or match.group(group) is None:
        return " "
    start, end = match.span(group)
    return match.string[match.start() : start] + " " + match.string[end : match.end()]
