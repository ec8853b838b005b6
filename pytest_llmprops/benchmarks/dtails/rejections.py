"""Variations that a reply rejects in words: "ken (not weet)", "weet is wrong", "weet ではなく".

The words are English or of the target language. A rejection is next to the names of variations, so "not sure: weet"
rejects nothing. It extends over a list ("not a, b or c").

The names are one private-use character each in the text that is searched, so no variation is read as a rejection.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

from pytest_llmprops.benchmarks.dtails.rejection_words import (
    AFTER,
    AFTER_ENGLISH,
    AFTER_JAPANESE,
    ALSO_NOT,
    AND,
    ARTICLE,
    BEFORE,
    BEFORE_ALL,
    COMMA,
    CROSSES,
    FILLER,
    OR,
    PARTICLES,
    SINCE,
    TICKS,
    WRONG_ONE,
)
from pytest_llmprops.benchmarks.dtails.spelling import simplified

#: The private-use characters that stand for names.
FIRST_NAME = 0xE000
_NAME = "[\ue000-\uf8ff]"
#: Limited, because a reply may have thousands of quotes.
_QUOTES = "[\\s\"'“”„‘«»*_~<>「」『』()\\[\\]]{0,9}"


def _words(texts: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first, in simplified spelling."""
    plain = {simplified(text) for text in texts}
    return "|".join(re.escape(text).replace("\\ ", "\\s+") for text in sorted(plain, key=len, reverse=True))


def _all(table: dict[str, tuple[str, ...]]) -> list[str]:
    return [text for texts in table.values() for text in texts]


_GAP = "[\\s:]{0,9}"
_END = "(?![\\w\u0900-\u0963\u0966-\u0d7f])"
_BEGIN = "(?<![\\w\u0900-\u0d7f])"
_BEFORE_NAMES = re.compile(
    f"(?:{_BEGIN}(?P<cue>(?P<all>{_words(BEFORE_ALL)})|{_words(_all(BEFORE))}|\\w+n't|than){_END}"
    f"|{WRONG_ONE}(?:\\s*[:=]|\\s+(?:is|would be))|×){_GAP}{FILLER}{_QUOTES}(?={_NAME})"
)
#: Before a word of rejection, these turn it round: "no worse than a", "cannot rule out a", "none other than a".
_TURNED = re.compile(f"{_BEGIN}(?:less|worse|not|no|none|nothing|never|cannot|\\w+n't)\\b[^.;,]*$")
_SIMPLE = ("not", "and not", "but not", "or not", "nor", "never", "cannot")
_ENGLISH = frozenset({*BEFORE["en"], "than"} - {*_SIMPLE})
_LINK = re.compile(
    f"{_QUOTES}(?P<soft>{COMMA}?){_QUOTES}(?P<hard>(?:(?:{_words((*OR, *AND, *ALSO_NOT))}){_END}\\s*)*)"
    f"{ARTICLE}{_QUOTES}(?={_NAME})"
)
#: The end of a quotation or of bold text.
_CLOSING = "[\"'”’»」』*_)\\]]{0,9}\\s*"
#: "着るではなく", "米は炊く前なので不適切".
_JAPANESE = (
    f"(?:(?:{_words(PARTICLES)})*|は[^\ue000-\uf8ff。.;()]{{1,30}}?(?:{_words(SINCE)})[、,]?)"
    f"(?:{_words(AFTER_JAPANESE)})"
)
_OTHERS = f"-?(?:,?\\s*(?:which|that)\\s+)?(?:{_words(_all(AFTER))}|{'|'.join(AFTER_ENGLISH)}){_END}"
_AFTER_NAME = re.compile(f"{_CLOSING}(?:{_JAPANESE}|{_OTHERS})")
_PLURAL = re.compile("[\"'”’»」』*_]*\\s*(?:are|were|do|don't|both|all)\\b")
_BACK_OR = re.compile(f"{_QUOTES}(?:{_words(OR)}){_QUOTES}")
_BACK_AND = re.compile(f"{_QUOTES}(?:{COMMA}|{_words(AND)}|{COMMA}\\s*(?:{_words((*OR, *AND))})){_QUOTES}")
_STRUCK = re.compile("(?:~~|<s>|<del>)[^~<]*+(?:~~|</s>|</del>)")
_ANY = re.compile(
    f"{_BEGIN}(?:{_words((*BEFORE_ALL, *_all(BEFORE), *_all(AFTER), 'wrong', 'incorrect'))}|\\w+n't){_END}"
    f"|{_words(AFTER_JAPANESE)}"
)


def name_character(index: int) -> str:
    """Return the character that stands for the name with this index in a text."""
    return chr(FIRST_NAME + index)


def has_rejection(text: str) -> bool:
    """Return whether a simplified text has a word of rejection anywhere."""
    return bool(_ANY.search(text))


def rejected_names(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """Return the indexes of the names that a text rejects: as few as its words allow, and as many.

    They differ where a comma may be part of the rejected list or not: "not a, b" and "a, b is wrong".

    :param text: Simplified; each name is its :func:`name_character`.
    """
    fewest, most = _marked(text), _marked(text)
    before = [match for match in _BEFORE_NAMES.finditer(text) if not _is_turned(text, match)]
    reached: dict[int, _Reach] = {}
    for match in before:
        _follow_list(text, match.end(), _Reach.ALL if match["all"] else _Reach.CERTAIN, reached)
    for place, reach in reached.items():
        name = ord(text[place]) - FIRST_NAME
        most.add(name)
        if reach > _Reach.PERHAPS:
            fewest.add(name)
    cues = {match.start() for match in before}
    places = [match.start() for match in re.finditer(_NAME, text)]
    for number, place in enumerate(places):
        after = _AFTER_NAME.match(text, place + 1)
        # In "a nie b", the word between belongs to the name after it.
        if after and cues.isdisjoint(range(place + 1, after.end())):
            is_plural = bool(_PLURAL.match(text, place + 1))
            fewest.update(_list_before(text, places, number, wide=is_plural))
            most.update(_list_before(text, places, number, wide=True))
    return frozenset(fewest), frozenset(most)


def _is_turned(text: str, match: re.Match[str]) -> bool:
    is_english = match["cue"] is not None and match["cue"] in _ENGLISH
    return is_english and bool(_TURNED.search(text[max(0, match.start() - 60) : match.start()]))


class _Reach(enum.IntEnum):
    """How surely a list of rejected names includes one of them.

    ``PERHAPS`` comes after a bare comma, ``CERTAIN`` before it. After "neither", the whole list is rejected (``ALL``).
    """

    PERHAPS, CERTAIN, ALL = range(3)


def _follow_list(text: str, place: int, reach: _Reach, reached: dict[int, _Reach]) -> None:
    """Enter the names of the list that begins at ``place`` into ``reached``.

    Every place is entered at most once per reach, so that a reply with many cues and one long list takes linear time.
    """
    while reached.get(place, -1) < reach:
        reached[place] = reach
        link = _LINK.match(text, place + 1)
        if not (link and (link["soft"] or link["hard"])):
            return
        if not link["hard"] and reach is _Reach.CERTAIN:
            reach = _Reach.PERHAPS
        place = link.end()


def _list_before(text: str, places: list[int], last: int, *, wide: bool) -> list[int]:
    """Return the name number ``last`` and those before it joined by "or"; if ``wide``, also by a comma or "and"."""
    names = [ord(text[places[last]]) - FIRST_NAME]
    for number in range(last, 0, -1):
        place, following = places[number - 1], places[number]
        between = text[place + 1 : following]
        if not _BACK_OR.fullmatch(between) and not (wide and _BACK_AND.fullmatch(between)):
            break
        names.append(ord(text[place]) - FIRST_NAME)
    return names


def _marked(text: str) -> set[int]:
    """Return the names that are struck through or have a cross; crosses come before or after all names."""
    struck = {
        ord(name) - FIRST_NAME for match in _STRUCK.finditer(text) for name in re.findall(_NAME, match[0])
    }
    first, name = re.search(f"[{CROSSES}{TICKS}]", text), re.search(_NAME, text)
    if first is None or name is None:
        return struck
    gap = "[\\s:\"'*_.-]*"
    is_before = first.start() < name.start()
    shape = f"[{CROSSES}]{gap}({_NAME})" if is_before else f"({_NAME}){gap}[{CROSSES}]"
    return struck | {ord(match[1]) - FIRST_NAME for match in re.finditer(shape, text)}
