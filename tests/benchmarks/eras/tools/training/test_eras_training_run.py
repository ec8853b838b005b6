"""A whole training of a segmenter: files, continuing, bad folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmprops.core.errors import UsageError
from tests.support.training import lines_said, needs_train, save_base, sentences, silent, write_corpus

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SegmenterOptions
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings

pytestmark = [needs_train, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


def prepared(folder: Path) -> tuple[SegmenterOptions, Settings]:
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SegmenterOptions
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings

    data = write_corpus(folder / "toy_training.utf8", sentences(80))
    gold = write_corpus(folder / "gold.utf8", sentences(90)[70:])
    options = SegmenterOptions(data=str(folder), base=str(save_base(folder / "base")), tests=[gold])
    assert data.is_file()
    settings = Settings(batch=8, epochs=3, learning_rate=5e-3, evaluations=3, threads=1)
    return options, settings


def test_result_is_a_model_with_card_and_curve(tmp_path: Path) -> None:
    """The folder has a model that segments, a card with hashes and scores, and a curve; a second run does nothing."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import load_segmenter, train_segmenter
    from pytest_llmprops.core.requests import Reply, Segment

    options, settings = prepared(tmp_path)
    said, say = lines_said()
    out = tmp_path / "out"
    train_segmenter(options, settings, out, say=say)
    assert {p.name for p in out.iterdir()} >= {
        "README.md", "config.json", "curve.csv", "curve.svg", "model.safetensors", "training.json",
    }  # fmt: skip
    assert not [*out.rglob("*.bin"), *out.rglob("*.pt"), *out.rglob("*.pth")]
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert record["complete"] is True
    assert record["training"]["steps"] == 3 * 9
    gold = next(row for row in record["scores"] if row["file"] == "gold.utf8")
    assert gold["f1_low"] <= gold["f1"] <= gold["f1_high"]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert all(hashed in card for _, _, hashed, _ in record["description"]["data"])
    assert "## Assumed" in card
    # 10 of the 20 lines of the gold file are training lines.
    assert any("10 training lines (12.5%) were left out" in line for line in said)
    [reply] = load_segmenter(out).segment([Segment("１９９８年的书")])
    assert isinstance(reply, Reply)
    assert "".join(reply.value) == "１９９８年的书"
    train_segmenter(options, settings, out, say=say)
    assert "nothing to do" in said[-1]


def test_other_settings_need_another_folder(tmp_path: Path) -> None:
    """A folder with other files, or with a training with other settings, is refused with one line."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import train_segmenter

    options, settings = prepared(tmp_path)
    other = write_corpus(tmp_path / "other.utf8", sentences(90)[80:])
    options, settings = replace(options, tests=[other]), replace(settings, epochs=0.2, evaluations=1)
    out = tmp_path / "out"
    said, say = lines_said()
    train_segmenter(options, settings, out, say=say)
    assert any("no training line is a line of other.utf8" in line for line in said)
    with pytest.raises(UsageError, match="a training with another settings"):
        train_segmenter(options, replace(settings, seed=1), out, say=silent)
    with pytest.raises(UsageError, match="there are other files"):
        train_segmenter(options, settings, tmp_path / "base", say=silent)
