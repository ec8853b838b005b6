"""Variations that a reply rejects in words: "ken (not weet)", "weet is wrong", "weet ではなく".

The words are English or of the target language. A rejection is next to the names of variations, so "not sure: weet"
rejects nothing. It extends over a list ("not a, b or c").

The names are one private-use character each in the text that is searched, so no variation is read as a rejection.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.text import EXACT, Simplified, is_whole, simplified, spelled

# The words with which replies reject a variation, in English and in the paper's target languages.
#
# Words are lists in ordinary spelling; English verb phrases are regular expressions for simplified text.

#: Before names: (language, words).
BEFORE: dict[str, tuple[str, ...]] = {
    "en": (
        "not", "never", "nor", "instead of", "rather than", "as opposed to", "opposed to", "in place of",
        "in contrast to", "unlike", "over", "other than", "except", "except for", "excluding", "exclude", "excludes",
        "without", "avoid", "avoiding", "reject", "rejects", "rejecting", "rejected", "rule out", "rules out",
        "ruling out", "ruled out", "eliminate", "eliminates", "eliminating", "eliminated", "discard", "discarding",
        "discarded", "dismiss", "dismissing", "cannot", "against", "anything but", "and not", "but not", "or not",
    ),
    "af": ("nie", "nooit", "in plaas van", "pleks van", "eerder as", "liewer as", "beter as", "sonder"),
    "fa": ("نه", "به جای", "بجای", "غیر از", "به غیر از", "بهتر از", "بدون"),
    "gl": ("non", "nunca", "nin", "en vez de", "en lugar de", "en troques de", "no canto de", "agás", "ca", "do que"),
    "hi": ("न कि", "ना कि", "न"),
    "hy": ("ոչ", "ոչ թե", "չէ թե", "քան", "առանց"),
    "lv": ("nevis", "ne", "nav", "nekā", "bez"),
}  # fmt: skip
#: Before a list of names that are all rejected, also without "or".
BEFORE_ALL = ("neither", "none of")
#: After a name, and after names joined by "or".
AFTER: dict[str, tuple[str, ...]] = {
    "af": ("nie", "is verkeerd", "is fout", "is onvanpas", "is nie", "pas nie", "werk nie", "is die verkeerde"),
    "fa": (
        "نیست", "نمی باشد", "نادرست", "غلط", "اشتباه", "نامناسب", "درست نیست", "مناسب نیست", "صحیح نیست", "نه",
    ),
    "gl": (
        "non", "non é", "non encaixa", "non vale", "non serve", "non procede", "é incorrecto", "é incorrecta",
        "é erróneo", "é errónea", "é inadecuado", "é inadecuada", "está mal", "sería incorrecto", "sería incorrecta",
    ),
    "hi": (
        "नहीं", "नही", "सही नहीं", "ठीक नहीं", "उपयुक्त नहीं", "यहाँ नहीं", "शब्द नहीं", "बिल्कुल नहीं", "बिलकुल नहीं", "तो नहीं",
        "कभी नहीं", "के बजाय", "की बजाय", "की जगह",
        "के स्थान पर", "के बदले", "गलत", "अनुपयुक्त", "न होकर", "को छोड़कर",
    ),
    "hy": (
        "փոխարեն", "ի փոխարեն", "սխալ", "սխալ է", "չէ", "ճիշտ չէ", "հարմար չէ", "տեղին չէ", "չի", "ը սխալ է",
        "ն սխալ է", "ը չէ", "ն չէ", "ը ճիշտ չէ", "ն ճիշտ չէ", "ոչ",
    ),
    "lv": (
        "vietā", "nav pareizi", "nav pareizs", "nav pareiza", "nav piemērots", "nav piemērota", "nav īstais", "nav",
        "ir nepareizi", "ir nepareizs", "ir nepareiza", "ir kļūda", "neder", "neatbilst", "ne",
    ),
    "ta": (
        "அல்ல", "அல்லாமல்", "இல்லை", "இல்லாமல்", "அன்று", "தவறு", "தவறானது", "பொருந்தாது", "பொருத்தமற்றது", "சரியல்ல",
        "சரியானதல்ல", "சரி இல்லை", "சரியில்லை", "வேண்டாம்", "கிடையாது", "கூடாது", "தவிர", "என்பது தவறு", "என்பது அல்ல",
        "என்பதற்குப் பதில்",
        "என்பதற்கு பதில்", "என்பது பொருந்தாது",
    ),
    "te": (
        "కాదు", "కాకుండా", "కాక", "లేదు", "తప్పు", "సరికాదు", "సరిపోదు", "సరైనది కాదు", "బదులు", "బదులుగా", "కి బదులు",
        "కు బదులు", "కి బదులుగా", "కు బదులుగా", "వద్దు", "పొరపాటు", "అనేది కాదు", "అనేది తప్పు", "తగదు",
    ),
}  # fmt: skip
#: After a Japanese name and its particles; Japanese has no spaces.
AFTER_JAPANESE = (
    "ではなく", "ではない", "ではありません", "じゃなく", "じゃない", "でなく", "でない", "でもない", "でもなく",
    "でもありません", "の代わり", "のかわり", "というより", "よりも", "より", "不適切", "間違い", "誤り", "不正解",
    "違う", "違います", "使わない", "使いません", "使えない", "使えません", "合わない", "合いません", "不自然", "除外",
    "以外", "適切ではない", "適切でない", "適切ではありません", "正しくない", "当てはまらない", "当てはまりません",
    "ふさわしくない", "だめ", "駄目", "選ばない", "選びません", "避け", "×",
)  # fmt: skip
#: "Wrong: a" and "the wrong word is a".
WRONG_ONE = "(?:wrong|incorrect|unsuitable|bad|rejected|excluded)(?:\\s+(?:word|one|choice|option|answer))?"
PARTICLES = ("という語", "という言葉", "という単語", "の方", "のほう", "では", "は", "が", "も", "を")
SINCE = ("ので", "から", "ため")
_BE = "(?:is|are|was|were|'s|would be|would have been|seems?|sounds?|feels?|being|=|:|->|→|-|–|—)"
_BAD = (
    "(?:(?:simply|clearly|just|also|both|all|therefore|too|here) )*(?:wrong|incorrect|inaccurate|inappropriate"
    "|unsuitable|unnatural|unidiomatic|invalid|false|impossible|rejected|excluded|eliminated|ruled out|out of the"
    " question|out|no|nope|a mistake|an error|the wrong (?:word|choice|one|option|translation|answer))"
)
_GOOD = (
    "(?:(?:the|a|an|really|quite|as|so|very) )*(?:right|correct|appropriate|suitable|best|fit|fitting|accurate|natural"
    "|idiomatic|applicable|valid|possible|used|it|answer|choice|one|option|word|translation|meant|intended|good|ok|okay"
    "|acceptable|relevant|here|what)"
)
_FITS = (
    "(?:fit|work|apply|suit|match|make sense|do|convey|express|belong|hold|qualify|mean this|mean that"
    "|be (?:used|right|correct|chosen|appropriate|suitable|the answer|it))"
)
_NOT_VERB = (
    "(?:(?:does|do|did|would|could|should|will|can|must) ?(?:not|n't)|doesn't|don't|didn't|wouldn't|couldn't|shouldn't"
    "|won't|can't|cannot|mustn't)"
)
_IS_NOT = "(?:(?:is|are|was|were|would|seems|'s) ?(?:not|n't|never)|isn't|aren't|wasn't|weren't)"
AFTER_ENGLISH = (
    f"{_BE} ?{_BAD}",
    "\\? ?(?:no|nope|nee|non|ne)",
    f"(?:{_IS_NOT}|{_BE} not|would not be|wouldn't be) ?(?:{_GOOD}|$|(?=[.,;:!)]))",
    f"(?:{_NOT_VERB}|fails to) {_FITS}",
    "(?:rejected|excluded|eliminated|ruled out)",
    # "Weet" is for facts, so it does not fit.
    (
        "[^\ue000-\uf8ff.;!?()]{1,80}?\\b(?:so|therefore|hence|thus|and so) (?:it|this|that)"
        f" ?(?:{_BE} ?{_BAD}|{_IS_NOT} ?{_GOOD}|{_NOT_VERB} {_FITS})"
    ),
)
#: Between "not" and a name, and between the names of a list.
ARTICLE = (
    "(?:(?:the|a|an|any|of|both|either|word|words|term|option|options|form|verb|noun|adjective|choice|translation|variant"
    "|die|woord|a palabra|o verbo|واژه|کلمه|vards|vardu|բառը)\\s+)*"
)
_VERB = "(?:to|be|use|using|choose|choosing|pick|picking|select|say|mean|with|as|by|like|for)"
FILLER = f"(?:{ARTICLE}{_VERB}\\s+)*{ARTICLE}"
COMMA = "[,、،・]"
OR = (
    "or", "nor", "of", "یا", "ou", "nin", "या", "կամ", "vai", "அல்லது", "లేదా", "か", "や", "も", "でも", "/", "&",
)  # fmt: skip
AND = ("and", "en", "و", "e", "और", "եւ", "եվ", "ու", "un", "மற்றும்", "మరియు", "と", "および")
ALSO_NOT = ("not", "nor", "never", "nie", "non", "nin", "نه", "न", "ոչ", "ne", "nevis", "neither")
#: What says that a reply does not choose.
UNDECIDED = (
    "both", "either", "all", "depends", "depending", "interchangeable", "interchangeably", "equally", "vs", "versus",
    "unsure", "unclear", "hang af", "beide", "ambos", "ambas", "abas", "depende", "abi", "abas", "दोनों", "هر دو",
    "երկուսն էլ", "இரண்டும்", "రెండూ",
)  # fmt: skip
#: Before the choice that follows from what was said about the others.
SO = (
    "so", "therefore", "thus", "hence", "dus", "daarom", "polo tanto", "por tanto", "logo", "entón", "इसलिए", "इसलिये",
    "अतः", "ուստի", "ուրեմն", "հետևաբար", "tāpēc", "tādēļ", "tātad", "بنابراین", "پس", "ஆகவே", "எனவே", "ஆகையால்",
    "అందువల్ల", "అందుకే", "కాబట్టి",
)  # fmt: skip
#: What calls a variation the answer.
RIGHT = (
    "answer", "best", "correct", "right", "choose", "chose", "choice", "select", "pick", "go with", "appropriate",
    "suitable", "kies", "regte", "korrekte", "korrek", "beste", "correcto", "correcta", "axeitado", "axeitada",
    "mellor", "resposta", "escollo", "درست", "صحیح", "مناسب", "सही", "उपयुक्त", "उत्तर", "ճիշտ", "պատասխան", "pareizi",
    "pareizs", "pareizais", "pareizā", "atbilde", "சரி", "சரியானது", "சரியான", "பொருத்தமான", "பொருத்தமானது", "సరైన", "సరైనది",
)  # fmt: skip
#: Before a choice at the end of a clause.
COPULA = ("is", "be", "use", "é", "sería", "ir", "gebruik")
#: Before a clause about another variation.
WHILE = (
    "since", "because", "as", "while", "whereas", "although", "though", "but", "unlike", "want", "omdat", "terwyl",
    "aangesien", "hoewel", "maar", "porque", "xa que", "mentres", "mentres que", "aínda que", "pero", "क्योंकि",
    "जबकि", "लेकिन", "որովհետև", "քանի որ", "իսկ", "բայց", "jo", "bet", "kamēr", "چون", "زیرا", "اما", "در حالی که",
    "ஏனெனில்", "ஆனால்", "ఎందుకంటే", "కానీ",
)  # fmt: skip
CROSSES, TICKS = "❌✗✘✖🚫", "✅✓✔"


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
    """Return True if a simplified text has a word of rejection anywhere."""
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


# The choice of a reply that names several variations and rejects none in the words above: "ken is for people, so weet",
# "toe (wanneer would be for the future)". A plain list chooses none.

_UNDECIDED = re.compile(
    f"{_BEGIN}(?:{_words(UNDECIDED)}){_END}|{_words(('どちらも', 'どちらでも', 'どれでも', '場合による', '両方'))}"
)
_BRACKETS = re.compile(r"[(\[]([^()\[\]]*)[)\]]")
_OFFERED = re.compile(f"\\W*(?:{_words((*OR, *AND))}){_END}[^()\\[\\]]*{_NAME}")
_SO = re.compile(
    f"(?:{_BEGIN}(?:{_words(SO)}){_END}|(?:{_words((*SINCE, 'よって', '従って', 'したがって'))})[、,]?){_QUOTES}"
)
_RIGHT = re.compile(
    f"{_BEGIN}(?:{_words(RIGHT)}){_END}|{_words(('正解', '正しい', '適切', '答え', 'ふさわしい', '選ぶ', '選びます'))}"
)
#: "It has to be ken", with the name at the end.
_IS_NAME = re.compile(f"(?<!could)(?<!may)(?<!might)\\s(?:{_words(COPULA)}){_QUOTES}{_NAME}{_QUOTES}$")
_CALLED = re.compile(f"({_RIGHT.pattern})\\s*[:=]")
_CLAUSE = re.compile(f"[.,;:!?\\n|。、؛،।։]|\\s[–—-]+\\s|->|→|=>|{_BEGIN}(?:{_words(WHILE)}){_END}")
_GLOSSES = re.compile(f"({_NAME}){_QUOTES}(?:[:=]|->|→|=>|\\s[–—-])")
_MARK = "[^\\w\ue000-\uf8ff]|[\\d_]"
_BARE = re.compile(
    f"(?:{_MARK})*(?:(?:final )?(?:answer|the word|word|a palabra|die woord)(?:{_MARK})+)?({_NAME})(?:{_MARK})*"
)


def _without_remark(brackets: re.Match[str]) -> str:
    """Return brackets that only have names or offer another choice ("or weet"), and a mark for a remark."""
    inside = brackets[1]
    return brackets[0] if _OFFERED.match(inside) or not re.search(r"\w", inside) else "; "


def _only(text: str) -> list[str]:
    """Return the names outside the remarks in brackets."""
    return re.findall(_NAME, text)


def _concluded(text: str) -> list[str]:
    """Return the names in the clause after the last "so"."""
    last = next(iter(list(_SO.finditer(text))[-1:]), None)
    if last is None or not re.search(_NAME, text[: last.start()] + text[last.end() :]):
        return []
    return next(
        (names for clause in _clauses(text[last.end() :]) if (names := re.findall(_NAME, clause))), []
    )


def _clauses(text: str) -> list[str]:
    return [clause for clause in _CLAUSE.split(text) if re.search("\\w", clause) or re.search(_NAME, clause)]


def _called_right(text: str) -> list[str]:
    """Return the names in the clauses that call one the answer."""
    right = [
        clause
        for clause in _clauses(text)
        if (_RIGHT.search(clause) or _IS_NAME.search(clause)) and not has_rejection(clause)
    ]
    return [name for clause in right for name in re.findall(_NAME, clause)]


def _first_of(text: str) -> list[str]:
    """Return the name that a reply begins with, unless it lists the names or explains each."""
    if len(set(_GLOSSES.findall(text))) > 1:
        return []
    bare = [_BARE.fullmatch(clause) for clause in _clauses(text)]
    return [bare[0][1]] if len(bare) > 1 and bare[0] and not any(bare[1:]) else []


def _last_of(text: str) -> list[str]:
    """Return the name that a reply ends with after it has explained others, or that it begins and ends with."""
    bare = [_BARE.fullmatch(clause) for clause in _clauses(text)]
    if len(bare) < 2 or not bare[-1]:
        return []
    last: str = bare[-1][1]
    return [last] if not any(bare[:-1]) or (bare[0] and bare[0][1] == last) else []


# Which variations a reply names, and which one is left after those that it rejects.

Variations = Sequence[Sequence[str]]
#: Maximum names of a reply: there are 6,400 private-use characters.
MOST = 6_000
_PRIVATE = re.compile("[\ue000-\uf8ff]")


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a reply.

    :param indexes: The variations that it may name; several only if they are written in the same way.
    :param form: The form of the first of them. :param start, stop: Place in the simplified text.
    """

    indexes: frozenset[int]
    form: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names in a reply, from left to right.

    :param text: The reply with a private-use character for each name.
    """

    mentions: tuple[Mention, ...]
    text: str

    def accepted(self) -> list[Mention]:
        """Return one mention of each variation that the reply names and does not reject."""
        by_number: dict[frozenset[int], Mention] = {}
        for rejected in reversed(rejected_names(self.text)):
            away = {index for number in rejected for index in self.mentions[number].indexes}
            for mention in self.mentions:
                if mention.indexes.isdisjoint(away):
                    by_number.setdefault(mention.indexes, mention)
            if by_number:
                break
        return list(by_number.values())

    def chosen(self) -> list[Mention]:
        """Return one mention of the variation that a reply with several chooses; empty if it chooses none.

        The others are in a remark: in brackets, before "so" or "therefore", or in a clause besides the choice.
        """
        first: dict[frozenset[int], str] = {}
        for mention in self.accepted():
            first[mention.indexes] = name_character(self.mentions.index(mention))
        # The first name of a variation stands for all; a rejected one takes part in no list and no choice.
        text = _PRIVATE.sub(
            lambda name: first.get(self.mentions[ord(name[0]) - FIRST_NAME].indexes, " "), self.text
        )
        text = _CALLED.sub(r"\1 ", _BRACKETS.sub(_without_remark, text))
        if _UNDECIDED.search(text):
            return []
        for decide in (_only, _concluded, _called_right, _first_of, _last_of):
            names = set(decide(text))
            if len(names) == 1:
                return [self.mentions[ord(names.pop()) - FIRST_NAME]]
        return []


def find_mentions(reply: str, variations: Variations) -> Mentions:
    """Find the names in a reply: whole words that are a form of a variation in any spelling.

    Of names that overlap, the longest counts. If several variations are spelled alike, the one whose form is closest
    to the characters of the reply counts.
    """
    text = Simplified(_PRIVATE.sub(" ", reply))
    spans: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for index, forms in enumerate(variations):
        for form in {"/".join(forms): None, **dict.fromkeys(forms)}:
            shape = spelled(form)
            # A lookahead, so that overlapping names are found as well.
            for match in re.finditer(f"(?=({shape}))", text.text) if shape else ():
                start, stop = match.span(1)
                if is_whole(text.text, start, stop):
                    closeness = text.closeness(form, start, stop)
                    spans.setdefault((start, stop), []).append((closeness, index, form))
    longest: list[tuple[int, int]] = []
    taken = bytearray(len(text.text))
    for start, stop in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        if taken.find(1, start, stop) < 0:
            taken[start:stop] = b"\1" * (stop - start)
            longest.append((start, stop))
    mentions = []
    for start, stop in sorted(longest)[:MOST]:
        closest = max(closeness for closeness, _, _ in spans[start, stop])
        names = [(index, form) for closeness, index, form in spans[start, stop] if closeness == closest]
        index, form = min(names)
        own = form if form in variations[index] else max(variations[index], key=len)
        # Variations may share a form. Choosing either is right if the label has the form, so the first counts.
        indexes = {index} if closest == EXACT else {index for index, _ in names}
        mentions.append(Mention(frozenset(indexes), own, start, stop))
    parts, place = [], 0
    for number, mention in enumerate(mentions):
        parts += [text.text[place : mention.start], name_character(number)]
        place = mention.stop
    return Mentions(tuple(mentions), "".join(parts) + text.text[place:])
