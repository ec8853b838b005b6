"""The built-in Chinese homophones, and the generator of new ones."""

from __future__ import annotations

import csv
import os
import random
import warnings
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.homophones.tools.chinese import (
    Lexicon,
    content_words,
    homophone,
    load_lexicon,
    make_rows,
    toneless,
)
from pytest_llmprops.benchmarks.homophones.tools.generation import generate
from pytest_llmprops.benchmarks.homophones.tools.sentences import Source, builtin_pairs, own_sources
from pytest_llmprops.core.errors import UsageError

FILE = Path(__file__).parents[4] / "data" / "homophones" / "chinese.csv"
#: Ids of items that were replaced. An id never returns with another text.
REPLACED = {"0001", "0046", "0062", "0231", "0234"}
COLUMNS = ["id", "sentence", "word", "answer_english", "answer_chinese", "function_word"]
#: Stock phrases of replies; an English answer inside one would make any reply correct.
STOCK = (
    "In the sentence, the word is a homophone for another word, which means something else. For example, "
    "it sounds like the Chinese characters; the pronunciation is similar or the same. I'm sorry, I apologize "
    "but without more context or information it is hard to tell the true meaning. Based on the context it "
    "refers to, translates to, likely, could be, might be, made-up, typo, misspelling, original, correct, "
    "question, answer, understand, clarify, provide, interpretation, generally, believe, rather, therefore"
)


def rows() -> list[dict[str, str]]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def readings(character: str) -> frozenset[str]:
    """Return every toneless reading of one character, by pypinyin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pypinyin
    (entries,) = pypinyin.pinyin(character, style=pypinyin.Style.NORMAL, heteronym=True)
    return frozenset(entries)


def check(sentence: str, word: str, answer: str) -> None:
    """Assert that a Chinese item is a homophone by the paper's definition."""
    assert len(answer) == len(word)
    assert not set(answer) & set(word), f"{word} shares a character with {answer}"
    assert all(readings(a) & readings(w) for a, w in zip(answer, word, strict=True)), (
        f"{word} sounds unlike {answer}"
    )
    assert sentence.count(word) == 1, sentence
    assert answer not in sentence, sentence


def test_file_has_the_columns_and_enough_items_with_ids_in_order() -> None:
    """There are at least 160 items, about eight of them function words, written with characters of GB 2312.

    No sentence, word or answer occurs twice. The ids of replaced items are missing.
    """
    entries = rows()
    assert list(entries[0]) == COLUMNS
    assert len(entries) >= 160
    expected = [f"{i:04d}" for i in range(1, int(entries[-1]["id"]) + 1)]
    assert [i for i in expected if i not in REPLACED] == [row["id"] for row in entries]
    assert {"0", "1"} == {row["function_word"] for row in entries}
    assert 6 <= sum(row["function_word"] == "1" for row in entries) <= 12
    for column in ("sentence", "word", "answer_chinese"):
        assert len({row[column] for row in entries}) == len(entries), column
    for row in entries:
        row["word"].encode("gb2312")


def test_homophone_matches_the_reading_of_the_answer_in_its_word() -> None:
    """The word has the syllables that the answer's characters have in that word, and two thirds of its tones."""
    read, same = load_lexicon().read, []
    for row in rows():
        check(row["sentence"], row["word"], row["answer_chinese"])
        syllables = read(row["answer_chinese"])
        assert all(toneless(s) in readings(w) for s, w in zip(syllables, row["word"], strict=True)), row
        tones = (syllable for character in row["word"] for syllable in read(character))
        same += [a == b for a, b in zip(syllables, tones, strict=True) if not a.endswith("5")]
    assert sum(same) / len(same) >= 2 / 3


def test_english_answers_do_not_occur_in_stock_phrases() -> None:
    """No English answer of a content word is part of a stock phrase, which would count as correct under
    `contains`.
    """
    stock = STOCK.casefold()
    for row in rows():
        answers = row["answer_english"].split("/")
        assert all(a and a == a.strip() for a in answers), row
        if row["function_word"] == "0":
            assert [a for a in answers if a.casefold() in stock] == [], row


def test_published_sentences_are_not_copied() -> None:
    """No built-in sentence and no word in one is from the paper."""
    folder = os.environ.get("LLMPROPS_DATA")
    published = Path(folder or "") / "homophones" / "testset_chinese.csv"
    if not folder or not published.is_file():
        pytest.skip("LLMPROPS_DATA names no folder with homophones/testset_chinese.csv")
    with published.open(encoding="utf-8-sig", newline="") as file:
        theirs = list(csv.DictReader(file))
    for column in ("sentence", "word"):
        assert not {row[column] for row in rows()} & {row[column] for row in theirs}


# The generator


def test_generated_items_obey_the_rules_of_the_built_in_ones() -> None:
    """Items have equal syllables, no shared character, the word once, no answer, no dictionary word.

    Each has an English answer, and none is a built-in item. A seed gives the same items, of which a smaller n is the
    first part.
    """
    generated = generate("zh", n=240, seed=3)
    assert generate("zh", n=40, seed=3) == generated[:40]
    assert generate("zh", n=40, seed=2) != generated[:40]
    words = load_lexicon().words
    # Many readers read these characters otherwise than pypinyin.
    assert not set("谁率什参") & {c for members in load_lexicon().characters.values() for c in members}
    assert {("sentence", "word", "answer_english", "answer_chinese")} == {tuple(row) for row in generated}
    for row in generated:
        check(row["sentence"], row["word"], row["answer_chinese"])
        assert len(row["answer_chinese"]) >= 2
        assert row["word"] not in words
    assert len({row["sentence"] for row in generated}) == 240
    known = {source.answer: source.english for source in own_sources("zh")}
    assert {row["answer_chinese"]: row["answer_english"] for row in generated}.items() <= known.items()
    assert not {(row["word"], row["answer_chinese"]) for row in generated} & builtin_pairs("zh")
    restored = {row["sentence"].replace(row["word"], row["answer_chinese"]) for row in generated}
    assert not restored & {row["sentence"].replace(row["word"], row["answer_chinese"]) for row in rows()}


def test_user_sentences_become_items() -> None:
    """A sentence with an answer gives that answer first; other words need a known English translation."""
    captain = Source("老船长站在码头上等待返航的货轮", "货轮", "freighter")
    harbour = {
        row["answer_chinese"]: row["answer_english"] for row in generate("zh", n=2, seed=0, sources=[captain])
    }
    assert list(harbour.items()) == [("货轮", "freighter"), ("码头", "dock/pier/wharf")]
    with pytest.raises(UsageError, match=r"^only 0 of 1 .* its English translation"):
        generate("zh", n=1, seed=0, sources=[Source("老船长等待返航的货轮")])


def test_too_few_items_give_one_line() -> None:
    """An error for too many items says how many are possible and what to do."""
    with pytest.raises(UsageError, match="cannot generate 0 items"):
        generate("zh", n=0, seed=0)
    with pytest.raises(UsageError, match=r"^only \d+ of 5000 .* from \d+ sentences: give more") as caught:
        generate("zh", n=5000, seed=0)
    assert "\n" not in str(caught.value)


# A dictionary small enough to check by hand

READ = {"天": "tian1", "空": "kong1", "蓝": "lan2", "的": "de5"}
TOY = Lexicon(
    segment=lambda text: [(text[i : i + 2], "n") for i in range(0, len(text), 2)],
    read=lambda word: tuple(READ[c] for c in word),
    characters={"tian1": ("天", "添"), "tian2": ("田", "填"), "kong1": ("空",), "kong4": ("控",)},
    words=frozenset({"天空", "添控"}),
)


def test_dictionary_words_are_never_generated() -> None:
    """If the only possible replacement is a dictionary word, there is no homophone."""
    assert homophone("天空", TOY, random.Random(0)) is None
    # Nor are words of known items, and words of the sentence.
    lexicon = Lexicon(TOY.segment, TOY.read, TOY.characters, frozenset({"天空"}))
    assert homophone("天空", lexicon, random.Random(0), taken={("添控", "天空")}) is None
    assert homophone("天空", lexicon, random.Random(0), text="添控天空") is None


def test_same_tone_is_preferred() -> None:
    """`tian1` has a replacement in the same tone; `kong1` has none, so the fourth tone is used."""
    lexicon = Lexicon(TOY.segment, TOY.read, TOY.characters, frozenset({"天空"}))
    assert {"添控"} == {homophone("天空", lexicon, random.Random(seed)) for seed in range(20)}


def test_an_answer_that_occurs_twice_is_not_replaced() -> None:
    """A known answer that occurs twice in the sentence gives no item, because its second occurrence would
    reveal it.
    """
    lexicon = Lexicon(TOY.segment, TOY.read, TOY.characters, frozenset({"天空"}))
    with pytest.raises(ValueError, match="only 0 of 1"):
        make_rows([Source("天空天空", "天空", "sky")], n=1, seed=0, lexicon=lexicon, translations={})


def test_only_dictionary_words_that_occur_once_are_content_words() -> None:
    """A word that occurs twice, or that is not in a dictionary, is not replaced."""
    assert content_words("天空蓝的", TOY) == ("天空",)
    assert content_words("天空天空", TOY) == ()


# The first example loads the dictionary.
@given(seed=st.integers(0, 2**32))
def test_any_seed_gives_valid_items(seed: int) -> None:
    """For any seed, every item of one sentence follows the rules."""
    text = "科学家在实验室里研究一种新的材料"
    english = {"科学家": "scientist", "实验室": "laboratory", "材料": "material"}
    for row in make_rows([Source(text)], n=3, seed=seed, lexicon=load_lexicon(), translations=english):
        check(row["sentence"], row["word"], row["answer_chinese"])
        assert row["answer_english"] == english[row["answer_chinese"]]
