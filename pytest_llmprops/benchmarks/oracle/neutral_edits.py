"""Neutral edits of an English sentence: small changes that keep what it says.

``EDITS`` has them by name, with the guards that keep their meaning beyond doubt. An edit changes the first place that
it fits, and all places only for quotation marks and apostrophes. Edits of other kinds are left out on purpose: a comma
in a list, a word for its synonym, or an article can change what is said.

==========================  =======================================================  ==================================
name                        change                                                   guard
==========================  =======================================================  ==================================
``space``                   a second space after the first word
``full stop``               the last full stop is dropped, or added                  not after an abbreviation
``first letter``            the first letter is in lower case                        an article, pronoun or preposition
                                                                                     before a word in lower case
``quotation marks``         ``"…"`` and ``“…”``                                      all are in pairs, none after a
                                                                                     digit (inches)
``apostrophe``              ``'`` and ``’`` between letters
``dash``                    ``word—word`` and ``word – word``                        between letters
``title``                   ``Mr.`` and ``Mr`` (Mrs, Ms, Dr)                         before a capital
``initials``                ``U.S.`` to ``US`` (U.K.)                                before a word in lower case
``comma after a date``      ``On Monday the …`` and ``On Monday, the …``             a day, month, year, ``Yesterday`` …
                                                                                     at the start, before an article or
                                                                                     a pronoun
``percent``                 ``5%`` and ``5 percent``
``thousands separator``     ``12,000`` to ``12000``
``number``                  ``3 days`` and ``three days``, 2 to 12                   before a plural in lower case; no
                                                                                     fraction, no part of a number
``date``                    ``on 5 June`` and ``on June 5``                          after a preposition, without a year
                                                                                     or a second date
``contraction``             ``did not`` and ``didn't`` …                             no question, no inversion
``spelling``                British and American, from a list                        whole words in lower case
==========================  =======================================================  ==================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

Edit = Callable[[str], str | None]

_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: a regular expression
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DETERMINERS = "the|a|an|it|he|she|they|we|its|his|her|their|our|this|these|those"
#: what may begin a sentence and is not a name
_OPENERS = (
    "A|After|All|Although|An|At|Because|Before|Both|By|During|Each|For|From|He|Her|His|If|In|It|Its|Many|Most|No|On|Our"
    "|Several|She|Since|Some|That|The|Their|There|These|They|This|Those|We|When|While|With"
)
_VERBS = "is|are|was|were|do|does|did|has|have|had|would|could|should"
#: after a contraction, these are the subject of an inversion
_SUBJECTS = "i|you|he|she|it|we|they|there|the|a|an|any|anyone|this|that|these|those"
_ABBREVIATIONS = (
    "etc|inc|ltd|corp|dept|approx|vol|bros|est|min|max|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec|mon|tue|wed|thu"
    "|fri|sat|sun|ave|gen|col|gov|sen|rep|prof|hon|rev|jnr|snr"
)
_NO_UNITS = (
    "halves|thirds|quarters|fourths|fifths|sixths|sevenths|eighths|ninths|tenths|hundreds|thousands|millions"
)
#: British stem, American stem, and the endings that both have
_SPELLINGS = (
    *(
        (f"{stem}our", f"{stem}or", "|s|ed|ing")
        for stem in ("col", "fav", "hon", "harb", "lab", "rum", "vap")
    ),
    ("behaviour", "behavior", "|s"),
    ("neighbour", "neighbor", "|s|ing|hood|hoods"),
    *((f"{stem}tre", f"{stem}ter", "|s") for stem in ("cen", "thea", "kilome", "li")),
    *((f"{stem}ence", f"{stem}ense", "|s") for stem in ("def", "off")),
    *(
        (f"{stem}is", f"{stem}iz", "e|es|ed|ing")
        for stem in ("organ", "real", "recogn", "apolog", "critic", "final", "modern", "stabil", "privat")
    ),
    ("organisation", "organization", "|s"),
    *((f"{stem}ll", f"{stem}l", "ed|ing") for stem in ("trave", "cance", "labe", "mode", "signa", "fue")),
    ("grey", "gray", "|s"),
    ("jewellery", "jewelry", ""),
    ("aluminium", "aluminum", ""),
    ("aeroplane", "airplane", "|s"),
)


def _space(text: str) -> str | None:
    return _once(r"^(\w+) (?=\w)", r"\1  ", text)


def _full_stop(text: str) -> str | None:
    last = re.search(r"\b([A-Za-z][a-z]{2,})(\.?)\Z", text)
    if last is None or re.fullmatch(_ABBREVIATIONS, last[1].lower()):
        return None
    return text[:-1] if last[2] else f"{text}."


def _first_letter(text: str) -> str | None:
    return text[0].lower() + text[1:] if re.match(rf"(?:{_OPENERS}) [a-z]", text) else None


def _quotation_marks(text: str) -> str | None:
    if re.search(r'\d"', text):
        return None
    if '"' not in text:
        is_paired = re.fullmatch(r"[^“”]*(?:“[^“”]*”[^“”]*)+", text)
        return re.sub("[“”]", '"', text) if is_paired else None
    parts = text.split('"')
    if len(parts) % 2 == 0 or "“" in text or "”" in text:
        return None
    return "".join(
        part + mark for part, mark in zip(parts, ["“", "”"] * (len(parts) // 2) + [""], strict=True)
    )


def _apostrophe(text: str) -> str | None:
    pattern = r"(?<=[A-Za-z]){}(?=[A-Za-z])"
    straight = re.sub(pattern.format("’"), "'", text)
    return straight if straight != text else _changed(text, re.sub(pattern.format("'"), "’", text))


def _dash(text: str) -> str | None:
    return _once(r"(?<=[a-z])—(?=[a-z])", " – ", text) or _once(r"(?<=[a-z]) [–—] (?=[a-z])", "—", text)


def _title(text: str) -> str | None:
    return _once(r"\b(Mr|Mrs|Ms|Dr)\. (?=[A-Z])", r"\1 ", text) or _once(
        r"\b(Mr|Mrs|Ms|Dr) (?=[A-Z])", r"\1. ", text
    )


def _initials(text: str) -> str | None:
    return _once(r"(?<![\w.])U\.(S|K)\.(?= [a-z])", r"U\1", text)


def _comma(text: str) -> str | None:
    opening = (
        rf"(?:(?:On (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|In (?:{MONTHS})|In (?:1[5-9]|20)\d\d|Yesterday"
        r"|Last (?:week|month|year)))"
    )
    following = rf"(?=(?:{_DETERMINERS}) (?!\d))"
    return _once(rf"^({opening}), {following}", r"\1 ", text) or _once(
        rf"^({opening}) {following}", r"\1, ", text
    )


def _percent(text: str) -> str | None:
    return _once(r"(?<=\d)%(?![-\w])", " percent", text) or _once(r"(?<=\d) per ?cent\b(?!-)", "%", text)


def _thousands(text: str) -> str | None:
    match = re.search(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,]|\.\d)", text)
    return match and f"{text[: match.start()]}{match[0].replace(',', '')}{text[match.end() :]}"


def _number(text: str) -> str | None:
    counted = rf"(?= (?!(?:{_NO_UNITS})\b)[a-z]+s\b)"
    before = r"(?<![\w.,:/$£€#%&-])(?<!\d )(?<!\b[A-Z] )"
    word = re.search(
        rf"(?<!hundred and )(?<!thousand and )(?<!hundred )(?<!thousand ){before}({'|'.join(_NUMBERS)}){counted}",
        text,
    )
    if word is not None:
        return text[: word.start()] + str(_NUMBERS.index(word[0]) + 2) + text[word.end() :]
    digits = re.search(rf"(?<!\S)[a-z]+ (\d{{1,2}}){counted}", text)
    if digits is None or not 2 <= int(digits[1]) <= 12:
        return None
    return text[: digits.start(1)] + _NUMBERS[int(digits[1]) - 2] + text[digits.end() :]


def _date(text: str) -> str | None:
    before, after = (
        r"\b([Oo]n|[Bb]y|until|since|[Bb]efore|[Aa]fter) ",
        r"(?![\w-]|,? \d|[./:]\d| (?:and|or|to)\b)",
    )
    return _once(rf"{before}(\d{{1,2}}) ({MONTHS}){after}", r"\1 \3 \2", text) or _once(
        rf"{before}({MONTHS}) (\d{{1,2}}){after}", r"\1 \3 \2", text
    )


def _contraction(text: str) -> str | None:
    if "?" in text:
        return None
    following = rf"(?= (?!(?:{_SUBJECTS})\b)[a-z])"
    for pattern, new in (
        (r"\bcannot\b", "can't"),
        (r"\bwill not\b", "won't"),
        (rf"\b({_VERBS}) not\b", r"\1n't"),
        (r"\bcan['’]t\b", "cannot"),
        (r"\bwon['’]t\b", "will not"),
        (rf"\b({_VERBS})n['’]t\b", r"\1 not"),
    ):
        changed = _once(pattern + following, new, text)
        if changed is not None:
            return changed
    return None


def _spelling(text: str) -> str | None:
    for british, american, endings in _SPELLINGS:
        for old, new in ((british, american), (american, british)):
            changed = _once(rf"(?<![\w'’-]){old}({endings})(?![\w'’-])", rf"{new}\1", text)
            if changed is not None:
                return changed
    return None


#: the smallest first
EDITS: Mapping[str, Edit] = {
    "space": _space,
    "full stop": _full_stop,
    "first letter": _first_letter,
    "quotation marks": _quotation_marks,
    "apostrophe": _apostrophe,
    "dash": _dash,
    "title": _title,
    "initials": _initials,
    "comma after a date": _comma,
    "percent": _percent,
    "thousands separator": _thousands,
    "number": _number,
    "date": _date,
    "contraction": _contraction,
    "spelling": _spelling,
}


def neutral_edits(text: str) -> Mapping[str, str]:
    """Return the edited sentences by the name of the edit, for the edits that fit the sentence, in their order."""
    edits = ((name, edit(text)) for name, edit in EDITS.items())
    return {name: edited for name, edited in edits if edited is not None}


def edited(text: str, names: Iterable[str]) -> str:
    """Return the sentence after several edits, in this order. An edit that no longer fits changes nothing."""
    for name in names:
        text = EDITS[name](text) or text
    return text


def _once(pattern: str, new: str, text: str) -> str | None:
    changed, count = re.subn(pattern, new, text, count=1)
    return changed if count else None


def _changed(text: str, new: str) -> str | None:
    return None if new == text else new
