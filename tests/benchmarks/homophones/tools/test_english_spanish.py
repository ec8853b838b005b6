"""Checks of the built-in English and Spanish items."""

from __future__ import annotations

import csv
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rapidfuzz.distance import Levenshtein

from pytest_llmprops.benchmarks.homophones.reading import spelling_distance
from pytest_llmprops.benchmarks.homophones.tools.phonetics import (
    THRESHOLDS,
    SoundDistance,
    dialect,
    sound_distance,
)
from pytest_llmprops.benchmarks.homophones.tools.respelling import builtin_words, words_of
from pytest_llmprops.benchmarks.homophones.tools.sentences import Row, builtin_rows, own_sources
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import builtin_data
from pytest_llmprops.data.pronunciation import load_cmudict
from tests.support.programs import ESPEAK

FILES = {"en": "english.csv", "es": "spanish.csv"}
#: Ids of items that were replaced. An id never returns with another text.
REPLACED = {
    "en": "0016 0035 0037 0042 0049 0113 0122 0123 0128 0155 0185 0191 0193 0203",
    "es": "0010 0025 0034 0046 0047 0048 0049 0050 0051 0052 0053 0054 0055 0072 0080 0083 0088 0089 0090 0091 "
    "0092 0093 0094 0095 0096 0097 0098 0099 0100 0120 0123 0135 0144 0182 0188 0193",
}
ANSWER = {"en": "answer", "es": "answer_spanish"}
VOICE = {"en": "en-us", "es": "es-419"}

languages = pytest.mark.parametrize("lang", ["en", "es"])


def measure_for(lang: str) -> SoundDistance:
    return sound_distance(lang, load_cmudict() if lang == "en" else None)


def pairs(lang: str) -> list[tuple[str, str]]:
    return [(row["word"], row[ANSWER[lang]]) for row in builtin_rows(lang)]


def occurrences(word: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


def content_rows(lang: str) -> list[Row]:
    return [row for row in builtin_rows(lang) if row["function_word"] == "0"]


@languages
def test_ids_are_never_used_again(lang: str) -> None:
    """Ids have four digits and number the rows from 0001; the ids of replaced items are missing."""
    ids = [row["id"] for row in builtin_rows(lang)]
    assert ids == [f"{n:04d}" for n in range(1, int(ids[-1]) + 1) if f"{n:04d}" not in REPLACED[lang].split()]


@languages
def test_items_are_well_formed(lang: str) -> None:
    """160 or more items have the word once and the answer never in a sentence of at least four words.

    Repeating the sentence must not give an answer, so that a content word is not part of another word either.
    """
    raw = (builtin_data() / "homophones" / FILES[lang]).read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    cells = [cell for row in csv.reader(raw.decode("utf-8").splitlines()) for cell in row]
    assert [cell for cell in cells if not cell or cell != cell.strip()] == []
    rows = builtin_rows(lang)
    assert len(rows) >= 160
    assert len(rows) - len(content_rows(lang)) >= 10
    for row in rows:
        sentence, answer = row["sentence"], row[ANSWER[lang]]
        assert occurrences(row["word"], sentence) == 1, row
        assert not occurrences(answer, sentence), row
        is_function_word = builtin_words().is_function_word(answer, lang)
        assert row["function_word"] == str(int(is_function_word)), row
        translations = row.get("answer_english", answer).split("/")
        inside = [text for text in (answer, *translations) if text.casefold() in sentence.casefold()]
        assert is_function_word or not inside, row
        assert len(words_of(sentence)) >= 4, row
    for column in ("sentence", "word", ANSWER[lang]):
        assert len({row[column].casefold() for row in rows}) == len(rows), column


@languages
def test_words_sound_like_their_answers(lang: str) -> None:
    """Every word is within the language's phoneme-distance threshold of its answer."""
    measure = measure_for(lang)
    assert [pair for pair in pairs(lang) if measure(*pair).distance > THRESHOLDS[lang]] == []


@languages
def test_threshold_separates_unrelated_words(lang: str) -> None:
    """At least 99% of 3,000 random pairs of a word and another item's answer are above the threshold."""
    measure = measure_for(lang)
    items = [(row["word"], row[ANSWER[lang]]) for row in content_rows(lang)]
    rng = generator("unrelated pairs", lang)
    above = 0
    for _ in range(3000):
        (word, _), (_, answer) = rng.sample(items, 2)
        above += measure(word, answer).distance > THRESHOLDS[lang]
    print(f"{lang}: {above} of 3000 unrelated pairs above {THRESHOLDS[lang]}")
    assert above / 3000 >= 0.99


@languages
def test_words_are_spelt_unlike_their_answers(lang: str) -> None:
    """Every word has a spelling distance of at least 0.2 from its answer, and 0.43 on average."""
    distances = [spelling_distance(*pair) for pair in pairs(lang)]
    assert min(distances) >= 0.2
    # The published English words average 0.43.
    assert statistics.fmean(distances) >= 0.43


def test_spanish_dialects_are_marked() -> None:
    """The column says which items are homophones only with seseo (z like s) or yeísmo (ll like y)."""
    rows = builtin_rows("es")
    assert [row["id"] for row in rows if row["dialect"] != dialect(row["word"], row["answer_spanish"])] == []
    marked = {row["id"]: row["dialect"] for row in rows}
    assert [marked[i] for i in ("0001", "0019", "0024", "0116", "0185")] == [
        "general", "seseo yeísmo", "yeísmo", "seseo", "seseo",
    ]  # fmt: skip


def test_spanish_words_can_be_read_as_spanish() -> None:
    """Spanish has no "ph", and an x is not read like a j or an s."""
    for word, answer in pairs("es"):
        assert "ph" not in word
        assert "x" not in word or "x" in answer, (word, answer)


@ESPEAK.needed
@languages
def test_speech_synthesizer_agrees(lang: str) -> None:
    """By espeak-ng, another letter-to-sound system, nine in ten words are nearest to their own answer."""
    items = pairs(lang)
    words = _espeak([word for word, _ in items], lang)
    answers = _espeak([answer for _, answer in items], lang)
    assert len(words) == len(answers) == len(items)
    distance = Levenshtein.normalized_distance
    own = [distance(a, b) for a, b in zip(words, answers, strict=True)]
    shifts = (1, 17, 61)
    other = [min(distance(a, answers[(i + s) % len(answers)]) for s in shifts) for i, a in enumerate(words)]
    nearer = sum(a < b for a, b in zip(own, other, strict=True)) / len(own)
    assert statistics.median(own) <= 0.25
    assert nearer >= 0.9


def _espeak(words: list[str], lang: str) -> list[str]:
    """Return the IPA of each word without stress, length and pauses."""
    text = "\n".join(f"{word}." for word in words) + "\n"
    command = ["espeak-ng", "-q", "--ipa", "-v", VOICE[lang]]
    output = subprocess.run(
        command, input=text, text=True, capture_output=True, check=True, timeout=60
    ).stdout
    return [re.sub(r"[ˈˌː .ʔ]", "", line.strip()) for line in output.strip().split("\n")]


def test_sentences_are_our_own() -> None:
    """No sentence and no (word, answer) pair is a published English one; nor is a sentence of the generator."""
    folder = os.environ.get("LLMPROPS_DATA")
    if not folder:
        pytest.skip("LLMPROPS_DATA names no folder of published data")
    path = Path(folder) / "homophones" / "testset_english.csv"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder of published data")
    with path.open(encoding="utf-8-sig", newline="") as handle:
        published = list(csv.DictReader(handle))
    plain: Callable[[str], str] = lambda text: " ".join(words_of(text.casefold()))  # noqa: E731
    theirs = {plain(row["sentence"]) for row in published}
    assert [row["id"] for row in builtin_rows("en") if plain(row["sentence"]) in theirs] == []
    originals = {plain(row["sentence"].replace(row["word"], row["answer"])) for row in published}
    assert [source for source in own_sources("en") if plain(source.text) in originals] == []
    words = {row["word"].strip().casefold() for row in published} - {"thyme", "reign"}
    assert [word for word, _ in pairs("en") if word.casefold() in words] == []
