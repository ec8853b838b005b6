"""Phoneme distance, letter-to-sound lattices and spelling distance."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.homophones.reading import spelling_distance
from pytest_llmprops.benchmarks.homophones.tools.phonetics import (
    THRESHOLDS,
    _edges,
    closest_reading,
    english_pronunciations,
    indel_cost,
    phoneme_distance,
    sound_distance,
    sound_tables,
    spanish_phonemes,
    substitution_cost,
)
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.pronunciation import load_cmudict

_ARPABET = """
    AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH
"""
ARPABET = _ARPABET.split()
SPANISH = [*"aeioupbtdkgfsxmnɲlʝr", "tʃ", "rr"]

arpabet = st.lists(st.sampled_from(ARPABET), max_size=7)


def test_costs_form_a_bounded_symmetric_table() -> None:
    """Each substitution costs 0 to 1 in both directions, and 0 only for the same phoneme."""
    for inventory in (ARPABET, SPANISH):
        for a in inventory:
            for b in inventory:
                cost = substitution_cost(a, b)
                assert cost == substitution_cost(b, a)
                assert (cost == 0) == (a == b)
                assert 0 <= cost <= 1


@given(arpabet, arpabet)
def test_distance_is_symmetric_and_bounded(a: list[str], b: list[str]) -> None:
    """The distance lies in [0, 1], is the same both ways, and is 0 exactly for equal sequences."""
    distance = phoneme_distance(a, b)
    assert 0 <= distance <= 1
    assert distance == pytest.approx(phoneme_distance(b, a))
    assert (distance == 0) == (a == b)


def test_distance_by_hand() -> None:
    """ "bit" and "bid" differ in one voicing (0.25 in three phonemes); "cat" lacks one phoneme of "cats"."""
    assert phoneme_distance(("B", "IH", "T"), ("B", "IH", "D")) == pytest.approx(0.25 / 3)
    assert phoneme_distance(("K", "AE", "T"), ("K", "AE", "T", "S")) == pytest.approx(1 / 4)
    assert phoneme_distance((), ("AH",)) == indel_cost("AH") == 0.5
    # Three edits in seven letters; case does not count.
    assert spelling_distance("phrydge", "fridge") == pytest.approx(3 / 7)
    assert spelling_distance("Word", "wORD") == 0


NEAR_AND_FAR = (
    "S Z S M", "IY IH IY AA", "P B P L", "AA AO AA IY", "SH ZH SH G", "UW W UW T", "r rr r s", "e i a i",
)  # fmt: skip


def test_similar_phonemes_cost_less() -> None:
    """Voicing pairs, neighbouring vowels and glides cost less than unlike phonemes."""
    for a, b, c, d in map(str.split, NEAR_AND_FAR):
        assert substitution_cost(a, b) < substitution_cost(c, d), (a, b, c, d)


#: respelling -> phonemes as intended, and spelling -> phonemes that no rule may read
RIGHT = {
    "phrydge": "F R IH JH", "gnyphe": "N AY F", "wreighn": "R EY N", "ocksijin": "AA K S IH JH IH N",
    "vizhun": "V IH ZH AH N", "skewl": "S K UW L", "quyer": "K W AY ER",
}  # fmt: skip
WRONG = {"conset": "S AH N S EH T", "gat": "JH AE T", "fone": "F AY N", "psat": "P S T", "bit": "B IH T S"}
#: with seseo and yeísmo, silent h and u, b = v, and a strong initial r
SPANISH_WORDS = {
    "queso": "k e s o", "guerra": "g e rr a", "pingüino": "p i n g u i n o", "zapato": "s a p a t o",
    "cielo": "s i e l o", "llave": "ʝ a b e", "hoy": "o i", "yegua": "ʝ e g u a", "examen": "e k s a m e n",
    "rosa": "rr o s a", "caro": "k a r o", "alrededor": "a l rr e d e d o r", "girafa": "x i r a f a",
    "año": "a ɲ o", "chico": "tʃ i k o", "acción": "a k s i o n",
}  # fmt: skip


def test_spellings_are_read_as_intended() -> None:
    """English rules read respellings at almost no cost, and no letter as an impossible sound; so do Spanish ones."""
    for spelling, phonemes in RIGHT.items():
        reading = closest_reading(spelling, phonemes.split(), "en")
        assert reading.phonemes == tuple(phonemes.split())
        assert reading.distance <= 0.05
    for spelling, phonemes in WRONG.items():
        assert closest_reading(spelling, phonemes.split(), "en").distance > THRESHOLDS["en"], spelling
    assert {word: " ".join(spanish_phonemes(word)) for word in SPANISH_WORDS} == SPANISH_WORDS


@settings(max_examples=50)
@given(
    st.text("aceghnot", min_size=1, max_size=4),
    st.lists(st.sampled_from(["K", "AH", "T", "OW", "SH"]), max_size=4),
)
def test_lattice_finds_the_cheapest_reading(spelling: str, target: list[str]) -> None:
    """The lattice finds the same minimum cost as trying every reading."""
    edges = _edges(spelling, "en")

    def readings(start: int) -> list[tuple[float, tuple[str, ...]]]:
        if start == len(spelling):
            return [(0.0, ())]
        return [
            (cost + later_cost, phonemes + later)
            for end, phonemes, cost in edges[start]
            for later_cost, later in readings(end)
        ]

    def raw(a: tuple[str, ...]) -> float:
        # No substitution costs more than 1, so the clip to 1 has no effect here.
        return phoneme_distance(a, target) * max(len(a), len(target))

    nearest = closest_reading(spelling, target, "en")
    every = readings(0)
    if not every:
        assert nearest.distance == 1
        return
    best = min(cost + raw(phonemes) for cost, phonemes in every)
    longer = max(len(nearest.phonemes), len(target), 1)
    assert nearest.distance == pytest.approx(min(1.0, best / longer))
    assert nearest.phonemes in {phonemes for _, phonemes in every}


@pytest.mark.parametrize(
    ("a", "b"), [("vaca", "baca"), ("hola", "ola"), ("casa", "caza"), ("pollo", "poyo"), ("gente", "jente")]
)
def test_spanish_homophones_have_distance_zero(a: str, b: str) -> None:
    """Words that sound alike in American Spanish have distance 0."""
    assert sound_distance("es")(a, b).distance == 0


def test_real_english_words_are_read_by_the_dictionary() -> None:
    """A word in the dictionary is read as the dictionary says: "hour" is "our", "put" is not "but"."""
    measure = sound_distance("en", load_cmudict())
    assert measure("hour", "our").distance == 0
    assert closest_reading("put", ("B", "AH", "T"), "en").distance < measure("put", "but").distance


def test_missing_pronunciation_is_named() -> None:
    """An answer missing from the dictionary is a KeyError that names it; no dictionary is a ValueError.

    A symbol outside the inventories is named, too; a spelling outside the alphabet has no reading.
    """
    with pytest.raises(ValueError, match="AH0"):
        substitution_cost("AH0", "T")
    for spelling in ("gr8", "水"):
        reading = closest_reading(spelling, ("G", "R", "EY", "T"), "en")
        assert (reading.phonemes, reading.distance) == ((), 1.0)
    with pytest.raises(KeyError, match="phrydge"):
        english_pronunciations("phrydge", load_cmudict())
    with pytest.raises(ValueError, match="pronunciation dictionary"):
        sound_distance("en")
    with pytest.raises(ValueError, match="'fr'"):
        sound_distance("fr")


def test_rules_read_dictionary_words() -> None:
    """The English rules read 95% of 400 held-out dictionary words within the threshold."""
    words = load_cmudict()
    pool = sorted(word for word in words if word.isalpha() and 4 <= len(word) <= 9)
    sample = generator("letter to sound").sample(pool, 400)
    near = [
        word
        for word in sample
        if min(closest_reading(word, p, "en").distance for p in english_pronunciations(word, words))
        <= THRESHOLDS["en"]
    ]
    print(f"rules read {len(near)} of 400 dictionary words")
    assert len(near) / 400 >= 0.95


def test_rules_distinguish_dictionary_words() -> None:
    """The same rules read at most 1% of 2,000 random spellings as another dictionary word."""
    words = load_cmudict()
    pool = sorted(word for word in words if word.isalpha() and 4 <= len(word) <= 9)
    rng = generator("unrelated words")
    confused = 0
    for _ in range(2000):
        spelling, other = rng.sample(pool, 2)
        target = english_pronunciations(other, words)[0]
        confused += closest_reading(spelling, target, "en").distance <= THRESHOLDS["en"]
    assert confused / 2000 <= 0.01


@pytest.mark.parametrize("language", ["english", "spanish"])
def test_rules_are_well_formed(language: str) -> None:
    """Every rule is "regex = readings" with known phonemes and a cost in [0, 0.2]; no regex occurs twice."""
    sound_tables.cache_clear()
    known, lines = {*ARPABET, *SPANISH, "-"}, sound_tables()[f"{language}_rules"]
    for line in lines:
        _, equals, right = line.partition(" = ")
        assert equals, line
        for reading in right.split("|"):
            phonemes, _, cost = reading.partition(":")
            assert set(phonemes.split()) <= known, line
            assert 0 <= float(cost or 0) <= 0.2, line
    patterns = [line.partition(" = ")[0] for line in lines]
    assert sorted({p for p in patterns if patterns.count(p) > 1}) == []
