"""Which variations a reply names, and which one is left after those that it rejects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.rejections import name_character, rejected_names
from pytest_llmprops.benchmarks.dtails.spelling import EXACT, Simplified, pattern
from pytest_llmprops.benchmarks.dtails.text import is_whole

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


def find_mentions(reply: str, variations: Variations) -> Mentions:
    """Find the names in a reply: whole words that are a form of a variation in any spelling.

    Of names that overlap, the longest counts. If several variations are spelled alike, the one whose form is closest
    to the characters of the reply counts.
    """
    text = Simplified(_PRIVATE.sub(" ", reply))
    spans: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for index, forms in enumerate(variations):
        for form in {"/".join(forms): None, **dict.fromkeys(forms)}:
            shape = pattern(form)
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
