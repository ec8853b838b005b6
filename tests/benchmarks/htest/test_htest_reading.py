"""Reading which label or option a reply to H-TEST chooses: by the published rules, and by the words of replies."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.htest.benchmark import read_label, read_option
from pytest_llmprops.benchmarks.htest.items import LABELS
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


def test_read_label() -> None:
    """Each reply is read as the authors' rule reads it, by hand."""
    for label, replies in READ.items():
        assert {reply: read_label(reply) for reply in replies} == dict.fromkeys(replies, label)


def test_read_option() -> None:
    """A Letter Geometry reply counts only if it equals one option, including its case."""
    read = {
        "N": 1,
        " N \n": 1,
        "Ɛ": 3,
        "Z": 0,
        "n": None,
        "N.": None,
        "The answer is N": None,
        "ZN": None,
        "": None,
    }
    assert {reply: read_option(reply, ["Z", "N", "E", "Ɛ"]) for reply in read} == read


FORMS = [(label,) for label in LABELS]


# X and Y are the labels in either order, x and y the same in lower case.
def filled(reply: str, label: str) -> str:
    """Return the reply with ``label`` for X and the other label for Y."""
    other = "AB".replace(label, "")
    letters = str.maketrans({"X": label, "Y": other, "x": label.lower(), "y": other.lower()})
    # Not those in words, such as "boxed".
    return re.sub(r"(?<![A-Za-z])[XYxy]+(?![A-Za-z])", lambda match: match[0].translate(letters), reply)


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


def test_a_letter_geometry_option_is_read_in_any_wording() -> None:
    """Case counts, marks are options too, and a dash in a sentence is not one."""
    options = ["E", "—", "[", "d"]
    read = {
        "(E)": 0, "**E**": 0, "Option E": 0, "It looks like E": 0, "not d, E": 0, "At first d, but no, E": 0,
        "E — turned upside down": 0, "—": 1, '"—"': 1, "The answer is —": 1, "—, not E": 1, "[.": 2, "`[`": 2,
        "It becomes d.": 3, '{"answer": "d"}': 3, "e": None, "E, —, [, d": None, "E or d": None, "(": None,
        "Given the letter": None,
    }  # fmt: skip
    assert {reply: stated(reply, [(option,) for option in options]) for reply in read} == read
