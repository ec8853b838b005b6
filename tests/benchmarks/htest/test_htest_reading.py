"""Reading which label or option a reply to H-TEST chooses, by the published rule and by this project's."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.htest.reading import (
    LABELS,
    obeys_format,
    read_choice,
    read_label,
    read_option,
)

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


def test_one_capital_letter_obeys_the_format() -> None:
    """It may have blanks around it, but no punctuation, extra words or other letters."""
    assert all(map(obeys_format, ["A", "B", " A", "B\n"]))
    assert not any(map(obeys_format, ["a", "b", "A.", "(A)", "A B", "AB", "Label: A", "C", "", "**B**"]))


# The rule "letter": X and Y are the labels in either order, x and y the same in lower case

CHOSEN = {
    "letter alone": [
        "X", " x\n", "**X**", "(X)", "X.", "`X`", '"X"', "“X”", "[X]", "X)", "X ✅", "XXX", "$X$", "＂X＂",
    ],
    "statement": [
        "Label: X", "label: x", "Answer:X", "The answer is X.", "The label is **X**", "Correct label: X",
        r"\boxed{X}", r"\boxed{\text{X}}", '{"label": "X"}', '{"answer": "x"}', "<answer>X</answer>",
        "Output: X", "Option X", "Category X", "It is X", "It's X.", "I'd go with X", "Therefore, X", "so X",
        "My answer would be X, because no word rhymes.", "The answer is (x).", "答案是X", "The label is option X",
        "At first I think Y, but the final answer is X", "The answer is Y. Wait, no: the answer is X",
        'Label: X\nInput: "go home" Label: Y',
    ],
    "first line": [
        "X\n\nThe words do not rhyme.", "X. The text has no capital letter.", "X (because it rhymes)",
        "X because the last word ends so.", "**X** - it is a palindrome", "X. Y would be wrong.",
    ],
    "only mention": [
        "Sure! X", "not Y, X", "X, not Y", "Y? No: X", "X rather than Y", "not Y but X", "Y is wrong, X",
        "Between X and Y: Y... no, X", "I believe X",
    ],
}  # fmt: skip
NO_ANSWER = {
    "empty": ["", " \n", 'Input: "go home" Label: X'],
    "several options": [
        "X or Y", "X/Y", "X\nY", "Label X or Y", "The answer is X or Y.", "X Y X Y", "not X", "X, Y",
        "X \nY (Respond in one letter and nothing else)", "The answer is X. The answer is Y.",
    ],
    "no option": [
        "I", "The pattern", "It's x", "It is x", "neither", "none of the above", "Either x or y", "xyxy", "?", "C", "1",
        "Look at x word", "X palindrome reads the same", "The answer is x palindrome", "I cannot help with that",
    ],
}  # fmt: skip


def filled(reply: str, label: str) -> str:
    """Return the reply with ``label`` for X and the other label for Y."""
    other = "AB".replace(label, "")
    letters = str.maketrans({"X": label, "Y": other, "x": label.lower(), "y": other.lower()})
    # Not those in words, such as "boxed".
    return re.sub(r"(?<![A-Za-z])[XYxy]+(?![A-Za-z])", lambda match: match[0].translate(letters), reply)


@pytest.mark.parametrize("rule", CHOSEN)
def test_a_chosen_label_is_read_in_any_wording(rule: str) -> None:
    """Each wording is read by the rule that is made for it, whichever label it has."""
    for label in LABELS:
        read = {reply: read_choice(filled(reply, label), LABELS, folds_case=True) for reply in CHOSEN[rule]}
        assert {reply: (choice.index, choice.rule) for reply, choice in read.items()} == dict.fromkeys(
            CHOSEN[rule], (LABELS.index(label), rule)
        )


@pytest.mark.parametrize("rule", NO_ANSWER)
def test_a_reply_without_a_choice_has_a_cause(rule: str) -> None:
    """Both labels, an article, and a repetition of the question are no answer."""
    for label in LABELS:
        read = {
            reply: read_choice(filled(reply, label), LABELS, folds_case=True) for reply in NO_ANSWER[rule]
        }
        assert {reply: (choice.index, choice.rule) for reply, choice in read.items()} == dict.fromkeys(
            NO_ANSWER[rule], (None, rule)
        )


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
    a, b = (read_choice(filled(reply, label), LABELS, folds_case=True) for label in LABELS)
    assert a.rule == b.rule
    assert b.index == (None if a.index is None else 1 - a.index)


def test_a_published_rule_prefers_a() -> None:
    """The published rule reads "Answer: A", but not "Answer: B": the reason for a rule of our own."""
    assert read_label("Answer: A") == "A"
    assert read_label("Answer: B") is None


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
    assert read_choice(reply, OPTIONS).index == index
