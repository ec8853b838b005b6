"""Respellings of English and Spanish words: their letters, their sound, and the program that pronounces them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.tools.respelling import (
    LEAST_DISTANCE,
    distance,
    pronounced,
    respellings,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator
from tests.support.programs import ESPEAK

#: a respelling that readers know, and words that sound otherwise or are words
KNOWN = {
    ("en", "fraction"): ("phrakshun", "fracshon fracture"),
    ("en", "kettle"): ("kettel", "cetal ketel"),
    ("es", "vaquero"): ("bakero", "paquero vaquera"),
    ("es", "huevo"): ("webo", "huebos evo"),
}


def made(word: str, lang: str, seed: int = 0) -> list[str]:
    [group] = respellings([word], lang, generator(seed))
    return group


@ESPEAK.needed
@pytest.mark.parametrize(("lang", "word"), KNOWN)
def test_respellings_sound_alike_and_look_different(lang: str, word: str) -> None:
    """Each respelling sounds like the word, differs enough, and does not contain it; the most different come first."""
    group = made(word, lang)
    right, wrong = KNOWN[lang, word]
    assert right in group
    assert not set(wrong.split()) & {*group}
    assert {*pronounced(group, lang)} == set(pronounced([word], lang))
    distances = [distance(one, word) for one in group]
    assert min(distances) >= LEAST_DISTANCE
    assert distances[0] >= max(distances) - 0.1
    assert not [one for one in group if word in one]
    # Of equally different ones, another seed gives others.
    assert group == made(word, lang)
    assert len({made("vacaciones", "es", seed)[0] for seed in range(9)}) > 1


@ESPEAK.needed
def test_respellings_are_no_words() -> None:
    """*Meza* (mesa) and *casar* (cazar) are words; *knight* is not made from *night*, nor *umo* left out."""
    assert "meza" not in made("mesa", "es")
    assert "casar" not in made("cazar", "es")
    assert "knight" not in made("night", "en")
    assert "umo" in made("humo", "es")
    # A ñ is never written ny, which is another sound.
    assert not [one for one in made("cabaña", "es") if "ñ" not in one]


@ESPEAK.needed
def test_words_are_pronounced_one_by_one() -> None:
    """No word changes the sound of the next one, and weak vowels are one sound."""
    assert pronounced([], "en") == []
    words = ["the", "pencil", "a", "pensle"]
    assert pronounced(words, "en") == [sound for word in words for sound in pronounced([word], "en")]
    assert pronounced(["pencil"], "en") == pronounced(["pensle"], "en")
    assert pronounced(["calle"], "es") == pronounced(["caye"], "es")


def test_missing_and_broken_espeak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without espeak-ng, one line says how to install it; a failing or an older one is named, too."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"need the program espeak-ng; install it \(Debian: apt-get install"):
        made("vaca", "es")
    program = tmp_path / "espeak-ng"
    for body, said in (("exit 3", "espeak-ng failed"), ("echo one", "returned 1 lines for 2 words")):
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o700)
        with pytest.raises(DataError, match=said):
            pronounced(["one", "two"], "en")
