"""Candidate answers in a normalised reply: what a rule captured, without quotes and articles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.normal import HAN, fold
from pytest_llmprops.benchmarks.homophones.reading_rules import SHORTHANDS, Rules

_NEGATION = re.compile(
    r"\b(?:not|no|nor|any|cannot|unable|never|ni|ningún|ninguna|sin)\b|n't\b|[不没无未非]", re.I
)
_CLAUSE = re.compile(r"[,.;:!?，。；：！？\n]|\b(?:but|sino)\b|而是", re.I)
_ARTICLE = re.compile(r"(?:an?|the|to|el|la|los|las|una?|either|simply|just)\s+", re.I)
_SEPARATOR = re.compile(r"\s*(?:[,，、/;]|\b(?:or|and|o|u)\b|或者?|还是)\s*", re.I)
_BRACKETS = re.compile(r"[(（][^)）]*[)）]?")
_PINYIN = re.compile(r"[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ]")
_EDGES = " \t\n.,;:!?。，；：！？、⟦⟧\"'*_`()（）[]…"


@dataclass(frozen=True, slots=True)
class Echo:
    """What a reply may repeat without naming an answer, folded."""

    word: str
    sentence: str

    def quotes(self, text: str) -> bool:
        """Return whether ``text`` is part of the sentence (as whole words, if the script separates words)."""
        if not text or text not in self.sentence:
            return False
        if HAN.search(text):
            return True
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.sentence) is not None


def candidates(match: re.Match[str], rules: Rules, echo: Echo) -> dict[str, str]:
    """Return the answers that one match names, folded -> as written; none if the clause negates them."""
    named: dict[str, str] = {}
    for group, value in match.groupdict().items():
        if value is None or not group.startswith(("answer", "items")):
            continue
        before = match.string[max(0, match.start(group) - 60) : match.start(group)]
        clause = _CLAUSE.split(before)[-1][-30:]
        if _NEGATION.search(re.sub(r"⟦[^⟧]*⟧|<w>", " ", clause)):
            continue
        if group.startswith("answer_as_is"):
            named[fold(value).strip(_EDGES)] = value.strip(_EDGES)
            continue
        parts = [value]
        if group.startswith("items"):
            quoted = re.findall(SHORTHANDS["{term}"], value)
            parts = quoted if len(quoted) > 1 else _SEPARATOR.split(_BRACKETS.sub(" ", value))
        for part in parts:
            named.update(clean(part, rules, echo))
    return named


@lru_cache(maxsize=8)
def _chinese(words: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for word in words if HAN.search(word))


def clean(text: str, rules: Rules, echo: Echo) -> dict[str, str]:
    """Return a candidate without quotes, articles and brackets; nothing if it is not a candidate."""
    shown = _BRACKETS.sub(" ", text).strip(_EDGES)
    folded = fold(shown)
    while (shorter := _ARTICLE.sub("", folded, count=1) if _ARTICLE.match(folded) else folded) != folded:
        folded = shorter.strip(_EDGES)
    if echo.quotes(folded):
        return {}
    words = folded.split()
    if not words or "<w>" in folded or "<s>" in folded or folded in (echo.word, echo.sentence):
        return {}
    # A quoted phrase is looked up as a whole: "without arm" is an answer, "without" alone is not.
    ends = () if text.lstrip().startswith("⟦") and len(words) > 1 else (words[0], words[-1])
    if any(w.removesuffix("'s") in rules.not_answers for w in (folded, *ends)):
        return {}
    # A Chinese word's own characters and its pronunciation are not answers.
    if HAN.search(echo.word) and (folded in echo.word or (_PINYIN.search(folded) and not HAN.search(folded))):
        return {}
    if HAN.search(folded) and any(w in folded for w in _chinese(rules.not_answers)):
        return {}
    return {folded: shown}
