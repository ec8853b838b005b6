"""Sentences of Re-DocRED with their labelled entities, as running text.

A file is a list of documents: ``title``, ``sents`` (sentences as lists of tokens) and ``vertexSet`` (entities, each
a list of mentions with ``name``, ``type``, ``sent_id`` and ``pos``, the first token and the one after the last). The
text of a mention is that of its tokens: ``name`` differs from them in a few mentions, by a footnote's number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.oracle.detokenise import Detokenised, detokenised
from pytest_llmprops.core.errors import DataError

#: the corpus's types in words; any other is given in lower case
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

    :param document: its document's place in the file, from 1. :param sentence: its own in the document, from 1.
    :param entities: (name, kind) of each name that is labelled in it, once, in order of appearance; a name stands
        literally in the text. Names of the same entity ("Schneider", "Willi Schneider") are two.
    """

    document: int
    sentence: int
    text: str
    entities: tuple[tuple[str, str], ...]


def labelled_sentences(documents: Any, path: str) -> Iterator[LabelledSentence]:
    """The sentences of a file's JSON, in order; those without a visible character are left out.

    :param path: the file, for messages.
    :raises DataError: the value is no list of such documents; names the document, counted from 1.
    """
    if type(documents) is not list:
        _fail(path, "is no list of documents", "give a file of Re-DocRED")
    if not documents:
        _fail(path, "has no documents", "give a file of Re-DocRED")
    for number, document in enumerate(documents, start=1):
        place = f"{path}: document {number}"
        if type(document) is not dict:
            _fail(place, "is no object", "write title, sents and vertexSet")
        sentences = _sentences(document.get("sents"), place)
        names = _names(document.get("vertexSet"), sentences, place)
        for index, sentence in enumerate(sentences):
            if sentence.text:
                yield LabelledSentence(number, index + 1, sentence.text, names[index])


def _sentences(sents: Any, place: str) -> list[Detokenised]:
    if type(sents) is not list or not sents:
        _fail(place, "'sents' is no list of sentences", "write each sentence as a list of tokens")
    found: list[Detokenised] = []
    quoted = False
    for number, tokens in enumerate(sents, start=1):
        if type(tokens) is not list or not all(type(token) is str for token in tokens):
            _fail(place, f"sentence {number} is no list of tokens", "write a list of strings")
        found.append(detokenised(tokens, quoted=quoted))
        quoted = found[-1].quoted
    return found


def _names(entities: Any, sentences: Sequence[Detokenised], place: str) -> list[tuple[tuple[str, str], ...]]:
    """Of each sentence, the names labelled in it with their kinds."""
    if type(entities) is not list or not all(type(mentions) is list for mentions in entities):
        _fail(place, "'vertexSet' is no list of entities", "write each entity as a list of mentions")
    # Sorted by start, of those that begin at one place the longest first.
    labelled: list[list[tuple[int, int, str, str]]] = [[] for _ in sentences]
    for number, mentions in enumerate(entities, start=1):
        for mention in mentions:
            where, start, stop, kind = _mention(mention, sentences, f"{place}: entity {number}")
            text = sentences[where].text[start:stop]
            if text:
                labelled[where].append((start, -stop, text, kind))
    names: list[dict[str, str]] = [{} for _ in sentences]
    for kinds, found in zip(names, labelled, strict=True):
        for _, _, name, kind in sorted(found):
            kinds.setdefault(name, kind)
    return [tuple(kinds.items()) for kinds in names]


def _mention(mention: Any, sentences: Sequence[Detokenised], place: str) -> tuple[int, int, int, str]:
    """Sentence (from 0), start and end in characters, and kind."""
    if type(mention) is not dict:
        _fail(place, "a mention is no object", "write name, type, sent_id and pos")
    kind, where, pos = mention.get("type"), mention.get("sent_id"), mention.get("pos")
    if type(kind) is not str or not kind:
        _fail(place, f"a mention has the type {kind!r}", f"write one of {', '.join(KINDS)}")
    if type(where) is not int or not 0 <= where < len(sentences):
        _fail(place, f"a mention has the sent_id {where!r}", f"write a number from 0 to {len(sentences) - 1}")
    spans = sentences[where].spans
    if type(pos) is not list or len(pos) != 2 or not all(type(n) is int for n in pos):
        _fail(place, f"a mention has the pos {pos!r}", "write [first token, token after the last]")
    first, stop = pos
    if not 0 <= first <= stop <= len(spans):
        _fail(
            place,
            f"a mention has the pos {pos!r}, and sentence {where} has {len(spans)} tokens",
            "name tokens of the sentence",
        )
    # A mention may begin or end with a token of white space, which has no place of its own.
    solid = [span for span in spans[first:stop] if span[0] < span[1]]
    start, end = (solid[0][0], solid[-1][1]) if solid else (0, 0)
    return where, start, end, KINDS.get(kind, kind.lower())


def _fail(place: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{place}: {what}; {fix}")
