"""Generate H-TEST items by one function per task, and write them as new sets or chat data for fine-tuning.

The groups differ only in the rule (Lee & Lim, section 3, table 1, appendix G). If a rule is about a position (starts
with, ends with), the rest of the text is independent of the label: with that position hidden, nothing tells the groups
apart. If it is about a form (capital, hyphen, spelled number), both groups have the same content in a different form.
``palindrome`` and ``rhyme`` are words without a sentence, whose group B has the same letters or words, and the same
overlap of spelling. This is stricter than the published items: for example, their group B of "end ly" ends in shorter
words. All rows are generated before the first file is written.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.htest.items import GEOMETRY, LABELS, TASKS
from pytest_llmprops.benchmarks.htest.tools.letter_geometry import build_letter_geometry
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder, builtin_data, generated_before
from pytest_llmprops.data.pronunciation import load_cmudict
from pytest_llmprops.data.whole_files import write_text, writing

Lexicon = Mapping[str, tuple[tuple[str, ...], ...]]
"""Word -> its pronunciations as ARPAbet phones; see ``pytest_llmprops.data.pronunciation``."""

VOCABULARY = "htest/vocabulary.txt"
_ATTEMPTS = 200  # Maximum draws for the partner of a word in a pair that does not rhyme.


@cache
def _vocabulary() -> dict[str, tuple[str, ...]]:
    lists: dict[str, tuple[str, ...]] = {}
    for section in DataFolder(builtin_data(), "builtin").text(VOCABULARY).split("# ")[1:]:
        head, _, body = section.partition("\n")
        items = body.split(";") if ";" in body else body.split()
        lists[head.partition(":")[0]] = tuple(" ".join(item.split()) for item in items)
    return lists


def words(name: str) -> tuple[str, ...]:
    """Return a list of ``data/htest/vocabulary.txt``, this project's words and phrases.

    A line ``# NAME: comment`` begins a list. Its items are separated by semicolons if there are any, or else by spaces.
    Lists that separate the groups of a task (vowel and consonant nouns, ``-ly`` and other adverbs) are used in *both*
    groups, at another position in the sentence, so no word gives a label away. Places intentionally range from six to
    more than forty letters. An item's length then says almost nothing about the short element that a rule is about
    (``seven`` or ``7``, ``plus`` or ``+``).
    """
    return _vocabulary()[name]


@cache
def nouns() -> tuple[str, ...]:
    """Return the vowel and consonant nouns."""
    return words("VOWEL_NOUNS") + words("CONSONANT_NOUNS")


def item_key(task: str, text: str) -> str:
    """Return a key that is equal for texts of the same item; it ignores case, punctuation and a pair's order.

    It is used to detect duplicates and to exclude test items from training items.
    """
    tokens = re.findall(r"\w+", text.casefold())
    return " ".join(sorted(tokens) if task == "rhyme" else tokens)


def max_attempts(used: Collection[str]) -> int:
    """Return the maximum number of draws for one item, after which the vocabulary counts as exhausted.

    It grows with the used items, because the seed of the excluded items first draws all of them again.
    """
    return 200 + 2 * len(used)


def exhausted(task: str, count: int) -> UsageError:
    """Return the error for a request that is too large for the vocabulary."""
    return UsageError(
        f"htest/{task}: the vocabulary gives only {count} more items (including example items);"
        " choose a smaller n"
    )


def _rhyming_end(phones: tuple[str, ...]) -> tuple[str, ...]:
    end: list[str] = []
    for phone in reversed(phones):
        end.append(phone.rstrip("012"))
        if phone[-1] in "12":
            break
    return tuple(end)


def _shared_ending(first: str, second: str) -> int:
    """Return the number of last letters that two words share."""
    shared = 0
    while shared < min(len(first), len(second)) and first[-1 - shared] == second[-1 - shared]:
        shared += 1
    return shared


def rhymes(rng: random.Random, half: int, lexicon: Lexicon, used: set[str]) -> tuple[list[str], list[str]]:
    """Return both groups: pairs of words with at most two last letters in common.

    A: perfect rhymes (the same sounds from the last stressed vowel on, different sounds before it). B: words of
    A pairs in new pairs that do not rhyme. Every B pair copies both lengths and the number of shared last
    letters from an A pair. Both groups therefore have similar word frequencies and equally similar endings. Words
    with several pronunciations are used only if all of them end with the same sounds.
    """
    ends: dict[str, tuple[str, ...]] = {}
    for word in words("RHYME_WORDS"):
        sounds = {_rhyming_end(phones) for phones in lexicon.get(word, ())}
        if len(sounds) == 1:
            ends[word] = sounds.pop()
    pairs = [
        pair
        for family in grouped(ends, ends.__getitem__).values()
        for pair in combinations(family, 2)
        if _shared_ending(*pair) <= 2 and not set(lexicon[pair[0]]) & set(lexicon[pair[1]])
    ]
    rng.shuffle(pairs)
    free = [pair for pair in pairs if item_key("rhyme", " ".join(pair)) not in used]
    if len(free) < half:
        raise exhausted("rhyme", 2 * len(free))
    in_a = [" ".join(rng.sample(pair, 2)) for pair in free[:half]]

    by_ending: dict[str, list[str]] = {}
    for pair in pairs:
        for word in pair:
            for letters in range(3):
                by_ending.setdefault(word[len(word) - letters :], []).append(word)

    def partner(first: str, model: str, shared: int) -> str | None:
        """Return a replacement for ``model``: equal length and spelling overlap with ``first``, but no rhyme."""
        candidates = by_ending[first[len(first) - shared :]]
        for _attempt in range(_ATTEMPTS):
            second = rng.choice(candidates)
            matches = len(second) == len(model) and _shared_ending(first, second) == shared
            if matches and ends[first] != ends[second] and item_key("rhyme", f"{first} {second}") not in used:
                return second
        return None

    by_shared = [[pair for pair in pairs if _shared_ending(*pair) == shared] for shared in range(3)]
    in_b: list[str] = []
    for _ in range(half):
        shared = _shared_ending(*rng.choice(pairs))
        for _attempt in range(max_attempts(used)):
            first, model = rng.sample(rng.choice(by_shared[shared]), 2)
            second = partner(first, model, shared)
            if second is not None:
                candidate = " ".join(rng.sample((first, second), 2))
                used.add(item_key("rhyme", candidate))
                in_b.append(candidate)
                break
        else:
            raise exhausted("rhyme", 2 * len(in_b))
    return in_a, in_b


_PUNCTUATION = (".", "!", "?", "...")


def _capital(word: str) -> str:
    return word[0].upper() + word[1:]


def _same_length(rng: random.Random, first: Sequence[str], second: Sequence[str]) -> tuple[str, str]:
    """Return a word of each list, both of the same length, so that the length of either does not show its list."""
    while True:
        words_drawn = rng.choice(first), rng.choice(second)
        if len(words_drawn[0]) == len(words_drawn[1]):
            return words_drawn


def _start_vowel(rng: random.Random, in_a: bool) -> str:
    vowel, consonant = _same_length(rng, words("VOWEL_NOUNS"), words("CONSONANT_NOUNS"))
    # The object may begin with either. If it depended on the first noun, it would give the label away.
    obj = rng.choice([noun for noun in nouns() if noun not in (vowel, consonant)])
    return (
        f"{_capital(vowel if in_a else consonant)} {rng.choice(words('TRANSITIVE_VERBS'))} {obj}"
        f" {rng.choice(words('PLACES'))} {rng.choice(words('ADVERBS_LY'))}."
    )


def _end_ly(rng: random.Random, in_a: bool) -> str:
    ly, plain = _same_length(rng, words("ADVERBS_LY"), words("ADVERBS_PLAIN"))
    # The other adverb is of either kind. If it depended on the last one, it would give the label away.
    kind = rng.choice((words("ADVERBS_LY"), words("ADVERBS_PLAIN")))
    inner = rng.choice([adverb for adverb in kind if adverb not in (ly, plain)])
    subject, verb = rng.choice(nouns()), rng.choice(words("INTRANSITIVE_VERBS"))
    return f"{_capital(subject)} {verb} {inner} {rng.choice(words('PLACES'))} {ly if in_a else plain}."


def _end_punctuation(rng: random.Random, in_a: bool) -> str:
    # Marks follow a word in both groups (in published B items the mark is separate, which adds a token).
    tokens = [
        _capital(rng.choice(nouns())),
        *rng.choice(words("PLACES")).split(),
        _capital(rng.choice(nouns())),
    ]
    # Both groups have up to two marks inside. If only B had one, it would give the label away.
    for place in rng.sample(range(len(tokens) - 1), rng.randrange(3)):
        tokens[place] += rng.choice(_PUNCTUATION)
    if in_a:
        tokens[-1] += rng.choice(_PUNCTUATION)
    return " ".join(tokens)


def _uppercase(rng: random.Random, in_a: bool) -> str:
    # A: exactly one capital, at any letter including the first; B: none.
    text = (
        f"{rng.choice(nouns())} {rng.choice(words('INTRANSITIVE_VERBS'))}"
        f" {rng.choice(words('PLACES'))} {rng.choice(words('ADVERBS_LY'))}."
    )
    if not in_a:
        return text
    place = rng.choice([index for index, character in enumerate(text) if character.isalpha()])
    return text[:place] + text[place].upper() + text[place + 1 :]


def _hyphenated_word(rng: random.Random, in_a: bool) -> str:
    # B has the same compounds without hyphen, so only the hyphen differs.
    compound = rng.choice(words("COMPOUNDS"))
    if not in_a:
        compound = compound.replace("-", " ")
    place = rng.choice(words("PLACES"))
    if rng.random() < 0.5:
        verb, adverb = rng.choice(words("INTRANSITIVE_VERBS")), rng.choice(words("ADVERBS_LY"))
        return f"The {compound} {verb} {place} {adverb}."
    return f"The {rng.choice(nouns())} {rng.choice(words('TRANSITIVE_VERBS'))} the {compound} {place}."


def _spelled_number(rng: random.Random, in_a: bool) -> str:
    # Both groups use the same numbers. Places vary in length, which hides the number's length.
    number = rng.choice(words("NUMBERS")).split()[not in_a]
    adverb = f" {rng.choice(words('ADVERBS_LY'))}" if rng.random() < 0.5 else ""
    return (
        f"{_capital(rng.choice(nouns()))} {rng.choice(words('TRANSITIVE_VERBS'))} {number}"
        f" {rng.choice(words('PLURALS'))} {rng.choice(words('PLACES'))}{adverb}."
    )


def _spelled_math(rng: random.Random, in_a: bool) -> str:
    # Operators are one token in both forms.
    operator = rng.choice(words("MATH_OPERATORS")).split()[not in_a]
    return (
        f"The {rng.choice(words('MATH_QUANTITIES'))} {operator} {rng.randrange(2, 100)}"
        f" {rng.choice(words('MATH_CONTEXTS'))}."
    )


def _repeated_word(rng: random.Random, in_a: bool) -> str:
    # Both groups have five words. In B the word's neighbour is a different word of the same kind and length.
    kinds: list[Sequence[str]] = [
        nouns(),
        words("INTRANSITIVE_VERBS"),
        words("ADVERBS_LY") + words("ADVERBS_PLAIN"),
        words("PLURALS"),
    ]
    rng.shuffle(kinds)
    tokens = [rng.choice(kind) for kind in kinds]
    place = rng.randrange(len(tokens))
    word = tokens[place]
    others = [other for other in kinds[place] if len(other) == len(word) and other != word]
    if not others:  # No other word has this length, so B could not have a matching item.
        return _repeated_word(rng, in_a)
    tokens.insert(place + 1, word if in_a else rng.choice(others))
    return " ".join(tokens) + "."


#: Shape of a made-up word -> how often it is drawn. They are those in which an anagram of a palindrome can have the
#: same local repetitions. Letters whose combinations are hard to read are left out.
_SHAPES = {"cvvccvvc": 3, "vccvvccv": 1, "cvvcvcvvc": 2, "cvcvccvcvc": 4}
LETTERS = {"c": "bdklmnprstvz", "v": "aeiou"}


def _made_up_palindrome(rng: random.Random, shape: str) -> str:
    """Return a palindrome whose first half repeats no letter; the middle one belongs to it."""
    half = ""
    for kind in shape[: (len(shape) + 1) // 2]:
        half += rng.choice([letter for letter in LETTERS[kind] if letter not in half])
    return half + half[: len(shape) // 2][::-1]


def _repeats(word: str) -> list[tuple[int, bool]]:
    """Return the letters that are repeated at distance one and two: the distance, and whether it is a vowel."""
    return sorted(
        (distance, letter in LETTERS["v"])
        for distance in (1, 2)
        for letter, other in zip(word, word[distance:], strict=False)
        if letter == other
    )


def _anagrams(palindrome: str) -> list[str]:
    """Return words that are no palindromes, and like the palindrome in all else.

    Two consonants or two vowels of one half are exchanged. The letters, the outer letters, the shape and the letters
    that are repeated at distance one and two stay the same.
    """
    last = len(palindrome) - 1
    swapped = []
    for i, j in combinations(range(1, len(palindrome) // 2), 2):
        for one, other in ((i, j), (last - i, last - j)):
            letters = list(palindrome)
            letters[one], letters[other] = letters[other], letters[one]
            if (palindrome[one] in LETTERS["v"]) == (palindrome[other] in LETTERS["v"]):
                swapped.append("".join(letters))
    return [word for word in swapped if word != word[::-1] and _repeats(word) == _repeats(palindrome)]


def _palindrome(rng: random.Random, in_a: bool) -> str:
    # English has few palindromes, which the published items use and models know by heart. B is an anagram of another
    # palindrome, with the same outer letters and repetitions.
    palindrome = _made_up_palindrome(rng, rng.choices(list(_SHAPES), list(_SHAPES.values()))[0])
    return palindrome if in_a else rng.choice(_anagrams(palindrome))


_TEXTS: dict[str, Callable[[random.Random, bool], str]] = {
    "end_ly": _end_ly,
    "end_punctuation": _end_punctuation,
    "hyphenated_word": _hyphenated_word,
    "palindrome": _palindrome,
    "repeated_word": _repeated_word,
    "spelled_math": _spelled_math,
    "spelled_number": _spelled_number,
    "start_vowel": _start_vowel,
    "uppercase": _uppercase,
}


def _distinct(task: str, rng: random.Random, n: int, used: set[str]) -> Iterator[str]:
    for index in range(n):
        for _attempt in range(max_attempts(used)):
            text = _TEXTS[task](rng, index % 2 == 0)
            key = item_key(task, text)
            if key not in used:
                used.add(key)
                yield text
                break
        else:
            raise exhausted(task, index - index % 2)


def generate(task: str, *, n: int, seed: int, lexicon: Lexicon, exclude: Collection[str] = ()) -> list[str]:
    """Return ``n`` texts of ``task``: A, B, A, B …, without duplicates, the same in every process.

    :param n: An even number of at least 2.
    :param lexicon: Determines rhymes.
    :param exclude: Texts of items to exclude, compared by :func:`item_key`.
    :raises UsageError: for an ``n`` too large for the vocabulary.
    """
    rng = generator(seed, "htest", task)
    used = {item_key(task, text) for text in exclude}
    if task != "rhyme":
        return list(_distinct(task, rng, n, used))
    in_a, in_b = rhymes(rng, n // 2, lexicon, used)
    return [text for pair in zip(in_a, in_b, strict=True) for text in pair]


EXAMPLES = 50
VERSION = 4


def known_tasks(tasks: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tasks; all ten if none is named.

    :raises UsageError: for an unknown task.
    """
    for task in tasks or ():
        if task not in TASKS:
            raise UsageError(f"unknown H-TEST task '{task}'; the tasks are: {', '.join(TASKS)}")
    return tuple(dict.fromkeys(tasks)) if tasks else TASKS


def new_texts(task: str, *, n: int, seed: int, exclude: Collection[str] = (), more: int = 0) -> list[str]:
    """Return new texts of a task: A, B, A, B …; none of them is built-in, or in ``exclude``.

    :param n: An even number of at least 2. :param more: This many further texts.
    :raises UsageError: for an impossible ``n``.
    """
    if n < 2 or n % 2:
        raise UsageError(f"htest: n is {n}; choose an even number of at least 2 (half A, half B)")
    excluded = {*exclude, *_builtin(f"{task}_test"), *_builtin(f"{task}_dev")}
    return generate(task, n=n + more, seed=seed, lexicon=load_cmudict(), exclude=excluded)


def _builtin(name: str) -> set[str]:
    """Return the texts of a built-in file."""
    rows = DataFolder(builtin_data(), "builtin").jsonl(f"htest/{name}.jsonl")
    return {str(row["centerpiece"]) for row in rows}


def numbered(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of the published files with the ids 0000, 0001, …; texts at even positions are group A."""
    return [
        {"id": f"{number:04d}", "centerpiece": text, "options": list(LABELS), "correct_options": [number % 2]}
        for number, text in enumerate(texts)
    ]


def generate_set(
    out: Path, *, seed: int, n: int, exclude: Collection[str] = (), tasks: Sequence[str] | None = None
) -> list[Path]:
    """Write a new set to ``<out>/htest``, for ``--llm-data <out>``.

    ``<task>_test.jsonl`` has ``n`` rows and ``<task>_dev.jsonl`` has 50; Letter Geometry has 104 questions and no
    examples. ``SOURCE.json`` says how they were generated.

    :param exclude: Texts of other items to exclude, for example the published ones.
    :param tasks: Names of tasks; by default all ten, and Letter Geometry.
    :return: The files, SOURCE.json last.
    :raises UsageError: for an unknown task, an impossible ``n``, a folder that cannot be written, or one with data that
        was not generated.
    """
    generated_before(out / "htest")
    files: dict[str, str] = {}
    if not tasks or GEOMETRY in tasks:
        known = {*exclude, *_builtin(f"{GEOMETRY}_test")}
        files[f"{GEOMETRY}_test.jsonl"] = _jsonl(build_letter_geometry(seed=seed, exclude=known))
    others = [task for task in tasks or () if task != GEOMETRY]
    for task in known_tasks(others) if others or not tasks else ():
        texts = new_texts(task, n=n, seed=seed, exclude=exclude, more=EXAMPLES)
        files[f"{task}_test.jsonl"] = _jsonl(numbered(texts[EXAMPLES:]))
        files[f"{task}_dev.jsonl"] = _jsonl(numbered(texts[:EXAMPLES]))
    source = {"source": "generated", "generator": "htest", "seed": seed, "n": n, "version": VERSION}
    return _written(out / "htest", {**files, "SOURCE.json": json.dumps(source) + "\n"})


def train_prompt(text: str) -> str:
    """Return the paper's question without examples (section 3, appendix G)."""
    return f'Input: "{text}" Label: \nA \nB (Respond in one letter and nothing else)'


def training_rows(task: str, *, n: int, seed: int, exclude: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return ``n`` new items of a task as (text, label), alternating A and B.

    :raises UsageError: for an impossible ``n``.
    """
    texts = new_texts(task, n=n, seed=seed, exclude=exclude)
    return [(text, LABELS[place % 2]) for place, text in enumerate(texts)]


def export_train(
    out: Path, *, n: int, seed: int, exclude: Collection[str] = (), tasks: Sequence[str] | None = None
) -> list[Path]:
    """Write ``<task>_train.jsonl`` in the chat format for fine-tuning (the paper's appendix F); return the files.

    :param n: Rows of each task. :param exclude: Texts of other items to exclude, for example the published ones.
    :param tasks: Names of tasks; by default all ten.
    :raises UsageError: for an unknown task, an impossible ``n``, or a folder that cannot be written.
    """

    def chat(text: str, label: str) -> Mapping[str, Any]:
        question = {"role": "user", "content": train_prompt(text)}
        return {"messages": [question, {"role": "assistant", "content": label}]}

    rows = {task: training_rows(task, n=n, seed=seed, exclude=exclude) for task in known_tasks(tasks)}
    return _written(out, {f"{task}_train.jsonl": _jsonl(chat(*row) for row in rows[task]) for task in rows})


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _written(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write complete files, and return their paths."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_text(folder / name, text)
    return [folder / name for name in files]
