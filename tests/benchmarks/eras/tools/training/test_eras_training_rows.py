"""Labels of characters, their alignment with tokens, long lines, and the batches of an epoch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.training.corpus import (
    LABELS,
    character_labels,
    fitting,
    labelled_rows,
    parts,
)
from pytest_llmprops.benchmarks.eras.tools.training.task import (
    IGNORED,
    EpochBatches,
    Progress,
    Row,
    Settings,
    is_stuck,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.hf.classifiers import cut_by_labels
from pytest_llmprops.models.hf.encoder import CharacterTokens


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
    assert [is_stuck(history, "f1", patience) for patience in (0, 1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
        False,
    ]


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
