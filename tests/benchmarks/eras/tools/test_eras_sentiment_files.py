"""Labelled sentences and reviews of ASAP and ChnSentiCorp: formats, training data, and the accuracy on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.benchmarks.eras.tools.sentiment_files import (
    Labelled,
    parse_labelled,
    read_reviews,
    sentiment_accuracy,
)
from pytest_llmprops.core.errors import DataError, UsageError
from tests.support.training import write_reviews

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
    """Files with tabs or commas, with or without a header, with numbers or words as labels give the same rows."""
    assert parse_labelled(text, "x").rows == (GOOD, BAD)


def test_stars() -> None:
    """Of ASAP's stars, 4 and 5 are positive, 1 and 2 negative; 3 is left out, counted and noted."""
    text = "index,reviewbody,star,location_traffic\n" + "".join(
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
    """An answer is correct on the label's side of even odds; a tie is wrong; the interval contains the value."""
    rows = [GOOD, BAD, GOOD, BAD, GOOD, BAD]
    scores = [Score(0.9), Score(0.9), Score(1.0, 1e-9), Score(0.5, -1e-20), Score(0.5), Score(0.5)]
    result = sentiment_accuracy(rows, scores)
    assert (result.correct, result.n, result.value) == (3, 6, 0.5)
    assert result.ci_low < 0.5 < result.ci_high
    with pytest.raises(ValueError, match="at least one"):
        sentiment_accuracy([], [])
    with pytest.raises(ValueError, match="shorter"):
        sentiment_accuracy(rows, scores[:2])


def asap(file: Path, *rows: tuple[str, int]) -> Path:
    """Write reviews in the format of ASAP: comma-separated, with stars and further columns."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f'{n},"{text}",{stars}.0,-2\n' for n, (text, stars) in enumerate(rows))
    file.write_text(f"id,review,star,Location#Transportation\n{lines}", encoding="utf-8")
    return file


def many(number: int, prefix: str = "好") -> list[tuple[str, int]]:
    return [(f"{prefix}{n}", n % 2) for n in range(number)]


def test_a_folder_of_both_corpora(tmp_path: Path) -> None:
    """Files are found at any depth by train, dev and test in their names; three stars are left out and counted."""
    asap(tmp_path / "asap" / "train.csv", ("很, 好", 5), ("一般", 3), ("很差", 1))
    asap(tmp_path / "asap" / "test.csv", ("不错", 4))
    write_reviews(tmp_path / "ChnSentiCorp" / "train.tsv", ("酒店好", 1))
    write_reviews(tmp_path / "ChnSentiCorp" / "dev.tsv", ("酒店差", 0))
    (tmp_path / "asap" / "training_notes.md").write_text("no data", encoding="utf-8")
    found = read_reviews([tmp_path])
    assert set(found.training) == {
        Labelled("很, 好", True),
        Labelled("很差", False),
        Labelled("酒店好", True),
    }
    assert list(found.held_out) == [Labelled("酒店差", False)]
    assert [test.name for test in found.tests] == ["asap/test.csv"]
    assert [(file.role, file.name, file.lines) for file in found.files] == [
        ("training", "ChnSentiCorp/train.tsv", 1), ("training", "asap/train.csv", 2),
        ("held out", "ChnSentiCorp/dev.tsv", 1), ("test", "asap/test.csv", 1),
    ]  # fmt: skip
    assert any(
        "asap/train.csv: 4 and 5 stars count as positive" in n and "1 review" in n for n in found.notes
    )


def test_test_and_held_out_reviews_are_not_trained_on(tmp_path: Path) -> None:
    """A training review that is also a test or held-out review is left out, and so is a held-out test review."""
    write_reviews(tmp_path / "train.tsv", *many(10), ("同", 1), ("共", 1))
    write_reviews(tmp_path / "dev.tsv", ("共", 1), ("两", 0), ("同", 1))
    write_reviews(tmp_path / "test.tsv", ("同", 1))
    found = read_reviews([tmp_path])
    assert {row.text for row in found.training} == {text for text, _ in many(10)}
    assert {row.text for row in found.held_out} == {"共", "两"}
    assert any(note == "1 training review (8.3%) left out: also a test review" for note in found.notes)


def test_a_file_is_divided_with_the_seed(tmp_path: Path) -> None:
    """Without a dev file, a share of the training file is held out; the seed chooses it."""
    file = write_reviews(tmp_path / "reviews.tsv", *many(40))
    first, same, other = (read_reviews([file], held_out=0.25, seed=seed) for seed in (0, 0, 1))
    assert (len(first.training), len(first.held_out)) == (30, 10)
    assert not {*first.training} & {*first.held_out}
    assert first.held_out == same.held_out
    assert set(first.held_out) != set(other.held_out)


def test_held_out_reviews_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large dev file is sampled, because every evaluation scores all held-out reviews."""
    monkeypatch.setattr("pytest_llmprops.benchmarks.eras.tools.sentiment_files.MOST_HELD_OUT", 5)
    write_reviews(tmp_path / "train.tsv", *many(10))
    write_reviews(tmp_path / "dev.tsv", *many(30, "差"))
    assert len(read_reviews([tmp_path]).held_out) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file has no rows"),
        ("label\ttext_a\n1\t好\n2\t差\n".encode(), "line 3: unknown label '2'"),
        ("label\ttext_a\n1\t好\n".encode("gbk"), "UTF-8"),
        ("label\ttext_a\n1\t好\n1\t棒\n1\t妙\n".encode(), "all training reviews have the same label"),
        ("label\ttext_a\n1\t好\n".encode(), "too few reviews"),
    ],
)
def test_unusable_files_are_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    """A file that cannot be trained on is one line that says why."""
    file = tmp_path / "train.tsv"
    file.write_bytes(content)
    with pytest.raises((DataError, UsageError), match=message) as raised:
        read_reviews([file])
    assert "\n" not in str(raised.value)


def test_folder_without_training_files(tmp_path: Path) -> None:
    """The message says how the files must be named."""
    write_reviews(tmp_path / "test.tsv", *many(4))
    with pytest.raises(UsageError, match="a folder needs files with train in their names"):
        read_reviews([tmp_path])
    with pytest.raises(DataError, match="cannot be read"):
        read_reviews([tmp_path / "missing.tsv"])
