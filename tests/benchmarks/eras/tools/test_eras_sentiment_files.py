"""Labelled sentiment files, and the accuracy on them."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.benchmarks.eras.tools.sentiment_files import Labelled, parse_labelled, sentiment_accuracy
from pytest_llmprops.core.errors import DataError

GOOD, BAD = Labelled("很好", True), Labelled("太差, 真的", False)


@pytest.mark.parametrize(
    "text",
    [
        "label\ttext_a\n1\t很好\n0\t太差, 真的\n",
        "qid\tlabel\ttext_a\n0\t1\t很好\n1\t0\t太差, 真的\n",
        '\ufefflabel,review\r\n1,很好\r\n0,"太差, 真的"\r\n',
        "1\t很好\n\n0\t太差, 真的",
        "很好\tpositive\n太差, 真的\tNegative\n",
        "sentence\tsentiment\n很好\t正面\n太差, 真的\t负面\n",
    ],
)
def test_formats(text: str) -> None:
    """Files with tabs or commas, with or without a header, and with number or word labels give the same
    rows.
    """
    assert parse_labelled(text, "x").rows == (GOOD, BAD)


def test_stars() -> None:
    """Of ASAP's stars, 4 and 5 are positive, 1 and 2 negative; 3 is left out, counted and mentioned in the
    note.
    """
    text = "id,review,star,Location#Transportation\n" + "".join(
        f"{i},第{i}家,{stars},1\n" for i, stars in enumerate(["5.0", "4", "3", "2", "1.0"])
    )
    result = parse_labelled(text, "asap.csv")
    assert [row.positive for row in result.rows] == [True, True, False, False]
    assert result.left_out == 1
    assert "3 left out" in result.note


def test_quotes_are_characters_in_tab_separated_files() -> None:
    """A quotation mark at the start of a tab-separated text does not swallow the next line."""
    result = parse_labelled('label\ttext\n1\t"很好\n0\t太差\n', "x")
    assert [row.text for row in result.rows] == ['"很好', "太差"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no rows"),
        ("\n\n", "no rows"),
        ("label\ttext\n", "positive or negative"),
        ("label\ttext\n1\t好\n7\t坏\n", "line 3: unknown label '7'"),
        ("label\ttext\n1\t好\n0\n", "line 3 has 1 fields"),
        ("label\ttext\n1\t \n", "line 2 has no text"),
        ("review,star\n好,6\n", "1 to 5 stars"),
        ("好\t坏\t一般\n", "add a header"),
        ("好\t坏\n", "add a header"),
        ('label,text\n1,"好\n', "line 2"),
    ],
)
def test_faults_give_one_line(text: str, says: str) -> None:
    """Each fault is a one-line error that names the file and the line."""
    with pytest.raises(DataError) as error:
        parse_labelled(text, "reviews.tsv")
    assert str(error.value).startswith("reviews.tsv: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_accuracy_and_ties() -> None:
    """An answer is correct on the label's side of even odds; a tie is wrong; the interval contains the
    value.
    """
    rows = [GOOD, BAD, GOOD, BAD, GOOD, BAD]
    scores = [Score(0.9), Score(0.9), Score(1.0, 1e-9), Score(0.5, -1e-20), Score(0.5), Score(0.5)]
    result = sentiment_accuracy(rows, scores)
    assert (result.correct, result.n, result.value) == (3, 6, 0.5)
    assert result.ci_low < 0.5 < result.ci_high
    with pytest.raises(ValueError, match="at least one"):
        sentiment_accuracy([], [])
    with pytest.raises(ValueError, match="shorter"):
        sentiment_accuracy(rows, scores[:2])
