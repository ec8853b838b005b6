"""The H-TEST generators: balance, determinism, matching, limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from pytest_llmprops.benchmarks.htest.tools import vocabulary
from pytest_llmprops.benchmarks.htest.tools.generators import TASKS, Lexicon, generate, item_key
from pytest_llmprops.core.errors import UsageError


def texts(task: str, lexicon: Lexicon, *, n: int = 1000, seed: int = 3) -> tuple[list[str], list[str]]:
    """Return group A's and group B's texts."""
    rows = generate(task, n=n, seed=seed, lexicon=lexicon)
    return [row["centerpiece"] for row in rows[::2]], [row["centerpiece"] for row in rows[1::2]]


@pytest.mark.simulation
@pytest.mark.parametrize("task", TASKS)
def test_rows_are_balanced_alternating_numbered_and_distinct(task: str, lexicon: Lexicon) -> None:
    """4,000 rows alternate A and B, have ids 0000 to 3999, and no duplicates apart from case or marks."""
    rows = generate(task, n=4000, seed=11, lexicon=lexicon)
    assert [row["correct_options"] for row in rows] == [[0], [1]] * 2000
    assert [row["id"] for row in rows] == [f"{index:04d}" for index in range(4000)]
    assert all(list(row) == ["id", "centerpiece", "options", "correct_options"] for row in rows)
    assert all(row["options"] == ["A", "B"] for row in rows)
    assert len({item_key(task, row["centerpiece"]) for row in rows}) == 4000


@pytest.mark.parametrize("task", TASKS)
def test_another_seed_gives_other_items(task: str, lexicon: Lexicon) -> None:
    """Two seeds give different sets."""
    assert texts(task, lexicon, n=20, seed=1) != texts(task, lexicon, n=20, seed=2)


def test_items_are_the_same_in_every_process(lexicon: Lexicon) -> None:
    """A process with another hash seed makes the same rows."""
    code = (
        "import json; from pytest_llmprops.benchmarks.htest.tools.generators import TASKS, generate;"
        "from pytest_llmprops.data.pronunciation import load_cmudict as load;"
        "from pytest_llmprops.benchmarks.htest.tools.letter_geometry import build_letter_geometry as geometry;"
        "print(json.dumps([[generate(t, n=60, seed=9, lexicon=load()) for t in TASKS], geometry(seed=9)]))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ
            | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])[0] == [generate(task, n=60, seed=9, lexicon=lexicon) for task in TASKS]


@pytest.mark.parametrize("task", TASKS)
def test_excluded_texts_are_not_repeated(task: str, lexicon: Lexicon) -> None:
    """Excluding a seed's own items gives entirely new items for the same seed."""
    first = [row["centerpiece"] for row in generate(task, n=100, seed=4, lexicon=lexicon)]
    second = generate(task, n=100, seed=4, lexicon=lexicon, exclude=first)
    assert not {item_key(task, text) for text in first} & {
        item_key(task, row["centerpiece"]) for row in second
    }


@pytest.mark.parametrize(
    ("task", "n", "says"),
    [
        ("end_ly", 7, "even number"),
        ("rhyme", 0, "even number"),
        ("reverse", 10, "the tasks are: end_ly"),
        ("rhyme", 9000, "smaller n"),
        ("palindrome", 20000, "smaller n"),
    ],
)
def test_an_impossible_request_is_one_line(task: str, n: int, says: str, lexicon: Lexicon) -> None:
    """An unknown task or an impossible n is a one-line ValueError that names the task and a fix."""
    with pytest.raises(ValueError, match=says) as error:
        generate(task, n=n, seed=1, lexicon=lexicon)
    assert isinstance(error.value, UsageError)
    assert task in str(error.value)
    assert "\n" not in str(error.value)


def test_too_small_vocabulary_is_an_error(lexicon: Lexicon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary too small for n ends in a one-line error, not in an endless loop."""
    for name in ("MATH_QUANTITIES", "MATH_CONTEXTS"):
        monkeypatch.setattr(vocabulary, name, getattr(vocabulary, name)[:1])
    with pytest.raises(UsageError, match="htest/spelled_math: the vocabulary gives only"):
        generate("spelled_math", n=4000, seed=1, lexicon=lexicon)


def test_word_lists_are_consistent(lexicon: Lexicon) -> None:
    """No word occurs twice in a list; vowel nouns begin with a vowel sound, consonant nouns do not."""
    lists = {
        name: value for name, value in vars(vocabulary).items() if name.isupper() and isinstance(value, tuple)
    }
    assert len(lists) == 15
    for name, words in lists.items():
        assert len(words) == len(set(words)), name
        assert all(words), name

    def sounds(word: str) -> set[bool]:
        return {phones[0][0] in "AEIOU" for phones in lexicon.get(word, ())}

    assert {True} == set().union(*map(sounds, vocabulary.VOWEL_NOUNS))
    assert {False} == set().union(*map(sounds, vocabulary.CONSONANT_NOUNS))
    assert all(word[0] in "aeiou" for word in vocabulary.VOWEL_NOUNS)
    assert not any(word[0] in "aeiouy" for word in vocabulary.CONSONANT_NOUNS)
    assert not any(word.endswith("ly") for word in vocabulary.ADVERBS_PLAIN)
    assert not set(vocabulary.RHYME_WORDS) - set(lexicon)


def test_uppercase_has_one_capital_or_none(lexicon: Lexicon) -> None:
    """Group A has exactly one capital, at the start of a word or inside one; group B has none."""
    in_a, in_b = texts("uppercase", lexicon)
    capitals = [[index for index, letter in enumerate(text) if letter.isupper()] for text in in_a]
    assert all(len(places) == 1 for places in capitals)
    initial = sum(
        places[0] == 0 or text[places[0] - 1] == " " for text, places in zip(in_a, capitals, strict=True)
    )
    assert 0.05 < initial / len(in_a) < 0.5
    assert not any(letter.isupper() for text in in_b for letter in text)


def test_palindromes_match_in_length_outer_letters_and_share_of_real_words(lexicon: Lexicon) -> None:
    """Group B copies group A's lengths and outer letters, with the same share of real words."""
    in_a, in_b = texts("palindrome", lexicon, n=250)
    for key in (len, lambda word: word[0], lambda word: word[-1]):
        assert Counter(map(key, in_a)) == Counter(map(key, in_b))
    assert all(word[0] == word[-1] for word in in_b)
    real = [
        sum(word in words for word in group)
        for group, words in ((in_a, vocabulary.PALINDROMES), (in_b, vocabulary.NEAR_PALINDROMES))
    ]
    assert real[0] == real[1] >= 40


def test_rhymes_do_not_show_in_the_spelling(lexicon: Lexicon) -> None:
    """Shared last letters (at most two) and words are distributed equally over both groups."""

    def shared(pair: str) -> int:
        first, second = pair.split()
        return max(count for count in range(len(second) + 1) if first.endswith(second[len(second) - count :]))

    in_a, in_b = texts("rhyme", lexicon, n=4000)
    counts = [Counter(map(shared, group)) for group in (in_a, in_b)]
    assert {0, 1, 2} == set(counts[0]) == set(counts[1])
    assert all(abs(counts[0][letters] - counts[1][letters]) < 0.04 * 2000 for letters in range(3))
    assert not any(set(lexicon[a]) & set(lexicon[b]) for a, b in map(str.split, in_a)), "the same sounds"
    used = [Counter(word for pair in group for word in pair.split()) for group in (in_a, in_b)]
    assert sum((used[0] & used[1]).values()) > 0.7 * 4000
