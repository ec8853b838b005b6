"""Continued pre-training: whole words are masked together, resuming, and the result as a base."""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.training.encoder import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.wwm import Masking, WwmOptions, WwmTask, train_wwm
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.training.task import IGNORED, Row
from tests.support.training import WORDS, lines_said, needs_train, save_base, sentences, settings_of, silent

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
#: Ten words: five of two tokens, then five of one; special tokens around them.
WORDS_OF = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9]
ROW = Row([2, *range(100, 115), 3], [IGNORED, *WORDS_OF, IGNORED])


def masked_often(whole_words: bool, rate: float) -> list[tuple[list[int], list[int]]]:
    masking = Masking(whole_words=whole_words, rate=rate, mask=4, vocabulary=1000)
    choice = random.Random(0)
    return [masking.masked(ROW, choice) for _ in range(2000)]


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_a_words_tokens_are_masked_together(rate: float) -> None:
    """With whole words, a word is chosen entirely or not at all; without, words are often chosen in part."""
    parts = {}
    for whole_words in (True, False):
        parts[whole_words] = 0
        for _, labels in masked_often(whole_words, rate):
            chosen = Counter(WORDS_OF[place - 1] for place, label in enumerate(labels) if label != IGNORED)
            assert labels[0] == labels[-1] == IGNORED, "special tokens are never chosen"
            parts[whole_words] += any(count == 1 for word, count in chosen.items() if word < 5)
    assert parts[True] == 0
    assert parts[False] > 500


@pytest.mark.parametrize("whole_words", [True, False])
def test_share_and_replacement_of_masked_tokens(whole_words: bool) -> None:
    """Of the share that is chosen, 80% are the mask, 10% random, 10% unchanged (standard errors below 0.5 points)."""
    rows = masked_often(whole_words, 0.2)
    places = [(ids[k], labels[k], ROW.ids[k]) for ids, labels in rows for k in range(len(ids))]
    chosen = [(now, before) for now, label, before in places if label != IGNORED]
    assert all(now == before for now, label, before in places if label == IGNORED)
    assert all(label == before for _, label, before in places if label != IGNORED)
    assert len(chosen) / (2000 * 15) == pytest.approx(0.2, abs=0.02)
    assert sum(now == 4 for now, _ in chosen) / len(chosen) == pytest.approx(0.8, abs=0.02)
    assert sum(now == before for now, before in chosen) / len(chosen) == pytest.approx(0.1, abs=0.02)


def test_at_least_one_word_is_masked() -> None:
    """A row of one long word is masked, although that is more than the share."""
    row = Row([2, 10, 11, 12, 3], [IGNORED, 0, 0, 0, IGNORED])
    masking = Masking(whole_words=True, rate=0.15, mask=4, vocabulary=99)
    assert masking.masked(row, random.Random(1)).labels == [IGNORED, 10, 11, 12, IGNORED]


def options(folder: Path, **more: Any) -> WwmOptions:
    """Return options with a small corpus, a list of words as segmenter and a small base."""
    corpus, words = folder / "corpus.txt", folder / "words.txt"
    if not corpus.exists():
        corpus.write_text("".join("".join(line) + "\n" for line in sentences(120)), encoding="utf-8")
        words.write_text("\n".join(WORDS), encoding="utf-8")
        save_base(folder / "base")
    values: dict[str, Any] = {
        "corpus": corpus,
        "segmenter": f"maxmatch:{words}",
        "base": str(folder / "base"),
        "held_out": 0.1,
    }
    return WwmOptions(**(values | more))


SETTINGS = settings_of(epochs=2, learning_rate=5e-3)


@needs_train
def test_masks_follow_the_segmenter_and_change_between_epochs(tmp_path: Path) -> None:
    """Rows have the segmenter's words; the same batch has the same masks, and another batch of a row has others."""
    encoder, lines = Encoder(options(tmp_path).base, window=64), [["学生", "有", "图书馆"], ["老师", "。"]]
    task = WwmTask(encoder, lines, [], whole_words=True, rate=0.15, seed=0)
    assert list(task.rows[0].labels) == [IGNORED, 0, 0, 1, 2, 2, 2, IGNORED]
    rows = [task.rows[0]] * 20
    same = [task.collate(rows)["labels"].tolist() for _ in range(2)]
    assert same[0] == same[1]
    assert len({tuple(labels) for labels in same[0]}) > 1
    assert task.collate(rows[:19])["labels"].tolist() != same[0][:19]


@needs_train
def test_result_is_a_base(tmp_path: Path) -> None:
    """Masked words are restored better than before, and the folder is a base for another training."""
    out = tmp_path / "out"
    said, say = lines_said()
    train_wwm(options(tmp_path), replace(SETTINGS, epochs=20, evaluations=2), out, say=say)
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    [held_out] = record["scores"]
    characters = Counter(c for line in sentences(120) for word in line for c in word)
    # Better than a guess of the most frequent character.
    assert held_out["accuracy"] > 1.5 * max(characters.values()) / characters.total()
    curve = (out / "curve.csv").read_text(encoding="utf-8").splitlines()
    losses = [float(row["loss"]) for row in csv.DictReader(curve) if row["loss"]]
    assert losses[-1] < 0.9 * losses[0]
    assert held_out["accuracy"] == held_out["accuracy_words"]
    assert 0 <= held_out["accuracy_characters"] <= 1
    assert record["description"]["options"]["masking"] == "whole words"
    assert any("12 lines are held out" in line for line in said)
    base = Encoder(str(out), window=64)
    first, second = (
        base.load(name).bert.embeddings.word_embeddings.weight
        for name in ("AutoModelForSequenceClassification", "AutoModelForMaskedLM")
    )
    assert bool((first == second).all())


@needs_train
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0.0}, "--rate must be between 0 and 1"),
        ({"window": 2}, "--window must be at least 8"),
        ({"segmenter": "fake:echo"}, "--segmenter fake:echo"),
        ({"corpus": Path("/no/such/file")}, "cannot be read"),
        ({"corpus": Path(os.devnull)}, "0 lines of text; it must have one sentence per line"),
    ],
)
def test_options_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A wrong option is one line that names it, before anything is trained."""
    with pytest.raises((UsageError, DataError), match=message) as raised:
        train_wwm(options(tmp_path, **change), SETTINGS, tmp_path / "out", say=silent)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()
