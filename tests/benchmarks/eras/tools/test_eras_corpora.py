"""Segmented files and labelled reviews: their formats, and the accuracy on reviews."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.benchmarks.eras.tools.corpora import (
    Review,
    accuracy,
    read_reviews,
    read_segmented,
    review_files,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import read_manifest

GOOD, BAD = Review("很好", True), Review("太差, 真的", False)


def test_formats(tmp_path: Path) -> None:
    """Files of both corpora give the same reviews; three stars are left out and counted."""
    for text in (
        "label\ttext_a\n1\t很好\n0\t太差, 真的\n",
        "qid\tlabel\ttext_a\n0\t1\t很好\n1\t0\t太差, 真的",
        '\ufeffindex,reviewbody,star,food\r\n1,很好,5.0,1\r\n2,"一般\n吗",3.0,\r\n3,"太差, 真的",1,\r\n',
    ):
        (tmp_path / "a.csv").write_bytes(text.encode())
        result = read_reviews(tmp_path / "a.csv")
        assert (result.reviews, result.left_out) == ((GOOD, BAD), int("star" in text))


def test_quotes_are_characters_in_tab_separated_files(tmp_path: Path) -> None:
    """A quotation mark at the start of a tab-separated text does not swallow the next line."""
    (tmp_path / "a.tsv").write_text('label\ttext_a\n1\t"很好\n0\t太差\n', encoding="utf-8")
    assert [review.text for review in read_reviews(tmp_path / "a.tsv").reviews] == ['"很好', "太差"]


def test_bad_files_have_one_line(tmp_path: Path) -> None:
    """The message names the file and the line."""
    for text, says in (
        ("", "line 1 must name the columns label and text_a, or star and reviewbody"),
        ("label\ttext_a\n", "no review is positive or negative"),
        ("label\ttext_a\n1\t很好\n2\t太差\n", "line 3: the label '2' is not one of 1, 0"),
        ("star,reviewbody\n5,很好\n9,太差\n", "line 3: the label '9' is not one of 1, 2, 3, 4, 5"),
        ("label\ttext_a\n1\n", "line 2: no text"),
    ):
        (tmp_path / "a.csv").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=rf"a\.csv[^\n]*{says}[^\n]*$"):
            read_reviews(tmp_path / "a.csv")


def test_files_of_the_corpora_by_their_use(tmp_path: Path) -> None:
    """The names of the published files say whether they are for training, for the choice of a checkpoint or a test."""
    for name in [entry.file for entry in read_manifest() if entry.file.startswith("training/")]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("label\ttext_a\n1\t很好\n", encoding="utf-8")
    parts = review_files(tmp_path)
    assert {part: [file.name for file in files] for part, files in parts.items()} == {
        "training": ["training/asap/train.csv", "training/chnsenticorp/train.tsv"],
        "held out": ["training/asap/dev.csv", "training/chnsenticorp/dev.tsv"],
        "test": ["training/asap/test.csv", "training/chnsenticorp/test.tsv"],
    }


def test_even_odds_are_wrong() -> None:
    """A score on neither side is wrong; log odds decide where probabilities round to the same number."""
    scores = [Score(0.5), Score(0.5), Score(0.5, 1e-20), Score(0.5, -1e-20)]
    result = accuracy(list(zip([GOOD, BAD, GOOD, BAD], scores, strict=True)))
    assert (result.value, result.n) == (0.5, 4)
    assert result.low < 0.5 < result.high


def test_segmented_files(tmp_path: Path) -> None:
    """Spaces may be full-width and repeat; a byte-order mark, Windows line ends and empty lines are accepted.

    Messages name the file and the fix.
    """
    file = tmp_path / "x.utf8"
    with pytest.raises(DataError, match=r"x.utf8: cannot be read: No such file"):
        read_segmented(file)
    file.write_bytes("\ufeff時間　：　三月十日\u3000\r\n\r\n今天  天氣  好  \r\n".encode())
    assert read_segmented(file).lines == [["時間", "：", "三月十日"], ["今天", "天氣", "好"]]
    for raw, message in (
        (b"\n \n\xe3\x80\x80\n", "x.utf8: the file is empty; it must have one sentence per line"),
        ("今天  天气\n我们  很  好\n".encode("gbk"), r"x.utf8: not UTF-8: .*iconv -f GBK"),
        ("今天天气好\n我们都很高兴\n".encode(), "x.utf8: no spaces between words"),
    ):
        file.write_bytes(raw)
        with pytest.raises(DataError, match=message):
            read_segmented(file)
