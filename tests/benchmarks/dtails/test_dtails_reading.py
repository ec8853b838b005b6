"""Reading a variation from a reply or a translation: similar, inflected and misspelled forms, notes and refusals."""

from __future__ import annotations

import pytest

from fixtures.replies import dtails_replies
from pytest_llmprops.benchmarks.dtails.items import expert_rows, languages, words
from pytest_llmprops.benchmarks.dtails.prompts import Variations
from pytest_llmprops.benchmarks.dtails.reading import (
    Reading,
    declines,
    paper_selection,
    paper_translation,
    read_selection,
    read_translation,
)
from pytest_llmprops.benchmarks.dtails.text import inflected
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.data.files import DataFolder, builtin_data


def test_inflected_forms() -> None:
    """A verb is found with another ending, and a Tamil or Telugu word with a suffix, at its beginning."""
    for form, text, start in (
        ("破る", "沈黙を破りました", 3), ("破る", "看破した", -1), ("壊れる", "壊れない", 0),
        ("かける", "眼鏡をかけない", 3), ("かける", "出かけた", -1), ("நகரம்", "பெரிய நகரங்களுக்கு", 6),
        ("தரவு", "உத்தரவின்", -1), ("సమయం", "ఆ సమయాన్ని", 2), ("தீ", "தண்ணீர்", -1),
        ("խաղալ", "երեխաները խաղում են", 10), ("խաղալ", "խաղալիք", -1), ("sien", "siener", -1),
    ):  # fmt: skip
        assert inflected(form, text) == start, form


SEE = (("gesien",), ("kyk",), ("sien",))
TELL = (("gesê", "sê"), ("vertel",))
KNOW = (("weet",), ("ken",))
THREE = (("kyk",), ("sien",), ("te",))


def fence(text: str) -> str:
    return f"Because it is so, ```{text}``` fits."


def selected(answer: str, variations: Variations) -> int | None:
    return read_selection(fence(answer), variations).index


def translated(text: str, variations: Variations = SEE) -> Reading:
    return read_translation(text, variations, unicode_words(text))


def chosen(text: str, variations: Variations) -> int | None:
    return translated(text, variations).index


def test_every_form_is_read_as_itself() -> None:
    """Each form inside the fences and in a translation is read as its own variation, in any order of the list.

    Two Tamil variations differ only in Unicode form.
    """
    for variations in (SEE, TELL, (("خرما",), ("رطب",)), (("இப்போது",), ("இப்\u0baa\u0bc7\u0bbeது",))):
        for shown in (variations, variations[::-1]):
            for index, forms in enumerate(shown):
                for form in (*forms, "/".join(forms)):
                    reading = read_selection(fence(form), shown)
                    assert (reading.index, reading.how, reading.ratio) == (index, "equal", 1.0)
                    assert chosen(f"அது {form} வரும்", shown) == index


def test_an_answer_without_two_fences() -> None:
    """The answer that a reply states counts, or the only variation in its fences. The plain rule asks again."""
    for reply in (
        "```kyk", "```kyk``` because ```kyk``` is to look", "See: ```te```. No, so the answer is: ```kyk```",
        "It means to look.\n\n**Final answer:** kyk", "The best translation of it is `kyk`.",
        "```sien``` is to see and ```kyk``` to look, so the correct word is kyk.",
        "Answer: ```kyk```. Note: ```te``` means too.",
    ):  # fmt: skip
        reading = read_selection(reply, THREE)
        assert (reading.index, reading.obeyed) == (0, True), reply
        assert not paper_selection(reply, THREE).obeyed


def test_unreadable_replies() -> None:
    """Anything except two fences with a variation between them is unreadable, and the reading says why.

    A word that is not a variation follows the template all the same.
    """
    for reply, says, obeyed in (
        ("I would have to kyk", "0 fences", False), ("```kyk or sien```", "several, variations", True),
        ("``````", "nothing", False), ("```answer```", "nothing", False),
        ("```something else```", "none of the variations", True),
    ):  # fmt: skip
        reading = read_selection(reply, THREE)
        assert (reading.index, reading.obeyed) == (None, obeyed), reply
        assert says in reading.problem


def test_a_similarity_of_the_threshold_counts() -> None:
    """A similarity of exactly 0.7 (7 of 10 letters kept) is enough, and a smaller one is not."""
    forms = (("abcdefghij",), ("q",))
    assert paper_selection(fence("abcdefgxyz"), forms).index == 0
    assert paper_selection(fence("abcdefxxyz"), forms).index is None
    assert read_translation("abcdefgxyz", forms, ["abcdefgxyz"]).index == 0
    assert read_translation("abcdefxxyz", forms, ["abcdefxxyz"]).index is None


def test_translation_by_the_most_similar_word() -> None:
    """An exact form, also inside a word, wins over the most similar word above 0.7; the caller supplies the tokens."""
    assert translated("Ons gesels en bekyk dit").form == "kyk"
    assert translated("Sy het dit gesiene").how == "substring"
    reading = translated("Hy vertelt dit", (("gesê", "sê"), ("vertal",)))
    assert (reading.form, reading.how) == ("vertal", "word")
    assert read_translation("Hy vertelt dit", (("vertal",), ("sê",)), []).index is None
    # A lemma that is not in the text counts.
    assert read_translation("zz", SEE, ["zz", "siien"]).form == "sien"
    assert translated("niks hiervan nie").index is None
    assert translated(" ").problem == "the translation is empty"


def test_refusals() -> None:
    """A reply that declines is read as a refusal, unless it contains a fence or only omits the fences.

    A remark after a translation and an English sentence that says "I can't" are not refusals.
    """
    for reply in (
        "I'm sorry, but I can't help with that request.", "I cannot translate this sentence.", "I must decline.",
        "As an AI language model, I am unable to choose.",
    ):  # fmt: skip
        assert declines(reply)
        assert not declines(fence("kyk") + reply)
    assert not declines("One cannot see it, so kyk fits.")
    sentence = "I can't help him."
    assert declines("I can't help with that.", KNOW, "He waits.")
    assert not declines("Hy wag. I can't translate it literally.", KNOW, "He waits.")
    assert not declines(sentence, KNOW, sentence)


def test_an_inflected_form_counts_like_a_lemma() -> None:
    """An inflected form decides only with the words of the translation, and after a lemma that equals a form."""
    forms, text = (("வருடம்",), ("ஆண்டு",)), "சில வருடங்களாக"
    assert read_translation(text, forms, ()).index is None
    assert read_translation(text, forms, ["சில"]).how == "inflected"
    assert read_translation(text, forms, ["ஆண்டு"]).form == "ஆண்டு"


@pytest.mark.parametrize(
    ("variations", "translations"),
    [
        # Very short forms count as a word or before a short ending.
        ((("iet",), ("doties", "dodas")), {"Vietas un lietas iedodas viegli.": 1, "Viņa iet uz vietu.": 0,
                                           "Vieta ir liela, ietver un ietekmē.": None}),
        ((("āda",), ("miza",)), {"Ādai vajag krēmu.": 0}), ((("km",), ("マイル",)), {"時速800kmで": 0}),
        # A whole word, or in Tamil a stem, comes before a part of a word and an inflected form.
        ((("al",), ("reeds",)), {"Ek het al vertel wat Pa alreeds weet": 0}),
        ((("அனைத்து",), ("எல்லாம்",)), {"அனைத்தும் வேண்டும், எல்லாம்": 0}),
        ((("எத்தனை",), ("பல",)), {"பலருக்கு": 1, "பலாப்பழம்": None}),
        ((("வருடம்",), ("ஆண்டு",)), {"சில வருடங்களாக": 0, "சில வருடங்களாக ஆண்டு": 1}),
        # Joiners and marks of the direction do not count.
        ((("مهم\u200cترین",), ("بیشتر",)), {"\u202bاین مهمترین است\u202c": 0}),
        # The Japanese word for siblings has both characters, and says nothing about the age.
        ((("兄", "お兄さん"), ("弟",)), {"私の兄弟は学生です。": None, "私の兄弟は学生で、兄は医者です。": 0}),
        # A similar word with another letter is another word; a compound has its parts.
        ((("weet",), ("laat",)), {"Dit is wees.": None, "Dit is weett.": 0, "Dit is gelaat.": 1}),
        ((("huis",), ("hamers",)), {"Dit is boomhuis.": 0, "Dit is kamers.": None}),
    ],
)  # fmt: skip
def test_forms_in_a_translation(variations: Variations, translations: dict[str, int | None]) -> None:
    """Words, stems, inflected forms and parts of words are read as their variations, and look-alikes are not."""
    assert {text: chosen(text, variations) for text in translations} == translations


def test_labelled_replies() -> None:
    """At least 98% of the labelled answers are read as their labels, though they were written to mislead."""
    files = DataFolder(builtin_data(), "builtin")
    entries = {(code, entry.concept): entry for code in languages(files) for entry in words(files, code)}
    rows, wrong = dtails_replies(), []
    for row in rows:
        forms = [variation.forms for variation in entries[row["language"], row["concept"]].variations]
        index = selected(row["answer"], forms)
        if row["selects"] not in (("-",) if index is None else forms[index]):
            wrong.append(row)
    assert len(wrong) <= 0.02 * len(rows), wrong


@pytest.mark.parametrize("source", ["builtin", "published"])
def test_labels_with_all_others_rejected_or_listed(request: pytest.FixtureRequest, source: str) -> None:
    """In every row, the label is read if the others are rejected, and a list of all is never read."""
    root = builtin_data() if source == "builtin" else request.getfixturevalue("published")
    files = DataFolder(root, source)
    rows = [row for language in languages(files) for row in expert_rows(files, language)]
    for row in {(row.variations, row.label): row for row in rows}.values():
        forms = [variation.forms for variation in row.variations]
        for names in (["/".join(f) for f in forms], [f[0] for f in forms], [f[-1] for f in forms]):
            label, others = names[row.label], [name for n, name in enumerate(names) if n != row.label]
            for answer in (
                f"{label} (not {', '.join(others)})",
                f"{label} (not {' or '.join(others)})",
                f"{label}, not {', not '.join(others)}",
                f"{label} rather than {' or '.join(others)}",
                f"not {' or '.join(others)} but {label}",
                f"{label}. {' '.join(f'{other} is wrong.' for other in others)}",
                f"{label} (not the others)",
            ):
                assert selected(answer, forms) == row.label, answer
            lists = [mark.join(names) for mark in (", ", " or ", " and ", "/", " / ", "; ", "\n", " ")]
            for answer in (*lists, str(list(names)), f"not {label}"):
                assert selected(answer, forms) is None, answer


def test_spelling_variants() -> None:
    """A word in another spelling is its form, alone and with the other one rejected."""
    for written, form in (
        ("دايي", "دایی"), ("می دانم", "می\u200cدانم"), ("می\\u200cدانم", "می\u200cدانم"), ("ｺｰﾄ", "コート"),
        ("こうと", "コウト"), ("लडका", "लड़का"), ("zinat", "zināt"), ("se\u0302", "sê"), ("**「நம்மை」**", "நம்மை"),
    ):  # fmt: skip
        forms = ((form,), ("xyz",))
        assert selected(written, forms) == 0, written
        assert selected(f"xyz (not {written})", forms) == 1, written


def test_errors_and_inflections() -> None:
    """A form with a typing error, a prefix or an ending is read; a similar word of the language is not."""
    for answer, form, index in (
        ("week", "weet", None), ("wet", "weet", None), ("keen", "ken", None), ("kader", "vader", None),
        ("kyke", "kyk", 0), ("gesein", "gesien", 0), ("orela", "orella", 0), ("sanamel", "semanel", None),
        ("御菓子", "お菓子", 0), ("neiet", "iet", 0), ("gekyk", "kyk", 0), ("neko", "ko", None),
        ("չխաղաց", "խաղաց", 0), ("نمی‌روم", "می‌روم", 0), ("読まない", "読む", 0), ("மரங்கள்", "மரம்", 0),
        ("అమ్మాయిలకి", "అమ్మాయి", 0),
    ):  # fmt: skip
        assert selected(answer, ((form,), ("zzz",))) == index, answer


@pytest.mark.parametrize(
    ("variations", "answers"),
    [
        pytest.param(
            SEE,
            dict.fromkeys(("answer\nkyk", "'Kyk'.", "**kyk**", "kyk (to look)", "the word kyk", "kyke"), 1),
            id="untidy answers",
        ),
        pytest.param((("te",), ("té",)), {"té": 1, "not te but té": 1, "tè": None}, id="spelled alike"),
        pytest.param((("te", "ook"), ("te", "nog")), {"te": 0}, id="a shared form is the first variation"),
        pytest.param(
            (("nie",), ("nooit",)),
            {"nie": 0, "nooit nie": None, "nooit (not nie)": 1},
            id="a variation is not a word of rejection",
        ),
        pytest.param(KNOW, {"\ue000 or \uf8ff ken": 1}, id="characters that stand for names"),
    ],
)
def test_names_of_variations(variations: Variations, answers: dict[str, int | None]) -> None:
    """Spelling decides between variations that are spelled alike, and a variation is always a name."""
    assert {answer: selected(answer, variations) for answer in answers} == answers


ENGLISH = "The farmer will pick the apples when it is dry."
AFRIKAANS = "Die boer sal die appels pluk wanneer dit droog is."


@pytest.mark.parametrize(
    "reply",
    [
        "**Vertaling:** {t}", "English: {s}\nAfrikaans: {t}", "{s} → {t}", "{s} {t}", "Sure!\n\n{t}",
        "Certainly, the text is:\n```afrikaans\n{t}\n```", '{{"source": "{s}", "translation": "{t}"}}',
        '{t}\n\nNote: "toe" would also be possible.', "{t} Let wel: toe kan ook.", "{t} (toe is for the past)",
        "{t} (Of: toe)", "{t}\n\nOf:\nToe dit droog is.", "{t}\nToe dit droog was.",
        "{t} I used this word because toe is for the past.", "1. {t}\n2. Toe dit droog was.",
        "Toe dit droog was, het hy gewag.\n\nCorrected: {t}",
        "> {t}", "Note: toe is for the past.\n\n{t}", "~~toe~~ {t}", "Nota: toe.\n{t}",
        "| English | Afrikaans |\n|---|---|\n| {s} | {t} |", "({t})",
    ],
)  # fmt: skip
def test_the_translation_in_a_reply(reply: str) -> None:
    """A heading, the English sentence, a note and another translation are not read."""
    text = reply.format(s=ENGLISH, t=AFRIKAANS)
    for forms in ((("wanneer",), ("toe",)), (("toe",), ("wanneer",)), (("wanneer",), ("toe",), ("pick",))):
        reading = read_translation(text, forms, unicode_words(text), source=ENGLISH)
        assert reading.form == "wanneer"


def test_parts_that_belong_to_the_translation() -> None:
    """Brackets and foreign names inside a translation stay, and it has as many lines as the English has sentences."""
    for reply, source, form in (
        ("நான் (இன்று) London வா", "I come to London.", "வா"),
        ("Hy kom.\nSy bly toe.\nHulle gaan wanneer.", "He comes. She stays.", "toe"),
        ("Hy kom. Sy bly toe.", "He comes. She stays.", "toe"),
        ("Die boer sal wag\ntoe would also be possible", ENGLISH, ""),
    ):
        forms = (("வா",), ("wanneer",), ("toe",))
        assert read_translation(reply, forms, (), source=source).form == form, reply


def test_english_and_notes_are_no_translation() -> None:
    """English has no variation, also if a form of one is an English word, nor has a note, also for a similar word."""
    forms = (("toe",), ("pick",), ("dry",), ("wanneer",))
    for text in (
        ENGLISH, f"Translation: {ENGLISH}", "I would say that it is dry, and that is toe.", "(toe)",
        "Dit is droog.\n\nNota: wanneer kan ook.", "Dit is droog.\n\nNote: wanner is possible.",
    ):  # fmt: skip
        reading = read_translation(text, forms, unicode_words(text), source=ENGLISH)
        assert (reading.index is None) == (text != "(toe)"), text


def test_one_of_several_variations() -> None:
    """Of whole words, the one at the concept's place counts, then the most frequent, then the first."""
    for text, source, concept, form in (
        ("al by die huis reeds", "at the house already", "already", "reeds"),
        ("reeds by die huis al al", "already at home, already there", "already", "al"),
        ("al by die huis reeds", "at the house", "already", "al"),
        # The place of an inflected concept.
        ("al by die huis nou reeds", "at the house he already comes", "come", "reeds"),
        ("reeds by die huis al", "", "", "reeds"),
    ):
        reading = read_translation(text, (("al",), ("reeds",)), (), source=source, concept=concept)
        assert reading.form == form, (text, source)


def test_the_plain_rule_for_choices() -> None:
    """The authors' rule compares the whole answer, in its own case, and prefers the first of equal variations."""
    for reply, index, obeyed in (
        ("```kyk```", 1, True), ("``` kyk/zzz ```", 1, True), ("```answer kyk```", 1, True), ("```KYK```", None, True),
        ("```kyk (not sien)```", None, True), ("``````", None, True), ("```answer```", None, False),
        ("kyk", None, False), ("```sien/kyk```", 1, True), ("```gsien```", 0, True),
    ):  # fmt: skip
        reading = paper_selection(reply, SEE)
        assert (reading.index, reading.obeyed) == (index, obeyed), reply
    assert (paper_selection("```kyk```", SEE).how, paper_selection("```gsien```", SEE).how) == (
        "equal",
        "similar",
    )


def test_the_plain_rule_for_translations() -> None:
    """The authors' rule takes the first form of the list anywhere in the reply, then the most similar word."""
    for text, index in (
        ("Hy het sien en kyk.", 1), ("GESIEN", 0), ("Note: sien", 2), ("bekyks", 1), ("kyyk", 1), ("niks", None),
        (" ", None),
    ):  # fmt: skip
        assert paper_translation(text, SEE, unicode_words(text)).index == index, text
