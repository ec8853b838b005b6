"""Read which variation a reply or a translation names (Barua et al., appendix B.2 and B.3).

A *variation* is a tuple of surface forms. A prediction is right if any of its forms equals any form of the label. A
similar text has a ratio of at least 0.7.

The authors' plain rule (:func:`paper_selection`, :func:`paper_translation`) compares the whole answer with each form.
This project's rule (:func:`read_selection`, :func:`read_translation`) reads what people would:

- The last code fence is the answer, or what a reply without one states. `core.reading` reads which variation it chooses
  and which it rejects. If it names no variation, a part of it may resemble one. A look-alike word does not count.
- A translation is read without headings, notes, English sentences and further translations. Forms may contain each
  other (``sien`` in ``gesien``): of overlapping forms, the longest counts. If a translation has several variations,
  whole words win over parts of words, then the one at the concept's place in the English sentence, then the most
  frequent, then the leftmost. The leftmost form is recorded too.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz.distance import Indel, Prefix

from pytest_llmprops.benchmarks.dtails.text import (
    english_forms,
    indel_ratio,
    inflected,
    is_stem,
    is_whole,
    occurrences,
    simplified,
    spellings,
    starts,
    trimmed,
    with_old_spelling,
)
from pytest_llmprops.core.reading import fenced, rejects, stated
from pytest_llmprops.core.strict_json import strict_json
from pytest_llmprops.core.texts import folded, is_word_character, unicode_words

Variations = Sequence[Sequence[str]]
#: Minimum ratio of similar texts. The paper says "exceeds 0.7"; the authors' code includes 0.7.
THRESHOLD = 0.7
#: Forms with at most this many characters do not count inside other words of a translation.
VERY_SHORT = 3
#: The least ratio of a very short form to the word that begins with it, in Arabic script.
_SHORT_ARABIC = 0.66
_ARABIC = re.compile("[\u0600-\u06ff]")
#: Number of letters before a form that make another word: Galician "descoñezo", Afrikaans "verlaat". Shorter prefixes
#: are of an inflection ("gekyk") or a preposition ("destas"); longer ones make a compound ("telefoonnommer").
_PREFIX = 3
FENCE = "```"
How = Literal["equal", "similar", "within", "substring", "inflected", "word", "none"]

_FENCES = "{} fences of three backticks instead of two"
#: Where a reply is split to look for a misspelled form.
_PARTS = re.compile(r"[/()\[\],;:、。（）｢｣「」—–]| - |\. ")
_ANSWER = re.compile(r"\banswer\b", re.IGNORECASE)
_STRUCK = re.compile("~~[^~]*+~~|<(?:s|del)>[^<]*+</(?:s|del)>")
_TOKEN = re.compile(r"\w+")
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


def read_selection(reply: str, variations: Variations, *, threshold: float = THRESHOLD) -> Reading:
    """Return the variation that a chat reply selects.

    :param variations: In the order shown to the model, so that ``index`` is the position chosen.
    """
    # A model may copy the joiners of a list as Python prints them.
    reply = reply.replace("\\u200c", "\u200c").replace("\\u200d", "\u200d")
    inside = _ANSWER.sub(" ", fenced(reply) or "")
    is_fenced = trimmed(folded(inside)) != ""
    text = inside if is_fenced else reply
    own = {form for variation in variations for form in variation}
    forms = [_written(variation, own) for variation in variations]
    index = _of_several(reply, forms) if reply.count(FENCE) > 2 else stated(text, forms, strict=not is_fenced)
    if index is not None:
        named = simplified(text)
        form = max(
            (form for form in variations[index] if occurrences(simplified(form), named) >= 0),
            key=len,
            default=variations[index][0],
        )
        places = [
            [place for form in some if (place := occurrences(simplified(form), named)) >= 0] for some in forms
        ]
        leftmost = (
            min((min(found), index) for index, found in enumerate(places) if found)[1]
            if any(places)
            else index
        )
        how: How = "equal" if trimmed(named) in map(simplified, forms[index]) else "within"
        return Reading(index, form, 1.0, max(0, folded(text).find(folded(form))), leftmost, how)
    if not is_fenced:
        problem = "nothing between the fences" if FENCE in reply else _FENCES.format(0)
        return Reading(problem=problem, obeyed=False)
    if any(
        occurrences(simplified(form), simplified(text), whole=True) >= 0 for some in forms for form in some
    ):
        is_rejected = all(rejects(text, [form]) for some in forms for form in some if form in text)
        what = "only rejected variations" if is_rejected else "several variations"
        return Reading(problem=f"{what} between the fences")
    return _resembling(text, variations, threshold)


def _written(forms: Sequence[str], own: Container[str]) -> tuple[str, ...]:
    """Return the forms of a variation, joined as they are shown, and in other spellings that are no form."""
    others = (one for form in forms for one in spellings(form) if one not in own)
    return (*dict.fromkeys(("/".join(forms), *forms)), *dict.fromkeys(others))


def _of_several(reply: str, forms: Sequence[Sequence[str]]) -> int | None:
    """Return the choice of a reply with several fences: as it states, or else that of the last one."""
    parts = reply.split(FENCE)
    chosen = [index for text in parts[1::2] if (index := stated(text, forms)) is not None]
    if len(set(chosen)) < 2:
        return chosen[-1] if chosen else stated(reply, forms)
    whole = stated(reply.replace(FENCE, '"'), forms)
    is_joined = re.fullmatch(r"\W*(?:or|and)?\W*", parts[2], re.IGNORECASE)
    return whole if whole is not None or is_joined else chosen[-1]


def _resembling(text: str, variations: Variations, threshold: float) -> Reading:
    """Return the variation that has an inflected form in the text, or that a part of the text resembles most."""
    plain_text, shown = folded(text), simplified(text)
    inflections = [
        _Match(index, form, len(plain), 1.0, start, False)
        for index, form, plain in _forms(variations)
        if (start := max(inflected(plain, plain_text), _stem(plain, plain_text))) >= 0
    ]
    if len({match.index for match in inflections}) == 1:
        return _winner(inflections, "inflected")
    words = dict.fromkeys([*filter(None, map(trimmed, _PARTS.split(shown))), *unicode_words(shown)])
    similar = [
        _Match(index, form, len(form), ratio, max(0, shown.find(word)), False)
        for word in words
        for index, form, _ in _forms(variations)
        if (ratio := indel_ratio(word, simplified(form))) >= threshold
        and not is_look_alike(word, simplified(form))
    ]
    best = [match for match in similar if match.ratio == max(match.ratio for match in similar)]
    if len({match.index for match in best}) == 1:
        return _winner(best, "similar")
    if best:
        return Reading(problem="a word that is equally similar to several variations")
    return Reading(problem="none of the variations between the fences")


def _stem(form: str, text: str) -> int:
    """Return the index of the first word of a script of India that begins with a form, or -1."""
    return next((start for start in starts(form, text) if is_stem(text, start, start + len(form))), -1)


def paper_selection(reply: str, variations: Variations, *, threshold: float = THRESHOLD) -> Reading:
    """Return the variation that a chat reply selects by the authors' plain rule (appendix B.3 and their code).

    The whole text between two fences, split at ``/``, is compared with every form. The most similar variation counts,
    and of equally similar ones the first.

    :param variations: In the order shown to the model.
    """
    parts = reply.split(FENCE)
    if len(parts) != 3:
        return Reading(problem=_FENCES.format(len(parts) - 1), obeyed=False)
    if parts[1].strip() == "answer":
        return Reading(problem="nothing between the fences", obeyed=False)
    answers = list(dict.fromkeys(text.strip() for text in parts[1].replace("answer", "").split("/")))
    best = Reading(problem="none of the variations between the fences")
    for index, form in ((index, form) for index, forms in enumerate(variations) for form in forms):
        ratio = max(indel_ratio(answer, form.strip()) for answer in answers)
        if ratio >= threshold and ratio > best.ratio:
            how: How = "equal" if ratio == 1 else "similar"
            best = Reading(index, form, ratio, max(0, parts[1].find(form)), index, how)
    return best


def is_look_alike(word: str, form: str) -> bool:
    """Return True if a similar word is probably another word of the language, not this form with a typing error.

    A word with another first letter is. A short word may have another ending ("kyke"), one letter more or less, or two
    letters swapped; otherwise it is another word ("week" for "weet"). A form of up to four letters may only have an
    ending added or, from four letters, a letter doubled ("sieen"). One of seven letters may have another letter.
    """
    if word[0] != form[0] or word.count(" ") != form.count(" "):
        return True
    if word.startswith(form) or len(form) >= 8:
        return False
    if len(form) <= 4:
        return len(form) < 4 or len(word) < len(form) or _undoubled(word) != _undoubled(form)
    # Another letter is one letter less and one more.
    is_near = Indel.distance(word, form) <= (2 if len(form) == 7 else 1)
    is_swapped = sorted(word) == sorted(form)
    return not (is_near or is_swapped or Prefix.similarity(word, form) >= 0.7 * len(form))


def _undoubled(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1", word)


def read_translation(
    translation: str,
    variations: Variations,
    tokens: Iterable[str],
    *,
    source: str = "",
    concept: str = "",
    threshold: float = THRESHOLD,
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
        _Match(index, form, len(plain), 1.0, start, is_shown, is_word)
        for index, form, plain in forms
        # Once per form: it takes time in proportion to the text.
        for is_shown in [form in shown]
        for start, is_word in _places(plain, text)
    ]
    matches, is_compound = _without_compounds(matches)
    if matches:
        whole = [match for match in matches if match.is_word] or matches
        return _winner(_used(whole, text, source, concept), "substring")
    if is_compound:
        return Reading(problem="only a compound of several variations")
    # A lemma is not in the text. A word that is only in the rest of the reply, or is English, does not count.
    foreign = set(unicode_words(translation)) - set(unicode_words(shown)) | set(unicode_words(source))
    words = [word for word in map(folded, tokens) if word and word not in foreign]
    similar = [
        _Match(index, form, len(plain), ratio, text.find(word), form in shown)
        for index, form, plain in forms
        for word in words
        if (ratio := indel_ratio(word, plain)) >= threshold and _may_be(word, plain)
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


def _without_compounds(matches: list[_Match]) -> tuple[list[_Match], bool]:
    """Leave out single characters of different variations that form one word: 兄弟 is neither 兄 nor 弟."""
    single = {match.start: match.index for match in matches if match.length == 1}
    parts = {
        place
        for start, index in single.items()
        if single.get(start + 1, index) != index
        for place in (start, start + 1)
    }
    return [match for match in matches if match.length > 1 or match.start not in parts], bool(parts)


def _may_be(word: str, form: str) -> bool:
    """Return False for a similar word of a translation that is another word.

    It has another first letter, or it differs from a short form in a letter ("wees" for "weet"). Very short forms
    are only similar to longer words that begin or end with them ("bekyk" and "kyk").
    """
    if len(form) <= VERY_SHORT:
        return word.startswith(form) or word.endswith(form)
    return word == form or (word[0] == form[0] and (len(form) > 4 or len(word) != len(form)))


def paper_translation(
    translation: str, variations: Variations, tokens: Iterable[str], *, threshold: float = THRESHOLD
) -> Reading:
    """Return the variation that a translation uses by the authors' plain rule (appendix B.2 and their code).

    The first form that the lower-case reply contains counts, in the order of the list; otherwise the most similar
    word or lemma.

    :param variations: In the order of the data. :param tokens: As for :func:`read_translation`.
    """
    text = translation.lower()
    if not text.strip():
        return Reading(problem="the translation is empty")
    forms = [(index, form) for index, forms in enumerate(variations) for form in forms]
    for index, form in forms:
        if form in text:
            return Reading(index, form, 1.0, text.find(form), index, "substring")
    words = list(dict.fromkeys(word.lower() for word in tokens))
    best = Reading(problem="no word of the translation is similar to a variation")
    for index, form in forms:
        for word in words:
            ratio = indel_ratio(word, form)
            if ratio >= threshold and ratio > best.ratio:
                best = Reading(index, form, ratio, max(0, text.find(word)), index, "word")
    return best


# Of several variations in one translation, choose the one that translates the concept. On the published reference
# translations of the nine languages, 49 have several; these rules read 38 of them as labelled, "the longest" 27.

#: How much nearer to the concept's place a variation must be, as a share of the sentence.
_NEARER = 0.2


def _used(matches: Sequence[_Match], text: str, source: str, concept: str) -> Sequence[_Match]:
    """Return the matches of the variation that translates the concept, the leftmost first.

    If the sentence has the concept once, a variation near its place counts, then the most frequent, then the leftmost.
    The place is only a hint, because the order of words differs between languages.
    """
    places: dict[int, set[int]] = {}
    stop = 0
    # Of overlapping forms, the longest counts.
    for match in sorted(matches, key=lambda match: (match.start, -match.length)):
        if match.start + match.length >= stop:
            places.setdefault(match.index, set()).add(match.start)
            stop = match.start + match.length
    if len(places) > 1 and concept:
        english, names = folded(source), english_forms(concept)
        at = [found.start() / len(english) for found in re.finditer(r"\w+", english) if found[0] in names]
        if len(at) == 1:
            distance = {i: min(abs(start / len(text) - at[0]) for start in places[i]) for i in places}
            limit = min(distance.values()) + _NEARER
            places = {index: starts for index, starts in places.items() if distance[index] <= limit}
    most = max(map(len, places.values()))
    first = min(min(starts) for starts in places.values() if len(starts) == most)
    # Two variations may be the same word in two Unicode forms.
    return [match for match in matches if match.start == first and match.index in places]


# Find the translation in a reply: models add headings, the English sentence, notes and further translations.

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
#: Names of the paper's languages, and words for a translation and for an answer, in simplified spelling.
_HEADING = (
    "translat|sentence|answer|output|result|here is|here's|here are|final|option|version|afrikaans|farsi|persian"
    "|galician|galego|hindi|armenian|japanese|latvian|tamil|telugu|vertaling|vertaal|traducion|traduccion|tulkojum"
    "|latviski|latviesu|ترجمه|فارسی|अनुवाद|हिन्दी|हिंदी|թարգման|հայերեն|翻訳|訳|日本語|மொழிபெயர்ப்பு|தமிழ்|తెలుగు|అనువాద"
)
#: Before the English sentence.
_ENGLISH_HEADING = (
    "english|engels|source|original|input|ingles|anglu|英語|原文|անգլերեն|अंग्रेज|انگلیسی|ஆங்கில|ఆంగ్ల|ఇంగ్లీష్"
)
#: Before a note, a gloss or another translation.
_NOTE = (
    "note|notes|nb|n\\.b\\.|let wel|nota|notas|opmerking|explanation|uitleg|verduideliking|explicacion|explicación"
    "|reasoning|literal|literally|alternative|alternatives|alternatively|alternatief|alternativa|or|of|ou|ou ben|vai"
    "|transliteration|romanization|romaji|pronunciation|breakdown|gloss|context|where|here|key|piezime|piezīme"
    "|paskaidrojums|skaidrojums|注|注意|備考|補足|説明|解説|または|あるいは|نکته|توجه|یادداشت|توضیح|یا"
    "|टिप्पणी|नोट|ध्यान दें|व्याख्या|ծանոթություն|նշում|բացատրություն|կամ|குறிப்பு|விளக்கம்|அல்லது|గమనిక|వివరణ|లేదా"
)
_FINAL = "final|corrected|correction|improved|revised|better|best|recommended|finale|verbeterde|korrekte"
_LATIN_LETTER = re.compile("[a-z]")
_LONGEST_HEADING = 80
_LEAD = re.compile(rf"^(?P<lead>[^:：\n]{{1,{_LONGEST_HEADING}}}?)[\"*_'”]*\s*[:：](?=\D|$)")
_IS_HEADING = re.compile("|".join(map(simplified, _HEADING.split("|"))))
_IS_SOURCE = re.compile(f"^\\W*(?:{_ENGLISH_HEADING})")
_IS_NOTE = re.compile(f"^(?:{_NOTE})\\W*$")
_IS_FINAL = re.compile(f"\\b(?:{_FINAL})\\b")
#: A note after a sentence on the same line, and parts of a line that say the same twice.
_NOTE_INSIDE = re.compile(
    f"(?<=[.!?।։。؟\"'”)*])\\s{{0,5}}[(*_]{{0,4}}(?:{_NOTE})[*_]{{0,4}}\\s{{0,5}}[:：]", re.IGNORECASE
)
_SAME_TWICE = re.compile(r"\s(?:→|=>|->|⇒|\||/|=)\s")
_BRACKETS = re.compile(r"[(（\[【]([^()（）\[\]【】]*)[)）\]】]")
_OFFER = re.compile(f"\\W*(?:{_NOTE})\\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?।։。؟！？])[\"'”’»*_)」』]*\s+|(?<=[。！？])")
_NUMBERED = re.compile(r"^\W*(?:\d{1,2}|[a-zA-Z])[.)]\s")
_MARKS = re.compile(r"^(?:[\s#>*_`|•–—-]|\(?\d{1,2}[.)](?=\s)|\(?[a-zA-Z][.)](?=\s))+")


_SECOND = re.compile(r"\W*(?:option|version|translation)?\s*2\W", re.IGNORECASE)
_PREFERS_SECOND = re.compile(
    r"\b(?:second|latter|(?:option|version) 2)\b[^.\n]{0,60}\b(?:better|best|recommend|prefer|more|correct)"
    r"|\b(?:recommend|prefer|suggest)[^.\n]{0,40}\b(?:second|latter|(?:option|version) 2)\b",
    re.IGNORECASE,
)
#: A line shorter than this part of the English sentence is not its translation ("Sure!"), if there is a longer one.
_SHORTEST = 6


def translated_text(reply: str, variations: Variations, source: str = "") -> str:
    """Return the translation in a reply; empty if the reply is in English only.

    The first line that is not a heading, a note or English counts, or what follows "final" or "corrected", or the
    second of numbered ones if the reply prefers it. The translation has at most as many lines as the English sentence
    has sentences. Asides in brackets are left out. Text between two fences comes first.
    """
    inside = fenced(reply) or ""
    if inside and (text := translated_text(inside, variations, source)):
        return text
    is_latin = any(_LATIN_LETTER.search(folded(form)) for forms in variations for form in forms)
    english = frozenset(_TOKEN.findall(folded(source)))
    most = len(_SENTENCE.findall(source.strip())) + 1
    kept: list[str] = []
    short: list[str] = []
    count, is_unfinished = 0, False
    prefers_second = bool(_PREFERS_SECOND.search(reply))
    for raw in _lines(reply):
        line, is_note, is_final = _content(raw)
        if is_final:
            kept, short, count = [], kept or short, 0
        if is_note:
            # A note ends the translation, but may come before it.
            most, is_unfinished = count or most, False
            continue
        if _NUMBERED.match(raw):
            most = 1
        line = " ".join(part for part in _SENTENCE.split(line) if not _is_english(part, english, is_latin))
        if prefers_second and _SECOND.match(raw):
            return line
        is_next = is_unfinished and line[:1].islower() and raw.lstrip().startswith(line)
        is_unfinished = False
        if not any(map(is_word_character, line)) or (count >= most and not is_next):
            continue
        if not kept and _SHORTEST * len(line) < len(source):
            short.append(line)
            continue
        kept.append(line)
        count += not is_next
        is_unfinished = line[-1].isalpha()
    return "\n".join(kept or short)


def _lines(reply: str) -> list[str]:
    """Return the lines of a reply, or the texts of a JSON object, without what is struck through."""
    text = reply.replace(FENCE, "\n")
    start, stop = text.find("{"), text.rfind("}")
    if 0 <= start < stop:
        try:
            values = strict_json(text[start : stop + 1])
        except ValueError:
            values = None
        if isinstance(values, dict):
            text = "\n".join(value for value in values.values() if isinstance(value, str))
    lines: list[str] = []
    for line in _STRUCK.sub(" ", text).splitlines():
        shorter = _without_asides(line)
        # A translation may be in brackets as a whole.
        is_aside = lines and not any(map(is_word_character, shorter))
        lines += _SAME_TWICE.split(shorter if is_aside or any(map(is_word_character, shorter)) else line)
    return lines


def _without_asides(line: str) -> str:
    """Return a line without brackets at its end, after a sentence, or that begin like a note."""
    last = next((n for n in range(len(line) - 1, -1, -1) if is_word_character(line[n])), 0)

    def replaced(found: re.Match[str]) -> str:
        before = line[max(0, found.start() - 3) : found.start()].rstrip()[-1:]
        is_aside = found.end() > last or (before and before in ".!?।։。؟") or _OFFER.match(found[1])
        return " " if is_aside else found[0]

    return _BRACKETS.sub(replaced, line)


def _content(line: str) -> tuple[str, bool, bool]:
    """Return a line without its marks and heading, whether it is a note, and whether its heading says "final"."""
    line = _MARKS.sub("", line)
    is_final = False
    # "Final translation (Afrikaans): Translation: ..." has two headings.
    for _ in range(2):
        found = _LEAD.match(line)
        if not found:
            break
        lead = simplified(found["lead"]).strip("*_\"' ")
        if _IS_NOTE.search(lead) or _IS_SOURCE.search(lead):
            return "", bool(_IS_NOTE.search(lead)), is_final
        if not _IS_HEADING.search(lead) and lead not in _FINAL.split("|"):
            break
        is_final = is_final or bool(_IS_FINAL.search(lead))
        line = _MARKS.sub("", line[found.end() :])
    if len(line) <= _LONGEST_HEADING and all(_IS_HEADING.match(simplified(w)) for w in unicode_words(line)):
        return "", False, is_final
    inside = _NOTE_INSIDE.search(line)
    return (line[: inside.start()] if inside else line), False, is_final


def _is_english(text: str, source: frozenset[str], is_latin: bool) -> bool:
    """Return True if a text is English: by its words, or because it (nearly) repeats the source sentence.

    In a language with another script, a text in Latin letters is, but names and single words are not.
    """
    plain = folded(text)
    words = _TOKEN.findall(plain)
    known = sum(word in _ENGLISH for word in words)
    if not is_latin:
        letters = [character for character in plain if is_word_character(character)]
        latin = sum(map(str.isascii, letters))
        return latin == len(letters) or (known > 0 and 2 * latin > len(letters))
    shared = sum(word in _ENGLISH or word in source for word in words)
    return 3 * known >= len(words) or 4 * shared >= 3 * len(words)


def _places(form: str, text: str) -> list[tuple[int, bool]]:
    """Return the index of each occurrence of a form, and whether it is a whole word or the stem of one.

    Very short forms occur inside many unrelated words (Latvian ``iet`` in ``vieta``). They count in another word only
    if it begins with them and is similar, as ``ādai`` is to ``āda``; in Arabic script, which leaves out short vowels,
    up to twice as long, as پیرزنی is to پیر.
    """
    places = []
    for start in starts(form, text):
        stop = start + len(form)
        is_word = is_whole(text, start, stop) or is_stem(text, start, stop)
        if len(form) <= VERY_SHORT:
            least = _SHORT_ARABIC if _ARABIC.match(form) else THRESHOLD
            is_inside = indel_ratio(form, _word_from(text, start)) >= least
        else:
            before = text[max(0, start - _PREFIX - 1) : start]
            letters = next(
                (n for n, c in enumerate(reversed(before)) if not is_word_character(c)), len(before)
            )
            is_inside = letters != _PREFIX
        if is_word or is_inside:
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


def declines(reply: str, variations: Variations = (), source: str = "") -> bool:
    """Return True if a reply without fences says, in English, that it will not or cannot answer.

    :param source: The English sentence, if a translation was asked for. A remark after the translation is not a
        refusal, and neither is the sentence itself. :param variations: Needed with ``source``.
    """
    found = None if FENCE in reply else _REFUSAL.search(reply)
    if found is None or not source:
        return found is not None
    return not _REFUSAL.search(source) and not translated_text(reply[: found.start()], variations, source)


def _forms(variations: Variations) -> list[tuple[int, str, str]]:
    """Return every surface form as (index of its variation, form, folded spelling); no spelling is empty."""
    forms = [
        (index, form, trimmed(spelling))
        for index, forms in enumerate(variations)
        for form in forms
        for spelling in with_old_spelling(folded(form))
    ]
    return [entry for entry in forms if entry[2]]


def _winner(matches: Sequence[_Match], how: How) -> Reading:
    chosen = min(matches, key=lambda m: (-m.length, m.start, not m.exact, m.index))
    # If two forms begin at the same place, the longer one counts: "gesien" begins where "ge" does.
    leftmost = min(matches, key=lambda m: (m.start, -m.length, not m.exact, m.index))
    return Reading(chosen.index, chosen.form, chosen.ratio, chosen.start, leftmost.index, how)
