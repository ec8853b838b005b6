"""The words with which replies reject a variation, in English and in the paper's target languages.

Words are lists in ordinary spelling; English verb phrases are regular expressions for simplified text.
"""

from __future__ import annotations

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
    "or",
    "nor",
    "of",
    "یا",
    "ou",
    "nin",
    "या",
    "կամ",
    "vai",
    "அல்லது",
    "లేదా",
    "か",
    "や",
    "も",
    "でも",
    "/",
    "&",
)
AND = ("and", "en", "و", "e", "और", "եւ", "եվ", "ու", "un", "மற்றும்", "మరియు", "と", "および")
ALSO_NOT = ("not", "nor", "never", "nie", "non", "nin", "نه", "न", "ոչ", "ne", "nevis", "neither")
CROSSES, TICKS = "❌✗✘✖🚫", "✅✓✔"
