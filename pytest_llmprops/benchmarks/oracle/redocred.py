"""Sentences of Re-DocRED with their labelled entities, as running text.

A file is a list of documents with these keys:

- ``title``
- ``sents``: sentences as lists of tokens
- ``vertexSet``: entities, each a list of mentions with ``name``, ``type``, ``sent_id`` and ``pos`` (the first token,
  and the one after the last)

The text of a mention is the text of its tokens: in a few mentions, ``name`` also has the number of a footnote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from pytest_llmprops.core.errors import DataError

# Rebuild running text from the tokens of an English corpus, with the span of every token in it.
#
# Re-DocRED has sentences as tokens, split by spaCy's rules. Tokens do not change, except that white space
# inside a token becomes one space and a token of only white space becomes a space. These rules decide whether
# a space separates two tokens:
#
# - Closing marks (``. , ; : ? ! ) ] %`` ...) are attached to the word before them; opening marks and currency signs to
#   the word after them; ``'s`` and ``n't`` to the word that they shorten.
# - spaCy splits at a hyphen only between two letters or two digits, so such a hyphen is joined (``well-known``,
#   ``1985-86``). Any other hyphen had spaces in the text, and so had one before an article or relative pronoun.
# - An en dash is joined between years (``1740–1776``) and between two capitalised words (``Dallas–Fort Worth``), an em
#   dash between letters, a slash always.
# - Straight quotation marks open and close alternately. If a sentence has an odd number of them, one may be an inch
#   mark (``7" vinyl``), or a quotation may continue from the previous sentence or into the next.
# - A straight single mark after an s is an apostrophe (``boys'``) if the other marks of the sentence can still be
#   paired.
#
# The original text is not published, so these rules guess. A wrong guess only misplaces a space.

Span = tuple[int, int]


class Detokenised(NamedTuple):
    """A sentence as running text.

    :param text: without white space at its ends.
    :param spans: for each token, (start, end) in characters; start equals end for a token of only white space.
    :param quoted: whether a quotation is open at the end.
    """

    text: str
    spans: tuple[Span, ...]
    quoted: bool


_CLOSING = frozenset(".,;:?!)]}%”’»…‰")
_OPENING = frozenset("([{“‘«„‚¡¿")
_CURRENCY = ("$", "£", "€", "¥", "₹")
_CONTRACTION = re.compile(r"(?:['’](?:s|m|re|ve|ll|d|t)|n['’]t)\Z", re.I)
_MONTHS = frozenset((
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
))  # fmt: skip
_REMARKS = frozenset(("a", "an", "the", "which", "who", "where", "whose"))
#: short words that end in s but are not possessive
_NO_OWNERS = frozenset((
    "as", "is", "was", "his", "its", "this", "has", "does", "thus", "us", "yes", "plus", "versus", "includes", "means",
))  # fmt: skip


def detokenised(tokens: Sequence[str], *, quoted: bool = False) -> Detokenised:
    """Return the text of a sentence's tokens. Never raises.

    :param quoted: whether the previous sentence ended inside a quotation.
    """
    words = [" ".join(token.split()) for token in tokens]
    solid = [word for word in words if word]
    doubles, open_quote = _double_marks(solid, quoted)
    singles = _single_marks(solid)
    parts: list[str] = []
    spans: list[Span] = []
    length = place = 0
    glued, blank = True, False
    for word in words:
        if not word:
            blank = True
            spans.append((length, length))
            continue
        left, right = _ties(solid, place, doubles, singles, blank)
        if not (glued or left):
            parts.append(" ")
            length += 1
        spans.append((length, length + len(word)))
        parts.append(word)
        length += len(word)
        glued, blank = right, False
        place += 1
    return Detokenised("".join(parts), tuple(spans), open_quote)


def _ties(
    words: Sequence[str], i: int, doubles: dict[int, bool], singles: dict[int, bool], blank: bool
) -> tuple[bool, bool]:
    """Return whether word ``i`` is attached to the word before it, and whether to the word after it.

    :param doubles: position of a quotation mark -> whether it opens a quotation.
    :param singles: the same for single marks.
    :param blank: whether a token of white space comes before the word.
    """
    word = words[i]
    if word.isalnum():
        return False, False
    if i in doubles:
        opens = doubles[i]
        return not opens, opens or word.endswith("—")
    if i in singles:
        return not singles[i], singles[i]
    before = words[i - 1] if i else ""
    after = words[i + 1] if i + 1 < len(words) else ""
    if word in _JOINERS:
        joined = not blank and bool(before and after) and _JOINERS[word](words, i)
        return joined, joined
    if word == "#":
        return (False, True) if after[:1].isdigit() else (True, False)
    if word == "°":
        return before[-1:].isdigit() and not blank, after[:1] in ("C", "F")
    if word == "+":
        return not after[:1].isalnum(), False
    if word == ":" and before[-1:].isdigit() and after[:1].isdigit():
        return True, True
    if after == "-" and word.lower() == "'s":
        return False, False  # 's-Hertogenbosch
    return _by_form(word)


@lru_cache(maxsize=4096)
def _by_form(word: str) -> tuple[bool, bool]:
    marks = not any(map(str.isalnum, word))
    left = (marks and word[0] in _CLOSING) or bool(_CONTRACTION.match(word))
    right = (marks and (word[-1] in _OPENING or word in (".-", ".—"))) or word.endswith(_CURRENCY)
    return left, right


def _hyphen_joins(words: Sequence[str], i: int) -> bool:
    """Join ``well - known``, ``1985 - 86`` and ``two - and - a - half``, but not ``FK Teleoptik - a club``."""
    before, after = words[i - 1], words[i + 1]
    if after in _REMARKS and words[i + 2 : i + 3] != ["-"] and words[max(0, i - 2) : max(0, i - 1)] != ["-"]:
        return False
    return _same_type(before[-1], after[0])


def _en_dash_joins(words: Sequence[str], i: int) -> bool:
    """Join ``1740 – 1776`` (years, not dates) and ``Finland – Norway``."""
    before, after = words[i - 1], words[i + 1]
    if before.isdigit() and after.isdigit():
        return words[i + 2 : i + 3] == [] or words[i + 2] not in _MONTHS
    return before[:1].isupper() and after[:1].isupper() and _same_type(before[-1], after[0])


def _em_dash_joins(words: Sequence[str], i: int) -> bool:
    return words[i - 1][-1].isalpha() and words[i + 1][0].isalpha()


_JOINERS: Mapping[str, Callable[[Sequence[str], int], bool]] = {
    "-": _hyphen_joins, "–": _en_dash_joins, "—": _em_dash_joins, "/": lambda words, i: True,
}  # fmt: skip


def _same_type(last: str, first: str) -> bool:
    return (last.isalpha() and first.isalpha()) or (last.isdigit() and first.isdigit())


def _double_marks(words: Sequence[str], quoted: bool) -> tuple[dict[int, bool], bool]:
    """Return position of each straight quotation mark -> whether it opens, and whether a quotation stays open."""
    places = [i for i, word in enumerate(words) if '"' in word and word.count('"') % 2]
    if not places:
        return {}, quoted
    inch: dict[int, bool] = {}
    if len(places) % 2:
        for i in places:
            if words[i] == '"' and i and words[i - 1][-1].isdigit():
                inch[i] = False
                places.remove(i)
                break
    odd = len(places) % 2 == 1
    first, second = (quoted, not quoted) if odd else (False, True)
    start = first if _misfits(words, places, first) <= _misfits(words, places, second) else second
    turns = {i: (n % 2 == 0) is not start for n, i in enumerate(places)}
    marks = {i: opens for i, opens in turns.items() if not any(map(str.isalnum, words[i]))}
    return inch | marks, start is not odd


def _misfits(words: Sequence[str], places: Sequence[int], start: bool) -> int:
    """Count marks that would open before a closing mark or the end, or close after an opening mark or at the start."""
    count = 0
    for n, i in enumerate(places):
        if (n % 2 == 0) is not start:
            count += i + 1 == len(words) or _by_form(words[i + 1])[0]
        else:
            count += i == 0 or words[i - 1][-1] in _OPENING
    return count


def _single_marks(words: Sequence[str]) -> dict[int, bool]:
    """Return position of each token ``'`` -> whether it opens a quotation. An apostrophe does not."""
    places = [i for i, word in enumerate(words) if word == "'"]
    owners = [_is_possessive(words, i) for i in places]
    marks: dict[int, bool] = {}
    inside = False
    for n, i in enumerate(places):
        left = len(places) - n
        if inside:
            marks[i] = inside = False
        elif left == 1 or (owners[n] and (left % 2 or owners[n + 1])):
            marks[i] = False
        else:
            marks[i] = inside = True
    return marks


def _is_possessive(words: Sequence[str], i: int) -> bool:
    """Return True if the mark at ``i`` may be a possessive apostrophe: ``the boys ' team``."""
    before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
    return before[-1:] in ("s", "S", "x", "z") and before.lower() not in _NO_OWNERS and after[:1].isalnum()


#: type in the corpus -> class in words; any other type is used in lower case
KINDS: Mapping[str, str] = {
    "PER": "person",
    "ORG": "organization",
    "LOC": "location",
    "TIME": "date",
    "NUM": "number",
    "MISC": "other",
}


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """One sentence of a document.

    :param document: number of the document in the file, from 1.
    :param sentence: number of the sentence in the document, from 1.
    :param entities: (name, kind) of each labelled name, once, in order of appearance. The text contains the name
        literally. Two names of the same entity ("Schneider", "Willi Schneider") are two entries.
    """

    document: int
    sentence: int
    text: str
    entities: tuple[tuple[str, str], ...]


def labelled_sentences(documents: Any, path: str) -> Iterator[LabelledSentence]:
    """Yield the sentences of a file in order. Sentences without a visible character are left out.

    :param documents: the parsed JSON of the file.
    :param path: the file, for messages.
    :raises DataError: if the value is not a list of such documents. The message has the document's number, from 1.
    """
    if type(documents) is not list:
        _fail(path, "is not a list of documents", "use a file of Re-DocRED")
    if not documents:
        _fail(path, "has no documents", "use a file of Re-DocRED")
    for number, document in enumerate(documents, start=1):
        place = f"{path}: document {number}"
        if type(document) is not dict:
            _fail(place, "is not an object", "write title, sents and vertexSet")
        sentences = _sentences(document.get("sents"), place)
        names = _names(document.get("vertexSet"), sentences, place)
        for index, sentence in enumerate(sentences):
            if sentence.text:
                yield LabelledSentence(number, index + 1, sentence.text, names[index])


def _sentences(sents: Any, place: str) -> list[Detokenised]:
    if type(sents) is not list or not sents:
        _fail(place, "'sents' is not a list of sentences", "write each sentence as a list of tokens")
    sentences: list[Detokenised] = []
    quoted = False
    for number, tokens in enumerate(sents, start=1):
        if type(tokens) is not list or not all(type(token) is str for token in tokens):
            _fail(place, f"sentence {number} is not a list of tokens", "write a list of strings")
        sentences.append(detokenised(tokens, quoted=quoted))
        quoted = sentences[-1].quoted
    return sentences


def _names(entities: Any, sentences: Sequence[Detokenised], place: str) -> list[tuple[tuple[str, str], ...]]:
    """Return (name, kind) of the names labelled in each sentence."""
    if type(entities) is not list or not all(type(mentions) is list for mentions in entities):
        _fail(place, "'vertexSet' is not a list of entities", "write each entity as a list of mentions")
    # (start, -end, name, kind): sorting puts the longer of two names with the same start first.
    labelled: list[list[tuple[int, int, str, str]]] = [[] for _ in sentences]
    for number, mentions in enumerate(entities, start=1):
        for mention in mentions:
            index, start, stop, kind = _mention(mention, sentences, f"{place}: entity {number}")
            text = sentences[index].text[start:stop]
            if text:
                labelled[index].append((start, -stop, text, kind))
    names: list[dict[str, str]] = [{} for _ in sentences]
    for kinds, mentions in zip(names, labelled, strict=True):
        for _, _, name, kind in sorted(mentions):
            kinds.setdefault(name, kind)
    return [tuple(kinds.items()) for kinds in names]


def _mention(mention: Any, sentences: Sequence[Detokenised], place: str) -> tuple[int, int, int, str]:
    """Return the sentence (from 0), start and end in characters, and kind."""
    if type(mention) is not dict:
        _fail(place, "a mention is not an object", "write name, type, sent_id and pos")
    kind, index, pos = mention.get("type"), mention.get("sent_id"), mention.get("pos")
    if type(kind) is not str or not kind:
        _fail(place, f"a mention has the type {kind!r}", f"write one of {', '.join(KINDS)}")
    if type(index) is not int or not 0 <= index < len(sentences):
        _fail(place, f"a mention has the sent_id {index!r}", f"write a number from 0 to {len(sentences) - 1}")
    spans = sentences[index].spans
    if type(pos) is not list or len(pos) != 2 or not all(type(n) is int for n in pos):
        _fail(place, f"a mention has the pos {pos!r}", "write [first token, token after the last]")
    first, stop = pos
    if not 0 <= first <= stop <= len(spans):
        _fail(
            place,
            f"a mention has the pos {pos!r}, but sentence {index} has {len(spans)} tokens",
            "write positions of tokens in the sentence",
        )
    # A mention may begin or end with a token of white space, whose span is empty.
    visible = [span for span in spans[first:stop] if span[0] < span[1]]
    start, end = (visible[0][0], visible[-1][1]) if visible else (0, 0)
    return index, start, end, KINDS.get(kind, kind.lower())


def _fail(place: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{place}: {what}; {fix}")
