"""Read which variation a reply or a translation names (Barua et al., appendix B.2 and B.3).

A *variation* is a tuple of surface forms. A similar text has a ratio of at least 0.7.

The authors' plain rule (:func:`paper_selection`, :func:`paper_translation`) compares the whole answer with each form.
This project's rule (:func:`read_selection`, :func:`read_translation`) reads what people would:

- The last code fence is the answer, or what a reply without one states. `core.reading` reads which variation it
  chooses. If it names none, a word of it may resemble one; a look-alike word does not count.
- A translation is read without headings, notes, English sentences and further translations. Of overlapping forms
  (``sien`` in ``gesien``), the longest counts. Of several variations, whole words win over parts of words, then the
  most frequent, then the leftmost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, NamedTuple

from pytest_llmprops.benchmarks.dtails.text import (
    begins_word,
    indel_ratio,
    inflected,
    is_stem,
    is_whole,
    occurs,
    simplified,
    spellings,
    starts,
    trimmed,
)
from pytest_llmprops.core.reading import fenced, stated
from pytest_llmprops.core.reply_json import found_json
from pytest_llmprops.core.texts import folded, is_word_character, unicode_words

Variations = Sequence[Sequence[str]]
#: Minimum ratio of similar texts. The paper says "exceeds 0.7"; the authors' code includes 0.7.
THRESHOLD = 0.7
#: Only a form of more letters is read in a word with another letter.
_SHORT = 4
#: Minimum ratio of a misspelled choice ("orela" for "orella"); a word of a translation may be inflected.
_MISSPELLED = 0.83
#: Forms with at most this many characters do not count inside other words of a translation.
VERY_SHORT = 3
#: How much nearer to the concept's place a variation must be, as a share of the sentence.
_NEARER = 0.1
FENCE = "```"
How = Literal["equal", "similar", "within", "substring", "inflected", "word", "none"]

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
    :param how: ``equal``, ``similar``, ``inflected`` or ``within`` for a reply; ``substring``, ``inflected`` or
        ``word`` for a translation.
    :param problem: A short phrase that says why there is no variation.
    :param obeyed: The reply followed the template: two fences with text between them. Only a reply that did not is
        retried, as in the paper. A reply that did and names no variation is wrong.
    """

    index: int | None = None
    form: str = ""
    ratio: float = 0.0
    how: How = "none"
    problem: str = ""
    obeyed: bool = True


class _Form(NamedTuple):
    """A surface form, the index of its variation, and its folded spelling."""

    variation: int
    form: str
    plain: str


def _forms(variations: Variations) -> list[_Form]:
    return [
        _Form(index, form, plain)
        for index, forms in enumerate(variations)
        for form in forms
        if (plain := trimmed(folded(form)))
    ]


def read_selection(reply: str, variations: Variations) -> Reading:
    """Return the variation that a chat reply selects.

    :param variations: In the order shown to the model, so that ``index`` is the position chosen.
    """
    # A model may copy the joiners of a list as Python prints them.
    reply = reply.replace("\\u200c", "\u200c").replace("\\u200d", "\u200d")
    inside = _ANSWER.sub(" ", fenced(reply) or "")
    is_fenced = trimmed(folded(inside)) != ""
    text = inside if is_fenced else reply
    own = {form for variation in variations for form in variation}
    names = [
        ("/".join(forms), *forms, *(one for form in forms for one in spellings(form) if one not in own))
        for forms in variations
    ]
    has_several = reply.count(FENCE) > 2
    index = stated(reply.replace(FENCE, '"'), names, strict=True) if has_several else None
    index = stated(text, names, strict=not is_fenced) if index is None else index
    shown = simplified(text)
    if index is not None:
        how: How = "equal" if trimmed(shown) in map(simplified, names[index]) else "within"
        return Reading(index, variations[index][0], 1.0, how)
    if not is_fenced:
        problem = "nothing between the fences" if FENCE in reply else _fences(0)
        return Reading(problem=problem, obeyed=False)
    if any(occurs(simplified(form), shown) for form in own):
        return Reading(problem="only rejected, or several, variations between the fences")
    return _resembling(text, variations)


def _fences(count: int) -> str:
    return f"{count} fences of three backticks instead of two"


def _resembling(text: str, variations: Variations) -> Reading:
    """Return the variation that has an inflected form in the text, or that a word of the text resembles most."""
    forms, plain, shown = _forms(variations), folded(text), simplified(text)
    inflections = [
        one
        for one in forms
        if inflected(one.plain, plain) >= 0
        or any(is_stem(plain, start, start + len(one.plain)) for start in starts(one.plain, plain))
    ]
    if len({one.variation for one in inflections}) == 1:
        return Reading(inflections[0].variation, inflections[0].form, 1.0, "inflected")
    similar = [
        Reading(index, form, _ratio(word, simplified(form)), "similar")
        for word in dict.fromkeys([trimmed(shown), *unicode_words(shown)])
        for index, form, _ in forms
        if len(form) > _SHORT or word.startswith(simplified(form))
    ]
    best = max(similar, key=lambda reading: reading.ratio, default=Reading())
    if best.ratio < _MISSPELLED:
        return Reading(problem="the answer is none of the variations")
    if len({reading.index for reading in similar if reading.ratio == best.ratio}) > 1:
        return Reading(problem="a word that is equally similar to several variations")
    return best


def _ratio(word: str, form: str) -> float:
    """Return the similarity of a word to a form; 0 for another word of the language.

    A word with another first letter is, and so is one with as many letters as a short form ("wees" for "weet"). Very
    short forms are only similar to longer words that begin or end with them ("bekyk" and "kyk").
    """
    if len(form) <= VERY_SHORT:
        is_near = word.startswith(form) or word.endswith(form)
    else:
        is_near = word == form or (word[:1] == form[0] and (len(form) > _SHORT or len(word) != len(form)))
    return indel_ratio(word, form) if is_near else 0.0


def paper_selection(reply: str, variations: Variations) -> Reading:
    """Return the variation that a chat reply selects by the authors' plain rule (appendix B.3 and their code).

    The whole text between two fences, split at ``/``, is compared with every form. The most similar variation counts,
    and of equally similar ones the first.

    :param variations: In the order shown to the model.
    """
    parts = reply.split(FENCE)
    if len(parts) != 3:
        return Reading(problem=_fences(len(parts) - 1), obeyed=False)
    if parts[1].strip() == "answer":
        return Reading(problem="nothing between the fences", obeyed=False)
    answers = [text.strip() for text in parts[1].replace("answer", "").split("/")]
    return _first_most_similar(answers, variations, "similar", "the answer is none of the variations")


def _first_most_similar(texts: Iterable[str], variations: Variations, how: How, problem: str) -> Reading:
    best = Reading(problem=problem)
    words = list(dict.fromkeys(texts))
    for index, form in ((index, form) for index, forms in enumerate(variations) for form in forms):
        ratio = max((indel_ratio(word, form.strip()) for word in words), default=0.0)
        if ratio >= THRESHOLD and ratio > best.ratio:
            best = Reading(index, form, ratio, "equal" if ratio == 1 and how == "similar" else how)
    return best


def paper_translation(translation: str, variations: Variations, tokens: Iterable[str]) -> Reading:
    """Return the variation that a translation uses by the authors' plain rule (appendix B.2 and their code).

    The first form that the lower-case reply contains counts, in the order of the list; otherwise the most similar
    word or lemma.

    :param variations: In the order of the data. :param tokens: As for :func:`read_translation`.
    """
    text = translation.lower()
    if not text.strip():
        return Reading(problem="the translation is empty")
    for index, form in ((index, form) for index, forms in enumerate(variations) for form in forms):
        if form in text:
            return Reading(index, form, 1.0, "substring")
    problem = "no word of the translation is similar to a variation"
    return _first_most_similar((word.lower() for word in tokens), variations, "word", problem)


class _Match(NamedTuple):
    """A form in a translation; ``is_exact`` if the unfolded text has the unfolded form."""

    start: int
    variation: int
    form: str
    length: int
    is_exact: bool
    is_word: bool


def read_translation(
    translation: str, variations: Variations, tokens: Iterable[str], *, source: str = "", concept: str = ""
) -> Reading:
    """Return the variation that a translation uses (appendix B.2): an exact substring, or the most similar word.

    Headings, notes, English sentences and further translations are not read (:func:`translated_text`).

    :param tokens: Words of the reply, with lemmas if available. Used only if the translation contains no form.
        Without tokens, only the exact forms are searched.
    :param source: The English sentence, which is not its own translation. :param concept: The English word.
    """
    if not folded(translation):
        return Reading(problem="the translation is empty")
    shown = translated_text(translation, variations, source)
    text = folded(shown)
    if not text:
        return Reading(problem="the translation is in English")
    forms = _forms(variations)
    matches = [
        _Match(start, index, form, len(plain), is_exact, is_word)
        for index, form, plain in forms
        # Once per form: it takes time in proportion to the text.
        for is_exact in [form in shown]
        for start, is_word in _places(plain, text)
    ]
    matches, is_compound = _without_compounds(matches)
    if matches:
        place = _place(concept, source)
        best = _used([match for match in matches if match.is_word] or matches, len(text), place)
        return Reading(best.variation, best.form, 1.0, "substring")
    if is_compound:
        return Reading(problem="only a compound of several variations")
    # A lemma is not in the text. A word that is only in the rest of the reply, or is English, does not count.
    foreign = set(unicode_words(translation)) - set(unicode_words(shown)) | set(unicode_words(source))
    # A word that is there again is no more similar.
    words = [word for word in dict.fromkeys(map(folded, tokens)) if word and word not in foreign]
    similar = [
        Reading(index, form, _ratio(word, plain), "word") for index, form, plain in forms for word in words
    ]
    best_ratio = max((reading.ratio for reading in similar), default=0.0)
    inflections = [one for one in forms if words and best_ratio < 1 and inflected(one.plain, text) >= 0]
    if inflections:
        longest = max(inflections, key=lambda one: len(one.plain))
        return Reading(longest.variation, longest.form, 1.0, "inflected")
    best_word = max(similar, key=lambda reading: (reading.ratio, len(reading.form)), default=Reading())
    if best_word.ratio >= THRESHOLD:
        return best_word
    return Reading(problem="no word of the translation is similar to a variation")


def _place(concept: str, source: str) -> float | None:
    """Return the place of the concept in the English sentence, as a share of it; None unless it is there once."""
    words = [*re.finditer(rf"\b{re.escape(concept)}(?:e?s|e?d|ing)?\b", source, re.I)] if concept else []
    return words[0].start() / len(source) if len(words) == 1 else None


def _used(matches: Sequence[_Match], length: int, place: float | None) -> _Match:
    """Return the match of the variation that translates the concept; of overlapping forms, the longest counts.

    A variation near the concept's place counts, then the most frequent, then the leftmost. The place is only a hint,
    because the order of words differs between languages. On the published reference translations of the nine
    languages, 49 have several variations.
    """
    kept: list[_Match] = []
    for match in sorted(matches, key=lambda one: (one.start, -one.length, not one.is_exact, one.variation)):
        if not kept or match.start >= kept[-1].start + kept[-1].length:
            kept.append(match)
    if place is not None:
        far = [abs(match.start / length - place) for match in kept]
        nearest = min(far) + _NEARER
        near = {match.variation for match, distance in zip(kept, far, strict=True) if distance <= nearest}
        kept = [match for match in kept if match.variation in near]
    uses = Counter(match.variation for match in kept)
    return max(kept, key=lambda match: (uses[match.variation], -match.start))


def _without_compounds(matches: list[_Match]) -> tuple[list[_Match], bool]:
    """Leave out single characters of different variations that form one word: 兄弟 is neither 兄 nor 弟."""
    single = {match.start: match.variation for match in matches if match.length == 1}
    parts = {
        place
        for start, index in single.items()
        if single.get(start + 1, index) != index
        for place in (start, start + 1)
    }
    return [match for match in matches if match.length > 1 or match.start not in parts], bool(parts)


def _places(form: str, text: str) -> list[tuple[int, bool]]:
    """Return the index of each occurrence of a form, and whether it is a whole word or the stem of one.

    Very short forms occur inside many unrelated words (Latvian ``iet`` in ``vieta``). They count in another word only
    if it begins with them and is similar, as ``ādai`` is to ``āda``.
    """
    places = []
    for start in starts(form, text):
        stop = start + len(form)
        is_word = is_whole(text, start, stop) or is_stem(text, start, stop)
        is_inside = len(form) > VERY_SHORT
        if not is_inside and begins_word(text, start):
            word = "".join(takewhile(is_word_character, text[start : stop + 2 * VERY_SHORT]))
            is_inside = indel_ratio(form, word) >= THRESHOLD
        if is_word or is_inside:
            places.append((start, is_word))
    return places


#: Words of English, and of none of the target languages in Latin script (Afrikaans, Galician, Latvian).
_ENGLISH = frozenset(
    """about after again all also although an and any are at be because been before best better both but cannot choose
    chosen context correct could depending did does each either english even explanation fact for formal from has have
    he her him his how i if informal instead into it its know known language literally made make makes may
    mean meaning means might mine more most natural on or other our out phrase please possible rather refers sentence
    she should since some sounds speaker such than that the their them then there these they this those though
    through translated translates translation translations used uses using we were what when where which while who why
    will with word words would you your""".split()  # noqa: SIM905
)
_HEADING = re.compile(r"^[^:：\n]{1,80}?[\"*_'”]*\s*[:：](?=\D|$)")
#: a line, or a sentence after the first one, that is about the translation
_IS_NOTE = re.compile(r"\W*(?:notes?|nb|let wel|nota|explanation|reasoning)\W{0,3}[:：]")
_STRUCK = re.compile("~~[^~]*+~~")
_IS_FINAL = re.compile(r"\b(?:final|correct|better|improved|revised)")
_ASIDE = re.compile(
    r"(?<=[.!?।։。؟\"'”)*])\s*[(（\[][^()（）\[\]]*[)）\]]|\s[(（\[][^()（）\[\]]*[)）\]](?=[.!?\s]*\Z)"
)
_SENTENCE = re.compile(r"(?<=[.!?।։。؟！？])[\"'”’»*_)」』]*\s+|(?<=[。！？])|\s(?:→|=>|->|⇒|\||=)\s")


def translated_text(reply: str, variations: Variations, source: str = "") -> str:
    """Return the translation in a reply; empty if the reply is in English only.

    The first line that is not a heading, a note or English counts, or what follows "final" or "corrected", and further
    lines up to as many sentences as the English sentence has: after them come other translations. Asides in brackets
    are left out. Text in a code fence comes first.
    """
    inside = fenced(reply) or ""
    if inside and (text := translated_text(inside, variations, source)):
        return text
    is_latin = any(re.search("[a-z]", folded(form)) for forms in variations for form in forms)
    english = frozenset(unicode_words(source))
    most = len(_SENTENCE.findall(source.strip())) + 1
    kept: list[str] = []
    # A line shorter than a part of the English sentence is not its translation ("Sure!"), if there is a longer one.
    short: list[str] = []
    values = [value for value in found_json(reply)[0] if isinstance(value, tuple)]
    texts = [inner for value in values for _, inner in value if isinstance(inner, str)] or [reply]
    for raw in _STRUCK.sub(" ", "\n".join(texts).replace(FENCE, "\n")).splitlines():
        if (heading := _HEADING.match(raw)) and _IS_FINAL.search(simplified(heading[0])):
            kept = []
        if len(kept) >= most or _IS_NOTE.match(folded(raw)):
            continue
        line = _ASIDE.sub(" ", raw)
        parts = [
            part
            for part in _SENTENCE.split(line if any(map(is_word_character, line)) else raw)
            if any(map(is_word_character, part)) and not _is_english(part, english, is_latin)
        ]
        parts = [*takewhile(lambda part: not _IS_NOTE.match(folded(part)), parts)]
        length = sum(map(len, parts))
        # A longer heading ends with a colon, which is a full stop in Armenian.
        least = 2 if raw.rstrip(" *_").endswith((":", "：")) else 4
        (kept if kept or least * length >= len(source) else short).extend(parts)
    return "\n".join(kept or short)


def _is_english(text: str, source: frozenset[str], is_latin: bool) -> bool:
    """Return True if a text is English: by its words, or because it (nearly) repeats the source sentence.

    In a language with another script, a text in Latin letters is, but names and single words are not.
    """
    plain = folded(text)
    words = re.findall(r"\w+", plain)
    known = sum(word in _ENGLISH for word in words)
    if not is_latin:
        letters = [character for character in plain if is_word_character(character)]
        latin = sum(map(str.isascii, letters))
        return latin == len(letters) or (known > 0 and 2 * latin > len(letters))
    shared = sum(word in _ENGLISH or word in source for word in words)
    return 3 * known >= len(words) or 4 * shared >= 3 * len(words)


def declines(reply: str, variations: Variations = (), source: str = "") -> bool:
    """Return True if a reply without fences says, in English, that it will not or cannot answer.

    :param source: The English sentence, if a translation was asked for. A remark after the translation is not a
        refusal, and neither is the sentence itself. :param variations: Needed with ``source``.
    """
    found = None if FENCE in reply else _REFUSAL.search(reply)
    if found is None or not source:
        return found is not None
    return not _REFUSAL.search(source) and not translated_text(reply[: found.start()], variations, source)
