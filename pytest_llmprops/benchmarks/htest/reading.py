"""Read which label or option a reply chooses.

``paper`` is the rule of the published results. It treats the labels differently: a word with an "a" is read as A, so
"Answer: A" is read and "Answer: B" is not. ``letter`` is this project's rule. It treats all options alike: exchanging
two letters in a reply exchanges them in the reading.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Label = Literal["A", "B"]
LABELS: tuple[Label, Label] = ("A", "B")
#: Characters of a reply that are read. An answer has a few; a chain of thought is read by a second model.
LONGEST_READ = 20_000
_LONGEST_OPTION = 100


def read_label(reply: str) -> Label | None:
    """Return A, B or None, by the rule for the published results.

    The reply is stripped and lower-cased. It is A if it contains an "a" and no "b", or "label: a", or "is a"
    without "or b". Otherwise the same rule is applied for B.
    """
    text = reply.strip().lower()
    if ("a" in text and "b" not in text) or "label: a" in text or ("is a" in text and "or b" not in text):
        return "A"
    if ("b" in text and "a" not in text) or "label: b" in text or ("is b" in text and "or a" not in text):
        return "B"
    return None


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that equals the stripped reply (Letter Geometry, published code)."""
    text = reply.strip()
    return options.index(text) if text in options else None


def obeys_format(reply: str) -> bool:
    """Return True if the reply is only the letter A or B, as requested."""
    return reply.strip() in LABELS


@dataclass(frozen=True, slots=True)
class Choice:
    """The option that a reply chooses.

    :param index: None if the reply chooses none, or several.
    :param rule: How the option was read, or why none was: ``letter alone``, ``first line``, ``statement``,
        ``only mention``; ``empty``, ``several options``, ``no option``.
    """

    index: int | None
    rule: str


# The line after an answer in which a base model continues with the next example.
_NEXT_EXAMPLE = re.compile(r"^[ \t]*Input:", re.MULTILINE)
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_PAIRS = {
    "(": ")",
    "[": "]",
    "{": "}",
    "<": ">",
    "“": "”",
    "‘": "’",
    "「": "」",
    "《": "》",
    "【": "】",
    "«": "»",
}
_NOUNS = (
    r"(?:answer|label|option|choice|group|class|category|classification|output|result|response|prediction|letter"
    r"|character|symbol|shape)"
)
_IS = r"(?:is|was|be|are|would be|should be|must be|will be|seems to be|as)"
# What comes before a stated answer.
_LEADS = (
    r"\\(?:boxed|text|textbf|mathbf|mathrm)\{",
    r"<(?:answer|label)>",
    rf"\b{_NOUNS}[\"'”’`*_)]{{0,4}}\s?(?:{_IS}|[:=：]|->|→)?",
    rf"\b(?:it|this|that|which)(?:['’]s|\s(?:{_IS}|becomes))",
    r"\b(?:looks?|look most|most) like|\b(?:becomes|resembles|makes|gives|forms)\b",
    r"\bI(?:['’]d|['’]ll| would| will)? (?:choose|pick|say|select|go with|answer|guess|think)\b",
    r"\b(?:therefore|thus|hence|so)\b",
    r"(?:答案|标签|选择|选项|结果|应该|属于|选)(?:应该|应)?[是为选]?",
)
# The order of alternatives matters: a long lead first, so that "the answer is" is not read as "is".
_REJECTED_BEFORE = re.compile(
    rf"(?:\b(?:not|nor|neither|than|instead of|without|except|exclude)|n['’]t(?: be)?|不是|而非|并非)\s{{0,2}}"
    rf"(?:(?:the|an?|{_NOUNS})\s){{0,2}}[\"'“‘`*_(\[]{{0,3}}\Z",
    re.IGNORECASE,
)
_REJECTED_AFTER = re.compile(
    r"[\"'”’`*_)\]]{0,3}\s?(?:\?\s*(?:no\b|nope\b|wrong\b|不)"
    r"|(?:is|was|does|do|would|can|could|should)(?:\s?n['’]t|\s?not)\b|cannot\b"
    r"|(?:is|was|seems|would be) (?:wrong|incorrect|out|excluded)\b|不对|不是)",
    re.IGNORECASE,
)
# "A palindrome reads …" has an article, not an answer. After a letter that is an answer comes one of these words.
_AFTER_LETTER = frozenset(
    (
        "applies", "and", "are", "as", "based", "because", "but", "due", "fits", "for", "given", "here", "if",
        "instead", "is", "it", "not", "or", "rather", "seems", "since", "to", "too", "was", "when", "which", "with",
        "would",
    )
)  # fmt: skip
_NEXT_WORD = re.compile(r"[ \t]+([a-z]+)")
_CORRECTION = re.compile(
    r"\b(?:actually|wait|no|correction|reflection|instead|however|but|final|finally|sorry|rather)\b|其实|最终|最后",
    re.IGNORECASE,
)
_RETRACTION = re.compile(
    r"\b(?:actually|wait|correction|on reflection|sorry|scratch that)\b|\bno\b[,:.!]|其实|不对", re.IGNORECASE
)
_EXPLAINED = re.compile(r"(?:[.:;]|\s*[-–—(,])\s*\S|\s+(?:because|since|as)\b")
_WORD = re.compile(r"[^\W\d_]{3,}")
_OPENING, _CLOSING = "\"'“‘`*([", "\"'”’`*)]"


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The patterns that find options: stated, alternatives after one, mentioned, and two listed as a question."""

    stated: re.Pattern[str]
    alternative: re.Pattern[str]
    mention: re.Pattern[str]
    listed: re.Pattern[str]


@lru_cache(maxsize=256)
def _patterns(options: tuple[str, ...], folds_case: bool) -> _Patterns:
    spellings = {s for option in options for s in ((option, option.lower()) if folds_case else (option,))}
    one = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
    ends = r"(?![A-Za-z0-9À-ÿ])(?!['’][a-z])"
    noun = rf"(?:(?:the|{_NOUNS})\s){{0,2}}"
    stated = rf"(?:{'|'.join(_LEADS)})\s{{0,2}}{noun}[\s\"'“‘`*_(\[{{$,:：]{{0,6}}?(?P<option>{one}){ends}"
    alternative = (
        rf"[\"'”’`*)\]}}$]{{0,3}}\s{{0,2}}(?:or|and|/|&|,|vs\.?|或|和|、)\s{{0,2}}(?:or\s|and\s)?{noun}[\"'“‘`*(\[]{{0,3}}"
        rf"(?P<option>{one}){ends}"
    )
    not_available = "(?<![Nn]/)" if folds_case else ""
    mention = rf"(?<![A-Za-z0-9À-ÿ'’]){not_available}(?P<option>{one}){ends}"
    # Leads ignore case, options do not: "d" and "D" may both be options.
    return _Patterns(
        re.compile(re.sub(r"\(\?P<option>.*?\)(?=\(\?!)", lambda m: f"(?-i:{m[0]})", stated), re.IGNORECASE),
        re.compile(alternative),
        re.compile(mention),
        re.compile(rf"\b(?:[Bb]etween|[Ee]ither)\s(?:{one})\s(?:and|or)\s(?:{one})\s?[,:;?—–-]"),
    )


def read_choice(reply: str, options: Sequence[str], *, folds_case: bool = False) -> Choice:
    """Return the option that a reply chooses, by the rule ``letter``.

    The reply may be the option alone, in marks, in JSON or LaTeX, as the only first line before an explanation, after
    words such as "the answer is", or the only option that is mentioned and not rejected ("E, not Z"). A reply with
    several options and no statement has no answer.

    :param options: Different short texts, mostly single characters.
    :param folds_case: A lower-case letter is an answer too, where it cannot be the article "a".
    """
    text = reply[:LONGEST_READ].translate(_FULL_WIDTH).strip()
    if (following := _NEXT_EXAMPLE.search(text)) is not None:
        text = text[: following.start()].strip()
    if not text:
        return Choice(None, "empty")

    def index(found: str) -> int | None:
        if found in options:
            return options.index(found)
        return options.index(found.upper()) if folds_case and found.upper() in options else None

    if (alone := _alone(text, index)) is not None:
        return Choice(alone, "letter alone")
    patterns = _patterns(tuple(options), folds_case)
    stated, last, has_alternative = set[int](), -1, False
    for match in patterns.stated.finditer(text):
        chosen = index(match["option"])
        if chosen is None or not _is_letter(text, match, options):
            continue
        if _REJECTED_AFTER.match(text, match.end()):
            continue
        other = patterns.alternative.match(text, match.end())
        if other is not None and index(other["option"]) != chosen:
            has_alternative = True
        if last >= 0 and chosen not in stated and _CORRECTION.search(text, last, match.start()):
            stated.clear()
        stated.add(chosen)
        last = match.end()
    first = _first_line(text, index, patterns)
    if has_alternative or len(stated | ({first} if first is not None else set())) > 1:
        return Choice(None, "several options")
    if first is not None:
        return Choice(first, "first line")
    if stated:
        return Choice(stated.pop(), "statement")
    return _mentioned(text, options, patterns, index)


def _alone(text: str, index: Callable[[str], int | None]) -> int | None:
    """Return the index of the option that is the whole text, without marks around it and repetitions."""
    start, stop = 0, len(text)
    while start < stop:
        # No option is longer than this; a slice at each step would take quadratic time.
        rest = text[start:stop] if stop - start <= _LONGEST_OPTION else ""
        if rest and (found := index(rest)) is not None:
            return found
        first, last = text[start], text[stop - 1]
        if stop - start > 2 and _PAIRS.get(first, first) == last and not first.isalnum():
            start, stop = start + 1, stop - 1
        elif last.isspace() or (_is_mark(last) and index(last) is None):
            stop -= 1
        elif first.isspace() or (_is_mark(first) and index(first) is None):
            start += 1
        elif stop - start > 1 and first.isalpha() and len(set(text[start:stop])) == 1:
            stop = start + 1
        else:
            return None
    return None


def _is_mark(character: str) -> bool:
    # Variation selectors (Mn) and joiners (Cf) are parts of emojis.
    return unicodedata.category(character)[0] in "PS" or unicodedata.category(character) in ("Mn", "Cf")


def _is_letter(text: str, match: re.Match[str], options: Sequence[str]) -> bool:
    """Return True unless the match may be an article or a pronoun: "a", "A" or "I" before another word."""
    found = match["option"]
    if len(found) != 1 or not found.isascii() or not found.isalpha():
        return True
    rest = text[match.end() : match.end() + 40]
    word = _NEXT_WORD.match(rest)
    if word is not None and word[1] not in _AFTER_LETTER:
        return False
    if found in options:
        return True
    # A lower-case letter at the end may be the article of a reply that was cut off, unless a mark precedes it.
    before = text[match.start("option") - 1 : match.start("option")]
    colon = text[: match.start("option")].rstrip()[-1:]
    return (
        (bool(rest) and not rest[0].isspace())
        or (before != "" and before in _OPENING)
        or colon in (":", "=", "：")
    )


def _first_line(text: str, index: Callable[[str], int | None], patterns: _Patterns) -> int | None:
    """Return the option that is the whole first line, or begins it, of a reply that goes on with an explanation."""
    line, _, rest = text.partition("\n")
    found = _alone(line.strip(), index) if len(line) <= 40 else None
    if found is None:
        match = patterns.mention.search(line[:8])
        if match is None or line[: match.start()].strip(_OPENING + " "):
            return None
        tail = line[match.end() :].lstrip(_CLOSING)
        if (
            not re.match(r"(?:[.:;]|\s*[-–—(,])\s*\S|\s+(?:because|since|as)\b", tail)
            or not match["option"][0].isupper()
        ):
            return None
        found, rest = index(match["option"]), tail
    rest = rest.lstrip(" \t\r\n.,:;-–—(\"'*")
    other = patterns.mention.match(rest)
    if other is not None and not _REJECTED_AFTER.match(rest, other.end()):
        return None
    is_explained = _WORD.search(rest) and not re.match(r"(?:or|and|not)\b", rest)
    return found if is_explained and not _RETRACTION.search(rest) else None


def _mentioned(
    text: str, options: Sequence[str], patterns: _Patterns, index: Callable[[str], int | None]
) -> Choice:
    """Return the only option that the text mentions and does not reject."""
    words, marks, names_any, last = set[int](), set[int](), False, 0
    text = patterns.listed.sub(" ", text)
    for match in patterns.mention.finditer(text):
        found = match["option"]
        chosen = index(found)
        if chosen is None or found not in options or not _is_letter(text, match, options):
            continue
        names_any = True
        if _REJECTED_BEFORE.search(text, max(0, match.start() - 40), match.start()):
            continue
        if _REJECTED_AFTER.match(text, match.end()):
            continue
        if chosen not in words | marks and _RETRACTION.search(text, last, match.start()):
            words.clear()
            marks.clear()
        last = match.end()
        before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
        is_quoted = before != "" and before in _OPENING and after != "" and after in _CLOSING
        is_punctuation = (found.isascii() and not found.isalnum()) or unicodedata.category(found[0]) == "Pd"
        if is_quoted or not is_punctuation:
            words.add(chosen)
        elif not before.strip() and (not after.strip() or after in ",.;:!?"):
            # A mark between words is punctuation, unless no other option is mentioned.
            marks.add(chosen)
    chosen_ones = words or marks
    if len(chosen_ones) == 1:
        return Choice(chosen_ones.pop(), "only mention")
    return Choice(None, "several options" if chosen_ones or names_any else "no option")
