"""Reading which label or option a reply to H-TEST chooses: by the published rules, and by the words of replies."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.htest.reading import LABELS, read_label, read_option
from pytest_llmprops.core.reading import stated

# The published reading rule, case by case

READ: dict[str | None, list[str]] = {
    "A": [
        "A", "a", "  A\n", "**A**", "'a'", "Label: A", "label: a or label: b", "Label: B, never label: a",
        "The label is A", "The answer is A", "It is A, and not B",
        # The rule reads letters, not words.
        "answer", "Group A", "This is about B", "I am not sure",
    ],
    "B": [
        "B", "b", "\tb.", "(B)", "Label: B", "LABEL: b", "The label is B", "The answer is B", "I think it is B",
        "It is B, and not A", "Group B", "Nobody",
    ],
    None: [
        # "label" itself has an a and a b; "is a" does not count if "or b" follows.
        "label:a", "Label:  B", "Label", "It is A or B", "it is B or A", "Both A and B", "because", "Banana", "AB",
        "None", "Neither", "C", "1", "", " \n ",
        # letters that only look like A or B
        "À", "Α", "В",
    ],
}  # fmt: skip


@pytest.mark.parametrize("label", READ)
def test_read_label(label: str | None) -> None:
    """Each reply is read as the authors' rule reads it, by hand."""
    assert {reply: read_label(reply) for reply in READ[label]} == dict.fromkeys(READ[label], label)


@pytest.mark.parametrize(("reply", "option"), [("N", 1), (" N \n", 1), ("Ɛ", 3), ("Z", 0)])
def test_read_option(reply: str, option: int) -> None:
    """A Letter Geometry reply counts only if it equals one option, including its case."""
    assert read_option(reply, ["Z", "N", "E", "Ɛ"]) == option
    for other in ("n", "N.", "The answer is N", "B", "ZN", ""):
        assert read_option(other, ["Z", "N", "E", "Ɛ"]) is None


FORMS = [(label,) for label in LABELS]
# X and Y are the labels in either order, x and y the same in lower case.
CHOSEN = [
    "X", " x\n", "X ✅", "$X$", "＂X＂", "Label: X", "label: x", "Answer:X", "Correct label: X", r"\boxed{\text{X}}",
    '{"answer": "x"}', "Output: X", "Category X", "I'd go with X", "so X", "The answer is (x).",
    "My answer would be X, because no word rhymes.", "The answer is Y. Wait, no: the answer is X",
    'Label: X\nInput: "go home" Label: Y', "X. The text has no capital letter.", "X (because it rhymes)",
    "**X** - it is a palindrome", "X. Y would be wrong.", "Sure! X", "Y? No: X", "X rather than Y", "not Y but X",
    "Between X and Y: Y... no, X", "I believe X",
]  # fmt: skip
NO_ANSWER = [
    "", " \n", "Label X or Y", "X Y X Y", "not X", "X, Y", "The answer is X. The answer is Y.", "I", "The pattern",
    "It's x", "neither", "none of the above", "Either x or y", "xyxy", "?", "C", "1", "Look at x word",
    "X palindrome reads the same", "The answer is x palindrome", "I cannot help with that",
    "X \nY (Respond in one letter and nothing else)",
]  # fmt: skip


def filled(reply: str, label: str) -> str:
    """Return the reply with ``label`` for X and the other label for Y."""
    other = "AB".replace(label, "")
    letters = str.maketrans({"X": label, "Y": other, "x": label.lower(), "y": other.lower()})
    # Not those in words, such as "boxed".
    return re.sub(r"(?<![A-Za-z])[XYxy]+(?![A-Za-z])", lambda match: match[0].translate(letters), reply)


@pytest.mark.parametrize("label", LABELS)
def test_a_chosen_label_is_read_in_any_wording(label: str) -> None:
    """Each wording is read, whichever label it has."""
    read = {reply: stated(filled(reply, label), FORMS) for reply in CHOSEN}
    assert read == dict.fromkeys(CHOSEN, LABELS.index(label))


@pytest.mark.parametrize("label", LABELS)
def test_a_reply_without_a_choice_is_unread(label: str) -> None:
    """Both labels, an article, and a repetition of the question are no answer."""
    assert {reply: stated(filled(reply, label), FORMS) for reply in NO_ANSWER} == dict.fromkeys(NO_ANSWER)


_PIECES = st.sampled_from(
    [
        "X", "Y", "x", "y", " ", "\n", ".", ",", ":", "**", "(", ")", '"', "not ", "or ", " and ", "The answer is ",
        "Label: ", "It is ", "because ", "palindrome", "? No: ", " is wrong", "wait, ", r"\boxed{", "}", "Input: ",
        "one of ", "Sure! ",
    ]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=10).map("".join))
@example("X. The other one is Y")
def test_swapping_the_letters_swaps_the_reading(reply: str) -> None:
    """Neither label has an advantage in any wording."""
    a, b = (stated(filled(reply, label), FORMS) for label in LABELS)
    assert b == (None if a is None else 1 - a)


OPTIONS = ["E", "—", "[", "d"]


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("E", 0), ("E.", 0), ("(E)", 0), ("**E**", 0), ("Option E", 0), ("It looks like E", 0), ("E, not d", 0),
        ("not d, E", 0), ("At first d, but no, E", 0), ("the letter E", 0), ("E — turned upside down", 0),
        ("—", 1), ('"—"', 1), ("The answer is —", 1), ("—, not E", 1), ("[", 2), ("[.", 2), ("`[`", 2), ("[, not E", 2),
        ("d", 3), ("It becomes d.", 3), ('{"answer": "d"}', 3),
        ("e", None), ("D", None), ("E, —, [, d", None), ("E or d", None), ("The", None), ("", None), ("(", None),
        ("Given the letter", None),
    ],
)  # fmt: skip
def test_a_letter_geometry_option_is_read_in_any_wording(reply: str, index: int | None) -> None:
    """Case counts, marks are options too, and a dash in a sentence is not one."""
    assert stated(reply, [(option,) for option in OPTIONS]) == index
