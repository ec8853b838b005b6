"""Whether a reply offers the answer: every mention of it is accepted, or left out for a stated reason.

A mention is left out if it repeats the question's sentence, if the clause denies it or cannot decide on it, if the
reply settles on another candidate, if it only compares the sound of the homophone and the reply gives another meaning,
or if the answer is a word that replies use in their own sentences and nothing shows that it is named.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.answer_forms import Forms
from pytest_llmprops.benchmarks.homophones.normal import HAN, fold, plain, prepare
from pytest_llmprops.benchmarks.homophones.reading_rules import SHORTHANDS, Rules, without_group

_BRACKETS = re.compile(r"[(（][^)）]*[)）]?")
_PINYIN = re.compile(r"[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ]")
#: A mention at the end of a clause.
_CLOSED = re.compile(r"<a>⟧?\s*(?:[.!?;,)。！？；，）\n]|\Z)")
_EDGES = " \t\n.,;:!?。，；：！？、⟦⟧\"'*_`()（）[]…"


@dataclass(frozen=True, slots=True)
class Echo:
    """What a reply may repeat without naming an answer, folded."""

    word: str
    sentence: str

    def quotes(self, text: str) -> bool:
        """Return True if ``text`` is part of the sentence (as whole words, if the script separates words)."""
        if not text or text not in self.sentence:
            return False
        if HAN.search(text):
            return True
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.sentence) is not None


def candidates(match: re.Match[str], rules: Rules, echo: Echo) -> dict[str, str]:
    """Return the answers that one match names, folded -> as written; none if the clause negates them."""
    named: dict[str, str] = {}
    for group, value in match.groupdict().items():
        if value is None or not group.startswith(("answer", "items")):
            continue
        before = match.string[max(0, match.start(group) - 60) : match.start(group)]
        clause = rules.phrase("clause").split(before)[-1][-30:]
        if rules.phrase("negated_candidate").search(re.sub(r"⟦[^⟧]*⟧|<w>", " ", clause)):
            continue
        if group.startswith("answer_as_is"):
            named[fold(value).strip(_EDGES)] = value.strip(_EDGES)
            continue
        parts = [value]
        if group.startswith("items"):
            quoted = re.findall(SHORTHANDS["{term}"], value)
            parts = quoted if len(quoted) > 1 else rules.phrase("separator").split(_BRACKETS.sub(" ", value))
        for part in parts:
            named.update(clean(part, rules, echo))
    return named


@lru_cache(maxsize=8)
def _chinese(words: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for word in words if HAN.search(word))


def clean(text: str, rules: Rules, echo: Echo) -> dict[str, str]:
    """Return a candidate without quotes, articles and brackets; nothing if it is not a candidate."""
    shown = _BRACKETS.sub(" ", text).strip(_EDGES)
    folded = fold(shown)
    while article := rules.phrase("article").match(folded):
        folded = folded[article.end() :].strip(_EDGES)
    if echo.quotes(folded):
        return {}
    words = folded.split()
    if not words or "<w>" in folded or "<s>" in folded or folded in (echo.word, echo.sentence):
        return {}
    # A quoted phrase is looked up as a whole: "without arm" is an answer, "without" alone is not.
    ends = () if text.lstrip().startswith("⟦") and len(words) > 1 else (words[0], words[-1])
    if any(w.removesuffix("'s") in rules.not_answers for w in (folded, *ends)):
        return {}
    # A Chinese word's own characters and its pronunciation are not answers.
    if HAN.search(echo.word) and (folded in echo.word or (_PINYIN.search(folded) and not HAN.search(folded))):
        return {}
    if HAN.search(folded) and any(w in folded for w in _chinese(rules.not_answers)):
        return {}
    return {folded: shown}


# What a reply denies, and on what it settles: the rules ``kept``, ``denied`` and ``final`` on a marked reply.

#: The mark of a mention in the text that the rules ``kept``, ``denied`` and ``final`` search.
MARK = "<a>"


def denied_spans(marked: str, rules: Rules, echo: Echo) -> list[tuple[int, int]]:
    """Return the spans that the rules ``denied`` take and the rules ``kept`` do not."""
    kept = [m.span("kept") for rule in rules.kept for m in rule.pattern.finditer(marked)]
    spans = []
    for rule in rules.denied:
        for match in rule.pattern.finditer(marked):
            if "other" in rule.pattern.groupindex and _rival(match["other"] or "", rules, echo) is None:
                continue
            for group, value in match.groupdict().items():
                if not value or not group.startswith(("denied", "undecided")):
                    continue
                start, end = match.span(group)
                is_kept = any(s < end and start < e for s, e in kept)
                if group.startswith("undecided") or not is_kept:
                    spans.append((start, end))
    return spans


def is_overruled(marked: str, start: int, form: str, rules: Rules, echo: Echo) -> bool:
    """Return True if the reply puts a quoted rival after its last mention of the answer, and stands by it.

    :param start: Where the last mention is marked.
    :param form: What was there; a rival in another script is a translation.
    """
    for quoted in re.finditer(r"⟦([^⟦⟧\n]{1,40})⟧", marked[start:]):
        at = start + quoted.start()
        rival = _rival(quoted[0], rules, echo)
        if rival is None or bool(HAN.search(rival)) != bool(HAN.search(form)) or rival in form:
            continue
        if len(rival) < 3 and not HAN.search(rival):
            continue
        before, after = marked[max(start + len(MARK), at - 70) : at], marked[at + len(quoted[0]) :][:60]
        if not (rules.phrase("aside").search(before) or rules.phrase("withdrawn").match(after)):
            return True
    return False


def final_answer(marked: str, rules: Rules, echo: Echo) -> str | None:
    """Return what the reply's last final answer names: a text with `MARK`, or a rival; None if there is none."""
    answers = [
        (match.start(group), value)
        for rule in rules.final
        for match in rule.pattern.finditer(marked)
        for group, value in match.groupdict().items()
        if value
        and group.startswith("answer")
        and (MARK in value or len(value) == 1 or clean(value, rules, echo))
    ]
    _, last = max(answers, default=(0, ""))
    # "A: driver, B: dryer. Answer: B" names what follows the letter.
    if option := re.fullmatch(r"[⟦\s]*([a-e])[⟧\s.)]*", last):
        is_right = re.search(rf"(?<!\w){option[1]}\s?[.:)、．]\s?⟦?{MARK}", marked)
        return MARK if is_right else last
    return last if MARK in last else _rival(last, rules, echo)


def _rival(text: str, rules: Rules, echo: Echo) -> str | None:
    """Return a candidate other than the answer, folded. A longer text explains the answer ("a person who drives")."""
    if MARK in text:
        return None
    for folded in clean(text, rules, echo):
        if len(folded.split()) <= 2 and not (HAN.search(folded) and ("的" in folded or len(folded) > 5)):
            return folded
    return None


@dataclass(frozen=True, slots=True)
class Meaning:
    """Where a reply gives the homophone another meaning.

    :param kind: How: as a ``word``, in words (``meaning``), as its ``own`` meaning ("its usual meaning"), or as a
        word that counts only after a contrast (``turn``, "but it is a homophone of Y").
    :param subject: Where its clause begins; `start` and `end` are those of the meaning alone.
    :param is_conceded: It stands in a concession ("although it means a boat").
    """

    start: int
    end: int
    kind: str
    subject: int
    is_conceded: bool = False


def meanings(marked: str, rules: Rules, echo: Echo) -> Iterator[Meaning]:
    """Yield the meanings, other than the answer, that the reply gives the homophone."""
    for rule in rules.defined:
        for match in rule.pattern.finditer(marked):
            for group, value in match.groupdict().items():
                if not value or MARK in value:
                    continue
                kind = group.partition("_")[0]
                if kind in ("word", "turn"):
                    is_meaning = _rival(value, rules, echo) is not None
                else:
                    is_meaning = kind == "own" or rules.phrase("no_meaning").search(value) is None
                if is_meaning:
                    before = marked[max(0, match.start() - 30) : match.start()]
                    is_conceded = rules.phrase("concession").search(before) is not None
                    yield Meaning(*match.span(group), kind, match.start(), is_conceded)
    restored = _restored(echo.sentence, echo.word)
    if restored is not None:
        for match in restored.finditer(marked):
            yield Meaning(*match.span(), "word", match.start())


@lru_cache(maxsize=1024)
def _restored(sentence: str, word: str) -> re.Pattern[str] | None:
    """Return a pattern for the sentence with another word than the answer in the homophone's place."""
    if not word or word not in sentence or len(sentence) < len(word) + 6:
        return None
    before, _, after = sentence.rstrip(" .。!！?？").partition(word)
    other = r"⟦?[一-鿿]{1,6}?⟧?" if HAN.search(word) else r"⟦?[^\W\d_][\w'-]{0,30}⟧?"
    return re.compile(re.escape(before) + other + re.escape(after))


def is_defined_otherwise(marked: str, starts: list[int], rules: Rules, echo: Echo) -> bool:
    """Return True if the reply gives the homophone another meaning, and no mention says that it means the answer.

    "It is a homophone of X" offers X; "It means a small boat. It is a homophone of X" does not.

    :param starts: Where the mentions are marked, in order.
    """
    defined = list(meanings(marked, rules, echo))
    if not defined:
        return False
    # After another meaning, a mention must say that the homophone means the answer.
    defined_at = min((m.end for m in defined if m.kind != "turn" and not m.is_conceded), default=len(marked))
    compared = [
        match.span(group)
        for rule in rules.compared
        for match in rule.pattern.finditer(marked)
        for group, value in match.groupdict().items()
        if value
    ]
    for start in starts:
        is_later = defined_at <= start
        if is_later and rules.phrase("returns").search(marked[max(defined_at, start - 120) : start]):
            return False
        if rules.phrase("endorsed").match(marked, start):
            return False
        if any(begin <= start < end for begin, end in compared):
            continue
        if not is_later or _is_identified(marked, start, rules):
            return False
    first = starts[0]
    before = marked[max(0, first - 80) : first]
    if defined_at <= first or rules.phrase("concession").search(before):
        return True
    is_paired = rules.phrase("paired").search(f"{before}{marked[first : first + 20]}") is not None
    return any(
        m.start > first
        and (
            m.kind == "own"
            or (is_paired and m.kind == "word")
            # "X (pronounced like Y) means …": the comparison is an aside in the definition.
            or (m.subject < first and m.kind != "turn" and m.start - first < 80)
            or _has_contrast(marked[first : m.start], rules)
        )
        for m in defined
    )


def _is_identified(marked: str, start: int, rules: Rules) -> bool:
    """Return True if a mention follows a word such as "means", or is a sentence."""
    before = marked[max(0, start - 60) : start]
    if rules.phrase("identity").search(before):
        return True
    return rules.phrase("opening").search(before) is not None and _CLOSED.match(marked, start) is not None


def _has_contrast(text: str, rules: Rules) -> bool:
    return rules.phrase("contrast").search(text) is not None


#: Of a long reply, this many mentions are read at each end, with this much text around them.
_MENTIONS, _AROUND, _LONG = 3, 300, 3_000
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@dataclass(frozen=True, slots=True)
class _Mention:
    """One occurrence of the answer: its place in the marked text, and what stood there."""

    start: int
    form: str


class Offer(enum.IntEnum):
    """How a reply offers the answer.

    ``MENTIONED`` is a mention without quotes, and without a word such as "means" before it. It counts unless the
    reply names another candidate. ``RESTORED`` is a mention in the homophone's place in the sentence.
    """

    NONE, MENTIONED, NAMED, RESTORED = range(4)


def offer(reply: str, forms: Forms, word: str, sentence: str, rules: Rules) -> Offer:
    """Return how the reply, without markup, offers the answer as the meaning of the homophone."""
    if forms.pattern is None:
        return Offer.NONE
    folded = plain(reply, rules.words, exact=forms.exact)
    for rule in rules.echo:
        folded = rule.pattern.sub(" ", folded)
    if forms.pattern.search(folded) is None:
        return Offer.NONE
    word, sentence = (plain(text, rules.words, exact=forms.exact) for text in (word, sentence))
    text = prepare(_around(folded, forms.pattern), word, sentence)
    for rule in rules.ignore:
        if "gloss" in rule.pattern.groupindex or rule.name.startswith("definition"):
            text = rule.pattern.sub(lambda m: without_group(m, "gloss"), text)
    marked, mentions = _marked(text, forms.pattern)
    places = _places(sentence, word, forms.pattern)
    echo = Echo(word, sentence)
    denied = denied_spans(marked, rules, echo)
    # What the sentence itself negates ("You must not sleep on the couch") is not a denial.
    is_negated = rules.phrase("negation").search(sentence) is not None
    kinds = [(m, _kind(marked, m, places, forms.is_common(m.form), rules)) for m in mentions]
    offered = [
        (m, kind)
        for m, kind in kinds
        if (kind is Offer.RESTORED and is_negated) or not any(start <= m.start < end for start, end in denied)
    ]
    if denied:
        # "X does not fit, since an X would be sober": the second mention explains the denial.
        offered = [(m, k) for m, k in offered if k >= Offer.NAMED]
    rival = final_answer(marked, rules, echo)
    if rival is not None and MARK in rival:
        offered = [(m, k if forms.is_common(m.form) else max(k, Offer.NAMED)) for m, k in offered]
    elif rival is not None:
        # Another script is a translation, not another answer; one letter is an option ("Answer: B").
        offered = [
            (m, k)
            for m, k in offered
            if len(rival) > 1 and bool(HAN.search(m.form)) != bool(HAN.search(rival))
        ]
    is_restored = any(kind is Offer.RESTORED for _, kind in offered)
    starts = [m.start for m, _ in offered]
    if starts and not is_restored and is_defined_otherwise(marked, starts, rules, echo):
        return Offer.NONE
    if offered:
        last = offered[-1][0]
        if is_overruled(marked, last.start, last.form, rules, echo):
            return Offer.NONE
    return max((kind for _, kind in offered), default=Offer.NONE)


def _around(text: str, pattern: re.Pattern[str]) -> str:
    """Return a short text whole, a long one around its first and last mentions, with its beginning and end."""
    if len(text) <= _LONG:
        return text
    hits = [m.start() for m in pattern.finditer(text)]
    kept = [0, *hits[:_MENTIONS], *hits[-_MENTIONS:], len(text)]
    pieces: list[list[int]] = []
    for place in sorted(set(kept)):
        start, end = max(0, place - _AROUND), min(len(text), place + _AROUND)
        if pieces and start <= pieces[-1][1]:
            pieces[-1][1] = end
        else:
            pieces.append([start, end])
    return "\n\n".join(text[start:end] for start, end in pieces)


def _marked(text: str, pattern: re.Pattern[str]) -> tuple[str, list[_Mention]]:
    parts, mentions, at, length = [], [], 0, 0
    for hit in pattern.finditer(text):
        before = text[at : hit.start()]
        parts += [before, MARK]
        length += len(before)
        mentions.append(_Mention(length, hit[0]))
        length += len(MARK)
        at = hit.end()
    return "".join([*parts, text[at:]]), mentions


def _tokens(text: str, *, last: bool) -> tuple[str, ...]:
    """Return the two tokens nearest to the text's end (``last``) or beginning; characters, for Chinese."""
    near = text[-60:] if last else text[:60]
    near = re.sub(r"<[aws]>|[⟦⟧\"']", " ", near)
    if HAN.search(near.strip()[-1:] if last else near.strip()[:1]):
        tokens = list(near.replace(" ", ""))
        tokens = [t if t.isalnum() else "" for t in tokens]
    else:
        stop = r"[.!?。！？\n]"
        near = re.split(stop, near)[-1] if last else re.split(stop, near)[0]
        tokens = _TOKEN.findall(near)
    return tuple(tokens[-2:] if last else tokens[:2])


@dataclass(frozen=True, slots=True)
class _Places:
    """The neighbours of the homophone in the sentence, and of the answer where the sentence has it itself."""

    gap: tuple[tuple[str, ...], tuple[str, ...]] | None
    own: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


def _places(sentence: str, word: str, pattern: re.Pattern[str]) -> _Places:
    gap = None
    edge = "" if HAN.search(word) else r"(?<!\w)"
    at = re.search(f"{edge}{re.escape(word)}", sentence) if word else None
    if at is not None:
        gap = (_tokens(sentence[: at.start()], last=True), _tokens(sentence[at.end() :], last=False))
    own = tuple(
        (_tokens(sentence[: m.start()], last=True), _tokens(sentence[m.end() :], last=False))
        for m in pattern.finditer(sentence)
        if at is None or m.end() <= at.start() or m.start() >= at.end()
    )
    return _Places(gap, own)


def _kind(marked: str, mention: _Mention, places: _Places, is_common: bool, rules: Rules) -> Offer:
    """Return how one mention offers the answer, as if nothing denied it.

    :param is_common: Replies use the word in sentences of their own.
    """
    before, after = marked[: mention.start], marked[mention.start + len(MARK) :]
    if rules.phrase("quote").search(before[-12:]) and re.match(r"[.,;:]?\s*⟧", after):
        return Offer.NAMED
    left, right = _tokens(before, last=True), _tokens(after, last=False)
    for own_left, own_right in places.own:
        if (len(own_left) == 2 and left == own_left) or (len(own_right) == 2 and right == own_right):
            return Offer.NONE
        if left[-1:] == own_left[-1:] and right[:1] == own_right[:1]:
            return Offer.NONE
    if places.gap is not None:
        gap_left, gap_right = places.gap
        if (left or right) and _restores(left, right, places.gap):
            return Offer.RESTORED
        if not is_common and left[-1:] == gap_left[-1:] and right[:1] == gap_right[:1] and (left or right):
            return Offer.NAMED
    if rules.phrase("cue").search(before[-60:]) and rules.phrase("end").match(after):
        return Offer.NAMED
    if rules.phrase("opening").search(before[-60:]) and rules.phrase("stop").match(after):
        return Offer.NAMED
    if is_common:
        return Offer.NONE
    is_first = not before.strip(" ⟦\n>*#-") and rules.phrase("first").match(after) is not None
    return Offer.NAMED if is_first else Offer.MENTIONED


def _restores(
    left: tuple[str, ...], right: tuple[str, ...], gap: tuple[tuple[str, ...], tuple[str, ...]]
) -> bool:
    """Return True if all tokens that the sentence has around the homophone are around a mention, too."""
    before, after = gap
    if not left and len(after) == 2 == len(right):
        return right == after
    return left[len(left) - len(before) :] == before and right[: len(after)] == after
