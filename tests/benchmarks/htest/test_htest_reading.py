"""The published reading rule of H-TEST, case by case."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmarks.htest.benchmark import obeys_format, read_label, read_option


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        # plain letters
        ("A", "A"),
        ("B", "B"),
        ("a", "A"),
        ("b", "B"),
        ("  A\n", "A"),
        ("\tb.", "B"),
        ("(B)", "B"),
        ("**A**", "A"),
        ("'a'", "A"),
        # "label: x" decides if both letters occur ("label" itself has an a and a b)
        ("Label: A", "A"),
        ("Label: B", "B"),
        ("LABEL: b", "B"),
        ("label: a or label: b", "A"),
        ("Label: B, never label: a", "A"),
        ("label:a", None),
        ("Label:  B", None),
        ("Label", None),
        # "is x" not followed by "or y"
        ("The label is A", "A"),
        ("The label is B", "B"),
        ("The answer is A", "A"),
        ("The answer is B", "B"),
        ("I think it is B", "B"),
        ("It is A or B", None),
        ("it is B or A", None),
        ("It is A, and not B", "A"),
        ("It is B, and not A", "B"),
        ("Both A and B", None),
        # the rule reads letters, not words
        ("answer", "A"),
        ("Group A", "A"),
        ("Group B", "B"),
        ("because", None),
        ("This is about B", "A"),
        ("I am not sure", "A"),
        ("Nobody", "B"),
        ("Banana", None),
        ("AB", None),
        ("None", None),
        ("Neither", None),
        ("C", None),
        ("1", None),
        # letters that only look like A or B
        ("À", None),
        ("Α", None),
        ("В", None),
        ("", None),
        (" \n ", None),
    ],
)
def test_read_label(reply: str, label: str | None) -> None:
    """Each reply is read as the authors' rule reads it, by hand."""
    assert read_label(reply) == label


@pytest.mark.parametrize(
    ("reply", "option"),
    [
        ("N", 1),
        (" N \n", 1),
        ("Ɛ", 3),
        ("Z", 0),
        ("n", None),
        ("N.", None),
        ("The answer is N", None),
        ("B", None),
        ("ZN", None),
        ("", None),
    ],
)
def test_read_option(reply: str, option: int | None) -> None:
    """A Letter Geometry reply counts only if it equals one option, including its case."""
    assert read_option(reply, ["Z", "N", "E", "Ɛ"]) == option


@pytest.mark.parametrize("reply", ["A", "B", " A", "B\n"])
def test_one_letter_obeys_the_format(reply: str) -> None:
    """The prompt asks for one capital letter, which may have blanks around it."""
    assert obeys_format(reply)


@pytest.mark.parametrize("reply", ["a", "b", "A.", "(A)", "A B", "AB", "Label: A", "C", "", "**B**"])
def test_other_replies_break_the_format(reply: str) -> None:
    """Lower case, punctuation, extra words and other letters break the one-letter format."""
    assert not obeys_format(reply)
