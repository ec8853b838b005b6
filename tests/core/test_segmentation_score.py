"""Word boundaries, the SIGHAN scorer and `llmprops lab eras segment-score`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.corpora import read_segmented
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.segmentation import boundaries, score, with_whitespace
from pytest_llmprops.models.segmenters import longest_match, read_words
from tests.support.commands import output


def test_edges_of_words() -> None:
    """Edges are counted in characters and include both ends of the text; an empty text has one edge."""
    assert boundaries(["留", "心机", "𠮷"], "留心机𠮷") == {0, 1, 3, 4}
    assert boundaries([], "") == {0}


def test_words_that_differ_from_the_text() -> None:
    """A segmenter that changes, drops or adds characters causes an error that says what it did."""
    different: list[tuple[Any, str]] = [
        (["留心"], "dropped '机' at character 3"),
        (["留心", "机", "器"], "added '器' at character 4"),
        (["留", "\x1b", "机"], r"changed '心' into '\x1b' at character 2"),
        ([], "dropped '留心机' at character 1"),
        (["留心", "", "机"], "an empty word"),
        (["留心", None], "not return a list of words"),
        (None, "not return a list of words"),
    ]
    for words, said in different:
        with pytest.raises(BackendError, match=re.escape(said)) as raised:
            boundaries(words, "留心机")
        assert raised.value.kind == "segmentation"


def test_whitespace_is_restored() -> None:
    """Whitespace that a segmenter left out is restored as separate words, even inside one of its words."""
    for text in ("ab cd", " ab  cd\u3000", "abcd ", "a b c d", "\tab\tc d"):
        for words in (["ab", "cd"], ["abcd"], ["a", "b", "c", "d"], ["a", "bcd"]):
            whole = with_whitespace(words, text)
            assert "".join(whole) == text
            assert [w for w in whole if w.isspace()] == [
                w for w in with_whitespace(["abcd"], text) if w.isspace()
            ]
            inner = boundaries([w for w in whole if not w.isspace()], "abcd")
            assert boundaries(words, "abcd") <= inner
        assert with_whitespace(["x"], " ") == ["x"]
        assert with_whitespace([], "  ") == ["  "]


def test_score_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Precision, recall, F1 and the recall of known and unknown words match a case counted by hand.

    `segment-score` prints these counts and rates.
    """
    gold = [["今天", "天气", "好"], ["我", "去", "北京"]]
    predicted = [["今天", "天", "气", "好"], ["我", "去", "北京"]]
    result = score(gold, predicted, known={"今天", "天气", "我", "去"})
    assert (result.gold, result.predicted, result.correct, result.oov, result.oov_correct) == (6, 7, 5, 2, 2)
    assert (result.precision, result.recall, result.oov_recall) == pytest.approx((5 / 7, 5 / 6, 1))
    assert result.f1 == pytest.approx(2 * (5 / 7) * (5 / 6) / (5 / 7 + 5 / 6))
    files = tmp_path / "gold", tmp_path / "pred"
    files[0].write_text("\ufeff今天  天气  好\n\n我  去  北京\n", encoding="utf-8")
    files[1].write_text("今天 天 气\u3000好\r\n\r\n我 去 北京\r\n", encoding="utf-8")
    text = output(capsys, "lab", "eras", "segment-score", "--gold", files[0], "--pred", files[1])
    assert dict(line.rsplit(maxsplit=1) for line in text.splitlines()) == {
        "gold words": "6", "predicted words": "7", "correct words": "5", "precision": "0.7143",
        "recall": "0.8333", "F1": "0.7692",
    }  # fmt: skip


def test_rates_without_cases() -> None:
    """A word is a hit only at its position. A rate with a denominator of 0 is None, not an error and not 0."""
    result = score([["好", "好好"]], [["好好", "好"]])
    assert (result.correct, result.f1, result.oov_recall) == (0, 0, None)
    empty = score([[]], [[]], known={"好"})
    assert (empty.precision, empty.recall, empty.f1, empty.oov_recall) == (None,) * 4
    assert score([["好"]], [["好"]], known={"好"}).oov_recall is None


def test_lines_that_differ() -> None:
    """Different characters or a different number of lines give a one-line error with the position."""
    with pytest.raises(DataError, match=r"line 2 .* dropped '京' at character 4"):
        score([["好"], ["我", "去", "北京"]], [["好"], ["我", "去", "北"]])
    with pytest.raises(DataError, match="gold file has 2 lines, the prediction 1"):
        score([["好"], ["天"]], [["好"]])


def test_maxmatch_on_the_msr_test_set(published: Path) -> None:
    """MaxMatch with the MSR training words has the known scores of the official definition."""
    folder = published / "icwb2"
    words = read_words(folder / "msr_training_words.utf8")
    cut = longest_match(words)
    gold = read_segmented(folder / "msr_test_gold.utf8").lines
    result = score(gold, [cut("".join(line)) for line in gold], known=words)
    assert result.predicted == 111_480
    assert (result.precision, result.recall, result.f1) == pytest.approx((0.9174, 0.9569, 0.9367), abs=5e-5)
    # Emerson (2005) gives the rate of unknown words for this test set.
    assert (result.oov or 0) / result.gold == pytest.approx(0.026, abs=5e-4)
