"""Reading a model's reply to "can you tell its true meaning?".

The paper counts a reply as correct if it contains the answer. It names two things that accuracy alone hides:
refusals, the most common error (section 9.1), and replies that guess several answers (section 10.3). Both are
recognised by regular expressions in a data file that can be replaced (``data/homophones/refusal_rules.json``).

The rules are applied to a normalised reply: all quotation marks and the marks of bold and code become ``⟦ ⟧``,
the homophone becomes ``<w>``, and the quoted sentence becomes ``<s>``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.homophones.reading_rules import SHORTHANDS, Rules, parse_rules

__all__ = ["LONGEST_READ", "Reading", "Rules", "contains_answer", "parse_rules", "reading"]

#: The rules search only this many characters of a reply; longer replies repeat themselves.
LONGEST_READ = 8_000
_NEGATION = re.compile(
    r"\b(?:not|no|nor|any|cannot|unable|never|ni|ningún|ninguna|sin)\b|n't\b|[不没无未非]", re.I
)
_CLAUSE = re.compile(r"[,.;:!?，。；：！？\n]|\b(?:but|sino)\b|而是", re.I)
_ARTICLE = re.compile(r"(?:an?|the|to|el|la|los|las|una?|either|simply|just)\s+", re.I)
_SEPARATOR = re.compile(r"\s*(?:[,，、/;]|\b(?:or|and|o|u)\b|或者?|还是)\s*", re.I)
_HAN = re.compile(r"[一-鿿]")
_BRACKETS = re.compile(r"[(（][^)）]*[)）]?")
_PINYIN = re.compile(r"[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ]")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2060\ufeff\u00ad]")
_QUOTES = str.maketrans({**dict.fromkeys("“„‟«「『〝", "⟦"), **dict.fromkeys("”»」』〞", "⟧")})
_EDGES = " \t\n.,;:!?。，；：！？、⟦⟧\"'*_`()（）[]…"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says.

    :param correct: It contains the answer, whatever else it says.
    :param refused: It gives no answer and says why.
    :param empty: It has no letter and no digit.
    :param answers_named: Distinct answers that the rules recognise, in order.
    :param several: It offers more than one answer (paper, section 10.3), correct or not.
    :param reason: A short phrase that explains the judgement.
    """

    correct: bool
    refused: bool
    empty: bool
    answers_named: tuple[str, ...]
    several: bool
    reason: str


@dataclass(frozen=True, slots=True)
class _Echo:
    """What a reply may repeat without naming an answer, folded."""

    word: str
    sentence: str

    def quotes(self, text: str) -> bool:
        """Return whether ``text`` is part of the sentence (as whole words, if the script separates words)."""
        if not text or text not in self.sentence:
            return False
        if _HAN.search(text):
            return True
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.sentence) is not None


def contains_answer(reply: str, answers: Iterable[str], match: str, language: str) -> bool:
    """Return whether the reply contains one of the answers. Case is ignored; accents are not.

    :param match: ``contains`` is the paper's substring match. ``word`` matches whole words if the script
        separates words (Chinese does not); an inflected form is another word.
    :param language: The item's language. Outside English, an English answer "to sow" also matches "sow".
    """
    if match not in ("contains", "word"):
        raise ValueError(f"homophones.match is {match!r}: use contains or word")
    text = _fold(reply)
    for answer in answers:
        folded = _fold(answer).strip()
        if language != "en" and folded.startswith("to "):
            folded = folded[3:].strip()
        if not folded:
            continue
        if match == "contains" or _HAN.search(folded):
            is_contained = folded in text
        else:
            spaced = r"\s+".join(map(re.escape, folded.split()))
            is_contained = re.search(rf"(?<!\w){spaced}(?!\w)", text) is not None
        if is_contained:
            return True
    return False


def reading(
    reply: str,
    answers: Sequence[str],
    match: str,
    language: str,
    rules: Rules,
    *,
    word: str = "",
    sentence: str = "",
) -> Reading:
    """Read one reply. No reply makes this raise.

    :param word: The homophone; a reply that repeats it gives no answer.
    :param sentence: The item's sentence; the same holds for it.
    """
    if not any(character.isalnum() for character in reply):
        return Reading(False, False, True, (), False, "the reply is empty")
    correct = contains_answer(reply, answers, match, language)
    echo = _Echo(_fold(word), _fold(sentence))
    text = _prepare(reply[:LONGEST_READ], word, sentence)
    for rule in rules.ignore:
        text = rule.pattern.sub(lambda m: _without_group(m, "gloss"), text)
    named: dict[str, str] = {}
    quoted: dict[str, str] = {}
    for rule in rules.answer:
        for hit in rule.pattern.finditer(text):
            candidates = _candidates(hit, rules, echo)
            named.update(candidates)
            if any(value and value.startswith("⟦") for value in hit.groupdict().values()):
                quoted.update(candidates)
    offered = [quoted]
    offered += [_candidates(m, rules, echo) for r in rules.alternatives for m in r.pattern.finditer(text)]
    listed: dict[str, str] = {}
    for rule in rules.list:
        for hit in rule.pattern.finditer(text):
            listed.update(_candidates(hit, rules, echo))
    offered.append(listed)
    plural = [group for group in offered if _distinct(group, answers, match, language) > 1]
    for group in plural:
        named.update(group)
    refusal = next((rule for rule in rules.refusal if rule.pattern.search(text)), None)
    if not named and refusal is None and len(text.split()) <= 4 and len(text) <= 40:
        named.update(_clean(text, rules, echo))
    refused = refusal is not None and not correct and not named
    if correct:
        reason = "contains the answer"
    elif refused and refusal is not None:
        reason = f"refuses: {refusal.name}"
    else:
        reason = f"names {next(iter(named.values()))}" if named else "no answer found in the reply"
    return Reading(correct, refused, False, tuple(named.values()), bool(plural), reason)


def _prepare(reply: str, word: str, sentence: str) -> str:
    """Return the normalised reply that the rules search."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", reply))
    text = re.sub(r"[⟦⟧]", " ", text).translate(_QUOTES).replace("‘", "'").replace("’", "'")
    text = re.sub(r"^[ \t]*[*•·–-][ \t]+", "- ", text, flags=re.M)
    echoed = unicodedata.normalize("NFC", sentence).replace("‘", "'").replace("’", "'").translate(_QUOTES)
    if echoed:
        text = re.sub(re.escape(echoed), "<s>", text, flags=re.I)
    text = re.sub(r'"([^"\n]{1,80})"', r"⟦\1⟧", text)
    text = re.sub(r"(?<!\w)'([^'\n]{1,80})'(?!\w)", r"⟦\1⟧", text)
    text = re.sub(r"(\*\*|__|`|\*)(?=\S)([^*`\n]{1,80}?)(?<=\S)\1", r"⟦\2⟧", text)
    text = re.sub(r"⟦[\s⟦]*⟦", "⟦", re.sub(r"⟧[\s⟧]*⟧", "⟧", text)).replace("*", "")
    text = re.sub(r"([,.;:!?，。])⟧", r"⟧\1", text)
    text = re.sub(r"⟦\s*<s>\s*⟧", "<s>", text)
    if homophone := unicodedata.normalize("NFC", word).strip():
        escaped = re.escape(homophone)
        text = re.sub(rf"⟦\s*{escaped}[.,。，]?\s*⟧", "<w>", text, flags=re.I)
        # A short word ("a", "要") is also a common word or part of others: replace it only in quotes.
        if len(homophone) > (1 if _HAN.search(homophone) else 3):
            edge = "" if _HAN.search(homophone) else r"\b"
            text = re.sub(f"{edge}{escaped}{edge}", "<w>", text, flags=re.I)
    return re.sub(r"[ \t]+", " ", text).strip()


def _candidates(match: re.Match[str], rules: Rules, echo: _Echo) -> dict[str, str]:
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
            named[_fold(value).strip(_EDGES)] = value.strip(_EDGES)
            continue
        parts = [value]
        if group.startswith("items"):
            quoted = re.findall(SHORTHANDS["{term}"], value)
            parts = quoted if len(quoted) > 1 else _SEPARATOR.split(_BRACKETS.sub(" ", value))
        for part in parts:
            named.update(_clean(part, rules, echo))
    return named


def _clean(text: str, rules: Rules, echo: _Echo) -> dict[str, str]:
    """Return a candidate without quotes, articles and brackets; nothing if it is not a candidate."""
    shown = _BRACKETS.sub(" ", text).strip(_EDGES)
    folded = _fold(shown)
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
    if _HAN.search(echo.word) and (
        folded in echo.word or (_PINYIN.search(folded) and not _HAN.search(folded))
    ):
        return {}
    if _HAN.search(folded) and any(w in folded for w in rules.not_answers if _HAN.search(w)):
        return {}
    return {folded: shown}


def _distinct(group: Mapping[str, str], answers: Sequence[str], match: str, language: str) -> int:
    """Return the number of different answers. Two accepted answers ("fridge", "refrigerator") count as one,
    and so does 键盘 with its translation."""
    by_script: dict[bool, set[str]] = {True: set(), False: set()}
    for folded in group:
        # A single character of a longer candidate explains that candidate.
        if _HAN.search(folded) and any(folded != other and folded in other for other in (*group, *answers)):
            continue
        same = contains_answer(folded, answers, match, language)
        by_script[_HAN.search(folded) is not None].add("the answer" if same else folded)
    return max(map(len, by_script.values()))


def _without_group(match: re.Match[str], group: str) -> str:
    """Return the matched text without the named group; a space if the rule has no such group."""
    if group not in match.re.groupindex or match.group(group) is None:
        return " "
    start, end = match.span(group)
    return match.string[match.start() : start] + " " + match.string[end : match.end()]


def _fold(text: str) -> str:
    normal = _INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return unicodedata.normalize("NFC", normal.replace("‘", "'").replace("’", "'").casefold())
