"""A reply as the reading rules search it: without markup, with marks for quotes, the homophone and the sentence."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.reading_rules import Words

HAN = re.compile(r"[一-鿿]")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2060\ufeff\u00ad]")
_QUOTES = str.maketrans({**dict.fromkeys("“„‟«「『〝", "⟦"), **dict.fromkeys("”»」』〞", "⟧")})
_APOSTROPHES = str.maketrans("‘’", "''")
#: Latin letters without acute, grave and other marks. The tilde stays: Spanish ñ is a letter of its own.
_ACCENTS = {
    code: base
    for code in range(0xC0, 0x180)
    if (base := unicodedata.normalize("NFD", chr(code))[0]).isascii()
    and base != chr(code)
    and "\u0303" not in unicodedata.normalize("NFD", chr(code))
}
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_LATEX = re.compile(r"\\(?:text\w*|math\w+|emph|mbox|underline)\s*\{([^{}\n]{0,80})\}")
_BOXED = re.compile(r"\\boxed\s*\{([^{}\n]{0,80})\}")
_LATEX_QUOTES = re.compile(r"``([^`'\n]{1,80})''")
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~|<(s|del|strike)>[^<\n]{1,200}</\1>", re.I)
_TAG = re.compile(r"</?(?:b|i|em|strong|u|mark|code|q|span|p|br|li|ul|ol)(?:\s[^<>\n]{0,80})?/?>", re.I)
_INSIDE_A_WORD = re.compile(r"(?<=[^\W_])\*{1,3}(?=[^\W_])")
_SPELLED_OUT = re.compile(r"(?<![^\W_])(?:[^\W\d_][-.·]){3,24}[^\W\d_](?![^\W_])")


def fold(text: str) -> str:
    """Return the text in lower case, composed, without invisible characters."""
    if text.isascii():
        return text.lower()
    normal = _INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return unicodedata.normalize("NFC", normal.translate(_APOSTROPHES).casefold())


def plain(text: str, words: Words, *, exact: bool = False) -> str:
    """Return the folded text without accents and with simplified Chinese characters.

    :param exact: Keep accents and traditional characters, which alone tell two words apart.
    """
    folded = fold(text)
    return folded if exact or folded.isascii() else folded.translate(_ACCENTS).translate(words.simplified)


def without_markup(reply: str) -> str:
    """Return the reply without struck-out text, HTML, LaTeX, and markup inside words."""
    text = reply
    if "\\" in text:
        text = _UNICODE_ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)
        for _ in range(2):
            text = _LATEX.sub(r' "\1" ', text)
        text = _BOXED.sub(r' answer: "\1" ', text)
        text = _LATEX_QUOTES.sub(r'"\1"', text)
    if "&" in text:
        text = html.unescape(text)
    text = _TAG.sub(" ", _STRUCK.sub(" ", text))
    text = _INSIDE_A_WORD.sub("", text)
    # A lone surrogate cannot be written to a file.
    text = re.sub(r"[\ud800-\udfff]", " ", text)
    return _SPELLED_OUT.sub(lambda m: re.sub(r"[-.·]", "", m[0]), text)


def prepare(reply: str, word: str, sentence: str) -> str:
    """Return the normalised reply that the rules search.

    Quotation marks and the marks of bold and code become ``⟦ ⟧``, the homophone becomes ``<w>``, and the quoted
    sentence becomes ``<s>``.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", reply))
    text = re.sub(r"[⟦⟧]", " ", text).translate(_QUOTES).translate(_APOSTROPHES)
    text = re.sub(r"^[ \t]*[*•·–-][ \t]+", "- ", text, flags=re.M)
    echoed = unicodedata.normalize("NFC", sentence).translate(_APOSTROPHES).translate(_QUOTES)
    text = sentence_pattern(echoed, word).sub("<s>", text)
    text = re.sub(r'"([^"\n]{1,80})"', r"⟦\1⟧", text)
    text = re.sub(r"(?<!\w)'([^'\n]{1,80})'(?!\w)", r"⟦\1⟧", text)
    text = re.sub(r"(\*\*|__|`|\*)(?=\S)([^*`\n]{1,80}?)(?<=\S)\1", r"⟦\2⟧", text)
    text = re.sub(r"⟦[\s⟦]*⟦", "⟦", re.sub(r"⟧[\s⟧]*⟧", "⟧", text)).replace("*", "")
    text = re.sub(r"([,.;:!?，。])⟧", r"⟧\1", text)
    text = re.sub(r"⟦\s*<s>\s*⟧", "<s>", text)
    if homophone := unicodedata.normalize("NFC", word).strip():
        escaped = re.escape(homophone)
        text = re.sub(rf"⟦\s*{escaped}[.,。，]?\s*⟧", "<w>", text, flags=re.I)
        # A short word ("a", "要") is also a common word or part of others: replace it only in quotes, or where a line
        # begins with its definition.
        is_han = HAN.search(homophone) is not None
        if len(homophone) > (1 if is_han else 3):
            # A Latin word may stand next to a Chinese character. Python compiles ranges that ignore case slowly.
            start, end = ("", "") if is_han else (r"(?-i:(?<![^\W一-鿿]))", r"(?-i:(?![^\W一-鿿]))")
            text = re.sub(f"{start}{escaped}{end}", "<w>", text, flags=re.I)
        else:
            verbs = "is |means |refers |es |significa |，?[意指是]|，[动名形副介连量代助]"
            defined = rf"^{escaped}(?= ?(?:[:：=–—→(（]|{verbs}))"
            text = re.sub(defined, "<w>", text, flags=re.I | re.M)
    return re.sub(r"[ \t]+", " ", text).strip()


@lru_cache(maxsize=1024)
def sentence_pattern(sentence: str, word: str) -> re.Pattern[str]:
    """Return a pattern for the sentence with the homophone, or a blank in its place.

    Other spaces, and a missing full stop, are the same sentence.
    """
    # A character that no sentence has marks the word, which may be part of an escape ("s" of "\\s+").
    marked = sentence.strip(" .。!！?？")
    if homophone := word.strip():
        marked = re.sub(re.escape(homophone), "\0", marked, flags=re.I)
    shown = rf"(?:{_spaced(homophone)}|_{{2,}}|\.{{3}}|…)"
    return re.compile(_spaced(marked).replace("\0", shown) or "(?!)", re.I)


def _spaced(text: str) -> str:
    """Return a pattern for the text with any spaces between its words."""
    return r"\s+".join(map(re.escape, text.split()))
