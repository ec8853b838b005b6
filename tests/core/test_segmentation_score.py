"""Word boundaries, the SIGHAN scorer and `llmprops lab eras segment-score`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.segmentation import add_segment_score
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.segmentation import boundaries, score, with_whitespace
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.models.segmenters import longest_match, read_words


def lines_of(file: Path) -> list[list[str]]:
    return [line.split() for line in utf8(file.read_bytes(), str(file)).strip("\r\n").split("\n")]


def command(*words: str) -> int:
    """Run `segment-score` whether or not the command is registered."""
    parser = argparse.ArgumentParser()
    add_segment_score(parser.add_subparsers())
    options = parser.parse_args(["segment-score", *words])
    return int(options.command(options))


def test_edges_of_words() -> None:
    """Edges are counted in characters and include both ends of the text; an empty text has one edge."""
    assert boundaries(["留", "心机", "𠮷"], "留心机𠮷") == {0, 1, 3, 4}
    assert boundaries([], "") == {0}


DIFFERENT: list[tuple[Any, str]] = [
    (["留心"], "dropped '机' at character 3"),
    (["留心", "机", "器"], "added '器' at character 4"),
    (["留", "新", "机"], "changed '心' into '新' at character 2"),
    (["留", "\x1b", "机"], r"changed '心' into '\x1b' at character 2"),
    ([], "dropped '留心机' at character 1"),
    (["留心", "", "机"], "an empty word"),
    (["留心", None], "not return a list of words"),
    (None, "not return a list of words"),
]


def test_words_that_differ_from_the_text() -> None:
    """A segmenter that changes, drops or adds characters causes an error that says what it did."""
    for words, said in DIFFERENT:
        with pytest.raises(BackendError) as raised:
            boundaries(words, "留心机")
        assert raised.value.kind == "segmentation"
        assert said in str(raised.value)


SPACED = ["ab cd", " ab  cd\u3000", "abcd ", "a b c d", "\tab\tc d"]


def test_whitespace_is_restored() -> None:
    """Whitespace that a segmenter left out is restored as separate words, even inside one of its words."""
    for text in SPACED:
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


def test_score_by_hand() -> None:
    """Precision, recall, F1 and the recall of known and unknown words match a case counted by hand."""
    gold = [["今天", "天气", "好"], ["我", "去", "北京"]]
    predicted = [["今天", "天", "气", "好"], ["我", "去", "北京"]]
    result = score(gold, predicted, known={"今天", "天气", "我", "去"})
    assert (result.gold, result.predicted, result.correct, result.oov, result.oov_correct) == (6, 7, 5, 2, 2)
    assert result.precision == pytest.approx(5 / 7)
    assert result.recall == pytest.approx(5 / 6)
    assert result.f1 == pytest.approx(2 * (5 / 7) * (5 / 6) / (5 / 7 + 5 / 6))
    assert result.oov_rate == pytest.approx(2 / 6)
    assert result.oov_recall == 1
    assert result.iv_recall == pytest.approx(3 / 4)


def test_same_words_at_other_places_do_not_count() -> None:
    """A word is a hit only at its position: the same word elsewhere in the line does not count."""
    result = score([["好", "好好"]], [["好好", "好"]])
    assert (result.correct, result.f1) == (0, 0)
    assert (result.oov_rate, result.oov_recall, result.iv_recall) == (None, None, None)


def test_rates_without_cases() -> None:
    """A rate with a denominator of 0 is None, not an error and not 0."""
    empty = score([[]], [[]], known={"好"})
    rates = (empty.precision, empty.recall, empty.f1, empty.oov_rate, empty.oov_recall, empty.iv_recall)
    assert rates == (None,) * 6
    assert score([["好"]], [["好"]], known={"好"}).oov_recall is None
    assert score([["好"]], [["好"]], known=set()).iv_recall is None


def test_lines_that_differ() -> None:
    """Different characters or a different number of lines give a one-line error with the position."""
    with pytest.raises(DataError, match=r"line 2 .* dropped '京' at character 4"):
        score([["好"], ["我", "去", "北京"]], [["好"], ["我", "去", "北"]])
    with pytest.raises(DataError, match="gold file has 2 lines, the prediction 1"):
        score([["好"], ["天"]], [["好"]])


def test_texts_whose_lines_end_at_other_places() -> None:
    """Equal texts with different line breaks get a separate error, and can be scored with ``whole_text``."""
    gold, predicted = [["好", "。"], ["”", "天气"]], [["好", "。", "”"], ["天", "气"]]
    with pytest.raises(DataError, match=r"line 1 .*--whole-text"):
        score(gold, predicted)
    result = score(gold, predicted, whole_text=True)
    assert (result.gold, result.predicted, result.correct) == (4, 5, 3)
    with pytest.raises(DataError, match="texts differ: the prediction added '啊'"):
        score(gold, [*predicted, ["啊"]], whole_text=True)


def test_maxmatch_on_the_msr_test_set(published: Path) -> None:
    """MaxMatch with the MSR training words has the known scores of the official definition."""
    folder = published / "icwb2"
    words = read_words(folder / "msr_training_words.utf8")
    cut = longest_match(words)
    gold = lines_of(folder / "msr_test_gold.utf8")
    result = score(gold, [cut("".join(line)) for line in gold], known=words)
    assert result.predicted == 111_480
    assert (result.precision, result.recall, result.f1) == pytest.approx((0.9174, 0.9569, 0.9367), abs=5e-5)
    # Emerson (2005) gives the rate of unknown words for this test set.
    assert result.oov_rate == pytest.approx(0.026, abs=5e-4)


def test_maxmatch_on_the_raw_msr_test_file(published: Path) -> None:
    """The raw test file, with some quotes on other lines than in the gold file, has the same scores."""
    folder = published / "icwb2"
    cut = longest_match(read_words(folder / "msr_training_words.utf8"))
    gold = lines_of(folder / "msr_test_gold.utf8")
    predicted = [cut("".join(line)) for line in lines_of(folder / "msr_test.utf8")]
    with pytest.raises(DataError, match=r"line 442 .*--whole-text"):
        score(gold, predicted)
    assert score(gold, predicted, whole_text=True).predicted == 111_480


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints counts and rates; rates of unknown words need the training words."""
    (tmp_path / "gold").write_text("\ufeff今天  天气  好\n\n我  去  北京\n", encoding="utf-8")
    (tmp_path / "pred").write_text("今天 天 气\u3000好\r\n\r\n我 去 北京\r\n", encoding="utf-8")
    (tmp_path / "words").write_text("今天 天气\n我 去\n", encoding="utf-8")
    files = ["--gold", str(tmp_path / "gold"), "--pred", str(tmp_path / "pred")]
    assert command(*files) == 0
    printed = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert printed == {
        "gold words": "6", "predicted words": "7", "correct words": "5", "precision": "0.7143",
        "recall": "0.8333", "F1": "0.7692",
    }  # fmt: skip
    assert command(*files, "--train-words", str(tmp_path / "words")) == 0
    printed = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (printed["OOV rate"], printed["OOV recall"], printed["IV recall"]) == (
        "0.3333",
        "1.0000",
        "0.7500",
    )


BAD = [
    ("今天 天气".encode("gbk"), "not UTF-8.*GBK"),
    ("今天".encode("utf-16"), "not UTF-8.*UTF-16"),
    (b"\xff\xff\xff", "not UTF-8: byte 0xff at offset 0; save it as UTF-8$"),
    (b" \n", "is empty"),
]


def test_bad_files(tmp_path: Path) -> None:
    """A file in another encoding, or an empty file, gives a one-line error that names it."""
    for raw, said in BAD:
        (tmp_path / "gold").write_text("今天 天气\n", encoding="utf-8")
        (tmp_path / "bad").write_bytes(raw)
        with pytest.raises(DataError, match=said) as raised:
            command("--gold", str(tmp_path / "gold"), "--pred", str(tmp_path / "bad"))
        assert str(tmp_path / "bad") in str(raised.value)
        assert "\n" not in str(raised.value)
