"""Generated English and Spanish items pass the built-in items' checks, in files of the published format."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.reading import spelling_distance
from pytest_llmprops.benchmarks.homophones.tools.generation import (
    COLUMNS,
    builtin_rows,
    generate,
    read_sentences,
    write_homophones,
)
from pytest_llmprops.benchmarks.homophones.tools.phonetics import THRESHOLDS, sound_distance
from pytest_llmprops.benchmarks.homophones.tools.respelling import (
    MINIMUM_SPELLING_DISTANCE,
    builtin_words,
    generate_items,
    replaceable_words,
    respell,
    restore,
    words_of,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.pronunciation import load_cmudict

ANSWER = {"en": "answer", "es": "answer_spanish"}
OWN = {
    "en": [
        "The gardener watered the flowers.",
        "A pilot landed the airplane safely.",
        "My brother plays football.",
    ],
    "es": [
        "El jardinero riega las flores.",
        "El piloto aterriza el helicóptero.",
        "Mi vecino toca la guitarra.",
    ],
}
languages = pytest.mark.parametrize("lang", ["en", "es"])


def occurrences(word: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


@pytest.mark.simulation
@languages
def test_generated_items_pass_the_checks_of_the_builtin_ones(lang: str) -> None:
    """Generated items have the published columns, the word once, the answer never, and no duplicates.

    Words sound like their answers and look different.
    """
    rows = generate(lang, n=120, seed=5)
    assert len(rows) == 120
    assert {tuple(row) for row in rows} == {COLUMNS[lang]}
    words = [row["word"] for row in rows]
    answers = [row[ANSWER[lang]] for row in rows]
    assert len(set(words)) == len(set(answers)) == len({row["sentence"] for row in rows}) == 120
    for row, word, answer in zip(rows, words, answers, strict=True):
        assert occurrences(word, row["sentence"]) == 1
        assert answer not in row["sentence"].lower()
        assert not builtin_words().is_function_word(answer, lang)
    measure = sound_distance(lang, load_cmudict() if lang == "en" else None)
    pairs = list(zip(words, answers, strict=True))
    assert [pair for pair in pairs if measure(*pair).distance > THRESHOLDS[lang]] == []
    distances = [spelling_distance(*pair) for pair in pairs]
    assert min(distances) >= MINIMUM_SPELLING_DISTANCE
    assert statistics.fmean(distances) >= 0.4


@languages
def test_each_sentence_is_used_before_any_is_used_twice(lang: str) -> None:
    """Three items from three sentences use each once; further items use other words of the sentences."""

    def sources(n: int) -> list[str]:
        rows = generate(lang, n=n, seed=2, sentences=OWN[lang])
        return sorted(restore(row["sentence"], row["word"], row[ANSWER[lang]]) for row in rows)

    assert sources(3) == sorted(OWN[lang])
    assert len(sources(5)) == 5


PINNED = {
    "en": [("phutbaul", "football"), ("phlourze", "flowers")],
    "es": [("behzyno", "vecino"), ("phlorez", "flores")],
}


def test_generated_rows_are_pinned() -> None:
    """A seed gives the same items in every process and on every machine."""
    spanish = generate("es", n=2, seed=7, sentences=OWN["es"])
    english = generate("en", n=2, seed=7, sentences=OWN["en"])
    assert [(row["word"], row["answer_spanish"]) for row in spanish] == PINNED["es"]
    assert [(row["word"], row["answer"]) for row in english] == PINNED["en"]


@languages
def test_too_few_sentences(lang: str) -> None:
    """If the sentences do not yield n items, a ValueError says how many they yield."""
    with pytest.raises(ValueError, match=r"only \d+ of 500 homophone items .* from 3 sentences"):
        generate(lang, n=500, seed=1, sentences=OWN[lang])
    with pytest.raises(ValueError, match="only 0 of 1"):
        generate(lang, n=1, seed=1, sentences=["..."])


def test_bad_arguments() -> None:
    """An unknown language or a number below 1 is a one-line error that names it."""
    with pytest.raises(UsageError, match=r"'fr'.*en, es, zh"):
        generate("fr", n=1, seed=1)
    with pytest.raises(UsageError, match="cannot generate 0 items"):
        generate("es", n=0, seed=1)
    with pytest.raises(UsageError, match="'xx'"):
        generate_items(["a"], "xx", n=1, seed=1)


def test_replaceable_words() -> None:
    """Names, function words, short or repeated words, words inside others and heteronyms are not replaced."""
    sentence = (
        "Anna should read about the heart of a cat, a heartbeat, a spoon and another spoon by the window"
    )
    assert replaceable_words(sentence, "en", load_cmudict()) == ["heartbeat", "window"]
    assert replaceable_words("Ana vive desde ayer en una casa blanca", "es") == [
        "vive",
        "ayer",
        "casa",
        "blanca",
    ]


def test_respelling_never_contains_the_answer() -> None:
    """No respelling contains the answer, because repeating it would count as correct; nor is an excluded one chosen."""
    measure = sound_distance("es")
    first = respell("caballo", "es", rng=generator(1), measure=measure)
    assert first is not None
    second = respell("caballo", "es", rng=generator(1), measure=measure, avoid={first.word})
    assert second is not None
    assert second.word != first.word
    respelled: set[str] = set()
    for seed in range(20):
        while respelling := respell("ola", "es", rng=generator(seed), measure=measure, avoid=respelled):
            respelled.add(respelling.word)
    assert "olha" in respelled
    # A Spanish respelling keeps the accented vowel, so that the stress does not move.
    accented = [respell("música", "es", rng=generator(seed), measure=measure) for seed in range(20)]
    assert all(respelled is not None and "ú" in respelled.word for respelled in accented)
    assert sorted(word for word in respelled if "ola" in word) == []


def test_restore() -> None:
    """The answer replaces the word as a whole word in any case; any other number of occurrences than one is
    an error.
    """
    assert restore("The Kat sat.", "kat", "cat") == "The cat sat."
    with pytest.raises(ValueError, match="occurs 0 times"):
        restore("The katalog", "kat", "cat")
    with pytest.raises(ValueError, match="occurs 2 times"):
        restore("kat kat", "kat", "cat")
    assert words_of("Don't stop, año 2024!") == ["Don't", "stop", "año"]


def test_known_translations_are_given() -> None:
    """A Spanish answer of the built-in set has its English translation; other answers have none.

    One that occurs in the sentence is left out, because repeating the sentence would be correct.
    """
    (plane,) = generate("es", n=1, seed=1, sentences=["Un avión de PLANE"])
    (ring,) = generate("es", n=1, seed=1, sentences=["Un anillo de RING"])
    assert (plane["answer_english"], ring["answer_english"]) == ("airplane", "")
    rows = generate("es", n=190, seed=3)
    known = {row["answer_spanish"]: row["answer_english"] for row in builtin_rows("es")}
    assert any(row["answer_english"] for row in rows)
    for row in rows:
        shown = set(filter(None, row["answer_english"].split("/")))
        assert shown <= set(known.get(row["answer_spanish"], "").split("/"))
        assert [t for t in shown if t.casefold() in row["sentence"].casefold()] == []


def test_function_word_lists_are_lower_case_words() -> None:
    """The lists have single lower-case words, and "a" is in the English and the Spanish one."""
    lists = builtin_words().function
    assert "a" in lists["en"] & lists["es"]
    for words in lists.values():
        assert {word for word in words if not word.isalpha() or word != word.lower()} == set()
    assert builtin_words().is_function_word("There", "en")
    assert not builtin_words().is_function_word("fridge", "en")


def test_files_are_those_of_the_published_sets(tmp_path: Path) -> None:
    """Two languages written to one folder share SOURCE.json and load as a generated data folder."""
    english = write_homophones(tmp_path, "en", n=3, seed=4)
    spanish = write_homophones(tmp_path, "es", n=2, seed=9)
    assert (english.name, spanish.name) == ("testset_english.csv", "testset_espanol.csv")
    source = json.loads((tmp_path / "homophones" / "SOURCE.json").read_text(encoding="utf-8"))
    assert source == {
        "source": "generated",
        "generator": "homophones",
        "seed": 9,
        "n": 2,
        "version": 1,
        "languages": {
            "en": {"file": "testset_english.csv", "seed": 4, "n": 3},
            "es": {"file": "testset_espanol.csv", "seed": 9, "n": 2},
        },
    }
    folder = DataFolder(tmp_path, "published")
    assert folder.source_for("homophones") == "generated"
    assert folder.csv("homophones/testset_english.csv", COLUMNS["en"]) == generate("en", n=3, seed=4)
    assert folder.csv("homophones/testset_espanol.csv", COLUMNS["es"]) == generate("es", n=2, seed=9)
    assert sorted(p.name for p in (tmp_path / "homophones").iterdir()) == [
        "SOURCE.json", "testset_english.csv", "testset_espanol.csv"
    ]  # fmt: skip
    assert b"\r" not in english.read_bytes()


def test_published_data_is_never_overwritten(tmp_path: Path) -> None:
    """A folder with homophone files but without SOURCE.json is an error and stays unchanged."""
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        write_homophones(tmp_path / "out", "es", n=1, seed=1)
    file = tmp_path / "homophones" / "testset_english.csv"
    file.parent.mkdir()
    file.write_text("sentence,word,answer\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not generated"):
        write_homophones(tmp_path, "es", n=1, seed=1)
    assert [p.name for p in file.parent.iterdir()] == ["testset_english.csv"]
    (file.parent / "SOURCE.json").write_text(
        '{"source": "generated", "generator": "htest"}', encoding="utf-8"
    )
    with pytest.raises(UsageError, match="not written by the homophone generator"):
        write_homophones(tmp_path, "es", n=1, seed=1)


def test_user_sentences_from_a_file(tmp_path: Path) -> None:
    """One sentence per line, blank lines skipped; a missing or wrongly encoded file is a clear DataError."""
    path = tmp_path / "mine.txt"
    path.write_text(
        "\ufeffEl jardinero riega las flores.\n\n  Mi vecino toca la guitarra.  \n", encoding="utf-8"
    )
    assert read_sentences(path) == ["El jardinero riega las flores.", "Mi vecino toca la guitarra."]
    written = write_homophones(tmp_path / "out", "es", n=2, seed=1, sentences=path)
    assert len(written.read_text(encoding="utf-8").splitlines()) == 3
    with pytest.raises(DataError, match=r"missing\.txt"):
        read_sentences(tmp_path / "missing.txt")
    path.write_bytes("año\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_sentences(path)
