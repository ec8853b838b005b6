"""The rules and words for reading replies, parsed from JSON (``data/homophones/reading_rules.json``)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

SECTIONS = (
    "echo", "ignore", "refusal", "answer", "alternatives", "list", "kept", "denied", "final", "compared", "defined",
)  # fmt: skip
#: The patterns of the section ``phrases``, which search folded text:
#:
#: - ``negated_candidate`` in the clause before a candidate, ``clause`` between clauses, ``article`` before a
#:   candidate, and ``separator`` between candidates;
#: - ``aside``, which precedes a rival that is another possibility, an example, or denied, and ``withdrawn``, which
#:   follows a rival that is denied;
#: - ``quote``, ``cue`` and ``opening`` before a mention: the beginning of a quotation, a word such as "means", the
#:   beginning of a reply, a line or a guess;
#: - ``end`` after a mention with a cue, ``stop`` after an answer that is all of a reply, ``first`` after a mention
#:   at the beginning;
#: - ``negation`` in the sentence of the item;
#: - ``no_meaning`` in what a rule ``defined`` takes for a meaning ("a word", "the same"); ``concession`` before a
#:   comparison or a definition ("although it"), ``contrast`` between a comparison and the definition after it,
#:   ``returns`` between a definition and the comparison after it ("but here it"), and ``endorsed`` after a
#:   comparison ("which fits");
#: - ``question``, which matches a reply that only repeats the question, and ``next_question``, which matches where a
#:   base model goes on with a question of its own;
#: - ``rejected``, with a candidate that the reply denies in a group ``answer``.
PHRASES = (
    "negated_candidate", "clause", "article", "separator", "aside", "withdrawn", "quote", "cue", "opening", "end",
    "stop", "first", "negation", "no_meaning", "concession", "contrast", "returns", "endorsed",
    "rejected", "identity", "paired", "question", "next_question",
)  # fmt: skip
LANGUAGES = ("en", "zh", "es")
#: The objects of the section ``words`` with their required keys, and its lists.
_WORD_TABLES: Mapping[str, Sequence[str]] = {
    "function": LANGUAGES,
    "same_class": (),
    "irregular_forms": (),
    "irregular_plurals": (),
    "verb_endings": "aei",
}
_WORD_LISTS = ("plural_only", "gendered", "gendered_e", "prose")
#: These sections search folded text, so patterns without capitals need not ignore case, which doubles their time.
_FOLDED = ("refusal", "kept", "denied", "final", "compared", "defined", "phrases")
#: The groups of which every pattern of a section has one, by the beginning of their names.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("answer", "alternatives", "list"), ("answer", "items")),
    "kept": ("kept",),
    "denied": ("denied", "undecided"),
    "final": ("answer",),
    "compared": ("compared",),
    "defined": ("meaning", "word", "own", "turn"),
}
_NO_CAPITAL = re.compile(r"(?:\\.|\(\?P<\w+>|[^A-Z])*")
#: Abbreviations that a pattern may use, beside those of the section ``shorthands``. Those without letters are faster
#: if they do not ignore case.
SHORTHANDS = {
    "{term}": r"(?-i:⟦(?![^⟦⟧\n]*<[ws]>)[^⟦⟧\n]{1,80}⟧)",
    "{gap}": r"(?-i:[^⟦⟧.;!?。；！？\n])",
    "{word}": r"(?-i:[^\W\d_][\w'-]*)",
    "{han}": "(?-i:[一-鿿])",
}


@dataclass(frozen=True)
class Rule:
    """One regular expression; ``name`` appears in the reason of a verdict.

    :param source: The regular expression, with all abbreviations replaced.
    :param is_folded: It searches folded text.
    :param is_weak: A refusal that a mention of the answer outweighs ("no such word").
    :param is_last: A refusal only if the reply neither defines the homophone nor rejects a candidate ("not", "sorry").
    """

    name: str
    language: str
    source: str
    is_folded: bool
    is_weak: bool = False
    is_last: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression. To compile all rules takes longer than to read all items."""
        has_no_capital = self.is_folded and _NO_CAPITAL.fullmatch(self.source)
        return re.compile(self.source, re.MULTILINE if has_no_capital else re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Lists of words, and the table of Chinese characters.

    :param function: Function words by language: articles, pronouns, prepositions, conjunctions, auxiliaries, question
        words, and the most common adverbs of degree and place. "The reply contains the answer" says little about an
        answer such as Spanish "a", so these answers are counted separately.
    :param same_class: Pronouns, articles, possessives and auxiliaries. None is an answer alone if the next
        alternative begins with one of the same class.
    :param irregular_forms: English word -> its irregular forms.
    :param singulars: Irregular English plural -> its noun.
    :param plural_only: English plurals whose singular is another word.
    :param gendered: Spanish beings and adjectives on -o: their feminine is the same word.
    :param gendered_e: Spanish beings on -e with a feminine on -a.
    :param verb_endings: Vowel of a Spanish infinitive -> the endings of its forms.
    :param prose: Words that replies use in sentences of their own. As an answer, such a word must be quoted or
        introduced.
    :param simplified: Translation table from traditional to simplified characters, for ``str.translate``.
    """

    function: Mapping[str, frozenset[str]]
    same_class: Mapping[str, frozenset[str]]
    irregular_forms: Mapping[str, frozenset[str]]
    singulars: Mapping[str, str]
    plural_only: frozenset[str]
    gendered: frozenset[str]
    gendered_e: frozenset[str]
    verb_endings: Mapping[str, frozenset[str]]
    prose: frozenset[str]
    simplified: Mapping[int, str]

    def is_function_word(self, word: str, language: str) -> bool:
        """Return True if the list of the language has the word, ignoring case."""
        return word.casefold() in self.function[language]


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
    :param compared: A mention that only compares the homophone with the answer ("sounds like X"), or says what others
        think, in a group ``compared``.
    :param defined: What the homophone means instead: in words, in a group ``meaning``, as another word, in a group
        ``word``, its own meaning, in a group ``own``, or, only after a contrast, another word in a group ``turn``.
    :param not_answers: Words that are never candidates ("typo", "something").
    :param phrases: The patterns of :data:`PHRASES`, by name.
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
    compared: tuple[Rule, ...]
    defined: tuple[Rule, ...]
    not_answers: frozenset[str]
    phrases: Mapping[str, Rule]
    words: Words

    def phrase(self, name: str) -> re.Pattern[str]:
        """Return a pattern of :data:`PHRASES`."""
        return self.phrases[name].pattern


def parse_rules(document: object, traditional: str, *, compiles: bool = True) -> Rules:
    """Return the rules of a parsed JSON document.

    :param traditional: traditional characters, each followed by its simplified form; white space is ignored.
    :param compiles: check that all regular expressions are valid; otherwise, each is compiled when it is first used.
    :raises ValueError: naming the section, the rule and the problem.
    """
    if not isinstance(document, Mapping):
        _fail(
            f"a JSON {type(document).__name__} instead of an object with the sections {', '.join(SECTIONS)}"
        )
    known = {*SECTIONS, "shorthands", "phrases", "words", "not_answers", "about"}
    if unknown := sorted(map(str, set(document) - known)):
        _fail(f"unknown section {unknown[0]!r}; the sections are {', '.join(sorted(known))}")
    shorthands = {**SHORTHANDS, **_texts(document, "shorthands")}
    sections = {
        name: tuple(
            _rule(name, i, r, shorthands, compiles) for i, r in enumerate(_section(document, name, list), 1)
        )
        for name in SECTIONS
    }
    if not sections["refusal"]:
        _fail("section 'refusal' has no rule")
    not_answers = _section(document, "not_answers", list)
    if bad := [word for word in not_answers if not isinstance(word, str)]:
        _fail(f"not_answers has {bad[0]!r}, which is not a string")
    phrases = {}
    for name, source in _texts(document, "phrases", PHRASES).items():
        phrases[name] = Rule(name, "", _expanded(source, shorthands), is_folded=True)
        if compiles:
            _check_pattern("phrases", phrases[name], "a pattern of 'phrases'")
    return Rules(
        **sections,
        not_answers=frozenset(unicodedata.normalize("NFC", word.casefold()) for word in not_answers),
        phrases=phrases,
        words=_words(_section(document, "words", dict), traditional),
    )


def _words(section: Mapping[str, Any], traditional: str) -> Words:
    tables = {
        name: {key: frozenset(text.split()) for key, text in _texts(section, name, keys).items()}
        for name, keys in _WORD_TABLES.items()
    }
    texts = _texts({"words": {n: t for n, t in section.items() if n not in tables}}, "words", _WORD_LISTS)
    lists = {name: frozenset(texts[name].split()) for name in _WORD_LISTS}
    plurals = tables["irregular_plurals"]
    characters = "".join(traditional.split())
    return Words(
        function=tables["function"],
        same_class=tables["same_class"],
        irregular_forms=tables["irregular_forms"] | plurals,
        singulars={plural: noun for noun, forms in plurals.items() for plural in forms},
        plural_only=lists["plural_only"],
        gendered=lists["gendered"],
        gendered_e=lists["gendered_e"],
        verb_endings=tables["verb_endings"],
        prose=lists["prose"],
        simplified={ord(a): b for a, b in zip(characters[::2], characters[1::2], strict=True)},
    )


def _section(document: Mapping[str, Any], section: str, kind: type) -> Any:
    value = document.get(section)
    if not isinstance(value, kind):
        article = "a list" if kind is list else "an object"
        _fail(
            f"section {section!r} must be {article}, not {'missing' if value is None else type(value).__name__}"
        )
    return value


def _texts(document: Mapping[str, Any], section: str, required: Sequence[str] = ()) -> Mapping[str, str]:
    value: Mapping[str, str] = _section(document, section, dict)
    if missing := [name for name in required if name not in value]:
        _fail(f"section {section!r} has no {missing[0]!r}")
    if bad := [name for name, text in value.items() if not isinstance(text, str)]:
        _fail(f"section {section!r}: {bad[0]!r} is not a string")
    return value


def _expanded(source: str, shorthands: Mapping[str, str]) -> str:
    for short, full in shorthands.items():
        source = source.replace(short, full)
    return source


def _rule(section: str, number: int, rule: object, shorthands: Mapping[str, str], compiles: bool) -> Rule:
    where = f"rule {number} of {section!r}"
    if not isinstance(rule, Mapping):
        _fail(f"{where} is not an object with name, language, pattern and note")
    for key in ("name", "language", "pattern", "note"):
        if not isinstance(rule.get(key), str) or not rule[key].strip():
            _fail(f"{where} has no {key!r}")
    if rule["language"] not in LANGUAGES:
        _fail(f"{where} ({rule['name']}) has the language {rule['language']!r}; use {', '.join(LANGUAGES)}")
    source = _expanded(rule["pattern"], shorthands)
    flags = (rule.get("weak") is True, rule.get("last") is True)
    made = Rule(rule["name"], rule["language"], source, section in _FOLDED, *flags)
    if compiles:
        _check_pattern(section, made, where)
    return made


def _check_pattern(section: str, rule: Rule, where: str) -> None:
    try:
        groups = rule.pattern.groupindex
    except (re.error, OverflowError, RecursionError) as error:
        _fail(f"{where} ({rule.name}) is not a regular expression: {error}")
    wanted = _GROUPS.get(section, ())
    if wanted and not any(group.startswith(wanted) for group in groups):
        _fail(f"{where} ({rule.name}) has no group (?P<{wanted[0]}>...)")


def _fail(what: str) -> NoReturn:
    raise ValueError(f"reading rules: {what}")


def without_group(match: re.Match[str], group: str) -> str:
    """Return the matched text without the named group; a space if the rule has no such group."""
    if group not in match.re.groupindex or match.group(group) is None:
        return " "
    start, end = match.span(group)
    return match.string[match.start() : start] + " " + match.string[end : match.end()]
