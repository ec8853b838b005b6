"""Readers agree with labelled replies, and no reply makes one raise or take more than linear time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.readers import (
    GROWTH,
    LABELLED,
    Reader,
    agreement,
    growth,
    readers,
    repeated,
    repetitions,
    replies,
    scored_readers,
)
from fixtures.replies import labelled_replies

READERS = readers()


class Aim(NamedTuple):
    """What a reader must reach: precision and recall of its positive label, or of the others the share that agrees."""

    precision: float = 0.0
    recall: float = 0.0
    agreement: float = 0.0


AIMS = {
    # These replies have no line with the answer; without it, a reply that explains the answer away is read as correct.
    "homophones": Aim(0.86, 0.985),
    "dtails-select": Aim(0.99, 0.97),
    "dtails-translate": Aim(0.98, 0.98),
    "eras-explicit": Aim(0.99, 0.95),
    "eras-implicit": Aim(agreement=0.98),
    "htest": Aim(agreement=0.98),
    "htest-geometry": Aim(0.98, 0.98),
    "oracle-list": Aim(agreement=0.97),
    "oracle-yesno": Aim(agreement=0.97),
    "oracle-paraphrases": Aim(agreement=0.97),
}


@pytest.fixture(scope="module")
def scored() -> dict[str, Any]:
    """Return what reads each file of labelled replies."""
    data = os.environ.get("LLMPROPS_DATA")
    return dict(scored_readers(Path(data) if data else None))


@pytest.mark.parametrize("name", AIMS)
def test_a_reader_agrees_with_labelled_replies(name: str, scored: dict[str, Any]) -> None:
    """Replies that somebody wrote and labelled before the reader saw them are read as labelled."""
    more = os.environ.get("LLMPROPS_REPLIES")
    for folder in [LABELLED, *([Path(more)] if more else [])]:
        rows = labelled_replies(name, folder)
        assert rows
        one = agreement(rows, *scored[name])
        if folder != LABELLED and one.skipped == len(rows):
            # All its items were replaced.
            continue
        reached = Aim(one.precision, one.recall, one.agreed / one.total)
        assert all(value >= aim for value, aim in zip(reached, AIMS[name], strict=True)), one.misread


def test_no_reply_makes_a_reader_raise() -> None:
    """Replies of all three fuzzers are read without an exception."""
    for reader in READERS:
        made = list(replies(reader, 6, seed=1, length=1_500))
        assert len({name for name, _ in made}) == 3
        for _, reply in made:
            reader.read(reply)


#: pieces at which a pattern of ``core.reading`` may backtrack
SHARED = (
    "A ", "not A, ", "A or ", "(A) ", "answer is ", "ken ", "~~ken ", "~~", "<s>", "<s", "&amp;", "[", '{"a": ', '"',
    "not ", "B? ", "wait, ", "so ", "A\n", "(", "if ", "不是A", "Input: A\n", "\n", " ", "\t", "|A|\n", "because A ",
    "1. A\n2", "- a: b\n", "<li>", "他 ", "他/", "[他]", "x, ", "`", "```", "```\nA\n", "\\", "1. a 2. b ", "\u0301",
    "*", "a: ",
)  # fmt: skip
#: reader -> pieces at which a pattern of it may backtrack
PIECES = {
    "htest letters": SHARED,
    "lists, segmentations and fences": SHARED,
    "homophones line": ("in the sentence the word ", "ANSWER: ", "candle, or "),
    "dtails choices af": (
        "as an AI ", "~~ken ", "not ken, ", "weet (a), ", "((", "ken ", "ken or ", "(ken) ", "not ", "wait, ", "if ",
        "because ken ", "|ken|\n", '{"a": ',
    ),
    "dtails choices ja": ("着るではない ", "着るので"),
    "dtails translation af": ("w", "()", "* ", ". note", "a: ", "auseneverWeet "),
    "oracle list": ("1. a: b ",),
    "oracle json": ('{"a": [', " ", " - | "),
    "eras chat": ("不是",),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_reading_takes_linear_time(reader: Reader) -> None:
    """From 25,000 to 100,000 characters, the time of a reader grows below the power 1.2 of the length.

    The replies are the pieces above, and random pieces of what the reader looks for, repeated after a random beginning.
    """
    assert {*PIECES} <= {one.name for one in READERS}
    known = (("", piece) for piece in PIECES.get(reader.name, ()))
    slow = {
        (start, piece): slope
        for start, piece in (*known, *repetitions(reader, 2, seed=0))
        if (slope := growth(reader.read, repeated(piece, start))) >= GROWTH
    }
    assert slow == {}
