"""The spellings of an item's answers that a reply may use: inflected, without accents, in either script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pytest_llmprops.benchmarks.homophones.normal import HAN, fold, plain
from pytest_llmprops.benchmarks.homophones.reading_rules import LANGUAGES, Words

# Inflected forms of an answer.
#
# A model that explains "driver" may write "drivers"; that is the same word. Only forms of the same word are
# made: no derived words ("driver" does not give "driving"), and no gender change of a Spanish noun that gives
# another noun ("libro" does not give "libra"). The forms are lists to look up in a reply, so some of them are
# not words.

_SIBILANT = re.compile(r"(?:s|x|z|ch|sh)$")
_SHORT_VOWEL = re.compile(r"^[^aeiou]*(?:qu)?[aeiou][bdfgklmnprtvz]$")
_SPELLINGS = ((r"our$", "or"), (r"or$", "our"), (r"ise$", "ize"), (r"ize$", "ise"), (r"yse$", "yze"),
              (r"tre$", "ter"), (r"ter$", "tre"), (r"ogue$", "og"), (r"([^l])l(ing|ed|er)$", r"\1ll\2"),
              (r"ll(ing|ed|er)$", r"l\1"), (r"^grey$", "gray"), (r"^gray$", "grey"))  # fmt: skip

_ADJECTIVE = re.compile(r"(?:[aio]d|[ií]d|os|iv)[oa]$")
_LETTER = "0-9a-z\u00df-\u024f"
_AGENT = re.compile(r"(?:[dts]or)a?$")


@lru_cache(maxsize=4096)
def english_forms(word: str, words: Words) -> frozenset[str]:
    """Return an English word's inflected forms and spellings, itself included. Phrases vary at either end."""
    first, _, rest = word.partition(" ")
    if rest:
        start, _, last = word.rpartition(" ")
        phrases = {f"{form} {rest}" for form in english_forms(first, words)}
        return frozenset(phrases | {f"{start} {form}" for form in english_forms(last, words)})
    if len(word) < 3 or not word.isalpha():
        return frozenset({word})
    bases = {word, *_english_bases(word, words)}
    for pattern, replacement in _SPELLINGS:
        bases |= {re.sub(pattern, replacement, base) for base in bases if len(base) > 3}
    return frozenset(bases.union(words.irregular_forms.get(word, ()), *map(_regular, bases)))


def _english_bases(word: str, words: Words) -> list[str]:
    if word in words.singulars:
        return [words.singulars[word]]
    if word.endswith("s") and not re.search(r"(?:ss|us|is|ics)$", word) and word not in words.plural_only:
        if word.endswith("ies") and len(word) > 4:
            return [word[:-3] + "y"]
        if word.endswith("es") and _SIBILANT.search(word[:-2]):
            return [word[:-2], word[:-1]]
        return [word[:-1]]
    if word.endswith("ed") and len(word) > 5:
        bases = [word[:-2], word[:-1]]
        return [*bases, word[:-3]] if word[-3] == word[-4] else bases
    return []


def _regular(base: str) -> list[str]:
    if _SIBILANT.search(base):
        plural = base + "es"
    elif re.search(r"[^aeiou]y$", base):
        plural = base[:-1] + "ies"
    else:
        plural = base + "s"
    forms = [plural, base + "es"] if base.endswith("o") else [plural]
    if re.search(r"[^aeiou]y$", base):
        return [*forms, base[:-1] + "ied", base + "ing"]
    if re.search(r"(?:ee|oe|ye)$", base):
        return [*forms, base + "ing"]
    if base.endswith("e"):
        return [*forms, base + "d", base[:-1] + "ing"]
    if _SHORT_VOWEL.search(base):
        return [*forms, base + base[-1] + "ed", base + base[-1] + "ing"]
    return [*forms, base + "ed", base + "ing", *([base + "led", base + "ling"] if base.endswith("l") else [])]


@lru_cache(maxsize=4096)
def spanish_forms(word: str, words: Words) -> frozenset[str]:
    """Return a Spanish word's plural, its gender if it is an adjective or a being, and a verb's forms."""
    first, _, rest = word.partition(" ")
    if rest:
        return frozenset({f"{form} {rest}" for form in spanish_forms(first, words)})
    if len(word) < 3 or not word.isalpha():
        return frozenset({word})
    forms = {word}
    singular = word
    if word.endswith("ces"):
        singular = word[:-3] + "z"
    elif re.search(r"[^aeiouáéíóú]es$", word):
        forms.add(word[:-1])
        singular = word[:-2]
    elif re.search(r"[aeo]s$", word):
        singular = word[:-1]
    for noun in (word, singular):
        forms |= {noun, *(_plural(n) for n in _genders(noun, words))}
        forms |= set(_genders(noun, words))
    if re.search(r"..[aei]r(?:se)?$", word) or re.search(r"..ír(?:se)?$", word):
        forms |= _conjugated(word.removesuffix("se"), words)
    return frozenset(forms)


def _genders(noun: str, words: Words) -> list[str]:
    if noun in words.gendered_e:
        return [noun, noun[:-1] + "a"]
    if noun.endswith(("o", "a")):
        masculine = noun[:-1] + "o"
        if masculine in words.gendered or (len(noun) > 4 and _ADJECTIVE.search(noun)):
            return [masculine, noun[:-1] + "a"]
    if len(noun) > 4 and (_AGENT.search(noun) or noun.startswith("señor")):
        return [noun.removesuffix("a"), noun.removesuffix("a") + "a"]
    return [noun]


def _plural(noun: str) -> str:
    if noun.endswith("z"):
        return noun[:-1] + "ces"
    return noun + ("s" if re.search(r"[aeiouáéó]$", noun) else "es")


def _conjugated(infinitive: str, words: Words) -> set[str]:
    stem, vowel = infinitive[:-2], infinitive[-2].replace("í", "i")
    stems = {stem}
    places = [m.start() for m in re.finditer(r"[eou]", stem)]
    if places:
        at = places[-1]
        changes = {"e": ("ie", "i"), "o": ("ue", "u"), "u": ("ue",)}[stem[at]]
        stems |= {stem[:at] + change + stem[at + 1 :] for change in changes}
    for old, new in (
        (r"c$", "qu"),
        (r"g$", "gu"),
        (r"z$", "c"),
        (r"c$", "z"),
        (r"g$", "j"),
        (r"c$", "zc"),
        (r"u$", "uy"),
    ):
        stems |= {re.sub(old, new, s) for s in stems}
    clitics = {
        f"{infinitive}{end}" for end in ("se", "lo", "la", "los", "las", "le", "les", "me", "te", "nos")
    }
    return clitics | {s + ending for s in stems for ending in words.verb_endings[vowel]}


_LETTER = "0-9a-z\u00df-\u024f"


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of an item's answers, to search in a reply.

    :param pattern: Finds every form in a text that `plain` returned; None if no form is left.
    :param exact: Accents are kept, because only they tell the answer from the homophone.
    :param function_word: The answer is a function word, so every form is a word of the replies' own sentences.
    """

    pattern: re.Pattern[str] | None
    exact: bool
    function_word: bool
    words: Words

    def is_common(self, form: str) -> bool:
        """Return True if replies use this folded form in sentences of their own."""
        if self.function_word or form in _prose_forms(self.words):
            return True
        return any(self.words.is_function_word(form, code) for code in LANGUAGES)

    def found_in(self, text: str) -> bool:
        """Return True if a form occurs in a text, which need not be folded."""
        return (
            self.pattern is not None
            and self.pattern.search(plain(text, self.words, exact=self.exact)) is not None
        )


@lru_cache(maxsize=8)
def _prose_forms(words: Words) -> frozenset[str]:
    return frozenset(
        plain(form, words)
        for word in words.prose
        for form in ({word} if HAN.search(word) else english_forms(word, words))
    )


@lru_cache(maxsize=2048)
def forms_of(answers: tuple[str, ...], language: str, words: Words, word: str = "") -> Forms:
    """Return the forms of the answers, without those that are the homophone itself."""
    native = fold(word).strip()
    exact = any(plain(a, words) == plain(word, words) and fold(a) != native for a in answers)
    own = plain(word, words, exact=exact).strip()
    forms = {
        plain(form, words, exact=exact)
        for index, answer in enumerate(answers)
        for form in _inflected(fold(answer), language, index, words)
    }
    forms = {form.strip() for form in forms} - {own, ""}
    latin = sorted((f for f in forms if not HAN.search(f)), key=len, reverse=True)
    han = sorted((f for f in forms if HAN.search(f)), key=len, reverse=True)
    parts = [re.escape(form) for form in han]
    if latin:
        spaced = "|".join(r"[\s-]{0,3}".join(map(re.escape, re.split(r"[\s-]+", form))) for form in latin)
        # A verb has hundreds of forms: most positions fail at their first letters.
        first = "".join(sorted({re.escape(form[0]) for form in latin}))
        parts.append(f"(?<![{_LETTER}])(?=[{first}])(?:{spaced})(?!-?[{_LETTER}])")
    pattern = re.compile("|".join(parts)) if parts else None
    function_word = bool(answers) and words.is_function_word(fold(answers[0]), language)
    return Forms(pattern, exact, function_word, words)


def _inflected(answer: str, language: str, index: int, words: Words) -> Iterable[str]:
    answer = answer.strip()
    if language != "en" and answer.startswith("to "):
        answer = answer[3:].strip()
    if not answer or HAN.search(answer):
        return (answer,)
    if language == "es" and index == 0:
        return (answer,) if words.is_function_word(answer, "es") else spanish_forms(answer, words)
    return (answer,) if words.is_function_word(answer, "en") else english_forms(answer, words)
