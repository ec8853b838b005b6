"""Checks of the built-in items in three languages."""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.items import FUNCTION_WORDS
from pytest_llmprops.benchmarks.homophones.tools.chinese import syllables
from pytest_llmprops.benchmarks.homophones.tools.published import EDITIONS, Row, columns_of, own_sources
from pytest_llmprops.benchmarks.homophones.tools.respelling import VOICES, distance, pronounced
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.programs import ESPEAK

#: Ids of items that were replaced. An id never returns with another text.
REPLACED = {
    "en": "0003 0016 0035 0037 0042 0049 0113 0122 0123 0128 0155 0185 0191 0193 0203 0213",
    "es": "0010 0025 0034 0044 0046 0047 0048 0049 0050 0051 0052 0053 0054 0055 0072 0080 0083 0088 0089 0090 0091 "
    "0092 0093 0094 0095 0096 0097 0098 0099 0100 0120 0123 0135 0144 0164 0172 0182 0188 0193",
    "zh": "0001 0046 0062 0231 0234 0240",
}
languages = pytest.mark.parametrize("lang", ["en", "es", "zh"])
spelt = pytest.mark.parametrize("lang", ["en", "es"])


@cache
def rows(lang: str) -> list[Row]:
    edition = EDITIONS[lang]
    columns = ("id", *columns_of(lang), "function_word")
    return DataFolder(builtin_data(), "builtin").csv(f"homophones/{edition.builtin}", columns)


def answer(row: Row, lang: str) -> str:
    return row[EDITIONS[lang].answers[0]]


def pairs(lang: str) -> list[tuple[str, str]]:
    return [(row["word"], answer(row, lang)) for row in rows(lang)]


def occurrences(word: str, text: str, lang: str) -> int:
    if lang == "zh":
        return text.count(word)
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


@languages
def test_items_are_well_formed(lang: str) -> None:
    """160 or more items have the word once and the answer never in the sentence; six or more are function words.

    Repeating the sentence must not give an answer, so that a content word is not part of another word either. Ids have
    four digits and number the rows from 0001; the ids of replaced items are missing.
    """
    raw = (builtin_data() / "homophones" / EDITIONS[lang].builtin).read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    cells = [cell for row in csv.reader(raw.decode("utf-8").splitlines()) for cell in row]
    assert [cell for cell in cells if not cell or cell != cell.strip()] == []
    ids = [row["id"] for row in rows(lang)]
    assert len(ids) >= 160
    assert ids == [f"{n:04d}" for n in range(1, int(ids[-1]) + 1) if f"{n:04d}" not in REPLACED[lang].split()]
    assert sum(row["function_word"] == "1" for row in rows(lang)) >= 6
    for row in rows(lang):
        sentence, is_function_word = row["sentence"], row["function_word"] == "1"
        assert occurrences(row["word"], sentence, lang) == 1, row
        assert not occurrences(answer(row, lang), sentence, lang), row
        answers = [answer(row, lang), *row.get("answer_english", "").split("/")]
        inside = [text for text in answers if text and text.casefold() in sentence.casefold()]
        assert is_function_word or not inside, row
        assert lang == "zh" or len(sentence.split()) >= 4, row
    for column in ("sentence", "word", EDITIONS[lang].answers[0]):
        assert len({row[column].casefold() for row in rows(lang)}) == len(rows(lang)), column


@spelt
def test_words_are_spelt_unlike_their_answers(lang: str) -> None:
    """Every word has a spelling distance of at least 0.2 from its answer, and 0.43 on average.

    The column ``function_word`` is that of the word lists, which have single lower-case words.
    """
    words = FUNCTION_WORDS[lang]
    assert {word for word in words if not word.isalpha() or word != word.lower()} == set()
    for row in rows(lang):
        assert row["function_word"] == str(int(answer(row, lang).casefold() in words)), row
    distances = [distance(word.lower(), other.lower()) for word, other in pairs(lang)]
    assert min(distances) >= 0.2
    # The published English words average 0.43.
    assert statistics.fmean(distances) >= 0.43


@ESPEAK.needed
@spelt
def test_words_sound_like_their_answers(lang: str) -> None:
    """By espeak-ng, half of the words sound like their answer, and nine in ten are nearest to it."""
    words, answers = (pronounced(column, lang) for column in zip(*pairs(lang), strict=True))
    own = [distance(a, b) for a, b in zip(words, answers, strict=True)]
    shifts = (1, 17, 61)
    other = [min(distance(a, answers[(i + s) % len(answers)]) for s in shifts) for i, a in enumerate(words)]
    assert sum(a == 0 for a in own) / len(own) >= 0.5
    assert sum(a < b for a, b in zip(own, other, strict=True)) / len(own) >= 0.9


@ESPEAK.needed
def test_spanish_dialects_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column says which items are homophones only with seseo (z like s) or yeísmo (ll like y).

    espeak-ng's voice of Spain, which has neither, pronounces these unlike their answers.
    """
    words, answers = zip(*pairs("es"), strict=True)
    here = zip(pronounced(words, "es"), pronounced(answers, "es"), strict=True)
    monkeypatch.setitem(VOICES, "es", "es")
    there = zip(pronounced(words, "es"), pronounced(answers, "es"), strict=True)
    checked = 0
    for row, (word, other), (spain_word, spain_other) in zip(rows("es"), here, there, strict=True):
        if word == other:
            assert (row["dialect"] == "general") == (spain_word == spain_other), row
            checked += 1
    assert checked >= 100
    assert {row["dialect"] for row in rows("es")} == {"general", "seseo", "yeísmo", "seseo yeísmo"}


def test_chinese_words_have_the_syllables_of_their_answers() -> None:
    """The word has the answer's syllables, two thirds of its tones, and none of its characters."""
    import pypinyin

    same: list[bool] = []
    for word, other in pairs("zh"):
        assert len(word) == len(other)
        assert not set(word) & set(other), (word, other)
        word.encode("gb2312")
        wanted = syllables(other)
        # Every toneless reading of each character.
        readings = [pypinyin.pinyin(c, style=pypinyin.Style.NORMAL, heteronym=True)[0] for c in word]
        assert all(s[:-1] in own for s, own in zip(wanted, readings, strict=True)), (word, other)
        tones: Iterator[str] = (syllable for character in word for syllable in syllables(character))
        same += [a == b for a, b in zip(wanted, tones, strict=True) if not a.endswith("5")]
    assert sum(same) / len(same) >= 2 / 3


@languages
def test_sentences_are_our_own(lang: str, published: Path) -> None:
    """No sentence and no word is a published one; nor is a sentence of the generator."""
    edition = EDITIONS[lang]
    if not (published / "homophones" / edition.published).is_file():
        pytest.skip(f"{edition.published} is not in the folder")
    theirs = DataFolder(published, "published").csv(f"homophones/{edition.published}", columns_of(lang))

    def plain(text: str) -> str:
        return " ".join(re.findall(r"\w+", text.casefold()))

    sentences = {plain(row["sentence"]) for row in theirs}
    assert [row["id"] for row in rows(lang) if plain(row["sentence"]) in sentences] == []
    originals = {plain(row["sentence"].replace(row["word"], answer(row, lang))) for row in theirs}
    assert [source for source in own_sources(lang) if plain(source.sentence) in originals] == []
    words = {row["word"].strip().casefold() for row in theirs} - {"thyme", "reign"}
    if lang != "es":
        assert [word for word, _ in pairs(lang) if word.casefold() in words] == []
