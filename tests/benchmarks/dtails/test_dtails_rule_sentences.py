"""The choice of example sentences for the prompts that request rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.rule_making import (
    choose_sentences,
    english_tokens,
    sentence_counts,
    sentence_key,
)

LIVE = (("leef", "lewe"), ("woon",))
WORDS = st.sampled_from(["They", "live", "here", "don't", "I", ",", "."])
SENTENCES = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
ROWS = st.lists(
    st.tuples(SENTENCES, st.sampled_from([("leef",), ("woon",), ("x", "lewe"), ("q",)])), max_size=30
)


def test_tokens() -> None:
    """Words and punctuation marks count as tokens; an apostrophe or hyphen in a word does not split it."""
    assert english_tokens("I don't know any well-known man.") == 7
    assert english_tokens("") == 0


@given(ROWS, st.lists(SENTENCES, max_size=10), st.integers(0, 4), st.integers(1, 9))
def test_longest_allowed_sentences_are_chosen(
    rows: list[tuple[str, tuple[str, ...]]], test: list[str], most: int, tokens: int
) -> None:
    """The longest allowed sentences are chosen, never a test sentence in any case, spacing or punctuation."""
    disguised = [f"  {sentence.upper()}!! " for sentence in test]
    chosen = choose_sentences(rows, LIVE, disguised, most=most, tokens=tokens)
    barred = set(map(sentence_key, test))
    assert list(chosen) == ["leef/lewe", "woon"]
    for name, sentences in chosen.items():
        assert not barred & set(map(sentence_key, sentences))
        assert len(set(map(sentence_key, sentences))) == len(sentences) <= most
        allowed = [
            sentence
            for sentence, label in rows
            if set(label) & set(name.split("/"))
            and english_tokens(sentence) < tokens
            and sentence_key(sentence)
        ]
        assert set(sentences) <= set(allowed)
        left_out = {sentence_key(s) for s in allowed} - set(map(sentence_key, sentences)) - barred
        lengths = [english_tokens(sentence) for sentence in sentences]
        assert lengths == sorted(lengths, reverse=True)
        # No excluded sentence has a spelling that is longer than the shortest chosen sentence.
        if len(sentences) < most:
            assert not left_out
        elif sentences:
            assert all(
                min(english_tokens(s) for s in allowed if sentence_key(s) == key) <= lengths[-1]
                for key in left_out
            )


def test_fifty_longest_sentences_are_chosen() -> None:
    """By default the 50 longest sentences with at most 49 tokens are chosen."""
    rows = [(" ".join(["w"] * n), ("woon",)) for n in range(1, 120)]
    chosen = choose_sentences(rows, LIVE, [])["woon"]
    assert [english_tokens(sentence) for sentence in chosen] == list(range(49, 0, -1))
    many = [(f"a sentence with the number {n}", ("woon",)) for n in range(70)]
    assert len(choose_sentences(many, LIVE, [])["woon"]) == 50


def test_any_form_of_the_variation_counts() -> None:
    """A row belongs to the variation with which its label shares a form, or to none."""
    rows = [("They live on", ("lewe",)), ("They live here", ("woon",)), ("They laugh", ("lag",))]
    chosen = choose_sentences(rows, LIVE, [])
    assert chosen == {"leef/lewe": ("They live on",), "woon": ("They live here",)}


def test_without_sentences() -> None:
    """A concept without train rows has no sentences and a count of 0."""
    chosen = choose_sentences([], LIVE, ["They live here"])
    assert chosen == {"leef/lewe": (), "woon": ()}
    assert sentence_counts(chosen) == {"leef/lewe": 0, "woon": 0}
