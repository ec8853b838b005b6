"""Which sentences a prompt for rules shows: for each variation the 50 longest under 50 tokens (section 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_llmprops.benchmarks.dtails.prompts import Variations, variation_name
from pytest_llmprops.benchmarks.dtails.reading import is_right
from pytest_llmprops.benchmarks.dtails.text import (
    folded,
    is_word_character,
    occurrences,
    trimmed,
    unicode_words,
)

#: sentences a variation, and the number of tokens that none reaches
MOST, TOKENS = 50, 50

_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def english_tokens(sentence: str) -> int:
    """Number of tokens: words (``don't`` and ``well-known`` are one) and punctuation marks.

    The paper does not say by which tokenizer its sentences are shorter than 50 tokens.
    """
    return len(_TOKEN.findall(sentence))


def sentence_key(sentence: str) -> str:
    """What two sentences share that are the same but for case, spacing and punctuation."""
    letters = "".join(c if is_word_character(c) else " " for c in folded(sentence))
    return " ".join(letters.split())


def choose_sentences(
    rows: Iterable[tuple[str, Sequence[str]]],
    variations: Variations,
    test_sentences: Iterable[str],
    *,
    most: int = MOST,
    tokens: int = TOKENS,
) -> dict[str, tuple[str, ...]]:
    """For each variation's name its longest sentences, longest first; an empty tuple where there are none.

    Length is in tokens, then in characters; of equals the earlier row comes first. No sentence comes twice for a
    variation, and none that is a test sentence, whatever its case, spacing and punctuation.

    :param rows: (English sentence, forms of the variation in its translation) of this concept's train rows.
    :param test_sentences: every sentence of the language's test rows, whatever their concept.
    """
    barred = set(map(sentence_key, test_sentences))
    found: dict[str, dict[str, str]] = {variation_name(forms): {} for forms in variations}
    for sentence, label in rows:
        key = sentence_key(sentence)
        # A text without letters would be "the same" as any other such text; it shows nothing anyway.
        if not key or key in barred or english_tokens(sentence) >= tokens:
            continue
        for forms in variations:
            if is_right(forms, label):
                found[variation_name(forms)].setdefault(key, sentence)
    return {name: tuple(_longest(texts)[:most]) for name, texts in found.items()}


def sentence_counts(sentences: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many sentences each variation has: the ``sentences`` of a rules file."""
    return {name: len(texts) for name, texts in sentences.items()}


def _longest(texts: Mapping[str, str]) -> list[str]:
    return sorted(texts.values(), key=lambda text: (english_tokens(text), len(text)), reverse=True)


def english_forms(word: str) -> frozenset[str]:
    """The word and its regular inflections, folded: plurals, -s, -ed, -ing, -er, -est. Irregular ones are missed."""
    stem = folded(word)
    forms = {stem, f"{stem}s", f"{stem}es", f"{stem}ed", f"{stem}ing", f"{stem}er", f"{stem}est"}
    if stem.endswith("e"):
        forms |= {f"{stem}d", f"{stem[:-1]}ing", f"{stem}r", f"{stem}st"}
    if len(stem) > 2 and stem.endswith("y") and stem[-2] not in "aeiou":
        forms |= {f"{stem[:-1]}{end}" for end in ("ies", "ied", "ier", "iest")}
    if len(stem) > 2 and stem[-1] not in "aeiouwxy" and stem[-2] in "aeiou" and stem[-3] not in "aeiou":
        forms |= {f"{stem}{stem[-1]}{end}" for end in ("ed", "ing", "er", "est")}
    return frozenset(forms)


def corpus_rows(
    pairs: Iterable[tuple[str, str]], concepts: Sequence[tuple[str, Variations]]
) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Rows for :func:`choose_sentences` from a plain parallel corpus, one list a concept, in one pass.

    A pair counts for a variation when the English has the concept's word in a regular inflection, and the
    translation a form of this variation and of no other, as words. Without word alignment that is a guess;
    ``llmprops dtails extract`` makes train rows with it.

    :param pairs: (English, translation). :param concepts: (concept, variations).
    """
    found: list[list[tuple[str, tuple[str, ...]]]] = [[] for _ in concepts]
    by_form: dict[str, list[int]] = {}
    for index, (concept, _) in enumerate(concepts):
        for form in english_forms(concept):
            by_form.setdefault(form, []).append(index)
    names = [
        [
            (tuple(forms), [plain for form in forms if (plain := trimmed(folded(form)))])
            for forms in variations
        ]
        for _, variations in concepts
    ]
    for english, translation in pairs:
        asked = {index for word in unicode_words(english) for index in by_form.get(word, ())}
        text = folded(translation) if asked else ""
        for index in sorted(asked):
            used = [
                forms
                for forms, plain in names[index]
                if any(occurrences(form, text, whole=True) >= 0 for form in plain)
            ]
            if len(used) == 1:
                found[index].append((english, used[0]))
    return found
