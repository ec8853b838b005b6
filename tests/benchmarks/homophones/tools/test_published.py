"""New items in three languages, in files of the published format."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.tools.published import (
    EDITIONS,
    Source,
    builtin_pairs,
    columns_of,
    generate,
    own_sources,
    read_sources,
    write_homophones,
)
from pytest_llmprops.benchmarks.homophones.tools.respelling import distance
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from tests.support.programs import ESPEAK

pytestmark = ESPEAK.needed
OWN = [
    Source("La vaca come hierba.", "hierba", "grass"),
    Source("El piloto aterriza el avión.", "avión", "airplane/plane"),
    Source("Mi vecino toca el tambor.", "vecino", "neighbour/neighbor"),
]


@pytest.mark.parametrize("lang", EDITIONS)
def test_items_are_new_and_hide_their_answers(lang: str) -> None:
    """130 or more sentences have their answer once, and give an item each; none is the answer of a built-in item.

    Items have the published columns, the word once, the answer never, and no duplicates; a seed gives the same, and a
    smaller number the first of them. Each but an English one has a translation, which is not in the sentence.
    """
    sources, answers = own_sources(lang), EDITIONS[lang].answers
    by_sentence = {source.sentence: source for source in sources}
    assert 130 <= len(sources) == len(by_sentence) == len({source.answer for source in sources})
    assert not {source.answer for source in sources} & {answer for _, answer in builtin_pairs(lang)}
    for source in sources:
        assert source.sentence.casefold().count(source.answer) == 1, source
        assert bool(source.english) == (lang != "en"), source
    # Another version of espeak-ng may pronounce a few of them otherwise.
    rows = generate(lang, n=int(0.95 * len(sources)), seed=3)
    assert rows[:40] == generate(lang, n=40, seed=3)
    assert rows[:40] != generate(lang, n=40, seed=2)
    assert {tuple(row) for row in rows} == {columns_of(lang)}
    pairs = [(row["word"], row[answers[0]]) for row in rows]
    for column in zip(*pairs, strict=True):
        assert len({*column}) == len(rows)
    for row, (word, answer) in zip(rows, pairs, strict=True):
        sentence = row["sentence"].casefold()
        assert sentence.count(word) == 1
        source = by_sentence[row["sentence"].replace(row["word"], answer)]
        assert source.answer == answer
        assert row.get("answer_english", "") == source.english, "a translation was left out"
        for text in (answer, *filter(None, source.english.split("/"))):
            assert text.casefold() not in sentence, row
    if lang != "zh":
        # The published English words average 0.43.
        assert statistics.fmean(distance(*pair) for pair in pairs) >= 0.35


def test_too_few_sentences() -> None:
    """If the sentences do not yield n items, a ValueError says how many they yield; n must be at least 1.

    Repeating the sentence must not be correct: a translation in it is left out, and without any there is no item.
    A sentence with another copy of its answer gives no item either, nor does a second one with the same answer.
    """
    with pytest.raises(UsageError, match="cannot generate 0 items"):
        generate("es", n=0, seed=0)
    [row] = generate("es", n=1, seed=1, sources=[Source("Un avión de PLANE", "avión", "airplane/plane")])
    assert row["answer_english"] == "airplane"
    cases: list[tuple[str, list[Source]]] = [
        (r"^only 3 of 500 homophone items \(es\) can be generated from 3 sentences", OWN),
        ("only 0 of 500", [Source("Un avión de PLANE", "avión", "plane")]),
        ("only 0 of 500", [Source("El avión y el hidroavión", "avión", "airplane")]),
        ("only 1 of 500", [OWN[0], Source("La hierba crece.", "hierba", "grass")]),
    ]
    for said, sources in cases:
        with pytest.raises(UsageError, match=said):
            generate("es", n=500, seed=1, sources=sources)


def test_files_are_those_of_the_published_sets(tmp_path: Path) -> None:
    """Two languages written to one folder share SOURCE.json and load as a generated data folder.

    A folder with homophone files but without SOURCE.json is an error and stays unchanged.
    """
    files = [
        write_homophones(tmp_path, lang, n=n, seed=seed) for lang, n, seed in (("en", 3, 4), ("es", 2, 9))
    ]
    assert [file.name for file in files] == ["testset_english.csv", "testset_espanol.csv"]
    source = tmp_path / "homophones" / "SOURCE.json"
    assert json.loads(source.read_text(encoding="utf-8")) == {
        "source": "generated",
        "generator": "homophones",
        "version": 1,
        "languages": {
            "en": {"file": "testset_english.csv", "seed": 4, "n": 3},
            "es": {"file": "testset_espanol.csv", "seed": 9, "n": 2},
        },
    }
    folder = DataFolder(tmp_path, "published")
    assert folder.source_for("homophones") == "generated"
    rows = folder.csv("homophones/testset_english.csv", columns_of("en"))
    assert rows == generate("en", n=3, seed=4)
    raw = [file.read_bytes() for file in files]
    assert b"\r" not in raw[0]
    with pytest.raises(UsageError, match="cannot be written"):
        write_homophones(files[0], "es", n=1, seed=1)
    source.unlink()
    with pytest.raises(UsageError, match="not generated"):
        write_homophones(tmp_path, "es", n=1, seed=1)
    assert [file.read_bytes() for file in files] == raw
    assert not source.exists()


def test_user_sentences_from_a_file(tmp_path: Path) -> None:
    """A line has a sentence, its answer and its translations, with tabs between them; blank lines are skipped.

    An error in the file names the file, the line and what to write.
    """
    path = tmp_path / "mine.txt"
    path.write_text(
        "\ufeffEl jardinero riega las flores.\tjardinero\tgardener\n\n  Mi vecino toca el tambor. \tvecino\t neighbour",
        encoding="utf-8",
    )
    assert read_sources(path, "es") == [
        Source("El jardinero riega las flores.", "jardinero", "gardener"),
        Source("Mi vecino toca el tambor.", "vecino", "neighbour"),
    ]
    written = write_homophones(tmp_path / "out", "es", n=1, seed=1, sentences=path)
    assert len(written.read_text(encoding="utf-8").splitlines()) == 2
    for lang, text, said in (
        ("en", "\n \n", "the file is empty"),
        ("en", "A cat.\tcat\n\nThe cat.\tdog\n", "line 3: the answer 'dog' must occur once in 'The cat.'"),
        ("en", "A cat and a cat.\tcat", "line 1: the answer 'cat' must occur once"),
        ("en", "A cat.", "line 1: write sentence<TAB>answer"),
        ("es", "Un capataz.\tcapataz", "line 1: write sentence<TAB>answer<TAB>English translations"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises((DataError, UsageError), match=rf"mine\.txt[^\n]*{said}[^\n]*\Z"):
            read_sources(path, lang)
    with pytest.raises(DataError, match=r"missing\.txt"):
        read_sources(tmp_path / "missing.txt", "es")
