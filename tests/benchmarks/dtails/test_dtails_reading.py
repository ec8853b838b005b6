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
                found = read_selection(fence(form), shown)
                assert (found.index, found.how, found.ratio) == (index, "equal", 1.0)


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
    found = read_selection(fence(text), SEE)
    assert found.form == "kyk"
    assert found.index == 1
    assert not found.problem


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
def test_no_answer(reply: str, says: str) -> None:
    """Anything except two fences with a variation between them is unreadable, and the reading says why."""
    found = read_selection(reply, (("kyk",), ("sien",), ("te",)))
    assert found.index is None
    assert found.leftmost is None
    assert found.form == ""
    assert says in found.problem
    assert found.obeyed == ("variations" in says), "a word that is no variation is an answer all the same"


def test_longest_form_wins_and_the_leftmost_is_kept() -> None:
    """Of two forms in the text the longer is the choice, and the leftmost is recorded."""
    found = read_selection(fence("not kyk but rather gesien"), SEE)
    assert (found.form, found.index, found.leftmost, found.how) == ("gesien", 0, 1, "within")
    found = translated("kyk wat ek gesien het")
    assert (found.form, found.start, found.leftmost, found.how) == ("gesien", 11, 1, "substring")


def test_of_equally_long_forms_the_leftmost_wins() -> None:
    """Of equally long forms the leftmost in the text wins, whatever the order of the list."""
    for shown in ((("een",), ("twee",), ("drie",)), (("drie",), ("twee",), ("een",))):
        found = translated("eers drie, dan twee", shown)
        assert found.form == "drie"
        assert found.leftmost == found.index


def test_threshold_is_to_be_exceeded() -> None:
    """A similarity of exactly 0.7 (7 of 10 letters kept) is not enough."""
    assert read_selection(fence("abcdefgxyz"), (("abcdefghij",), ("q",))).index is None
    assert read_selection(fence("abcdefghyz"), (("abcdefghij",), ("q",))).index == 0
    assert read_translation("abcdefgxyz", (("abcdefghij",), ("q",)), ["abcdefgxyz"]).index is None


def test_the_most_similar_form_wins_when_none_is_equal() -> None:
    """If no form is equal, the form with the highest ratio wins, not the longest."""
    found = read_selection(fence("sieen"), SEE)
    assert (found.form, found.how) == ("sien", "similar")
    assert 0.7 < found.ratio < 1


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
        for found in (read_selection(text, shown), read_translation(text, shown, unicode_words(text))):
            if found.index is None:
                assert found.problem
            else:
                assert found.form in shown[found.index]
                assert found.ratio > 0.7
                assert found.start >= 0


def test_translation_exact_before_similar() -> None:
    """An exact form anywhere in the translation, even inside another word, wins over any similar word."""
    assert translated("Ons gesels en bekyk dit").form == "kyk"
    assert translated("Sy het dit gesiene").how == "substring"


def test_translation_by_the_most_similar_word() -> None:
    """Without an exact form the most similar word above 0.7 is used, and the caller supplies the tokens."""
    found = translated("Hy vertelt dit", (("gesê", "sê"), ("vertal",)))
    assert (found.form, found.how) == ("vertal", "word")
    assert found.start == 3
    assert read_translation("Hy vertelt dit", (("vertal",), ("sê",)), []).index is None
    assert read_translation("zz", SEE, ["zz", "siien"]).form == "sien", (
        "a lemma that is not in the text counts"
    )
    assert translated("niks hiervan nie").index is None
    assert translated(" ").problem == "the translation is empty"


def test_right_when_a_form_is_shared() -> None:
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
