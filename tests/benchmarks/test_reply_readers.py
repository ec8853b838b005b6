"""The fuzzers of ``bench/readers.py``, briefly: no reply makes a reader raise or take more than linear time."""

from __future__ import annotations

import pytest

from bench.readers import GROWTH, Reader, growth, readers, replies

READERS = {reader.name: reader for reader in readers()}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_no_reply_makes_a_reader_raise(reader: Reader) -> None:
    """Replies of all three fuzzers are read without an exception."""
    made = list(replies(reader, 6, seed=1, length=1_500))
    assert len({name for name, _ in made}) == 3
    for _, reply in made:
        reader.read(reply)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("homophones zh word", "为,"),
        ("homophones zh word", "“为”、“好”或“坏”"),
        ("homophones en word", "in the sentence the word "),
        ("homophones en contains", "candle, or "),
        ("dtails choices af", "as an AI "),
        ("dtails choices af", "~~ken "),
        ("dtails choices af", "not ken, "),
        ("dtails choices ja", "着るではない "),
        ("dtails translation af", "w"),
        ("oracle list", "1. a: b "),
        ("oracle json", '{"a": ['),
        ("eras chat", "不是"),
    ],
)
def test_reading_takes_linear_time(name: str, piece: str) -> None:
    """Four times the length takes about four times as long, not sixteen times."""
    # A process that is interrupted may measure any factor once.
    assert any(growth(READERS[name], piece, runs=2) <= GROWTH for _ in range(3))
