"""From a reply or a translation to a variation (Barua et al., appendix B.2 and B.3).

A *variation* is a tuple of surface forms. A prediction is right when any of its forms equals any form of the
label. Both readings compare folded texts (``text.folded`` says how); a ratio counts when it is above 0.7.

What the paper leaves open, and what is done here:

- Forms may contain each other (``sien`` in ``gesien``). Of several forms that match equally well the longest
  wins, then the leftmost in the text, then one that needs no folding (two published Tamil variations differ in
  their Unicode form only), then the first in the list. The form that stands leftmost is kept beside the winner,
  so that a reader sees where the rule decided.
- In a chat reply the text between the fences is compared as a whole (or each of its parts, where it lists forms
  as ``a/b``), an equal form before a similar one. Only where that finds nothing is it searched for a form that
  stands in it as a word, which is the paper's substring step without hits inside other words.
- Fences around nothing, or around no more than the word "answer", are no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.dtails.text import folded, indel_ratio, occurrences, trimmed

THRESHOLD = 0.7
FENCE = "```"
Variations = Sequence[Sequence[str]]
How = Literal["equal", "similar", "within", "substring", "word", "none"]

_ANSWER = re.compile(r"\banswer\b", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:I\s+(?:can\s?not|can['’]t|am\s+(?:unable|not\s+able)\s+to|won['’]t|will\s+not)"
    r"|I['’]m\s+(?:unable|not\s+able)\s+to)\s+(?:help|assist|answer|comply|provide|translate|select|choose|do|fulfil)"
    r"|\bI\s+(?:must\s+)?decline\b|\bas\s+an\s+AI\b[^.]*\b(?:cannot|can['’]t|unable|not\s+able)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The variation that a text names.

    :param index: its place in the variations as they were given, from 0; None when the text names none.
    :param form: the winning surface form, as it was given.
    :param ratio: its Indel ratio to what it matched, in [0, 1]; 1 for an exact match.
    :param start: where the match begins in the folded text, from 0; -1 when there is none.
    :param leftmost: place of the variation whose form stands leftmost among those that matched as well as the
        winner, whatever its length: equal to ``index`` unless the longest form decided.
    :param how: ``equal``, ``similar`` or ``within`` for a reply, ``substring`` or ``word`` for a translation.
    :param problem: why there is no variation, in one phrase.
    :param obeyed: the reply kept to the template: two fences with something between them. Only one that did not
        is worth the paper's retry; one that did, and named no variation, is wrong.
    """

    index: int | None = None
    form: str = ""
    ratio: float = 0.0
    start: int = -1
    leftmost: int | None = None
    how: How = "none"
    problem: str = ""
    obeyed: bool = True


@dataclass(frozen=True, slots=True)
class _Match:
    """A form that a text may mean; ``exact`` where it stands there unfolded."""

    index: int
    form: str
    length: int
    ratio: float
    start: int
    exact: bool


def fenced(reply: str) -> str | None:
    """The text between the two ``` fences without the word "answer"; None unless there are exactly two fences."""
    parts = reply.split(FENCE)
    return " ".join(_ANSWER.sub(" ", parts[1]).split()) if len(parts) == 3 else None


def read_selection(reply: str, variations: Variations, *, threshold: float = THRESHOLD) -> Reading:
    """The variation that a chat reply selects.

    :param variations: in the order shown to the model, so that ``index`` is the position chosen.
    """
    inside = fenced(reply)
    if inside is None:
        count = reply.count(FENCE)
        return Reading(problem=f"{count} fences of three backticks where there should be two", obeyed=False)
    text = folded(inside)
    if not trimmed(text):
        return Reading(problem="nothing between the fences", obeyed=False)
    spans = _spans(text)
    similar = [
        _Match(index, form, len(plain), ratio, start, form in inside)
        for index, form, plain in _forms(variations)
        for part, start in spans
        if (ratio := indel_ratio(part, plain)) > threshold
    ]
    if similar:
        ratio = max(match.ratio for match in similar)
        return _winner([m for m in similar if m.ratio == ratio], "equal" if ratio == 1 else "similar")
    within = _standing(variations, text, inside, whole=True)
    return (
        _winner(within, "within") if within else Reading(problem="none of the variations between the fences")
    )


def read_translation(
    translation: str, variations: Variations, tokens: Iterable[str], *, threshold: float = THRESHOLD
) -> Reading:
    """The variation that a translation uses (appendix B.2): exact substring, else the most similar word.

    :param tokens: words of the translation, with their lemmas where there are any, from whatever splits the
        language into words; looked at only when no form stands in the translation.
    """
    text = folded(translation)
    if not text:
        return Reading(problem="the translation is empty")
    standing = _standing(variations, text, translation, whole=False)
    if standing:
        return _winner(standing, "substring")
    words = [word for word in map(folded, tokens) if word]
    similar = [
        _Match(index, form, len(plain), ratio, text.find(word), form in translation)
        for index, form, plain in _forms(variations)
        for word in words
        if (ratio := indel_ratio(word, plain)) > threshold
    ]
    if not similar:
        return Reading(problem="no word of the translation is like a variation")
    ratio = max(match.ratio for match in similar)
    return _winner([match for match in similar if match.ratio == ratio], "word")


def is_right(prediction: Iterable[str], label: Iterable[str]) -> bool:
    """Whether any form of the predicted variation equals any form of the label, as folded."""
    return not set(map(folded, prediction)).isdisjoint(map(folded, label))


def declines(reply: str) -> bool:
    """Whether a reply that selects nothing says that it will not or cannot answer, in English."""
    return FENCE not in reply and bool(_REFUSAL.search(reply))


def _forms(variations: Variations) -> list[tuple[int, str, str]]:
    """Every surface form: place of its variation, as given, and as compared (never empty)."""
    found = [(index, form, trimmed(folded(form))) for index, forms in enumerate(variations) for form in forms]
    return [entry for entry in found if entry[2]]


def _spans(text: str) -> list[tuple[str, int]]:
    """The whole text and, where it lists forms as ``a/b``, each part; with where they begin."""
    spans = [(trimmed(text), text.index(trimmed(text)))]
    place = 0
    parts = text.split("/")
    for part in parts if len(parts) > 1 else ():
        plain = trimmed(part)
        if plain:
            spans.append((plain, place + part.index(plain)))
        place += len(part) + 1
    return spans


def _standing(variations: Variations, text: str, raw: str, *, whole: bool) -> list[_Match]:
    places = [
        (index, form, plain, occurrences(plain, text, whole=whole))
        for index, form, plain in _forms(variations)
    ]
    return [
        _Match(index, form, len(plain), 1.0, start, form in raw)
        for index, form, plain, start in places
        if start >= 0
    ]


def _winner(matches: Sequence[_Match], how: How) -> Reading:
    chosen = min(matches, key=lambda m: (-m.length, m.start, not m.exact, m.index))
    # Of forms that begin at one place the longer is meant: "gesien" begins where "ge" does.
    leftmost = min(matches, key=lambda m: (m.start, -m.length, not m.exact, m.index))
    return Reading(chosen.index, chosen.form, chosen.ratio, chosen.start, leftmost.index, how)
