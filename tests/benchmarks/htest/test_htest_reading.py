"""Reading which label or option a reply to H-TEST chooses by the published rules."""

from __future__ import annotations

from pytest_llmprops.benchmarks.htest.benchmark import read_label, read_option

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
    read = {"N": 1, " N \n": 1, "Ɛ": 3, "n": None, "N.": None, "The answer is N": None, "ZN": None, "": None}
    assert {reply: read_option(reply, ["Z", "N", "E", "Ɛ"]) for reply in read} == read
