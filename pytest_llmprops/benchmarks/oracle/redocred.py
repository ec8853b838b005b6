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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_llmprops.core.errors import DataError

Span = tuple[int, int]
#: the text of a sentence, and the span of each token
_Text = tuple[str, list[Span]]

_CLOSING = frozenset(".,;:?!)]}%”’»…‰+")
_OPENING = frozenset("([{“‘«„‚¡¿$£€¥₹")
_JOINERS = frozenset("-–—/")
_CONTRACTION = re.compile(r"(?:['’](?:s|m|re|ve|ll|d|t)|n['’]t)\Z", re.I)


def detokenised(tokens: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the text of a sentence's tokens, and the (start, end) of each token in it. Never raises.

    The corpus has tokens only, split by spaCy's rules, so the spaces are guesses; a wrong one only misplaces a space.
    White space inside a token becomes one space, and a token of only white space becomes a space. Closing marks,
    contractions and possessives belong to the word before them, opening marks and currency signs to the word after
    them. Straight quotation marks open and close alternately. spaCy splits at a hyphen, dash or slash only between two
    letters or two digits, so these are joined there.
    """
    words = [" ".join(token.split()) for token in tokens]
    text, spans = "", list[Span]()
    is_glued, opened = True, {'"': False, "'": False}
    for place, word in enumerate(words):
        before, after = words[place - 1] if place else "", "".join(words[place + 1 : place + 2])
        left = right = False
        if word in opened:
            # Short words in s are "as", "is" and "was".
            is_possessive = word == "'" and not opened[word] and before[-1:] in ("s", "x") and len(before) > 3
            left, right = opened[word] or is_possessive, not (opened[word] or is_possessive)
            opened[word] = right
        elif word in _JOINERS:
            left = right = _is_inside(before, after)
        elif word:
            is_mark = not any(map(str.isalnum, word))
            left = bool(is_mark and word[0] in _CLOSING) or bool(_CONTRACTION.match(word))
            right = word[-1] in _OPENING
        if word and not (is_glued or left):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        is_glued = right if word else is_glued and not text
    return text, spans


def _is_inside(before: str, after: str) -> bool:
    """Return True if a hyphen, dash or slash between two tokens is inside a word or number."""
    pair = before[-1:] + after[:1]
    return len(pair) == 2 and (pair.isalpha() or pair.isdigit())


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
            if sentence[0]:
                yield LabelledSentence(number, index + 1, sentence[0], names[index])


def _sentences(sents: Any, place: str) -> list[_Text]:
    if type(sents) is not list or not sents:
        _fail(place, "'sents' is not a list of sentences", "write each sentence as a list of tokens")
    sentences = []
    for number, tokens in enumerate(sents, start=1):
        if type(tokens) is not list or not all(type(token) is str for token in tokens):
            _fail(place, f"sentence {number} is not a list of tokens", "write a list of strings")
        sentences.append(detokenised(tokens))
    return sentences


def _names(entities: Any, sentences: Sequence[_Text], place: str) -> list[tuple[tuple[str, str], ...]]:
    """Return (name, kind) of the names labelled in each sentence."""
    if type(entities) is not list or not all(type(mentions) is list for mentions in entities):
        _fail(place, "'vertexSet' is not a list of entities", "write each entity as a list of mentions")
    # (start, -end, name, kind): sorting puts the longer of two names with the same start first.
    labelled: list[list[tuple[int, int, str, str]]] = [[] for _ in sentences]
    for number, mentions in enumerate(entities, start=1):
        for mention in mentions:
            index, start, stop, kind = _mention(mention, sentences, f"{place}: entity {number}")
            text = sentences[index][0][start:stop]
            if text:
                labelled[index].append((start, -stop, text, kind))
    names: list[dict[str, str]] = [{} for _ in sentences]
    for kinds, mentions in zip(names, labelled, strict=True):
        for _, _, name, kind in sorted(mentions):
            kinds.setdefault(name, kind)
    return [tuple(kinds.items()) for kinds in names]


def _mention(mention: Any, sentences: Sequence[_Text], place: str) -> tuple[int, int, int, str]:
    """Return the sentence (from 0), start and end in characters, and kind."""
    if type(mention) is not dict:
        _fail(place, "a mention is not an object", "write name, type, sent_id and pos")
    kind, index, pos = mention.get("type"), mention.get("sent_id"), mention.get("pos")
    if type(kind) is not str or not kind:
        _fail(place, f"a mention has the type {kind!r}", f"write one of {', '.join(KINDS)}")
    if type(index) is not int or not 0 <= index < len(sentences):
        _fail(place, f"a mention has the sent_id {index!r}", f"write a number from 0 to {len(sentences) - 1}")
    _, spans = sentences[index]
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
