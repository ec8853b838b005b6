"""Corpus tokens joined into running text: the spacing and the span of each token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.redocred import detokenised

#: the expected text; its tokens are written by hand where ``split`` does not give them
CASES = [
    ("He left , and she stayed .", "He left, and she stayed."),
    ("Sales rose 5.2 % to $ 7 million ( US$ 7 ) .", "Sales rose 5.2% to $7 million (US$7)."),
    ("Tyche (; from , Túkhē ) was a goddess .", "Tyche (; from, Túkhē) was a goddess."),
    ("It is part [ she said ] of it : all of it ; yes !", "It is part [she said] of it: all of it; yes!"),
    ("Anna 's dog did n't bite ; we 're glad .", "Anna's dog didn't bite; we're glad."),
    ("The city ’s walls do n’t stand .", "The city’s walls don’t stand."),
    ("a well - known two - and - a - half year plan", "a well-known two-and-a-half year plan"),
    ("in 1985 - 86 and 1740 – 76", "in 1985-86 and 1740–76"),
    ("the club - a team of boys", "the club - a team of boys"),
    ("5 April 1815 in Paris - 21 March 1851", "5 April 1815 in Paris - 21 March 1851"),
    ("( 3 May 1831 – 4 June 1902 )", "(3 May 1831 – 4 June 1902)"),
    ("the Dallas – Fort Worth area", "the Dallas–Fort Worth area"),
    ("the plants – all of them – grow", "the plants – all of them – grow"),
    ("The name — a joke — stayed", "The name—a joke—stayed"),
    ("the States — 91 of them", "the States — 91 of them"),
    ("Google I / O and LP / CD", "Google I/O and LP/CD"),
    ("It is the U.S .- Mexico border .", "It is the U.S.-Mexico border."),
    ("It reached # 19 in C # , they say .", "It reached #19 in C#, they say."),
    ("the S9 + , and 2 : 1 , and .NET too", "the S9+, and 2:1, and .NET too"),
    ('The song " Windy " , and " No . " , too', 'The song "Windy", and "No.", too'),
    ('The album , " Home , " was out ( " Early " ) .', 'The album, "Home," was out ("Early").'),
    ('The first 7 " single was " Julie " .', 'The first 7" single was "Julie".'),
    ('He is a man . "', 'He is a man."'),
    ('" We are late , she said .', '"We are late, she said.'),
    ("They saw “ the end ” of ‘ it ’ .", "They saw “the end” of ‘it’."),
    ("the boys ' team and Huysmans ' other novel", "the boys' team and Huysmans' other novel"),
    ("It is known as ' Bolt ' since then", "It is known as 'Bolt' since then"),
    ("the word ' bomb ' and the boys ' team", "the word 'bomb' and the boys' team"),
    ("known as ' Bolt ' in the boys ' team", "known as 'Bolt' in the boys' team"),
    ("The first 7 \" vinyl and \" Foo \" in 1993", 'The first 7" vinyl and "Foo" in 1993'),
    ("Stop shakin ' that note", "Stop shakin' that note"),
    ("Barnes & Noble and R&B", "Barnes & Noble and R&B"),
    ("the fort of 's - Hertogenbosch", "the fort of 's-Hertogenbosch"),
    ("Wait ... and see", "Wait... and see"),
]  # fmt: skip


@pytest.mark.parametrize(("tokens", "text"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_spaces(tokens: str, text: str) -> None:
    """Punctuation, brackets, quotation marks, hyphens, dashes and possessives are spaced as in
    normal text.
    """
    assert text == detokenised(tokens.split()).text


def test_white_space_tokens_are_spaces() -> None:
    """A white-space token becomes a space, separates a dash from its neighbours and has an empty span."""
    sentence = detokenised(["−5", "\xa0", "°", "C", ",", "3", "\xa0", "km", "\xa0", "–", "far", " "])
    assert sentence.text == "−5 °C, 3 km – far"
    assert [sentence.text[slice(*sentence.spans[i])] for i in (1, 2, 6, 7)] == ["", "°", "", "km"]
    assert detokenised(["terms", "\xa0", "—", "the", "-", "others"]).text == "terms — the-others"


def test_white_space_inside_a_token_is_one_space() -> None:
    """White space inside a token becomes one space, and the span is that of the resulting text."""
    sentence = detokenised(["7.\n 100 years", "ago"])
    assert sentence.text == "7. 100 years ago"
    assert sentence.text[slice(*sentence.spans[1])] == "ago"


def test_quotation_goes_on_in_the_next_sentence() -> None:
    """An ambiguous quotation mark is read as closing if the previous sentence left a quotation open."""
    tokens = ["Beat", '"', "in", "Europe"]
    first = detokenised(["the", "single", '"', "Dr."])
    assert first.quoted
    assert not detokenised(tokens, quoted=True).quoted
    assert detokenised(tokens, quoted=True).text == 'Beat" in Europe'
    assert detokenised(tokens).text == 'Beat "in Europe'


def test_even_number_of_marks_ignores_the_previous_sentence() -> None:
    """An even number of marks is read the same way, regardless of the previous sentence."""
    tokens = ["The", "song", '"', "Foo", '"', "was", "new"]
    assert detokenised(tokens, quoted=True).text == detokenised(tokens).text == 'The song "Foo" was new'


def test_quotation_stays_open_over_a_sentence_without_marks() -> None:
    """A sentence without quotation marks keeps the open state, and one with a pair closes it."""
    assert detokenised(["Yes", "."], quoted=True).quoted
    assert not detokenised(["A", '"', "b", '"', "."], quoted=True).quoted


def test_empty_sentence() -> None:
    """No tokens, or only white-space tokens, give an empty text."""
    assert detokenised([]).text == ""
    assert detokenised(["", " ", "\u3000"]) == ("", ((0, 0),) * 3, False)


TOKENS = st.lists(
    st.one_of(st.text(max_size=4), st.sampled_from(["-", "–", "—", '"', "'", "(", ")", ",", "/", "#", "°", " "])),
    max_size=12,
)  # fmt: skip


@pytest.mark.simulation
@given(TOKENS, st.booleans())
def test_tokens_are_at_their_spans(tokens: list[str], quoted: bool) -> None:
    """For any tokens, each one is at its span, in order, with at most single spaces in between."""
    sentence = detokenised(tokens, quoted=quoted)
    assert [" ".join(token.split()) for token in tokens] == [sentence.text[a:b] for a, b in sentence.spans]
    assert sentence.text == " ".join(sentence.text.split())
    end = 0
    for start, stop in sentence.spans:
        assert sentence.text[end:start] in ("", " ")
        end = max(end, stop)
    assert end == len(sentence.text)
