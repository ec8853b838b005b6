"""The dictionary reader and espeak-ng: how people are likely to read a made-up English spelling."""

from __future__ import annotations

import subprocess

import pytest

from pytest_llmprops.benchmarks.homophones.tools.english_reader import (
    DictionaryReader,
    broad_ipa,
    broad_phones,
    espeak_phonemes,
    espeak_version,
    load_reader,
    sounds_like,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.pronunciation import is_word, load_cmudict
from tests.support.programs import ESPEAK

TOY = [
    ("cat", ("K", "AE1", "T")), ("cats", ("K", "AE1", "T", "S")), ("tack", ("T", "AE1", "K")),
    ("sick", ("S", "IH1", "K")), ("kit", ("K", "IH1", "T")), ("cast", ("K", "AE1", "S", "T")),
    ("tax", ("T", "AE1", "K", "S")), ("axis", ("AE1", "K", "S", "IH0", "S")), ("it", ("IH1", "T")),
]  # fmt: skip


def phones(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def test_a_reader_of_nine_words_reads_a_tenth() -> None:
    """Letters are read as in the training words, and the graphemes of a word join to its letters and phones."""
    reader = DictionaryReader(TOY)
    for word, entry in TOY:
        letters, sounds = zip(*reader.graphemes(word, entry), strict=True)
        assert "".join(letters) == word
        assert [sound for chunk in sounds for sound in chunk] == [phone.rstrip("01") for phone in entry]
    readings = reader.readings("sacks")
    assert max(readings, key=readings.__getitem__) == phones("S AE1 K S")
    assert 0 < sum(readings.values()) <= 1.0001
    # Letters that no training word has cannot be read.
    assert reader.readings("zoo") == {}


def test_unlikely_readings_are_excluded_early() -> None:
    """A spelling may be read as a word up to its probability; AO that is not before R is AA there, too."""
    reader = DictionaryReader([*TOY, ("or", phones("AO1 R"))])
    for spelling, target in (("sacks", phones("S AE1 K S")), ("ot", phones("AA1 T"))):
        share = reader.readings(spelling)[target]
        assert reader.may_read(spelling, target, share)
        assert not reader.may_read(spelling, target, 1.01 * share)
    assert not reader.may_read("sacks", phones("S AE1 K T"), 1e-3)


def test_reader_reads_words_that_it_was_not_trained_on() -> None:
    """A reader that is trained on a quarter of the words gives more than half of 400 others their phonemes.

    (At 400 words and a true share of 0.65, 0.58 is three standard errors away.)
    """
    known = [(word, entry[0]) for word, entry in load_cmudict().items() if 3 <= len(word) <= 12]
    words = [(word, entry) for word, entry in known if word.isalpha() and is_word(word, "en")]
    reader, right = DictionaryReader(words[::4]), 0
    for word, entry in generator("held-out words").sample(words[1::4], 400):
        readings = reader.readings(word)
        best = max(readings, key=readings.__getitem__, default=())
        right += sounds_like(best, broad_phones(entry))
    print(f"the reader reads {right} of 400 held-out words")
    assert right / 400 >= 0.58
    assert load_reader().graphemes("taxi", phones("T AE1 K S IY0"))[2] == ("x", ("K", "S"))


def test_letters_after_a_new_letter_count() -> None:
    """No word has *sidd*: the *i* of *sidder* is read as before other *dd*, not as in *side*."""
    readings = load_reader().readings("sidder")
    assert max(readings, key=readings.__getitem__) == phones("S IH1 D ER0")


def test_which_differences_count() -> None:
    """Weak vowels are alike, cot is caught, but not before R; a stressed AH is not a weak one; the stress stays."""
    assert broad_phones(phones("K AO2 T")) == phones("K AA1 T")
    assert broad_phones(phones("K AO1 R")) == phones("K AO1 R")
    kitchen = phones("K IH1 CH AH0 N")
    assert sounds_like(phones("K IH1 CH IH0 N"), kitchen)
    assert sounds_like(phones("K IH1 CH AH1 N"), kitchen)
    assert not sounds_like(phones("K IY1 CH AH0 N"), kitchen)
    assert not sounds_like(phones("K IH1 CH N"), kitchen)
    assert not sounds_like(phones("B IH0 K AH0 T"), phones("B AH1 K AH0 T"))
    tomorrow = phones("T AH0 M AA1 R OW0")
    assert sounds_like(phones("T IH0 M AA1 R OW1"), tomorrow)
    assert not sounds_like(phones("T IH1 M AA1 R OW1"), tomorrow)
    assert not sounds_like(phones("T AH0 M AA0 R OW1"), tomorrow)
    assert broad_ipa("kˈɪtʃɪn") == broad_ipa("kˈɪtʃən") == "kˈɪtʃən"
    assert broad_ipa("stˈeɪʃˌʌn") == broad_ipa("stˈeɪʃən")
    assert broad_ipa("kˈɔːt") == broad_ipa("kˈɑːt") != broad_ipa("kˈɔːɹt")
    assert broad_ipa("mˈɪnɪt") != broad_ipa("mɪnˈɪt")


@ESPEAK.needed
def test_espeak_pronounces_words_in_order() -> None:
    """espeak-ng pronounces homophones alike and other words differently; no words need no call."""
    pair, other, respelling, word = espeak_phonemes(["pear", "pier", "hunnie", "honey"])
    assert espeak_phonemes(["pair"]) == (pair,)
    assert pair != other
    assert respelling == word
    assert espeak_phonemes([]) == ()


def test_missing_and_broken_espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program there is no version; one that fails or returns too few lines is one clear line."""
    monkeypatch.setenv("PATH", "")
    assert espeak_version() is None
    with pytest.raises(DataError, match=r"espeak-ng failed .* repair or remove it"):
        espeak_phonemes(["pear"])

    def silent(*args: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess((), 0, stdout="pˈɛɹ\n")

    monkeypatch.setattr(subprocess, "run", silent)
    with pytest.raises(DataError, match="returned 1 lines for 2 words"):
        espeak_phonemes(["pear", "pier"])
