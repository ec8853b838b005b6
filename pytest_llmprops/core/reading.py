"""Read what a model's reply states: one of several options, a list, a segmentation, or fenced text.

All benchmarks read with these functions, and so may others. They know no benchmark, and the words of the languages are
in `reading_words`. Each takes linear time, and no text makes it raise. A reply that names several options, or only
rejects one, states none: no reading is better than the opposite of what was meant.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from pytest_llmprops.core.reading_words import SPACED, UNSPACED
from pytest_llmprops.core.reply_json import found_json

#: A choice is stated at the beginning or the end; of a longer reply, so many characters of both are read.
LONGEST_END = 4_000
#: Of more mentions of options, the first and the last half are judged.
_MOST_MENTIONS = 100
#: Characters before and after a mention that may say what it is.
_AROUND = 60
_TOKENS = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</s>|\A\s*<s>|<(?:bos|eos|pad|(?:start|end)_of_turn)>|\[/?INST\]"
    r"|\A\s*(?:assistant|model|ai|bot)\s*[:\n]",
    re.IGNORECASE,
)
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~|(?!\A<s>)<(s|del|strike)>[^<\n]{1,200}</\1>", re.IGNORECASE)
_INVISIBLE = re.compile("[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]")
_MARKS = re.compile(
    "[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc]"
)
_SAME = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』《》", '"'), **dict.fromkeys("‘’‚‛ʼ´", "'"), **dict.fromkeys("✅✔☑", "✓"),
        **dict.fromkeys("❌✘✖🚫☒", "✗"), "、": ",", "。": ".", "｡": ".", "،": ",", "؟": "?", "؛": ";", "।": ".",
        "։": ".",
        **dict(zip("يىېكةەہھ\u0901", "یییکهههه\u0902", strict=True)),
        **{chr(code): chr(code - 0x60) for code in range(0x30A1, 0x30F7)},
    }
)  # fmt: skip
#: A line with which a base model goes on after its answer, as in its prompt.
_NEXT = re.compile(
    r"\n[ \t#*>_]*(?:input|question|sentence|text|review|prompt|user|human|instruction|q|english|句子"
    r"|问题|输入|用户|下面这句话)"
    r"(?: ?\d{1,2})?[ \t*_]*(?:[:：\"]|表达)",
    re.IGNORECASE,
)
_ANSWER_TAG = re.compile(r"<(?:answer|label|choice|output|final)>|\\f?boxed\s*\{", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:text|math)\w*\s*\{")
_LINE_TAG = re.compile(
    r"<(?:br|p|li|tr|/answer|/label|/choice|/output|/final)\b[^<>\n]{0,80}>", re.IGNORECASE
)
_TAG = re.compile(
    r"</?(?:b|i|u|p|s|w|em|ol|ul|li|td|tr|div|code|span|strong|table|item|entity)\b[^<>\n]{0,80}>",
    re.IGNORECASE,
)
#: Keys of JSON with the answer, and with what is not the answer.
_ANSWER_KEY = re.compile(
    r".*(?:answer|label|choice|option|result|class|prediction|verdict|output|sentiment|答案|选|情感|标签).*",
    re.I,
)
_REMARK_KEY = re.compile(
    r".*(?:expla|reason|rationale|thought|thinking|note|comment|analysis|confiden|alternativ|input|sentence|question"
    r"|error|message|理由|解释|说明|思考|分析).*",
    re.I,
)


def plain(text: str) -> str:
    """Return a text without differences that readers do not see as another spelling.

    Full-width and half-width characters, HTML's escapes, accents, the nukta and Arabic vowel signs, Arabic and Persian
    letters, katakana and hiragana, quotation marks and marks that end a sentence. Case is kept. The tokens of a chat
    template and what is struck through are left out.
    """
    text = _same(html.unescape(text))
    text = _STRUCK.sub(" ", _TOKENS.sub("\n", _INVISIBLE.sub("", text)))
    return unicodedata.normalize("NFKC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def _same(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_SAME)


class _Tier(IntEnum):
    """How a reply mentions an option; the options of the highest tier are its choice."""

    NOT, REMARK, MENTIONED, CONCLUDED, STATED, FINAL = range(6)


@dataclass(slots=True)
class _Mention:
    option: int
    start: int
    stop: int
    tier: _Tier = _Tier.MENTIONED
    is_rejected: bool = False
    is_rejected_after: bool = False


# A letter, digit or sign of a script with spaces between words.
_LETTER = r"[^\W_\u3005-\u30ff\u3400-\u9fff]|[\u0900-\u0dff]"
_BEGIN, _END = rf"(?<!{_LETTER.replace('|', ')(?<!')})", rf"(?!{_LETTER})"


def _any(field: str, *, begins: bool = True) -> str:
    """Return a pattern for the words of all languages that have one role."""
    spaced = "|".join(filter(None, (getattr(words, field) for words in SPACED)))
    unspaced = "|".join(filter(None, (getattr(words, field) for words in UNSPACED)))
    # The words are compared with plain texts.
    return plain(f"(?:{_BEGIN if begins else ''}(?:{spaced}){_END}|{unspaced})")


_QUOTES = r"[\s\"'*_`(\[{<$]"
_CLOSING = r"[\"'*_`)\]}>$]{0,4}"
_FILL = rf"(?:[\s\"'*_`(\[{{<$:=>,✓→-]|{_any('link')}){{0,12}}\Z"
_STATED = re.compile(
    rf"(?:{_any('answer')})(?:{_FILL}|[^.;!?\n]{{0,50}} (?:is|was|would be):?{_QUOTES}*\Z)|✓{_QUOTES}*\Z",
    re.I,
)
_CONCLUDED = re.compile(rf"(?:{_any('so')}|→|[=-]>){_FILL}", re.I)
_FINAL = re.compile(_any("final"), re.I)
_AFFIRMS = re.compile(_any("affirms"), re.I)
_REJECTS = re.compile(rf"{_any('rejects')}(?:[^.;!?\n]{{0,40}})\Z", re.I)
_REJECTS_LABEL = re.compile(
    rf"(?:{_BEGIN}(?:wrong|incorrect|rejected|not)(?: \w+)?|错误\w{{0,4}}) ?[:=]{_QUOTES}*\Z"
    rf"|(?:✗|\bover|(?<=\w) >){_QUOTES}*\Z",
    re.I,
)
_REJECTED = re.compile(
    rf"{_CLOSING}[ \t]{{0,3}}-?(?:{_any('rejected', begins=False)}|✗|\?+{_CLOSING}\s*(?:hm+\W*)?(?:no"
    rf"|nope|wrong|not|不|nee|non)\b)",
    re.I,
)
_RIGHT = re.compile(
    rf"{_CLOSING}[ \t]{{0,3}}(?:{_any('right', begins=False)}|✓|\?+\s*(?:yes|yep|correct|right|对|是)\b)",
    re.I,
)
_ABOUT = re.compile(rf"{_CLOSING}[ \t]{{0,3}}(?:{_any('about', begins=False)})", re.I)
_SIMILAR = re.compile(
    rf"(?<!un)(?:like|similar to|match(?:es)?|same as|as in|fits|with)\s(?:the\s)?{_QUOTES}*\Z", re.I
)
_STOPS = re.compile(rf"[.;!?:\n]|,(?!\s*(?:or|nor)\b)|→|[=-]>|{_any('stops')}", re.I)
_BECAUSE = re.compile(rf"[^.!?\n]*?{_any('because')}[^.!?\n]*", re.I)
_SO = re.compile(_any("so"), re.I)
_FIRST = re.compile(rf"{_any('first')}[^.;!?\n,]*,?[^.;!?\n,]{{0,30}}\Z", re.I)
_IF = re.compile(rf"{_BEGIN}(?:if|unless|otherwise|whether){_END}|如果|若是|否则", re.I)
_TURNS = re.compile(_any("turns"), re.I)
_BUT = re.compile(_any("but"), re.I)
_JOINED = re.compile(
    rf"(?:[\s\"'*_`()\[\],/\\|&;.+\d-]|{_any('joins')}|{_BEGIN}(?:the|option|label|letter"
    rf"|answer)s?{_END}){{0,24}}",
    re.I,
)
_SENTENCE = re.compile(r"[.!?](?=\s)|\n|[.!]\Z")
_SENTENCE_END = re.compile(r"[ \"'*_`)]*(?:[.;!?\n]|\Z)")
_PLURAL = re.compile(r"[\"'*_`)]*\s*(?:are|were|do|don't|both|all)\b")
_OR = re.compile(_any("joins") + "|[/&]", re.I)
_ASKED = re.compile(rf"{_CLOSING}[ \t]{{0,3}}\?")
_DEFINED = re.compile(rf"{_CLOSING}\s*(?:[:=→]|->|--?\s|–|—)\s*{_QUOTES}*[^\W\d_]")
_EXPLAINED = re.compile(rf"{_CLOSING}(?:[.:;,]|\s*[-–—(]|\s+(?:because|since|as)\b|\s*\n)\s*\S", re.I)
_UNDECIDED = re.compile(_any("undecided"), re.I)
_REMARK = re.compile(r"\([^()\n]{3,200}\)")
_MARK = re.compile("[✗✓]")
#: A row of a table.
_ROW = re.compile(r"^\|[^\n]*\w{2}[^\n]*\|$", re.MULTILINE)
#: Words after which a letter or "no" is an answer, not an article or part of a phrase ("A vowel", "no difference").
_AFTER_ANSWER = re.compile(
    r" (?:although|and|applies|are|as|based|because|but|can|can't|cannot|category|class|could|definitely|does|doesn't"
    r"|due|examples?|fits|for|from|given|group|here|if|instead|is|isn't|it|labels?|me|must|not|of course|only|or|over"
    r"|rather|seems?|since|texts?|then|though|to|too|type|was|when|which|while|with|would|wouldn't)\b"
    r"|(?! +[A-Za-zÀ-ɏ]{2})"
)


@lru_cache(maxsize=256)
def _pattern(
    options: tuple[tuple[str, ...], ...],
) -> tuple[re.Pattern[str], dict[str, int], Callable[[str], str]]:
    """Return the pattern of all forms, the option of each, and the function that makes texts comparable.

    Forms of different options that are the same in plain spelling are told apart as they are written.
    """
    spell: Callable[[str], str] = plain
    spelled, is_clear = _spelled(options, plain)
    if not is_clear:
        spell = _as_written
        spelled, _ = _spelled(options, _as_written)
    # A label in lower case is an answer too, but of a shape such as P, p is another.
    if all(any(re.fullmatch("[A-Z]", form) for form in forms) for forms in options):
        for key, index in list(spelled.items()):
            if re.fullmatch("[A-Z]", key):
                spelled.setdefault(key.lower(), index)
    parts = []
    for key in sorted(spelled, key=lambda key: (-len(key), key)):
        shape = re.sub(r"(?:\\ |\\-|[ -])+", "[ -]?", re.escape(key)) if len(key) > 1 else re.escape(key)
        begin = _BEGIN if re.match(_LETTER, key) else ""
        end = f"{_END}(?!['-][A-Za-z]|\\+)" if re.match(_LETTER, key[-1]) else ""
        parts.append(f"{begin}(?i:{shape}){end}" if len(key) > 1 else f"{begin}{shape}{end}")
    return re.compile("|".join(parts) or r"(?!)"), {_key(key): index for key, index in spelled.items()}, spell


def _spelled(options: Sequence[Sequence[str]], spell: Callable[[str], str]) -> tuple[dict[str, int], bool]:
    """Return the option of each form, and whether no two options share one."""
    spelled: dict[str, int] = {}
    is_clear = True
    for index, forms in enumerate(options):
        for form in forms:
            # A joiner may be written as a space or left out.
            shape = spell(re.sub("[\u200c\u200d]", " ", form)).strip() if len(form) > 1 else _same(form)
            if shape:
                key = shape if len(shape) == 1 else shape.casefold()
                is_clear = is_clear and spelled.setdefault(key, index) == index
    return spelled, is_clear


def _as_written(text: str) -> str:
    return _STRUCK.sub(" ", _TOKENS.sub("\n", html.unescape(text)))


def _key(form: str) -> str:
    return form if len(form) == 1 else re.sub("[ -]", "", form).casefold()


def stated(reply: str, options: Sequence[Sequence[str]], *, strict: bool = False) -> int | None:
    """Return the index of the option that a reply states as its answer; None if it states none or several.

    An answer may be the whole reply, a line, a value of JSON, what comes after words such as "the answer is", or the
    only option that is mentioned and not rejected. What a reply takes back ("wait, actually") does not count.

    :param options: The forms of each option, such as ``(("A", "positive"), ("B", "negative"))``. Words are found in any
        case and spelling. Labels such as A and B may be in lower case where they cannot be an article; other single
        characters count as they are.
    :param strict: Only what the reply calls its answer counts, not the only option that it mentions.
    """
    pattern, indexes, spell = _pattern(tuple(map(tuple, options)))
    is_long = len(reply) > 2 * LONGEST_END
    text = spell(f"{reply[:LONGEST_END]}\n\n{reply[-LONGEST_END:]}" if is_long else reply)
    if all(len(form) == 1 for forms in options for form in forms):
        # A small model repeats itself.
        text = re.sub(r"\b([^\W\d_])\1+\b", r"\1", text)
    text = without_continuation(text, pattern)
    values, rest = found_json(text) if '"' in text or "'" in text else ([], text)
    least = _Tier.STATED if strict else _Tier.REMARK
    texts = ["\n".join(_answers(value)) for value in values]
    answers = [one for one in (_chosen(text, pattern, indexes, least) for text in texts) if one[1]]
    if answers:
        chosen = [index for index, _ in answers]
        return chosen[-1] if len(set(chosen)) == 1 or _TURNS.search(rest) else None
    return _chosen(rest if values else text, pattern, indexes, least)[0]


def rejects(reply: str, forms: Sequence[str]) -> bool:
    """Return True if a reply rejects one of these forms each time that it mentions one ("it is not A")."""
    pattern, indexes, spell = _pattern((tuple(forms),))
    found = _mentions(spell(reply), pattern, indexes)
    return bool(found) and all(one.is_rejected for one in found)


def without_continuation(text: str, answer: re.Pattern[str]) -> str:
    """Return a text up to the line after its first ``answer`` in which a base model goes on with another question."""
    first = answer.search(text)
    following = _NEXT.search(text, first.end()) if first else None
    return text[: following.start()] if following else text


def _answers(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value that may be its answer."""
    if isinstance(value, tuple):
        members = [(key, inner) for key, inner in value if not _REMARK_KEY.fullmatch(key)]
        named = [(key, inner) for key, inner in members if _ANSWER_KEY.fullmatch(key)]
        for _, inner in named or members:
            yield from _answers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _answers(inner)
    elif isinstance(value, str | bool):
        yield str(value)


def _chosen(
    text: str, pattern: re.Pattern[str], indexes: dict[str, int], least: _Tier
) -> tuple[int | None, bool]:
    """Return the option that a plain text chooses, and whether it mentions any."""
    text = _marked_up(text, pattern)
    found = _mentions(text, pattern, indexes)
    _reject_joined(text, found)
    return _decided(text, found, least), bool(found)


def _marked_up(text: str, pattern: re.Pattern[str]) -> str:
    """Return a text with words instead of the marks and tags that have a meaning, and without the others."""
    text = _ANSWER_TAG.sub(" answer: ", text.replace("[x]", "✓").replace("[ ]", "✗"))
    text = _ROW.sub(lambda match: match[0].replace("|", "\n"), text)
    first, mark = pattern.search(text), _MARK.search(text)
    if first and mark:
        # Ticks and crosses come before or after all options.
        words = (" not: ", " answer: ") if mark.start() < first.start() else (" is wrong.", " is correct.")
        text = re.sub(" *✗", words[0], re.sub(" *✓", words[1], text))
    return _LATEX.sub("", _TAG.sub("", _LINE_TAG.sub("\n", text)))


def _mentions(text: str, pattern: re.Pattern[str], indexes: dict[str, int]) -> list[_Mention]:
    """Return the mentions of options, each with its tier."""
    text = _AFFIRMS.sub(lambda match: " " * len(match[0]), text)
    found = [
        _Mention(indexes[_key(match[0])], match.start(), match.end())
        for match in pattern.finditer(text)
        if _key(match[0]) in indexes and _is_mention(text, match, indexes)
    ]
    if len(found) > _MOST_MENTIONS:
        found = found[: _MOST_MENTIONS // 2] + found[-_MOST_MENTIONS // 2 :]
    # A mark between words is punctuation, if a letter or word is an option too.
    if not all(_is_punctuation(text, one) for one in found):
        found = [one for one in found if not _is_punctuation(text, one)]
    _judge(text, found)
    return found


def _is_punctuation(text: str, one: _Mention) -> bool:
    """Return True for a mark between words, such as a dash."""
    mark, before = text[one.start], text[max(0, one.start - 1) : one.start]
    is_mark = unicodedata.category(mark) == "Pd" or (mark.isascii() and not mark.isalnum())
    return is_mark and before == " " == text[one.stop : one.stop + 1]


def _is_mention(text: str, match: re.Match[str], indexes: dict[str, int]) -> bool:
    """Return True unless the match is an article ("A vowel"), part of a phrase ("no difference"), or punctuation."""
    form, start = match[0], match.start()
    before, after = text[max(0, start - 1) : start], text[match.end() : match.end() + 30]
    if not form[0].isalnum() and len(form) == 1:
        return (not before or before in " \n\t\"'`*_([{$:/" or before > "\u2fff") and (
            not after or after[0] in " \n\t\"'`*_)]}$.,;:!?/"
        )
    is_letter = len(form) == 1 and form.isascii() and form.isalpha()
    if (is_letter or form.casefold() == "no") and not _AFTER_ANSWER.match(after):
        return False
    if is_letter and text[max(0, start - 2) : start] in ("N/", "n/"):
        return False
    is_lower = is_letter and form.islower() and indexes.get(form.upper()) == indexes[form]
    if not is_lower:
        return True
    # A lower-case letter at the end may be the article of a reply that was cut off, unless a mark comes before it.
    lead = text[max(0, start - 8) : start].rstrip()[-1:]
    return (bool(after) and after[0] != " ") or not lead or lead in "\"'`*([:=>"


def _judge(text: str, found: Sequence[_Mention]) -> None:
    """Set the tier of each mention."""
    remarks = {
        place for match in _REMARK.finditer(text) for place in range(match.start() + 2, match.end() - 2)
    }
    last = 0
    for number, one in enumerate(found):
        is_last = number + 1 == len(found)
        following = len(text) if is_last else found[number + 1].start
        before = text[max(last, one.start - _AROUND) : one.start]
        after = text[one.stop : min(following, one.stop + _AROUND)]
        clause = before[max((stop.end() for stop in _STOPS.finditer(before)), default=0) :]
        rejected = _REJECTED.match(after)
        if rejected and not is_last and not after[rejected.end() :].strip() and _REJECTS.search(after):
            # In "A nie B", the word between belongs to the option after it.
            rejected = None
        one.is_rejected_after = rejected is not None
        is_rejected_before = _REJECTS.search(clause) or _REJECTS_LABEL.search(before)
        one.is_rejected = one.is_rejected_after or bool(is_rejected_before)
        one.tier = _Tier.NOT if one.is_rejected else _tier(text, one, before, after, clause)
        gap = text[last : one.start] if number else ""
        # A remark on another option follows in the same sentence, or is in brackets.
        is_reason = len(gap) < 200 and _BECAUSE.fullmatch(gap) and not _SO.search(gap)
        if (is_reason and one.tier < _Tier.FINAL) or one.start in remarks or one.stop - 1 in remarks:
            one.tier = min(one.tier, _Tier.REMARK)
        last = one.stop


def _tier(text: str, one: _Mention, before: str, after: str, clause: str) -> _Tier:
    if _RIGHT.match(after):
        return _Tier.STATED
    around = text[max(0, one.start - _AROUND) : one.start], text[one.stop : one.stop + _AROUND]
    if not _has_letter(_SENTENCE.split(around[0])[-1] + _SENTENCE.split(around[1])[0]):
        return _Tier.STATED
    if _ASKED.match(after):
        return _Tier.NOT
    if (_ABOUT.match(after) and not _SIMILAR.search(before)) or _IF.search(clause):
        return _Tier.NOT
    if _FIRST.search(before):
        return _Tier.REMARK
    if _STATED.search(before):
        return _Tier.FINAL if _FINAL.search(before) else _Tier.STATED
    if not _has_letter(text[: one.start][:200]) and one.start <= 200 and _EXPLAINED.match(after):
        return _Tier.STATED
    return _Tier.CONCLUDED if _CONCLUDED.search(before) else _Tier.MENTIONED


def _has_letter(text: str) -> bool:
    return re.search(r"[^\W\d_]", text) is not None


def _reject_joined(text: str, found: Sequence[_Mention]) -> None:
    """Reject what is joined to a rejected option, and options of which none is chosen: "A or B", definitions."""
    gaps = [text[one.stop : other.start] for one, other in pairwise(found)]
    is_joined = [_are_joined(text, gap, other) for gap, other in zip(gaps, found[1:], strict=True)]
    is_plural = False
    for place in reversed(range(len(gaps))):
        # "A, B and C are wrong", but not "A, and B is wrong"
        one, other, gap = found[place], found[place + 1], gaps[place]
        is_list = _OR.search(gap) and ("," not in gap or _PLURAL.match(text, other.stop))
        is_plural = bool(other.is_rejected_after and is_joined[place] and (is_plural or is_list))
        if is_plural:
            one.is_rejected = one.is_rejected_after = True
            one.tier = _Tier.NOT
    offered: set[int] = set()
    joined: set[int] = set()
    same: list[tuple[int, int]] = []
    for place, gap in enumerate(gaps):
        one, other = found[place], found[place + 1]
        if one.option == other.option and (_JOINED.fullmatch(gap[:40]) or re.fullmatch(r"\W{1,4}", gap)):
            # "A. positive" is one option of a list.
            same.append((place, place + 1))
        elif not is_joined[place]:
            joined = set()
        elif one.is_rejected and not other.is_rejected and _OR.search(gap):
            other.is_rejected, other.tier = True, _Tier.NOT
        elif not one.is_rejected and not other.is_rejected and ((one.tier and other.tier) or _OR.search(gap)):
            # In "between A and B, A", the last one is chosen.
            if other.option in joined and "," in gap:
                joined = set()
                continue
            joined |= {one.option, other.option}
            offered |= {place, place + 1}
    for pair in (*same, *reversed(same)):
        if not offered.isdisjoint(pair):
            offered.update(pair)
    defined = [place for place, one in enumerate(found) if one.tier and _DEFINED.match(text, one.stop)]
    if len({found[place].option for place in defined}) > 1:
        offered.update(defined)
    for place in offered:
        found[place].tier = _Tier.NOT


def _are_joined(text: str, gap: str, other: _Mention) -> bool:
    """Return True if two options are listed; what begins another sentence is not, unless it is all of it."""
    if len(gap) > 40 or gap.strip() == "(" or not _JOINED.fullmatch(gap):
        return False
    return not re.search(r"[.;!]\s", gap) or _SENTENCE_END.match(text, other.stop) is not None


def _decided(text: str, found: Sequence[_Mention], least: _Tier) -> int | None:
    """Return the only option of the highest tier, after what a reply takes back."""
    kept: list[_Mention] = []
    for one in found:
        if kept and one.tier and _TURNS.search(text, kept[-1].stop, one.start):
            kept.clear()
        if one.tier:
            kept.append(one)
    if not kept:
        return None
    tier = max(one.tier for one in kept)
    if tier < least:
        return None
    chosen: list[_Mention] = []
    for one in (one for one in kept if one.tier == tier):
        if chosen and chosen[-1].option != one.option and _BUT.search(text, chosen[-1].stop, one.start):
            chosen.clear()
        chosen.append(one)
    following = next(
        (one for one in kept if one.start > chosen[-1].start and one.option != chosen[-1].option), None
    )
    if following and following.tier > _Tier.REMARK:
        gap = text[chosen[-1].stop : following.start]
        if _BUT.search(gap) and not re.search(r"[.!?\n]", gap):
            return None
    if len({one.option for one in chosen}) > 1 or (tier <= _Tier.CONCLUDED and _UNDECIDED.search(text)):
        return None
    return chosen[0].option


#: Names of formats after a code fence.
_FORMATS = frozenset(
    ("text", "txt", "plaintext", "plain", "json", "yaml", "markdown", "md", "python", "html", "xml", "answer")
)


def fenced(reply: str) -> str | None:
    """Return the text of the last code fence that has any, also of one that is not closed; None without one."""
    inside = reply.split("```")[1::2]
    for text in reversed(inside):
        first, _, rest = text.partition("\n")
        text = rest if first.strip().lower() in _FORMATS and rest.strip() else text
        if text.strip():
            return text.strip()
    return None


_ITEM = re.compile(
    r"(?P<blank>[ \t>]*)[\"'*_]{0,4}(?:[(\[]?(?P<number>\d{1,3})(?:\\?[.):\]、](?!\d)"
    r"|[)\]]?\s*[-–—](?=\s))|[-•·–—‣◦+](?=\s)|\*(?!\*)"
    r"|•)[*_]{0,2}\s*(?P<text>\S.*)"
)
_INLINE = re.compile(r"(?<=\S)[ ,;]\s*\(?(\d{1,2})[.)]\s+(?=\S)")
_FIELD = re.compile(
    r"[ \t]*[*_]{0,2}(?P<key>[^\W\d][\w /&-]{0,40}?)[*_]{0,2}\s?[:：][*_]{0,2}\s?(?P<value>\S.*)"
)
_XML = re.compile(r"<([A-Za-z]\w{0,40})>([^<>\n]{1,200})</\1>")
_ASIDE = re.compile(
    r"[ \t>*_#]*(?:not\b[^:\n]{0,40}|non-\w[^:\n]{0,40}|(?:these|the following) are not[^:\n]{0,40}"
    r"|(?:omitted|excluded|ignored"
    r"|rejected|explanations?|notes?|reason(?:ing)?|rationale|remarks?|comments?|changes|what changed"
    r"|total\b[^:\n]{0,30}"
    r"|relations|differences?|解释|说明|注意?)[ \w]{0,20}|why\b[^:\n]{0,60})[*_]{0,2}:",
    re.I,
)
_LISTED = re.compile(
    r"[ \t*_]*(?:[\w ]{0,40}\b)?(?:entit(?:y|ies)|items?|names|list|answers?"
    r"|results?)\b[\w *_]{0,30}[:：][*_]{0,2}\s*(?P<items>\S.*)",
    re.I,
)
_NONE = re.compile(
    r"\W*(?:(?:named )?entit\w+\W*)?(?:none|nothing|n/a|empty|empty list|no \w+)(?: (?:were |was "
    r"|are )?(?:found|present|detected))?\W*"
    r"|[^\n]{0,80}\b(?:there (?:are|is|were) (?:no\b|none)|(?:contains?|has|have|mentions?|found|see"
    r"|find|identify) no\b"
    r"|(?:not|n't) (?:contain|have|mention|include|see|find|identify|detect)\b)[^:\n]{0,80}"
    r"|no (?:\w+ ){0,2}(?:entities|names|items)\b[^:\n]{0,60}",
    re.I,
)
_NAME_KEY = re.compile(r"(?:entity|item)?[ _]?(?:name|text|value|word|mention|term|span|entity|item)", re.I)
_KIND_KEY = re.compile(r"(?:entity|item)?[ _]?(?:type|class|category|label|kind|tag)", re.I)


def listed(reply: str) -> list[str] | None:
    """Return the items of the list in a reply; an empty list if it says that there are none, None without a list.

    The items may be numbered, bulleted, lines with a label, cells of a table, values of JSON, or separated by commas.
    An item keeps its label ("city: Paris"), also if JSON or a table has it in a field of its own.
    """
    text = unicodedata.normalize("NFKC", html.unescape(reply))
    text = _STRUCK.sub(" ", _TOKENS.sub("\n", text)).translate(dict.fromkeys(map(ord, "“”„"), '"'))
    text = _XML.sub(_item_of_tag, text)
    text = _TAG.sub("", _LINE_TAG.sub("\n", re.sub(r"<li\b[^<>\n]{0,80}>", "\n- ", text)))
    for turn in reversed(deque(_TURNS.finditer(text), maxlen=3)):
        # A reply that corrects itself lists all items again; an item may be the instruction WAIT or the song Sorry.
        if _BEFORE_ITEM.search(text, max(0, turn.start() - 9), turn.start()):
            continue
        if (items := _items(text[turn.end() :], is_marked=True)) is not None:
            return items
    return _items(text)


def _item_of_tag(match: re.Match[str]) -> str:
    is_markup = _LINE_TAG.match(match[0]) or _TAG.match(match[0])
    return match[0] if is_markup else f"\n- {match[1]}: {match[2]}\n"


def _items(text: str, *, is_marked: bool = False) -> list[str] | None:
    values = found_json(text)[0] if '"' in text or "'" in text or "[]" in text else []
    for value in values:
        # An object with a message only is no list.
        if not (isinstance(value, tuple) and value and all(_REMARK_KEY.fullmatch(key) for key, _ in value)):
            return [item for item in _records(value) if item]
    lines = _without_asides(without_continuation(text, _ANY_ITEM))
    items = _rows(lines) or _marked(lines)
    if not items and not is_marked:
        fields = [line for line in lines if _FIELD.fullmatch(line)]
        items = [_trimmed(line) for line in fields] if len(fields) > 1 else []
        listing = next(filter(None, map(_LISTED.fullmatch, lines)), None)
        if listing and len(fields) < 2 and not _NONE.fullmatch(listing["items"]):
            items = [_trimmed(item) for item in re.split(r"[,;、]\s+(?:and )?|\s+and\s+", listing["items"])]
    if len(items) == 1 and _NONE.fullmatch(items[0]):
        return []
    if items:
        return items
    return [] if not is_marked and any(map(_NONE.fullmatch, lines)) else None


#: what stands before a name in a list: a mark, a number, a label
_BEFORE_ITEM = re.compile(r"(?:[-*•:|\"'(\[]|\d[.)])[ \t]{0,4}\Z")
_ANY_ITEM = re.compile(rf"^{_ITEM.pattern}", re.MULTILINE)


def _without_asides(text: str) -> list[str]:
    """Return the lines of a text without its fences and without remarks: "Not entities: …", "Explanation: …"."""
    kept: list[str] = []
    is_aside = False
    for line in text.replace("```", "\n").splitlines():
        if _ASIDE.match(line):
            is_aside = True
        elif not is_aside or (not any(map(_ITEM.fullmatch, kept)) and not line.strip()):
            is_aside = False
            if line.strip():
                kept.append(line.rstrip())
    return kept


def _rows(lines: Sequence[str]) -> list[str]:
    """Return the rows of a table as items: the longest cells, without numbers, joined by a colon, kind first."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in lines
        if line.strip().startswith("|")
    ]
    if len(rows) < 3 or not all(re.fullmatch(r":?-+:?", cell) for cell in rows[1]):
        return []
    header = rows[0]
    return [item for row in rows[2:] for item in _records(tuple(zip(header, row, strict=False)))]


def _marked(lines: Sequence[str]) -> list[str]:
    """Return the items of the first numbered or bulleted list; of a list on one line, what is between its numbers."""
    found = [match for match in map(_ITEM.fullmatch, lines) if match]
    depths = [len(match["blank"]) for match in found if match["number"]]
    found = [match for match in found if match["number"] or len(match["blank"]) >= min(depths, default=0)]
    if not found:
        first = next((place for line in lines if (place := re.search(r"(?:^|\s)\(?1[.)]\s", line))), None)
        return [_trimmed(part) for part in _INLINE.split(first.string[first.end() :])[::2]] if first else []
    items: list[str] = []
    heading, last = "", 0
    is_numbered = bool(found[0]["number"])
    for match in found:
        text = _trimmed(match["text"])
        if last and match["number"] and int(match["number"]) == 1:
            break
        if match["number"] or not is_numbered:
            last, heading = int(match["number"] or 0), text if text.endswith(":") else ""
            items += [] if heading else [text]
        elif heading:
            items.append(f"{heading} {text}")
    if len(found) == 1 and len(parts := _INLINE.split(found[0]["text"])) > 1:
        return [_trimmed(part) for part in parts[::2]]
    return items


def _records(value: Any) -> list[str]:
    """Return the items in a JSON value."""
    if isinstance(value, list):
        return [item for inner in value for item in _records(inner)]
    if not isinstance(value, tuple):
        return [_trimmed(str(value))] if isinstance(value, str) else []
    members = [(key.strip(" *_"), inner) for key, inner in value if not _REMARK_KEY.fullmatch(key)]
    names = [inner for key, inner in members if _NAME_KEY.fullmatch(key) and isinstance(inner, str)]
    kinds = [inner for key, inner in members if _KIND_KEY.fullmatch(key) and isinstance(inner, str)]
    if names and len(members) > 1:
        return [f"{kinds[0]}: {names[0]}" if kinds else names[0]]
    if len(members) == 1 and not isinstance(members[0][1], str):
        return _records(members[0][1])
    return [
        item if re.fullmatch(r"\W*|#|(?:no\.?|id|\w*?)\W?\d+", key) else f"{key}: {item}"
        for key, inner in members
        for item in _records(inner)
        if len(members) == 1 or not re.fullmatch(r"#|no\.?|id|number", key, re.I)
    ]


def _trimmed(item: str) -> str:
    """Return an item without emphasis, quotation marks around it, and the mark that ends it."""
    item = re.sub(r"\*\*|__|`", "", item).strip().strip("*_").strip()
    for mark in "\"'":
        if item.startswith(mark) and item.endswith(mark) and len(item) > 1:
            return item[1:-1].strip()
        if item.count(mark) == 1 and (item[:1] == mark or item[-1:] == mark):
            item = item.strip(mark).strip()
    return item.rstrip(";,").strip()


#: Characters that a segmentation keeps: of scripts without spaces, and marks that end a sentence.
_CONTENT = "\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff。｡！？!?"
_ENDS = "。｡．.！!？?…"
_SEPARATOR = re.compile(r"[\s/\\|｜／│┃‖,，、;；:：.．·•・‧∙\-－–—→⇒⟶>＞=＝+＋_＿▁#＃&＆^~～]|\*{4}")
_BRACKET = re.compile(r"[\"'“”‘’「」『』《》〈〉【】〔〕()（）\[\]［］{}｛｝<＜`]")
#: An explanation after a word, or the Chinese name of a part of speech.
_GLOSS = re.compile(
    rf"(?<=[{_CONTENT}*`])\s?[（(\[【<][^（）()\[\]【】<>\n]{{1,30}}[)）\]】>]"
    r"|(?<=[\s/|:：\-–—_\"'，,])[\u4e00-\u9fff]{0,4}(?:词|标点|符号|人名|地名)(?=[\s/|,，;；\"'。)）\]}]|$)"
)
_INTRODUCED = re.compile(
    r"(?:如下|结果|句子|答案|切分|分词|切|分)[是为成]?\W*$|(?:好的|当然|可以|没问题|收到)[,，]\s*$"
)
_COMMENT = re.compile(r"[ \t]{0,3}[。.]?[ \t]{0,3}(?:[（(\[][^）)\]\n]{1,12}|[是为][^，。\n]{1,12}|[✗✓])")
_CALLED_WRONG = re.compile(
    rf"{_any('first')}|错|误|不(?:正确|准确|对|应|能|可|是|要切)|而非|初步|草稿|[改正调整]前|✗|\b(?:wrong|incorrect|not|draft)\b",
    re.I,
)
_CALLED_RIGHT = re.compile(
    rf"{_any('turns')}|{_any('final')}|准确|正确|应[为该]|[修改]|✓|\b(?:correct|revised)\b", re.I
)
#: Characters before a segmentation that name it.
_NAME = 40


def segmented(reply: str, sentence: str) -> list[str] | None:
    """Return the words into which a reply cuts a sentence; None if it has no or several segmentations of it.

    Words may be separated by spaces, lines, slashes, bars or commas, and may be quoted, numbered or tagged. The reply
    may introduce, repeat or explain the segmentation, and leave out the final mark. The sentence's own whitespace is
    no boundary and left out. A sentence with other characters or without boundaries is not read.
    """
    whole = "".join(sentence.split())
    core = whole.rstrip(_ENDS) or whole
    if not core:
        return None
    own = frozenset(accumulate(map(len, sentence.split())))
    text = html.unescape(reply).replace("✔", "✓").replace("✅", "✓").replace("❌", "✗")
    text = _STRUCK.sub(" ", _TOKENS.sub("\n", text))
    for version in (text, _GLOSS.sub("()", text)):
        found = list(_cuts(version, core))
        cuts = [cut for cut in found if cut.edges - own] or [cut for cut in found if cut.has_final_word]
        right = [cut for cut in cuts if not _CALLED_WRONG.search(cut.name)]
        for group in (right, [cut for cut in right if _CALLED_RIGHT.search(cut.name)]):
            complete = [cut for cut in group if cut.is_complete]
            if complete and len({cut.edges for cut in group}) == 1:
                words = [core[a:b] for a, b in pairwise([0, *sorted(complete[-1].edges), len(core)])]
                final = whole[len(core) :]
                if final and complete[-1].has_final_word is not False:
                    return [*words, final]
                return [*words[:-1], words[-1] + final]
        if len(cuts) > 1:
            return None
    return None


@dataclass(frozen=True, slots=True)
class _Cut:
    """One segmentation of a sentence, and what the reply calls it.

    :param has_final_word: The sentence's final mark is a word of its own; None if the reply leaves it out.
    """

    edges: frozenset[int]
    has_final_word: bool | None
    is_complete: bool
    name: str


def _cuts(text: str, core: str) -> Iterator[_Cut]:
    """Yield the occurrences of a sentence in a text, whatever is between its characters."""
    content = f"{_CONTENT}{re.escape(core)}"
    last = 0
    for match in re.finditer(f"([^{content}]{{0,80}})".join(map(re.escape, core)), text):
        gaps = list(match.groups())
        edges, end = _edges(gaps), match.end()
        separators = {re.sub(r"\w+", "x", gap) for gap in gaps if _separates(gap)}
        before = re.search(
            f"([{content}])?([^{content}]*)\\Z", text[max(0, match.start() - 2 * _NAME) : match.start()]
        )
        after = re.match(f"([^{content}]*)([{content}])?", text[end : end + 2 * _NAME])
        assert before is not None
        assert after is not None
        named = text[max(last, match.start() - _NAME) : match.start()]
        # A word that is separated like the sentence's own words was added to it.
        is_begun = (
            (before[1] or "。") in _ENDS
            or (before[2] != "" and re.sub(r"\w+", "x", before[2]) not in separators)
            or _INTRODUCED.search(named) is not None
        )
        is_marked = (after[2] or "") in _ENDS and after[2] is not None
        is_ended = (
            after[2] is None
            or is_marked
            or (after[1] != "" and re.sub(r"\w+", "x", after[1]) not in separators)
        )
        dot = None if is_marked else re.match(r"[\s/|,，、\"']*[.．](?!\w)", after[1])
        space = after[1][: dot.end() - 1] if dot else after[1]
        comment = _COMMENT.match(text[end : end + _NAME])
        clauses = [one for one in re.split(r"[。！？!?；;，,\n]", named) if re.search(r"[^\W\d_]|[✗✓]", one)]
        if edges is not None:
            name = (clauses[-1:] or [""])[0] + (comment[0] if comment else "")
            yield _Cut(
                edges, bool(_separates(space)) if is_marked or dot else None, is_begun and is_ended, name
            )
            last = end + (comment.end() if comment else 0)


def _edges(gaps: Sequence[str]) -> frozenset[int] | None:
    """Return the boundaries among the gaps between a sentence's characters; None if no segmentation has such gaps."""
    kinds = [_separates(gap) for gap in gaps]
    edges = frozenset(place for place, kind in enumerate(kinds, 1) if kind)
    bare = [gap for gap, kind in zip(gaps, kinds, strict=True) if kind and not re.search("[A-Za-z0-9]", gap)]
    commas = sum(re.search("[,，、;；:：]", gap) is not None for gap in bare)
    # Commas at some places only, or at few, were added to the sentence.
    is_changed = 0 < commas < len(bare) or (commas > 0 and len(edges) + 1 < 0.3 * (len(gaps) + 1))
    return None if None in kinds or is_changed else edges


def _separates(gap: str) -> bool | None:
    """Return True if a gap is a word boundary, False if it is not, None if no segmentation has it."""
    brackets = len(_BRACKET.findall(gap))
    if _SEPARATOR.search(gap) or brackets > 1:
        return True
    return None if brackets or re.search("[A-Za-z0-9]", gap) else False
