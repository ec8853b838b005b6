"""Text: lines for a terminal, words, folded and plain spelling, and the encoding of files.

:func:`folded` removes differences that readers do not see as another spelling:

- Unicode NFKC makes composed and decomposed letters (100 published Tamil rows are not NFC), full-width and half-width
  letters, and Arabic presentation forms equal. Letters that only look alike stay different: the published Farsi
  variations list Arabic and Persian yeh as two forms.
- Case is folded, because a translation may begin with the word.
- Zero-width joiners and non-joiners, direction marks, soft hyphens and the Arabic tatweel are dropped, because models
  and the published files use them inconsistently. Right-to-left text needs nothing else: its characters are stored in
  reading order.
- Runs of whitespace become one space.
"""

from __future__ import annotations

import functools
import html
import re
import shlex
import unicodedata
from collections.abc import Iterable

from pytest_llmprops.core.errors import DataError

# U+FF10 to U+FF19, U+FF21 to U+FF3A and U+FF41 to U+FF5A are ASCII digits and letters plus 0xFEE0. NFKC folds them to
# the same characters, but also changes punctuation and the number of characters.
_FOLDED = {
    wide: wide - 0xFEE0
    for first, last in ((0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A))
    for wide in range(first, last + 1)
}


def fold_width(text: str) -> str:
    """Return ``text`` with full-width digits and Latin letters replaced by ASCII; its length does not change.

    Corpora differ in this: the People's Daily has １９９８年, the test files of the second SIGHAN bakeoff 2001年.
    """
    return text.translate(_FOLDED)


_BOM = b"\xef\xbb\xbf"
_HIGH = re.compile(rb"[\x80-\xfe]+")


def utf8(raw: bytes, name: str) -> str:
    """Return the text of a file's bytes, without a byte-order mark.

    :param name: the file, for the message.
    :raises DataError: if the bytes are not UTF-8; the message names the likely encoding.
    """
    start = len(_BOM) if raw.startswith(_BOM) else 0
    try:
        return raw[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        place = start + error.start
        raise DataError(
            f"{name}: not UTF-8: byte 0x{raw[place]:02x} at offset {place}; save it as UTF-8{_hint(raw)}"
        ) from None


def _hint(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return " (it starts like UTF-16)"
    # In Chinese text nearly every character has two bytes above 0x7f. Accented letters are single ones between ASCII
    # letters, which GBK would read as second bytes.
    runs = [len(run) for run in _HIGH.findall(raw)]
    if runs and 2 * runs.count(1) >= len(runs):
        return " (it looks like Latin-1: `iconv -f WINDOWS-1252 -t UTF-8`)"
    try:
        raw.decode("gbk")
    except UnicodeDecodeError:
        return ""
    return " (it decodes as GBK: `iconv -f GBK -t UTF-8`)"


#: the name of :func:`unicode_words` in records and tables
TOKENIZER = "unicode-words"

_INVISIBLE = re.compile("[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_KANJI, _HIRAGANA, _KATAKANA = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]"), "\u3040", "\u30a0"


def folded(text: str) -> str:
    """Return ``text`` in the form that is compared; positions in records count the characters of this form from 0."""
    # NFKC first, because it can produce capitals and tatweels; again at the end, because the other steps can undo it.
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split())


#: Tokens of a chat template, and text that is struck through.
_TOKENS = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</s>|\A\s*<s>|<(?:bos|eos|pad|(?:start|end)_of_turn)>|\[/?INST\]"
    r"|\A\s*(?:assistant|model|ai|bot)\s*[:\n]",
    re.IGNORECASE,
)
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~|(?!\A<s>)<(s|del|strike)>[^<\n]{1,200}</\1>", re.IGNORECASE)
#: Accents, Arabic vowel signs, the nukta of the scripts of India, and variation selectors.
_MARKS = re.compile(
    "[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc\ufe00-\ufe0f]"
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


def without_tokens(text: str) -> str:
    """Return a text without HTML's escapes, the tokens of a chat template, and what is struck through."""
    return _STRUCK.sub(" ", _TOKENS.sub("\n", html.unescape(text)))


def plain(text: str) -> str:
    """Return a text :func:`without_tokens` and without differences that readers do not see as another spelling.

    Full-width and half-width characters, accents, the nukta and Arabic vowel signs, Arabic and Persian letters,
    katakana and hiragana, quotation marks and marks that end a sentence. Case is kept.
    """
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(_SAME)
    text = _MARKS.sub("", unicodedata.normalize("NFKD", without_tokens(_INVISIBLE.sub("", text))))
    return unicodedata.normalize("NFKC", text)


def is_word_character(character: str) -> bool:
    """Return True if a character is a letter, a mark (Indic vowel signs, which ``\\w`` does not match) or a digit."""
    return unicodedata.category(character)[0] in "LMN"


def unicode_words(text: str) -> list[str]:
    """Return the words of a text in any language: runs of letters, marks and digits, folded.

    In Japanese, a run is split between kanji, hiragana and katakana. This is coarse: a kanji compound stays one word,
    and an inflected word is separated from its ending.
    """
    words: list[str] = []
    plain = folded(text)
    start, last = 0, ""
    for place, character in enumerate(plain):
        kind = _kind(character, last)
        if kind != last:
            if last:
                words.append(plain[start:place])
            start, last = place, kind
    return [*words, plain[start:]] if last else words


# a text has few different characters
@functools.lru_cache(maxsize=1 << 16)
def _kind(character: str, last: str) -> str:
    """Return the script class of a word character; empty for others. Marks and long-vowel signs keep the last class."""
    if not is_word_character(character):
        return ""
    if _KANJI.match(character):
        return "kanji"
    if last and (unicodedata.category(character)[0] == "M" or character == "ー"):
        return last
    if _HIRAGANA <= character < _KATAKANA:
        return "hiragana"
    return "katakana" if _KATAKANA <= character <= "\u30ff" else "letters"


#: C0 and C1 controls except tab and line feed, DEL, line and paragraph separator, the bidirectional
#: embeddings, overrides and isolates (they reorder the text around them), tags, BOM and lone surrogates.
#: Zero-width joiners and direction marks are kept: Persian, Tamil and Arabic text needs them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Replace every control character except tabs and line feeds by a visible symbol; CR LF becomes a line feed."""
    return _UNSEEN.sub(_spelled, text.replace("\r\n", "\n"))


def terminal_line(text: str) -> str:
    """Replace every control character by a visible symbol, including tabs and line feeds."""
    return visible(text).replace("\t", "␉").replace("\n", "␊")


def shell_line(*words: str) -> str:
    """Return a command to copy into a POSIX shell; control characters are replaced as in :func:`terminal_line`."""
    return terminal_line(shlex.join(words))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def shortened(text: str, most: int) -> str:
    """Return ``text`` cut to at most ``most`` characters; a cut text ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return ``; did you mean NAME?`` with the nearest of the known names; empty if none is near."""
    import difflib

    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(text.casefold(), names, n=1, cutoff=0.7)
    return f"; did you mean {names[near[0]]}?" if near else ""


def first_names(names: Iterable[str], most: int = 3) -> str:
    """Return the first ``most`` names, with an ellipsis if there are more."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


def one_line(text: str, most: int | None = None) -> str:
    """Return :func:`visible` text with whitespace collapsed to single spaces, cut to ``most`` characters."""
    flat = " ".join(visible(text).split())
    return flat if most is None else shortened(flat, most)


def explained(answers: str, reason: str) -> str:
    """Return what was expected and given, after the reason if there is one: ``no rhyme (expected 'A', given 'B')``."""
    return f"{reason} ({answers})" if reason else answers
