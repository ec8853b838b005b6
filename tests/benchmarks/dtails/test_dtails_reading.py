"""Reading a variation from a reply or a translation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.reading import (
    Reading,
    declines,
    fenced,
    is_right,
    read_selection,
    read_translation,
)
from pytest_llmprops.benchmarks.dtails.text import unicode_words

SEE = (("gesien",), ("kyk",), ("sien",))
TELL = (("gesê", "sê"), ("vertel",))


def fence(text: str) -> str:
    return f"Because it is so, ```{text}``` fits."


def translated(text: str, variations: tuple[tuple[str, ...], ...] = SEE) -> Reading:
    return read_translation(text, variations, unicode_words(text))


@pytest.mark.parametrize(
    "variations", [SEE, TELL, (("te",), ("ook",)), (("学生",), ("生徒",)), (("خرما",), ("رطب",))]
)
def test_every_form_is_read_as_itself(variations: tuple[tuple[str, ...], ...]) -> None:
    """Each form inside the fences is read as its own variation, whatever the order of the list."""
    for shown in (variations, variations[::-1]):
        for index, forms in enumerate(shown):
            for form in (*forms, "/".join(forms)):
                reading = read_selection(fence(form), shown)
                assert (reading.index, reading.how, reading.ratio) == (index, "equal", 1.0)


def test_forms_that_contain_each_other() -> None:
    """If both variations are similar to the answer, the equal one wins over the longer one."""
    assert read_selection(fence("sien"), SEE).form == "sien"
    assert read_selection(fence("gesien"), SEE).form == "gesien"


@pytest.mark.parametrize(
    "text",
    ["\nkyk\n", " Answer: kyk", "answer\nkyk", "'Kyk'.", "**kyk**", "kyk (to look)", "the word kyk", "kyke"],
)
def test_untidy_answers(text: str) -> None:
    """The word "answer", quotes, case, an explanation or a typo do not prevent reading the choice."""
    reading = read_selection(fence(text), SEE)
    assert reading.form == "kyk"
    assert reading.index == 1
    assert not reading.problem


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("kyk", "0 fences"),
        ("```kyk", "1 fences"),
        ("```kyk``` or ```sien```", "4 fences"),
        ("", "0 fences"),
        ("``````", "nothing"),
        ("```answer```", "nothing"),
        ("``` ... ```", "nothing"),
        ("```something else```", "none of the variations"),
        ("```beteken```", "none of the variations"),
    ],
)
def test_unreadable_replies(reply: str, says: str) -> None:
    """Anything except two fences with a variation between them is unreadable, and the reading says why."""
    reading = read_selection(reply, (("kyk",), ("sien",), ("te",)))
    assert reading.index is None
    assert reading.leftmost is None
    assert reading.form == ""
    assert says in reading.problem
    assert reading.obeyed == ("variations" in says), "a word that is no variation is an answer all the same"


def test_longest_form_wins_and_leftmost_is_recorded() -> None:
    """Of two forms in the text the longer is the choice, and the leftmost is recorded."""
    reading = read_selection(fence("not kyk but rather gesien"), SEE)
    assert (reading.form, reading.index, reading.leftmost, reading.how) == ("gesien", 0, 1, "within")
    reading = translated("kyk wat ek gesien het")
    assert (reading.form, reading.start, reading.leftmost, reading.how) == ("gesien", 11, 1, "substring")


def test_leftmost_of_equally_long_forms_wins() -> None:
    """Of equally long forms the leftmost in the text wins, whatever the order of the list."""
    for shown in ((("een",), ("twee",), ("drie",)), (("drie",), ("twee",), ("een",))):
        reading = translated("eers drie, dan twee", shown)
        assert reading.form == "drie"
        assert reading.leftmost == reading.index


def test_a_similarity_of_the_threshold_counts() -> None:
    """A similarity of exactly 0.7 (7 of 10 letters kept) is enough, and a smaller one is not."""
    forms = (("abcdefghij",), ("q",))
    assert read_selection(fence("abcdefgxyz"), forms).index == 0
    assert read_selection(fence("abcdefxxyz"), forms).index is None
    assert read_translation("abcdefgxyz", forms, ["abcdefgxyz"]).index == 0
    assert read_translation("abcdefxxyz", forms, ["abcdefxxyz"]).index is None


def test_most_similar_form_wins_if_none_is_equal() -> None:
    """If no form is equal, the form with the highest ratio wins, not the longest."""
    reading = read_selection(fence("sieen"), SEE)
    assert (reading.form, reading.how) == ("sien", "similar")
    assert 0.7 < reading.ratio < 1


def test_variations_that_differ_in_their_unicode_form() -> None:
    """Of two Tamil variations that differ only in Unicode form, the identical one is read."""
    composed, decomposed = "இப்போது", "இப்\u0baa\u0bc7\u0bbeது"
    assert composed != decomposed
    for shown in (((composed,), (decomposed,)), ((decomposed,), (composed,))):
        for index, (form,) in enumerate(shown):
            assert read_selection(fence(form), shown).index == index
            assert translated(f"அது {form} வரும்", shown).index == index


@given(st.text(max_size=60), st.permutations(SEE))
def test_any_reply_can_be_read(reply: str, shown: list[tuple[str, ...]]) -> None:
    """Any reply yields a variation of the list or a reason why it cannot be read."""
    for text in (reply, fence(reply)):
        for reading in (read_selection(text, shown), read_translation(text, shown, unicode_words(text))):
            if reading.index is None:
                assert reading.problem
            else:
                assert reading.form in shown[reading.index]
                assert reading.ratio >= 0.7
                assert reading.start >= 0


def test_exact_form_wins_over_a_similar_word() -> None:
    """An exact form anywhere in the translation, even inside another word, wins over any similar word."""
    assert translated("Ons gesels en bekyk dit").form == "kyk"
    assert translated("Sy het dit gesiene").how == "substring"


def test_translation_by_the_most_similar_word() -> None:
    """Without an exact form the most similar word above 0.7 is used, and the caller supplies the tokens."""
    reading = translated("Hy vertelt dit", (("gesê", "sê"), ("vertal",)))
    assert (reading.form, reading.how) == ("vertal", "word")
    assert reading.start == 3
    assert read_translation("Hy vertelt dit", (("vertal",), ("sê",)), []).index is None
    assert read_translation("zz", SEE, ["zz", "siien"]).form == "sien", (
        "a lemma that is not in the text counts"
    )
    assert translated("niks hiervan nie").index is None
    assert translated(" ").problem == "the translation is empty"


def test_one_shared_form_is_enough() -> None:
    """One form in common with the label is enough, after folding."""
    assert is_right(("gesê", "sê"), ("SÊ",))
    assert is_right(("SÊ",), ("sê",))
    assert not is_right(("gesê",), ("sê",))
    assert not is_right((), ("sê",))


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with that request.",
        "I cannot translate this sentence.",
        "As an AI language model, I am unable to choose.",
        "I must decline.",
    ],
)
def test_refusals(reply: str) -> None:
    """A reply that declines is read as a refusal, unless it contains a fence."""
    assert declines(reply)
    assert not declines(fence("kyk") + reply)


@pytest.mark.parametrize("reply", ["The best translation is kyk.", "", "One cannot see it, so kyk fits."])
def test_no_refusal(reply: str) -> None:
    """A reply that only omits the fences is not a refusal."""
    assert not declines(reply)


def test_fenced_removes_the_word_answer_only() -> None:
    """The word "answer" is removed, and the same letters inside other words stay."""
    assert fenced("``` Answer kyk ```") == "kyk"
    assert fenced("```answering```") == "answering"
