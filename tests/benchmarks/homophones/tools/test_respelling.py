"""Generated English and Spanish items pass the built-in items' checks, in files of the published format."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.reading import spelling_distance
from pytest_llmprops.benchmarks.homophones.tools.english_reader import espeak_phonemes
from pytest_llmprops.benchmarks.homophones.tools.generation import COLUMNS, generate, write_homophones
from pytest_llmprops.benchmarks.homophones.tools.phonetics import THRESHOLDS, sound_distance
from pytest_llmprops.benchmarks.homophones.tools.respelling import (
    MINIMUM_SPELLING_DISTANCE,
    builtin_words,
    english,
    generate_items,
    replaceable_words,
    respell,
    restore,
    spanish,
    words_of,
)
from pytest_llmprops.benchmarks.homophones.tools.sentences import (
    Source,
    builtin_pairs,
    builtin_rows,
    own_sources,
    read_sentences,
)
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.pronunciation import is_word, load_cmudict
from tests.support.programs import ESPEAK

ANSWER = {"en": "answer", "es": "answer_spanish"}
OWN = {
    "en": [
        Source("Bees make honey.", "honey"),
        Source("A pilot landed the airplane safely."),
        Source("Stop at the station.", "station"),
    ],
    "es": [
        Source("La vaca come hierba.", "hierba", "grass"),
        Source("El piloto aterriza el avión."),
        Source("Mi vecino toca el tambor."),
    ],
}
languages = pytest.mark.parametrize("lang", ["en", "es"])


def occurrences(word: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


@pytest.fixture
def no_espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide espeak-ng, so that a test has the same items on every machine."""
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("lang", ["en", "es"])
def test_generated_items_pass_the_checks_of_the_builtin_ones(lang: str, no_espeak: None) -> None:
    """Generated items have the published columns, the word once, the answer never, and no duplicates.

    Words sound like their answers and look different. None is a word of its language. No pair and no sentence
    is a built-in one, and every Spanish item has an English answer that its sentence does not contain.
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
        english_answers = row.get("answer_english", "freighter").split("/")
        assert all(t and t.casefold() not in row["sentence"].casefold() for t in english_answers), row
    measure = sound_distance(lang, load_cmudict() if lang == "en" else None)
    pairs = list(zip(words, answers, strict=True))
    assert [pair for pair in pairs if measure(*pair).distance > THRESHOLDS[lang]] == []
    distances = [spelling_distance(*pair) for pair in pairs]
    assert min(distances) >= MINIMUM_SPELLING_DISTANCE
    # English respellings that readers read correctly average 0.38, the published ones 0.43.
    assert statistics.fmean(distances) >= (0.36 if lang == "en" else 0.4)
    assert [word for word in words if is_word(word, lang)] == []
    assert lang != "en" or not set(words) & load_cmudict().keys()
    assert not set(pairs) & builtin_pairs(lang)
    restored = {restore(row["sentence"], row["word"], row[ANSWER[lang]]) for row in rows}
    assert not restored & {
        restore(row["sentence"], row["word"], row[ANSWER[lang]]) for row in builtin_rows(lang)
    }


@ESPEAK.needed
def test_speech_synthesizer_agrees_with_the_dictionary_reader() -> None:
    """Of the words generated without espeak-ng, it pronounces three in five like their answers; with it, all.

    A reader who knows nothing about sounds finds no such words: espeak-ng is independent of the spelling table.
    """
    for use, least in (("alone", 0.6), ("espeak", 1.0)):
        items = generate_items(own_sources("en"), english(use), n=60, seed=1)
        words = espeak_phonemes([item.word for item in items])
        answers = espeak_phonemes([item.answer for item in items])
        same = sum(word == answer for word, answer in zip(words, answers, strict=True))
        print(f"espeak-ng pronounces {same} of 60 like the answer ({use})")
        assert same / 60 >= least


@languages
def test_each_sentence_is_used_before_any_is_used_twice(lang: str, no_espeak: None) -> None:
    """Three items from three sentences use each once, with its own answer; others use other words."""

    def made(n: int) -> dict[str, str]:
        rows = generate(lang, n=n, seed=2, sources=OWN[lang])
        return {row[ANSWER[lang]]: restore(row["sentence"], row["word"], row[ANSWER[lang]]) for row in rows}

    assert sorted(made(3).values()) == sorted(source.text for source in OWN[lang])
    assert {source.answer for source in OWN[lang] if source.answer} <= made(3).keys()
    assert list(made(4))[:3] == list(made(3))


def test_answers_of_sentences_come_first(no_espeak: None) -> None:
    """If the answer of a sentence cannot be respelled, its other words wait until all answers were tried."""
    sources = [Source("El mono come queso.", "mono", "monkey"), OWN["es"][0]]
    for seed in range(6):
        rows = generate("es", n=2, seed=seed, sources=sources)
        answers = [row["answer_spanish"] for row in rows]
        assert answers[0] == "hierba"
        assert answers[1] in ("queso", "vaca")


PINNED = {
    "en": [("hunny", "honey"), ("pilitt", "pilot")],
    "es": [("bessyno", "vecino"), ("llerva", "hierba")],
}


def test_generated_rows_are_pinned(no_espeak: None) -> None:
    """A seed gives the same items in every process and on every machine."""
    spanish_rows = generate("es", n=2, seed=7, sources=OWN["es"])
    english_rows = generate("en", n=2, seed=7, sources=OWN["en"])
    assert [(row["word"], row["answer_spanish"]) for row in spanish_rows] == PINNED["es"]
    assert [(row["word"], row["answer"]) for row in english_rows] == PINNED["en"]


@languages
def test_too_few_sentences(lang: str, no_espeak: None) -> None:
    """If the sentences do not yield n items, a ValueError says how many they yield."""
    with pytest.raises(ValueError, match=r"only \d+ of 500 homophone items .* from 3 sentences"):
        generate(lang, n=500, seed=1, sources=OWN[lang])
    with pytest.raises(ValueError, match="only 0 of 1"):
        generate(lang, n=1, seed=1, sources=[Source("...")])


def test_bad_arguments() -> None:
    """An unknown language or a number below 1 is a one-line error that names it."""
    with pytest.raises(UsageError, match=r"'fr'.*en, es, zh"):
        generate("fr", n=1, seed=1)
    with pytest.raises(UsageError, match="cannot generate 0 items"):
        generate("es", n=0, seed=1)


def test_replaceable_words() -> None:
    """Names, function words, short or repeated words, words inside others, heteronyms and words with a homophone in
    the dictionary (*flowers*, *brake*) are not replaced.
    """
    sentence = (
        "Anna should read about the heart of a cat, a heartbeat, a spoon and another spoon by the window, "
        "with flowers and a brake"
    )
    assert replaceable_words(sentence, english("alone")) == ["heartbeat", "window"]
    assert replaceable_words("Ana vive desde ayer en una casa blanca", spanish()) == [
        "vive",
        "ayer",
        "casa",
        "blanca",
    ]


def test_english_respellings_are_read_as_their_answers() -> None:
    """The likelihood is 0 where another word is read, where the stress moves, and where a reading is only possible.

    The letter-to-sound rules alone accept all of them.
    """
    likelihood = english("alone").likelihood
    for spelling, answer in (
        ("lintch", "lunch"),
        ("phool", "full"),
        ("hinneard", "hundred"),
        ("bikutt", "bucket"),
        ("timmarow", "tomorrow"),
        ("sidder", "cider"),
        ("piecock", "peacock"),
        ("axiddint", "accident"),
    ):
        assert likelihood(spelling, answer) == 0, spelling
    for spelling, answer in (("hunnie", "honey"), ("stayshun", "station")):
        assert likelihood(spelling, answer) >= 0.5, spelling


def test_respelling_never_contains_the_answer() -> None:
    """No respelling contains the answer, because repeating it would count as correct; nor is an excluded one chosen."""
    first = respell("caballo", spanish(), rng=generator(1))
    assert first is not None
    second = respell("caballo", spanish(), rng=generator(1), avoid={first.word})
    assert second is not None
    assert second.word != first.word
    respelled: set[str] = set()
    for seed in range(20):
        while respelling := respell("oso", spanish(), rng=generator(seed), avoid=respelled):
            respelled.add(respelling.word)
    assert "ozo" in respelled
    assert sorted(word for word in respelled if "oso" in word) == []
    # A Spanish respelling keeps the accented vowel, so that the stress does not move.
    accented = [respell("música", spanish(), rng=generator(seed)) for seed in range(20)]
    assert all(respelled is not None and "ú" in respelled.word for respelled in accented)


def test_spanish_respellings_have_no_double_y() -> None:
    """Nobody can tell which *y* of *ladryyo* (ladrillo) is the vowel: it is unlikely, and *ladriyo* is chosen."""
    assert spanish().likelihood("ladryyo", "ladrillo") == 0
    assert spanish().likelihood("ladriyo", "ladrillo") > 0
    words = {made.word for seed in range(9) if (made := respell("ladrillo", spanish(), rng=generator(seed)))}
    assert words == {"ladriyo"}


def test_spanish_respellings_are_no_words() -> None:
    """*Meza* (mesa) and *yanto* (llanto) are forms of rare verbs; *bessyno* is not a word."""
    made = {respell(answer, spanish(), rng=generator(5)) for answer in ("mesa", "llanto", "humo")}
    assert {one.word for one in made if one} == {"umo"}
    assert is_word("hallas", "es")
    assert not is_word("bessyno", "es")


def test_restore() -> None:
    """The answer replaces the word as a whole word in any case; any other number of occurrences than one is
    an error.
    """
    assert restore("The Kat sat.", "kat", "cat") == "The cat sat."
    with pytest.raises(ValueError, match="occurs 0 times"):
        restore("The katalog", "kat", "cat")
    with pytest.raises(ValueError, match="occurs 2 times"):
        restore("kat kat", "kat", "cat")
    assert words_of("Don't stop, well-known año 2024!") == ["Don't", "stop", "well-known", "año"]


def test_known_translations_are_given() -> None:
    """A Spanish answer gets its translation from the source or the package; a word without any is not replaced.

    One that occurs in the sentence is left out, because repeating the sentence would be correct.
    """
    (plane,) = generate("es", n=1, seed=1, sources=[Source("Un avión de PLANE")])
    (boss,) = generate("es", n=1, seed=1, sources=[Source("Un capataz", "capataz", "foreman")])
    (violet,) = generate("es", n=1, seed=1, sources=[Source("El violeta", "violeta", "violet/purple")])
    assert (plane["answer_english"], boss["answer_english"]) == ("airplane", "foreman")
    # Only the answer contains "violet", and the item does not show it.
    assert violet["answer_english"] == "violet/purple"
    for text in ("Un anillo de RING", "Un capataz"):
        with pytest.raises(UsageError, match=r"only 0 of 1 .* its English translation"):
            generate("es", n=1, seed=1, sources=[Source(text)])


def test_built_in_pairs_are_not_new() -> None:
    """A built-in pair is not generated again: with all others excluded, there is none."""
    source = Source("La gallina puso un huevo.", "huevo", "egg")
    words: set[str] = set()
    for _ in range(40):
        taken = {(word, "huevo") for word in words}
        try:
            (made,) = generate_items([source], spanish(), n=1, seed=3, translations={}, taken=taken)
        except UsageError:
            break
        words.add(made.word)
    assert "webo" in words
    assert ("webo", "huevo") in builtin_pairs("es")
    rows = [generate("es", n=1, seed=seed, sources=[source])[0] for seed in range(10)]
    assert {row["word"] for row in rows if row["answer_spanish"] == "huevo"} <= words - {"webo"}


@pytest.mark.parametrize("lang", ["en", "es", "zh"])
def test_sentences_of_the_package(lang: str) -> None:
    """200 or more sentences have their answer once; none has the answer or is the sentence of a built-in item.

    English answers are in the dictionary; others have translations that do not occur in the sentence.
    """
    sources = own_sources(lang)
    assert len(sources) >= 200
    assert (
        len({source.answer for source in sources}) == len({source.text for source in sources}) == len(sources)
    )
    column = {"en": "answer", "es": "answer_spanish", "zh": "answer_chinese"}[lang]
    assert not {source.answer for source in sources} & {row[column] for row in builtin_rows(lang)}
    for source in sources:
        assert source.text.casefold().count(source.answer.casefold()) == 1, source
        assert source.answer == source.answer.lower(), source
        if lang == "en":
            assert source.answer in load_cmudict(), source
            assert not source.english, source
        else:
            rest = source.text.replace(source.answer, "").casefold()
            assert [t for t in source.english.split("/") if not t or t.casefold() in rest] == [], source


def test_function_word_lists_are_lower_case_words() -> None:
    """The lists have single lower-case words, and "a" is in the English and the Spanish one."""
    lists = builtin_words().function
    assert "a" in lists["en"] & lists["es"]
    for words in lists.values():
        assert {word for word in words if not word.isalpha() or word != word.lower()} == set()
    assert builtin_words().is_function_word("There", "en")
    assert not builtin_words().is_function_word("fridge", "en")


def test_files_are_those_of_the_published_sets(tmp_path: Path, no_espeak: None) -> None:
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
            "en": {"file": "testset_english.csv", "seed": 4, "n": 3, "espeak-ng": None},
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
    """A line is a sentence, possibly with answer and translations after tabs; blank lines are skipped."""
    path = tmp_path / "mine.txt"
    path.write_text(
        "\ufeffEl jardinero riega las lechugas.\tlechugas\tlettuces / lettuce\n\n  Mi vecino toca el tambor.  \n",
        encoding="utf-8",
    )
    assert read_sentences(path, "es") == [
        Source("El jardinero riega las lechugas.", "lechugas", "lettuces / lettuce"),
        Source("Mi vecino toca el tambor."),
    ]
    written = write_homophones(tmp_path / "out", "es", n=2, seed=1, sentences=path)
    assert len(written.read_text(encoding="utf-8").splitlines()) == 3
    with pytest.raises(DataError, match=r"missing\.txt"):
        read_sentences(tmp_path / "missing.txt", "es")
    path.write_bytes("año\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_sentences(path, "es")


def test_missing_espeak_is_noted(tmp_path: Path, no_espeak: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Without espeak-ng, English items are others or too few, and one line says so; Spanish ones are the same."""
    (tmp_path / "mine.txt").write_text("Bees make honey.\thoney\n", encoding="utf-8")
    command = ["generate", "homophones", "--n", "1", "--seed", "7", "--out", str(tmp_path / "out"), "--lang"]
    assert main([*command, "en", "--sentences", str(tmp_path / "mine.txt")]) == 0
    [note] = capsys.readouterr().err.splitlines()
    assert note.startswith(
        "llmprops: note: espeak-ng is not installed: these are not the items that it gives"
    )
    assert "apt-get install espeak-ng" in note
    assert main([*command, "en", "--n", "3", "--sentences", str(tmp_path / "mine.txt")]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert "or install espeak-ng" in error
    assert main([*command, "es"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("lang", "text", "message"),
    [
        ("en", "\n \n", "the file is empty"),
        ("en", "Fine.\n\nThe cat sat.\tdog\n", "line 3: the answer 'dog' must occur once in 'The cat sat.'"),
        ("en", "A cat and a cat.\tcat", "line 1: the answer 'cat' must occur once"),
        (
            "es",
            "Un capataz.\tcapataz",
            "line 1: the answer 'capataz' has no English translation; write sentence<TAB>",
        ),
        ("es", "a\tb\tc\td", "line 1: 4 columns"),
        ("zh", "hello world", "line 1: no Chinese character in 'hello world'"),
    ],
)
def test_bad_lines_are_named(lang: str, text: str, message: str, tmp_path: Path) -> None:
    """An error in the user's file names the file, the line and what to write."""
    path = tmp_path / "mine.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises((DataError, UsageError), match=re.escape(message)) as caught:
        read_sentences(path, lang)
    assert str(path) in str(caught.value) or "mine.txt" in str(caught.value)
    assert "\n" not in str(caught.value)
