"""The ERAS commands of `llmprops`: sets that the suites can read, scores, sentiment accuracy and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.eras.benchmark import Eras
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.data.files import DataFolder, read_manifest


def run(*words: object) -> int:
    return main([str(word) for word in words])


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line on standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def test_a_generated_set_can_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`generate eras` writes a folder for --llm-data, with exactly the requested pairs."""
    assert run("generate", "eras", "--total", 100, "--seed", 4, "--out", tmp_path) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    source = DataFolder(tmp_path, "published").source_for("eras")
    folder = DataFolder(tmp_path, source)
    part = loaded(Eras(), folder)
    assert source == "generated"
    assert len(part.items) == 200
    assert folder.verify(read_manifest()) == []


def test_published_templates_can_be_filled(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`generate eras --templates DIR` fills the authors' templates."""
    assert run("generate", "eras", "--pairs", 2, "--templates", published, "--out", tmp_path) == 0
    pairs = [i["pair"] for i in loaded(Eras(), DataFolder(tmp_path, "generated")).items]
    assert len(pairs) == 156
    assert "信心机" in pairs[0].test


def test_human_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`eras annotate` writes sheets and the key; `eras score` names the sheet that is not filled in."""
    assert run("eras", "annotate", "--annotators", 2, "--per-paradigm", 1, "--out", tmp_path) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"annotator_1.csv", "annotator_2.csv", "key.json"}
    capsys.readouterr()
    assert run("eras", "score", tmp_path) == 2
    assert "annotator_1.csv" in one_error(capsys)


def test_candidates_for_paradigms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`eras mine` prints overlapping words of a lexicon; a lexicon in GBK is a one-line error."""
    pytest.importorskip("jieba")
    lexicon = tmp_path / "lexicon.csv"
    lexicon.write_text("用心,0.8,5,0,0,0,0\n心虚,-0.8,0,0,5,0,0\n", encoding="utf-8")
    assert run("eras", "mine", "--lexicon", lexicon) == 0
    assert "用心虚" in capsys.readouterr().out
    lexicon.write_bytes("用心,0.8,5,0,0,0,0\n".encode("gbk"))
    assert run("eras", "mine", "--lexicon", lexicon) == 2
    assert "GBK" in one_error(capsys)


def labelled(folder: Path, text: str = "label\ttext_a\n1\t很好\n0\t不好\n1\t不错\n") -> Path:
    file = folder / "reviews.tsv"
    file.write_text(text, encoding="utf-8")
    return file


def test_sentiment_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`eras sentiment-accuracy` counts a model's correct answers, reports how they were obtained, and writes
    rows.
    """
    out = tmp_path / "rows.json"
    model = "fake:constant?text=A"
    assert run("eras", "sentiment-accuracy", labelled(tmp_path), "--model", model, "--out", out) == 0
    line = capsys.readouterr().out
    assert line.startswith("reviews.tsv: 66.7 [")
    assert "3 texts by sampling" in line
    [row] = json.loads(out.read_text(encoding="utf-8"))
    assert (row["correct"], row["n"], row["errors"], row["scored_by"]) == (2, 3, 0, ["sampling"])


def test_model_without_answers_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that never answers gives a one-line error instead of an accuracy."""
    model = "fake:constant?text=嗯"
    assert run("eras", "sentiment-accuracy", labelled(tmp_path), "--model", model) == 2
    assert "no text could be scored: no answer was read" in one_error(capsys)


@pytest.mark.parametrize(
    ("text", "model", "said"),
    [
        ("label\ttext_a\n7\t很好\n", "fake:echo", "line 2: unknown label '7'"),
        ("score\twords\n1\t很好\n", "fake:echo", "names no text and label columns"),
        ("label\ttext_a\n1\t很好\n", "maxmatch:words.txt", "sentiment classifier"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, model: str, said: str
) -> None:
    """Labels, columns and models that do not fit are a one-line error before any request is sent."""
    assert run("eras", "sentiment-accuracy", labelled(tmp_path, text), "--model", model) == 2
    assert said in one_error(capsys)


def test_labelled_file_in_gbk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error for a labelled file in GBK says that the file is in GBK."""
    file = tmp_path / "gbk.tsv"
    file.write_bytes("label\ttext_a\n1\t很好\n".encode("gbk"))
    assert run("eras", "sentiment-accuracy", file, "--model", "fake:echo") == 2
    assert "GBK" in one_error(capsys)


def test_segmentation_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`segment score` prints counts and rates, and those of unknown words if training words are given."""
    gold, guess, words = (tmp_path / name for name in ("gold", "guess", "words"))
    gold.write_text("学生 留 心机\n很 好\n", encoding="utf-8")
    guess.write_text("学生 留心 机\n很 好\n", encoding="utf-8")
    words.write_text("学生 很 好 留", encoding="utf-8")
    assert run("segment", "score", "--gold", gold, "--pred", guess, "--train-words", words) == 0
    shown = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (shown["precision"], shown["recall"], shown["OOV recall"]) == ("0.6000", "0.6000", "0.0000")
    guess.write_text("学生 留心\n很 好\n", encoding="utf-8")
    assert run("segment", "score", "--gold", gold, "--pred", guess) == 2
    assert "dropped '机'" in one_error(capsys)
