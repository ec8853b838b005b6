"""Word senses from WordNet's texts, on a tiny WordNet made here and on the installed one if available."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
from pytest_llmprops.benchmarks.dtails.tools.mining.occurrences import (
    WordNetSenses,
    find_wordnet,
    word_senses,
)
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError
from tests.support.dtails_wordnet import wordnet


def sense(senses: WordNetSenses, text: str, lemma: str, tag: str = "NOUN") -> str | None:
    words = [
        Word(word, word.rstrip("s"), tag if word.rstrip("s") == lemma else "NOUN") for word in text.split()
    ]
    return senses.sense(words, [word.lemma for word in words].index(lemma))


def test_the_sentence_decides_the_sense(tmp_path: Path) -> None:
    """Wings, flights and vehicles (a hypernym's word) select the aircraft; points and lines the shape."""
    senses = WordNetSenses(wordnet(tmp_path))
    assert sense(senses, "points on a plane make lines", "plane") == "plane.n.02"
    assert sense(senses, "the plane shape and its wings joins points", "plane") == "plane.n.02"
    assert sense(senses, "planes flights", "plane") == "plane.n.01"
    assert sense(senses, "a line of vehicle and vehicles plane craft", "plane") == "plane.n.01"
    senses.close()


def test_ties_go_to_the_most_frequent_sense(tmp_path: Path) -> None:
    """Without a clue, and with one clue for each sense, the sense listed first in WordNet is used."""
    senses = WordNetSenses(wordnet(tmp_path))
    assert sense(senses, "this plane is green", "plane") == "plane.n.01"
    assert sense(senses, "wings shape plane", "plane") == "plane.n.01"
    senses.close()


def test_words_without_a_sense(tmp_path: Path) -> None:
    """A word that is missing from WordNet, or has another part of speech, has no sense."""
    senses = WordNetSenses(wordnet(tmp_path))
    assert sense(senses, "a zyx", "zyx") is None
    assert sense(senses, "a plane", "plane", tag="PROPN") is None
    assert sense(senses, "a plane", "plane", tag="VERB") is None
    assert sense(senses, "a house", "house") == "house.n.01"
    senses.close()


def test_a_folder_that_is_not_wordnet(tmp_path: Path) -> None:
    """A missing file, an index of something else and data of another version are named in one line."""
    with pytest.raises(DataError, match=r"index\.noun: No such file"):
        WordNetSenses(tmp_path)
    wordnet(tmp_path)
    (tmp_path / "data.adv").unlink()
    with pytest.raises(DataError, match=r"data\.adv: No such file"):
        WordNetSenses(tmp_path)
    wordnet(tmp_path)
    (tmp_path / "index.verb").write_text("some text\n", encoding="ascii")
    with pytest.raises(DataError, match=r"index\.verb: not a file of WordNet"):
        WordNetSenses(tmp_path)
    wordnet(tmp_path)
    (tmp_path / "data.noun").write_text("something else " * 100, encoding="ascii")
    senses = WordNetSenses(tmp_path)
    with pytest.raises(DataError, match=r"data\.noun: 'plane' is not where the index says"):
        sense(senses, "wings plane", "plane")
    senses.close()


def test_senses_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--senses`` accepts none, a folder and WordNet's environment variables, and refuses anything else."""
    assert word_senses("none") is None
    chosen = word_senses(f"wordnet:{wordnet(tmp_path)}")
    assert chosen is not None
    assert chosen.folder == tmp_path
    chosen.close()
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    assert find_wordnet() == tmp_path
    with pytest.raises(UsageError, match="use none, wordnet or wordnet:FOLDER"):
        word_senses("ewiser")


def test_wordnet_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without WordNet the default uses no senses, and an explicit request says what to install."""
    monkeypatch.setattr(
        "pytest_llmprops.benchmarks.dtails.tools.mining.occurrences.find_wordnet", lambda: None
    )
    assert word_senses("auto") is None
    with pytest.raises(UsageError, match="wordnet-base"):
        word_senses("wordnet")


def test_nltk_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nltk the default uses no senses, and a given folder names the extra to install."""
    folder = wordnet(tmp_path)
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert word_senses("auto") is None
    with pytest.raises(MissingExtra, match=r"'nltk'.*pytest-llmprops\[align\]"):
        word_senses(f"wordnet:{folder}")


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the plane landed at the airport after a long flight", "plane.n.01"),
        ("a point lies on the plane in geometry", "plane.n.02"),
    ],
)
def test_the_real_wordnet(text: str, expected: str) -> None:
    """In the paper's example, plane has different senses in two sentences."""
    folder = find_wordnet()
    if folder is None:
        pytest.skip("WordNet is not installed (Debian: wordnet-base)")
    senses = WordNetSenses(folder)
    assert sense(senses, text, "plane") == expected
    senses.close()
