"""The H-TEST generators: balance, matching, limits, and the rules that their items obey."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.htest.items import LABELS, TASKS, read_rows
from pytest_llmprops.benchmarks.htest.tools import generation
from pytest_llmprops.benchmarks.htest.tools.generation import generate, words
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.pronunciation import load_cmudict
from tests.support.htest_rules import decide


def texts(task: str, *, n: int = 1000, seed: int = 3) -> tuple[list[str], list[str]]:
    """Return group A's and group B's texts."""
    both = generate(task, n=n, seed=seed, lexicon=load_cmudict())
    return both[::2], both[1::2]


def test_too_small_vocabulary_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary or an alphabet too small for n ends in a one-line error, not in an endless loop."""
    monkeypatch.setitem(generation.LETTERS, "c", "bdk")
    few = {name: words(name)[:1] for name in ("MATH_QUANTITIES", "MATH_CONTEXTS", "MATH_OPERATORS")}
    monkeypatch.setattr(generation, "words", few.__getitem__)
    for task in ("spelled_math", "palindrome"):
        with pytest.raises(UsageError, match=rf"htest/{task}: the vocabulary gives only \d+ more items"):
            generate(task, n=4000, seed=1, lexicon=load_cmudict())


LISTS = (
    "VOWEL_NOUNS CONSONANT_NOUNS TRANSITIVE_VERBS INTRANSITIVE_VERBS ADVERBS_LY ADVERBS_PLAIN PLACES PLURALS"
    " MATH_QUANTITIES MATH_CONTEXTS COMPOUNDS RHYME_WORDS"
)


def test_word_lists_are_consistent() -> None:
    """No word occurs twice in a list; vowel nouns begin with a vowel sound, consonant nouns do not."""
    lexicon, lists = load_cmudict(), {name: words(name) for name in LISTS.split()}
    assert min(map(len, lists.values())) >= 16
    assert [name for name, items in lists.items() if len(set(items)) < len(items) or not all(items)] == []

    def sounds(word: str) -> set[bool]:
        return {phones[0][0] in "AEIOU" for phones in lexicon.get(word, ())}

    assert {True} == set().union(*map(sounds, lists["VOWEL_NOUNS"]))
    assert {False} == set().union(*map(sounds, lists["CONSONANT_NOUNS"]))
    assert all(word[0] in "aeiou" for word in lists["VOWEL_NOUNS"])
    assert not any(word[0] in "aeiouy" for word in lists["CONSONANT_NOUNS"])
    assert not any(word.endswith("ly") for word in lists["ADVERBS_PLAIN"])
    assert not set(lists["RHYME_WORDS"]) - set(lexicon)
    # CMUdict gives "petty" a stress on the last vowel, so that it would rhyme with "tea", and "thyme" the th of "thin".
    assert not {"petty", "thyme"} & set(lists["RHYME_WORDS"])
    assert not [w for w in lists["RHYME_WORDS"] if any(p[-1] in ("IY2", "IH2") for p in lexicon[w])]


def test_uppercase_has_one_capital_or_none() -> None:
    """Group A has exactly one capital, at the start of a word or inside one; group B has none."""
    in_a, in_b = texts("uppercase")
    assert {sum(map(str.isupper, text)) for text in in_a} == {1}
    assert {sum(map(str.isupper, text)) for text in in_b} == {0}
    initial = sum(re.search(r"\b[A-Z]", text) is not None for text in in_a)
    assert 0.05 < initial / len(in_a) < 0.5


def test_palindromes_and_their_anagrams_are_alike() -> None:
    """Both groups have the same share of each length and outer letter; a word of B has the letters of a palindrome.

    No palindrome is a published one: English has few, and models know them.
    """
    in_a, in_b = texts("palindrome", n=4000)
    for key in (len, lambda word: word[0]):
        counts = [Counter(map(key, group)) for group in (in_a, in_b)]
        assert set(counts[0]) == set(counts[1])
        assert all(abs(counts[0][value] - counts[1][value]) < 0.04 * 2000 for value in counts[0])
    assert all(word[0] == word[-1] for word in in_b)
    assert all(sum(n % 2 for n in Counter(word).values()) <= 1 for word in in_b)
    assert not set(in_a) & load_cmudict().keys()


def test_rhymes_do_not_show_in_the_spelling() -> None:
    """Shared last letters (at most two) and words are distributed equally over both groups."""

    def shared(pair: str) -> int:
        first, second = pair.split()
        return max(count for count in range(len(second) + 1) if first.endswith(second[len(second) - count :]))

    lexicon = load_cmudict()
    in_a, in_b = texts("rhyme", n=4000)
    counts = [Counter(map(shared, group)) for group in (in_a, in_b)]
    assert {0, 1, 2} == set(counts[0]) == set(counts[1])
    assert all(abs(counts[0][letters] - counts[1][letters]) < 0.04 * 2000 for letters in range(3))
    assert not any(set(lexicon[a]) & set(lexicon[b]) for a, b in map(str.split, in_a)), "the same sounds"
    used = [Counter(word for pair in group for word in pair.split()) for group in (in_a, in_b)]
    assert sum((used[0] & used[1]).values()) > 0.7 * 4000


@settings(max_examples=100, derandomize=True, database=None)
@given(task=st.sampled_from(TASKS), seed=st.integers(0, 2**64), half=st.integers(1, 60))
def test_every_generated_item_obeys_its_label(task: str, seed: int, half: int) -> None:
    """For every seed, the independent rule gives each item its label."""
    both = generate(task, n=2 * half, seed=seed, lexicon=load_cmudict())
    assert [decide(task, text, load_cmudict()) for text in both] == ["A", "B"] * half


#: published files whose labels were checked; the others were not available
CHECKED = ("end_ly", "end_punctuation", "palindrome", "rhyme", "spelled_number", "uppercase")


def test_published_labels_that_contradict_the_rule_are_documented(published: Path) -> None:
    """The rules give the labels of the authors' items, except in the lines that docs/htest.md lists."""
    text = (Path(__file__).parents[4] / "docs" / "htest.md").read_text("utf-8")
    documented = dict(re.findall(r"`(\w+\.jsonl)`, lines? ([\d, ]+)", text))
    names = [f"{task}_{part}.jsonl" for task in CHECKED for part in ("dev", "test")]
    there = [name for name in names if (published / "htest" / name).is_file()]
    for name in there or pytest.skip("no checked file is in the folder"):
        rows = read_rows(DataFolder(published, "published"), f"htest/{name}", options=2)
        labels = [decide(name.rpartition("_")[0], row["text"], load_cmudict()) for row in rows]
        wrong = [n for n, row in enumerate(rows, 1) if labels[n - 1] != LABELS[row["answer"]]]
        assert sorted(map(int, re.findall(r"\d+", documented.get(name, "")))) == wrong, name
