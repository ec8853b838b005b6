"""Read which variation a reply or a translation names (Barua et al., appendix B.2 and B.3).

A *variation* is a tuple of surface forms. A prediction is right if any of its forms equals any form of the label. Both
readings compare folded texts (``text.folded``); a similar text has a ratio of at least 0.7.

The paper leaves these points open:

- Forms may contain each other (``sien`` in ``gesien``). Of overlapping forms, the longest counts.
- A chat reply may name several variations between the fences. It selects one if it rejects all others in words
  (:mod:`~pytest_llmprops.benchmarks.dtails.rejections`). Otherwise it is wrong. Spelling does not matter
  (:mod:`~pytest_llmprops.benchmarks.dtails.text`), except between variations that differ only in it. If the reply
  names no variation, a part of it may resemble one. A look-alike word does not count.
- If a translation has several forms, whole words win over parts of words, then the longest wins, then the leftmost,
  then one that needs no folding, then the first in the list. The leftmost form is recorded too.
- Fences around nothing, or only around the word "answer", are not an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz.distance import Indel, Prefix

from pytest_llmprops.benchmarks.dtails.rejections import (
    Mention,
    Mentions,
    Variations,
    find_mentions,
    has_rejection,
)
from pytest_llmprops.benchmarks.dtails.text import (
    indel_ratio,
    inflected,
    is_stem,
    is_whole,
    simplified,
    starts,
    trimmed,
)
from pytest_llmprops.core.texts import folded, is_word_character

#: Minimum ratio of similar texts. The paper says "exceeds 0.7"; the authors' code includes 0.7.
THRESHOLD = 0.7
#: Forms with at most this many characters do not count inside other words of a translation.
VERY_SHORT = 3
FENCE = "```"
How = Literal["equal", "similar", "within", "substring", "inflected", "word", "none"]

#: Where a reply is split to look for a misspelled form, and the characters that stand for names.
_PARTS = re.compile(r"[/()\[\],;:、。（）｢｣「」—–]| - |\. ")
_NAMES = re.compile("[\ue000-\uf8ff]")
_ANSWER = re.compile(r"\banswer\b", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:I\s+(?:can\s?not|can['’]t|am\s+(?:unable|not\s+able)\s+to|won['’]t|will\s+not)"
    r"|I['’]m\s+(?:unable|not\s+able)\s+to)\s+(?:help|assist|answer|comply|provide|translate|select|choose|do|fulfil)"
    r"|\bI\s+(?:must\s+)?decline\b|\bas\s+an\s+AI\b[^.]{0,300}\b(?:cannot|can['’]t|unable|not\s+able)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The variation that a text names.

    :param index: Its index in the list of variations; None if the text names none.
    :param form: The winning surface form, unfolded.
    :param ratio: Its Indel ratio to the text that it matched, in [0, 1]; 1 for an exact match.
    :param start: Index of the match in the folded text; -1 without a match.
    :param leftmost: Index of the variation that a reply names first, also if it rejects it, or of the leftmost form of
        a translation that matched as well as the winner.
    :param how: ``equal``, ``similar`` or ``within`` for a reply; ``substring``, ``inflected`` or ``word`` for a
        translation.
    :param problem: A short phrase that says why there is no variation.
    :param obeyed: The reply followed the template: two fences with text between them. Only a reply that did not is
        retried, as in the paper. A reply that did and names no variation is wrong.
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
    """A form that matches a text; ``exact`` if the unfolded text has the unfolded form."""

    index: int
    form: str
    length: int
    ratio: float
    start: int
    exact: bool
    is_word: bool = True


def fenced(reply: str) -> str | None:
    """Return the text between two ``` fences without the word "answer"; None without exactly two fences."""
    parts = reply.split(FENCE)
    return " ".join(_ANSWER.sub(" ", parts[1]).split()) if len(parts) == 3 else None


def read_selection(reply: str, variations: Variations, *, threshold: float = THRESHOLD) -> Reading:
    """Return the variation that a chat reply selects.

    :param variations: In the order shown to the model, so that ``index`` is the position chosen.
    """
    inside = fenced(reply)
    if inside is None:
        count = reply.count(FENCE)
        return Reading(problem=f"{count} fences of three backticks instead of two", obeyed=False)
    # A model may copy the joiners of a list as Python prints them.
    inside = inside.replace("\\u200c", "\u200c").replace("\\u200d", "\u200d")
    text = folded(inside)
    if not trimmed(text):
        return Reading(problem="nothing between the fences", obeyed=False)
    names = find_mentions(inside, variations)
    accepted = names.accepted()
    if accepted:
        return _named(accepted, names, text, variations)
    similar = _similar(names, variations, threshold)
    if similar:
        ratio = max(match.ratio for match in similar)
        best = [match for match in similar if match.ratio == ratio]
        if len({match.index for match in best}) == 1:
            return _winner(best, "similar")
        return Reading(problem="a word that is equally similar to several variations")
    if names.mentions:
        return Reading(problem="only rejected variations between the fences")
    return Reading(problem="none of the variations between the fences")


def _named(accepted: Sequence[Mention], names: Mentions, text: str, variations: Variations) -> Reading:
    indexes = {index for mention in accepted for index in mention.indexes}
    if len(indexes) > 1:
        listed = ", ".join("/".join(variations[index]) for index in sorted(indexes))
        return Reading(problem=f"several variations between the fences: {listed}")
    (index,) = indexes
    how: How = "equal" if len(trimmed(names.text)) == 0 and len(names.mentions) == 1 else "within"
    form = accepted[0].form
    return Reading(index, form, 1.0, max(0, text.find(folded(form))), min(names.mentions[0].indexes), how)


def _similar(names: Mentions, variations: Variations, threshold: float) -> list[_Match]:
    """Return the forms that a part of the reply resembles. A part with a word of rejection does not count."""
    text = names.text
    parts = [part for part in map(trimmed, _PARTS.split(text)) if part]
    words = [part for part in parts if not has_rejection(part) and not _NAMES.search(part)]
    forms = [(index, form, simplified(form)) for index, form, _ in _forms(variations)]
    return [
        _Match(index, form, len(plain), ratio, max(0, text.find(word)), False)
        for word in dict.fromkeys(words)
        for index, form, plain in forms
        if (ratio := indel_ratio(word, plain)) >= threshold and not is_look_alike(word, plain)
    ]


def is_look_alike(word: str, form: str) -> bool:
    """Return True if a similar word is probably another word of the language, not this form with a typing error.

    A word with another first letter is. A short word may have another ending ("kyke"), one letter more or less, or two
    letters swapped; otherwise it is another word ("week" for "weet"). A form of up to four letters may only have an
    ending added or, from four letters, a letter doubled ("sieen").
    """
    if word[0] != form[0] or word.count(" ") != form.count(" "):
        return True
    if word.startswith(form) or len(form) >= 8:
        return False
    if len(form) <= 4:
        return len(form) < 4 or len(word) < len(form) or _undoubled(word) != _undoubled(form)
    is_one_letter, is_swapped = Indel.distance(word, form) == 1, sorted(word) == sorted(form)
    return not (is_one_letter or is_swapped or Prefix.similarity(word, form) >= 0.7 * len(form))


def _undoubled(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1", word)


def read_translation(
    translation: str, variations: Variations, tokens: Iterable[str], *, threshold: float = THRESHOLD
) -> Reading:
    """Return the variation that a translation uses (appendix B.2): an exact substring, or the most similar word.

    :param tokens: Words of the translation, with lemmas if available. Used only if the translation contains no form.
        Without tokens, only the exact forms are searched.
    """
    text = folded(translation)
    if not text:
        return Reading(problem="the translation is empty")
    forms = _forms(variations)
    matches = [
        _Match(index, form, len(plain), 1.0, start, form in translation, is_word)
        for index, form, plain in forms
        for start, is_word in _places(plain, text)
    ]
    if matches:
        return _winner([match for match in matches if match.is_word] or matches, "substring")
    words = [word for word in map(folded, tokens) if word]
    similar = [
        _Match(index, form, len(plain), ratio, text.find(word), form in translation)
        for index, form, plain in forms
        for word in words
        if (ratio := indel_ratio(word, plain)) >= threshold
        and (len(plain) > VERY_SHORT or word.startswith(plain) or word.endswith(plain))
    ]
    ratio = max((match.ratio for match in similar), default=0.0)
    inflections = [
        _Match(index, form, len(plain), 1.0, start, False)
        for index, form, plain in (forms if words and ratio < 1 else ())
        if (start := inflected(plain, text)) >= 0
    ]
    if inflections:
        return _winner(inflections, "inflected")
    if not similar:
        return Reading(problem="no word of the translation is similar to a variation")
    return _winner([match for match in similar if match.ratio == ratio], "word")


def _places(form: str, text: str) -> list[tuple[int, bool]]:
    """Return the index of each occurrence of a form, and whether it is a whole word or the stem of one.

    Very short forms occur inside many unrelated words (Latvian ``iet`` in ``vieta``). They count in another word only
    if it begins with them and is similar, as ``ādai`` is to ``āda``.
    """
    places = []
    for start in starts(form, text):
        stop = start + len(form)
        is_word = is_whole(text, start, stop) or is_stem(text, start, stop)
        if is_word or len(form) > VERY_SHORT or indel_ratio(form, _word_from(text, start)) >= THRESHOLD:
            places.append((start, is_word))
    return places


def _word_from(text: str, start: int) -> str:
    """Return the word that begins at ``start``; empty if ``start`` is inside a word."""
    if start and is_word_character(text[start - 1]):
        return ""
    stop = start
    while stop < len(text) and is_word_character(text[stop]):
        stop += 1
    return text[start:stop]


def is_right(prediction: Iterable[str], label: Iterable[str]) -> bool:
    """Return True if any form of the predicted variation equals any form of the label, after folding."""
    return not set(map(folded, prediction)).isdisjoint(map(folded, label))


def declines(reply: str) -> bool:
    """Return True if a reply without fences says, in English, that it will not or cannot answer."""
    return FENCE not in reply and bool(_REFUSAL.search(reply))


def _forms(variations: Variations) -> list[tuple[int, str, str]]:
    """Return every surface form as (index of its variation, form, folded form); no folded form is empty."""
    forms = [(index, form, trimmed(folded(form))) for index, forms in enumerate(variations) for form in forms]
    return [entry for entry in forms if entry[2]]


def _winner(matches: Sequence[_Match], how: How) -> Reading:
    chosen = min(matches, key=lambda m: (-m.length, m.start, not m.exact, m.index))
    # If two forms begin at the same place, the longer one counts: "gesien" begins where "ge" does.
    leftmost = min(matches, key=lambda m: (m.start, -m.length, not m.exact, m.index))
    return Reading(chosen.index, chosen.form, chosen.ratio, chosen.start, leftmost.index, how)
