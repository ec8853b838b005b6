"""Inflected forms in translations, short forms, and lemmas of a parser."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows
from pytest_llmprops.benchmarks.dtails.prompts import Variations
from pytest_llmprops.benchmarks.dtails.reading import read_translation
from pytest_llmprops.benchmarks.dtails.text import inflected, unicode_words
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.dtails_cases import TRANSLATOR, item, verdict_of


def chosen(text: str, variations: Variations) -> int | None:
    return read_translation(text, variations, unicode_words(text)).index


@pytest.mark.parametrize(
    ("form", "text", "start"),
    [
        ("破る", "沈黙を破りました", 3),
        ("破る", "破れた", 0),
        ("破る", "看破した", -1),
        ("壊れる", "壊れない", 0),
        ("読む", "本を読んだ", 2),
        ("読む", "読書", -1),
        ("かける", "かけた", -1),
        ("வருடம்", "ஒன்பது வருடங்களுக்கு", 7),
        ("தரவு", "தரவிலிருந்து", 0),
        ("தரவு", "உத்தரவின்", -1),
        ("సమయం", "ఆ సమయాన్ని", 2),
        ("చెప్పు", "చెప్పాడు", 0),
        ("தீ", "தண்ணீர்", -1),
        ("sien", "siener", -1),
    ],
)
def test_inflected_forms(form: str, text: str, start: int) -> None:
    """A Japanese verb is found with another ending, and a Tamil or Telugu word with a suffix, at its beginning."""
    assert inflected(form, text) == start


def test_an_inflected_form_counts_like_a_lemma() -> None:
    """An inflected form decides only if no form occurs, and only together with the words of the translation."""
    forms = (("வருடம்",), ("ஆண்டு",))
    assert chosen("சில வருடங்களாக", forms) == 0
    assert chosen("சில வருடங்களாக ஆண்டு", forms) == 1
    assert read_translation("சில வருடங்களாக", forms, ()).index is None
    assert read_translation("சில வருடங்களாக", forms, ["சில"]).how == "inflected"
    assert read_translation("சில வருடங்களாக", forms, ["ஆண்டு"]).form == "ஆண்டு", (
        "a lemma that equals a form comes first"
    )


def test_very_short_forms_match_whole_words() -> None:
    """A form of up to three letters counts as a word or before a short ending; a longer form counts inside words."""
    forms = (("iet",), ("doties", "dodas"))
    assert chosen("Vietas un lietas iedodas viegli.", forms) == 1
    assert chosen("Vieta ir liela, ietver un ietekmē.", forms) is None
    assert chosen("Ādai vajag krēmu.", (("āda",), ("miza",))) == 0
    assert chosen("Viņa iet uz vietu.", forms) == 0
    assert chosen("時速800kmで", (("km",), ("マイル",))) == 0


def test_a_whole_word_comes_before_a_part_of_a_word() -> None:
    """A form that is a word wins over a longer form inside a word, and a stem in Tamil is like a word."""
    assert chosen("Ek het al vertel wat Pa alreeds weet", (("al",), ("reeds",))) == 0
    both = (("அனைத்து",), ("எல்லாம்",))
    assert chosen("அனைத்தும் வேண்டும், எல்லாம்", both) == 0
    assert chosen("பலருக்கு", (("எத்தனை",), ("பல",))) == 1
    assert chosen("பலாப்பழம்", (("எத்தனை",), ("பல",))) is None


def test_the_lemmas_of_a_parser_are_compared() -> None:
    """A word whose lemma is a form is read as this form, although the word itself is not similar."""
    subject = item("translate", variations=(("eet",), ("drink",)), label=("drink",))
    words = [["Hy", "hy", "", -1, ""], ["gedronkê", "drink", "", -1, ""]]
    reply = Reply(value={"words": words, "by": "stanza 1.0 af"})
    for helpers, status in (({"parse": lambda request: reply}, "correct"), ({}, "wrong")):
        verdict = verdict_of(subject, lambda r: "Hy gedronkê.", kinds=TRANSLATOR, helpers=helpers)
        assert verdict.status == status


def test_the_reason_names_the_inflected_form() -> None:
    """The verdict on an inflected form is right, and its reason gives the form."""
    subject = item("translate", variations=(("破る",), ("壊す",)), label=("破る",), language="ja")
    verdict = verdict_of(subject, lambda r: "沈黙を破りました", kinds=TRANSLATOR)
    assert (verdict.status, verdict.reason) == ("correct", "translated with 破る (an inflected form of 破る)")


def test_clothes_for_legs_and_feet_are_written_in_three_ways() -> None:
    """The Japanese verb for shoes and trousers is accepted in both kanji and in kana."""
    row = next(r for r in expert_rows(DataFolder(builtin_data(), "builtin"), "ja") if r.id == "wear/04")
    forms = [variation.forms for variation in row.variations]
    for text in ("赤いズボンをはいて仕事に行った。", "赤いズボンを穿いていた。", "赤いズボンを履く。"):
        assert chosen(text, forms) == row.label
